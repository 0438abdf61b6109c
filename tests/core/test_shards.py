"""Long files in shards: divided, stopped at any line, continued and joined."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from zoo.errors import ConfigError, DataError, LockedError
from zoo.translation import shards
from zoo.translation.shards import Shard, join, open_shard

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = {"beam": 5, "banned": ("a", "b")}
Run = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twenty lines, the last without a line end."""
    file = tmp_path / "in.txt"
    file.write_text("\n".join(f"line {i}" for i in range(20)), encoding="utf-8")
    return file


def copy(
    out: Path, shard: Shard, source: Path, stop: int | None = None, **settings: Any
) -> list[int]:
    """Write the shard's lines in upper case; raise before the line `stop`; return what was done."""
    lines = source.read_text(encoding="utf-8").splitlines()
    done = []
    with open_shard(out, shard, source, {**SETTINGS, **settings}) as output:
        assert output is not None
        for i in output.lines:
            if i == stop:
                output._stream.write("LINE, the first of two\n")  # as an interrupt may leave it
                raise InterruptedError
            output.advance(f"{lines[i].upper()} Ä\n")
            done.append(i)
    return done


@pytest.mark.parametrize("total", [0, 1, 2, 7, 20])
@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_each_line_is_in_one_shard(total: int, count: int) -> None:
    ranges = [Shard(number, count).lines(total) for number in range(1, count + 1)]
    assert [i for lines in ranges for i in lines] == list(range(total))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_names_sort_in_the_order_of_the_shards(tmp_path: Path) -> None:
    files = [Shard(number, 12).file(tmp_path / "out").name for number in range(1, 13)]
    assert files == sorted(files)


@pytest.mark.parametrize(
    "text", ["", "3", "0/2", "3/2", "-1/2", "1/0", "a/b", "1/2/3", "1/9999999"]
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no shard"):
        Shard.parse(text)


@pytest.mark.parametrize("count", [1, 3, 25])
def test_stopped_shards_go_on_and_are_joined(tmp_path: Path, source: Path, count: int) -> None:
    out = tmp_path / "out"
    for shard in (Shard(number, count) for number in range(1, count + 1)):
        lines = shard.lines(20)
        stops = [lines.start, lines.start + len(lines) // 2] if lines else []
        done = []
        for stop in stops:
            with pytest.raises(InterruptedError):
                copy(out, shard, source, stop)
            done = list(range(lines.start, stop))
            part = shard.file(out).with_name(f"{shard.file(out).name}.part")
            with part.open("a") as stream:
                stream.write("half a li")  # written after the last record
        assert [*done, *copy(out, shard, source)] == list(lines)
        with open_shard(out, shard, source, SETTINGS) as finished:
            assert finished is None
    assert join(out) == count
    assert out.read_text(encoding="utf-8") == "".join(f"LINE {i} Ä\n" for i in range(20))
    assert not list(tmp_path.glob("*.part"))


def test_what_was_not_recorded_is_done_again(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process writes no last record: the one of the line before it counts."""
    out, shard = tmp_path / "out", Shard(1, 1)
    monkeypatch.setattr(shards, "SAVE_SECONDS", -1)
    saved: list[range] = []
    save = shards.ShardOutput.save

    def count(output: shards.ShardOutput) -> None:
        saved.append(output.lines)
        save(output)

    monkeypatch.setattr(shards.ShardOutput, "save", count)
    with pytest.raises(InterruptedError):
        copy(out, shard, source, 10)
    assert len(saved) == 11  # ten lines, and the end
    record = tmp_path / "out.1-of-1.json"
    before = json.loads(record.read_text())
    size = len("".join(f"LINE {i} Ä\n" for i in range(7)).encode())
    record.write_text(json.dumps({**before, "left": 13, "bytes": size}))
    assert copy(out, shard, source) == list(range(7, 20))
    assert join(out) == 1
    assert out.read_text(encoding="utf-8") == "".join(f"LINE {i} Ä\n" for i in range(20))


def test_other_settings_or_another_input_are_refused(tmp_path: Path, source: Path) -> None:
    out, shard = tmp_path / "out", Shard(1, 2)
    with pytest.raises(InterruptedError):
        copy(out, shard, source, 5)
    with pytest.raises(DataError, match="begun with beam 5, now 4"):
        copy(out, shard, source, beam=4)
    with pytest.raises(DataError, match="begun with precision null, now"):
        copy(out, shard, source, precision="int8")
    source.write_text("other\n" * 20, encoding="utf-8")
    with pytest.raises(DataError, match="begun with input"):
        copy(out, shard, source)


@pytest.mark.parametrize("left", [-1, 21, None, 2.0, True, "5"])
def test_damaged_records_are_refused(tmp_path: Path, source: Path, left: Any) -> None:
    out, shard = tmp_path / "out", Shard(1, 1)
    copy(out, shard, source)
    record = tmp_path / "out.1-of-1.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "left": left}))
    with pytest.raises(DataError, match="record is damaged"):
        copy(out, shard, source)


def test_a_shard_whose_output_is_lost_is_refused(tmp_path: Path, source: Path) -> None:
    out, shard = tmp_path / "out", Shard(1, 1)
    copy(out, shard, source)
    shard.file(out).unlink()
    with pytest.raises(DataError, match="shorter than its record"):
        copy(out, shard, source)


def test_two_processes_cannot_write_one_shard(tmp_path: Path, source: Path) -> None:
    pytest.importorskip("fcntl")
    out = tmp_path / "out"
    with open_shard(out, Shard(1, 2), source, SETTINGS) as output:
        assert output is not None
        with pytest.raises(LockedError, match="1-of-2 is in use"):
            copy(out, Shard(1, 2), source)
        copy(out, Shard(2, 2), source)


def test_a_record_of_no_shard_is_left_alone(tmp_path: Path) -> None:
    for name in ("out.0-of-0.json", "out.3-of-2.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(DataError, match="has no shards"):
        join(tmp_path / "out")


def test_only_all_finished_shards_of_one_job_are_joined(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(DataError, match="has no shards"):
        join(out)
    copy(out, Shard(2, 3), source)
    with pytest.raises(InterruptedError):
        copy(out, Shard(3, 3), source, 19)
    with pytest.raises(DataError, match=r"2 of 3 shards of .* not finished: 1, 3"):
        join(out)
    copy(out, Shard(3, 3), source)
    copy(out, Shard(1, 3), source, beam=4)
    with pytest.raises(DataError, match=r"shards 1 and 2 of .* differ: in their beam"):
        join(out)
    copy(out, Shard(1, 2), source)
    with pytest.raises(DataError, match="several divisions: 2 and 3"):
        join(out)
    assert not out.exists()


def test_the_commands_of_the_page_join_what_they_translate(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("numbers.en").write_text("twenty-one\nfour\n", encoding="utf-8")
    _, _, section = (DOCS / "decoding.md").read_text("utf-8").partition("## Large files in shards")
    commands, job = re.findall(r"```(?:sh|slurm)\n(.*?)```", section, re.DOTALL)[:2]
    for command in commands.splitlines():
        assert run(*shlex.split(command)[1:]).exit_code == 0
    assert Path("numbers.fr").read_text(encoding="utf-8") == "vingt et un\nquatre\n"
    (command,) = re.findall(r"^zoo (.*)$", job.replace("\\\n", ""), re.MULTILINE)
    command = command.replace("$SLURM_ARRAY_TASK_ID", "2")
    again = run(*shlex.split(command.replace("$SLURM_ARRAY_TASK_COUNT", "2")))
    assert "numbers.fr.2-of-2 is finished" in again.output


@pytest.mark.parametrize("options", [(), ("--sample", "--seed", 3), ("--n-best", 2, "--beam", 2)])
def test_joined_shards_are_what_one_process_writes(
    run: Run, tmp_path: Path, options: tuple[Any, ...]
) -> None:
    source, out, whole = tmp_path / "in.txt", tmp_path / "out", tmp_path / "whole"
    source.write_text("twenty-one\n\nfour\nfive hundred\n", encoding="utf-8")
    common = "translate", "rnnsearch-tiny.numbers-en-fr", "--input", source, *options
    assert run(*common, "--out", whole).exit_code == 0
    for number in (2, 1):
        shard = "--out", out, "--shard", f"{number}/2"
        assert run(*common, *shard).exit_code == 0
    assert "out.1-of-2 is finished" in run(*common, *shard).output
    assert run("join", out).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()
    refused = run(*common, "--shard", "1/2")
    assert refused.exit_code == 2
    assert "--shard needs --input and --out" in refused.output
