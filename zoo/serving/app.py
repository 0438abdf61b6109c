"""The web application: routes, page, metrics, health."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from zoo import translation
from zoo.serving.api import Api
from zoo.serving.errors import RequestError
from zoo.serving.http import Guard, answer_error, not_found
from zoo.serving.libretranslate import LibreTranslate
from zoo.serving.routes import described, openapi
from zoo.serving.service import Service

PAGE = Path(__file__).with_name("page")
EXPLORER = Path(translation.__file__).with_name("page")


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
    guard: Guard

    def has_key(given: str) -> bool:
        return guard.has_key(given)

    api, libre = Api(service), LibreTranslate(service, has_key)
    routes = described(api, libre)
    description = openapi(routes)

    async def page(request: Request) -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    async def describe(request: Request) -> Response:
        return JSONResponse(description)

    async def metrics(request: Request) -> Response:
        return Response(
            service.metrics.render(), headers={"Content-Type": service.metrics.content_type}
        )

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(request: Request) -> Response:
        ready = service.ready > 0 and not service.stopping
        body = {"status": "ready" if ready else "not ready", "workers": service.ready}
        return JSONResponse(body, 200 if ready else 503)

    plain = {
        "/": page,
        "/openapi.json": describe,
        "/metrics": metrics,
        "/healthz": health,
        "/readyz": readiness,
        "/frontend/settings": libre.settings,
    }

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = Starlette(
        routes=[
            *(Route(r.path, r.handler, methods=[r.method.upper()]) for r in routes),
            *(Route(path, handler) for path, handler in plain.items()),
            Mount("/page", StaticFiles(directory=PAGE)),
            Mount("/explorer", StaticFiles(directory=EXPLORER)),
        ],
        exception_handlers={
            404: not_found,
            405: not_found,
            RequestError: answer_error,
            Exception: answer_error,
        },
        lifespan=lifespan,
    )
    names = {path: path for path in [*plain, *(route.path for route in routes)]}
    guard = Guard(app, service, api_key, hosts, origins, names)
    return guard
