"""An engine gives the translations of the zoo's decoder, or refuses what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

import pytest
from click.testing import Result

import zoo
from tests.interop.checkpoints import SOURCES, checkpoint, write
from tests.interop.test_huggingface import folder_of
from zoo import Engine, Format, Registry, hookimpl
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Hypothesis, Search
from zoo.errors import ConversionError, DecodingError, UnknownNameError
from zoo.files import read_json, write_json
from zoo.interop import Exporter, Runner, Sources
from zoo.registry.api import API
from zoo.registry.discovery import discover
from zoo.registry.owners import Plugin
from zoo.registry.registry import default_registry
from zoo.translation.translator import Translator

TEXTS = [*SOURCES, "", "a dog sleeps", "the old man runs in the snow and sings about two cats ."]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"min_length": 6},
    {"max_length": 4},
    {"allow_empty": True},
    {"banned": ("a", "n")},
    {"no_repeat_ngram_size": 2},
    {"prefix": "ein Hund"},
    {"alignment": True},
]


@pytest.fixture(scope="module")
def made() -> Checkpoint:
    return checkpoint("transformer", norm="pre", share="all")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ctranslate2_greedy_search_is_equal(made: Checkpoint, options: dict[str, Any]) -> None:
    expected = Translator(made).translate(TEXTS, details=True, **options)
    actual = Translator(made, engine="ctranslate2").translate(TEXTS, details=True, **options)
    for one, other in zip(actual, expected, strict=True):
        assert (one.text, one.tokens, one.alignment) == (other.text, other.tokens, other.alignment)
        assert one.score == pytest.approx(other.score, abs=1e-3)
        assert one.finished == other.finished


def test_a_damaged_export_in_the_cache_is_made_again(
    made: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    expected = Translator(made, engine="ctranslate2").translate(TEXTS)
    (file,) = tmp_path.glob("exports/ctranslate2/*/model.bin")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert Translator(made, engine="ctranslate2").translate(TEXTS) == expected
    assert file.read_bytes() == whole


def test_an_export_in_another_user_s_cache_needs_no_lock(
    made: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    expected = Translator(made, engine="ctranslate2").translate(TEXTS[0])
    monkeypatch.setattr("filelock.FileLock.acquire", mock.Mock(side_effect=PermissionError()))
    assert Translator(made, engine="ctranslate2").translate(TEXTS[0]) == expected


def test_ctranslate2_without_the_sources_end() -> None:
    """CTranslate2 then adds none, and the zoo searches for the empty source."""
    made = checkpoint("transformer", source_end=False)
    expected = Translator(made).translate(TEXTS)
    assert Translator(made, engine="ctranslate2").translate(TEXTS) == expected
    assert Translator(checkpoint("transformer")).translate(TEXTS) != expected


def test_ctranslate2_gives_n_best_lists_ranked_by_the_networks_scores(made: Checkpoint) -> None:
    translator, engine = Translator(made), Translator(made, engine="ctranslate2")
    for result in engine.translate(SOURCES, details=True, beam=4, n_best=3):
        ranked = [result, *result.alternatives]
        assert len({one.text for one in ranked}) == 3
        assert [one.score for one in ranked] == sorted((o.score for o in ranked), reverse=True)
        for one in ranked:
            if one.finished and one.text:
                (log_probs,) = translator.score([one.source], [one.text])
                # The text may be cut into other tokens than those of the hypothesis.
                if len(log_probs) == len(one.tokens) + 1:
                    assert sum(log_probs) == pytest.approx(one.score, abs=1e-3)


@pytest.mark.parametrize("options", [{}, {"prefix": "a dog"}, {"beam": 3, "n_best": 2}], ids=str)
def test_the_tag_of_a_language_is_the_first_token_of_a_target(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder_of("M2M-100", tmp_path / "nllb")
    plain, engine = zoo.load(tmp_path / "nllb"), zoo.load(tmp_path / "nllb", engine="ctranslate2")
    written = {}
    options = {"beam": 1, "length_penalty": 0.0, "max_length": 7, **options}
    for target in ("French", "English"):
        languages: dict[str, Any] = {"source_lang": "English", "target_lang": target}
        pair = [
            each.translate(SOURCES, details=True, **options, **languages)
            for each in (plain, engine)
        ]
        for one, other in zip(*pair, strict=True):
            assert (one.tokens, len(one.alternatives)) == (other.tokens, len(other.alternatives))
            assert one.score == pytest.approx(other.score, abs=1e-3)
        written[target] = [one.tokens for one in pair[1]]
    assert written["French"] != written["English"]


def test_ctranslate2_refuses_what_it_defines_differently_all_at_once(made: Checkpoint) -> None:
    engine = Translator(made, engine="ctranslate2")
    with pytest.raises(DecodingError) as error:
        engine.translate("a dog", beam=2, length_penalty=0.5, coverage_penalty=0.1)
    assert "`--length-penalty`: its length penalty has another formula" in str(error.value)
    assert "`--coverage-penalty`" in str(error.value)
    with pytest.raises(DecodingError, match="`--stop`: its beam search ends when its beam is full"):
        engine.translate("a dog", beam=2, stop="first")
    with pytest.raises(DecodingError, match="random numbers"):
        engine.translate("a dog", sample=True)


def test_an_export_is_cached_by_weights_and_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    exports = tmp_path / "exports" / "ctranslate2"

    def names() -> set[str]:
        return {folder.name for folder in exports.iterdir() if folder.is_dir()}

    one, other = checkpoint("transformer"), checkpoint("transformer", seed=2)
    Translator(one, engine="ctranslate2")
    first = names()
    assert len(first) == 1
    stamp = (exports / next(iter(first)) / "model.bin").stat().st_mtime_ns
    Translator(checkpoint("transformer"), engine="ctranslate2")
    assert names() == first
    assert (exports / next(iter(first)) / "model.bin").stat().st_mtime_ns == stamp
    Translator(other, engine="ctranslate2")
    assert len(names()) == 2
    Translator(one, engine="ctranslate2", precision="int8")
    assert len(names()) == 3
    Translator(one, engine="ctranslate2", precision="bf16")
    assert len(names()) == 4
    with pytest.raises(ConversionError, match="no precision 'bfloat16': it has float32, int8"):
        Translator(one, engine="onnxruntime", precision="bf16")


def test_an_engine_that_cannot_run_a_checkpoint_says_why(made: Checkpoint) -> None:
    with pytest.raises(ConversionError, match="ctranslate2 has no exporter for convs2s"):
        Translator(checkpoint("convs2s"), engine="ctranslate2")
    with pytest.raises(ConversionError, match="norm is branch"):
        Translator(checkpoint("transformer", norm="branch"), engine="ctranslate2")
    with pytest.raises(DecodingError, match="ctranslate2 cannot run an ensemble"):
        Translator(made, made, engine="ctranslate2")
    with pytest.raises(UnknownNameError, match="did you mean ctranslate2"):
        Translator(made, engine="ctranslate")


def test_the_command_uses_an_engine(
    made: Checkpoint, tmp_path: Path, run: Callable[..., Result]
) -> None:
    folder = write(made, tmp_path / "toy")
    plain = run("translate", folder, "a dog runs", "birds")
    engine = run("translate", folder, "a dog runs", "birds", "--engine", "ctranslate2")
    assert engine.exit_code == 0, engine.output
    assert engine.output == plain.output
    assert zoo.load(folder, engine="ctranslate2").translate("birds") in plain.output
    (tmp_path / "x.en").write_text("a dog\nbirds\n", encoding="utf-8")
    (tmp_path / "x.de").write_text("ein Hund\nVögel\n", encoding="utf-8")
    data = f"{tmp_path / 'x'}:en-de"
    scores = [
        run("eval", folder, "--data", data, *more).output
        for more in ((), ("--engine", "ctranslate2"))
    ]
    assert scores[0] == scores[1]


class Reversing(Exporter):
    """Writes nothing that matters."""

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        return []

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        write_json(folder / "loom.json", {"architecture": checkpoint.architecture})


class Loom(Runner):
    """Writes each source backwards, but leaves sources of one token to the zoo."""

    def __init__(self, folder: Path) -> None:
        assert read_json(folder / "loom.json") == {"architecture": "transformer"}

    @classmethod
    def load(cls, folder: Path, checkpoint: Checkpoint, threads: int) -> Self:
        return cls(folder)

    def reasons(self, options: Search) -> list[str]:
        return ["it has no beam"] if options.beam > 1 else []

    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis] | None]:
        rows = [
            row[mask][:-1].tolist() for row, mask in zip(sources.source, sources.mask, strict=True)
        ]
        return [
            [Hypothesis(tuple(row[::-1]), -1.0, True, -1.0)] if len(row) > 1 else None
            for row in rows
        ]


def test_a_plugin_brings_an_engine(made: Checkpoint) -> None:
    @hookimpl
    def zoo_formats() -> Iterable[Format]:
        yield Format("loom", "cloth", exporter="tests.interop.test_engines:Reversing")

    @hookimpl
    def zoo_engines() -> Iterable[Engine]:
        yield Engine("loom", "a loom", format="loom", runner="tests.interop.test_engines:Loom")

    plugins = discover()
    module = SimpleNamespace(ZOO_API=API, zoo_formats=zoo_formats, zoo_engines=zoo_engines)
    plugins.add(module, Plugin("loom", "zoo-loom", "1"))
    registry = Registry(plugins)
    translator = Translator(made, engine="loom", registry=registry)
    backwards = made.source_tokenizer.encode(["birds sleep"])[0][::-1]
    assert translator.translate("birds sleep") == made.target_tokenizer.decode(backwards)
    one = next(
        w for w in ["a", "b", "c", "d", "e"] if len(made.source_tokenizer.encode([w])[0]) == 1
    )
    assert translator.translate(one) == Translator(made).translate(one)
    with pytest.raises(DecodingError, match="loom cannot search like this: it has no beam"):
        translator.translate("birds", beam=2)
    assert default_registry().engines.keys() >= {"ctranslate2"}
