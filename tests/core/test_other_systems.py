"""Branches for Windows and macOS, by SIMULATION: nothing here runs on those systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import zoo
from zoo import files
from zoo.nn import device
from zoo.registry.builtin import top
from zoo_transformer.network import SINUSOIDS

NUMBERS = top() / "cards" / "checkpoints" / "rnnsearch-tiny.numbers-en-fr"


def test_folders_are_not_opened_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: no fcntl, and opening a folder or flushing a file opened to read fails."""
    opened, fsync, readers = os.open, os.fsync, set[int]()

    def like_windows(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        handle = opened(path, flags, *rest, **more)
        (readers.add if flags & (os.O_RDWR | os.O_WRONLY) == 0 else readers.discard)(handle)
        return handle

    def flushed(handle: int) -> None:
        if handle in readers:
            raise OSError(9, "Bad file descriptor")
        fsync(handle)

    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(os, "open", like_windows)
    monkeypatch.setattr(os, "fsync", flushed)
    files.write_json(tmp_path / "a.json", {"a": 1})
    assert files.read_json(tmp_path / "a.json") == {"a": 1}
    with files.whole_folder(tmp_path / "folder") as part:
        (part / "b").write_text("b")
    with files.whole_folder(tmp_path / "folder", replace=True) as part:
        (part / "c").write_text("c")
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["c"]
    with files.locked(tmp_path / "a.json"):
        files.replace_file(tmp_path / "a.json", "{}")


class NoFloat64(TorchDispatchMode):
    """Raises where a tensor in float64 is made on the device `meta`, which stands for Apple's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "meta":
                assert tensor.dtype != torch.float64, func
        return made


@pytest.mark.parametrize("kind", SINUSOIDS)
def test_positions_need_no_float64_on_apple_s_gpu(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated by the device `meta`."""
    meta = torch.device("meta")
    with NoFloat64():  # type: ignore[no-untyped-call]  # of torch
        with pytest.raises(AssertionError):  # the simulation notices it
            SINUSOIDS[kind](5, 8, torch.float32, meta)
        monkeypatch.setattr(device, "NO_FLOAT64", {"mps", "meta"})
        made = SINUSOIDS[kind](5, 8, torch.float32, meta)
    assert (made.device, made.dtype, made.shape) == (meta, torch.float32, (5, 8))


def test_sampling_on_such_a_device_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: the CPU counts as a device without float64, and is its own substitute."""
    translator = zoo.load(NUMBERS, device="cpu")
    before = translator.translate(["twenty-one"] * 3, sample=True, seed=3, temperature=2.0)
    monkeypatch.setattr(device, "NO_FLOAT64", {"cpu"})
    after = translator.translate(["twenty-one"] * 3, sample=True, seed=3, temperature=2.0)
    assert before == after
