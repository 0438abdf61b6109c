"""Scores compared with values by hand, the plain recurrence, and the command sacrebleu."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from zoo.data.tokenizer import Tokenizer
from zoo.errors import DataError, UnknownNameError
from zoo.evaluation import metrics
from zoo.evaluation.segment_metrics import ExactMatch, TokenErrorRate, levenshtein

TEXTS = ["the cat sat on the mat today .", "a dog ran far away from home", "Sing a song now please"]
REFERENCES = [
    "on the mat the cat sat today .",
    "a dog ran away from home",
    "sing a song now please",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(REFERENCES, "word", 100)


def test_white_space_around_a_text_is_no_difference() -> None:
    letters = Tokenizer.train(["un chat noir"], "char", 100)
    texts = ["un chat", "un  chat", "un chat noir"]
    references = ["un chat ", "\tun chat", "un chat"]
    assert ExactMatch().corpus_score(texts, [references]).score == pytest.approx(100 / 3)
    rate = TokenErrorRate(letters).corpus_score(texts, [references]).score
    assert rate == pytest.approx(100 * (0 + 1 + 5) / (3 * 8)), "a space, and five letters"


def recurrence(one: Sequence[int], other: Sequence[int]) -> int:
    if not one or not other:
        return len(one) + len(other)
    change = recurrence(one[1:], other[1:]) + (one[0] != other[0])
    return min(change, recurrence(one[1:], other) + 1, recurrence(one, other[1:]) + 1)


def test_levenshtein_equals_the_recurrence() -> None:
    draw = random.Random(1)
    for _ in range(300):
        one, other = ([draw.randrange(3) for _ in range(draw.randrange(7))] for _ in range(2))
        assert levenshtein(one, other) == recurrence(one, other)
    assert levenshtein("a" * 500 + "b", "a" * 499 + "b") == 1  # longer than a machine word


def test_by_hand(tokenizer: Tokenizer) -> None:
    using = metrics.make_metrics(orders=[2, 1], tokenizer=tokenizer)
    scores = metrics.score(TEXTS, REFERENCES, using).by_name
    assert list(scores) == ["bleu", "bleu_1", "bleu_2", "chrf", "ter", "exact_match",
                            "token_error_rate"]  # fmt: skip
    # One phrase is shifted, one word is too many; letter case is ignored. References have 19 words.
    assert scores["ter"].value == pytest.approx(100 * 2 / 19)
    # In the first, three words are moved (three deletions, three insertions); the second has one
    # word too many; in the third, `Sing` is unknown.
    assert scores["token_error_rate"].value == pytest.approx(100 * 8 / 19)
    assert scores["exact_match"].value == 0
    # Words: 8, 6 and 4 of 8, 7 and 5. Pairs: 5, 4 and 3 of 7, 6 and 4. No brevity penalty.
    assert scores["bleu_1"].value == pytest.approx(100 * 18 / 20)
    assert scores["bleu_2"].value == pytest.approx(100 * (18 / 20 * 12 / 17) ** 0.5)
    lowered = metrics.score(TEXTS, REFERENCES, metrics.make_metrics(
        lowercase=True, orders=[1], tokenizer=tokenizer)).by_name  # fmt: skip
    assert lowered["bleu_1"].value == pytest.approx(100 * 19 / 20)
    assert lowered["exact_match"].value == pytest.approx(100 / 3)
    assert lowered["ter"] == scores["ter"]
    for name, score in lowered.items():
        assert "case:lc" in score.signature, name
    assert "order:1" in lowered["bleu_1"].signature


def test_unknown_tokens_and_composed_characters(tokenizer: Tokenizer) -> None:
    rate = {"rate": TokenErrorRate(tokenizer)}
    assert metrics.score(["a zebra"], ["a yak"], rate).by_name["rate"].value == 50
    assert metrics.score(["a zebra"], ["a zebra"], rate).by_name["rate"].value == 50
    assert metrics.score(["a dog"], [""], rate).by_name["rate"].value == 100
    assert metrics.score([""], [""], rate).by_name["rate"].value == 0
    assert metrics.score(["caf\u00e9"], ["cafe\u0301"]).by_name["exact_match"].value == 100


def test_scores_equal_those_of_the_command_sacrebleu(tmp_path: Path) -> None:
    draw = random.Random(2)
    words = ["a", "the", "man", "dog", "runs", "sleeps", "red", "in", "street", "house", ",", "."]
    references = [" ".join(draw.choices(words, k=draw.randrange(3, 12))) for _ in range(60)]
    systems = [
        [" ".join(w for w in line.split() if draw.random() > part) or "a" for line in references]
        for part in (0.1, 0.3)
    ]
    for name, lines in zip(("ref", "one", "other"), (references, *systems), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))

    def sacrebleu(*more: str) -> str:
        command = [sys.executable, "-m", "sacrebleu", "ref", "-m", "bleu", "chrf", "ter", "-w", "6"]
        done = subprocess.run(
            [*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    names = ("bleu", "chrf", "ter")
    scores = metrics.score(systems[0], references, metrics.make_metrics(), resamples=1000).by_name
    expected = json.loads(sacrebleu("-i", "one", "--confidence"))
    for name, row in zip(names, expected, strict=True):
        assert scores[name].value == pytest.approx(row["score"], abs=1e-5)
        assert scores[name].mean == pytest.approx(row["confidence_mean"], abs=1e-5)
        assert scores[name].confidence == pytest.approx(row["confidence_var"], abs=1e-5)
        assert scores[name].signature == row["signature"]
    compared = metrics.compare(systems[0], systems[1], references, metrics.make_metrics())
    table = sacrebleu("-i", "other", "one", "--paired-bs", "--format", "text")
    p_values = re.findall(r"\(p = ([\d.]+)\)", table)
    for name, p_value in zip(names, p_values, strict=True):
        assert compared[name].p_value == pytest.approx(float(p_value), abs=1e-4)
    for name in names:
        assert f"{compared[name].other.value:.6f}" in table
        assert compared[name].other.signature in table


def test_a_system_does_not_differ_from_itself() -> None:
    compared = metrics.compare(TEXTS, TEXTS, REFERENCES, metrics.make_metrics())
    assert {c.p_value for c in compared.values()} == {1.0}


def test_nothing_to_score() -> None:
    with pytest.raises(DataError, match="0 texts and 0 references"):
        metrics.score([], [])
    with pytest.raises(DataError, match="1 texts and 3 references"):
        metrics.compare(TEXTS, ["a"], REFERENCES, metrics.make_metrics())


def test_intervals_where_samples_may_have_empty_references_alone() -> None:
    texts, references = ["a dog", "a man sleeps", "x"], ["", "a man runs", ""]
    scores = metrics.score(texts, references, metrics.make_metrics(), resamples=50).by_name
    assert all(score.confidence is not None for score in scores.values())
    assert scores["ter"].value == pytest.approx(100 * (2 + 1 + 1) / 3)


def test_several_references_equal_those_of_the_command_sacrebleu(tmp_path: Path) -> None:
    """Every text has its own number of references. A repeated one changes neither score."""
    draw = random.Random(5)
    words = ["a", "the", "man", "dog", "runs", "sleeps", "red", "in", "street", "house", ",", "."]
    references = [
        [
            " ".join(draw.choices(words, k=draw.randrange(3, 12)))
            for _ in range(draw.randrange(1, 4))
        ]
        for _ in range(60)
    ]
    texts = [
        " ".join(w for w in draw.choice(each).split() if draw.random() > 0.2) or "a"
        for each in references
    ]
    for number in range(3):
        lines = [each[min(number, len(each) - 1)] for each in references]
        (tmp_path / f"ref{number}").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "one").write_text("".join(f"{line}\n" for line in texts))
    command = [sys.executable, "-m", "sacrebleu", "ref0", "ref1", "ref2", "-i", "one", "-w", "6",
               "-m", "bleu", "chrf"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    scores = metrics.score(texts, references, metrics.make_metrics()).by_name
    for name, row in zip(("bleu", "chrf"), json.loads(done.stdout), strict=True):
        assert scores[name].value == pytest.approx(row["score"], abs=1e-5)
        assert "nrefs:var" in scores[name].signature
    exact = 100 * sum(t in each for t, each in zip(texts, references, strict=True)) / len(texts)
    assert scores["exact_match"].value == pytest.approx(exact)
    assert "nrefs:var" in scores["exact_match"].signature
    compared = metrics.compare(texts, texts[::-1], references, metrics.make_metrics(), resamples=20)
    assert compared["exact_match"].other.value < exact
    with pytest.raises(DataError, match="has no reference"):
        metrics.score(["a"], [[]])


def test_the_best_of_several_references_counts(tokenizer: Tokenizer) -> None:
    """Against a search over all choices of one reference per text."""
    draw = random.Random(6)
    words = ["the", "cat", "sat", "on", "mat", "dog"]
    texts = [" ".join(draw.choices(words, k=3)) for _ in range(40)]
    references = [[" ".join(draw.choices(words, k=draw.randrange(2, 6))) for _ in range(3)]
                  for _ in texts]  # fmt: skip
    rate = {"rate": TokenErrorRate(tokenizer)}
    errors = length = 0
    for text, each in zip(texts, references, strict=True):
        counts = [(levenshtein(text.split(), r.split()), -len(r.split())) for r in each]
        errors, length = errors + min(counts)[0], length - min(counts)[1]
    score = metrics.score(texts, references, rate).by_name["rate"]
    assert score.value == pytest.approx(100 * errors / length)
    assert "nrefs:3" in score.signature


def test_metrics_by_name() -> None:
    named = metrics.make_metrics(names=["exact_match", "bleu"], orders=[2])
    assert list(named) == ["exact_match", "bleu", "bleu_2"]
    with pytest.raises(UnknownNameError, match="did you mean exact_match"):
        metrics.make_metrics(names=["exact_mach"])
