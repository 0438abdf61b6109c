"""LibreTranslate's API, for the many clients that speak it: /translate, /languages, /detect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from zoo.data.languages import language_name
from zoo.serving.body import read_form
from zoo.serving.checkpoints import Served
from zoo.serving.errors import KeyRequiredError, RequestError, TooLargeError
from zoo.serving.http import key_of, while_connected
from zoo.serving.markup import Markup
from zoo.serving.schema import DetectRequest, LibreTranslateRequest
from zoo.serving.service import Service

SURELY = 4.0
"""How many times as probable as the others a text's target language must be to be its own."""


class LibreTranslate:
    """The handlers; `has_key` says whether an API key is the server's."""

    def __init__(self, service: Service, has_key: Callable[[str], bool]) -> None:
        self.service, self.has_key = service, has_key

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts from one language to another."""
        service = self.service
        asked = await read_form(LibreTranslateRequest, request, service.limits)
        self._check_key(request, asked.api_key)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        service.check_texts(texts)
        options = {"beam": asked.alternatives + 1, "n_best": asked.alternatives + 1}
        given = options if asked.alternatives else {}
        work = self._translated(texts, asked.source, asked.target, given, asked.format == "html")
        answer = await while_connected(request, service.in_time(work))
        if isinstance(asked.q, str):
            answer = {key: values[0] for key, values in answer.items()}
        return JSONResponse(answer)

    async def detect(self, request: Request) -> Response:
        """Name the source languages that a text may be in, the most probable first."""
        service = self.service
        asked = await read_form(DetectRequest, request, service.limits)
        self._check_key(request, asked.api_key)
        service.check_texts([asked.q])
        (detections,) = await while_connected(request, service.detect([asked.q]))
        return JSONResponse(detections)

    async def languages(self, request: Request) -> Response:
        """List source languages and what each can be translated into."""
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": targets}
                for code, targets in self.service.checkpoints.offered.items()
            ]
        )

    async def settings(self, request: Request) -> Response:
        """Return the settings that clients read first."""
        languages = (served.default[1] for served in self.service.checkpoints.values())
        target = next((code for code in languages if code), "")
        return JSONResponse(
            {
                "language": {
                    "source": {"code": "auto", "name": "Auto Detect"},
                    "target": {"code": target, "name": language_name(target)},
                },
                "apiKeys": not self.has_key(""),
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 500,
                "keyRequired": not self.has_key(""),
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    def _check_key(self, request: Request, in_body: str | None) -> None:
        if not self.has_key(in_body or key_of(request.headers)):
            raise KeyRequiredError("the API key is missing or wrong", "", "Send it as api_key")

    async def _translated(
        self, texts: list[str], source: str, target: str, options: dict[str, Any], is_html: bool
    ) -> dict[str, list[Any]]:
        """Return the lists that LibreTranslate's answer consists of."""
        documents = await self._parsed(texts) if is_html else []
        pieces = [one.texts for one in documents] if is_html else [[text] for text in texts]
        flat = [piece for part in pieces for piece in part]
        self.service.check_texts(flat)
        client, detected = object(), []
        if source == "auto":
            detected = await self._detected([" ".join(part) for part in pieces], target, client)
        of_text = [one["language"] for one in detected] or [source] * len(texts)
        sources = [language for language, part in zip(of_text, pieces, strict=True) for _ in part]
        made = iter(await self._made(flat, sources, target, options, client))
        results = [[next(made) for _ in part] for part in pieces]

        def whole(number: int, rank: int) -> str:
            """Return a text's translation of a rank; a part without it has its last."""
            ranked = [[one["text"], *(o["text"] for o in one["alternatives"])]
                      for one in results[number]]  # fmt: skip
            chosen = [part[min(rank, len(part) - 1)] for part in ranked]
            return documents[number].filled(chosen) if is_html else chosen[0]

        answer: dict[str, list[Any]] = {
            "translatedText": [whole(number, 0) for number in range(len(texts))]
        }
        if detected:
            answer["detectedLanguage"] = detected
        if options:
            counts = [max((len(one["alternatives"]) for one in part), default=0)
                      for part in results]  # fmt: skip
            answer["alternatives"] = [
                [whole(number, rank) for rank in range(1, count + 1)]
                for number, count in enumerate(counts)
            ]
        return answer

    async def _parsed(self, texts: list[str]) -> list[Markup]:
        """Return HTML, parsed.

        Raises:
            TooLargeError: it is too long altogether.
        """
        most = self.service.limits.characters
        if sum(map(len, texts)) > most:
            raise TooLargeError("the HTML is too long", f"{most:,} characters are the most")
        return await asyncio.to_thread(lambda: [Markup(text) for text in texts])

    async def _detected(
        self, texts: Sequence[str], target: str, client: object
    ) -> list[dict[str, Any]]:
        """Return the most probable language of each text that can be translated to the target.

        It is the target itself if that is far more probable, as the text then stays as it is, and
        the most probable of all if none can be translated; an empty text has none.
        """
        detected = [{"language": "", "confidence": 0.0} for _ in texts]
        rows = [number for number, text in enumerate(texts) if text.strip()]
        if not rows:
            return detected
        ranked = await self.service.detect([texts[number] for number in rows], client)
        known = {one["language"] for languages in ranked for one in languages}
        translating = self.service.checkpoints.translating
        possible = {language for language in known if translating(language, target)}
        stays = self._stays(target)
        for number, languages in zip(rows, ranked, strict=True):
            fitting = [one for one in languages if one["language"] in possible] or languages
            own = [one for one in languages if stays and one["language"] == target]
            surely = own and own[0]["confidence"] > SURELY * fitting[0]["confidence"]
            detected[number] = (own if surely else fitting)[0]
        return detected

    async def _made(
        self,
        texts: list[str],
        sources: list[str],
        target: str,
        options: dict[str, Any],
        client: object,
    ) -> list[Any]:
        """Return the translation of each text from its own language."""
        made: list[Any] = [{"text": "", "alternatives": []} for _ in texts]
        for language in dict.fromkeys(sources):
            if not language:  # an empty text has no language, and an empty translation
                continue
            rows = [number for number, one in enumerate(sources) if one == language]
            if language == target and self._stays(language):
                for number in rows:
                    made[number] = {"text": texts[number], "alternatives": []}
                continue
            served, languages = self._served(language, target)
            chosen = {**options, "beam": max(options["beam"], served.beam)} if options else {}
            translations = await self.service.translate(
                served, [texts[n] for n in rows], chosen, languages=languages, client=client
            )
            for number, one in zip(rows, translations, strict=True):
                made[number] = json.loads(one)
        return made

    def _stays(self, language: str) -> bool:
        """Return whether a text stays as it is if this language is its source and its target."""
        checkpoints = self.service.checkpoints
        known = {code for one in checkpoints.values() for side in one.languages for code in side}
        return language in known and language not in checkpoints.offered.get(language, ())

    def _served(self, source: str, target: str) -> tuple[Served, tuple[str, str]]:
        translating = self.service.checkpoints.translating(source, target)
        if translating is None:
            # LibreTranslate answers with this status too.
            raise RequestError(
                f"no checkpoint translates {source[:20]!r} to {target[:20]!r}",
                "",
                "GET /languages lists what there is",
            )
        return translating
