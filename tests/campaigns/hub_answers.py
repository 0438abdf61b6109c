"""The reader of what a hub answers: the list of a repository's files, headers, and contents."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import huggingface_hub

from tests.campaigns.readers import RELEASED, Reader
from zoo.errors import HubError
from zoo.hub import huggingface
from zoo.hub.pull import pull
from zoo.hub.retry import RetryPolicy
from zoo.hub.settings import Settings
from zoo.registry.registry import default_registry

COMMIT = "1" * 40
ENDPOINT = "http://hub.invalid"
NAMES = ("config.json", "tokenizer.json", "model.safetensors")


def _answers(content: bytes) -> tuple[bytes, dict[str, Any], bytes]:
    """Return the three answers of an input: a list, a status with headers by name, a file."""
    listing, _, rest = content.partition(b"\n")
    headers, _, file = rest.partition(b"\n")
    try:
        by_name = json.loads(headers)
    except ValueError:
        by_name = None
    return listing, by_name if isinstance(by_name, dict) else {}, file


def _pull(file: Path) -> object:
    listing, headers, content = _answers(file.read_bytes())

    def respond(request: httpx2.Request) -> httpx2.Response:
        if "/api/" in request.url.path:
            return httpx2.Response(200, content=listing, request=request)
        name = request.url.path.rpartition("/")[2]
        given = headers.get(name)
        named = [(str(k), str(v)) for k, v in given.items()] if isinstance(given, dict) else []
        status = next(
            (int(v) for k, v in named if k == "status" and v in ("302", "404", "503")), 200
        )
        try:
            return httpx2.Response(
                status, headers=[(k, v) for k, v in named if k != "status"], request=request,
                content=b"" if request.method == "HEAD" else content,
            )  # fmt: skip
        except (UnicodeEncodeError, ValueError) as error:  # no server can send such headers
            raise HubError("the headers cannot be sent", type(error).__name__) from None

    huggingface_hub.set_client_factory(
        lambda: httpx2.Client(transport=httpx2.MockTransport(respond))
    )
    cache = file.parent / "cache"
    settings = Settings(ENDPOINT, cache, 1.0, RetryPolicy(1, 0.0, 0.0))
    hub = huggingface.HuggingFace(settings)
    with (
        patch("zoo.hub.pull.hub_of", lambda *_: hub),
        patch.dict(os.environ, HF_HUB_CACHE=str(cache)),
    ):
        return pull("hf://ann/small", default_registry())


def pulls() -> Reader:
    """Return the reader of answers: it pulls a checkpoint whose files have equal contents."""
    content = (RELEASED / "config.json").read_bytes()
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    sha = hashlib.sha256(content).hexdigest()
    siblings: list[dict[str, Any]] = [
        {"rfilename": name, "size": len(content), "blobId": git} for name in NAMES
    ]
    siblings[-1]["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 134}
    small = {"X-Repo-Commit": COMMIT, "ETag": f'"{git}"', "Content-Length": len(content)}
    large = {**small, "X-Linked-Etag": f'"{sha}"', "X-Linked-Size": len(content)}
    listing = {"id": "ann/small", "sha": COMMIT, "private": False, "siblings": siblings}
    headers = {name: large if name == NAMES[-1] else small for name in NAMES}
    valid = b"\n".join([json.dumps(listing).encode(), json.dumps(headers).encode(), content])
    modules = ("hub.pull", "hub.huggingface", "hub.session", "hub.client_errors", "hub.digest")
    return Reader("answers of a hub", _pull, [valid], modules, 0.05)
