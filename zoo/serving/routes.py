"""Every route of the server, with what OpenAPI says about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

import zoo
from zoo.serving import answers, schema
from zoo.serving.api import Api
from zoo.serving.libretranslate import LibreTranslate

KEYS = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
"""How an API key is sent, for OpenAPI: one of these."""

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Described:
    """A route: its path and method, its handler, and the types of its request and answer."""

    path: str
    method: str
    handler: Handler
    summary: str
    request: type[BaseModel] | None
    answer: type[BaseModel] | None
    many: bool = False
    media: str = "application/json"
    form: bool = False

    @property
    def needs_key(self) -> bool:
        """Whether requests need the server's API key, if it has one."""
        return self.path.startswith("/api/") or self.method == "post"


def described(api: Api, libre: LibreTranslate) -> list[Described]:
    """Return the routes that OpenAPI describes."""
    return [
        Described("/api/translate", "post", api.translate, "Translate texts",
                  schema.TranslateRequest, answers.TranslateAnswer),
        Described("/api/translate/stream", "post", api.stream,
                  "Translate a long text piece by piece: events piece, done and error",
                  schema.StreamRequest, None, media="text/event-stream"),
        Described("/api/score", "post", api.score, "Score given translations",
                  schema.ScoreRequest, answers.ScoreAnswer),
        Described("/api/attention", "post", api.attention,
                  "Attention weights of a text and its translation",
                  schema.AttentionRequest, answers.AttentionAnswer),
        Described("/api/tree", "post", api.tree, "A beam search as a tree",
                  schema.TreeRequest, answers.TreeAnswer),
        Described("/api/models", "get", api.models, "The checkpoints", None, answers.ModelsAnswer),
        Described("/api/models/{name}", "get", api.model, "One checkpoint in detail",
                  None, answers.ModelDetails),
        Described("/translate", "post", libre.translate, "LibreTranslate: translate",
                  schema.LibreTranslateRequest, answers.LibreTranslateAnswer, form=True),
        Described("/detect", "post", libre.detect, "LibreTranslate: detect the language",
                  schema.DetectRequest, answers.Detection, many=True, form=True),
        Described("/languages", "get", libre.languages, "LibreTranslate: the languages",
                  None, answers.Language, many=True),
    ]  # fmt: skip


def openapi(routes: list[Described], *, has_key: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the routes of a server with or without an API key."""
    kinds = {kind for r in routes for kind in (r.request, r.answer) if kind is not None}
    kinds.add(answers.ErrorAnswer)
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    template = "#/components/schemas/{model}"
    _, whole = models_json_schema([(kind, "validation") for kind in ordered], ref_template=template)
    paths: dict[str, Any] = {}
    for route in routes:
        operation = paths.setdefault(route.path, {})[route.method] = _operation(route)
        if has_key and route.needs_key:
            operation["security"] = [{name: []} for name in KEYS]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "zoo serve",
            "version": zoo.__version__,
            "description": "Translate with sequence-to-sequence checkpoints, and see inside them.",
        },
        "servers": [{"url": "."}],  # where the description is: a proxy may have it below a path
        "security": [],
        "paths": paths,
        "components": {
            "schemas": whole["$defs"],
            **({"securitySchemes": KEYS} if has_key else {}),
        },
    }


def _operation(route: Described) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method}{route.path.replace('/', '_').replace('{name}', 'one')}",
        "responses": {
            "200": {"description": "The answer", "content": {route.media: _schema(route)}},
            "default": {
                "description": "An error",
                "content": {"application/json": {"schema": _ref(answers.ErrorAnswer)}},
            },
        },
    }
    if "{name}" in route.path:
        operation["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if route.request is not None:
        content = {"application/json": {"schema": _ref(route.request)}}
        if route.form:
            for form in ("application/x-www-form-urlencoded", "multipart/form-data"):
                content[form] = {"schema": _ref(route.request)}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _schema(route: Described) -> dict[str, Any]:
    if route.answer is None:
        return {"schema": TypeAdapter(str).json_schema()}
    one = _ref(route.answer)
    return {"schema": {"type": "array", "items": one} if route.many else one}


def _ref(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
