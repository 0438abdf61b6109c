"""Faults: each gets a clear status and a JSON error, and the service goes on."""

import asyncio
import errno
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

import zoo
from tests.serving.client import Answer, Running, start, wait_until
from tests.serving.conftest import CAPTIONS, CARDS, NUMBERS, SEQ2SEQ
from zoo.cli.serving import _possible as possible
from zoo.cli.serving import is_local
from zoo.serving.http import Access, Guard
from zoo.serving.limits import Limits
from zoo.serving.metrics import Metrics
from zoo.serving.server import server as serve

SITE, KEY = "https://other.example", "sésame"
IN_HEADERS = KEY.encode().decode("latin-1")
"""Python's client writes headers in Latin-1; others write UTF-8."""
GOOD = {"checkpoint": NUMBERS, "texts": ["four hundred and five"]}


def refused(answer: Answer, status: int, code: str, *parts: str) -> None:
    assert answer.status == status, answer.body[:300]
    assert answer.headers["content-type"].startswith("application/json")
    assert set(answer.json) == {"error", "code"}
    assert answer.json["code"] == code
    for part in parts:
        assert part in answer.json["error"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server in processes of its own, as a user starts it."""
    with start(CAPTIONS, NUMBERS, SEQ2SEQ, "--workers", "2") as running:
        yield running


def works(server: Running) -> None:
    assert server.translate(NUMBERS, "four hundred and five") == ["quatre cent cinq"]


@pytest.mark.parametrize(
    ("body", "status", "code", "part"),
    [
        (b"", 400, "bad_request", "not JSON"),
        (b"{", 400, "bad_request", "not JSON"),
        (b"[" * 100_000, 400, "bad_request", "not JSON"),
        (b'{"checkpoint": "\xff"}', 400, "bad_request", "not UTF-8: invalid start byte at byte 16"),
        (b'{"checkpoint": "x", "texts": ["\\ud800"]}', 400, "bad_request", "not JSON"),
        (b'{"checkpoint": 1, "texts": "a", "n_best": 0, "x": 1}', 400, "bad_request", "x: no such"),
        (
            b'{"checkpoint": "a", "text": ["a"]}',
            400,
            "bad_request",
            "text: no such key, did you mean texts?",
        ),
        (b'{"checkpoint": "a", "texts": ["a"], "beam": 1000}', 400, "bad_request", "beam"),
        (
            b'{"checkpoint": "a", "texts": ["a"], "beam": 2, "n_best": 4}',
            400,
            "bad_request",
            "needs a beam",
        ),
        (b" " * 1_000_001, 413, "too_large", "1,000,000 bytes are the most"),
        (b" " * 20_000_000, 413, "too_large", "1,000,000 bytes are the most"),
    ],
    ids=[
        "empty",
        "cut",
        "deep",
        "utf8",
        "surrogate",
        "types",
        "near",
        "beam",
        "n_best",
        "1MB",
        "20MB",
    ],
)
def test_bodies_that_cannot_be_read(
    server: Running, body: bytes, status: int, code: str, part: str
) -> None:
    try:
        refused(server.send("/api/translate", body=body), status, code, part)
    except (BrokenPipeError, ConnectionResetError):
        assert len(body) > 8_000_000  # the server does not read on forever
    works(server)


def test_requests_beyond_the_limits(server: Running) -> None:
    many = {"checkpoint": NUMBERS, "texts": ["a"] * 10_000}
    refused(server.send("/api/translate", many), 413, "too_large", "10,000 in one request")
    word = {"checkpoint": NUMBERS, "texts": ["x" * 900_000]}
    refused(server.send("/api/translate", word), 413, "too_large", "900,000 characters")
    long = {"q": "x" * 10_001, "source": "en", "target": "fr"}
    refused(server.send("/translate", long), 413, "too_large")
    shown = {"checkpoint": CAPTIONS, "text": "x " * 600}
    refused(server.send("/api/attention", shown), 413, "too_large")
    whole = {"texts": ["a " * 1_020], "split": False, "beam": 1, "min_length": 1_000}
    answer = server.send(
        "/api/translate", {**GOOD, **whole, "max_length": 1_000, "alignment": True}
    )
    refused(answer, 400, "bad_request", "the attention is too large")
    refused(server.send("/api/tree", {**shown, "text": " "}), 400, "bad_request", "text is empty")
    endless = {"checkpoint": NUMBERS, "text": "four\n" + "x" * 10_001}
    answer = server.send("/api/translate/stream", endless)
    refused(answer, 413, "too_large", "sentence 2 is too long", "Break its line")
    answer = server.send("/api/translate/stream", {**endless, "text": "four " * 40_001})
    refused(answer, 413, "too_large", "Send it in parts")
    refused(server.send("/api/tree", {**shown, "text": "a", "beam": 9}), 400, "bad_request", "beam")
    answer = server.send("/api/tree", {**shown, "text": "a", "min_length": 200})
    refused(answer, 400, "bad_request", "min_length is 200, and 100 steps are the most")
    words = {"checkpoint": CAPTIONS, "texts": ["A dog.", "A dog. " + "ab" * 4_000]}
    answer = server.send("/api/translate", words)
    refused(answer, 400, "bad_request", "tokens without a space, and sources of training have up")
    longest = {"checkpoint": NUMBERS, "texts": ["x" * 10_000, "four"]}
    answer = server.send("/api/translate", longest)
    assert answer.json["translations"][1]["text"] == "quatre"
    unwritable = {**GOOD, "prefix": "日本", "texts": ["four", "five"]}
    refused(server.send("/api/translate", unwritable), 400, "bad_request", "日本")


def test_wrong_names_paths_and_methods(server: Running) -> None:
    near = {**GOOD, "checkpoint": "transformr-tiny.numbers-en-fr"}
    refused(server.send("/api/translate", near), 404, "not_found", f"did you mean {NUMBERS}")
    refused(server.send("/api/models/%3Cimg%20src=x%3E"), 404, "not_found")
    refused(server.send("/page/../../../pyproject.toml"), 404, "not_found")
    refused(server.send("/page/%2e%2e/%2e%2e/http.py"), 404, "not_found")
    refused(server.send("/none"), 404, "not_found", "GET /openapi.json describes the API")
    refused(server.send("/api/translate"), 405, "wrong_method", "use POST")
    # No redirect, which would leave the https and the prefix of a reverse proxy.
    refused(server.send("/api/translate/", GOOD), 404, "not_found")
    refused(server.send("/api/models/"), 404, "not_found")


def test_a_browser_asks_again_for_the_files_of_the_page(server: Running) -> None:
    """Otherwise some would be those of an older version, for days."""
    for path in ("/", "/page/app.js", "/explorer/explorer.js"):
        answer = server.send(path)
        assert answer.headers["cache-control"] == "no-cache"
    known = {"If-None-Match": answer.headers["etag"]}
    assert server.send(path, headers=known).status == 304


def test_ranges_of_files_are_ignored(server: Running) -> None:
    whole = server.send("/page/app.js")
    assert whole.headers["accept-ranges"] == "none"
    for path, asked in (("/page/app.js", whole), ("/", server.send("/"))):
        answer = server.send(path, headers={"Range": "bytes=0-0,2-2,4-4"})
        assert (answer.status, answer.body) == (200, asked.body)


def test_names_with_a_slash_and_modules_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not the module that was meant')")
    name = "tiny/numbers"
    arguments = (f"{name}={CARDS / NUMBERS}", "--workers", "1")
    with start(*arguments, folder=tmp_path, forked=True) as server:
        assert server.send("/api/models/tiny%2Fnumbers").json["name"] == name
        assert server.translate(name, "four") == ["quatre"]


def read_all(one: socket.socket) -> int:
    """Return how many bytes arrive until the connection closes."""
    count = 0
    while part := one.recv(1 << 20):
        count += len(part)
    return count


def raw(server: Running, data: bytes, seconds: float = 30.0) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as one:
        one.sendall(data)
        received = b""
        while part := one.recv(65_536):
            received += part
        return received


def test_what_is_not_http(server: Running) -> None:
    before = len(server.lines)
    endless = b"GET / HTTP/1.1\r\nHost: " + b"x" * 40_000
    for data, status, code in (
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400", "bad_http"),
        (b"GET\r\n\r\n", b"400", "bad_http"),
        (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", b"505", "bad_http"),
        (endless, b"431", "too_large"),
        (endless + b"\r\n\r\n", b"431", "too_large"),  # complete, in one part
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"431", "too_large"),
    ):
        received = raw(server, data)
        assert received.startswith(b"HTTP/1.1 " + status)
        assert json.loads(received.split(b"\r\n\r\n", 1)[1])["code"] == code
    works(server)
    assert server.lines[before:] == []


def test_empty_lines_before_a_request_are_ignored(server: Running) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for lines in (b"\r\n", b"\n\r\n"):
        assert raw(server, lines + request).startswith(b"HTTP/1.1 200")
    # Some clients end a body by one that they do not count.
    first = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}\r\n"
    received = raw(server, first * 2 + request)
    assert received.count(b"HTTP/1.1 404") == 2
    assert received.count(b"HTTP/1.1 200") == 1


def test_a_body_with_two_lengths_ends_the_connection(server: Running) -> None:
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    received = raw(server, head + chunked + hidden)
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1") == 1
    assert b"Send one of them" in received


def test_bodies_that_are_refused_by_their_head(server: Running) -> None:
    post = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\n"
    for size in (b"99999999999", b"1000001"):  # the second is read on for a moment
        received = raw(server, post + b"Content-Length: " + size + b"\r\n\r\n", 10)
        assert received.startswith(b"HTTP/1.1 413"), size
    expecting = b"Content-Length: 1000001\r\nExpect: 100-continue\r\n\r\n"
    assert raw(server, post + expecting, 10).startswith(b"HTTP/1.1 413")
    answer = server.send("/api/translate", GOOD, headers={"Expect": "miracles"})
    refused(answer, 417, "bad_http", "its header Expect is 'miracles'")
    answer = server.send("/api/translate", body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    refused(answer, 415, "encoded", "gzip", "without Content-Encoding")
    assert answer.headers["accept-encoding"] == "identity"
    plain = server.send("/api/translate", GOOD, headers={"Content-Encoding": "identity"})
    assert plain.status == 200


@pytest.mark.parametrize("name", ["beam", "n_best", "length_penalty", "max_length"])
def test_a_boolean_is_no_number(server: Running, name: str) -> None:
    answer = server.send("/api/translate", {**GOOD, name: True})
    refused(answer, 400, "bad_request", name, "should be a valid number")


def test_a_target_may_be_a_whole_address(server: Running) -> None:
    rest = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(server, b"GET http://localhost/api/models" + rest).startswith(b"HTTP/1.1 200")
    assert raw(server, b"GET HTTP://localhost:80" + rest).startswith(b"HTTP/1.1 200")
    assert raw(server, b"GET http://localhost?x=1" + rest).startswith(b"HTTP/1.1 200")
    for host in (b"evil.example", b"", b"[", b"localhost%2Fx"):
        assert raw(server, b"GET http://" + host + b"/" + rest).startswith(b"HTTP/1.1 403")


def test_a_target_may_begin_with_several_slashes(server: Running, allowing: Running) -> None:
    """Those of clients and proxies that join an address and a path with one slash too many do."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = server.send("//translate", body=b"q=four&source=en&target=fr", headers=form)
    assert answer.json == {"translatedText": "quatre"}
    assert server.send("//").status == server.send("///page/app.js").status == 200
    assert server.send("//none").json["error"].startswith("nothing at '/none'")
    refused(allowing.send("//api/models"), 403, "wrong_api_key")


def test_a_websocket_is_refused_and_the_log_is_silent(server: Running) -> None:
    before = len(server.lines)
    answer = server.send("/", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    refused(answer, 400, "bad_request", "websockets are not served")
    offered = server.send("/healthz", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
    assert offered.status == 200  # RFC 9110, section 7.8: an offer may be ignored
    works(server)
    assert server.lines[before:] == []


def test_other_sites_and_host_names_are_refused(server: Running) -> None:
    evil = {"Origin": "https://evil.example"}
    refused(server.send("/api/translate", GOOD, headers=evil), 403, "foreign_origin", "evil")
    refused(server.send("/translate", GOOD, headers={"Origin": "null"}), 403, "foreign_origin")
    refused(server.send("/", headers={"Host": "evil.example"}), 403, "foreign_origin")
    for broken in ("http://[", "http://[::1", "\xff", "://"):
        answer = server.send("/translate", GOOD, headers={"Origin": broken})
        refused(answer, 403, "foreign_origin")
    own = {"Origin": server.url}
    assert server.send("/api/translate", GOOD, headers=own).status == 200


def test_the_pages_files_load_where_a_proxy_hides_the_host_name(server: Running) -> None:
    """Chromium sends the origin when it loads a module; without it, the page showed nothing."""
    of_proxy = {"Origin": "https://site.example"}
    for file in ("/page/app.js", "/explorer/explorer.js"):
        assert server.send(file, headers=of_proxy).status == 200
        refused(server.send(file, headers={"Host": "evil.example"}), 403, "foreign_origin")
    assert server.send("/page/../api/models", headers=of_proxy).status == 404


@pytest.fixture(scope="module")
def allowing() -> Iterator[Running]:
    """A server with a key that is asked for by other names and from another site."""
    options = ["--allow-host", "Example.ORG", "--allow-host", "bücher.example"]
    # A browser leaves out the port that the scheme has by default.
    options += ["--allow-host", "[2001:DB8::1]", "--allow-origin", f"{SITE}:443", "--workers", "1"]
    with start(str(CARDS / NUMBERS), *options, forked=True, ZOO_API_KEY=KEY) as running:
        yield running


def test_host_names_are_allowed_as_browsers_write_them(allowing: Running) -> None:
    for host in ("example.org", "xn--bcher-kva.example:80", "[2001:db8::1]:80", "localhost"):
        assert allowing.send("/healthz", headers={"Host": host}).status == 200, host
    assert allowing.send("/healthz", headers={"Host": "example.com"}).status == 403


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system lacks IPv6")
def test_all_addresses_are_those_of_both_kinds() -> None:
    with start(NUMBERS, "--host", "::", "--workers", "1", forked=True) as server:  # asks 127.0.0.1
        with socket.create_connection(("::1", server.port)) as one:
            one.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        assert server.stop() == 0


def test_addresses_that_only_this_machine_reaches() -> None:
    assert all(map(is_local, ("127.0.0.1", "127.0.0.2", "::1", "0:0::1", "localhost", "LocalHost")))
    assert not any(map(is_local, ("0.0.0.0", "::", "192.0.2.1", "example.org", "")))


@pytest.mark.parametrize("wrong", ["https://example.org", "example.org:80", "*", "a..b", ""])
def test_what_is_no_host_name_is_refused(run: Callable[..., Result], wrong: str) -> None:
    result = run("serve", "--allow-host", wrong)
    assert result.exit_code == 2
    assert f"{wrong!r} is no host name" in result.output


def test_a_health_check_without_a_host_name_is_answered(server: Running) -> None:
    """As load balancers send it, in HTTP/1.0."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert client.recv(1000).split()[1] == b"200"


@pytest.mark.parametrize("wrong", ["example.org", "https://example.org/page", "https://", "*"])
def test_what_is_no_origin_is_refused(run: Callable[..., Result], wrong: str) -> None:
    result = run("serve", "--allow-origin", wrong)
    assert result.exit_code == 2
    assert "is no origin" in result.output
    assert "https://example.org" in result.output


def test_no_cache_passes_on_what_needs_the_key(server: Running, allowing: Running) -> None:
    """Varnish keeps an answer that does not forbid it, and gave it to clients without the key."""
    for path in ("/api/models", "/readyz", "/none"):
        assert server.send(path).headers["cache-control"] == "no-store"
    assert server.send("/api/translate", GOOD).headers["cache-control"] == "no-store"
    assert allowing.send("/api/models").headers["cache-control"] == "no-store"
    for path in ("/", "/page/app.js"):
        assert server.send(path).headers["cache-control"] == "no-cache"


def test_openapi_says_which_requests_need_the_key(server: Running, allowing: Running) -> None:
    """Clients that are generated from it send a key only with those."""
    description = allowing.send("/openapi.json").json
    assert {"key", "bearer"} == set(description["components"]["securitySchemes"])
    body = {"q": "four", "target": "fr"}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            refusal = allowing.send(path, body if method == "post" else None).status == 403
            assert operation.get("security", []) == [{"key": []}, {"bearer": []}] * refusal, path
    without = server.send("/openapi.json").json
    assert "security" not in str(without["paths"]) + str(without["components"])


def test_the_page_of_an_allowed_site_can_read_answers(allowing: Running) -> None:
    asking = {
        "Origin": SITE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-api-key",
    }
    first = allowing.send("/api/translate", method="OPTIONS", headers=asking)
    assert (first.status, first.body) == (204, b"")
    assert first.headers["access-control-allow-origin"] == SITE
    assert "Content-Type" in first.headers["access-control-allow-headers"]
    for key, status in ((IN_HEADERS, 200), ("wrong", 403)):
        answer = allowing.send("/api/translate", GOOD, headers={"Origin": SITE, "X-API-Key": key})
        assert answer.status == status
        assert answer.headers["access-control-allow-origin"] == SITE
        assert answer.headers["vary"] == "Origin"
    own = allowing.send("/api/models", headers={"X-API-Key": IN_HEADERS})
    assert "access-control-allow-origin" not in own.headers
    evil = {**asking, "Origin": "https://evil.example"}
    answer = allowing.send("/api/translate", method="OPTIONS", headers=evil)
    refused(answer, 403, "foreign_origin")
    assert "access-control-allow-origin" not in answer.headers


def test_every_answer_has_a_strict_policy(server: Running) -> None:
    for path in ("/", "/api/models", "/none", "/metrics"):
        policy = server.send(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy


def test_slow_clients_are_cut_off_and_nobody_else_waits(tmp_path: Path) -> None:
    fast = ("--head-seconds", "1", "--body-seconds", "1", "--workers", "1")
    with start(str(CARDS / NUMBERS), *fast, forked=True) as server:
        head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\n"
        slow = {
            "nothing": b"",
            "half a head": head,
            "half a body": head + b"Content-Length: 500\r\n\r\n{",
        }

        def trickle(data: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
                one.sendall(data)
                received = b""
                try:
                    while True:
                        one.settimeout(0.3)
                        try:
                            part = one.recv(65_536)
                        except TimeoutError:
                            one.sendall(b" " if data else b"")
                            continue
                        if not part:
                            return received
                        received += part
                except OSError:
                    return received

        with ThreadPoolExecutor(3) as pool:
            answers = dict(zip(slow, pool.map(trickle, slow.values()), strict=True))
        for name, received in answers.items():
            assert b" 408 " in received.split(b"\r\n")[0], (name, received)
            assert json.loads(received.split(b"\r\n\r\n", 1)[1])["code"] == "client_too_slow"
        works(server)


def test_a_client_that_hangs_up_leaves_the_queue(server: Running) -> None:
    body = json.dumps({"checkpoint": CAPTIONS, "texts": ["a man rides a horse " * 20] * 900})
    head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as one:
        one.sendall((head + body).encode())
        wait_until(lambda: server.metric("zoo_queue_texts") > 300)
    wait_until(lambda: server.metric("zoo_queue_texts") == 0, 5)


def test_clients_that_hang_up_during_a_stream_fill_no_log(server: Running) -> None:
    """Translations of a batch are ready together: those after the first are not sent in vain."""
    before = len(server.lines)
    text = " ".join(f"Two dogs play {n}." for n in range(200))
    body = json.dumps({"checkpoint": CAPTIONS, "text": text})
    head = "POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.sendall(f"{head}{len(body)}\r\n\r\n{body}".encode())
            one.recv(100)
    wait_until(lambda: server.metric("zoo_queue_texts") == 0, 20)
    works(server)
    assert server.lines[before:] == []


ENDLESS = {"checkpoint": CAPTIONS, "texts": ["x" * 1_000], "beam": 16, "split": False}
"""A text that takes far longer than a test may."""


def test_work_for_a_client_that_left_is_stopped_and_its_worker_lives() -> None:
    with start(str(CARDS / CAPTIONS), "--workers", "1") as server:
        server.translate(CAPTIONS, "a man")
        workers = server.worker_ids()
        body = json.dumps(ENDLESS)
        head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.sendall(f"{head}\r\n\r\n{body}".encode())
            wait_until(lambda: server.metric("zoo_texts_total") == 2)
        assert server.translate(CAPTIONS, "two dogs play") == ["Zwei Hunde spielen."]
        assert server.worker_ids() == workers
        assert server.metric("zoo_worker_deaths_total") == 0


def test_a_worker_whose_server_was_killed_ends_without_a_message() -> None:
    with start(str(CARDS / CAPTIONS), "--workers", "1") as server, ThreadPoolExecutor(1) as pool:
        server.translate(CAPTIONS, "a man")
        (worker,) = server.worker_ids()
        long = pool.submit(server.send, "/api/translate", ENDLESS)
        wait_until(lambda: server.metric("zoo_texts_total") == 2)
        server.process.kill()
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
        assert isinstance(long.exception(), OSError)
        assert not [line for line in server.lines if "at http://" not in line]


def test_a_long_text_is_given_up_where_others_have_no_other_worker() -> None:
    with (
        start(
            str(CARDS / CAPTIONS), "--workers", "1", "--long-seconds", "0.5", forked=True
        ) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        server.translate(CAPTIONS, "a man")
        long = pool.submit(server.send, "/api/translate", ENDLESS)
        wait_until(lambda: server.metric("zoo_texts_total") == 2)
        assert server.translate(CAPTIONS, "two dogs play") == ["Zwei Hunde spielen."]
        refused(long.result(), 504, "timeout", "over 0.5 seconds", "others", "--workers")


def test_a_client_that_leaves_within_its_body_is_no_failure(server: Running) -> None:
    def left() -> float:
        samples = server.send("/metrics").body.decode()
        value = re.search(r'_total{route="/api/translate",status="499"} (\S+)', samples)
        return float(value[1]) if value else 0.0

    before = left()
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", server.port)) as one:
        one.sendall(head)
    wait_until(lambda: left() == before + 1)
    works(server)
    assert not any("failed" in line for line in server.lines), server.lines


def test_a_full_queue_answers_429_at_once() -> None:
    with start(str(CARDS / CAPTIONS), "--queue", "20", "--workers", "1", forked=True) as server:
        asked = {"checkpoint": CAPTIONS, "texts": ["a man in a red shirt rides a horse"] * 10}
        with ThreadPoolExecutor(30) as pool:
            answers = list(pool.map(lambda _: server.send("/api/translate", asked), range(30)))
        statuses = [answer.status for answer in answers]
        assert set(statuses) == {200, 429}
        for answer in answers:
            if answer.status == 429:
                refused(answer, 429, "queue_full", "of at most 20 texts wait")
                assert int(answer.headers["retry-after"]) >= 1
        assert server.send("/api/translate", asked).status == 200


def test_sigterm_under_load_answers_everything_that_was_accepted() -> None:
    with start(str(CARDS / CAPTIONS)) as server:
        asked = {"checkpoint": CAPTIONS, "texts": ["a man in a red shirt rides a horse"] * 15}
        server.send("/api/translate", asked)
        with ThreadPoolExecutor(24) as pool:
            answers = [pool.submit(server.send, "/api/translate", asked) for _ in range(24)]
            wait_until(lambda: server.metric("zoo_queue_texts") > 150)
            time.sleep(0.5)  # all have sent their requests by now
            assert server.stop() == 0
            assert [answer.result().status for answer in answers] == [200] * 24
        with pytest.raises(OSError, match="refused"):
            server.send("/healthz")


def test_a_second_signal_stops_the_server_at_once() -> None:
    with start(str(CARDS / CAPTIONS), "--workers", "1") as server, ThreadPoolExecutor(1) as pool:
        server.translate(CAPTIONS, "a man")
        long = pool.submit(server.send, "/api/translate", ENDLESS)
        wait_until(lambda: server.metric("zoo_texts_total") == 2)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _answers(server), 5)
        server.process.send_signal(signal.SIGINT)
        refused(long.result(), 503, "stopping", "the server stops")
        assert server.process.wait(20) == 0
    assert not [line for line in server.lines if "at http://" not in line]


def test_a_request_that_is_cancelled_is_answered() -> None:
    """As uvicorn cancels what is not answered when the time to drain is over."""

    async def statuses() -> list[object]:
        sent: list[Any] = []

        async def app(*_: object) -> None:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        guard: Any = Guard(app, Metrics(), Access("", (), ()), {})
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
        request = asyncio.ensure_future(guard(scope, asyncio.Event().wait, send))
        await asyncio.sleep(0.01)
        request.cancel()
        await request
        return [sent[0]["status"], json.loads(sent[1]["body"])["code"]]

    assert asyncio.run(statuses()) == [503, "stopping"]


def test_a_killed_worker_loses_no_request_and_is_replaced(server: Running) -> None:
    asked = {"checkpoint": CAPTIONS, "texts": ["a man in a red shirt rides a horse"] * 40}
    before = server.worker_ids()
    deaths = server.metric("zoo_worker_deaths_total")
    with ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(server.send, "/api/translate", asked) for _ in range(10)]
        wait_until(lambda: server.metric("zoo_queue_texts") > 0)
        os.kill(before[0], signal.SIGKILL)
        assert [answer.result().status for answer in answers] == [200] * 10
    wait_until(lambda: server.send("/readyz").json["workers"] == 2)
    assert server.metric("zoo_worker_deaths_total") == deaths + 1
    assert len(set(server.worker_ids()) - set(before)) == 1


def test_all_workers_killed_is_not_ready_and_recovers(server: Running) -> None:
    for worker in server.worker_ids():
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: server.send("/readyz").status == 503, 5)
    assert server.send("/healthz").status == 200
    works(server)  # waits in the queue until a worker is back
    wait_until(lambda: server.send("/readyz").json["workers"] == 2)


def test_a_checkpoint_that_is_replaced_damaged_or_removed(tmp_path: Path) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(CARDS / NUMBERS, folder)
    with start(str(folder), str(CARDS / SEQ2SEQ), "--workers", "1", forked=True) as server:
        asked = {"checkpoint": "changing", "texts": ["a man"]}
        numbers = server.translate("changing", "four")
        shutil.rmtree(folder)
        refused(server.send("/api/translate", asked), 503, "checkpoint_unavailable", "removed")
        assert server.send("/detect", {"q": "four"}).json[0]["language"] == "en"  # by the others
        assert server.send("/api/models").json["models"][0]["problem"]
        shutil.copytree(CARDS / CAPTIONS, folder)
        assert server.translate("changing", "a man") != numbers
        assert server.translate("changing", "two dogs play") == ["Zwei Hunde spielen."]
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        refused(server.send("/api/translate", asked), 503, "checkpoint_unavailable", "changing")
        assert server.translate(SEQ2SEQ, "six") == [zoo.load(CARDS / SEQ2SEQ).translate("six")]
        shutil.rmtree(folder)
        shutil.copytree(CARDS / NUMBERS, folder)
        assert server.translate("changing", "four") == numbers


def test_models_are_evicted_within_the_memory_limit() -> None:
    checkpoints = [str(CARDS / name) for name in (NUMBERS, SEQ2SEQ, "rnnsearch-tiny.numbers-en-fr")]
    with start(*checkpoints, "--workers", "1", "--memory", "0.004", forked=True) as server:
        names = [Path(one).name for one in checkpoints]
        for name in (*names, *reversed(names)):
            assert server.translate(name, "six") == [zoo.load(CARDS / name).translate("six")]
            assert server.metric("zoo_worker_model_bytes") <= 4_000_000
    with start(str(CARDS / CAPTIONS), "--workers", "1", "--memory", "0.01", forked=True) as server:
        asked = {"checkpoint": CAPTIONS, "texts": ["a man"]}
        refused(server.send("/api/translate", asked), 503, "checkpoint_unavailable", "--memory")


def test_a_worker_that_grows_too_large_is_replaced_between_batches() -> None:
    with start(
        str(CARDS / NUMBERS), "--workers", "1", "--worker-memory", "0.05", "--batch-texts", "1"
    ) as server:
        first = server.worker_ids()
        works(server)  # the worker answers, and is replaced
        wait_until(lambda: server.worker_ids() not in ([], first))
        works(server)
        assert server.metric("zoo_worker_deaths_total") == 0
        with ThreadPoolExecutor(2) as clients:  # what waits goes to no worker that is replaced
            answers = clients.map(lambda _: server.send("/api/translate", GOOD), range(2))
            assert {answer.status for answer in answers} == {200}
        assert server.metric("zoo_worker_deaths_total") == 0


def test_keys_are_asked_for_where_there_is_one(allowing: Running) -> None:
    refused(allowing.send("/api/translate", GOOD), 403, "wrong_api_key")
    refused(allowing.send("/api/models", headers={"X-API-Key": "x"}), 403, "wrong_api_key")
    libre = {"q": "four", "source": "en", "target": "fr"}
    refused(allowing.send("/translate", libre), 403, "wrong_api_key")
    assert allowing.send("/translate", {**libre, "api_key": KEY}).status == 200
    for headers in ({"X-API-Key": IN_HEADERS}, {"Authorization": f"Bearer {IN_HEADERS}"}):
        assert allowing.send("/api/translate", GOOD, headers=headers).status == 200
    for path in ("/", "/healthz", "/readyz", "/languages"):
        assert allowing.send(path).status == 200
    assert allowing.send("/frontend/settings").json["keyRequired"] is True


def test_connections_over_the_limit_are_refused_and_the_rest_served() -> None:
    with start(
        str(CARDS / NUMBERS), "--workers", "1", "--connections", "50", forked=True
    ) as server:
        held: list[socket.socket] = []
        try:
            for _ in range(200):
                held.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            last = held[-1].recv(1000)
            assert last.startswith(b"HTTP/1.1 503")
            assert b"Retry-After" in last
            assert json.loads(last.split(b"\r\n\r\n", 1)[1])["code"] == "connections"
        finally:
            for one in held:
                one.close()
        wait_until(lambda: _answers(server), 15)
        assert server.metric("zoo_connections_refused_total") == 150
        works(server)


def _answers(server: Running) -> bool:
    try:
        return server.send("/healthz").status == 200
    except OSError:
        return False


def test_a_client_that_stops_reading_holds_nothing_up(server: Running) -> None:
    body = json.dumps({"checkpoint": NUMBERS, "texts": ["four hundred and five"] * 900})
    head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.sendall((head + body).encode())
    works(server)
    for one in held:
        one.close()


def test_a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() -> None:
    words = "a man rides " * 80
    body = json.dumps({"checkpoint": CAPTIONS, "text": words, "target": words})
    head = f"POST /api/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"

    def client(server: Running) -> socket.socket:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        one.settimeout(30)
        one.connect(("127.0.0.1", server.port))
        one.sendall((head + body).encode())
        return one

    with (
        start(
            str(CARDS / CAPTIONS), "--workers", "1", "--write-seconds", "1", forked=True
        ) as server,
        client(server) as silent,
        client(server) as slow,
    ):
        received = slow.recv(4096)
        length = int(received.split(b"content-length: ")[1].split(b"\r\n")[0])
        assert length > 5_000_000  # more than the system's buffers hold
        end = time.monotonic() + 2.5
        count = len(received)
        while time.monotonic() < end:  # over more than twice the limit
            count += len(slow.recv(65_536))
            time.sleep(0.02)
        while count < length:
            part = slow.recv(1 << 20)
            assert part, "the slow client was cut off"
            count += len(part)
        with pytest.raises(ConnectionResetError):
            read_all(silent)
        assert server.translate(CAPTIONS, "two dogs play") == ["Zwei Hunde spielen."]


def test_what_slow_clients_leave_unread_is_bounded_together() -> None:
    size, limits = 4_000_000, Limits(unsent_bytes=9_000_000)

    async def respond(request: object) -> Response:
        return Response(b"x" * size)

    async def received(reader: asyncio.StreamReader) -> int:
        try:
            return len(await reader.read())
        except ConnectionResetError:
            return 0

    async def counts() -> list[int]:
        running = serve(Starlette(routes=[Route("/", respond)]), "127.0.0.1", 0, limits, Metrics())
        task, clients = asyncio.create_task(running.serve()), []
        while not running.started:
            await asyncio.sleep(0.01)
        for _ in range(4):  # the first two are cut off when the third and the fourth begin
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port, limit=1024)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            clients.append((reader, writer))
            await asyncio.sleep(0.2)
        made = [await received(reader) for reader, _ in clients]
        for _, writer in clients:
            writer.close()
        running.should_exit = True
        await task
        return made

    one, other, *rest = asyncio.run(counts())
    assert one == other == 0
    assert all(count > size for count in rest)


def test_few_files_leave_few_connections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zoo.cli.serving.raise_file_limit", lambda: 4_096)
    assert possible(1_000) == 1_000
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("zoo.cli.serving.raise_file_limit", lambda: 64)
    assert possible(1_000) == 32
    assert "at most 32 connections will be open at once" in capsys.readouterr().err


def test_the_log_has_one_line_of_all_connections_that_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As asyncio reports them, a thousand at once."""

    async def report() -> None:
        running: Any = serve(Starlette(), "127.0.0.1", 0, Limits(), Metrics())
        loop = asyncio.get_running_loop()
        for _ in range(3):
            error = OSError(errno.EMFILE, "Too many open files")
            running._report(loop, {"message": "out of system resource", "exception": error})
        running._report(loop, {"message": "another fault"})

    asyncio.run(report())
    assert caplog.messages == ["connections wait: Too many open files", "another fault"]


def test_wrong_command_lines_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from zoo.cli import cli

    def tried(*arguments: str) -> str:
        made = CliRunner().invoke(cli, ["serve", *arguments])
        assert made.exit_code != 0
        return made.output

    assert "two checkpoints are called" in tried(str(CARDS / NUMBERS), f"x/{NUMBERS}")
    assert "no checkpoint" in tried(str(tmp_path / "none"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        used = tried(NUMBERS, "--port", str(other.getsockname()[1]))
    assert "ctranslate2 has no exporter for seq2seq" in tried(SEQ2SEQ, "--engine", "ctranslate2")
    assert "Error: cannot listen at 127.0.0.1, port " in used
    assert "Choose another --host or --port" in used
    assert "cannot listen at 203.0.113.1, port " in tried(NUMBERS, "--host", "203.0.113.1")
    empty = tmp_path / "key"
    empty.touch()
    assert "holds no API key: it is empty" in tried(NUMBERS, "--api-key-file", str(empty))
    for content, reason in ((b"a\nb", "it is not one line"), (b"\xff", "it is not UTF-8")):
        empty.write_bytes(content)
        assert reason in tried(NUMBERS, "--api-key-file", str(empty))
        monkeypatch.setenv("ZOO_API_KEY", os.fsdecode(content))
        assert f"ZOO_API_KEY holds no API key: {reason}" in tried(NUMBERS)
    monkeypatch.delenv("ZOO_API_KEY")
    assert "cannot listen at a..b, port 8000: " in tried(NUMBERS, "--host", "a..b")
    assert "it is empty. 0.0.0.0 or :: listens on all addresses" in tried(NUMBERS, "--host", "")
    for option in ("--memory", "--batch-wait", "--head-seconds"):
        for value in ("nan", "inf"):
            assert f"Invalid value for '{option}'" in tried(NUMBERS, option, value)
