"""The scripts outside the package work with its current version: each prints its help."""

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]
SCRIPTS = (
    "cards/release.py",
    "cards/compare.py",
    "benchmarks/auto.py",
    "benchmarks/decode.py",
    "benchmarks/decoders/with_zoo.py",
    "benchmarks/engines.py",
    "benchmarks/epoch.py",
    "benchmarks/fine_tuning.py",
    "benchmarks/growth.py",
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
