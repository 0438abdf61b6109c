"""The handlers of our own API, under /api/."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from zoo.data.languages import find_language
from zoo.errors import ZooError
from zoo.serving.body import parse, read_body
from zoo.serving.checkpoints import Served
from zoo.serving.descriptions import details, of_languages, summary
from zoo.serving.errors import CheckpointGoneError, QueueFullError, RequestError
from zoo.serving.http import sse, while_connected
from zoo.serving.schema import (
    TREE_BEAM,
    AttentionRequest,
    ScoreRequest,
    StreamRequest,
    TranslateRequest,
    TreeRequest,
)
from zoo.serving.service import Service, check_lengths, need_text
from zoo.translation.sentences import (
    Lines,
    Split,
    make_splitter,
    positions,
    split_sentences,
    usual_splitter,
)

STREAM_WINDOW = 32
"""Pieces of a stream that are translated at once."""

SHOWN_CHARACTERS = 1_000
"""The longest text whose attention or search is shown."""


class Api:
    """The handlers; each takes a request and returns a response or raises a RequestError."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def translate(self, request: Request) -> Response:
        """Translate texts."""
        service = self.service
        asked = parse(TranslateRequest, await read_body(request, service.limits))
        service.check_texts(asked.texts)
        served = service.checkpoints.named(asked.checkpoint)
        work = service.translate(
            served, asked.texts, asked.options(), languages=asked.languages(),
            token_scores=asked.token_scores,
        )  # fmt: skip
        return listed("translations", await while_connected(request, work))

    async def stream(self, request: Request) -> Response:
        """Translate a long text piece by piece, as server-sent events."""
        service = self.service
        asked = parse(StreamRequest, await read_body(request, service.limits))
        check_lengths([asked.text], service.limits.stream_characters, "Send it in parts")
        served = service.checkpoints.named(asked.checkpoint)
        # A splitter takes long for a long text, or to load.
        pieces = await asyncio.to_thread(
            lambda: split_pieces(asked.text, self._splitter(served, asked))
        )
        check_lengths(
            [piece for _, piece in pieces], service.limits.characters, "Break its line", "sentence"
        )
        events = self._events(served, pieces, asked)
        # What fails before the first event gets its own status.
        first = await while_connected(request, _next(events))
        unbuffered = {"X-Accel-Buffering": "no"}  # nginx would wait for the end
        return StreamingResponse(_following(first, events), 200, unbuffered, "text/event-stream")

    async def score(self, request: Request) -> Response:
        """Score given translations."""
        service = self.service
        asked = parse(ScoreRequest, await read_body(request, service.limits))
        for side in zip(*asked.pairs, strict=True):
            service.check_texts(side)
        served = service.checkpoints.named(asked.checkpoint)
        lengths = [sum(map(len, pair)) for pair in asked.pairs]
        work = service.run(
            "score", served, asked.pairs, lengths=lengths, languages=asked.languages()
        )
        return listed("scores", await while_connected(request, work))

    async def attention(self, request: Request) -> Response:
        """Return the attention of writing a translation."""
        asked = parse(AttentionRequest, await read_body(request, self.service.limits))
        if asked.target is not None:
            check_lengths([asked.target], SHOWN_CHARACTERS, what="target")
        more = {"target": asked.target, "options": asked.options()}
        return await self._shown(request, "attention", asked, more)

    async def tree(self, request: Request) -> Response:
        """Return a beam search as a tree."""
        asked = parse(TreeRequest, await read_body(request, self.service.limits))
        recommended = min(self.service.checkpoints.named(asked.checkpoint).beam, TREE_BEAM)
        more = {"options": {"beam": recommended, **asked.options()}}
        return await self._shown(request, "tree", asked, more)

    async def models(self, request: Request) -> Response:
        """List the checkpoints."""
        summaries = await asyncio.to_thread(self._summaries)
        return JSONResponse({"models": summaries})

    async def model(self, request: Request) -> Response:
        """Describe one checkpoint."""
        served = self.service.checkpoints.named(request.path_params["name"])
        try:
            about = await asyncio.to_thread(details, served, self.service.checkpoints.registry)
        except ZooError as error:
            raise CheckpointGoneError(error.what, error.why, error.next) from None
        return JSONResponse(about)

    # --- inside ---------------------------------------------------------------------------------

    def _summaries(self) -> list[dict[str, Any]]:
        summaries = []
        for served in self.service.checkpoints.values():
            try:
                summaries.append(summary(served, self.service.checkpoints.registry))
            except ZooError as error:
                summaries.append(
                    {
                        "name": served.name,
                        "model": "",
                        "architecture": "",
                        "summary": "",
                        **of_languages(served),
                        "parameters": 0,
                        "problem": str(error),
                    }
                )
        return summaries

    def _splitter(self, served: Served, asked: StreamRequest) -> Split:
        """Return what splits a stream's text.

        Raises:
            RequestError: there is no such splitter, or it is broken.
        """
        language = next(iter(served.about.source_languages), "")
        try:
            if asked.source_lang:
                language = find_language(asked.source_lang, served.sources)
            single, whole = served.about.single_words, served.about.reads_whole
            usual = usual_splitter([language], single_words=single, reads_whole=whole)
            named = (asked.splitter or usual) if asked.split else ""
            if not named:
                return Lines(language)
            return make_splitter(named, language, self.service.checkpoints.registry)
        except ZooError as error:
            raise RequestError(error.what, error.why, error.next) from None

    async def _shown(
        self,
        request: Request,
        operation: str,
        asked: AttentionRequest | TreeRequest,
        more: dict[str, Any],
    ) -> Response:
        service, text = self.service, asked.text
        need_text(text)
        check_lengths([text], SHOWN_CHARACTERS)
        served, more["languages"] = service.checkpoints.named(asked.checkpoint), asked.languages()
        work = service.run(operation, served, [text], lengths=[len(text)], width=2, **more)
        (answer,) = await while_connected(request, work)
        return Response(answer, media_type=JSONResponse.media_type)

    async def _events(
        self, served: Served, pieces: list[tuple[int, str]], asked: StreamRequest
    ) -> AsyncIterator[bytes]:
        """Yield the translations of pieces in order; a few are translated ahead.

        Raises:
            RequestError: the first piece failed; a later failure is an event.
        """
        service = self.service
        waiting: list[tuple[int, str, asyncio.Task[list[bytes]]]] = []
        left, begun = iter(pieces), False
        translate = functools.partial(
            service.translate, served, options=options_of_pieces(served, asked),
            languages=asked.languages(), client=object(),
        )  # fmt: skip
        try:
            while True:
                while len(waiting) < STREAM_WINDOW and (piece := next(left, None)) is not None:
                    work = translate([piece[1]])
                    waiting.append((*piece, asyncio.ensure_future(work)))
                if not waiting:
                    break
                start, text, task = waiting.pop(0)
                try:
                    (given,) = await task
                except QueueFullError:
                    if not begun:
                        raise
                    given = await self._when_there_is_room(functools.partial(translate, [text]))
                made = json.loads(given)
                answer = {"start": start, "source": text, "text": made["text"]}
                yield sse("piece", {**answer, "score": made["score"]})
                begun = True
                await asyncio.sleep(0)  # the next may be ready; first see that the client left
            yield sse("done", {"pieces": len(pieces)})
        except RequestError as error:
            if not begun:
                raise
            yield sse("error", error.body())
        finally:
            for _, _, task in waiting:
                task.cancel()

    async def _when_there_is_room(self, translate: Callable[[], Awaitable[list[bytes]]]) -> bytes:
        """Return a piece's translation; a stream that has begun waits for the queue.

        Raises:
            RequestError: the queue stays full for as long as a request may take, or it failed.
        """
        end = time.monotonic() + self.service.limits.request_seconds
        while True:
            try:
                return (await translate())[0]
            except QueueFullError as error:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(error.retry_after or 1)


async def _next(events: AsyncIterator[bytes]) -> bytes:
    return await anext(events)


async def _following(first: bytes, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for event in events:
        yield event


def listed(name: str, values: Sequence[bytes]) -> Response:
    """Return a list of JSON values as an answer."""
    body = b'{"%b":[%b]}' % (name.encode(), b",".join(values))
    return Response(body, media_type=JSONResponse.media_type)


def options_of_pieces(served: Served, asked: StreamRequest) -> dict[str, Any]:
    """Return the options for each piece: a sentence, or a line whose tag names its language."""
    by_task = asked.split and served.about.tasks
    return asked.options() | ({"splitter": asked.splitter} if by_task else {})


def split_pieces(text: str, split: Split) -> list[tuple[int, str]]:
    """Return a text's sentences with their positions.

    The pieces cover every character of the text but white space.

    Raises:
        RequestError: the splitter is broken.
    """
    try:
        pieces = split_sentences(text, split)
    except ZooError as error:
        raise RequestError(error.what, error.why, error.next) from None
    with_marks = []
    for start, piece in zip(positions(pieces), pieces, strict=True):
        mark = piece.space.lstrip()
        with_marks.append((start - len(mark), mark + piece.text))
    return with_marks
