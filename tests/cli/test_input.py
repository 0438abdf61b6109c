"""Standard streams that are closed, other encodings, arguments that are not text, signals."""

import gzip
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.forked import python
from zoo.cli import process
from zoo.cli.output import check_writable, is_stream
from zoo.errors import DataError
from zoo.registry.builtin import top

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
    assert "is not UTF-8: set the terminal to UTF-8, or rename the file" in line
    assert "?' is not UTF-8" in line


def test_streams_that_were_closed_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    process.open_streams()
    assert sys.stdin.read() == ""
    assert sys.stdin.buffer.read() == b""
    sys.stderr.write("lost")
    with pytest.raises(OSError, match="standard output is closed"):
        sys.stdout.write("not lost")
    for stream in (sys.stdout, sys.stderr):
        assert not stream.isatty()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_a_command_without_standard_output() -> None:
    written = zoo("list", shell=">&-")
    message = b"Error: nothing can be printed: standard output is closed\n"
    assert (written.returncode, written.stderr) == (1, message)


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


COMMAND = """
import signal, sys

signal.signal(signal.SIGHUP, getattr(signal, sys.argv.pop(1)))  # `nohup` has it ignored
from zoo.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("name", "hangup", "code", "message"),
    [
        ("TERM", "SIG_DFL", 143, "Interrupted"),
        ("HUP", "SIG_DFL", 129, "Interrupted"),
        ("HUP", "SIG_IGN", 1, "Error: the kernels cannot be compiled: exit code 7"),
    ],
)
def test_a_signal_leaves_nothing_temporary(
    name: str, hangup: str, code: int, message: str, tmp_path: Path
) -> None:
    compiler, temporary = tmp_path / "cc", tmp_path / "temporary"
    temporary.mkdir()
    signals = f"kill -{name} $PPID"
    compiler.write_text(f"#!/bin/sh\ntouch $TMPDIR/x.s\n{signals}\n{signals}\nexit 7\n")
    compiler.chmod(0o755)
    variables = {"CC": str(compiler), "TMPDIR": str(temporary), "ZOO_CACHE": str(tmp_path / "zoo")}
    done = subprocess.run(
        [*python(), "-c", COMMAND, hangup, "compile-kernels"],
        capture_output=True, text=True, cwd=TOP, timeout=100, env={**os.environ, **variables},
    )  # fmt: skip
    assert (done.returncode, done.stderr.partition(". ")[0].strip()) == (code, message)
    assert not list(temporary.iterdir())


def test_processes_of_torchrun_end_at_once_by_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("RANK", "0")
    process.interrupt_by_signals()
    assert signal.getsignal(signal.SIGTERM) is before


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


def test_a_dash_names_standard_input(run: Run, tmp_path: Path) -> None:
    name = "rnnsearch-tiny.numbers-en-fr"
    done = run("translate", name, "--input", "-", input="four\n")
    assert done.stdout == "quatre\n"
    shard = run("translate", name, "--input", "-", "--out", tmp_path / "out", "--shard", "1/1")
    assert "--shard needs --input and --out" in shard.stderr


def test_a_current_folder_that_was_removed_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    done = run("translate", "rnnsearch-tiny.numbers-en-fr", "four")
    assert done.exit_code == 1
    (line,) = done.output.splitlines()
    assert "Change to another, as it may have been removed" in line


def test_a_long_cell_is_refused_with_advice(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text(f"source,target\n{'a ' * 70_000},b\n")
    shown = run("data", "show", file).stderr
    assert "line 2, is not CSV: field larger than" in shown
    assert "can be in .tsv or .jsonl" in shown


def test_a_source_prefix_that_is_no_known_tag_is_warned_of(run: Callable[..., Result]) -> None:
    tasks = top() / "cards" / "checkpoints" / "transformer-tiny.tasks"
    other = run("translate", tasks, "--source-prefix", "summarize: ", "dog", "--beam", "1")
    assert other.exit_code == 0
    assert "was scored with other source prefixes: 'numbers: '" in other.stderr.replace("\n", " ")
    known = run("translate", tasks, "--source-prefix", "en-fr:", "dog", "--beam", "1")
    assert known.stderr == ""


@pytest.mark.parametrize("package", ["tokenizers", "yaml"])
def test_an_incomplete_installation_is_named(
    checkpoint: Path, package: str, tmp_path: Path
) -> None:
    block = f"import sys; sys.modules[{package!r}] = None; from zoo.__main__ import main; main()"
    words = ["-c", block, "translate", str(checkpoint), "the dog"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert package in done.stderr
    assert "the installation is incomplete. Run `pip check`" in done.stderr
    assert "Traceback" not in done.stderr


PROGRAM = [sys.executable, "-m", "zoo"]


def test_output_that_is_open_or_a_device_is_continued(checkpoint: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    words = ["-m", "zoo", "translate", str(checkpoint), "the dog a runs", "--out", "/dev/stdout"]
    with log.open("a") as output:
        subprocess.run([*python(), *words], stdout=output, check=True)
    first, *translated = log.read_text().splitlines()
    assert first == "before"
    assert len(translated) == 1
    assert is_stream(Path("/dev/null"))
    check_writable(Path("/dev/null"))
    with pytest.raises(DataError, match="it is no regular file"):
        check_writable(Path("/dev/null"), stream=False)
    with pytest.raises(DataError, match="you may not write to /proc"):
        check_writable(Path("/proc/x"))


def test_missing_folders_of_an_output_are_made_when_it_is_written(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    text, kind = "the dog a runs", ("--dtype", "float16")
    commands: dict[str, tuple[object, ...]] = {
        "translated": ("translate", checkpoint, text, "--out"),
        "shard.1-of-1": ("translate", checkpoint, "--input", data, "--shard", "1/1", "--out"),
        "scored": ("eval", checkpoint, "--data", data, "--limit", "1", "--out"),
        "page.html": ("attention", checkpoint, text, "--out"),
        "converted": ("convert", checkpoint, *kind),
    }
    for number, (name, command) in enumerate(commands.items()):
        folder = tmp_path / str(number) / "new"
        done = run(*command, folder / name.removesuffix(".1-of-1"))
        assert done.exit_code == 0, done.output
        assert (folder / name).exists()
    (tmp_path / "file").touch()
    for command in commands.values():
        done = run(*command, tmp_path / "file" / "new" / "x.html")
        assert done.exit_code == 1
        (line,) = done.output.splitlines()
        assert str(tmp_path / "file") in line
    wrong = run("translate", checkpoint, "--out", tmp_path / "typo" / "x", "--beam", "0", text)
    assert wrong.exit_code == 1
    assert not (tmp_path / "typo").exists()


def test_help_without_standard_output_is_an_error() -> None:
    done = zoo("--help", shell=">&-")
    message = b"Error: nothing can be printed: standard output is closed\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_a_reader_that_ends_early_causes_no_message() -> None:
    command = f"{shlex.join([*PROGRAM, 'list', 'models'])} | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_long_and_unreadable_arguments_make_short_errors(run: Callable[..., Result]) -> None:
    for option in ("--beam", "--length-penalty=x", "--max-source-length"):
        refused = run("translate", "x", f"{option.partition('=')[0]}", "9" * 9_999 + option[-2:])
        assert refused.exit_code == 2
        assert len(refused.stderr) < 700
    refused = run("translate", "x", "caf\udce9")
    assert "the argument 'caf?' is not UTF-8" in refused.stderr


@pytest.mark.parametrize("text", ["- Bonjour.", "--Bonjour", "-5"])
@pytest.mark.parametrize("command", ["translate", "score", "attention"])
def test_a_text_that_begins_as_an_option_comes_after_two_dashes(
    command: str, text: str, run: Run
) -> None:
    failed = run(command, "seq2seq-tiny.numbers-en-fr", text)
    assert failed.exit_code == 2
    assert failed.stderr.endswith(". Write -- before a text that begins with -\n")
    if command == "translate":
        assert run(command, "seq2seq-tiny.numbers-en-fr", "--", text).exit_code == 0
    for words in ((command, "--jsn"), ("info", "-5")):
        assert "before a text" not in run(*words).stderr
