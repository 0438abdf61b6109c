"""The parts of texts that a model reads, each as one source."""

from __future__ import annotations

from typing import Literal, NamedTuple

MAX_SOURCE_LENGTH = 1024
"""Default maximum length of a part in tokens, with its end token."""

Tokens = tuple[list[int], ...]
"""A text's token ids by each checkpoint's source tokenizer, without the end token."""

LongTexts = Literal["refuse", "split"]
"""Whether a text that is too long raises an error or is split into parts."""


class Part(NamedTuple):
    """A text, a sentence of one, or a part of a long one, that is encoded as one source.

    text_index: the index of its text among all; part_index: its index within the text; space: the
    white space before it in the text, if it is not the first; begins, ends: whether it is the
    beginning and the end of its sentence; respelled, capitals: whether it is read in another
    spelling, and whether its translation is written in capitals; lead: what is read before it.
    """

    text_index: int
    part_index: int
    space: str
    text: str
    tokens: Tokens
    begins: bool = True
    ends: bool = True
    respelled: bool = False
    capitals: bool = False
    lead: str = ""

    @property
    def key(self) -> tuple[int, int]:
        """The indices of its text and within it."""
        return self.text_index, self.part_index

    @property
    def random_index(self) -> int:
        """A number that no other part has, from which its random numbers are drawn."""
        return self.text_index + (self.part_index << 40)
