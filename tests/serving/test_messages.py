"""Requests as they arrive on a connection: their parts, their codings, and their faults."""

import asyncio
import json
import socket
import threading
import time
from typing import Any

import pytest
from starlette.requests import Request

from tests.serving.client import Running, start
from tests.serving.conftest import CARDS, NUMBERS
from zoo.serving.body import LONG_FORM, parse, read_form
from zoo.serving.errors import RequestError
from zoo.serving.limits import Limits
from zoo.serving.metrics import Metrics
from zoo.serving.schema import (
    DetectRequest,
    LibreTranslateRequest,
    ScoreRequest,
    Strict,
    TranslateRequest,
)
from zoo.serving.server import LimitedProtocol
from zoo.serving.server import server as server_of

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n"
WITH_BODY = POST + b"Content-Length: 4\r\n\r\n"


def received(server: Running, parts: list[bytes], seconds: float) -> tuple[bytes, bool]:
    """Return what arrives within a time after the last part, and whether the connection is open."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            one.sendall(part)
            time.sleep(0.1)  # so that it arrives alone
        end, answers = time.monotonic() + seconds, b""
        while (left := end - time.monotonic()) > 0:
            one.settimeout(left)
            try:
                part = one.recv(65_536)
            except TimeoutError:
                break
            if not part:
                return answers, False
            answers += part
        return answers, True


def test_a_request_may_arrive_in_any_parts() -> None:
    fast = ("--head-seconds", "0.7", "--workers", "1")
    with start(str(CARDS / NUMBERS), *fast, forked=True) as server:
        # The end of the head alone; a line after the request; the body after the answer.
        for parts in ([GET, b"\r\n"], [GET + b"\r\n", b"\r\n"], [WITH_BODY, b"{}", b"{}"]):
            answers, is_open = received(server, parts, 1.5)
            assert answers.count(b"HTTP/1.1 ") == 1, parts
            assert is_open
            answers, _ = received(server, [*parts, GET + b"\r\n"], 0.5)
            assert answers.count(b"HTTP/1.1 ") == 2, parts
            assert answers.endswith(b'{"status":"ok"}')
        # A body that never ends is no longer waited for, and is not answered twice.
        answers, is_open = received(server, [WITH_BODY, b"{"], 2)
        assert answers.count(b"HTTP/1.1 ") == 1
        assert not is_open
        answers, is_open = received(server, [b"\r\n", GET], 2)
        assert answers.startswith(b"HTTP/1.1 408")
        assert not is_open


def test_a_body_in_tiny_chunks_is_read_in_turns_with_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each 16 KB, not of 256 KB: 43,000 chunks took more than a second at once."""
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    request += b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n"
    sizes, read = [], LimitedProtocol.data_received

    def data_received(protocol: LimitedProtocol, data: bytes) -> None:
        sizes.append(len(data))
        read(protocol, data)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            await receive()
        else:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    def exchange(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(request)
            return one.recv(12)

    async def run() -> bytes:
        running = server_of(application, "127.0.0.1", 0, Limits(), Metrics())
        listening = asyncio.get_running_loop().create_future()
        running.on_listening = listening.set_result
        serving = asyncio.create_task(running.serve())
        answer = await asyncio.to_thread(exchange, await listening)
        running.should_exit = True
        await serving
        return answer

    monkeypatch.setattr(LimitedProtocol, "data_received", data_received)
    assert asyncio.run(run()) == b"HTTP/1.1 204"
    assert sum(sizes) == len(request)
    assert max(sizes) <= 16_384


def test_a_long_form_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def parse(kind: Any, *_: object) -> Any:
        threads.append(threading.current_thread())
        return kind(q="a")

    monkeypatch.setattr("zoo.serving.body.parse_form", parse)
    for size in (LONG_FORM - 1, LONG_FORM):
        body = {"type": "http.request", "body": b"a" * size}

        async def receive(body: Any = body) -> Any:
            return body

        request = Request({"type": "http", "headers": []}, receive)
        asyncio.run(read_form(DetectRequest, request, Limits()))
    assert threads[0] is threading.main_thread() is not threads[1]


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "identity"])
def test_a_transfer_coding_that_is_not_read(server: Running, coding: str) -> None:
    head = POST + f"Transfer-Encoding: {coding}\r\n\r\n".encode()
    answers, is_open = received(server, [head], 2)
    assert answers.startswith(b"HTTP/1.1 501 Not Implemented\r\n")
    assert not is_open
    error = json.loads(answers.split(b"\r\n\r\n", 1)[1])
    assert error["code"] == "encoded"
    assert "chunked alone is" in error["error"]


@pytest.mark.parametrize(
    ("kind", "body", "part"),
    [
        (TranslateRequest, '{"checkpoint": "x", "texts": [%s0]}' % ("0," * 490_000), "texts.0"),
        (ScoreRequest, '{"checkpoint": "x", "pairs": [%s[]]}' % ("[]," * 320_000), "pairs.0"),
        (LibreTranslateRequest, '{"target": "x", "q": [%s0]}' % ("0," * 490_000), "q.list"),
        (
            TranslateRequest,
            json.dumps(dict.fromkeys(range(80_000), 0)),
            "it has over 1,000 faults",
        ),
    ],
)
def test_a_body_of_many_faults_is_refused_at_the_first(
    kind: type[Strict], body: str, part: str
) -> None:
    """Other requests wait meanwhile: for up to five seconds, while 490,000 faults were listed."""
    with pytest.raises(RequestError) as error:
        parse(kind, body.encode())
    assert part in error.value.why
    assert error.value.why.count(";") < 3
