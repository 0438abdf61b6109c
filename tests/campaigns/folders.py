"""Readers of folders and of requests: foreign checkpoints, training runs, the server."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from starlette.types import ASGIApp, Message

import zoo
from tests.campaigns.readers import RELEASED, Reader
from tests.interop import (
    huggingface,
    marian_folder,
    t5_folder,
    test_fairseq,
    test_fsmt,
    test_g2p,
    test_opennmt,
)
from tests.interop import test_joeynmt as joeynmt
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry
from zoo.serving.app import application
from zoo.serving.checkpoints import Checkpoints, Served
from zoo.serving.errors import FROM_WORKER
from zoo.serving.limits import Limits
from zoo.serving.models import Models
from zoo.serving.service import Service
from zoo.serving.worker import answer
from zoo.training.session import resume

Files = Mapping[str, bytes]
STEPS = 4


def _content(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths in it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _write(folder: Path, content: Files) -> None:
    """Write a folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


# --- foreign checkpoints --------------------------------------------------------------------------


def _marian(folder: Path) -> None:
    huggingface.marian(folder, tags=(">>deu<<",))


def _t5(folder: Path) -> None:
    t5_folder.write_folder(folder)


def _fairseq(folder: Path) -> None:
    folder.mkdir()
    test_fairseq.transformer(folder)


def _joeynmt(folder: Path) -> None:
    folder.mkdir()
    network = joeynmt.JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    joeynmt.write(folder, network.state(), joeynmt.transformer())


def _fsmt(folder: Path) -> None:
    test_fsmt.fsmt(folder)


def _marian_npz(folder: Path) -> None:
    marian_folder.write(folder)


def _opennmt(folder: Path, version: int) -> None:
    folder.mkdir()
    test_opennmt.toy(folder, version)


def _g2p(folder: Path) -> None:
    folder.mkdir()
    (folder / "checkpoint20.npz").write_bytes(test_g2p.npz(test_g2p.random_arrays()))


FOREIGN: dict[str, Callable[[Path], None]] = {
    "marian": _marian, "t5": _t5, "fairseq": _fairseq, "joeynmt": _joeynmt, "fsmt": _fsmt,
    "g2p": _g2p, "marian-npz": _marian_npz,
    "opennmt 1": functools.partial(_opennmt, version=1),
    "opennmt 3": functools.partial(_opennmt, version=3),
}  # fmt: skip


def foreign() -> list[Reader]:
    """Return a reader for each file of each foreign format: it imports and translates."""
    result = []
    with tempfile.TemporaryDirectory() as top:
        for format, write in FOREIGN.items():
            folder = Path(top) / format
            write(folder)
            content = _content(folder)
            for changed, data in content.items():
                read = functools.partial(_import, content, changed)
                result.append(
                    Reader(f"{format}: {changed}", read, [data], ("interop.source",), 0.002)
                )
    return result


def _import(content: Files, changed: str, file: Path) -> object:
    folder, out = file.parent / "foreign", file.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    _write(folder, {**content, changed: file.read_bytes()})
    import_checkpoint(folder, out, default_registry())
    return zoo.load(out).translate("a1 dog läuft", beam=2, max_length=4, split=False)


# --- training runs --------------------------------------------------------------------------------

SMALL = {"embedding_dim": 8, "encoder_dim": 8, "hidden_dim": 8, "attention_dim": 8,
         "readout_dim": 8, "tokenizer": "word", "batch_tokens": 60, "save_every": 2,
         "validate_every": 2, "average_last": 2, "select": "loss"}  # fmt: skip
HERE = "/somewhere/that/is/not/there"


def runs() -> list[Reader]:
    """Return a reader for each file of a run: it resumes the run for two updates."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"a{i} a{i % 3} a{i % 7}\tb{i % 3} b{i % 7}" for i in range(60)]
        (folder / "data.tsv").write_text("\n".join(lines) + "\n")
        out = folder / "out"
        zoo.train("rnnsearch-tiny", str(folder / "data.tsv"), out, settings=SMALL, steps=STEPS)
        content = {
            file: data.replace(os.fsencode(name), HERE.encode())
            for file, data in _content(folder).items()
            if Path(file).name not in ("lock", "curve.png") and not file.endswith(".lock")
        }
    changed = [file for file in content if file.startswith("out.run/")]
    return [
        Reader(f"run: {file.removeprefix('out.run/')}", functools.partial(_resume, content, file),
               [content[file]], ("training.run_folder", "training.state"), 0.0002)
        for file in changed
    ]  # fmt: skip


def _resume(content: Files, changed: str, file: Path) -> object:
    folder = file.parent / "run"
    here = os.fsencode(folder)
    everything = {**content, changed: file.read_bytes()}
    _write(folder, {n: data.replace(HERE.encode(), here) for n, data in everything.items()})
    cache = patch.dict(os.environ, ZOO_CACHE=str(file.parent / "cache"))
    with cache, resume(folder / "out", steps=STEPS + 2) as session:
        return session.run()


# --- requests -------------------------------------------------------------------------------------


class Direct(Service):
    """A service whose operations run in this process, one after another."""

    models: Models

    async def run(
        self, operation: str, served: Served | None, inputs: Sequence[Any], *,
        lengths: Sequence[int], width: int = 1, client: object = None, **job: Any,
    ) -> list[bytes]:  # fmt: skip
        """Compute an operation as a worker does."""
        whole = {"operation": operation, **(served.job() if served else {}), **job}
        asked = json.loads(json.dumps({**whole, "inputs": list(inputs)}))
        results = json.loads(json.dumps(answer(self.models, asked, lambda: None)))["results"]
        for result in results:
            if "error" in result:
                raise FROM_WORKER[result["code"]](*result["error"])
        return [json.dumps(result["value"]).encode() for result in results]


@functools.cache
def _application() -> ASGIApp:
    registry = default_registry()
    service = Direct(Checkpoints({"a": RELEASED}, registry), Limits(), workers=1, threads=1)
    service.models = Models(10**9, "float32", registry, None)
    return application(service)


def _request(file: Path) -> object:
    """Send a request: a line with its path and a body. The answer is JSON, and no server error."""
    path, _, body = file.read_bytes().partition(b"\n")
    sent: list[Message] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    target, _, query = path.partition(b"?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": "POST" if body else "GET", "path": target.decode("utf-8", "replace"),
        "raw_path": target, "query_string": query, "root_path": "", "client": ("127.0.0.1", 9),
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "server": ("127.0.0.1", 80),
    }  # fmt: skip

    async def respond() -> None:
        await _application()(scope, receive, send)

    asyncio.run(respond())
    assert sent[0]["status"] < 500, (sent[0]["status"], sent[1]["body"][:100])
    content = b"".join(message.get("body", b"") for message in sent)
    if sent[0]["status"] >= 400:
        assert set(json.loads(content)) >= {"error"}, content[:100]
    return content


def requests() -> Reader:
    """Return the reader of requests."""

    def request(path: str, **body: Any) -> bytes:
        return f"/{path}\n{json.dumps(body)}".encode()

    search = {"beam": 2, "max_length": 9, "length_penalty": 0.6, "prefix": "Ein"}
    many = {"n_best": 2, "token_scores": True, "alignment": True}
    asked = {"checkpoint": "a", "text": "A man. A dog."}
    valid = [
        request("api/translate", checkpoint="a", texts=["A man.", "Two"], **search, **many),
        request("api/translate/stream", **asked, **search),
        request("api/score", checkpoint="a", pairs=[["A man.", "Ein Mann."]]),
        request("api/attention", **asked, target="Ein Mann."),
        request("api/tree", **asked, beam=2),
        request("translate", q="A man.", source="en", target="de", format="text"),
        request("detect", q="A man."),
        b"/api/models/a\n", b"/languages\n", b"/page/../index.html\n",
    ]  # fmt: skip
    modules = ("serving.http", "serving.api", "serving.schema", "serving.libretranslate")
    return Reader("requests", _request, valid, modules, 0.1)
