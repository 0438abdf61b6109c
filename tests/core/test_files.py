"""Reads that are bounded, writes that are whole, and locks that end with their process."""

import contextlib
import errno
import io
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typing_extensions import Buffer

from zoo import files
from zoo.data import readers
from zoo.data.readers import bounded_lines, chunks, count_lines, read_lines
from zoo.errors import CheckpointError, DataError, LockedError
from zoo.files import (
    exchange_names,
    locked,
    mend_folder,
    parse_json,
    read_bytes,
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


def without_files(call: Callable[[], None]) -> None:
    """Call a function in this process when it cannot open one file more."""
    taken = [os.open(os.devnull, os.O_RDONLY)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 20, before[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        call()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for descriptor in taken:
            os.close(descriptor)


def test_without_file_descriptors_a_folder_is_an_error_and_not_many(tmp_path: Path) -> None:
    """Its lock cannot be opened: that does not mean that another process has it."""

    def write() -> None:
        with pytest.raises(OSError, match="Too many open files"), whole_folder(tmp_path / "out"):
            pass

    made: list[Path] = []
    mkdir = Path.mkdir

    def counted(path: Path, *arguments: Any, **options: Any) -> None:
        made.append(path)
        assert len(made) < 10, "folders are made without an end"
        mkdir(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", counted)
        without_files(write)
    mend_folder(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_refuses_locks_is_written_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(*_: int) -> None:
        calls.append(1)
        assert len(calls) < 10, "it is tried without an end"
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("fcntl.flock", refuse)
    with whole_folder(tmp_path / "out") as part:
        (part / "file").write_text("whole")
    with whole_file(tmp_path / "file") as part:
        part.write_text("whole")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["file", "out"]


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    replace_file(file, "first")
    folder.mkdir()
    created = file.stat().st_mode
    file.chmod(0o600)
    folder.chmod(0o750)
    with whole_file(file) as part:
        assert part.stat().st_mode & 0o777 == 0o600, "also while it is written"
        part.write_text("second")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("second", 0o600)
    with whole_folder(folder, replace=True):
        pass
    assert folder.stat().st_mode & 0o777 == 0o750
    replace_file(tmp_path / "other", "new")
    assert (tmp_path / "other").stat().st_mode == created


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


@pytest.fixture(params=[True, False])
def exchanges_or_not(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system as it is, then one that cannot exchange names."""
    if not request.param:
        monkeypatch.setattr(files, "exchange_names", lambda *_: False)


@pytest.mark.usefixtures("exchanges_or_not")
def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for text in ("old", "new"):
        with whole_folder(folder, replace=True) as part:
            (part / "file").write_text(text)
        assert (folder / "file").read_text() == text
        assert [f.name for f in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("exchanges_or_not")
def test_a_link_to_a_folder_that_is_replaced_stays(tmp_path: Path) -> None:
    disk, link = tmp_path / "disk" / "out", tmp_path / "out"
    disk.mkdir(parents=True)
    link.symlink_to(disk)
    with whole_folder(link, replace=True) as part:
        assert part.parent == disk.parent, "of the file system that the user chose"
        (part / "file").write_text("new")
    assert link.is_symlink()
    assert (disk / "file").read_text() == "new"
    assert [f.name for f in disk.parent.iterdir()] == ["out"]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["disk", "out"]


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


def test_a_folder_in_the_place_of_a_file_leaves_nothing_open(tmp_path: Path) -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(CheckpointError, match="cannot be read: Is a directory"):
        read_bytes(tmp_path)
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert again == descriptor


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


def test_a_full_disk_is_said_of_the_file_that_is_written(tmp_path: Path) -> None:
    """The system names no file where a write fails, and a temporary one says nothing."""
    blocks = files.whole_file, files.whole_folder
    for block in blocks:
        with pytest.raises(OSError, match="No space left") as full, block(tmp_path / "out"):
            raise OSError(errno.ENOSPC, "No space left on device")
        assert full.value.filename == str(tmp_path / "out")
        with pytest.raises(OSError, match="reset") as reset, block(tmp_path / "out"):
            raise OSError(errno.ECONNRESET, "Connection reset")
        assert reset.value.filename is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_fault_of_a_dataset(tmp_path: Path) -> None:
    """`numbers-en-fr` is written to the cache when it is read first."""
    code = (
        "import resource, signal, zoo\n"
        "from zoo.data.datasets import find_dataset\n"
        "from zoo.registry.registry import default_registry\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "find_dataset(default_registry(), 'numbers-en-fr').load('test')"
    )
    environment = {**os.environ, "ZOO_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    (line,) = done.stderr.decode().splitlines()[-1:]
    assert line.startswith("OSError: [Errno 27] File too large: ")
    assert str(tmp_path) in line


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
def test_a_file_system_that_flushes_nothing(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As folders of some network shares; an error of a disk stays one."""
    monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=OSError(code, os.strerror(code))))
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            replace_file(tmp_path / "file", "text")
        assert not os.listdir(tmp_path)
        return
    replace_file(tmp_path / "file", "text")
    with whole_folder(tmp_path / "folder") as part:
        (part / "file").write_text("text")
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "file").read_text() == "text"
