"""Tokenizers of projects that split text at spaces, with or without byte-pair codes.

fairseq, JoeyNMT and OpenNMT-py read text as words between spaces; `subword-nmt` splits words
further and marks every part but a word's last with `@@`.
"""

from __future__ import annotations

import heapq
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, get_args

from zoo.data.foreign_engines import Engine, Vocabulary
from zoo.errors import CheckpointError
from zoo.nn.contract import UNKNOWN

Split = Literal["whitespace", "space", "spaces", "character", "parts"]
"""At any whitespace; at each U+0020, so that two in a row enclose an empty word; at any number of
U+0020; between characters; at any whitespace, where the words are byte-pair parts already."""

MOST_CACHED = 100_000
"""The most words whose parts are remembered."""

END = "</w>"
"""What marks the end of a word in byte-pair codes."""

Merges = Sequence[tuple[str, str]]


class Codes:
    """Byte-pair codes of `subword-nmt` (Sennrich et al. 2016).

    Args:
        merges: the merges, the first applied first.
        old: whether the end of a word is a symbol of its own, as in files without a version.
        known: if given, parts that are not among them are split again, by undoing merges.
        separator: what marks every part but a word's last.
    """

    def __init__(
        self, merges: Merges, old: bool, known: frozenset[str] | None, separator: str
    ) -> None:
        self.ranks = {pair: rank for rank, pair in reversed(list(enumerate(merges)))}
        self.parents = {one + other: (one, other) for one, other in self.ranks}
        self.old, self.known, self.separator = old, known, separator
        self.cache: dict[str, list[str]] = {}

    def cut(self, word: str) -> list[str]:
        """Return the parts of a word."""
        parts = self.cache.get(word)
        if parts is None:
            if len(self.cache) >= MOST_CACHED:
                self.cache.clear()
            parts = self.cache[word] = self._cut(word)
        return parts

    def _cut(self, word: str) -> list[str]:
        if len(word) == 1:
            return [word]
        parts = self._merge([*word, END] if self.old else [*word[:-1], word[-1] + END])
        if parts[-1] == END:
            parts.pop()
        else:
            parts[-1] = parts[-1].removesuffix(END)
        if self.known is not None:
            ends = len(parts) - 1
            parts = [s for i, part in enumerate(parts) for s in self._known(part, i == ends)]
        return [part + self.separator for part in parts[:-1]] + parts[-1:]

    def _merge(self, parts: list[str]) -> list[str]:
        """Return the parts after all merges: each time the first that applies, everywhere."""
        count, ranks = len(parts), self.ranks
        # A part that is merged into the one before it leaves a gap: both links skip gaps.
        after, before = [*range(1, count + 1)], [*range(-1, count - 1)]
        pairs = enumerate(itertools.pairwise(parts))
        waiting = [(ranks[pair], at) for at, pair in pairs if pair in ranks]
        heapq.heapify(waiting)
        while waiting:
            # Of one merge, the leftmost pair comes first.
            best, merged = waiting[0][0], []
            while waiting and waiting[0][0] == best:
                at = heapq.heappop(waiting)[1]
                other = after[at]
                # A merge since then may have taken one of the two parts.
                if other < count and ranks.get((parts[at], parts[other])) == best:
                    parts[at] += parts[other]
                    parts[other] = ""
                    after[at] = after[other]
                    if after[other] < count:
                        before[after[other]] = at
                    merged.append(at)
            for at in merged:
                for one in (before[at], at):
                    if one >= 0 and after[one] < count:
                        rank = ranks.get((parts[one], parts[after[one]]))
                        if rank is not None:
                            heapq.heappush(waiting, (rank, one))
        return [part for part in parts if part]

    def _known(self, part: str, last: bool) -> list[str]:
        """Return a part, or its known parts."""
        assert self.known is not None
        known, open_parts = [], [(part, last)]
        while open_parts:
            part, last = open_parts.pop()
            pair = self.parents.get(part + END if last else part)
            if pair is None or (part if last else part + self.separator) in self.known:
                known.append(part)
            else:
                other = pair[1].removesuffix(END) if last else pair[1]
                open_parts += [(other, last), (pair[0], False)]
        return known


def without_extra_spaces(text: str) -> str:
    """Remove spaces as JoeyNMT's option `normalize` does."""
    text = re.sub("[ \u3000]+", " ", text.replace("\u200b", ""))
    for mark in "?!,.:":
        text = text.replace(f" {mark}", mark)
    return text.strip()


def _joeynmt(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = text.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"')
    return without_extra_spaces(text)


STEPS: Mapping[str, Callable[[str], str]] = {
    "joeynmt": _joeynmt,
    "lowercase": str.lower,
    "one-space": lambda text: re.sub(r"[^\S ]", "", text),
    "spaces": lambda text: " ".join(text.split()),
    "strip": str.strip,
}
"""What can be done to a text before it is split."""


class Words(Engine):
    """Words between spaces, or characters, and their byte-pair parts if there are codes.

    Args:
        vocabulary: the ids; a token's text is the word or part itself.
        split: `whitespace`; `space`, each U+0020, so that two in a row enclose an empty word;
            `spaces`, any number of U+0020; `character`, between characters; `parts`, whitespace
            between words that are byte-pair parts already.
        merges: byte-pair codes.
        old: whether the codes are of `subword-nmt` before version 0.2.
        separator: what marks every part but a word's last.
        undo: whether merges that lead to unknown parts are undone.
        steps: of `joeynmt`, `lowercase`, `one-space`, `spaces` and `strip`, applied in this order.

    Raises:
        ValueError: `split` or a step has another name.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        split: Split = "whitespace",
        merges: Merges | None = None,
        old: bool = False,
        separator: str = "@@",
        undo: bool = False,
        steps: Sequence[str] = (),
    ) -> None:
        if split not in get_args(Split):
            raise ValueError(f"split is {split!r}, not one of {', '.join(get_args(Split))}")
        for step in steps:
            if step not in STEPS:
                raise ValueError(f"step {step!r} is not one of {', '.join(STEPS)}")
        self.vocabulary, self.split, self.merges = vocabulary, split, merges
        self.old, self.separator, self.undo, self.steps = old, separator, undo, tuple(steps)
        self.ids = vocabulary.text_ids
        known = frozenset(self.ids) if undo else None
        self.codes = None if merges is None else Codes(merges, old, known, separator)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids."""
        return [[self.ids.get(word, UNKNOWN) for word in self.cut(text)] for text in texts]

    def missing(self, text: str) -> Iterator[str]:
        """Yield the words or parts of a text that the vocabulary lacks; an empty word is none."""
        return (word for word in self.cut(text) if word and word not in self.ids)

    def cut(self, text: str) -> list[str]:
        """Return the words or parts of a text."""
        for step in self.steps:
            text = STEPS[step](text)
        if self.split == "character":
            return list(text.replace(" ", "▁"))
        if self.codes is None:
            if self.split in ("whitespace", "parts") or not text:
                return text.split()
            if self.split == "spaces":
                return [word for word in text.split(" ") if word]
            return text.split(" ")
        words = (word for word in text.strip("\r\n ").split(" ") if word)
        parts = [part for word in words for part in self.codes.cut(word)]
        return parts if self.split == "space" else " ".join(parts).split()

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; ⁇ stands for an unknown token."""
        tokens = ["⁇" if i == UNKNOWN else self.vocabulary.tokens[i] for i in ids]
        if self.split == "character":
            text = "".join(tokens).replace("▁", " ")
        else:
            text = " ".join(tokens)
            if self.codes is not None or self.split == "parts":
                text = f"{text} ".replace(f"{self.separator} ", "").rstrip()
        return without_extra_spaces(text) if "joeynmt" in self.steps else text

    def content(self) -> dict[str, Any]:
        """Return what the constructor needs, for JSON."""
        return {
            "split": self.split,
            "merges": None if self.merges is None else [" ".join(pair) for pair in self.merges],
            "old": self.old,
            "separator": self.separator,
            "undo": self.undo,
            "steps": list(self.steps),
        }

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """Return the engine whose `content` this is.

        Raises:
            CheckpointError: it is invalid.
        """
        lines = content["merges"]
        flags = [content["old"], content["undo"]]
        fine = (
            content["split"] in get_args(Split)
            and (lines is None or all(type(line) is str for line in lines))
            and all(type(flag) is bool for flag in flags)
            and type(content["separator"]) is str
            and all(step in STEPS for step in content["steps"])
        )
        if not fine:
            raise CheckpointError("a tokenizer of words is invalid", "a value is of another type")
        merges = None if lines is None else [pair_of(line) for line in lines]
        return cls(
            vocabulary,
            content["split"],
            merges,
            content["old"],
            content["separator"],
            content["undo"],
            content["steps"],
        )


def pair_of(line: str) -> tuple[str, str]:
    """Return the two parts that a line of byte-pair codes joins.

    Raises:
        CheckpointError: it is not two parts with a space between them.
    """
    one, space, other = line.partition(" ")
    if not (one and space and other) or " " in other:
        raise CheckpointError("byte-pair codes are invalid", f"{line[:60]!r} is not a pair")
    return one, other


def parse_codes(text: str, what: str) -> tuple[list[tuple[str, str]], bool]:
    """Return the merges in a file of `subword-nmt` or fastBPE, and whether they are `old`.

    Raises:
        CheckpointError: a line is not a pair.
    """
    lines = text.rstrip("\n").split("\n")
    old = not lines[0].startswith("#version:")
    if not old:
        version = lines.pop(0).split()[-1]
        old = version.startswith("0.1")
        if not old and not version.startswith("0.2"):
            raise CheckpointError(f"{what} has codes of version {version}", "0.1 and 0.2 are known")
    merges = []
    fast = 0
    for number, line in enumerate(lines, 1):
        items = line.strip("\r\n ").split(" ")
        if len(items) == 3 and items[2].isdigit():  # fastBPE writes how often a pair occurred
            fast += 1
            items.pop()
        if len(items) != 2 or not all(items):
            raise CheckpointError(f"{what} is not a file of codes", f"line {number}: {line[:60]!r}")
        merges.append((items[0], items[1]))
    return merges, old and not fast
