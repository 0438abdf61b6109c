"""What a tokenizer is that a plugin brings, and the built-in one of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, ClassVar, Self

from zoo.errors import CheckpointError, ConfigError
from zoo.nn.contract import UNKNOWN

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
"""The special tokens; their ids are 0 to 3 in every vocabulary."""


class TextTokenizer(ABC):
    """A kind of tokenizer that the library `tokenizers` does not have.

    A checkpoint's file holds `tokens` and `content`; `parse` makes the tokenizer of both.

    Attributes:
        tokens: the text of every token, by its id; the first four are `SPECIALS`, and no two are
            equal. A token of white space, with ▁ for a space, counts as blank.
    """

    SPECIALS: ClassVar[tuple[str, ...]] = tuple(SPECIALS)
    tokens: tuple[str, ...]

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn at most `vocab_size` tokens, special ones included.

        Further parameters are options of the recipe's table `tokenizer`.
        """

    @classmethod
    @abstractmethod
    def parse(cls, tokens: tuple[str, ...], content: Mapping[str, Any]) -> Self:
        """Return the tokenizer of a file. It is not trusted: raise ValueError if it is wrong."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return a text's ids, without special tokens but unknown ones."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""

    def content(self) -> Mapping[str, Any]:
        """Return what `parse` needs besides the tokens, as values of JSON."""
        return {}


def written_ids(ids: Iterable[int], size: int) -> list[int]:
    """Return ids without those of padding, begin and end, as Python's own.

    Raises:
        ValueError: one is of no token of a vocabulary of this size.
    """
    plain = [index(i) for i in ids]
    if wrong := [i for i in plain if not 0 <= i < size]:
        raise ValueError(f"no token has id {wrong[0]}: there are {size}")
    return [i for i in plain if i >= UNKNOWN]


TOKEN_LIMIT = 1000
"""The most characters of a token."""


def fault_of_tokens(tokens: Sequence[object]) -> str:
    """Return what is wrong with the tokens of a vocabulary, or an empty string."""
    if list(tokens[: len(SPECIALS)]) != SPECIALS:
        return f"the first must be {', '.join(SPECIALS)}"
    if not all(type(token) is str and 1 <= len(token) <= TOKEN_LIMIT for token in tokens):
        return f"each must be text of 1 to {TOKEN_LIMIT:,} characters"
    return "" if len(set(tokens)) == len(tokens) else "two are equal"


BYTES = 256


class ByteLevel(TextTokenizer):
    """The bytes of UTF-8, one token each: no text is unknown, and every text comes back exactly.

    Bytes that are not UTF-8, which a network may write, become U+FFFD. So do lone surrogates, which
    are no text.
    """

    def __init__(self) -> None:
        self.tokens = (*SPECIALS, *(_name(byte) for byte in range(BYTES)))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Return the tokenizer, which learns nothing.

        Raises:
            ConfigError: `vocab_size` is below its 260 tokens.
        """
        size = len(SPECIALS) + BYTES
        if vocab_size < size:
            raise ConfigError(
                f"no byte vocabulary of {vocab_size:,} entries",
                f"it has {size}",
                "Raise vocab_size",
            )
        return cls()

    @classmethod
    def parse(cls, tokens: tuple[str, ...], content: Mapping[str, Any]) -> Self:
        """Return the tokenizer; tokens and content are always the same.

        Raises:
            CheckpointError: they are others.
        """
        made = cls()
        if tokens != made.tokens or content:
            raise CheckpointError("a tokenizer of bytes has other tokens than the 256 bytes")
        return made

    def encode(self, text: str) -> list[int]:
        """Return an id for each byte."""
        first = len(SPECIALS)
        plain = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return [first + byte for byte in plain.encode()]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of bytes."""
        return bytes(id - len(SPECIALS) for id in ids).decode("utf-8", "replace")


def _name(byte: int) -> str:
    """Return the text of a byte: its character in ASCII, ▁ for a space, else `<0x…>`."""
    character = chr(byte)
    if character == " ":
        return "▁"
    shown = character.isascii() and (character.isprintable() or character.isspace())
    return character if shown else f"<0x{byte:02X}>"
