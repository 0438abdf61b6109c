"""`zoo serve --engine`: the translations of the zoo's decoder, and refusals that say why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.interop.checkpoints import SOURCES, checkpoint, write
from tests.serving.client import start
from zoo.translation.translator import Translator

pytest.importorskip("ctranslate2", reason="the extra `ctranslate2` is not installed")


def test_the_server_translates_with_an_engine(tmp_path: Path) -> None:
    made = checkpoint("transformer", norm="pre", share="all")
    folder = write(made, tmp_path / "toy")
    cache = tmp_path / "cache"
    how = ("--workers", "1", "--engine", "ctranslate2")
    with start(str(folder), *how, forked=True, ZOO_CACHE=str(cache)) as server:
        expected = Translator(made).translate(SOURCES)
        assert server.translate("toy", *SOURCES) == expected
        assert [path.name for path in (cache / "exports").iterdir()] == ["ctranslate2"]
        request = {"checkpoint": "toy", "texts": SOURCES[:1], "beam": 2, "length_penalty": 0.5}
        refused = server.send("/api/translate", request)
        assert refused.status == 400, refused.body
        assert "its length penalty has another formula" in refused.body.decode()
        assert server.translate("toy", SOURCES[0]) == expected[:1]


def test_a_precision_that_the_engine_lacks_is_refused_at_the_start(
    tmp_path: Path, run: Callable[..., Result]
) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    folder = write(checkpoint("transformer", norm="pre", share="all"), tmp_path / "toy")
    refused = run("serve", folder, "--engine", "onnxruntime", "--precision", "bf16", "--port", 0)
    assert refused.exit_code == 1
    assert "it has no precision 'bfloat16': it has float32, int8" in refused.stderr
