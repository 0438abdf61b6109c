"""Files of `torch.save`: nothing in them runs, and what they may not hold is refused."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from argparse import Namespace
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forked import python
from zoo.errors import ConversionError
from zoo.interop.pickle_scan import strings
from zoo.interop.pickles import literal, plain, read_pickle
from zoo.interop.weights import read_tensor_file

CONTENT = {
    "model": OrderedDict(weight=torch.arange(6.0).view(2, 3), bias=torch.zeros(2).half()),
    "args": Namespace(layers=2, names=["a", "b"]),
    "counts": defaultdict(int, {"x": 1}),
}


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_and_settings_are_read(zipped: bool, tmp_path: Path) -> None:
    torch.save(CONTENT, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    content = read_pickle(tmp_path / "a.pt")
    assert torch.equal(content["model"]["weight"], torch.arange(6.0).view(2, 3))
    assert content["model"]["bias"].dtype == torch.float16
    assert plain(content["args"]) == {"layers": 2, "names": ["a", "b"]}
    assert content["counts"] == {"x": 1}
    assert {"weight", "bias", "layers"} <= strings(tmp_path / "a.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_objects_without_a_state_are_read(zipped: bool, tmp_path: Path) -> None:
    content = {"args": Namespace(), "model": OrderedDict(weight=torch.zeros(1))}
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert plain(read_pickle(tmp_path / "a.pt")["args"]) == {}


def test_nothing_stays_allowed(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save(CONTENT, tmp_path / "a.pt")
    read_pickle(tmp_path / "a.pt")
    assert set(torch.serialization.get_safe_globals()) == before


def test_objects_of_other_projects_are_read_without_them(tmp_path: Path) -> None:
    """The file is written by another process, in which modules have the names of fairseq's."""
    program = """
        import sys, types, torch
        for name in ("fairseq", "fairseq.data", "fairseq.data.dictionary", "omegaconf",
                     "omegaconf.dictconfig", "omegaconf.nodes", "pathlib._local"):
            sys.modules[name] = types.ModuleType(name)
        def make(module, name):
            kind = type(name, (), {"__module__": module})
            setattr(sys.modules[module], name, kind)
            return kind()
        words = make("fairseq.data.dictionary", "Dictionary")
        words.symbols = ["<s>", "a"]
        config = make("omegaconf.dictconfig", "DictConfig")
        value = make("omegaconf.nodes", "AnyNode")
        value._val = 7
        config._content = {"layers": value}
        path = make("pathlib._local", "PosixPath")  # as Python 3.13 names it
        torch.save({"words": words, "cfg": config, "path": path}, sys.argv[1])
    """
    file = tmp_path / "a.pt"
    subprocess.run([*python(), "-c", textwrap.dedent(program), str(file)], check=True)
    content = read_pickle(file)
    assert plain(content["words"]) == {"symbols": ["<s>", "a"]}
    assert plain(content["cfg"]) == {"layers": 7}
    assert "fairseq" not in sys.modules


class Runs:
    """Pickles to a call."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


HOSTILE: dict[str, tuple[Any, str]] = {
    "a command": (Runs(os.system, "touch ran"), "posix.system"),
    "eval": (Runs(eval, "open('ran', 'w')"), "builtins.eval"),
    "getattr": (Runs(getattr, Namespace(), "x"), "builtins.getattr"),
    "a file": (Runs(open, "ran", "w"), "io.open"),
    "memory": (Runs(bytearray, 2**40), "builtins.bytearray"),
    "a tensor of any size": (Runs(torch.Tensor, 2**20, 2**20), "torch._tensor.Tensor"),
    "code": (Runs(pickle.loads, b"."), "_pickle.loads"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_calls_is_refused(
    name: str, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, names = HOSTILE[name]
    file = tmp_path / "a.pt"
    torch.save({"model": {}, "args": content}, file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ConversionError, match="reading it could run code") as caught:
        read_pickle(file)
    assert names.rpartition(".")[2] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_all_names_are_reported(tmp_path: Path) -> None:
    torch.save([Runs(os.system, "x"), Runs(eval, "1")], tmp_path / "a.pt")
    with pytest.raises(ConversionError, match=r"builtins\.eval, posix\.system"):
        read_pickle(tmp_path / "a.pt")


@pytest.mark.parametrize("protocol", [0, 4])
def test_other_protocols_of_pickle_are_refused(protocol: int, tmp_path: Path) -> None:
    torch.save({"a": Runs(os.system, "touch ran")}, tmp_path / "a.pt", pickle_protocol=protocol)
    with pytest.raises(ConversionError):
        read_pickle(tmp_path / "a.pt")


def test_a_tensor_larger_than_its_storage_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(2**20, 2**20)}, tmp_path / "a.pt")
    with pytest.raises(ConversionError, match=r"a tensor of shape \(1048576, .* is not stored"):
        read_pickle(tmp_path / "a.pt")


def test_many_tensors_of_one_storage_are_refused(tmp_path: Path) -> None:
    """Tied weights share a storage too, but not so many."""
    matrix = torch.zeros(300, 300)
    for count in (8, 80):
        torch.save({str(i): matrix.view(-1) for i in range(count)}, tmp_path / f"{count}.pt")
    assert len(read_pickle(tmp_path / "8.pt")) == 8
    with pytest.raises(ConversionError, match="bytes claim to hold 28,800,000: tensors are shared"):
        read_pickle(tmp_path / "80.pt")


def rewritten(file: Path, compression: int, twice: bool) -> None:
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as old, zipfile.ZipFile(file, "w") as new:
        for entry in old.infolist():
            for _ in range(1 + (twice and entry.filename.endswith("data.pkl"))):
                new.writestr(entry.filename, old.read(entry), compression)


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1000)}, tmp_path / "a.pt")
    rewritten(tmp_path / "a.pt", zipfile.ZIP_DEFLATED, twice=False)
    with pytest.raises(ConversionError, match="its parts are compressed"):
        read_pickle(tmp_path / "a.pt")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_with_a_part_twice_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1000)}, tmp_path / "a.pt")
    rewritten(tmp_path / "a.pt", zipfile.ZIP_STORED, twice=True)
    with pytest.raises(ConversionError, match="a part of it occurs twice"):
        read_pickle(tmp_path / "a.pt")


HUGE = (1 << 62).to_bytes(8, "little")
"""A length that no file has."""

FALSE = [b"", b"text", b"\x80\x02", b"PK\x03\x04 torn", b"\x80\x02.", b"\x80\x04\x8e" + HUGE,
         b"\x80\x04\x8d" + HUGE + b"abc.", b"\x80\x05\x96" + HUGE]  # fmt: skip


@pytest.mark.parametrize("content", FALSE)
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(ConversionError, match=r"it is (not a checkpoint of|incomplete)"):
        read_pickle(tmp_path / "a.pt")
    assert strings(tmp_path / "a.pt") == frozenset()


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    torch.save(CONTENT, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    for size in range(0, len(whole), 97):
        (tmp_path / "b.pt").write_bytes(whole[:size])
        with pytest.raises(ConversionError):
            read_pickle(tmp_path / "b.pt")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[(512, 3)] * 2", [(512, 3), (512, 3)]),
        ("2 * [(4, 3)] + [(5, 1, 2)]", [(4, 3), (4, 3), (5, 1, 2)]),
        (" [True, False]", [True, False]),
        ("True", True),
        ("-1", -1),
    ],
)
def test_literals(text: str, value: Any) -> None:
    assert literal(text) == value


NO_LITERALS = ["f()", "[x]", "[1] ** 2", "10 * 10", "[1] * 600", "[[0] * 500] * 500", "'a' * 9",
               "lambda: 0", "[1 for _ in (1,)]", "a.b", "", "[0" * 9999]  # fmt: skip


@pytest.mark.parametrize("text", NO_LITERALS)
def test_no_literals(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of numbers"):
        literal(text)


def archive(file: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(file, "w", compression) as written:
        written.writestr("archive/data.pkl", content)
        written.writestr("archive/version", "3\n")


@pytest.mark.parametrize("again", [b"", b"q\x000h\x00"])  # through the memo too
def test_deeply_nested_tuples_are_refused(again: bytes, tmp_path: Path) -> None:
    """The hash of such a tuple, a dictionary's key, ends the process."""
    file = tmp_path / "a.pt"
    archive(file, b"\x80\x02}(" + b")" + (b"\x85" + again) * 200_000 + b"K\x01u.")
    with pytest.raises(ConversionError, match="its pickle has tuples that are nested over 100"):
        read_pickle(file)
    with pytest.raises(ConversionError, match="nested"):
        read_tensor_file(file)
    archive(file, b"\x80\x02}(" + b")" + b"\x85" * 50 + b"K\x01u.")
    assert len(read_pickle(file)) == 1


def test_pickles_of_many_instructions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.interop.pickle_scan.MOST_INSTRUCTIONS", 1000)
    file = tmp_path / "a.pt"
    archive(file, b"\x80\x02(" + b"N" * 1000 + b"t.")
    with pytest.raises(ConversionError, match="its pickle has more than 1,000 instructions"):
        read_pickle(file)
    assert strings(file) == frozenset()


def test_compressed_pickles_are_not_looked_at(tmp_path: Path) -> None:
    """A quarter of a megabyte could hold 250 megabytes of instructions."""
    file = tmp_path / "a.pt"
    archive(file, pickle.dumps(["model"], 2), zipfile.ZIP_DEFLATED)
    assert strings(file) == frozenset()
    archive(file, pickle.dumps(["model"], 2))
    assert strings(file) == {"model"}


def test_files_of_tensors_hold_nothing_else(tmp_path: Path) -> None:
    for content in (CONTENT, [Runs(bytearray, 2**40)]):
        torch.save(content, tmp_path / "a.bin")
        with pytest.raises(ConversionError, match="reading it could run code"):
            read_tensor_file(tmp_path / "a.bin")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint16, torch.complex64, None])
def test_tensors_of_other_types_are_no_code(
    dtype: torch.dtype | None, zipped: bool, tmp_path: Path
) -> None:
    ones = torch.ones(3, 3)
    tensor = ones.to_sparse() if dtype is None else ones.to(dtype)
    torch.save({"a": tensor}, tmp_path / "x.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ConversionError, match=r"a type that is not read: .*16 or 32 bits$"):
        read_pickle(tmp_path / "x.bin", {})
