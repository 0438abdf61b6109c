"""Reads that are bounded, writes that are whole, and locks that end with their process."""

import io
import json
import multiprocessing
import os
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from typing_extensions import Buffer

from zoo import files
from zoo.data import readers
from zoo.data.readers import bounded_lines, chunks, count_lines, read_lines
from zoo.errors import DataError, LockedError
from zoo.files import (
    exchange_names,
    locked,
    mend_folder,
    parse_json,
    replace_file,
    whole_file,
    whole_folder,
)

fork = multiprocessing.get_context("fork")


def forked(call: Callable[[], None]) -> int:
    """Run a function in a forked process; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        call()
    finally:
        os._exit(0)


def until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.005)


def add_line(file: Path) -> None:
    for _ in range(5):
        with locked(file):
            before = file.read_text()
            time.sleep(0.002)
            replace_file(file, f"{before}{os.getpid()}\n")


def test_no_update_is_lost_under_a_lock(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    children = [forked(lambda: add_line(file)) for _ in range(8)]
    for child in children:
        os.waitpid(child, 0)
    lines = file.read_text().splitlines()
    assert sorted(lines) == sorted(str(child) for child in children for _ in range(5))


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    file, ready = tmp_path / "file", tmp_path / "ready"

    def hold() -> None:
        with locked(file):
            ready.touch()
            time.sleep(100)

    child = forked(hold)
    until(ready.exists)
    with pytest.raises(LockedError, match="is in use"), locked(file, wait=0):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with locked(file, wait=0):
        pass


def left(folder: Path) -> set[str]:
    return {f.name for f in folder.iterdir() if f.suffix in (".part", ".old")}


@pytest.mark.parametrize("write", [whole_file, whole_folder])
def test_only_what_a_killed_process_left_is_removed(
    tmp_path: Path, write: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    path = tmp_path / "out"

    def begin() -> None:
        with write(path):
            time.sleep(100)

    alive = forked(begin)
    until(lambda: len(left(tmp_path)) == 1)
    (of_alive,) = left(tmp_path)
    dead = forked(begin)
    until(lambda: len(left(tmp_path)) == 2)
    os.kill(dead, signal.SIGKILL)
    os.waitpid(dead, 0)
    with write(path) as part:
        assert left(tmp_path) == {of_alive, part.name}
        (part / "file" if part.is_dir() else part).write_text("whole")
    assert left(tmp_path) == {of_alive}
    assert path.exists()
    os.kill(alive, signal.SIGKILL)
    os.waitpid(alive, 0)
    assert mend_folder(path) == (["a half-written out is removed"] if path.is_dir() else [])


def test_two_names_are_exchanged(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.write_text("other")
    if not exchange_names(one, other):
        pytest.skip("this file system cannot exchange names")
    assert one.read_text() == "other"
    assert other.is_dir()
    with pytest.raises(FileNotFoundError):
        exchange_names(one, tmp_path / "missing")


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(files, "exchange_names", lambda *_: False)
    folder = tmp_path / "out"
    for text in ("old", "new"):
        with whole_folder(folder, replace=True) as part:
            (part / "file").write_text(text)
        assert (folder / "file").read_text() == text
        assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_a_replaced_folder_is_never_absent(tmp_path: Path) -> None:
    """A process that looks all the time sees the folder at each look."""
    folder = tmp_path / "out"
    folder.mkdir()
    if not exchange_names(folder, Path(tmp_path / "out")):
        pytest.skip("this file system cannot exchange names")
    receive, send = fork.Pipe(duplex=False)

    def look() -> None:
        looks = absent = 0
        while not (tmp_path / "done").exists():
            looks += 1
            absent += not folder.exists()
        send.send((looks, absent))

    child = forked(look)
    for number in range(40):
        with whole_folder(folder, replace=True) as part:
            (part / "file").write_text(str(number))
    (tmp_path / "done").touch()
    looks, absent = receive.recv()
    os.waitpid(child, 0)
    assert looks > 0
    assert absent == 0


class Endless(io.RawIOBase):
    """A stream without line ends, and a count of what was read."""

    count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        view[:] = b"." * len(view)
        self.count += len(view)
        return len(view)


def test_an_endless_line_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LINE_LIMIT", 100_000)
    endless = Endless()
    tracemalloc.start()
    with pytest.raises(
        DataError, match=r"standard input, line 1, is too long: it has over 100,000"
    ):
        list(bounded_lines(io.BufferedReader(endless), "standard input"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert endless.count < 300_000
    assert peak < 1_000_000


def test_a_line_of_the_limit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LINE_LIMIT", 10)
    file = tmp_path / "lines"
    file.write_bytes(b"123456789\n\n1234567890")
    assert list(read_lines(file)) == ["123456789", "", "1234567890"]
    file.write_bytes(b"a\n1234567890\n")
    with pytest.raises(DataError, match="line 2, is too long"):
        list(read_lines(file))


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\n\n\nb\n"])
def test_lines_are_counted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert count_lines(file) == len(content.splitlines())


def test_chunks_end_at_their_size_or_their_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "CHUNK_LIMIT", 10)
    texts = ["a"] * 5 + ["b" * 11, "c" * 9, "d", "e"]
    assert list(chunks(texts, 4)) == [texts[:4], texts[4:8], texts[8:]]
    assert list(chunks(texts, 4, len)) == [texts[:4], texts[4:6], texts[6:8], texts[8:]]


def bombs() -> Iterator[tuple[str, str]]:
    yield "[" + ",".join(["[]"] * 3_000_000) + "]", "over 5,000,000 values"
    yield "[1e999]", "1e999 is too large"
    yield "[-1e999]", "too large"
    keys = [f'"k{n}":0' for n in range(50_000)]
    yield "{" + ",".join([*keys, '"k7":1']) + "}", "duplicate key 'k7'"
    yield "[" * 100_000, "nested too deeply"
    yield json.dumps({"a" * 1000: 1})[:-1] + ',"' + "a" * 1000 + '":2}', "duplicate key 'aaa"


@pytest.mark.parametrize(("text", "message"), list(bombs()), ids=lambda text: text[:20])
def test_bombs_of_json_are_refused(text: str, message: str) -> None:
    for content in (text, text.encode()):
        with pytest.raises(ValueError, match=message) as caught:
            parse_json(content)
        assert len(str(caught.value)) < 200
