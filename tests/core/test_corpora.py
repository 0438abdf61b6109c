"""The built-in corpora: splits without near copies, dates without ambiguity, pronunciations."""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import itertools
import random
from pathlib import Path
from unittest.mock import Mock

import pytest

from zoo.data.datasets import find_dataset, items_to_score
from zoo.errors import ConfigError, DataError, MissingPackageError
from zoo.evaluation.metrics import make_metrics, score
from zoo.registry.declarations import Pair
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo_corpora import dates, pronunciation
from zoo_corpora.near_copies import groups, split_groups, variants, words

SPLITS = ("train", "validation", "test")


TEST_SETS = {
    "tatoeba-en-fr-76k": "6326085473e6",
    "g2p-en": "12923e0d9777",
    "dates-en-iso": "4e65ffd486f7",
}
"""Digests of the test splits: with another split, scores are not comparable."""


@pytest.mark.parametrize("name", TEST_SETS)
def test_the_test_sets_do_not_change(name: str, registry: Registry, corpora: Path) -> None:
    text = repr([Pair(*pair) for pair in find_dataset(registry, name).load("test")])
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == TEST_SETS[name]


def test_the_tasks_keep_the_splits_of_what_they_join(registry: Registry, corpora: Path) -> None:
    joined = find_dataset(registry, "tasks")
    parts = {
        "numbers": ("numbers-en-fr",),
        "date": ("dates-iso",),
        "phones": ("g2p-en",),
        "en-fr": ("tatoeba-en-fr-76k", "multi30k-en-fr"),
        "fr-en": ("tatoeba-fr-en-76k",),
        "en-de": ("multi30k-en-de",),
        "de-en": ("multi30k-de-en",),
    }
    for split in SPLITS:
        by_tag: dict[str, list[Pair]] = {}
        for source, target in joined.stream(split):
            tag, _, text = source.partition(": ")
            by_tag.setdefault(tag, []).append(Pair(text, target))
        assert list(by_tag) == list(parts)
        for tag, names in parts.items():
            of_parts = {
                pair for name in names for pair in find_dataset(registry, name).stream(split)
            }
            assert set(by_tag[tag]) <= of_parts
            assert split != "train" or len(by_tag[tag]) >= 29_000
    first = [source.partition(":")[0] for source, _ in joined.load("validation")[:8]]
    assert set(first) == set(parts)


def near(one: str, other: str) -> bool:
    """The rule of `near_copies`, pair by pair: at most one word of each is left out."""
    first, second = words(one), words(other)
    return bool(set(variants(first)) & set(variants(second)))


def test_words_have_no_case_accents_punctuation_and_contractions() -> None:
    assert words("I'm  SURE you can't!") == words("i am sure you cannot")
    assert words("Ça alors !") == ("ca", "alors")
    assert words("Don’t.") == words("do not")
    assert " ".join(words("We'll; they've, he isn't")) == "we will they have he is not"


def test_near_copies_by_hand() -> None:
    assert near("He often eats fish for dinner.", "He often eats meat for dinner!")
    assert near("He often eats fish for dinner.", "He eats fish for dinner")
    assert not near("He often eats fish for dinner.", "She often eats meat for dinner.")
    assert not near("I see you.", "I hear you.")  # other sentences: they are too short
    assert near("I see you.", "i SEE you")


def test_groups_equal_the_closure_of_the_rule() -> None:
    draw = random.Random(4)
    pairs = [
        Pair(*(" ".join(draw.choices("abcd", k=draw.choice((2, 3, 5, 6)))) for _ in range(2)))
        for _ in range(40)
    ]
    linked = [
        (i, j)
        for (i, one), (j, other) in itertools.combinations(enumerate(pairs), 2)
        if near(one.source, other.source) or near(one.target, other.target)
    ]
    expected = list(range(len(pairs)))
    for _ in pairs:  # until nothing changes
        for i, j in linked:
            expected[i] = expected[j] = min(expected[i], expected[j])
    assert groups(pairs) == expected
    assert 1 < len(set(expected)) < len(pairs)


def test_groups_are_split_whole_and_large_ones_are_trained_on() -> None:
    pairs = [Pair(f"source {n // 2}", f"target {n}") for n in range(400)]
    group_of = [min(n // 4, 90) for n in range(400)]
    splits = split_groups(pairs, group_of, {"test": 20, "validation": 10}, largest=4)
    assert sorted(itertools.chain(*splits.values())) == sorted(pairs)
    assert [len({p.source for p in splits[s]}) for s in ("test", "validation")] == [20, 10]
    where = {p: split for split, members in splits.items() for p in members}
    for group in range(91):
        members = [p for p, g in zip(pairs, group_of, strict=True) if g == group]
        assert len({where[p] for p in members}) == 1
    assert where[pairs[-1]] == "train"
    assert split_groups(pairs, group_of, {"test": 20, "validation": 10}, 4) == splits
    assert splits["train"] == [p for p in pairs if where[p] == "train"]


def test_tatoeba_76k_has_no_near_copies_in_two_splits(registry: Registry, corpora: Path) -> None:
    dataset = find_dataset(registry, "tatoeba-en-fr-76k")
    parts = {split: dataset.load(split) for split in SPLITS}
    assert sum(map(len, parts.values())) == 76_037
    for split in ("validation", "test"):
        assert len({pair.source for pair in parts[split]}) in range(1000, 1020)
    for side in (0, 1):
        seen: dict[tuple[str, ...], str] = {}
        for split, pairs in parts.items():
            for text in {pair[side] for pair in pairs}:
                for variant in variants(words(text)):
                    assert seen.setdefault(variant, split) == split, text
    assert dataset.load("test", 50) == parts["test"][:50], "a limit moves no pair between splits"
    backward = find_dataset(registry, "tatoeba-fr-en-76k")
    assert backward.load("test") == [Pair(b, a) for a, b in parts["test"]]


def test_pronunciations(registry: Registry, corpora: Path) -> None:
    dataset = find_dataset(registry, "g2p-en")
    parts = {split: dataset.load(split) for split in SPLITS}
    assert sum(map(len, parts.values())) == 135_166
    stems = {s: {pronunciation.stem(pair.source) for pair in part} for s, part in parts.items()}
    for one, other in itertools.combinations(SPLITS, 2):
        assert not stems[one] & stems[other]
    assert len({pair.source for pair in parts["test"]}) in range(10_000, 10_010)
    assert Pair("aalborg", "AO1 L B AO0 R G") in parts["train"] + parts["test"]
    phones = Path(corpora, "cmudict", "cmudict.phones").read_text().split()[::2]
    used = {phone.rstrip("012") for part in parts.values() for p in part for phone in p[1].split()}
    assert used == set(phones)
    assert find_dataset(registry, "cmudict").load("test") == parts["test"]


def test_entries_of_a_dictionary(tmp_path: Path) -> None:
    file = tmp_path / "cmudict.dict"
    file.write_text(";;; a comment\na AH0\na(2) EY1 # the letter\n\nbaker's B EY1 K ER0 Z\n")
    assert list(pronunciation.read_dictionary(file)) == [
        Pair("a", "AH0"), Pair("a", "EY1"), Pair("baker's", "B EY1 K ER0 Z"),
    ]  # fmt: skip
    file.write_text("a AH0\nwrong line, really\n")
    with pytest.raises(DataError, match="line 2, is no entry"):
        list(pronunciation.read_dictionary(file))
    assert pronunciation.stem("baker's") == pronunciation.stem("bakers'")[:-1] == "baker"
    assert pronunciation.stem("A.M.") == pronunciation.stem("am")
    assert pronunciation.stem("'s") == "'s"


@pytest.mark.parametrize("name", ["dates-en-iso", "dates-iso"])
def test_dates_are_in_one_split_and_are_right(
    name: str, registry: Registry, generated_data: Path
) -> None:
    pytest.importorskip("babel")
    dataset = find_dataset(registry, name)
    parts = {split: dataset.load(split) for split in SPLITS}
    assert {s: len(part) for s, part in parts.items()} == dict(
        zip(SPLITS, (100_000, 1000, 1000), strict=True)
    )
    texts: dict[str, str] = {}
    where: dict[str, str] = {}
    for split, pairs in parts.items():
        for number, (source, target) in enumerate(pairs):
            assert texts.setdefault(source, target) == target, "a text is one date"
            assert where.setdefault(target, split) == split, "a date is in one split"
            if number >= 1000:
                continue
            date = datetime.date.fromisoformat(target)
            assert 1600 <= date.year <= 2199
            if name == "dates-en-iso":
                day = [w.strip(",") for w in source.split() if w[:3].title() in dates.WEEKDAYS_3]
                assert not day or date.strftime("%A").lower().startswith(day[0].lower())
                assert str(date.year) in source
                assert date.strftime("%b").lower() in source.lower()


def test_a_date_in_any_language_is_one_date() -> None:
    """Every day of a year in every format: no two days are written alike."""
    format_date = pytest.importorskip("babel.dates").format_date
    days = [datetime.date(2021, 1, 1) + datetime.timedelta(n) for n in range(365)]
    seen: dict[str, datetime.date] = {}
    for locale, width in dates.formats():
        for day in days:
            assert seen.setdefault(format_date(day, width, locale=locale), day) == day
    assert len({str(locale) for locale, _ in dates.formats()}) > 60


def test_dates_in_many_languages_need_babel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", Mock(return_value=None))
    with pytest.raises(MissingPackageError, match=r"babel is not installed.*seq2seq-zoo\[dates\]"):
        dates.multilingual("test", 3)


def test_a_recipe_may_have_another_kind_of_tokenizer_for_the_target() -> None:
    from zoo.data.corpus import learn_tokenizers
    from zoo.registry.declarations import Dataset

    data = Dataset("g2p", "", lambda *_: [Pair("aaron", "EH1 R AH0 N"), Pair("hi", "HH AY1")])
    recipe = Recipe(tokenizer="char", target_tokenizer="word")
    source, target = learn_tokenizers(data, None, recipe)
    assert [source.token(i) for i in source.encode(["hi"])[0]] == ["▁", "h", "i"]
    assert [target.token(i) for i in target.encode(["HH AY1"])[0]] == ["▁HH", "▁AY1"]
    assert target.decode(target.encode(["EH1 R AH0 N"])[0]) == "EH1 R AH0 N"
    one, other = learn_tokenizers(data, None, recipe.model_copy(update={"shared_vocab": True}))
    assert one is other
    with pytest.raises(ConfigError, match="bpe_dropout"):
        Recipe.parse({"target_tokenizer": "word", "bpe_dropout": 0.1}, "recipe")


def edits(one: list[str], other: list[str]) -> int:
    """The plain recurrence of the edit distance."""
    row = list(range(len(other) + 1))
    for i, item in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, expected in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (item != expected))
    return row[-1]


def test_error_rates_of_pronunciations_against_brute_force(registry: Registry) -> None:
    draw = random.Random(7)
    phones = ["AH0", "AH1", "B", "T", "IY1", "IY2"]
    heard = [" ".join(draw.choices(phones, k=draw.randrange(1, 6))) for _ in range(80)]
    listed = [[" ".join(draw.choices(phones, k=draw.randrange(1, 6)))
               for _ in range(draw.randrange(1, 4))] for _ in heard]  # fmt: skip
    listed[0] = ["T", heard[0]]
    names = find_dataset(registry, "g2p-en").metrics
    scores = score(heard, listed, make_metrics(registry.metrics, names=names)).by_name
    assert list(scores) == list(names)
    for stress in (True, False):
        wrong = distance = length = 0
        for text, pronunciations in zip(heard, listed, strict=True):
            one, *others = (
                (each if stress else each.translate(str.maketrans("", "", "012"))).split()
                for each in (text, *pronunciations)
            )
            wrong += one not in others
            nearest = min(others, key=lambda other: (edits(one, other), -len(other)))
            distance, length = distance + edits(one, nearest), length + len(nearest)
        suffix = "" if stress else "_without_stress"
        assert scores[f"word_error_rate{suffix}"].value == pytest.approx(100 * wrong / len(heard))
        rate = scores[f"phone_error_rate{suffix}"]
        assert rate.value == pytest.approx(100 * distance / length)
        assert f"stress:{'yes' if stress else 'no'}" in rate.signature
    assert not set(make_metrics(registry.metrics)) & set(names), "they are not for translations"
    lowered = [text.lower() for text in heard]
    using = make_metrics(registry.metrics, names=names, lowercase=True)
    again = score(lowered, listed, using).by_name
    assert [again[n].value for n in names] == [scores[n].value for n in names]


def test_references_of_one_source_are_scored_together(registry: Registry, corpora: Path) -> None:
    dataset = find_dataset(registry, "tatoeba-en-fr-76k")
    pairs = dataset.load("test")
    items = items_to_score(pairs, dataset.several_references)
    assert [item.source for item in items] == list(dict.fromkeys(p.source for p in pairs))
    assert {(i.source, r) for i in items for r in i.references} == set(pairs)
    assert [i.references for i in items_to_score(pairs, False)] == [(p.target,) for p in pairs]
