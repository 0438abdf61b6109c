"""Checkpoints read texts as their training sources are: sentences as people type them, or codes."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.training.test_auto import TINY
from zoo.decoding.greedy import greedy
from zoo.decoding.options import Hypothesis
from zoo.errors import DecodingError
from zoo.training import validation
from zoo.translation.translator import Translator

SENTENCES = [(f"The dog sees {n} cats.", f"Der Hund sieht {n} Katzen.") for n in range(40)]
DATES = [(f"{n % 28}/{n % 12}/{1980 + n}", f"{n % 12}.{n % 28}.{1980 + n}") for n in range(40)]
FORMULAS = [("CON"[n % 3] + "CN"[n % 2] + "O" + "CN"[n // 2 % 2] * (n % 5), f"name con {n}")
            for n in range(40)]  # fmt: skip
PROGRAMS = [(f"  if x > {n}:" if n % 3 else f"    return {n},", f"line {n}") for n in range(40)]
DOCUMENTS = [(f"It rains in town {n}. The dog sleeps. It is cold.", f"rain {n}.")
             for n in range(40)]  # fmt: skip


def trained(
    folder: Path, pairs: Iterable[tuple[str, str]], spec: str, tokenizer: str
) -> Translator:
    """A network that is hardly trained on files whose names end as `spec` says."""
    rows = list(pairs)
    for side, name in enumerate(spec.split("-")):
        text = "".join(f"{row[side]}\n" for row in rows)
        (folder / f"a.{name}").write_text(text, encoding="utf-8")
    out = zoo.train("rnnsearch-tiny", f"{folder}/a:{spec}", folder / "out", steps=1,
                    settings={**TINY, "tokenizer": tokenizer})  # fmt: skip
    return zoo.load(out)


@pytest.mark.parametrize(
    ("pairs", "spec", "tokenizer", "whole"),
    [
        (SENTENCES, "en-de", "bpe", False),
        ([*SENTENCES, ("STOP!", "HALT!"), ("1999", "1999")], "en-de", "bpe", False),
        (DATES, "en-de", "char", True),
        (DATES, "us-iso", "char", True),
        (DATES, "source-target", "char", False),
        (FORMULAS, "source-target", "char", True),
        (DOCUMENTS, "en-de", "bpe", True),
        (DOCUMENTS, "source-target", "bpe", False),
        (PROGRAMS, "source-target", "char", True),
    ],
    ids=["sentences", "few others", "dates", "other codes", "no languages", "formulas", "documents",
         "not split in any case", "programs"],
)  # fmt: skip
def test_training_shows_how_texts_are_read(
    pairs: list[tuple[str, str]], spec: str, tokenizer: str, whole: bool, tmp_path: Path
) -> None:
    translator = trained(tmp_path, pairs, spec, tokenizer)
    assert translator.checkpoint.about.reads_whole is whole
    if whole:
        for text, _ in pairs[:5]:
            by_default, as_it_is = (
                translator.translate(text, details=True, split=split, max_length=20)
                for split in (True, False)
            )
            assert by_default.text == as_it_is.text
            assert not by_default.respelled
            assert by_default.copied == ()
            assert by_default.lost_numbers == ()


def test_a_splitter_that_is_named_splits(tmp_path: Path) -> None:
    checkpoint = trained(tmp_path, DOCUMENTS, "en-de", "bpe").checkpoint
    (text, _), *_ = DOCUMENTS
    for whole in (True, False):
        about = replace(checkpoint.about, reads_whole=whole)
        search = Translator(replace(checkpoint, about=about))._search
        by_default, named = (search.reader.splitter(n, search.registry) for n in ("", "sentencex"))
        assert named is not None
        assert len(named(text)) == 3
        assert (by_default is None) is whole


def test_targets_much_longer_than_their_sources_are_not_cut(tmp_path: Path) -> None:
    """By default a translation has at most three times its source's tokens, and 20."""
    rows = [(f"{n} times", " ".join(f"word {k}" for k in range(n))) for n in range(1, 60)]
    about = trained(tmp_path, rows, "source-target", "bpe").checkpoint.about
    assert about.decoding.keys() == {"max_length"}
    assert 120 <= about.decoding["max_length"] <= 200
    (tmp_path / "tuned").mkdir()
    data = tmp_path / "tuned" / "b.tsv"
    data.write_text("".join(f"{a}\t{b} {b}\n" for a, b in rows), encoding="utf-8")
    out = zoo.train(None, str(data), tmp_path / "tuned" / "out", from_=tmp_path / "out", steps=1)
    assert zoo.load(out).checkpoint.about.decoding["max_length"] >= 240


def test_validation_does_not_cut_what_is_not_cut_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int | None] = []

    def recording(*given: Any, **options: Any) -> list[Hypothesis]:
        most.append(options["max_length"])
        return greedy(*given, **options)

    monkeypatch.setattr(validation, "greedy", recording)
    long = [(f"{n} times", " ".join(["word"] * 60)) for n in range(40)]
    for number, rows in enumerate((SENTENCES, long)):
        zoo.train("rnnsearch-tiny", rows, tmp_path / str(number), steps=1,
                  settings={**TINY, "tokenizer": "word"})  # fmt: skip
        expected = None if rows is SENTENCES else 2 * 62 + 10
        assert {*most} == {expected}
        most.clear()


def test_a_text_as_long_as_those_of_training_is_not_to_be_divided(tmp_path: Path) -> None:
    rows = [("word " * 1100 + str(n), f"many {n}") for n in range(5)]
    out = zoo.train("rnnsearch-tiny", rows, tmp_path / "out", steps=1,
                    settings={**TINY, "tokenizer": "word", "max_length": 2000})  # fmt: skip
    translator = zoo.load(out)
    with pytest.raises(DecodingError, match=r"Raise it: sources of training have up to 1,102"):
        translator.translate(rows[0][0])
    assert translator.translate(rows[0][0], max_source_length=2000, max_length=3)


def test_tuning_reads_as_the_new_text_is(tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir()
    (tmp_path / "tuned").mkdir()
    parent = trained(tmp_path / "parent", SENTENCES, "en-de", "char")
    rows = [(f"{source} {source}", target) for source, target in SENTENCES]
    for side, name in enumerate(("en", "de")):
        text = "".join(f"{row[side]}\n" for row in rows)
        (tmp_path / "tuned" / f"a.{name}").write_text(text, encoding="utf-8")
    folder = tmp_path / "parent" / "out"
    out = zoo.train(None, f"{tmp_path}/tuned/a:en-de", tmp_path / "b", from_=folder, steps=1)
    assert not parent.checkpoint.about.reads_whole
    assert zoo.load(out).checkpoint.about.reads_whole
