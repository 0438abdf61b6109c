"""What the hub's tests share."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo.errors import ZooError
from zoo.hub.contract import digest

NAME = "ann/small"
ADDRESS = f"hf://{NAME}"
WEIGHTS = r"/get/"
"""The path at the CDN that the large file comes from."""


@contextlib.contextmanager
def refused(kind: type[ZooError], *told: str, cache: Path | None = None) -> Iterator[None]:
    """What is within ends with an error of this very type, told on one line, and leaves nothing."""
    with pytest.raises(ZooError) as caught:
        yield
    assert type(caught.value) is kind, caught.value
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    assert "hf_ann" not in text
    assert "Bearer" not in text
    for part in told:
        assert part in text, text
    if cache is not None:
        clean(cache)


def clean(cache: Path) -> None:
    """Nothing in a cache is half-written: every blob is what its name says, and no revision is
    noted that is not there, whole.
    """
    assert not list(cache.rglob("*.incomplete"))
    assert not list(cache.rglob("*.part"))
    for blob in cache.glob("models--*/blobs/*"):
        assert digest(blob, git=len(blob.name) == 40) == blob.name
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


def outside(folder: Path, cache: Path) -> set[str]:
    """Return the files below a folder that are not in the cache."""
    every = {os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}
    return {name for name in every if not Path(name).is_relative_to(cache)}
