"""NumPy's archives that were made to hurt: refused with one line, in bounded time and memory."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from zoo.errors import CheckpointError
from zoo.interop.weights import read_npz

HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


def array(header: str, content: bytes = b"\0" * 8) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def archive(file: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file, "w", compression) as written:
        written.writestr("a.npy", content)
    return file


HEADERS = {
    "another float": HEADER.replace("<f4", "<f16"),
    "open brackets": "(" * 90,
    "an open string": '{\'descr\': """',
    "many signs": "-" * 9000 + "1",
    "keys of two kinds": "{1: 2, 'a': 3}",
    "a boolean size": HEADER.replace("(2,)", "(True,)").replace("<f4", "<f8"),
    "a huge size": HEADER.replace("(2,)", f"(0, {'9' * 40})"),
    "many sizes": HEADER.replace("(2,)", f"({'1,' * 40}2)"),
    "a negative size": HEADER.replace("(2,)", "(-1, -2)"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_are_no_description_are_refused(name: str, tmp_path: Path) -> None:
    file = archive(tmp_path / "a.npz", array(HEADER))
    assert read_npz(file)["a"].tolist() == [0, 0]
    archive(file, array(HEADERS[name]))
    with pytest.raises(CheckpointError, match=r"a\.npy(:| is of type| is not) ") as caught:
        read_npz(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_compression_is_refused(kind: int, tmp_path: Path) -> None:
    file = archive(tmp_path / "a.npz", array(HEADER, bytes(range(256))), kind)
    content = bytearray(file.read_bytes())
    content[44:90] = b"\xff" * 46
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match="The file is damaged"):
        read_npz(file)


def test_arrays_of_zeros_do_not_fill_the_memory(tmp_path: Path) -> None:
    header = HEADER.replace("(2,)", "(1000000,)")
    file = archive(tmp_path / "a.npz", array(header, b"\0" * 4_000_000), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="bytes claim to hold 4,000,128"):
        read_npz(file)
