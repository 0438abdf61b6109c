"""A checkpoint that has learned a little, for the tests of the command line."""

from pathlib import Path

import pytest

import zoo
from tests.conftest import Once
from tests.core.test_training import SMALL

LEARNING = {"dropout": 0.0, "learning_rate": 5e-3, "warmup": 50, "save_every": 1000}


def train(folder: Path) -> None:
    """Train it, for the tests of translators too, on a file of 26 pairs that are repeated."""
    lines = [f"the dog {n} runs\tder Hund {n} rennt\n" for n in "abcdefghijklmnopqrstuvwxyz"]
    (folder / "a.tsv").write_text("".join(lines))
    # A run validates and saves after each epoch, which takes longer than its few updates.
    (folder / "repeated.tsv").write_text("".join(lines * 20))
    zoo.train("rnnsearch-tiny", str(folder / "repeated.tsv"), folder / "out",
              settings={**SMALL, **LEARNING}, steps=500)  # fmt: skip


@pytest.fixture(scope="session")
def checkpoint(once: Once) -> Path:
    return once("cli", train) / "out"


@pytest.fixture
def data(checkpoint: Path) -> str:
    return str(checkpoint.parent / "a.tsv")
