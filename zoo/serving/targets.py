"""Requests whose target is a whole address, or begins with several slashes."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send


class OriginForm:
    """Answers `GET http://host/path` as `GET /path` to that host.

    A server must accept such a target, and its host counts, not that of the header (RFC 9112,
    section 3.2.2). `//path` is `/path`: some clients and proxies join an address that ends with a
    slash and a path that begins with one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            scope = origin_form(scope)
            if scope["path"].startswith("//"):
                scope = {**scope, "path": "/" + scope["path"].lstrip("/")}
        await self.app(scope, receive, send)


def origin_form(scope: Scope) -> Scope:
    """Return a request with the path and the host of its target, if that is a whole address."""
    scheme, separator, rest = scope["raw_path"].partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return scope
    host, _, path = rest.partition(b"/")
    headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
    return {
        **scope,
        "path": "/" + unquote(path.decode("ascii")),
        "raw_path": b"/" + path,
        "headers": [*headers, (b"host", host)],
    }
