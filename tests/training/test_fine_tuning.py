"""A checkpoint is tuned: its weights, vocabularies and configuration are the starting point."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

import zoo
from tests.core.test_training import same, weights
from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.data.batches import Corpus
from zoo.data.datasets import file_dataset
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, ConfigError
from zoo.evaluation.metrics import score
from zoo.registry.events import Event, Report, Validation
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.advice import early_warnings
from zoo.training.fine_tuning import data_size
from zoo.training.fitting import longer_side
from zoo.training.parent import read_parent
from zoo.training.request import TrainingRequest
from zoo.training.session import begin
from zoo.training.tuning_record import load_first_weights

MODELS: dict[str, dict[str, Any]] = {
    "seq2seq-tiny": {"embedding_dim": 12, "hidden_dim": 16},
    "rnnsearch-tiny": {"embedding_dim": 12, "encoder_dim": 12, "hidden_dim": 16,
                       "attention_dim": 12, "readout_dim": 12, "share": "none"},
    "convs2s-tiny": {"embedding_dim": 12, "output_dim": 12, "encoder": [[12, 3]],
                     "decoder": [[12, 3]], "max_positions": 64},
    "transformer-tiny": {"encoder_layers": 1, "decoder_layers": 1, "dim": 12, "heads": 2,
                         "feedforward_dim": 16, "share": "none", "norm": "post"},
}  # fmt: skip
TOKENIZERS = {"tokenizer": "word", "shared_vocab": False, "batch_tokens": 100, "samples": 0}
SHARED = {"share": "all", "shared_vocab": True}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two corpora: `old` and `new`, whose words overlap in part."""
    folder = tmp_path_factory.mktemp("tuning")
    for name, nouns in (("old", "dog cat man girl"), ("new", "dog cat train ship")):
        for suffix, mark in (("en", ""), ("de", "x")):
            lines = [
                f"{article}{mark} {noun}{mark} {verb}{mark} ."
                for article in ("the", "a")
                for noun in nouns.split()
                for verb in ("runs", "sleeps", "sings", "waits", "comes")
            ]
            (folder / f"{name}.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


WORDS = frozenset(["the", "dog", "cat", "man", "girl", "runs", "sleeps", "sings", "waits", "comes"])
"""Of the old corpus."""


@pytest.fixture(scope="module")
def parents(home: Path) -> Callable[..., Path]:
    """A function that trains a small checkpoint of a model on the old corpus, once."""

    def train(model: str, **settings: Any) -> Path:
        out = home / "-".join([model, *settings])
        if not out.exists():
            values = {**MODELS[model], **TOKENIZERS, "learning_rate": 0.01, **settings}
            zoo.train(model, f"{home / 'old'}:en-de", out, settings=values, steps=3)
        return out

    return train


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(i) for i in range(tokenizer.size)]


@pytest.mark.parametrize("model", MODELS)
def test_every_architecture_is_tuned_from_its_own_weights(
    model: str, home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """Before the first update, the run has the parent's weights, and after it other ones."""
    parent = parents(model)
    request = TrainingRequest("", f"{home / 'new'}:en-de", tmp_path / "a", from_=parent, steps=2)
    with begin(request) as session:
        first = {n: w.detach().clone() for n, w in session.trainer.model.named_parameters()}
        events: list[Event] = []
        session.run(events.append)
    old = weights(parent)
    assert old.keys() == first.keys()
    assert all(torch.equal(old[name], first[name]) for name in old)
    assert not same(parent, tmp_path / "a")
    tuned, before = zoo.load(tmp_path / "a").checkpoint, zoo.load(parent).checkpoint
    assert tuned.model_name == model
    assert tuned.config == before.config
    for side in ("source_tokenizer", "target_tokenizer"):
        assert getattr(tuned, side).to_json() == getattr(before, side).to_json()
    assert [e.step for e in events if isinstance(e, Report)][-1] == 2


@pytest.mark.parametrize("model", MODELS)
def test_rows_of_common_tokens_are_carried_over(
    model: str, home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """Weights of a vocabulary are compared token by token, by a table's symbols; others whole."""
    parent = zoo.load(parents(model)).checkpoint
    request = TrainingRequest(
        "", f"{home / 'new'}:en-de", tmp_path / "a", from_=parents(model), steps=1,
        new_vocabulary="both",
    )  # fmt: skip
    with begin(request) as session:
        first = {n: w.detach() for n, w in session.trainer.model.named_parameters()}
        data = session.trainer.data
        notes = " ".join(session.notes)
    old = dict(parent.model.named_parameters())
    sides = {"V_s": (data.source_tokenizer, parent.source_tokenizer),
             "V_t": (data.target_tokenizer, parent.target_tokenizer)}  # fmt: skip
    table = parent.config.parameters(parent.model.source_vocab, parent.model.target_vocab)
    depends = {row.path: [str(size) for size in row.formula.split(" × ")] for row in table}
    compared = 0
    for name, weight in first.items():
        symbols = [s for s in sides if s in depends.get(name, ())]
        if not symbols:
            assert torch.equal(weight, old[name]), name
            continue
        (symbol,) = symbols
        new_words, old_words = map(vocabulary, sides[symbol])
        assert new_words != old_words
        dim = depends[name].index(symbol)
        for i, word in enumerate(new_words):
            if word in old_words:
                row = old[name].detach().select(dim, old_words.index(word))
                assert torch.equal(weight.select(dim, i), row), (name, word)
                compared += 1
    common = [len(set(vocabulary(new)) & set(vocabulary(was))) for new, was in sides.values()]
    assert compared >= sum(common)
    assert f"the rows of {common[0]} source and {common[1]} target tokens" in notes


def test_one_matrix_for_both_sides_is_carried_over(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = parents("transformer-tiny", **SHARED)
    data = f"{home / 'new'}:en-de"
    with pytest.raises(ConfigError, match="one matrix embeds the tokens of both sides"):
        zoo.train(None, data, tmp_path / "a", from_=parent, new_vocabulary="target")
    zoo.train(None, data, tmp_path / "a", from_=parent, new_vocabulary="both", steps=1)
    checkpoint = zoo.load(tmp_path / "a").checkpoint
    assert checkpoint.source_tokenizer is checkpoint.target_tokenizer
    assert {"▁train", "▁trainx"} <= set(vocabulary(checkpoint.source_tokenizer))


def test_one_side_can_be_learned_again(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = zoo.load(parents("rnnsearch-tiny")).checkpoint
    zoo.train(None, f"{home / 'new'}:en-de", tmp_path / "a", from_=parents("rnnsearch-tiny"),
              new_vocabulary="target", steps=1)  # fmt: skip
    tuned = zoo.load(tmp_path / "a").checkpoint
    assert tuned.source_tokenizer.to_json() == parent.source_tokenizer.to_json()
    assert "▁trainx" in vocabulary(tuned.target_tokenizer)


@pytest.mark.parametrize("model", MODELS)
def test_frozen_weights_do_not_change(
    model: str, home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """By weight decay or the mean of several validations; all others are trained."""
    parent = parents(model)
    name = next(n for n in weights(parent) if n.startswith(("encoder", "forward", "backward")))
    pattern = f"{name.partition('.')[0]}*"
    settings = {"weight_decay": 0.1, "optimizer": "adamw", "select": "last", "average_last": 3,
                "validate_every": 1}  # fmt: skip
    zoo.train(None, f"{home / 'new'}:en-de", tmp_path / "a", from_=parent, freeze=[pattern],
              settings=settings, steps=2)  # fmt: skip
    old, new = weights(parent), weights(tmp_path / "a")
    frozen = {n for n in old if n.startswith(pattern[:-1])}
    assert name in frozen
    assert {n for n in old if torch.equal(old[n], new[n])} == frozen
    zoo.resume(tmp_path / "a", steps=4)
    assert all(torch.equal(old[n], weights(tmp_path / "a")[n]) for n in frozen)


@pytest.mark.parametrize("average", [{}, {"average_last": 2}, {"average_decay": 0.8}])
def test_a_share_of_the_parent_is_validated_and_released(
    average: dict[str, Any], home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent, data = parents("rnnsearch-tiny"), f"{home / 'new'}:en-de"
    settings = {**average, "validate_every": 2, "bleu_sentences": 0, "select": "last"}
    made, last = {}, {}
    for share in (0.0, 0.25):
        out = tmp_path / str(share)
        events: list[Event] = []
        zoo.train(None, data, out, from_=parent, freeze=["encoder.*"], steps=4,
                  settings={**settings, "parent_share": share}, on_event=events.append)  # fmt: skip
        made[share] = weights(out)
        *_, last[share] = (e.validation_loss for e in events if isinstance(e, Validation))
    for name, old in weights(parent).items():
        expected = 0.75 * made[0.0][name].double() + 0.25 * old.double()
        torch.testing.assert_close(made[0.25][name].double(), expected, rtol=1e-6, atol=1e-7)
        if name.startswith("encoder."):
            assert torch.equal(made[0.25][name], old)
    assert last[0.25] != last[0.0]
    record = json.loads((tmp_path / "0.25" / "training.json").read_text())
    assert record["recipe"]["parent_share"] == 0.25
    zoo.resume(tmp_path / "0.25", steps=6)
    (tmp_path / "0.25.run" / "initial.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"initial\.safetensors"):
        zoo.resume(tmp_path / "0.25", steps=8)


def test_patterns_are_checked_before_anything_is_written(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    data = f"{home / 'new'}:en-de"
    with pytest.raises(ConfigError, match=r"the network has score, source_embedding\.\*, "):
        zoo.train(None, data, tmp_path / "a", from_=parents("rnnsearch-tiny"), freeze=["xyz"])
    parent = parents("transformer-tiny")
    for patterns, message in (
        (
            ["encoder", "decoder.*"],
            r"'encoder' matches no parameter \(did you mean encoder\.\*.*info MODEL --parameters",
        ),
        (["*"], "'\\*' freezes all parameters"),
    ):
        with pytest.raises(ConfigError, match=message):
            zoo.train(None, data, tmp_path / "a", from_=parent, freeze=patterns, steps=1)
        assert not list(tmp_path.glob("a*"))


def test_a_resumed_run_equals_an_uninterrupted_one(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """Also if the parent is gone, and if the run was stopped before it saved any state."""
    parent, moved = parents("rnnsearch-tiny"), home / "moved"
    data = f"{home / 'new'}:en-de"
    settings = {"dropout": 0.2, "save_every": 2, "schedule": "constant", "batch_tokens": 60,
                "select": "last"}  # fmt: skip
    zoo.train(None, data, tmp_path / "whole", from_=parent, settings=settings, steps=6)
    for name, stop in (("early", 0), ("late", 3)):
        request = TrainingRequest("", data, tmp_path / name, from_=parent, settings=settings,
                                  steps=6)  # fmt: skip
        with begin(request) as session:
            for event in session.trainer.events() if stop else ():
                session.trainer.stop = isinstance(event, Report) and event.step >= stop
        parent.rename(moved)
        zoo.resume(tmp_path / name)
        moved.rename(parent)
        assert same(tmp_path / "whole", tmp_path / name)


def test_damaged_first_weights_are_refused(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    data, parent = f"{home / 'new'}:en-de", parents("rnnsearch-tiny")
    with begin(TrainingRequest("", data, tmp_path / "a", from_=parent, steps=1)) as session:
        network, run = session.trainer.model, session.trainer.folder.path
    (run / "initial.safetensors").write_bytes(
        (parents("seq2seq-tiny") / "model.safetensors").read_bytes()
    )
    with pytest.raises(CheckpointError, match="it belongs to another network"):
        load_first_weights(run, network)


def test_it_says_what_it_was_tuned_from(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = parents("rnnsearch-tiny")
    file = parent / "config.json"
    before = file.read_text()
    values = {**json.loads(before), "about": {
        "terms": "terms of the parent", "decoding": {"beam": 3}, "target_languages": ["xx"],
        "trained_length": 77,
    }}  # fmt: skip
    file.write_text(json.dumps(values))
    zoo.train(None, f"{home / 'new'}:en-de", tmp_path / "a", from_=parent, steps=1)
    file.write_text(before)
    about = zoo.load(tmp_path / "a").checkpoint.about
    assert about == About(
        ("en",), ("de",), "new:en-de", "terms of the parent", {"beam": 3}, "fine-tuned",
        "rnnsearch-tiny", trained_length=77,
    )  # fmt: skip
    assert zoo.load(tmp_path / "a").checkpoint.words == WORDS  # its vocabulary lacks the new ones
    card = (tmp_path / "a" / "README.md").read_text()
    assert "tuned from `rnnsearch-tiny`" in card
    training = json.loads((tmp_path / "a" / "training.json").read_text())
    (scores,) = training["tuning"]
    assert scores["data"] == "new:en-de"
    assert scores.keys() == {"data", "split", "sentences", "before", "after"}


def test_the_license_of_the_parent_is_kept_for_data_of_the_same_terms(
    home: Path, tmp_path: Path
) -> None:
    settings = {**MODELS["seq2seq-tiny"], **TOKENIZERS}
    numbers, own = "numbers-en-fr", f"{home / 'new'}:en-de"
    parent = zoo.train("seq2seq-tiny", numbers, tmp_path / "parent", settings=settings,
                       steps=1, limit=100)  # fmt: skip
    card = parent / "README.md"
    assert "license" not in metadata(parent)
    license = {"license": "other", "license_name": "x", "license_link": "https://example.org/x"}
    lines = "".join(f"{key}: {value}\n" for key, value in license.items())
    card.write_text(card.read_text().replace("---\n", f"---\n{lines}datasets: mine\n", 1))
    for data in (numbers, own):
        out = tmp_path / data.rpartition("/")[2]
        zoo.train(None, data, out, from_=parent, steps=1, limit=100)
        stated = {key: v for key, v in metadata(out).items() if key in (*license, "datasets")}
        assert stated == (license if data == numbers else {})
    text = (parent / "config.json").read_text().replace("free of terms", "of other terms")
    (parent / "config.json").write_text(text)
    zoo.train(None, numbers, tmp_path / "other", from_=parent, steps=1, limit=100)
    assert "license" not in metadata(tmp_path / "other")
    text = text.replace("generated by num2words; of other terms", "").replace(numbers, "unknown")
    (parent / "config.json").write_text(text)
    (parent / "training.json").unlink()
    zoo.train(None, own, tmp_path / "unknown", from_=parent, steps=1)
    assert "license" not in metadata(tmp_path / "unknown")


def metadata(folder: Path) -> dict[str, Any]:
    return split_card((folder / "README.md").read_text(), "the card")[0]


def test_what_is_gained_and_lost_is_measured(home: Path, tmp_path: Path) -> None:
    """A model that has learned one task forgets it while it is tuned to another one.

    The scores are those of greedy translations of the same pairs.
    """
    lines = (home / "old.en").read_text().splitlines()
    for name in ("north", "south"):
        rows = [f"{line}\t{' '.join(f'{name}{word}' for word in line.split())}\n" for line in lines]
        (tmp_path / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    north, south, both = (tmp_path / f"{name}.tsv" for name in ("north", "south", "both"))
    both.write_text(north.read_text() + south.read_text())
    settings = {**MODELS["transformer-tiny"], **TOKENIZERS, "dim": 32, "dropout": 0.0}
    zoo.train("transformer-tiny", str(both), tmp_path / "none", settings=settings, steps=1)
    values = {"learning_rate": 0.01, "batch_tokens": 200, "select": "last", "patience": None,
              "validate_every": 50}  # fmt: skip
    zoo.train(None, str(north), tmp_path / "parent", from_=tmp_path / "none", steps=50,
              settings=values)  # fmt: skip
    zoo.train(None, str(south), tmp_path / "tuned", from_=tmp_path / "parent", steps=50,
              settings=values, also_score=[str(north)])  # fmt: skip
    new, old = json.loads((tmp_path / "tuned" / "training.json").read_text())["tuning"]
    assert (new["split"], old["split"]) == ("validation", "all")
    assert new["after"]["chrf"] > new["before"]["chrf"] + 20
    assert old["after"]["chrf"] < old["before"]["chrf"] - 20
    pairs = [line.split("\t") for line in north.read_text().splitlines()]
    texts = zoo.load(tmp_path / "tuned").translate([source for source, _ in pairs], beam=1)
    expected = score(texts, [target for _, target in pairs]).by_name["chrf"].value
    assert old["after"]["chrf"] == pytest.approx(expected, abs=0.005)


def test_wrong_requests_are_refused_in_one_line(
    home: Path, parents: Callable[..., Path], tmp_path: Path, run: Callable[..., Result]
) -> None:
    parent, data = parents("rnnsearch-tiny"), f"{home / 'new'}:en-de"
    for more, message in (
        (["--set", "vocab_size=9"], "tuning keeps the tokenizers of rnnsearch-tiny"),
        (["--set", "hidden_dim=8"], "this configuration is not that of rnnsearch-tiny"),
        (["--set", "dropuot=0.1"], "did you mean dropout"),
        (["--also-score", "multi30k-en-ed"], "did you mean multi30k-en-de"),
        (["--resume"], "leave out --from"),
    ):
        result = run("train", "--from", parent, "--data", data, "--out", tmp_path / "a", *more)
        assert result.exit_code != 0
        assert message in result.output, result.output
        assert not list(tmp_path.glob("a*"))
    result = run("train", "seq2seq-tiny", "--from", parent, "--data", data, "--out", tmp_path / "a")
    assert "rnnsearch-tiny is not a seq2seq-tiny: it is a rnnsearch-tiny" in result.output
    result = run("train", "rnnsearch-tiny", "--also-score", data, "--data", data,
                 "--out", tmp_path / "a")  # fmt: skip
    assert "--also-score needs --from" in result.output
    with pytest.raises(ConfigError, match="no model is given"):
        zoo.train(None, data, tmp_path / "a")


def test_the_command_line_shows_the_choice_and_the_scores(
    home: Path, parents: Callable[..., Path], tmp_path: Path, run: Callable[..., Result]
) -> None:
    result = run("train", "--from", parents("seq2seq-tiny"), "--data", f"{home / 'new'}:en-de",
                 "--out", tmp_path / "a", "--freeze", "encoder*", "--steps", 1)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Tuned from seq2seq-tiny: learning rate 0.002 decaying to zero" in result.output
    assert "encoder* frozen" in result.output
    assert "new:en-de, validation (2 sentences): chrF " in result.output


def test_the_rate_is_a_fifth_of_the_peak_of_the_parent(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """Noam's peak is at the end of its warm-up; the run's decay ends with it."""
    values = {"schedule": "noam", "warmup": 50, "factor": 0.5, "learning_rate": 1e-3}
    parent, data = parents("seq2seq-tiny", **values), f"{home / 'new'}:en-de"
    loaded = read_parent(default_registry(), str(parent), torch.device("cpu"))
    as_table = {**loaded.recipe, "schedule": {"name": "noam"}}
    assert replace(loaded, recipe=as_table).peak_rate == loaded.peak_rate
    assert replace(loaded, recipe={**as_table, "schedule": [3]}).peak_rate == 1e-3
    with begin(TrainingRequest("", data, tmp_path / "a", from_=parent)) as session:
        recipe = session.trainer.plan.recipe
    assert recipe.learning_rate == pytest.approx(0.2 * 0.5 * (16 * 50) ** -0.5, rel=0.05)
    assert (recipe.schedule, recipe.epochs, recipe.tokenizer) == ("cosine", 20, "word")


def test_a_checkpoint_that_is_tuned_again_has_the_same_rate(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """A higher rate that somebody sets counts for later runs; a lower one does not."""
    rates = []
    outs = [parents("seq2seq-tiny"), *(tmp_path / name for name in "abcd")]
    for number, (parent, out) in enumerate(pairwise(outs)):
        settings = {2: {"learning_rate": 1e-5}, 3: {"learning_rate": 0.02}}.get(number, {})
        request = TrainingRequest(
            "", f"{home / 'new'}:en-de", out, from_=parent, steps=1, settings=settings
        )
        with begin(request) as session:
            rates.append(session.trainer.plan.recipe.learning_rate)
            session.run()
    assert rates == [0.002, 0.002, 1e-5, 0.02]
    last = read_parent(default_registry(), outs[-1], torch.device("cpu"))
    assert last.peak_rate == 0.02


@pytest.mark.parametrize(
    ("kept", "settings", "more"),
    [
        ({"r_drop": 1.0}, {"objective": "minimum_risk"}, {}),
        ({"r_drop": 1.0}, {"objective": [{"name": "minimum_risk", "samples": 2}]}, {}),
        ({"bpe_dropout": 0.1, "tokenizer": "bpe"}, {"tokenizer": "word"},
         {"new_vocabulary": "both"}),
    ],
)  # fmt: skip
def test_what_the_parent_was_trained_with_does_not_exclude_what_is_set(
    home: Path, parents: Callable[..., Path], tmp_path: Path,
    kept: dict[str, Any], settings: dict[str, Any], more: dict[str, Any],
) -> None:  # fmt: skip
    def recipe(values: dict[str, Any], **more: Any) -> Recipe:
        request = TrainingRequest(
            "", f"{home / 'new'}:en-de", tmp_path / str(len(values)), from_=parent, steps=1,
            settings=values, **more,
        )  # fmt: skip
        with begin(request) as session:
            return session.trainer.plan.recipe

    parent, (name, value) = parents("seq2seq-tiny", **kept), next(iter(kept.items()))
    assert getattr(recipe({}), name) == value
    assert getattr(recipe(settings, **more), name) == 0
    with pytest.raises(ConfigError, match=name):
        recipe({**settings, name: value}, **more)


def test_the_size_of_the_data_is_that_of_what_is_trained_on(
    parents: Callable[..., Path], tmp_path: Path
) -> None:
    """One line that is too long, or the short head of a sorted file, does not decide the batch."""
    short, longer = "the dog runs .", "the dog runs and the cat sings and the man sleeps ."
    lines = [f"{short}\t{short}\n"] * 1500 + [f"{longer}\t{longer}\n"] * 6000
    lines += [f"{'dog ' * 300_000}\tdogx\n"]
    (tmp_path / "sorted.tsv").write_text("".join(lines), encoding="utf-8")
    parent = read_parent(default_registry(), parents("seq2seq-tiny"), torch.device("cpu"))
    dataset = file_dataset(f"{tmp_path / 'sorted.tsv'}")
    limits = LengthLimits(256, 256)
    tokenizers = (parent.checkpoint.source_tokenizer, parent.checkpoint.target_tokenizer)
    corpus = Corpus.encode(dataset.load("train"), *tokenizers, limits)
    size = data_size(dataset, None, parent, 256)
    assert size.pairs == pytest.approx(len(corpus), rel=0.01)
    assert size.tokens == pytest.approx(longer_side(corpus), rel=0.1)
    data, settings = str(tmp_path / "sorted.tsv"), {"max_length": 8}
    request = TrainingRequest(
        "", data, tmp_path / "a", from_=parents("seq2seq-tiny"), settings=settings
    )
    with begin(request) as session:
        trained = session.trainer.data.corpus
        recipe = session.trainer.plan.recipe
    assert len(trained) < 1600
    assert recipe.batch_tokens == pytest.approx(longer_side(trained) / 16, rel=0.3)


@pytest.mark.parametrize(("pairs", "select", "patience"), [(40, "last", None), (480, "loss", 4)])
def test_a_few_held_out_pairs_do_not_end_a_run(
    parents: Callable[..., Path], tmp_path: Path, pairs: int, select: str, patience: int | None
) -> None:
    """Of 40 sources, two are held out: the loss of two sentences is chance."""
    lines = "".join(f"the dog {n}\tthex dogx {n}\n" for n in range(pairs))
    data = tmp_path / "few.tsv"
    data.write_text(lines, encoding="utf-8")
    request = TrainingRequest("", str(data), tmp_path / "a", from_=parents("seq2seq-tiny"))
    with begin(request) as session:
        trainer = session.trainer
        recipe = trainer.plan.recipe
        warnings = early_warnings(trainer.plan, trainer.data, len(trainer.batches))
    assert (recipe.select, recipe.patience) == (select, patience)
    few = [text for text in warnings if "held-out pair" in text]
    assert len(few) == (select == "last")
    assert all("which weights are best: the last are released" in text for text in few)


def test_a_released_checkpoint_is_compared_on_its_dataset(registry: Registry) -> None:
    """Also if it was trained on files that hold more than the dataset."""
    for name in ("transformer-tiny.multi30k-en-de", "seq2seq-tiny.numbers-en-fr"):
        parent = read_parent(registry, name, torch.device("cpu"))
        dataset = parent.dataset(registry)
        assert dataset is not None
        assert dataset.name == registry.checkpoints[name].dataset
        assert parent.recipe["learning_rate"] == parent.peak_rate


def test_the_test_data_of_what_validates_the_run_stays_unseen(tmp_path: Path) -> None:
    """A recipe is chosen by such runs: see `cards/training.py`."""
    data, parent = "numbers-en-fr", "seq2seq-tiny.numbers-en-fr"
    pairs = [("twenty", "vingt"), ("thirty", "trente")] * 10
    settings = {"precision": "float32"}
    out = tmp_path / "out"
    zoo.train(None, pairs, out, from_=parent, validation=data, steps=1, settings=settings)
    (scored,) = json.loads((out / "training.json").read_text("utf-8"))["tuning"]
    assert (scored["data"], scored["split"]) == (data, "validation")


def test_a_few_pairs_are_enough(home: Path, parents: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing is held out of so few sources: all of them are trained on, the last weights kept."""
    pairs = [("the dog runs .", "thex dogx runsx .")] * 3
    zoo.train(None, pairs, tmp_path / "a", from_=parents("seq2seq-tiny"), steps=2)
    training = json.loads((tmp_path / "a" / "training.json").read_text())
    assert (training["pairs"], training["released"], training["tuning"]) == (3, 2, [])


def test_the_words_of_both_trainings_are_known_or_none(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = parents("rnnsearch-tiny")
    assert zoo.load(parent).checkpoint.words == WORDS
    unknown = Path(shutil.copytree(parent, tmp_path / "parent"))
    (unknown / "source-words.txt").unlink()
    for name, start, words in (("a", parent, WORDS | {"train", "ship"}), ("b", unknown, set())):
        zoo.train(
            None, f"{home / 'new'}:en-de", tmp_path / name, from_=start, steps=1,
            new_vocabulary="source",
        )  # fmt: skip
        assert zoo.load(tmp_path / name).checkpoint.words == words
    zoo.train(
        None, [("the dog runs .", "thex dogx runsx .")], tmp_path / "c", from_=parent, steps=1
    )
    assert zoo.load(tmp_path / "c").checkpoint.words == WORDS  # a single pair has no new word


def test_words_beside_unknown_tokens_are_listed(tmp_path: Path) -> None:
    begins = "the dog sees", "my dog sees", "the dog likes", "my dog likes"
    names = "Ann", "Bob", "Eve", "Tom", "Zoe"
    pairs = [(f"{begin} {name} often", "x") for name in names for begin in begins]
    settings = {**TOKENIZERS, "vocab_size": 10}
    zoo.train("seq2seq-tiny", pairs, tmp_path / "a", steps=1, settings=settings)
    assert zoo.load(tmp_path / "a").checkpoint.words == frozenset(
        ["the", "my", "dog", "sees", "likes", "often"]
    )
