"""LibreTranslate's API, for the many clients that speak it: /translate, /languages, /detect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from zoo.serving.checkpoints import Served
from zoo.serving.errors import KeyRequiredError, RequestError, UnknownCheckpointError
from zoo.serving.http import key_of, parse_form, read_body, while_connected
from zoo.serving.languages import language_name
from zoo.serving.schema import DetectRequest, LibreTranslateRequest
from zoo.serving.service import Service


class LibreTranslate:
    """The handlers; `has_key` says whether an API key is the server's."""

    def __init__(self, service: Service, has_key: Callable[[str], bool]) -> None:
        self.service, self.has_key = service, has_key

    async def translate(self, request: Request) -> Response:
        """Translate a text or a list of texts from one language to another."""
        service = self.service
        asked = parse_form(LibreTranslateRequest, request, await read_body(request, service.limits))
        self._check_key(request, asked.api_key)
        if asked.format != "text":
            raise RequestError(f"format {asked.format[:20]!r} is not supported", "only text is")
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        service.check_texts(texts)
        options = {"beam": asked.alternatives + 1, "n_best": asked.alternatives + 1}
        given = options if asked.alternatives else {}
        work = self._translated(texts, asked.source, asked.target, given)
        answer = await while_connected(request, work)
        if isinstance(asked.q, str):
            answer = {key: values[0] for key, values in answer.items()}
        return JSONResponse(answer)

    async def detect(self, request: Request) -> Response:
        """Name the source languages that a text may be in, the most probable first."""
        service = self.service
        asked = parse_form(DetectRequest, request, await read_body(request, service.limits))
        self._check_key(request, asked.api_key)
        service.check_texts([asked.q])
        return JSONResponse(await while_connected(request, service.detect(asked.q)))

    async def languages(self, request: Request) -> Response:
        """List source languages and what each can be translated into."""
        targets: dict[str, list[str]] = {}
        for source, target in (s.languages for s in self.service.checkpoints.values()):
            if source and target not in targets.setdefault(source, []):
                targets[source].append(target)
        return JSONResponse(
            [
                {"code": code, "name": language_name(code), "targets": codes}
                for code, codes in sorted(targets.items())
            ]
        )

    async def settings(self, request: Request) -> Response:
        """Return the settings that clients read first."""
        return JSONResponse(
            {
                "apiKeys": not self.has_key(""),
                "charLimit": self.service.limits.characters,
                "frontendTimeout": 500,
                "keyRequired": not self.has_key(""),
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    def _check_key(self, request: Request, in_body: str) -> None:
        if not self.has_key(in_body or key_of(request.headers)):
            raise KeyRequiredError("the API key is missing or wrong", "", "Send it as api_key")

    async def _translated(
        self, texts: list[str], source: str, target: str, options: dict[str, Any]
    ) -> dict[str, list[Any]]:
        """Return the lists that LibreTranslate's answer consists of."""
        detected: list[dict[str, Any]] = []
        sources = [source] * len(texts)
        if source == "auto":
            for number, text in enumerate(texts):
                detected_languages = await self.service.detect(text) if text.strip() else []
                best: dict[str, Any] = (
                    detected_languages[0]
                    if detected_languages
                    else {"language": "", "confidence": 0.0}
                )
                detected.append(best)
                sources[number] = best["language"]
        made: list[Any] = [None] * len(texts)
        for language in dict.fromkeys(sources):
            rows = [number for number, one in enumerate(sources) if one == language]
            if not language:  # an empty text has no language, and an empty translation
                for number in rows:
                    made[number] = {"text": "", "alternatives": []}
                continue
            served = self._served(language, target)
            chosen = {**options, "beam": max(options["beam"], served.beam)} if options else {}
            translations = await self.service.translate(served, [texts[n] for n in rows], chosen)
            for number, one in zip(rows, translations, strict=True):
                made[number] = one
        answer: dict[str, list[Any]] = {"translatedText": [one["text"] for one in made]}
        if detected:
            answer["detectedLanguage"] = detected
        if options:
            answer["alternatives"] = [[o["text"] for o in one["alternatives"]] for one in made]
        return answer

    def _served(self, source: str, target: str) -> Served:
        served = self.service.checkpoints.translating(source, target)
        if served is None:
            raise UnknownCheckpointError(
                f"no checkpoint translates {source[:20]!r} to {target[:20]!r}",
                "",
                "GET /languages lists what there is",
            )
        return served
