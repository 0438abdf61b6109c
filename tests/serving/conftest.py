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
LONG = ", and ".join([
    "a man in a blue shirt is standing on a ladder cleaning a window",
    "two dogs are playing in the snow", "a little girl climbs into a wooden playhouse",
    "several people sit around a table in the park",
])  # fmt: skip


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with start(CAPTIONS, NUMBERS, SEQ2SEQ, "--workers", "2", forked=True) as running:
        yield running
