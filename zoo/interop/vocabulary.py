"""Foreign vocabularies: the order of their entries, and tokenizers of words for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from zoo.data.foreign_engines import SentencePiece, Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer
from zoo.data.pieces import PreparedPieces, restrict
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.data.words import Words, parse_codes
from zoo.errors import ZooError
from zoo.files import TEXT_LIMIT
from zoo.interop.reasons import Reasons
from zoo.interop.source import Source


@dataclass(frozen=True)
class Entries:
    """A vocabulary in the order of the zoo.

    Attributes:
        tokens: the text of each entry, by its id here; ids 0 to 3 are the special tokens.
        rows: the id of each entry in the foreign vocabulary.
    """

    tokens: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    def foreign_size(self) -> int:
        """The number of entries of the foreign vocabulary."""
        return max(self.rows) + 1

    def reorder(self, weight: Tensor, begin: int | None = None) -> Callable[[], Tensor]:
        """Return what makes the rows of an embedding or output layer in this order, (V, …).

        `begin` is the foreign id whose row the begin token gets, if not its own.
        """
        rows = list(self.rows)
        if begin is not None:
            rows[1] = begin
        return partial(weight.__getitem__, rows)


def entries(
    tokens: Sequence[str],
    specials: tuple[int, int | None, int | None, int],
    what: str,
    reasons: Reasons,
) -> Entries:
    """Return a vocabulary with its special tokens first.

    Args:
        tokens: every entry's text, by its foreign id.
        specials: the foreign ids of padding, begin, end and unknown; None for those that a source
            lacks, which get the row of padding.
        what: the vocabulary's name in reasons.
        reasons: gets entries that occur twice, and special tokens that do not exist.
    """
    size, present = len(tokens), [i for i in specials if i is not None]
    if len(set(present)) < len(present) or not all(0 <= i < size for i in present):
        reasons.add(f"{what} has no four special tokens at {', '.join(map(str, specials))}")
        return Entries(tuple(SPECIALS), (0, 0, 0, 0))
    rest = [i for i in range(size) if i not in specials]
    ordered = [*SPECIALS, *(tokens[i] for i in rest)]
    twice = [token for token, count in Counter(ordered).items() if count > 1]
    if twice:
        more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        reasons.add(f"{what} has {', '.join(map(repr, twice[:3]))}{more} twice")
        unique = [f"{token}#{i}" for i, token in enumerate(ordered)]  # so that the import goes on
        ordered = [*SPECIALS, *unique[len(SPECIALS) :]]
    rows = (specials[0] if i is None else i for i in specials)
    return Entries(tuple(ordered), (*rows, *rest))


def word_tokenizer(entries: Entries, control: Sequence[int] = (), **values: Any) -> Tokenizer:
    """Return a tokenizer of words or of byte-pair parts; `values` are those of `Words`."""
    vocabulary = Vocabulary(entries.tokens, frozenset(control))
    return ForeignTokenizer(Words(vocabulary, **values), vocabulary)


def sentencepiece_tokenizer(
    source: Source, name: str, entries: Entries, steps: Sequence[str] = (), known: bool = False
) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model, whose pieces are looked up by their text.

    Args:
        source: the files.
        name: the model's file.
        entries: the vocabulary.
        steps: what is done to a text first, names of `zoo.data.words.STEPS`.
        known: whether text is cut into pieces of the vocabulary only.
    """
    vocabulary = Vocabulary(entries.tokens)
    model = source.bytes(name, TEXT_LIMIT)
    if known:
        model = restrict(model, entries.tokens[len(SPECIALS) :], name)
    if not steps:
        return ForeignTokenizer(SentencePiece(model, vocabulary, name), vocabulary)
    return ForeignTokenizer(PreparedPieces(model, vocabulary, steps, name), vocabulary)


def codes_of(source: Source, name: str, reasons: Reasons) -> dict[str, Any]:
    """Return the values of `Words` for a file of byte-pair codes.

    Raises:
        ZooError: there is no such file, or it is no text.
    """
    text = source.text(name)
    try:
        merges, old = parse_codes(text, name)
    except ZooError as error:
        fault = f"{error.what}: {error.why}"
        if fault not in reasons.all:  # once, if both sides have this file
            reasons.add(fault)
        return {}
    return {"merges": merges, "old": old}


def both_sides(files: str) -> tuple[str, str]:
    """Return the files of source and target that an option names: one for both, or two."""
    source, _, target = files.partition(",")
    return source, target or source
