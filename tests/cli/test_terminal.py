"""What a person at a terminal sees: settings, the prompt, progress, formulas, Ctrl-C."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from zoo.cli.maths import plain, readable
from zoo.nn.device import devices
from zoo.registry.builtin import top
from zoo.registry.registry import default_registry
from zoo.translation import text_search

Run = Callable[..., Result]
NAME = "rnnsearch-tiny.numbers-en-fr"
CTRL_C = "\x03"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = tmp_path / "settings.toml"
        file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("ZOO_SETTINGS", str(file))
        return file

    return write


def test_aliases_and_defaults(settings: Callable[[str], Path], run: Run) -> None:
    settings(f'[aliases]\nnumbers = "{NAME}"\n[defaults.translate]\nbeam = 3\nn-best = 2\n')
    saved = run("translate", "numbers", "twenty-one").stdout
    assert saved == run("translate", NAME, "--beam", 3, "--n-best", 2, "twenty-one").stdout
    assert len(saved.splitlines()) == 2
    assert run("translate", "numbers", "--n-best", 1, "twenty-one").stdout == "vingt et un\n"
    assert "rnnsearch" in run("info", "numbers").stdout
    assert run("pull", "numbers").stdout == run("pull", NAME).stdout


def test_n_best_prints_as_many_lines_for_each_line(run: Run) -> None:
    text = "twenty-one\n\n  \nfour\n"
    options = ("--beam", 3, "--n-best", 3)
    lines = run("translate", NAME, *options, input=text).stdout.splitlines()
    assert len(lines) == 4 * 3
    assert lines[3:6] == lines[6:9] == ["0.0000\t", "-inf\t", "-inf\t"]
    assert [lines[0].split("\t")[1], lines[9].split("\t")[1]] == ["vingt et un", "quatre"]
    aligned = run("translate", NAME, *options, "--alignment", input=text).stdout.splitlines()
    assert {line.count("\t") for line in aligned} == {2}
    assert [line.rpartition("\t")[0] for line in aligned] == lines
    assert run("translate", NAME, input=text).stdout == "vingt et un\n\n\nquatre\n"


def test_lines_of_a_table_are_noticed(run: Run) -> None:
    note = "each line has a tab, and is translated with it. Of a table, give one column"
    for text, expected in {
        "four\tquatre\n\nfive\tcinq\n": True,
        "four\tquatre\nfive\n": False,
        "four\t\n\tfive\n": False,
        "four\tquatre\n": False,
    }.items():
        assert (note in run("translate", NAME, input=text).stderr) == expected, text


def test_settings_of_a_windows_editor_in_the_home(
    settings: Callable[[str], Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings(f'\ufeff[aliases]\nnumbers = "{NAME}"\n')
    monkeypatch.setenv("HOME", str(file.parent))
    monkeypatch.setenv("ZOO_SETTINGS", "~/settings.toml")
    assert run("pull", "numbers").stdout == run("pull", NAME).stdout != ""


def test_an_alias_may_stand_for_an_alias_and_never_for_itself(
    settings: Callable[[str], Path], run: Run
) -> None:
    settings(f'[aliases]\nbest = "numbers"\nnumbers = "{NAME}"\n')
    assert run("translate", "best", "twenty-one").stdout == "vingt et un\n"
    settings('[aliases]\na = "b"\nb = "c"\nc = "b"\nd = "d"\ne = "x"\n')
    message = run("translate", "e", "x").stderr
    assert "; ".join(f"alias {name} stands for itself" for name in "abcd") in message
    assert "alias e" not in message


def test_an_alias_with_the_name_of_a_model_is_refused(
    settings: Callable[[str], Path], run: Run
) -> None:
    for name, kind in (("rnnsearch-tiny", "a model"), ("transformer", "an architecture")):
        file = settings(f'[aliases]\n"{name}" = "{NAME}"\n')
        message = f"Error: alias {name} of {file} is the name of {kind}. Rename the alias\n"
        for command in (("info",), ("card",), ("pull",)):
            assert run(*command, name).stderr == message
        assert run("translate", name, "x").stderr == message
        assert run("info", NAME).exit_code == 0


def test_the_card_of_an_alias_is_written(
    settings: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(top() / "cards" / "checkpoints" / NAME, tmp_path / "numbers")
    settings(f'[aliases]\nown = "{folder}"\nreleased = "{NAME}"\n')
    written = run("card", "own", "--write", "--about", "data=others")
    assert written.stderr == f"{folder / 'README.md'} is written\n"
    assert json.loads((folder / "config.json").read_text())["about"]["data"] == "others"
    refused = run("card", "released", "--write", "--about", "data=others").stderr
    assert refused == (
        f"Error: the card of {NAME} cannot be written: --write needs a checkpoint folder. Copy it: "
        f"`zoo convert {NAME} FOLDER --dtype float32`\n"
    )


def test_defaults_of_the_settings_are_no_arguments_of_a_resumed_run(
    settings: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    settings('[defaults.train]\nprecision = "float32"\nseed = 3\n')
    out = ("--out", tmp_path / "absent")
    assert "leave out" not in run("train", "--resume", *out).stderr
    assert "leave out --seed" in run("train", "--resume", *out, "--seed", 3).stderr
    pairs = [(f"the dog {word}", f"der Hund {word}") for word in "abcdefghij"]
    tiny = {"hidden_dim": 16, "embedding_dim": 16, "tokenizer": "word"}
    zoo.train("seq2seq-tiny", pairs, tmp_path / "run", settings=tiny, steps=2, validation=pairs)
    settings("[defaults.train]\nsteps = 4\n")
    run("train", "--resume", "--out", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "training.json").read_text())["steps"] == 2


def test_all_faults_of_the_settings_are_listed(settings: Callable[[str], Path], run: Run) -> None:
    file = settings(
        "[alias]\n[aliases]\nnumbers = 3\n[defaults]\nscore = 1\n[defaults.trnslate]\nbeam = 1\n"
        '[defaults.translate]\nbeem = 3\nbeam = "many"\nsample = "yes"\nstop = "later"\n'
        "seed = inf\n"
    )
    done = run("list")
    assert done.exit_code == 1
    (line,) = done.output.strip().splitlines()
    assert line.startswith(f"Error: {file} is invalid: ")
    for part in ("unknown section 'alias' (did you mean aliases?)", "alias numbers must name",
                 "[defaults.score] must be a table", "(did you mean translate?)",
                 "seed = inf is too large",
                 "unknown option of translate 'beem' (did you mean beam?)", "beam = 'many': ",
                 "sample = 'yes': true or false", "stop = 'later': "):  # fmt: skip
        assert part in line
    assert line.endswith("Correct it, or ignore it with ZOO_SETTINGS=")
    file.write_text("x = " + "[" * 100_000)
    assert "has more than 100,000 bytes" in run("list").output
    assert run("--help").exit_code == 0


def test_an_unknown_device_lists_this_machine_s(run: Run) -> None:
    for name in ("cudda", "meta", "", "cpu:x"):
        output = run("translate", NAME, "--device", name, "one").output
        assert output.startswith(f"Error: no device {name!r} here: this machine has cpu")
        assert devices()[0] == "cpu"
        assert output.endswith("Use one of them, or auto\n")


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"\sqrt{d_h}\, W_q^\top x_{p,2i}", "√dₕ W_qᵀ x_(p,2i)"),
        (r"\frac{\exp e_{ij}}{\sum_k e^{-x}}", "(exp eᵢⱼ)/(∑ₖ e⁻ˣ)"),
        (r"\hat\sigma^2 + \varepsilon", "σ̂² + ε"),
        (r"\operatorname{norm}\!\Bigl( x \Bigr)", "norm( x )"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a = b \n c = d"),
    ],
)
def test_formulas_are_readable(formula: str, text: str) -> None:
    assert plain(formula).strip() == text


def test_a_formula_that_is_nested_too_deeply_stays_as_it_is() -> None:
    for deep in ("{" * 3000, r"\hat" * 3000, "^" * 3000):
        assert readable(f"Of $x_1$, ${deep}$.") == f"Of x₁, ${deep}$."


def test_no_formula_of_a_card_keeps_its_markup() -> None:
    registry = default_registry()
    for architecture in registry.architectures.values():
        text = readable(architecture.equations_text())
        assert not re.search(r"\$|\\[A-Za-z]+", text), architecture.name
    code = "`$HOME`, and\n```sh\necho $A $B\n```\n"
    assert readable(code) == code


def heed_ctrl_c() -> None:
    """Undo what a process in the background inherits: there, Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def typed(
    arguments: list[str], answers: list[tuple[str, str]], folder: Path, **variables: str
) -> tuple[int, str]:
    """Run `zoo` in a terminal; after each expected text, type the answer."""
    user_end, program_end = pty.openpty()
    command = [sys.executable, "-m", "zoo", *arguments]
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "80", "PAGER": "cat", **variables}
    # The first process of a session that opens a terminal gets its Ctrl-C.
    opened = ["sh", "-c", 'terminal=$1; shift; exec "$@" <"$terminal" >"$terminal" 2>&1', "sh"]
    process = subprocess.Popen([*opened, os.ttyname(program_end), *command], cwd=folder,
                               env=environment, start_new_session=True,
                               preexec_fn=heed_ctrl_c)  # fmt: skip
    output, expected = "", list(answers)
    end = time.monotonic() + 120
    again = math.inf
    while process.poll() is None or select.select([user_end], [], [], 0)[0]:
        if select.select([user_end], [], [], 0.1)[0]:
            output += os.read(user_end, 4096).decode(errors="replace")
        if expected and expected[0][0] in output:
            os.write(user_end, expected.pop(0)[1].encode())
            again = time.monotonic() + 1
        waits = bool(answers) and answers[-1][1] == CTRL_C and "Interrupted" not in output
        if waits and not expected and time.monotonic() > again:
            # Between printing a prompt and waiting for a key, Python notes it and waits on.
            os.write(user_end, CTRL_C.encode())
            again = time.monotonic() + 1
        if time.monotonic() > end:
            process.kill()
            process.wait()
            raise AssertionError(output)
    os.close(user_end)
    os.close(program_end)
    return process.returncode, output


def test_narrow_terminals_wrap_tables_and_cut_nothing(tmp_path: Path) -> None:
    code, output = typed(["plugins"], [], tmp_path, COLUMNS="40")
    assert (code, "hubs" in output) == (0, True), output
    code, output = typed(["list", "checkpoints", "*.dates-en-iso"], [], tmp_path, COLUMNS="60")
    assert (code, output.count("100.00")) == (0, 4), output


def test_a_terminal_without_cursor_has_no_empty_lines_for_bars(tmp_path: Path) -> None:
    code, output = typed(["translate", NAME, "twenty-one"], [], tmp_path)
    assert (code, output) == (0, "vingt et un\r\n")


def test_the_prompt_translates_until_ctrl_d(tmp_path: Path) -> None:
    answers = [("> ", "two zebras\n"), ("> ", "twenty-one\n"), ("vingt et un\r\n> ", "\x04")]
    code, output = typed(["translate", NAME], answers, tmp_path)
    assert code == 0, output
    assert "Ctrl-D ends" in output
    assert "vingt et un\r\n" in output
    assert output.count("whose translation is a guess: zebras\r\n> ") == 1  # follows its text


def test_ctrl_c_at_the_prompt_leaves_one_word(tmp_path: Path) -> None:
    code, output = typed(["translate", NAME], [("> ", CTRL_C)], tmp_path)
    assert code == 130, output
    assert output.strip().endswith("Interrupted")
    assert "Traceback" not in output


def test_a_card_in_a_terminal_is_paged_and_has_readable_formulas(tmp_path: Path) -> None:
    code, output = typed(["card", "transformer-tiny"], [], tmp_path)
    assert code == 0, output
    assert "softmax" in output
    assert "√dₕ" in output
    assert "$" not in output


def test_a_card_cannot_control_the_terminal(tmp_path: Path) -> None:
    card = tmp_path / "mine" / "README.md"
    shutil.copytree(top() / "cards" / "checkpoints" / NAME, card.parent)
    card.write_text("x \x1b]0;title\x07\x9b2J\x1b[2Jend\n")
    code, output = typed(["card", str(card.parent)], [], tmp_path)
    assert code == 0, output
    assert "end" in output
    assert not [sequence for sequence in ("\x1b]", "\x07", "\x9b", "\x1b[2J") if sequence in output]


@pytest.mark.skipif(not shutil.which("less"), reason="needs less")
def test_less_shows_the_colors_of_a_card(tmp_path: Path) -> None:
    pager = {"PAGER": "less", "LESS": "", "TERM": "xterm-256color"}
    code, output = typed(["card", "transformer-tiny"], [("transformer", "q")], tmp_path, **pager)
    assert code == 0, output
    assert "ESC" not in output  # what less shows for an escape sequence that it does not pass on


def test_the_bar_of_eval_moves_with_each_batch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.progress import Progress

    seen: list[float] = []
    update = Progress.update

    def watched(bar: Progress, task: object, **values: float) -> None:
        seen.append(values["completed"])
        update(bar, task, **values)  # type: ignore[arg-type]  # only passed on

    monkeypatch.setattr(Progress, "update", watched)
    monkeypatch.setattr(text_search, "BATCH_TOKENS", 500)
    assert run("eval", NAME, "--data", "numbers-en-fr", "--limit", 300).exit_code == 0
    assert len(seen) > 2
    assert 0 < seen[0] < 300
    assert seen == sorted(seen)
    assert seen[-1] == 300


def test_ctrl_c_while_torch_is_imported_leaves_one_word(tmp_path: Path) -> None:
    """Without a handler for it, torch aborts: its imports from C++ do not expect the exception."""
    program = f"""
import os, signal, sys, threading, time
from zoo.cli import main

def interrupt():
    while "torch._C" not in sys.modules:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.argv = ["zoo", "translate", {NAME!r}, "one"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True,
                          text=True, preexec_fn=heed_ctrl_c)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted\n")
