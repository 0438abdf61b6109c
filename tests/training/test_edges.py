"""Edges of a run: its validation data, what was removed or changed, who ended it, languages."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import zoo
from tests.core.test_training import same
from zoo.checkpoint import checkpoint as checkpoints
from zoo.checkpoint.about import About
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.foreign_engines import Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.data.words import Words
from zoo.errors import CheckpointError, ConfigError, DataError, PluginError
from zoo.registry.events import Callback, Report
from zoo.registry.recipe import toml_value
from zoo.registry.registry import Registry
from zoo.training.carry_over import shared_rows
from zoo.training.minimum_risk import MinimumRisk
from zoo.training.plan import make_plan
from zoo.training.recipe_layers import read_recipe
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume
from zoo.training.training_batch import TrainingBatch

TINY = {"dim": 16, "heads": 2, "feedforward_dim": 32, "encoder_layers": 1, "decoder_layers": 1}
LANGUAGES = ("eng_Latn", "fra_Latn", "deu_Latn", "spa_Latn")
WORDS = (
    *("the", "a", "dog", "cat", "man", "girl", "runs"),
    *("sleeps", "der", "ein", "hund", "katze", "mann", "rennt"),
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """PREFIX of 60 pairs with distinct sources."""
    for suffix in ("de", "es"):
        lines = [f"{a} {b} {c} {suffix}" for a in WORDS[:5] for b in WORDS[2:6] for c in WORDS[6:9]]
        (tmp_path / f"text.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "text"


def request(corpus: Path, name: str = "out", **options: Any) -> TrainingRequest:
    settings = {**TINY, "tokenizer": "word", "batch_tokens": 100, **options.pop("settings", {})}
    out, model = corpus.parent / name, options.pop("model", "transformer-tiny")
    return TrainingRequest(model, f"{corpus}:de-es", out, settings=settings, **options)


def run(request: TrainingRequest) -> None:
    with begin(request) as session:
        session.run()


def test_with_other_validation_data_all_of_the_text_is_trained_on(corpus: Path) -> None:
    with begin(request(corpus, steps=1)) as session:
        assert len(session.trainer.data.corpus) == 57
    pairs = [("the dog runs de", "the dog runs es")] * 20
    (corpus.parent / "other.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    other = str(corpus.parent / "other.tsv")
    with begin(request(corpus, "b", steps=1, validation=other)) as session:
        assert len(session.trainer.data.corpus) == 60
        assert len(session.trainer.data.validation) == 20
        session.run()
    zoo.resume(corpus.parent / "b", steps=2)
    tuned = TrainingRequest("", f"{corpus}:de-es", corpus.parent / "c", validation=other,
                            from_=corpus.parent / "b", steps=1)  # fmt: skip
    with begin(tuned) as session:
        assert len(session.trainer.data.corpus) == 60


def test_changed_validation_data_is_refused_on_resume(corpus: Path) -> None:
    other = corpus.parent / "other.tsv"
    other.write_text("the dog de\tthe dog es\n" * 3)
    run(request(corpus, steps=1, validation=str(other)))
    other.write_text("the cat de\tthe cat es\n" * 3)
    with pytest.raises(CheckpointError, match=r"other\.tsv has changed since the run began"):
        zoo.resume(corpus.parent / "out", steps=2)


def test_validation_data_without_a_pair_to_use_is_refused(corpus: Path) -> None:
    """The run was not validated; a tuned one asked for --validation, which was given."""
    other = corpus.parent / "other.tsv"
    other.write_text("the dog\t\n" + "the " * 300 + "\tthe\n")
    expected = (
        r"no pairs of .*other\.tsv can be used for validation: 1 pairs have an empty side, 1 a"
    )
    with pytest.raises(DataError, match=expected):
        begin(request(corpus, steps=1, validation=str(other)))
    run(request(corpus, "parent", steps=1))
    tuned = TrainingRequest("", f"{corpus}:de-es", corpus.parent / "c", validation=str(other),
                            from_=corpus.parent / "parent", steps=1)  # fmt: skip
    with pytest.raises(DataError, match="can be used for validation"):
        begin(tuned)


def test_a_recipe_that_was_changed_in_the_run_folder_is_noted_on_resume(corpus: Path) -> None:
    """The change had no effect, and was overwritten, without a word."""
    settings = {"freeze": ["encoder*"], "objective": [{"name": "r_drop", "alpha": 1.0}]}
    run(request(corpus, steps=1, settings=settings))
    file = corpus.parent / "out.run" / "recipe.toml"
    with resume(corpus.parent / "out", steps=2) as session:
        assert not session.notes
        session.run()
    text = file.read_text()
    changed = text.replace("learning_rate = 0", "learning_rate = 1").replace("heads = 2", "heads=4")
    file.write_text(changed.replace("steps = 2", "steps = 2026-11-30"))
    with resume(corpus.parent / "out") as session:
        (note,) = session.notes
    assert note.startswith("heads, learning_rate, steps of recipe.toml changed since the run began")
    assert file.read_text() == text
    file.write_text("learning_rate = [")
    with resume(corpus.parent / "out") as session:
        assert not session.notes


def test_removed_best_weights_are_not_replaced_by_others(corpus: Path) -> None:
    run(request(corpus, steps=4, settings={"select": "loss"}))
    run_folder = corpus.parent / "out.run"
    kept = sorted((run_folder / "weights").glob("*.safetensors"))
    assert kept
    for file in kept:
        file.unlink()
    with pytest.raises(CheckpointError, match=r"the best weights of .* are gone"):
        zoo.resume(corpus.parent / "out")


class Ends(Callback):
    """Ends the run after a report."""

    def report(self, report: Report) -> None:
        """End it."""
        self.run.stop("enough")


def test_a_run_that_a_callback_has_ended_stays_ended(corpus: Path) -> None:
    with begin(request(corpus, steps=50, settings={"save_every": 1})) as session:
        session.trainer.callbacks.active.append(Ends())
        session.run()
        steps = session.trainer.state.step
    assert steps < 50
    out = corpus.parent / "out"
    copy = shutil.copytree(out, corpus.parent / "copy")
    zoo.resume(out)
    assert json.loads((out / "training.json").read_text())["steps"] == steps
    assert same(out, copy)
    zoo.resume(out, steps=steps + 2)
    assert json.loads((out / "training.json").read_text())["steps"] == steps + 2


def test_a_moved_run_finds_its_own_pairs(tmp_path: Path) -> None:
    pairs = [(f"the {word} runs", f"{word} rennt") for word in WORDS]
    settings = {**TINY, "tokenizer": "word"}
    zoo.train("transformer-tiny", pairs, tmp_path / "a" / "out", settings=settings, steps=1,
              validation=pairs[:3])  # fmt: skip
    (tmp_path / "a").rename(tmp_path / "b")
    zoo.resume(tmp_path / "b" / "out", steps=2)
    with pytest.raises(CheckpointError, match=r"without \.run"):
        zoo.resume(tmp_path / "b" / "out.run")


def test_a_dangling_link_is_in_the_way(corpus: Path) -> None:
    (corpus.parent / "out").symlink_to(corpus.parent / "nowhere")
    with pytest.raises(CheckpointError, match=r"exists already.*files\. Give another --out"):
        begin(request(corpus, steps=1))


def tagged(side: Literal["source", "target"], language: str) -> ForeignTokenizer:
    tags = {name: 4 + i for i, name in enumerate(LANGUAGES)}
    tokens = ("<pad>", "<s>", "</s>", "<unk>", *LANGUAGES, *WORDS)
    entries = Vocabulary(tokens, frozenset(tags.values()), (tags[language],), tags, side)
    return ForeignTokenizer(Words(entries), entries)


@pytest.fixture
def multilingual(tmp_path: Path, registry: Registry) -> Path:
    """A checkpoint with tags of four languages, English to French by default."""
    source, target = tagged("source", "eng_Latn"), tagged("target", "fra_Latn")
    values: dict[str, Any] = {**TINY, "share": "all"}
    torch.manual_seed(1)  # with some weights, no sample ends in time
    model = zoo.create_model("transformer-tiny", source_vocab=source.size,
                             target_vocab=target.size, **values)  # fmt: skip
    config = registry.config("transformer-tiny", values)
    about = About(LANGUAGES, LANGUAGES, decoding={"banned": (8, "dog"), "sample": True})
    made = Checkpoint(
        "many", "transformer-tiny", "transformer", config, model, source, target, about
    )
    checkpoints.write(tmp_path / "many", made, registry, "# many\n", {})
    return tmp_path / "many"


def test_tuning_trains_the_languages_of_the_data(corpus: Path, multilingual: Path) -> None:
    out = corpus.parent / "tuned"
    request = TrainingRequest("", f"{corpus}:de-es", out, from_=multilingual, steps=1)
    with begin(request) as session:
        batch = session.trainer.data.corpus.batch(torch.tensor([0]))
        assert batch.source[0, 0] == 4 + LANGUAGES.index("deu_Latn")
        assert LANGUAGES.index("spa_Latn") + 4 in batch.target[0, :2]
        assert "deu_Latn to spa_Latn" in " ".join(session.notes)
        session.run()
    tuned = zoo.load(out).checkpoint
    assert set(tuned.about.source_languages) == set(LANGUAGES)
    assert tuned.about.source_languages[0] == "deu_Latn"
    assert dict(tuned.about.decoding)["banned"] == (8, "dog")
    for suffix, name in (("de", "input"), ("es", "output")):  # no languages: the default ones
        shutil.copy(f"{corpus}.{suffix}", f"{corpus}.{name}")
    request = TrainingRequest("", f"{corpus}:input-output", out, from_=multilingual, steps=1)
    with begin(replace(request, out=corpus.parent / "other")) as session:
        assert session.trainer.data.corpus.batch(torch.tensor([0])).source[0, 0] == 4
    with pytest.raises(ConfigError, match="bpe_dropout cannot be used: a foreign tokenizer"):
        begin(TrainingRequest("", f"{corpus}:de-es", corpus.parent / "x", from_=multilingual,
                              settings={"bpe_dropout": 0.1}))  # fmt: skip


def test_validation_translates_into_the_language_of_the_data(
    corpus: Path, multilingual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Sequence[int]] = []
    decode = ForeignTokenizer.decode

    def seen(self: ForeignTokenizer, ids: Sequence[int]) -> str:
        written.append(ids)
        return decode(self, ids)

    monkeypatch.setattr(ForeignTokenizer, "decode", seen)
    out = corpus.parent / "tuned"
    request = TrainingRequest("", f"{corpus}:de-es", out, from_=multilingual, steps=1)
    with begin(request) as session:
        written.clear()  # of the parent's scores
        list(session.trainer.events())
    assert len(written) == 3
    assert {ids[0] for ids in written} == {4 + LANGUAGES.index("spa_Latn")}


def test_objectives_sample_in_the_language_of_the_data(
    corpus: Path, multilingual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[tuple[int, ...]]] = []
    draw = MinimumRisk._candidates

    def seen(self: MinimumRisk, batch: TrainingBatch) -> list[list[tuple[int, ...]]]:
        drawn.extend(draw(self, batch))
        return drawn

    monkeypatch.setattr(MinimumRisk, "_candidates", seen)
    settings = {"objective": {"name": "minimum_risk", "samples": 4}}
    request = TrainingRequest("", f"{corpus}:de-es", corpus.parent / "tuned", from_=multilingual,
                              steps=1, settings=settings)  # fmt: skip
    with begin(request) as session:
        batch = session.trainer.data.corpus.batch(torch.tensor([0, 1]))
        session.trainer.loss(batch)
    candidates = [ids for targets in drawn for ids in targets]
    assert len(candidates) > 2  # others than the references
    assert {ids[1] for ids in candidates} == {4 + LANGUAGES.index("spa_Latn")}


def test_banned_tokens_of_another_vocabulary_are_left_out(corpus: Path, multilingual: Path) -> None:
    out = corpus.parent / "tuned"
    zoo.train(None, f"{corpus}:de-es", out, from_=multilingual, steps=1, new_vocabulary="both")
    about = zoo.load(out).checkpoint.about
    assert about.decoding == {"sample": True}
    assert (about.source_languages, about.target_languages) == (("de",), ("es",))


def test_words_of_a_file_name_are_no_languages(corpus: Path) -> None:
    for suffix, name in (("de", "question"), ("es", "answer")):
        shutil.copy(f"{corpus}.{suffix}", f"{corpus}.{name}")
    out = corpus.parent / "out"
    settings = {**TINY, "tokenizer": "word"}
    zoo.train("transformer-tiny", f"{corpus}:question-answer", out, settings=settings, steps=1)
    assert zoo.load(out).checkpoint.about.source_languages == ()


def test_rows_are_shared_by_source_and_token() -> None:
    texts = {"main": ["a b c", "c d"], "context": ["c b a", "e"]}

    def learn(main: list[str], context: list[str]) -> SourceTokenizer:
        members = {"main": main, "context": context}
        return SourceTokenizer(
            {k: Tokenizer.train(iter(v), "word", 50) for k, v in members.items()}
        )

    old = learn(**texts)
    same_rows = shared_rows(old, old)
    assert torch.equal(same_rows.new, same_rows.old)
    new = learn(["c a f", "f"], ["e a", "b"])
    rows = shared_rows(new, old)

    def named(tokenizer: SourceTokenizer, i: int) -> tuple[str, str]:
        if i < 4:
            return "", tokenizer.token(i)
        size = tokenizer.members["main"].size
        return "main" if i < size else "context", tokenizer.token(i)

    pairs = list(zip(rows.new.tolist(), rows.old.tolist(), strict=True))
    assert all(named(new, i) == named(old, j) for i, j in pairs)
    assert len(pairs) == 4 + 2 + 3  # special tokens; a, c; e, a, b


@pytest.mark.parametrize("fault", ["buffer", "integer", "plain", "lazy", "value", "wide"])
def test_networks_that_no_checkpoint_could_hold_are_refused(
    fault: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo_transformer.network import Transformer

    first = Transformer.__init__
    forward = Transformer.forward

    def odd(self: Any, *arguments: Any) -> None:
        first(self, *arguments)
        if fault == "buffer":
            self.register_buffer("table", torch.ones(3))
        if fault == "integer":
            self.table = torch.nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
        if fault == "plain":
            self.table = torch.ones(3)
        if fault == "lazy":
            self.head = torch.nn.LazyLinear(3)
        if fault == "value":
            self.scale = torch.ones(()).item()

    def wide(self: Any, *arguments: Any, **keywords: Any) -> Any:
        output = forward(self, *arguments, **keywords)
        return output._replace(logits=torch.nn.functional.pad(output.logits, (0, 3)))

    monkeypatch.setattr(Transformer, "__init__", odd)
    if fault == "wide":
        monkeypatch.setattr(Transformer, "forward", wide)
    expected = {
        "buffer": "table is a buffer",
        "integer": "table is torch.int64",
        "plain": "table is a plain tensor",
        "lazy": "head.weight has no shape before the first batch",
        "value": "on the meta device: Transformer cannot be built: Tensor.item",
        "wide": "forward returned logits of",
    }
    with pytest.raises(PluginError, match=expected[fault]):
        run(request(corpus, steps=1))


def test_auto_fits_what_is_set(corpus: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"patience": 3}, "stops after 3 validations"),
        ({"select": "chrf"}, "best by chrF"),
        ({"select": "last"}, "scores "),
        ({"batch_sentences": "none"}, "tokens"),
    ]
    for number, (settings, expected) in enumerate(cases):
        pairs = "".join(f"the {a} {b} {n}\tder {b} {a} {n}\n"
                        for n in range(40) for a in WORDS[:5] for b in WORDS[2:6])  # fmt: skip
        (corpus.parent / "long.tsv").write_text(pairs)
        out = corpus.parent / f"out{number}"
        auto = TrainingRequest("transformer-tiny", str(corpus.parent / "long.tsv"), out, steps=2,
                               settings={**TINY, **settings})  # fmt: skip
        with begin(auto) as session:
            chosen = " ".join(session.chosen)
            assert expected in chosen
            if settings == {"select": "last"}:
                assert "stops" not in chosen


def test_recipes_with_any_text_are_read_again(tmp_path: Path, registry: Registry) -> None:
    import tomllib

    text = 'a "dog" 🐕 \x7f \n é'
    assert tomllib.loads(f"key = {toml_value(text)}") == {"key": text}
    file = tmp_path / "recipe.toml"
    file.write_text("seed = 3\n", encoding="utf-8-sig")
    assert read_recipe(file) == {"seed": 3}
    file.write_text("a = " + "[" * 20_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_recipe(file)
    file.write_text("seed = 2024-01-01\n", encoding="utf-8")
    named = TrainingRequest("transformer-tiny", "numbers-en-fr", "x", recipe=str(file))
    with pytest.raises(ConfigError, match="seed = '2024-01-01'"):
        make_plan(registry, named)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"new_vocabulary": "target"}, "new_vocabulary needs from_"),
        ({"also_score": "numbers-en-fr"}, "also_score needs from_"),
        ({"from_": "x", "new_vocabulary": "src"}, "not source or target or both"),
        ({"limit": -1}, "limit is -1"),
        ({"limit": "x"}, "limit is 'x'"),
        ({"settings": {1: 2}}, "settings has keys that are not text"),
        ({"freeze": [3]}, "freeze has 3, not a name or a path"),
    ],
)
def test_arguments_from_python_are_checked(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        zoo.train("transformer-tiny", "numbers-en-fr", **{"out": tmp_path / "x", **arguments})


def test_pipes_and_devices_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target.txt").write_text("before\n")
    (tmp_path / "link").symlink_to("target.txt")
    from zoo.cli.output import check_writable, is_stream
    from zoo.files import replace_file

    for stream in (tmp_path / "pipe", Path("/dev/null")):
        assert is_stream(stream)
        check_writable(stream)
        with pytest.raises(DataError, match="it is no regular file"):
            check_writable(stream, stream=False)
    check_writable(tmp_path / "link")
    replace_file(tmp_path / "link", "after\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target.txt").read_text() == "after\n"


def test_a_record_of_training_has_a_line_for_each_report(corpus: Path) -> None:
    run(request(corpus, steps=3))
    text = (corpus.parent / "out" / "training.json").read_text(encoding="utf-8")
    curve = json.loads(text)["curve"]
    metrics = corpus.parent / "out.run" / "metrics.jsonl"
    reports = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert len(curve) == len(reports) == text.count('{"step": ')
    for kept, report in zip(curve, reports, strict=True):
        for name, value in kept.items():
            assert value == (pytest.approx(report[name], 1e-5) if value else report[name])
