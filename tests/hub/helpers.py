"""Functions shared by the tests of the hub."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo.checkpoint.card_text import published
from zoo.errors import ZooError
from zoo.hub.digest import FileDigest

NAME = "ann/small"
ADDRESS = f"hf://{NAME}"
WEIGHTS = r"/get/"
"""The path of the large file at the CDN."""


@contextlib.contextmanager
def refused(kind: type[ZooError], *parts: str, cache: Path | None = None) -> Iterator[None]:
    """The block raises an error of exactly this type, on one line, and leaves no partial file."""
    with pytest.raises(ZooError) as caught:
        yield
    assert type(caught.value) is kind, caught.value
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    assert "hf_ann" not in text
    assert "Bearer" not in text
    for part in parts:
        assert part in text, text
    if cache is not None:
        clean(cache)


def clean(cache: Path) -> None:
    """A cache has no partial file, its blobs match their names, its revisions are complete."""
    assert not list(cache.rglob("*.incomplete"))
    assert not list(cache.rglob("*.part"))
    for blob in cache.glob("models--*/blobs/*"):
        size = blob.stat().st_size
        git = len(blob.name) == 40
        assert FileDigest(size, "" if git else blob.name, blob.name if git else "").matches(blob)
    for ref in cache.glob("models--*/refs/*"):
        snapshot = ref.parents[1] / "snapshots" / ref.read_text()
        assert (snapshot / "model.safetensors").is_file()
    for link in cache.rglob("*"):
        if link.is_symlink():
            assert link.resolve().is_relative_to(cache.resolve())


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def as_pushed(folder: Path, address: str = ADDRESS) -> dict[str, str]:
    """Return the digest of every file that a push of a folder sends: its card names the address."""
    card = published((folder / "README.md").read_text(), address, "seq2seq-zoo")
    return {**fingerprint(folder), "README.md": hashlib.sha256(card.encode()).hexdigest()}


def outside(folder: Path, cache: Path) -> set[str]:
    """Return the files below a folder that are not in the cache."""
    files = {os.path.join(top, name) for top, _, names in os.walk(folder) for name in names}
    return {file for file in files if not Path(file).is_relative_to(cache)}
