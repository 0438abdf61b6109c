"""Standard streams that are closed, other encodings, arguments that are not text, Ctrl-C."""

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from zoo.cli import process

Run = Callable[..., Result]
TOP = Path(__file__).parents[2]


def zoo(
    *arguments: str | bytes, shell: str = "", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `zoo` with an environment of these variables."""
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "HOME") if key in os.environ}
    command = [sys.executable, "-m", "zoo", *arguments]
    words: list[str | bytes] = (
        ["sh", "-c", f'exec "$@" {shell}', "sh", *command] if shell else command
    )
    return subprocess.run(
        words, capture_output=True, cwd=TOP, timeout=100,
        env={**kept, "OMP_NUM_THREADS": "1", **variables},
    )  # fmt: skip


ENCODINGS: list[dict[str, str]] = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
]


@pytest.mark.parametrize("variables", ENCODINGS, ids=str)
@pytest.mark.parametrize(
    "arguments",
    [("list",), ("info", "transformer-6x6", "--parameters")],
    ids=lambda words: words[0],
)
def test_output_that_cannot_be_encoded_is_printed_in_characters_that_fit(
    arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    done = zoo(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert len(done.stdout) > 500


def test_the_nearest_characters_are_printed() -> None:
    def printed(text: str, encoding: str) -> str:
        return text.encode(encoding, process.FITTING).decode(encoding)

    process.fit_output()
    assert printed("█▓▒░ 3 × 4 … é ﬁ 漢", "ascii") == "#=-. 3 x 4 ... e fi ?"
    assert printed("3 × 4 … é 漢", "latin-1") == "3 × 4 ... é ?"
    assert printed("a\udcff", "utf-8") == "a?"


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "x", "--prefix", "a\udcff", "text"),
        ("score", "x", "a\udcff", "b"),
        ("registry", "add", "x", "y", "--summary", "a\udcff"),
        ("train", "rnnsearch-tiny", "--data", "shift", "--out", "a\udcff"),
        ("info", "\udcff"),
        ("--no-plugins", "info", "\udcff"),
    ],
    ids=lambda words: words[0],
)
def test_arguments_that_are_not_text(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert "is not UTF-8: give arguments in the terminal's encoding" in line
    assert "\\udcff" in line


def test_streams_that_were_closed_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    process.open_streams()
    assert sys.stdin.read() == ""
    assert sys.stdin.buffer.read() == b""
    for stream in (sys.stdout, sys.stderr):
        stream.write("lost")
        assert not stream.isatty()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_a_command_without_standard_output() -> None:
    written = zoo("list", shell=">&-")
    assert (written.returncode, written.stderr) == (0, b"")


INTERRUPT = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "zoo.cli.serving":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from zoo.__main__ import main
main()
"""


def test_an_interrupt_during_the_start_prints_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT], capture_output=True, cwd=TOP, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_byte_order_mark_is_no_text_and_a_file_may_be_compressed(
    suffix: str, run: Run, tmp_path: Path
) -> None:
    text = "\ufefftwenty-one\r\nfour\r\n".encode()
    file = tmp_path / f"numbers.txt{suffix}"
    file.write_bytes(gzip.compress(text) if suffix else text)
    wanted = "vingt et un\nquatre\n"
    name = "rnnsearch-tiny.numbers-en-fr"
    assert run("translate", name, "--input", file).stdout == wanted
    shard = ("--input", file, "--out", tmp_path / "out.fr", "--shard")
    for number in (1, 2):
        assert run("translate", name, *shard, f"{number}/2").exit_code == 0
    assert run("join", tmp_path / "out.fr").exit_code == 0
    assert (tmp_path / "out.fr").read_text(encoding="utf-8") == wanted


def test_a_long_cell_is_refused_with_advice(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text(f"source,target\n{'a ' * 70_000},b\n")
    shown = run("data", "show", file).stderr
    assert "line 2, is not CSV: field larger than" in shown
    assert "can be in .tsv or .jsonl" in shown
