"""Names and languages of what is served, and the choice of a language for LibreTranslate."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from tests.serving.client import start
from tests.serving.conftest import CAPTIONS, CARDS
from zoo.errors import DataError
from zoo.registry.registry import Registry
from zoo.serving.checkpoints import languages_of, unique_names
from zoo.serving.libretranslate import LibreTranslate


def test_names_are_the_last_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = [".", "me@work/best", "hf://ann/captions@v1", "runs/mine/"]
    assert unique_names([("", one) for one in given]) == dict(
        zip([tmp_path.name, "best", "captions", "mine"], given, strict=True)
    )
    assert unique_names([("a", "x"), ("", "x")]) == {"a": "x", "x": "x"}
    with pytest.raises(DataError, match="two checkpoints are called 'best'"):
        unique_names([("", "me@work/best"), ("", "you@work/best")])


@pytest.mark.parametrize(
    ("data", "languages"),
    [
        ("train:EN-De", ("en", "de")),
        ("corpus.v-2:en-de", ("en", "de")),
        ("mynews-small", ("", "")),
        ("multi30k-de-en", ("de", "en")),
        ("pairs.tsv", ("", "")),
        ("for-many.tasks:source-target", ("", "")),
    ],
)
def test_languages_are_those_of_the_training_data(
    data: str, languages: tuple[str, str], tmp_path: Path, registry: Registry
) -> None:
    (tmp_path / "training.json").write_text(json.dumps({"data": data}), encoding="utf-8")
    assert languages_of(tmp_path, registry) == tuple((code,) if code else () for code in languages)


def test_an_automatic_source_is_one_that_can_be_translated() -> None:
    async def detect(text: str) -> list[dict[str, Any]]:
        return [{"language": code, "confidence": 50.0} for code in ("en", "de", "fr")]

    known = {("de", "en"), ("en", "de"), ("en", "fr")}
    checkpoints = SimpleNamespace(translating=lambda *pair: pair if pair in known else None)
    service: Any = SimpleNamespace(detect=detect, checkpoints=checkpoints)
    libre = LibreTranslate(service, lambda key: True)
    for target, source in (("en", "de"), ("de", "en"), ("fr", "en"), ("nl", "en")):
        assert asyncio.run(libre._detected("Danke", target))["language"] == source
    assert asyncio.run(libre._detected(" ", "en"))["language"] == ""


def test_languages_of_a_shared_vocabulary_are_told_apart() -> None:
    pair = [str(CARDS / f"transformer-tiny.tatoeba-{one}-76k") for one in ("en-fr", "fr-en")]
    both = [str(CARDS / CAPTIONS), *pair]
    texts = {"en": "Where is the station?", "fr": "Je ne sais pas.", "": "日本"}
    with start(*both, "--workers", "1") as server:
        for language, text in texts.items():
            first, second = server.send("/detect", {"q": text}).json
            assert {first["language"], second["language"]} == {"en", "fr"}
            if language:
                assert first["language"] == language
                assert first["confidence"] > 60
            else:
                assert first["confidence"] == second["confidence"] == 0
