"""The web application: routes, page, metrics, health."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from zoo import translation
from zoo.serving.api import Api
from zoo.serving.errors import RequestError
from zoo.serving.http import Access, Guard, answer_error, client_left, not_found
from zoo.serving.libretranslate import LibreTranslate
from zoo.serving.routes import described, openapi
from zoo.serving.service import Service
from zoo.serving.targets import OriginForm

PAGE = Path(__file__).with_name("page")
EXPLORER = Path(translation.__file__).with_name("page")
FILE = {"Cache-Control": "no-cache", "Accept-Ranges": "none"}
"""Headers of the page's files."""
NAME = "{name}", "{name:path}"
"""The name of a checkpoint in a path, for OpenAPI and for Starlette; it may have a slash."""


class Files(StaticFiles):
    """The page's files, which a browser asks for again: after an update, all are of one version."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        """Return a file, or that the browser has it already."""
        response = super().file_response(*arguments, **more)
        response.headers.update(FILE)
        return response


class Plain:
    """The handlers that OpenAPI does not describe: page, metrics, health."""

    def __init__(self, service: Service, description: dict[str, Any]) -> None:
        self.service, self.description = service, description

    async def page(self, request: Request) -> Response:
        """Return the page."""
        return FileResponse(PAGE / "index.html", headers=FILE)

    async def describe(self, request: Request) -> Response:
        """Return the OpenAPI description."""
        return JSONResponse(self.description)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics."""
        metrics = self.service.metrics
        return Response(metrics.render(), headers={"Content-Type": metrics.content_type})

    async def health(self, request: Request) -> Response:
        """Return that the process answers."""
        return JSONResponse({"status": "ok"})

    async def readiness(self, request: Request) -> Response:
        """Return whether workers take requests."""
        ready = self.service.ready > 0 and not self.service.stopping
        body = {"status": "ready" if ready else "not ready", "workers": self.service.ready}
        return JSONResponse(body, 200 if ready else 503)


def application(
    service: Service,
    *,
    api_key: str = "",
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> ASGIApp:
    """Return the application of a service.

    Args:
        service: started and stopped with the application.
        api_key: what clients must send with every request that computes; empty for none.
        hosts: host names that requests may be addressed to; empty allows every name.
        origins: other sites whose pages may send requests.
    """
    access = Access(api_key, hosts, origins)
    libre = LibreTranslate(service, access.has_key)
    routes = described(Api(service), libre)
    plain = Plain(service, openapi(routes, has_key=bool(api_key)))
    undescribed = {
        "/": plain.page,
        "/openapi.json": plain.describe,
        "/metrics": plain.metrics,
        "/healthz": plain.health,
        "/health": plain.health,  # LibreTranslate's name
        "/readyz": plain.readiness,
        "/frontend/settings": libre.settings,
    }

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    handlers = dict.fromkeys((RequestError, Exception), answer_error)
    app = Starlette(
        routes=[
            *(Route(r.path.replace(*NAME), r.handler, methods=[r.method.upper()]) for r in routes),
            *(Route(path, handler) for path, handler in undescribed.items()),
            Mount("/page", Files(directory=PAGE)),
            Mount("/explorer", Files(directory=EXPLORER)),
        ],
        exception_handlers={
            404: not_found,
            405: not_found,
            ClientDisconnect: client_left,
            **handlers,
        },
        lifespan=lifespan,
    )
    # It would send clients to an address without the https and the prefix of a reverse proxy.
    app.router.redirect_slashes = False
    paths = {*undescribed, *(route.path for route in routes)}
    return OriginForm(Guard(app, service.metrics, access, paths))
