"""Who may send requests, and answers to every fault as JSON."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zoo.serving.errors import (
    ExpectationError,
    ForeignOriginError,
    HeadTooLargeError,
    InternalError,
    KeyRequiredError,
    RequestError,
    SlowClientError,
    StoppingError,
    TooLargeError,
    TwoLengthsError,
    UnknownCheckpointError,
    UpgradeError,
    VersionError,
)
from zoo.serving.limits import HEAD_BYTES
from zoo.serving.metrics import Metrics

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NOT_STORED = (b"cache-control", b"no-store")
"""For all but the page's files: a shared cache would pass what needs a key on without one."""

PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-API-Key",
    "Access-Control-Max-Age": "600",
}
"""What the page of an allowed site may send; its browser asks before it sends JSON."""

FILES = ("/page/", "/explorer/")
"""The page's files, which Chromium asks for with the page's origin.

Behind a proxy that hides the host name, the page has to load to show why its requests are refused.
"""

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HANG_UP_SECONDS = 0.25
"""How often a waiting request checks whether its client is still there."""


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what `work` gives; cancel it when the client hangs up.

    Raises:
        ClientDisconnect: the client left.
    """
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait([task], timeout=HANG_UP_SECONDS)
            if done:
                return task.result()
            if await request.is_disconnected():
                raise ClientDisconnect
    finally:
        task.cancel()


class Access:
    """Who may send requests.

    Args:
        api_key: what clients must send, empty for none.
        hosts: host names under which the server may be addressed; empty allows every name.
        origins: other sites whose pages may send requests.
    """

    def __init__(self, api_key: str, hosts: tuple[str, ...], origins: tuple[str, ...]) -> None:
        self.api_key, self.hosts, self.origins = api_key, hosts, origins

    def check_site(self, headers: Headers, path: str) -> str:
        """Return the other site whose page sends a request, empty if none does.

        The page's files are for every site.

        Raises:
            ForeignOriginError: that site is not allowed, or the host name is not the server's.
        """
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname if _is_host(host) else None
        # Without a name, as in HTTP/1.0, it is no browser's, which a foreign name could deceive.
        if self.hosts and name not in self.hosts and "host" in headers:
            raise ForeignOriginError(
                "this host name is not served", repr(host[:100]), "Start with --allow-host NAME"
            )
        origin = headers.get("origin")
        if origin is None or (host and origin.partition("://")[2] == host):
            return ""
        if origin not in self.origins:
            if path.startswith(FILES):
                return ""
            raise ForeignOriginError(
                "requests from other sites are refused",
                repr(origin[:100]),
                "Start with --allow-origin ORIGIN",
            )
        return origin

    def check_key(self, headers: Headers, path: str) -> None:
        """Check the key of a request.

        Raises:
            KeyRequiredError: it is missing or wrong.
        """
        # LibreTranslate's clients send the key in the body: its routes check it themselves.
        if path.startswith("/api/") and not self.has_key(key_of(headers)):
            raise KeyRequiredError("the API key is missing or wrong", "", "Send it in X-API-Key")

    def has_key(self, given: str) -> bool:
        """Return whether a key is the server's, in time that does not depend on the key."""
        return not self.api_key or hmac.compare_digest(given.encode(), self.api_key.encode())


class Guard:
    """The outermost layer: access, security headers, metrics, and errors as JSON.

    Args:
        app: what answers.
        metrics: what is counted.
        access: who may send requests.
        routes: the paths that the metrics count apart, such as /api/models/{name}.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, access: Access, routes: Collection[str]
    ) -> None:
        self.app, self.metrics, self.access, self.routes = app, metrics, access, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, begun = time.perf_counter(), 500, False
        headers, site = Headers(scope=scope), ""

        async def guarded(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message = {**message, "headers": _with_policies(message["headers"], site)}
            await send(message)

        try:
            if scope.get("http_version", "1.1").partition(".")[0] != "1":
                raise VersionError
            if _head_bytes(scope) > HEAD_BYTES:  # h11 checks only one that arrives in several parts
                raise HeadTooLargeError
            if "transfer-encoding" in headers and "content-length" in headers:
                raise TwoLengthsError
            if (expected := headers.get("expect", "100-continue")).lower() != "100-continue":
                raise ExpectationError(expected)
            site = self.access.check_site(headers, scope["path"])
            if site and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await Response(status_code=204, headers=PREFLIGHT)(scope, receive, guarded)
                return
            self.access.check_key(headers, scope["path"])
            if headers.get("upgrade", "").lower() == "websocket":
                raise UpgradeError
            if not scope["query_string"].isascii():  # uvicorn refuses it; other servers need not
                raise RequestError("the address is not ASCII", "its query has other bytes")
            await self.app(_without_range(scope), receive, guarded)
        except ClientDisconnect:
            status = 499
        except asyncio.CancelledError:  # the time to drain is over
            if not begun:
                await error_response(StoppingError("the server stops"))(scope, receive, guarded)
        except Exception as error:
            # A handler that fails must answer; only its client should notice.
            if begun:  # the connection closes, so that the client sees that something is missing
                logger.error("an answer broke off", exc_info=error)
            else:
                await error_response(error)(scope, receive, guarded)
        finally:
            route = self._route(scope["path"])
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)

    def _route(self, path: str) -> str:
        """Return the name of a path in the metrics."""
        if path in self.routes:
            return path
        named = (route for route in self.routes if "{" in route)
        return next((r for r in named if path.startswith(r.partition("{")[0])), "other")


def _with_policies(headers: list[tuple[bytes, bytes]], site: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer with those for browsers and caches."""
    stored = () if any(name == NOT_STORED[0] for name, _ in headers) else (NOT_STORED,)
    return [*headers, *SECURITY, *stored, *_readable_for(site)]


def _readable_for(site: str) -> list[tuple[bytes, bytes]]:
    """Return the headers by which a browser lets the page of another site read an answer."""
    if not site:
        return []
    return [
        (b"access-control-allow-origin", site.encode("latin-1")),
        (b"access-control-expose-headers", b"Retry-After"),
        (b"vary", b"Origin"),
    ]


def _head_bytes(scope: Scope) -> int:
    """Return the length of a request's head, with its separators."""
    line = len(f"{scope['method']} ? HTTP/1.1\r\n\r\n") + len(scope.get("raw_path") or b"")
    fields = sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
    return line + len(scope["query_string"]) + fields


def _without_range(scope: Scope) -> Scope:
    """Return a request for a whole file; ranges may be ignored (RFC 9110, section 14.2).

    Older versions of Starlette break an answer of many ranges off, and some need time that grows
    with the square of their number.
    """
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}


def _is_host(host: str) -> bool:
    try:
        urlsplit(f"//{host}").port  # noqa: B018  # raises where it is no number
    except ValueError:
        return False
    return bool(host)


def key_of(headers: Headers) -> str:
    """Return the API key in a request's headers, UTF-8, empty if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = headers.get("x-api-key", "") or (token.strip() if scheme.lower() == "bearer" else "")
    return key.encode("latin-1").decode("utf-8", "replace")  # `headers` reads bytes as Latin-1


def error_response(error: Exception) -> Response:
    """Return the JSON answer to any error."""
    if not isinstance(error, RequestError):
        logger.error("a request failed", exc_info=error)
        error = InternalError("the server failed", type(error).__name__)
    headers = error.headers()
    if isinstance(error, TooLargeError | SlowClientError | StoppingError):
        headers["Connection"] = "close"
    return JSONResponse(error.body(), error.status, headers)


async def client_left(request: Request, error: Exception) -> Response:
    """Answer for a client that has left; that is not a defect to report."""
    return Response(status_code=499)


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a request whose handler raised an error."""
    return error_response(error)


async def not_found(request: Request, error: Exception) -> Response:
    """Answer for a path or a method that the server does not have."""
    status = getattr(error, "status_code", 404)
    advice = "GET /openapi.json describes the API"
    if status == 405:
        headers = getattr(error, "headers", None) or {}
        possible = headers.get("Allow", "GET")
        fault = RequestError(f"{request.method} is not possible here", f"use {possible}", advice)
        return JSONResponse({**fault.body(), "code": "wrong_method"}, 405, headers)
    path = request.url.path[:200]
    return error_response(UnknownCheckpointError(f"nothing at {path!r}", "", advice))


def sse(event: str, value: object) -> bytes:
    """Return one server-sent event; its data is one line of JSON."""
    return f"event: {event}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
