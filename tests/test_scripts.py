"""The scripts outside the package work with its current version: each prints its help."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SLOW

TOP = Path(__file__).parents[1]
SCRIPTS = (
    "cards/release.py",
    "cards/compare.py",
    "benchmarks/auto.py",
    "benchmarks/decode.py",
    "benchmarks/decoders/with_zoo.py",
    "benchmarks/editions.py",
    "benchmarks/engines.py",
    "benchmarks/epoch.py",
    "benchmarks/fine_tuning.py",
    "benchmarks/growth.py",
    "benchmarks/in_turn.py",
    "benchmarks/install.py",
    "benchmarks/start.py",
    "benchmarks/tokenized_bleu.py",
    "benchmarks/train.py",
    "benchmarks/trainers/epoch_zoo.py",
    "benchmarks/trainers/with_zoo.py",
)


PROGRAM = """
import contextlib, io, os, runpy, sys
for script in sys.argv[1:]:
    path, modules, output = sys.path.copy(), set(sys.modules), io.StringIO()
    sys.argv, sys.path[0] = [script, "--help"], os.path.dirname(script)
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert not end.code, (script, end.code)
    assert "usage: " in output.getvalue(), (script, output.getvalue())
    sys.path[:] = path
    for name in set(sys.modules) - modules:  # scripts of different folders share names
        if os.path.dirname(script) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    print(script)
"""


def test_the_scripts_print_their_help() -> None:
    command = [sys.executable, "-c", PROGRAM, *(str(TOP / script) for script in SCRIPTS)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == command[3:]


def test_the_slow_files_that_start_first_exist() -> None:
    assert [name for name in SLOW if not (TOP / "tests" / name).is_file()] == []


def test_every_checkpoint_of_the_catalogue_can_be_made_again() -> None:
    program = (
        "import sys; sys.path.insert(0, 'cards'); import released, training;"
        "from zoo.registry.registry import default_registry as registry;"
        "assert set(released.NAMES) >= set(registry().checkpoints);"
        "assert set(training.TEACHERS_OF) <= {*released.NAMES, *training.TEACHERS};"
        "assert {n for groups in training.TEACHERS_OF.values() for g in groups for n in g}"
        " <= {*released.NAMES, *training.TEACHERS}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=TOP, check=True)


def test_failures_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOP / "cards"))
    module = importlib.import_module("failures")
    phones = [["HH AH0 L OW1"], ["EY1", "AH0"], ["B IY1"], ["K AE1 T"]]
    texts = ["HH AH1 L OW1", "AH0", "P IY1", "S T AA1"]
    kinds = module.failures("phones", texts, phones)
    assert kinds == [("stress only", 1, 0), ("one phone", 1, 2), ("several phones", 1, 3)]
    dates = module.failures(
        "date", ["2021-05-03", "2021-50-30", "in May", "2020-05-03"], [["2021-05-03"]] * 4
    )
    assert [name for name, _, _ in dates] == [
        "wrong month and day", "not a date of ten characters", "wrong year",
    ]  # fmt: skip
    words = module.failures(
        "text", ["a b c a b c", "a", "b ⁇", "a b c d e", "d c b a"], [["a b c d"]] * 5
    )
    assert words == [
        ("", 2, 3), ("repeats three words", 1, 0), ("under half as long as each reference", 1, 1),
        ("has an unknown token", 1, 2),
    ]  # fmt: skip
