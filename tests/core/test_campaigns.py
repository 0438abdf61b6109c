"""Small slices of the campaigns, always the same ones."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.campaigns import configurations, fuzz, interruptions, long_runs, readers, writers
from tests.forked import python
from zoo.registry.builtin import top
from zoo.testing import masking

FILES = {reader.name: reader for reader in readers.files()}
WRITERS = {writer.name: writer for writer in writers.WRITERS}
CHEAP = (
    "zoo convert", "zoo registry add", "zoo push file://", "zoo card --write --scores",
    "replacing a folder", "zoo new-plugin", "zoo join", "zoo data get",
)  # fmt: skip
"""The others translate, import or start a hub; the campaign interrupts them."""


@pytest.mark.parametrize("name", FILES)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    outcomes = fuzz.run_step(FILES[name], 0, 40, 1, tmp_path / "kept")
    assert set(outcomes) <= {"read", "refused"}, outcomes
    assert outcomes.total() == 40
    assert not (tmp_path / "kept").exists()


def test_changed_folders_and_requests_are_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own: one that other tests made threads of autograd in cannot be forked
    for a training run.
    """
    call = f"read_changed_folders(Path({str(tmp_path)!r}))"
    code = f"from tests.core.test_campaigns import *; {call}"
    subprocess.run([*python(), "-c", code], check=True, cwd=top())


def read_changed_folders(tmp_path: Path) -> None:
    """Read changed folders and requests, and assert that each is read or refused."""
    from tests.campaigns import folders

    foreign, runs = folders.foreign(), folders.runs()
    (tmp_path / "unchanged").mkdir()
    for reader in (*foreign, runs[0], folders.requests()):  # every file of a run makes one run
        for valid in reader.valid:
            (tmp_path / "unchanged" / "input").write_bytes(valid)
            reader.read(tmp_path / "unchanged" / "input")
    for reader in (*foreign, *runs, folders.requests()):
        outcomes = fuzz.run_step(reader, 0, 1 if reader in runs else 2, 1, tmp_path / "kept")
        assert set(outcomes) <= {"read", "refused"}, (reader.name, outcomes)


@pytest.mark.parametrize("request_line", [b"/none?\xcb\n", b"?\xcb/\n"])
def test_a_query_may_have_any_bytes(request_line: bytes, tmp_path: Path) -> None:
    from tests.campaigns import folders

    (tmp_path / "input").write_bytes(request_line)
    folders.requests().read(tmp_path / "input")  # it failed with 500


def test_what_a_reader_must_not_do_is_seen(tmp_path: Path) -> None:
    def connect(file: Path) -> None:
        import socket

        socket.socket().connect(("127.0.0.1", 9))

    def write(file: Path) -> None:
        (tmp_path / "outside").write_text("")

    def allocate(file: Path) -> None:
        bytearray(fuzz.MEMORY * 2)

    def end(file: Path) -> None:
        import os

        os._exit(3)

    for call, seen in ((connect, "socket."), (write, "open, to write"), (allocate, "MemoryError"),
                       (end, "the process ended")):  # fmt: skip
        reader = readers.Reader("bad", call, [b"a"], ())
        (outcome,) = fuzz.run_step(reader, 0, 1, 1, tmp_path / "kept")
        assert outcome.startswith(seen)
        assert (tmp_path / "kept" / "bad.1.0").is_file()


@pytest.mark.parametrize("name", CHEAP)
def test_interrupted_commands_leave_the_old_or_the_new(name: str) -> None:
    interruptions.kills(WRITERS[name], 2, random.Random(1))
    interruptions.full_disk(WRITERS[name])
    interruptions.lost_power(WRITERS[name])


@pytest.mark.parametrize("name", interruptions.CHANGES)
def test_concurrent_changes_are_all_kept(name: str) -> None:
    interruptions.concurrency(name, 4)


def test_growth_is_seen() -> None:
    flat = [long_runs.Usage(100.0, 5, 1)] * 10
    long_runs.check(flat)
    for grown in (flat[0]._replace(memory=120.0), flat[0]._replace(files=6),
                  flat[0]._replace(threads=2)):  # fmt: skip
        with pytest.raises(SystemExit, match="grew"):
            long_runs.check([*flat, grown])


@pytest.mark.usefixtures("imports_checked")
@pytest.mark.parametrize("architecture", configurations.ARCHITECTURES)
def test_networks_of_accepted_configurations_work(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "STEPS", 20)  # `test_law` takes as many as there are
    monkeypatch.setattr(masking, "UNLIMITED", 40)
    ((row, faults),) = configurations.campaign([architecture], 1, 5)
    assert not faults
    assert row[2] != "0"  # works
