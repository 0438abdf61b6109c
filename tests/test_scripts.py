"""The scripts outside the package work with its current version: each prints its help."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
SCRIPTS = (
    "cards/release.py",
    "cards/compare.py",
    "benchmarks/decode.py",
    "benchmarks/decoders/with_zoo.py",
    "benchmarks/epoch.py",
    "benchmarks/growth.py",
    "benchmarks/tokenized_bleu.py",
    "benchmarks/train.py",
    "benchmarks/trainers/epoch_zoo.py",
    "benchmarks/trainers/with_zoo.py",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_prints_its_help(script: str) -> None:
    command = [sys.executable, str(TOP / script), "--help"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


def test_the_released_names_equal_those_of_the_catalogue() -> None:
    program = (
        "import sys; sys.path.insert(0, 'cards'); import released, training;"
        "from zoo.registry.registry import default_registry as registry;"
        "assert set(released.NAMES) == set(registry().checkpoints);"
        "assert set(training.TEACHERS_OF) <= {*released.NAMES, *training.TEACHERS};"
        "assert {n for groups in training.TEACHERS_OF.values() for g in groups for n in g}"
        " <= {*released.NAMES, *training.TEACHERS}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=TOP, check=True)
