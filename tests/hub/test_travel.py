"""There and back: pushed, pulled and loaded, over HTTP by the real client."""

from pathlib import Path

import pytest

from tests.hub.server import Server
from zoo.hub import pull, push


def test_there_and_back(server: Server, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_ann")
    pushed = push(checkpoint, "hf://ann/small")
    print(pushed, server.asked())
    got = pull("hf://ann/small")
    print(got, server.asked())
    for file in checkpoint.iterdir():
        assert (got / file.name).read_bytes() == file.read_bytes()
