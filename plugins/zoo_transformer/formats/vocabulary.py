"""Foreign vocabularies in the order of this zoo: padding, begin, end, unknown, then the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.interop import Reasons

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
NEVER = -1e4
"""The output bias of the begin token, which the other project's output lacks: e^−10000 = 0."""


@dataclass(frozen=True)
class SpecialIds:
    """Ids of another project; start is what its decoder reads first."""

    padding: int
    start: int
    end: int
    unknown: int

    def faults(self, size: int) -> list[str]:
        """Return what is wrong with them in a vocabulary of this size."""
        ids = {"padding": self.padding, "start": self.start, "end": self.end,
               "unknown": self.unknown}  # fmt: skip
        wrong = [f"the {name} token has id {i} of {size:,}" for name, i in ids.items()
                 if not 0 <= i < size]  # fmt: skip
        if len({self.padding, self.end, self.unknown}) < 3:
            wrong.append("padding, end and unknown are not three tokens")
        return wrong


@dataclass(frozen=True)
class Rows:
    """The order of a vocabulary: `order[i]` is the other project's id of the zoo's id i.

    Unless `own_begin`, the begin token is an additional one, a copy of a token that may be written.
    """

    order: tuple[int, ...]
    own_begin: bool = False

    @classmethod
    def of(cls, special: SpecialIds, size: int, never: Collection[int] = ()) -> Rows:
        """Return the order of `size` foreign ids, of which those in `never` are never written."""
        taken = {special.padding, special.end, special.unknown}
        if special.start in never and special.start not in taken:
            taken.add(special.start)
        others = (i for i in range(size) if i not in taken)
        first = (special.padding, special.start, special.end, special.unknown)
        return cls((*first, *others), len(taken) == len(first))

    def ids(self) -> list[int]:
        """Return the zoo's id of each foreign id."""
        ids = [0] * (len(self.order) - (not self.own_begin))
        for inner, foreign in enumerate(self.order):
            if inner != 1 or self.own_begin:
                ids[foreign] = inner
        return ids

    def select(self, matrix: Tensor) -> Tensor:
        """Return the rows of a matrix, (foreign ids, …), in the zoo's order."""
        return matrix[torch.tensor(self.order)]

    def bias(self, bias: Tensor | None) -> Tensor:
        """Return the output bias, (entries,); that of a copy makes its probability zero."""
        selected = torch.zeros(len(self.order)) if bias is None else self.select(bias.flatten())
        selected = selected.float().clone()
        if not self.own_begin:
            selected[1] = NEVER
        return selected

    def tokens(self, names: Mapping[int, str]) -> tuple[str, ...]:
        """Return the text of each entry, given the other project's by its id.

        An entry without text, and one whose text is that of a special token of the zoo, gets a name
        that contains its id.
        """
        tokens, used = list(SPECIALS), {*SPECIALS, *names.values()}
        for foreign in self.order[len(SPECIALS) :]:
            name = names.get(foreign, "")
            if not name or name in SPECIALS:
                name = f"<{foreign}>" if f"<{foreign}>" not in used else f"<{foreign}:unused>"
            tokens.append(name)
        return tuple(tokens)

    def control(self, names: Mapping[int, str], also: Collection[int]) -> frozenset[int]:
        """Return the ids of entries that stand for no text: `also`, and those without a name."""
        rest = enumerate(self.order[len(SPECIALS) :], len(SPECIALS))
        return frozenset(
            inner
            for inner, foreign in rest
            if foreign in also or not names.get(foreign) or names[foreign] in SPECIALS
        )


def check_names(names: Mapping[int, str], size: int, reasons: Reasons, what: str) -> None:
    """Check that a vocabulary has no more entries than the embedding has rows, each once."""
    outside = [i for i in names if not 0 <= i < size]
    if outside:
        reasons.add(f"{what} has id {outside[0]}, and the embedding has {size:,} rows")
    reasons.check(len(set(names.values())) == len(names), f"{what} has two ids for one token")


def inverse(vocabulary: Mapping[str, object], what: str, reasons: Reasons) -> dict[int, str]:
    """Return a vocabulary's tokens by id; a value that is no id, or one that is twice, is wrong."""
    names: dict[int, str] = {}
    for token, number in vocabulary.items():
        if type(number) is not int or number in names:
            reasons.add(f"{what} gives {token[:40]!r} the id {str(number)[:40]}")
            break
        names[number] = token
    return names


def codes(tags: Sequence[tuple[str, int]], ids: Sequence[int]) -> dict[str, int]:
    """Return the zoo's id of each language's tag, given (code, foreign id) pairs."""
    return {code: ids[tag] for code, tag in tags if 0 <= tag < len(ids)}
