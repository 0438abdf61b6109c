"""Names and languages of what is served, and the choice of a language for LibreTranslate."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from starlette.requests import Request

import zoo
from tests.serving.client import start
from tests.serving.conftest import CAPTIONS, CARDS, NUMBERS, SEQ2SEQ
from zoo.checkpoint.about import About
from zoo.checkpoint.format import SHARED
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.forced import most_pairs
from zoo.errors import DataError, DecodingError
from zoo.registry.registry import Registry, default_registry
from zoo.serving import operations
from zoo.serving.attention_size import most_shown
from zoo.serving.checkpoints import Checkpoints, Served, languages_of, unique_names
from zoo.serving.descriptions import summary
from zoo.serving.detection import _means, detected
from zoo.serving.errors import CheckpointGoneError, TimeoutExceededError
from zoo.serving.libretranslate import LibreTranslate
from zoo.serving.limits import Limits
from zoo.serving.models import Models
from zoo.serving.operations import OPERATIONS
from zoo.serving.service import Service, _readers_and_writers
from zoo.serving.steps import StoppedError, score_in_steps
from zoo.serving.worker import answer
from zoo.serving.workers import ANSWER_BYTES


def test_names_are_the_last_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = [".", "me@work/best", "hf://ann/captions@v1", "runs/mine/"]
    assert unique_names([("", one) for one in given]) == dict(
        zip([tmp_path.name, "best", "captions", "mine"], given, strict=True)
    )
    assert [*unique_names([("", "..")])] == [tmp_path.parent.name]
    (tmp_path / "me@work" / "best").mkdir(parents=True)
    assert [*unique_names([("", f"file://{tmp_path}/me@work/best")])] == ["best"]
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
    assert languages_of(tmp_path, About(), registry) == tuple(
        (code,) if code else () for code in languages
    )


def _libre(known: set[tuple[str, str]], detect: Callable[..., Any]) -> LibreTranslate:
    """Return the handlers of checkpoints for these pairs of languages."""
    served = [SimpleNamespace(languages=((one,), (other,))) for one, other in known]
    checkpoints = SimpleNamespace(
        translating=lambda *pair: pair if pair in known else None,
        values=lambda: served,
        offered={one: [other for first, other in known if first == one] for one, _ in known},
    )
    service: Any = SimpleNamespace(detect=detect, checkpoints=checkpoints)
    return LibreTranslate(service, lambda key: True)


def test_an_automatic_source_is_the_target_if_that_is_far_more_probable() -> None:
    french = iter((85.0, 79.0))

    async def detect(texts: Sequence[str], client: object) -> list[list[dict[str, Any]]]:
        first = next(french)
        return [[{"language": "fr", "confidence": first},
                 {"language": "en", "confidence": 100 - first}]]  # fmt: skip

    both = {("fr", "en"), ("en", "fr")}
    libre = _libre(both, detect)
    for language in ("fr", "en"):
        (made,) = asyncio.run(libre._detected(["Je vais bien."], "fr", object()))
        assert made["language"] == language
    french = iter((85.0,))  # a checkpoint that writes French anew has the text to translate
    (made,) = asyncio.run(
        _libre({*both, ("fr", "fr")}, detect)._detected(["Je vais bien."], "fr", object())
    )
    assert made["language"] == "fr"


def test_an_automatic_source_is_one_that_can_be_translated() -> None:
    async def detect(texts: Sequence[str], client: object) -> list[list[dict[str, Any]]]:
        return [[{"language": code, "confidence": 50.0} for code in ("en", "de", "fr")]
                for _ in texts]  # fmt: skip

    known = {("de", "en"), ("en", "de"), ("en", "fr")}
    libre = _libre(known, detect)
    for target, source in (("en", "de"), ("de", "en"), ("fr", "en"), ("nl", "en")):
        both = asyncio.run(libre._detected([" ", "Danke"], target, object()))
        assert [one["language"] for one in both] == ["", source]
    assert asyncio.run(libre._detected([" "], "en", object()))[0]["language"] == ""


def test_languages_of_a_shared_vocabulary_are_told_apart() -> None:
    pair = [str(CARDS / f"transformer-tiny.tatoeba-{one}-76k") for one in ("en-fr", "fr-en")]
    both = [str(CARDS / CAPTIONS), *pair]
    texts = {"en": "Where is the station?", "fr": "Je ne sais pas.", "": "日本"}
    with start(*both, "--workers", "1", forked=True) as server:
        for language, text in texts.items():
            first, second = server.send("/detect", {"q": text}).json
            assert {first["language"], second["language"]} == {"en", "fr"}
            if language:
                assert first["language"] == language
                assert first["confidence"] > 60
            else:
                assert first["confidence"] == second["confidence"] == 0


def test_languages_of_many_texts_are_detected_in_batches_as_those_of_one() -> None:
    pair = [str(CARDS / f"transformer-tiny.tatoeba-{one}-76k") for one in ("en-fr", "fr-en")]
    texts = ["Where is the station?", "Je ne sais pas.", "table", "日本", "Oui " * 60]
    with start(*pair, "--workers", "1", forked=True) as server:
        alone = [server.send("/detect", {"q": text}).json[0] for text in texts]
        assert {one["language"] for one in alone} == {"en", "fr"}
        before = server.metric("zoo_batch_texts_count")
        asked = {"q": [*texts * 16, " "], "source": "auto", "target": "de"}  # none translates
        assert server.send("/translate", asked).status == 400
        assert server.metric("zoo_batch_texts_count") - before <= len(texts)
        made = server.send("/translate", {**asked, "q": [*texts, " "], "target": "fr"}).json
    *together, empty = made["detectedLanguage"]
    assert empty == {"language": "", "confidence": 0.0}
    assert [one["language"] for one in together] == ["en", "fr", "en", "en", "en"]
    for one, wanted in zip(together, alone, strict=True):
        assert one["confidence"] == wanted["confidence"] or wanted["language"] != one["language"]
    assert made["translatedText"][:2] == ["Où est la gare ?", texts[1]]


def test_a_text_that_has_no_score_changes_no_other_ones_language() -> None:
    class Writer:
        def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
            if "long" in sources:
                raise DecodingError("text is too long")
            return [[-float(len(text))] for text in sources]

    assert _means(cast(Any, Writer()), ["a", "long", "abc"], lambda: None) == [-1, None, -3]


def test_scores_and_languages_are_computed_in_steps_that_can_be_stopped() -> None:
    taken: list[int] = []

    class Writer:
        def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
            taken.append(len(sources))
            return [[float(source)] for source in sources]

    def on_step() -> None:
        if len(taken) == 3:
            raise StoppedError

    texts = [f"{i:<200}" for i in range(6)]
    writer = cast(Any, Writer())
    assert score_in_steps(writer.score, texts, texts, lambda: None) == [[i] for i in range(6)]
    assert score_in_steps(writer.score, [], [], lambda: None) == []
    assert taken == [2, 2, 2]
    for work in (lambda: score_in_steps(writer.score, texts, texts, on_step),
                 lambda: _means(writer, texts, on_step)):  # fmt: skip
        with pytest.raises(StoppedError):
            work()
    assert taken == [2, 2, 2]
    scored = [*texts, "9" * 3_000]
    assert len(score_in_steps(writer.score, scored, scored, lambda: None)) == 7
    assert taken[3:] == [2, 2, 2, 1]


@pytest.mark.parametrize("operation", ["score", "detect"])
def test_what_a_worker_scores_or_detects_is_stopped(operation: str) -> None:
    """Before, only a search was: the worker was replaced, with the models that it had loaded."""
    steps: list[None] = []

    def on_step() -> None:
        steps.append(None)
        if len(steps) == 3:
            raise StoppedError

    job = Served(CAPTIONS, CARDS / CAPTIONS).job() | {"languages": ("", "")}
    about = {"folders": [str(CARDS / CAPTIONS)], "writer": job}
    inputs: list[Any] = [["A man. " * 60, "Ein Mann."]] * 9
    if operation == "detect":
        job, inputs = {"languages": {"en": about, "de": about}}, ["A man."] * 9
    models = Models(10**9, "float32", default_registry())
    made = answer(models, {**job, "operation": operation, "inputs": inputs}, on_step)
    assert {one["code"] for one in made["results"]} == {"stopped"}


def test_the_time_of_a_request_is_limited_as_a_whole(registry: Registry) -> None:
    service = Service(Checkpoints({}, registry), Limits(request_seconds=0.2), workers=1, threads=1)

    async def detected(texts: Sequence[str], client: object) -> list[list[dict[str, Any]]]:
        await asyncio.sleep(0.15)
        return [[{"language": "en", "confidence": 50.0}] for _ in texts]

    async def made(*arguments: Any, **options: Any) -> list[Any]:
        await asyncio.sleep(0.15)
        return [{"text": "a", "alternatives": []}]

    async def receive() -> dict[str, Any]:
        body = json.dumps({"q": "a", "source": "auto", "target": "de"}).encode()
        return {"type": "http.request", "body": body}

    libre = LibreTranslate(service, lambda key: True)
    changes: dict[str, Any] = {"detect": detected, "translate": made}
    vars(service).update(changes)
    vars(libre)["_served"] = lambda source, target: (SimpleNamespace(beam=1), ("", ""))
    scope = {"type": "http", "method": "POST", "headers": [], "query_string": b""}
    with pytest.raises(TimeoutExceededError, match=r"over 0\.2 seconds"):
        asyncio.run(libre.translate(Request(scope, receive)))


def test_what_is_known_of_a_checkpoint_is_that_of_the_folder_as_it_is(
    tmp_path: Path, registry: Registry
) -> None:
    folder, other = tmp_path / "changing", tmp_path / "other"
    shutil.copytree(CARDS / NUMBERS, folder)
    shutil.copytree(CARDS / CAPTIONS, other)
    checkpoints = Checkpoints({"changing": folder, "other": other}, registry)
    version = checkpoints["changing"].version
    assert checkpoints.offered == {"en": ["fr", "de"]}
    shutil.rmtree(folder)
    assert checkpoints["changing"].default == ("en", "fr"), "as it was, until it is back"
    shutil.copytree(CARDS / "transformer-tiny.tatoeba-fr-en-76k", folder)
    assert checkpoints.offered == {"en": ["de"], "fr": ["en"]}
    now = checkpoints.named("changing")
    assert (now.default, now.version != version) == (("fr", "en"), True)
    version = now.version
    assert summary(now, registry)["examples"] == list(now.about.examples) != []
    assert checkpoints.translating("en", "fr") is None
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes() + b" ")
    assert now.version != version, "another tokenizer"
    (folder / "model.safetensors").unlink()
    languages = _readers_and_writers(checkpoints)  # of what is left of it
    assert {code: about["writer"] for code, about in languages.items()} == {"en": None, "fr": None}


def test_a_folder_that_vanishes_while_it_is_read_is_known_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(CARDS / NUMBERS, folder)
    checkpoints = Checkpoints({"changing": folder}, default_registry())
    before = checkpoints["changing"]
    (folder / "README.md").write_text("changed", encoding="utf-8")

    def vanish(of: Path) -> Any:
        raise FileNotFoundError(of)

    monkeypatch.setattr("zoo.serving.checkpoints.describe", vanish)
    assert checkpoints["changing"].targets == before.targets


@pytest.mark.parametrize(
    ("error", "code", "attempts"),
    [
        (DataError("the tokenizer cannot read this text"), "bad_request", 3),
        (IndexError("a defect"), "internal", 3),
        (CheckpointGoneError("it was removed"), "checkpoint_unavailable", 1),
        (StoppedError(), "stopped", 1),
    ],
)
def test_a_text_that_fails_is_the_only_one_without_an_answer(
    error: Exception, code: str, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of several clients share a batch; where each would fail, none is tried alone."""
    ran = []

    def run(models: Any, job: Any, inputs: list[str], on_step: Any) -> list[str]:
        ran.append(inputs)
        if "evil" in inputs:
            raise error
        return inputs

    monkeypatch.setitem(OPERATIONS, "detect", run)
    job = {"operation": "detect", "inputs": ["good", "evil"]}
    models: Any = SimpleNamespace(loaded=[], size=0)
    good, evil = answer(models, job, lambda: None)["results"]
    assert evil["code"] == code
    assert len(ran) == attempts
    assert good == (evil if attempts == 1 else {"value": "good"})


def test_attention_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server would take the worker whose answer is too long for one that has died."""
    assert 2 * operations.ATTENTION_BYTES < ANSWER_BYTES  # in base64
    monkeypatch.setattr(operations, "ATTENTION_BYTES", 1_000)
    models = Models(10**9, "float32", default_registry())
    job = {**Served(NUMBERS, CARDS / NUMBERS).job(), "operation": "attention", "target": None,
           "options": {}, "languages": ("", ""), "inputs": ["four hundred and five"]}  # fmt: skip
    (result,) = answer(models, job, lambda: None)["results"]
    assert result["code"] == "bad_request"
    assert result["error"][0] == "the attention is too large to show"
    assert result["error"][2] == "Shorten the text"


@pytest.mark.parametrize("name", [CAPTIONS, "rnnsearch-tiny.multi30k-en-de"])
def test_the_search_for_attention_ends_where_it_is_too_large(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = zoo.load(CARDS / name)
    checkpoint, text = translator.checkpoint, "two dogs play"
    whole = translator.attention(text)
    size, tokens = sum(4 * one.numel() for one in whole.weights.values()), len(whole.target) + 1
    for given in (None, whole.text):
        assert most_shown(checkpoint, text, given, {}, size)[0] == tokens
    assert most_shown(checkpoint, text, None, {}, size - 1)[0] == tokens - 1
    for target, options in ((whole.text, {}), (None, {"min_length": tokens})):
        with pytest.raises(DecodingError, match="too large to show"):
            most_shown(checkpoint, text, target, options, size - 1)
    monkeypatch.setattr(operations, "_translator", lambda *_: translator)
    job: dict[str, Any] = {"target": None, "options": {}}
    counts = []
    for most in (10**6, size - 1, 1):
        monkeypatch.setattr(operations, "ATTENTION_BYTES", most)
        steps: list[int] = []
        made = []
        with contextlib.suppress(DecodingError):
            made = operations.attention(
                cast(Any, None), job, [text], functools.partial(steps.append, 1)
            )
        assert [one["text"] for one in made] == ([whole.text] if most > size else [])
        counts.append(len(steps))
    assert counts[0] >= counts[1] > counts[2] == 0
    without = zoo.load(CARDS / SEQ2SEQ).checkpoint
    assert most_shown(without, "four", None, {}, 0)[0] == math.inf
    token = most_pairs.set(20**2)
    try:
        bound, (what, *_) = most_shown(checkpoint, text, None, {}, 10**6)
    finally:
        most_pairs.reset(token)
    assert (bound, what) == (16, "the attention is too large")


def test_a_replaced_checkpoint_is_listed_and_used_by_its_own_languages(tmp_path: Path) -> None:
    folder = tmp_path / "changing"
    shutil.copytree(CARDS / NUMBERS, folder)
    with start(str(folder), "--workers", "1", forked=True) as server:
        assert server.send("/languages").json[0]["targets"] == ["fr"]
        assert server.send("/api/models").json["models"][0]["decoding"] == {}
        shutil.rmtree(folder)
        shutil.copytree(CARDS / CAPTIONS, folder)
        assert server.send("/languages").json[0]["targets"] == ["de"]
        (about,) = server.send("/api/models").json["models"]
        assert about["decoding"] == {"beam": 5, "length_penalty": 1.5}
        assert about["target_language"] == "de"
        asked = {"q": "Two dogs play.", "source": "en", "target": "de"}
        made = server.send("/translate", asked).json["translatedText"]
        assert made == zoo.load(CARDS / CAPTIONS).translate("Two dogs play.")
        assert server.send("/translate", {**asked, "target": "fr"}).status == 400


def test_a_script_that_readers_of_a_language_do_not_know_is_not_its(tmp_path: Path) -> None:
    """A vocabulary of Hindi and English fits both; no checkpoint writes Hindi."""
    texts = {"hi": ["मैं घर जाता हूँ", "तुम कैसे हो"], "en": ["I go home", "how are you"]}
    for folder, sides in {"hi-en": ("hi", "en"), "en-de": ("en",)}.items():
        tokenizer = Tokenizer.train([text for side in sides for text in texts[side]], "char", 99)
        (tmp_path / folder).mkdir()
        (tmp_path / folder / SHARED).write_text(tokenizer.to_json(), encoding="utf-8")
    hi, en = str(tmp_path / "hi-en"), str(tmp_path / "en-de")
    languages: dict[str, dict[str, Any]] = {
        "en": {"folders": [en, hi], "readers": [en], "writer": {"name": "hi-en"}},
        "hi": {"folders": [hi], "readers": [hi], "writer": None},
    }
    results = detected(cast(Any, None), languages, ["मैं घर", "I go", "☃"], lambda: None)
    assert [(one[0]["language"], one[0]["confidence"]) for one in results] == [
        ("hi", 100), ("en", 50), ("en", 0)
    ]  # fmt: skip
