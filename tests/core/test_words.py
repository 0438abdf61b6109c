"""Tokenizers of words and byte-pair parts, compared with one that applies merge after merge."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from zoo.data.foreign_engines import Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.words import Codes, Words, parse_codes
from zoo.errors import CheckpointError

MERGES = [("l", "o"), ("lo", "w"), ("e", "r</w>"), ("low", "er</w>"), ("n", "e"), ("w", "</w>"),
          ("ne", "w</w>"), ("a", "a"), ("aa", "a"), ("s", "t</w>"), ("e", "st</w>")]  # fmt: skip


def tokenizer(tokens: list[str], **values: object) -> ForeignTokenizer:
    vocabulary = Vocabulary((*SPECIALS, *tokens))
    return ForeignTokenizer(Words(vocabulary, **values), vocabulary)  # type: ignore[arg-type]  # any options


def one_merge_at_a_time(word: str, merges: list[tuple[str, str]], old: bool) -> list[str]:
    """Apply the merges in their order, each everywhere from left to right."""
    parts = [*word, "</w>"] if old else [*word[:-1], f"{word[-1]}</w>"]
    for one, other in merges:
        at = 0
        while at < len(parts) - 1:
            if (parts[at], parts[at + 1]) == (one, other):
                parts[at : at + 2] = [one + other]
            at += 1
    parts = [part for part in parts if part != "</w>"]
    parts[-1] = parts[-1].removesuffix("</w>")
    return [f"{part}@@" for part in parts[:-1]] + parts[-1:]


@pytest.mark.parametrize("old", [False, True])
def test_codes_equal_merging_one_by_one(old: bool) -> None:
    codes, chooser = Codes(MERGES, old, None, "@@"), random.Random(0)
    for _ in range(2000):
        word = "".join(chooser.choices("lowernstaü", k=chooser.randint(2, 9)))
        assert codes.cut(word) == one_merge_at_a_time(word, MERGES, old)
    assert codes.cut("w") == ["w"]


@pytest.mark.parametrize("old", [False, True])
def test_codes_of_any_order_equal_a_simple_search(old: bool) -> None:
    """Also when a merge makes a pair that comes earlier in the list."""
    chooser = random.Random(1)
    for _ in range(300):
        made = ["a", "b", "a</w>", "b</w>", "</w>"]
        merges: list[tuple[str, str]] = []
        for _ in range(12):
            one, other = chooser.choices(made, k=2)
            if "</w>" not in one:
                merges.append((one, other))
                made.append(one + other)
        chooser.shuffle(merges)
        codes = Codes(merges, old, None, "@@")
        word = "".join(chooser.choices("aab", k=chooser.randint(2, 30)))
        parts = [*word, "</w>"] if old else [*word[:-1], f"{word[-1]}</w>"]
        while rank := [codes.ranks[p] for p in itertools.pairwise(parts) if p in codes.ranks]:
            parts = one_everywhere(parts, merges[min(rank)])
        parts[-1:] = [last] if (last := parts[-1].removesuffix("</w>")) else []
        assert codes.cut(word) == [f"{part}@@" for part in parts[:-1]] + parts[-1:]


def one_everywhere(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """Apply one merge from left to right."""
    at = 0
    while at < len(parts) - 1:
        if (parts[at], parts[at + 1]) == pair:
            parts[at : at + 2] = ["".join(pair)]
        at += 1
    return parts


class Counting(dict[tuple[str, str], int]):
    """Merges by pair, whose reads are counted."""

    reads = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self.reads += 1
        return super().__contains__(key)


def test_a_long_word_is_cut_in_steps_in_proportion_to_its_length() -> None:
    letters = "abcdefgh"
    merges = [(a, b) for a in letters for b in letters]
    merges += [(a + b, c) for a in letters for b in letters for c in letters]
    word = "".join(random.Random(0).choices(letters, k=40_000))
    codes = Codes(merges, False, None, "@@")
    codes.ranks = Counting(codes.ranks)
    assert len(codes.cut(word)) < 20_000
    assert codes.ranks.reads < 6 * len(word)


def test_merges_of_any_depth_are_undone() -> None:
    merges = [("a" * length, "a") for length in range(1, 1500)] + [("a" * 1500, "a</w>")]
    made = tokenizer(["a@@"], merges=merges, undo=True)
    assert made.encode(["a" * 1501]) == [[4] * 1500 + [3]]


def test_text_becomes_ids_and_text_again() -> None:
    made = tokenizer(["low@@", "er", "new", "lower", "."], merges=MERGES)
    ids = made.encode(["lower new  .", "\tlower", "x lower", ""])
    assert ids == [[7, 6, 8], [3, 7], [3, 7], []]  # a tab belongs to a word of byte-pair parts
    assert made.decode([4, 5, 6, 8]) == "lower new ."
    assert made.decode([3, 6]) == "⁇ new"


def test_unknown_parts_are_split_again() -> None:
    made = tokenizer(["low@@", "er", "lo@@", "w@@", "e@@", "r"], merges=MERGES, undo=True)
    assert made.encode(["lower"]) == [[4, 5]]
    made = tokenizer(["lo@@", "w@@", "e@@", "r"], merges=MERGES, undo=True)
    assert made.encode(["lower"]) == [[4, 5, 6, 7]]


def test_splits() -> None:
    words = ["a", "b"]
    assert tokenizer(words).encode(["a \u3000 b\na "]) == [[4, 5, 4]]
    assert tokenizer(words, split="space").encode(["a  b", "a\tb", ""]) == [[4, 3, 5], [3], []]
    assert tokenizer([*words, "▁"], split="character").encode(["a b"]) == [[4, 6, 5]]
    assert tokenizer([*words, "▁"], split="character").decode([4, 6, 5]) == "a b"


def test_special_tokens_in_a_text_are_words() -> None:
    assert tokenizer(["a"]).encode(["<s> a </s> <pad>"]) == [[3, 4, 3, 3]]


def test_steps() -> None:
    made = tokenizer(["it's", "no?"], split="space", steps=("joeynmt", "lowercase"))
    assert made.encode([" It\u2019s\u3000\u200bNO ?"]) == [[4, 5]]


@pytest.mark.parametrize("merges", [MERGES, None])
def test_it_is_the_same_after_a_file(merges: list[tuple[str, str]] | None, tmp_path: Path) -> None:
    made = tokenizer(["low@@", "er", "new"], merges=merges, old=True, separator="##", undo=True,
                     steps=("lowercase",), split="space")  # fmt: skip
    (tmp_path / "a.json").write_text(made.to_json(), encoding="utf-8")
    again = load_tokenizer(tmp_path / "a.json")
    assert again.to_json() == made.to_json()
    assert again.encode(["Lower new"]) == made.encode(["Lower new"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('"split": "space"|"split": "eval"', "a value is of another type"),
        ('"steps": []|"steps": ["run"]', "a value is of another type"),
        ('"l o"|"lo"', "'lo' is not a pair"),
        ('"old": false|"old": "no"', "a value is of another type"),
    ],
)
def test_a_faulty_file_is_refused(change: str, message: str, tmp_path: Path) -> None:
    text = tokenizer(["low@@"], merges=MERGES, split="space").to_json()
    one, _, other = change.partition("|")
    assert one in text
    (tmp_path / "a.json").write_text(text.replace(one, other), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path / "a.json")


def test_files_of_codes() -> None:
    pairs = [("a", "b"), ("ab", "c</w>")]
    assert parse_codes("#version: 0.2\na b\nab c</w>\n", "x") == (pairs, False)
    assert parse_codes("a b\n", "x") == ([("a", "b")], True)
    assert parse_codes("a b 12\nab c</w> 7\n", "x") == (pairs, False)
    with pytest.raises(CheckpointError, match="line 2: 'abc'"):
        parse_codes("a b\nabc\n", "x")
    with pytest.raises(CheckpointError, match=r"codes of version 0\.9"):
        parse_codes("#version: 0.9\n", "x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"split": "characters"}, "split is 'characters', not one of whitespace, space, "),
        ({"steps": ["lower"]}, "step 'lower' is not one of joeynmt, lowercase, "),
    ],
)
def test_an_importer_that_names_no_split_or_step_fails_before_a_file_is_written(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tokenizer(["a"], **values)
