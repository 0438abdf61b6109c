"""The commands that write, for `interruptions`: how each is prepared, run and checked."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gzip
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from click.testing import CliRunner

from tests.campaigns.readers import RELEASED
from zoo.checkpoint.checkpoint import convert
from zoo.checkpoint.format import describe
from zoo.checkpoint.tensors import read_tensors
from zoo.cli import cli
from zoo.data.downloads import MIRROR, fetch, is_present
from zoo.errors import HubError
from zoo.files import whole_folder
from zoo.registry import catalogue
from zoo.registry.declarations import Download
from zoo.registry.registry import _registry_of, default_registry

SCORE = {"data": "a", "split": "test", "bleu": 1.5, "bleu_signature": "s"}
ADDRESS = "hf://ann/small"
LINES = "a dog runs\ntwo cats sleep\n"


class Writer(NamedTuple):
    """A command that writes, what must be there before it, and how what it wrote is checked."""

    name: str
    prepare: Callable[[Path], None]
    write: Callable[[Path], None]
    whole: Callable[[Path], bool]
    """Returns whether the folder has what the command writes; raises if that is damaged."""
    renew: Callable[[Path], None] = lambda folder: None
    """Makes another run possible where the command refuses what it has written."""


def zoo(*arguments: object) -> None:
    """Run `zoo` in this process.

    Raises:
        OSError: it failed.
    """
    _registry_of.cache_clear()
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exit_code:
        raise OSError(done.output.strip() or repr(done.exception))


def removing(name: str) -> Callable[[Path], None]:
    """Return a function that removes a file or folder, if it is there."""

    def remove(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return remove


# --- checkpoints, cards and the catalogue ---------------------------------------------------------


def copy(folder: Path) -> None:
    """Write a released checkpoint."""
    shutil.copytree(RELEASED, folder / "checkpoint", dirs_exist_ok=True)


def _converted(folder: Path) -> bool:
    if not (folder / "half").exists():
        return False
    describe(folder / "half")
    return True


def _added(folder: Path) -> bool:
    file = folder / "registry.toml"
    contents = catalogue.read(file) if file.exists() else catalogue.Contents()
    assert not contents.problems, contents.problems
    return "mine" in contents.checkpoints


def _pushed(folder: Path) -> bool:
    if not (folder / "hub" / "refs" / "main").exists():
        return False
    from zoo.hub.push import push

    return not push(folder / "checkpoint", f"file://{folder}/hub", dry_run=True).changes


def _scored(folder: Path) -> bool:
    scores = json.loads((folder / "checkpoint" / "scores.json").read_text())["scores"]
    assert (folder / "checkpoint" / "README.md").read_text().count("<!-- end -->") == 1
    return any(score.get("data") == "a" for score in scores)


def _score(folder: Path) -> None:
    (folder / "score.json").write_text(json.dumps(SCORE))
    zoo("card", folder / "checkpoint", "--write", "--scores", folder / "score.json")


def _replaced(folder: Path) -> bool:
    old, new = (folder / "out" / name for name in ("old", "new"))
    assert old.exists() != new.exists(), "the folder is neither the old nor the new one"
    return new.exists()


def _old_folder(folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    (folder / "out" / "old").touch()


def _replace(folder: Path) -> None:
    with whole_folder(folder / "out", replace=True) as part:
        (part / "more").write_bytes(b"a" * 100_000)
        (part / "new").touch()


def _exported(folder: Path) -> bool:
    if not (folder / "exported").exists():
        return False
    json.loads((folder / "exported" / "config.json").read_text())
    read_tensors(folder / "exported" / "model.safetensors")
    return True


def _foreign(folder: Path) -> None:
    from tests.campaigns.folders import FOREIGN

    shutil.rmtree(folder / "foreign", ignore_errors=True)
    FOREIGN["g2p"](folder / "foreign")


def _imported(folder: Path) -> bool:
    if not (folder / "imported").exists():
        return False
    describe(folder / "imported")
    read_tensors(folder / "imported" / "model.safetensors")
    return True


REMOVABLE = frozenset(f"old{number}" for number in range(1, 33))


def listed(folder: Path) -> None:
    """Write a catalogue with names to remove."""
    (folder / "registry.toml").write_bytes(_catalogue())


@functools.cache
def _catalogue() -> bytes:
    """Return a catalogue with names to remove."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "registry.toml"
        with patch.dict(os.environ, ZOO_REGISTRY=str(file)):
            for entry in ("mine", *REMOVABLE):
                zoo("registry", "add", entry, small())
        return file.read_bytes()


def _removed(folder: Path) -> bool:
    contents = catalogue.read(folder / "registry.toml")
    assert not contents.problems, contents.problems
    assert contents.checkpoints.keys() >= REMOVABLE
    return "mine" not in contents.checkpoints


def _packaged(folder: Path) -> bool:
    if not (folder / "zoo-gated").exists():
        return False
    files = [file for file in (folder / "zoo-gated").rglob("*") if file.is_file()]
    assert len(files) > 5
    assert all(file.stat().st_size or file.name == "py.typed" for file in files)
    return True


# --- translations ---------------------------------------------------------------------------------


@functools.cache
def small() -> Path:
    """Return a small checkpoint with random weights, which is removed at the end."""
    from tests.interop.checkpoints import checkpoint, write

    top = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    return write(checkpoint("transformer"), top / "small")


def _with_lines(folder: Path) -> None:
    shutil.copytree(small(), folder / "checkpoint", dirs_exist_ok=True)
    (folder / "in.txt").write_text(LINES * 2)


def _translate(folder: Path, *more: object) -> None:
    zoo("translate", folder / "checkpoint", "--input", folder / "in.txt", "--out",
        folder / "out.txt", "--max-length", 6, *more)  # fmt: skip


def _has_lines(name: str, count: int) -> Callable[[Path], bool]:
    def check(folder: Path) -> bool:
        file = folder / name
        if not file.exists():
            return False
        assert file.read_text().count("\n") == count, f"{name} is not complete"
        return True

    return check


def _with_shards(folder: Path) -> None:
    _with_lines(folder)
    for name, content in _shards().items():
        (folder / name).write_bytes(content)


@functools.cache
def _shards() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        _with_lines(Path(name))
        for shard in ("1/2", "2/2"):
            _translate(Path(name), "--shard", shard)
        return {file.name: file.read_bytes() for file in Path(name).glob("out.txt.*")}


def _drawn(folder: Path) -> bool:
    if not (folder / "a.html").exists():
        return False
    assert (folder / "a.html").read_text().rstrip().endswith("</html>")
    return True


# --- downloads ------------------------------------------------------------------------------------

TEXT = "".join(f"line {number}\n" for number in range(20_000)).encode()
PACKED = gzip.compress(TEXT)
DOWNLOAD = Download(
    "corpus/text.en", "https://example.org/text.en.gz", len(PACKED),
    hashlib.sha256(TEXT).hexdigest(), len(TEXT),
)  # fmt: skip


@functools.cache
def servers() -> dict[str, str]:
    """Start a hub with one checkpoint and a server of one file; return their variables."""
    from tests.hub.server import Server

    hub = Server()
    hub.put("ann/small", small())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            self.send_response(206 if start else 200)
            if start:
                size = len(PACKED)
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            self.send_header("Content-Length", str(len(PACKED) - start))
            self.end_headers()
            self.wfile.write(PACKED[start:])

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # its client was killed
                super().handle()

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{http.server_port}"
    return {"HF_ENDPOINT": hub.endpoint, "ZOO_HUB_WAIT": "0.05", MIRROR: address}


def _nothing(folder: Path) -> None:
    servers()


def _pull(folder: Path) -> None:
    """Pull the checkpoint of the hub."""
    with patch.dict(os.environ, {**servers(), "HF_HUB_CACHE": str(folder / "cache")}):
        zoo("pull", ADDRESS)


def _pulled(folder: Path) -> bool:
    """Return whether the checkpoint is in the cache; its files have their digests."""
    from zoo.hub.cache import list_commits, verify
    from zoo.hub.pull import pull

    with patch.dict(os.environ, HF_HUB_CACHE=str(folder / "cache")):
        try:
            pull(ADDRESS, default_registry(), offline=True)
        except HubError:
            return False
        faults = [fault for _, of_one in verify(list_commits()) for fault in of_one]
    assert not faults, faults
    return True


def _download(folder: Path) -> None:
    """Fetch the file of the other server, as `zoo data get` does."""
    with patch.dict(os.environ, servers()):
        fetch(DOWNLOAD, folder / "data", lambda *_: None, wait=0.05)


def _downloaded(folder: Path) -> bool:
    """Return whether the file is there; it is complete."""
    if not (folder / "data" / DOWNLOAD.file).exists():
        return False
    assert is_present(DOWNLOAD, folder / "data")
    return True


WRITERS = (
    Writer("zoo convert", copy, lambda f: convert(f / "checkpoint", f / "half", "float16"),
           _converted, removing("half")),
    Writer("zoo registry add", copy,
           lambda f: zoo("registry", "add", "mine", f / "checkpoint", "--replace"), _added),
    Writer("zoo registry remove", listed, lambda f: zoo("registry", "remove", "mine"), _removed,
           listed),
    Writer("zoo push file://", copy,
           lambda f: zoo("push", f / "checkpoint", f"file://{f}/hub"), _pushed),
    Writer("zoo card --write --scores", copy, _score, _scored),
    Writer("replacing a folder", _old_folder, _replace, _replaced),
    Writer("zoo import", _foreign,
           lambda f: zoo("import", f / "foreign", "--out", f / "imported"), _imported,
           removing("imported")),
    Writer("zoo export", _with_lines,
           lambda f: zoo("export", f / "checkpoint", "--format", "huggingface", "--out",
                         f / "exported"), _exported, removing("exported")),
    Writer("zoo new-plugin", lambda f: None,
           lambda f: zoo("new-plugin", "gated", "--out", f / "zoo-gated"), _packaged,
           removing("zoo-gated")),
    Writer("zoo translate --out", _with_lines, _translate, _has_lines("out.txt", 4)),
    Writer("zoo translate --shard", _with_lines, lambda f: _translate(f, "--shard", "1/2"),
           _has_lines("out.txt.1-of-2", 2)),
    Writer("zoo join", _with_shards, lambda f: zoo("join", f / "out.txt"),
           _has_lines("out.txt", 4)),
    Writer("zoo attention --out", _with_lines,
           lambda f: zoo("attention", f / "checkpoint", "a dog", "--out", f / "a.html"), _drawn),
    Writer("zoo pull", _nothing, _pull, _pulled),
    Writer("zoo data get", _nothing, _download, _downloaded),
)  # fmt: skip
