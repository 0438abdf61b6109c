"""A Hub on loopback for each test, and a checkpoint to push to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo
from tests.conftest import Once
from tests.core.test_training import PLAIN
from tests.hub.helpers import NAME
from tests.hub.server import Server

SETTINGS = {
    **PLAIN, "embedding_dim": 16, "encoder_dim": 16, "hidden_dim": 32, "attention_dim": 16,
    "readout_dim": 16, "tokenizer": "word", "batch_tokens": 100, "dropout": 0.0,
    "learning_rate": 5e-3, "warmup": 50, "save_every": 1000,
}  # fmt: skip


@pytest.fixture(scope="session")
def checkpoint(once: Once) -> Path:
    """A small checkpoint, about 100 kB."""

    def train(folder: Path) -> None:
        lines = [f"the dog {n} runs\tder Hund {n} rennt\n" for n in "abcdefghijklmnopqrstuvwxyz"]
        # A run validates and saves after each epoch, which takes longer than its few updates.
        (folder / "a.tsv").write_text("".join(lines * 20))
        zoo.train("rnnsearch-tiny", str(folder / "a.tsv"), folder / "small", settings=SETTINGS,
                  steps=150)  # fmt: skip

    return once("hub", train) / "small"


@pytest.fixture
def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Server]:
    """A new Hub for each test; the environment has its endpoint and short time-outs."""
    hub = Server()
    for name, value in {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_TOKEN_PATH": str(tmp_path / "token"),
        "ZOO_HUB_TIMEOUT": "1",
        "ZOO_HUB_WAIT": "0.05",
        "ZOO_HUB_LONGEST_WAIT": "3",
        "ZOO_REGISTRY": str(tmp_path / "registry.toml"),
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield hub
    hub.close()


@pytest.fixture
def served(server: Server, checkpoint: Path) -> Server:
    """A Hub that has the checkpoint."""
    server.put(NAME, checkpoint)
    return server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
