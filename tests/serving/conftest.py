"""A server in forked processes."""

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from collections.abc import Iterator
from pathlib import Path

from tests.serving.client import Running, start

CARDS = Path(__file__).parents[2] / "cards" / "checkpoints"
NUMBERS = "transformer-tiny.numbers-en-fr"
CAPTIONS = "transformer-tiny.multi30k-en-de"
SEQ2SEQ = "seq2seq-tiny.numbers-en-fr"


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with start(CAPTIONS, NUMBERS, SEQ2SEQ, "--workers", "2", forked=True) as running:
        yield running
