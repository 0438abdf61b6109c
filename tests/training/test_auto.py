"""The recipe `auto`: what it chooses, and that resuming a run never chooses again."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.core.test_training import same
from zoo.data.statistics import corpus_statistics
from zoo.errors import DataError
from zoo.registry.declarations import Pair
from zoo.registry.events import Event, Note, Report, Validation
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.auto import Choice, Size, UpdateTime, choose, fit
from zoo.training.fitting import first_plan
from zoo.training.plan import fixed_values, make_plan, uses_auto
from zoo.training.recipe_layers import TOTALS
from zoo.training.request import TrainingRequest
from zoo.training.schedule import Progress, make_schedule
from zoo.training.session import begin

TINY: dict[str, Any] = {
    "embedding_dim": 16, "encoder_dim": 16, "hidden_dim": 32, "attention_dim": 16,
    "readout_dim": 16, "samples": 1,
}  # fmt: skip
"""A network that trains in no time."""

NO_TOTAL = {"steps": None, "epochs": None, "minutes": None}


def tsv(file: Path, pairs: Iterable[tuple[str, str]]) -> str:
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    return str(file)


def chosen(
    registry: Registry, pairs: list[Pair], tokens: int, fixed: dict[str, Any] | None = None,
    model: str = "transformer-tiny", speed: UpdateTime | None = None, **totals: float,
) -> Choice:  # fmt: skip
    """Everything that auto chooses for these pairs."""
    request = TrainingRequest(model, "corpus.tsv", "out")
    config = make_plan(registry, request).config
    fixed = {**(fixed or {}), **totals}
    choice = choose(corpus_statistics(pairs), config, 8000, fixed)
    fit(choice, config, Size(tokens, 100, {**NO_TOTAL, **totals}, speed))
    return choice


def sentences(count: int) -> list[Pair]:
    """Pairs in which one word in three is new, as in natural language."""
    return [Pair(f"the dog{n} sees cats.", f"der Hund{n} sieht die Katzen.") for n in range(count)]


def digits(count: int) -> list[Pair]:
    """Pairs of ten different words."""
    texts = [" ".join(str(n * 7919 % 10**k // 10 ** (k - 1)) for k in range(1, 9))
             for n in range(count)]  # fmt: skip
    return [Pair(text, text[2:]) for text in texts]


def test_statistics_of_a_corpus_match_their_definitions() -> None:
    pairs = [Pair("a b-c, a", "x"), Pair("a", "yy y"), Pair("a", "yy y")]
    counted = corpus_statistics(pairs)
    assert (counted.pairs, counted.sampled, counted.distinct_pairs) == (3, 3, 2)
    assert counted.respelled == 0  # one has three words and one
    source = counted.source
    assert (source.words, source.distinct_words, source.single_words) == (6, 3, 2)
    assert (source.characters, source.distinct_characters, source.spaces) == (10, 6, 2)
    assert source.unseen == 2 / 4  # of a b-c , a: the middle two are in no other text
    assert counted.target.mean_length == 3.0


def test_statistics_sample_evenly_and_count_every_pair() -> None:
    """The head of a sorted file is not a sample of it."""
    pairs = [Pair("x" * (n // 100 + 1), "y") for n in range(10_000)]
    counted = corpus_statistics(iter(pairs), sample=100)
    assert counted.pairs == 10_000
    assert counted.distinct < 10_000
    assert 100 <= counted.sampled < 200
    assert counted.source.mean_length == pytest.approx(50.5, abs=1)


def test_a_very_long_line_is_not_counted_whole() -> None:
    counted = corpus_statistics([Pair("word " * 1_000_000, "y"), Pair("a", "b")])
    assert counted.source.characters <= 10_001


@pytest.mark.parametrize(
    ("pairs", "tokenizer"),
    [
        (sentences(500), "bpe"),
        (digits(500), "word"),
        ([Pair(f"word{n}", f"W ER D {n}") for n in range(300)], "char"),
        ([Pair("".join(chr(0x4E00 + (n * k) % 900) for k in range(1, 30)), f"text {n} and more")
          for n in range(300)], "bpe"),
        ([Pair(f"{n} + {7 * n}", f"{8 * n}") for n in range(300)], "char"),
        ([Pair(f"{n % 28}.{n % 11}.{1700 + n}", f"{1700 + n}-{n % 11}-{n % 28}")
          for n in range(300)], "char"),
        ([Pair(f"C{'CO' * (n % 9)}({n:x})N{n % 7}=O", f"name-{n}-of") for n in range(300)], "char"),
        ([Pair("".join(chr(0x3042 + n * k % 80) for k in range(1, 6)), f"syl la bles {n}")
          for n in range(300)], "char"),
        ([Pair("\u0915\u093f" + "".join(chr(0x915 + n * k % 30) + "\u0940" for k in range(1, 6)),
               f"latin{n}") for n in range(300)], "char"),
        ([Pair(f"ab{n % 91} abcd{n % 83} a{n % 71}", f"AB.{n % 91} ABCD.{n % 83} A.{n % 71}")
          for n in range(300)], "char"),
        ([Pair(f"alpha{n % 91} beta{n % 83} gamma{n % 71}", f"{'NV'[n % 2]} {'NV'[n % 3 // 2]} N")
          for n in range(300)], "bpe"),
        ([Pair(f"question {n % 30} of many", f"code-{n}-" + "x" * 300) for n in range(300)], "bpe"),
    ],
    ids=["language", "numbers", "single words", "no spaces", "sums", "dates", "formulas",
         "syllables", "combining marks", "other spellings", "tags of words", "long strings"],
)  # fmt: skip
def test_the_tokenizer_follows_the_text(
    registry: Registry, pairs: list[Pair], tokenizer: str
) -> None:
    choice = chosen(registry, pairs, 10_000)
    assert choice.recipe["tokenizer"] == tokenizer
    assert 1 <= len(choice.reasons) <= 5
    Recipe.parse({**choice.recipe, "shared_vocab": True}, "auto")


def test_characters_are_not_dropped_as_words_are(registry: Registry) -> None:
    """A character that is dropped is lost: nothing around it says which one it was."""
    long = [Pair(f"a b c d e f g h {n} x{n} y{n} z{n}", f"{n}") for n in range(300)]
    assert chosen(registry, long, 5000, {"tokenizer": "bpe"}).recipe["word_dropout"] == 0.1
    for kind in ("char", "byte"):
        assert "word_dropout" not in chosen(registry, long, 5000, {"tokenizer": kind}).recipe


def test_combining_marks_belong_to_their_letters() -> None:
    """Vowels of Hindi, vowel points of Hebrew."""
    texts = ["\u0939\u093f\u0928\u094d\u0926\u0940", "\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd"]
    counted = corpus_statistics([Pair(text, "x") for text in texts])
    assert counted.source.words == counted.source.distinct_words == 2


def test_the_vocabulary_grows_with_the_text_and_has_a_limit(registry: Registry) -> None:
    sizes = [
        chosen(registry, sentences(count), 10 * count).recipe["vocab_size"]
        for count in (50, 500, 5000)
    ]
    assert sizes == sorted(set(sizes))
    config = make_plan(registry, TrainingRequest("convs2s-tiny", "a.tsv", "out")).config
    huge = corpus_statistics(sentences(5000))
    assert choose(huge, config, 900, {}).recipe["vocab_size"] == 900


def test_a_choice_never_overrides_what_is_set(registry: Registry) -> None:
    fixed = {"tokenizer": "char", "vocab_size": 77, "batch_tokens": 300, "learning_rate": 0.5,
             "select": "last", "dropout": 0.4}  # fmt: skip
    choice = chosen(registry, sentences(500), 5000, fixed)
    assert not choice.recipe.keys() & fixed.keys()
    assert not choice.config.keys() & fixed.keys()
    assert "patience" not in choice.recipe


def test_the_rate_that_noam_does_not_read_is_not_shown(registry: Registry) -> None:
    """It read `learning rate 0.002, noam` of a run whose rate rose to 0.04."""
    usual, noam = (chosen(registry, sentences(500), 5000, {"schedule": schedule}).reasons
                   for schedule in ("cosine", "noam"))  # fmt: skip
    assert any("learning rate 0.002, cosine; dropout" in line for line in usual)
    assert any("learning rate of noam, by factor, width and warmup; dropout" in s for s in noam)


def test_the_time_decides_batch_and_epochs(registry: Registry) -> None:
    """A slow machine gets smaller batches, and less dropout, since it sees each pair less often."""
    fast = chosen(registry, sentences(5000), 400_000, speed=UpdateTime(0.0, 1e-6), minutes=5)
    slow = chosen(registry, sentences(5000), 400_000, speed=UpdateTime(0.1, 1e-4), minutes=5)
    assert fast.recipe["batch_tokens"] > slow.recipe["batch_tokens"]
    assert fast.config["dropout"] > slow.config["dropout"]
    assert "steps" not in fast.recipe
    assert chosen(registry, sentences(500), 5000).recipe["steps"] >= 1000


def test_one_cycle_rises_and_ends_at_zero_whatever_the_speed(registry: Registry) -> None:
    recipe = Recipe(schedule="one_cycle", learning_rate=1.0)
    schedule = make_schedule(registry, recipe)
    rates = [schedule(Progress(1, done / 100, 1)) for done in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[10]
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


def test_auto_is_for_data_without_a_recipe(registry: Registry) -> None:
    def uses(data: str, recipe: str | None = None) -> bool:
        return uses_auto(registry, TrainingRequest("transformer-tiny", data, "o", recipe=recipe))

    assert uses("corpus:en-de")
    assert uses("shift", "auto")
    assert not uses("shift")
    assert not uses("multi30k-en-de")
    assert not uses("corpus:en-de", "tatoeba")


def test_a_recipe_file_overrides_what_auto_chooses(parallel: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text('clip = "none"\nepochs = 2\n[config]\ndropout = 0.15\n')
    out = zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", recipe=str(file),
                    settings=TINY)  # fmt: skip
    run = json.loads((out.with_name("a.run") / "run.json").read_text())
    recipe = run["recipe"]
    assert (recipe["clip"], recipe["epochs"], recipe["steps"]) == (None, 2, None)
    assert recipe["schedule"] == "one_cycle"
    assert run["config"]["dropout"] == 0.15
    again = zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "b", recipe=str(file),
                      settings=TINY, steps=5)  # fmt: skip
    recipe = json.loads((again.with_name("b.run") / "run.json").read_text())["recipe"]
    assert (recipe["epochs"], recipe["steps"]) == (None, 5)


@pytest.mark.parametrize(
    ("in_file", "settings", "totals"),
    [
        ("", {"minutes": 0.1}, {"steps": 5}),
        ("", {"recipe.epochs": 3}, {"minutes": 2.0}),
        ("minutes = 0.1", {"steps": 5}, {}),
        ("minutes = 0.1\nepochs = 2", {}, {"steps": 5}),
        ("minutes = 0.1\nepochs = 2", {}, {}),
        ("", {"minutes": 0.1, "steps": 5}, {}),
    ],
)
def test_what_is_chosen_fits_the_totals_that_the_run_has(
    registry: Registry,
    tmp_path: Path,
    in_file: str,
    settings: dict[str, Any],
    totals: dict[str, Any],
) -> None:
    file = tmp_path / "r.toml"
    file.write_text(in_file)
    request = TrainingRequest(
        "rnnsearch-tiny", "a.tsv", "out", recipe=str(file), settings=settings, **totals
    )
    recipe, fixed = make_plan(registry, request).recipe, fixed_values(registry, request)
    wanted = {key.removeprefix("recipe."): value for key, value in (settings | totals).items()}
    assert wanted.items() <= recipe.model_dump().items()
    for total in TOTALS:
        assert fixed.get(total) == getattr(recipe, total), total


def test_epochs_of_few_pairs_are_counted_right(registry: Registry) -> None:
    choice = chosen(registry, sentences(3), 30, steps=20)
    assert any("1 update per epoch" in r and "(20.0 epochs)" in r for r in choice.reasons)
    single = chosen(registry, sentences(3), 30, steps=1)
    assert any("1 update (1.0 epochs)" in reason for reason in single.reasons)


def test_a_run_records_what_was_chosen_and_resumes_bit_exactly(
    parallel: Path, tmp_path: Path
) -> None:
    """A run that is stopped, whose text statistics would now differ, goes on as if it never was."""
    data = f"{parallel}:en-de"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    zoo.train("rnnsearch-tiny", data, whole, settings=TINY, steps=30)
    with begin(TrainingRequest("rnnsearch-tiny", data, parts, settings=TINY, steps=30)) as session:
        for event in session.trainer.events():
            session.trainer.stop = event.step >= 10
    zoo.resume(parts)
    assert same(whole, parts)
    recipe = json.loads((parts.with_name("parts.run") / "run.json").read_text())["recipe"]
    assert recipe["schedule"] == "one_cycle"
    again = zoo.train("rnnsearch-tiny", data, tmp_path / "again",
                      recipe=str(tmp_path / "parts.run" / "recipe.toml"))  # fmt: skip
    assert same(whole, again)


def test_every_choice_applies_to_the_run_that_makes_it(tmp_path: Path) -> None:
    """Label smoothing and the like are chosen last: text of few words gets none."""
    data = tsv(tmp_path / "digits.tsv", digits(60))
    chosen = zoo.train("rnnsearch-tiny", data, tmp_path / "chosen", settings=TINY, steps=3)
    recipe = tmp_path / "chosen.run" / "recipe.toml"
    assert "label_smoothing = 0.0" in recipe.read_text()
    again = zoo.train("rnnsearch-tiny", data, tmp_path / "again", recipe=str(recipe))
    assert same(chosen, again)


@pytest.mark.parametrize(
    ("count", "settings", "chosen"),
    [
        (400, {"cooldown": 0.2}, {"cooldown": 0.2, "patience": 8, "select": "loss"}),
        (400, {"tolerance": 0.05}, {"tolerance": 0.05, "patience": 8, "select": "loss"}),
        (60, {"select": "bleu"}, {"select": "bleu"}),
    ],
)
def test_what_a_set_value_needs_is_chosen_too(
    tmp_path: Path, count: int, settings: dict[str, Any], chosen: dict[str, Any]
) -> None:
    data = tsv(tmp_path / "digits.tsv", digits(count))
    request = TrainingRequest("rnnsearch-tiny", data, tmp_path / "out",
                              settings={**TINY, **settings}, steps=3)  # fmt: skip
    with begin(request) as session:
        recipe = session.trainer.plan.recipe
        assert {key: getattr(recipe, key) for key in chosen} == chosen
        assert recipe.bleu_sentences


def test_patience_ends_a_run_with_a_cooldown(parallel: Path, tmp_path: Path) -> None:
    """The rate decays to zero in the last updates, which are a tenth of those before."""
    settings = {**TINY, "learning_rate": 1e-9, "select": "loss", "patience": 2, "cooldown": 0.5,
                "validate_every": 10, "schedule": "constant", "warmup": 0,
                "average_decay": None}  # fmt: skip
    events: list[Event] = []
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=1000,
              on_event=events.append)  # fmt: skip
    notes = [event for event in events if isinstance(event, Note)]
    started = next(note.step for note in notes if "decays to zero" in note.text)
    reports = [event for event in events if isinstance(event, Report)]
    assert reports[-1].step == started + round(0.5 * started)
    rates = [r.learning_rate for r in reports if r.step > started]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(1e-9 / round(0.5 * started))
    assert reports[-1].done >= 1
    events.clear()
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "b", settings=settings,
              steps=started, on_event=events.append)  # fmt: skip
    assert not [event for event in events if isinstance(event, Note)], "no rate is left to decay"


def test_selection_by_chrf_releases_the_best_validation(parallel: Path, tmp_path: Path) -> None:
    settings = {**TINY, "select": "chrf", "bleu_sentences": 10, "validate_every": 5}
    events: list[Event] = []
    out = zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings,
                    steps=20, on_event=events.append)  # fmt: skip
    scores = {e.step: e.chrf for e in events if isinstance(e, Validation)}
    best = json.loads((out / "training.json").read_text())["released"]
    assert scores[best] == max(score for score in scores.values() if score is not None)


@pytest.mark.parametrize(
    "pairs",
    [
        [("a dog runs.", "ein Hund rennt.")] * 50,
        [(f"dog {n}", f"Hund {n}") for n in range(50)],
        [(f"dog {n}", f"Hund {n}") for n in range(50)] + [("dog " * 20_000, "Hund " * 20_000)],
        [("我喜欢狗" + chr(0x4E00 + n), f"I like dog {n}") for n in range(60)],
        [(" ".join("abcdefgh"[: n % 7 + 1]), "abcdefgh"[n % 7 :]) for n in range(60)],
    ],
    ids=["identical lines", "50 pairs", "a very long line", "Chinese", "characters"],
)
def test_odd_corpora_train(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    out = zoo.train("rnnsearch-tiny", tsv(tmp_path / "c.tsv", pairs), tmp_path / "a",
                    settings=TINY, steps=3)  # fmt: skip
    assert zoo.load(out).translate([pairs[0][0][:20]])


def test_a_corpus_without_pairs_is_refused(registry: Registry, tmp_path: Path) -> None:
    data = tsv(tmp_path / "c.tsv", [("a", "b")])
    request = TrainingRequest("rnnsearch-tiny", data, tmp_path / "a", validation=data, steps=1)
    plan, automatic = first_plan(registry, request)
    assert automatic is not None
    with pytest.raises(DataError, match="no pairs to train on"):
        choose(corpus_statistics([]), plan.config, 100, {})
