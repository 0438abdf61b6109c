"""SentencePiece models for text that is prepared first, or with a part of their vocabulary."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from zoo.data.foreign_engines import SentencePiece, Vocabulary
from zoo.data.words import STEPS
from zoo.errors import CheckpointError

NORMAL, UNUSED = 1, 5
"""Types of pieces in a model's file: usual ones, and those that are not used."""

FIXED = (2, 3, 4, 6)
"""Types that do not change: unknown, control, user-defined and byte."""


class PreparedPieces(SentencePiece):
    """A model of the `sentencepiece` library, for text that is prepared first.

    Args:
        model: the content of the model's file.
        vocabulary: the ids.
        steps: names of `STEPS`, applied in this order.
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary, steps: Sequence[str]) -> None:
        super().__init__(model, vocabulary)
        self.steps = tuple(steps)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids."""
        prepared = []
        for text in texts:
            for step in self.steps:
                text = STEPS[step](text)
            prepared.append(text)
        return super().encode(prepared)

    def content(self) -> dict[str, Any]:
        """Return the model in base64, and the steps."""
        return {**super().content(), "steps": list(self.steps)}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """Return the engine whose `content` this is.

        Raises:
            CheckpointError: a step is unknown.
        """
        if not all(step in STEPS for step in content["steps"]):
            raise CheckpointError("a tokenizer is invalid", "it has a step that is not known")
        model = base64.b64decode(content["model"], validate=True)
        return cls(model, vocabulary, content["steps"])


def piece_names(model: bytes) -> list[str]:
    """Return the texts of a model's pieces by their ids, without the library.

    Raises:
        CheckpointError: it is not such a file.
    """
    names = []
    try:
        for number, _, body, end in _fields(model):
            if number == 1 and body is not None:
                piece = model[body:end]
                parts = {n: piece[b:e] for n, _, b, e in _fields(piece) if b is not None}
                names.append(parts.get(1, b"").decode())
    except (IndexError, ValueError):
        raise CheckpointError("a SentencePiece model cannot be read", "it is torn") from None
    if not names:
        raise CheckpointError("a SentencePiece model cannot be read", "it has no pieces")
    return names


def restrict(model: bytes, known: Collection[str]) -> bytes:
    """Return a model that cuts text into known pieces and single characters only.

    This is what `SentencePieceProcessor.SetVocabulary` does in memory. The file is a message of
    protocol buffers, whose field 1 holds each piece: text in field 1, score in 2, type in 3.

    Raises:
        CheckpointError: it is not such a file.
    """
    wanted, made = {piece.encode() for piece in known}, bytearray()
    try:
        for number, start, body, end in _fields(model):
            if number != 1 or body is None:
                made += model[start:end]
                continue
            piece = model[body:end]
            parts = _fields(piece)
            values = {n: piece[s if b is None else b : e] for n, s, b, e in parts}
            kind = values[3][-1] if 3 in values else NORMAL
            if kind not in FIXED:
                text = values.get(1, b"")
                used = text in wanted or len(text.decode()) == 1
                kept = b"".join(piece[s:e] for n, s, _, e in _fields(piece) if n != 3)
                piece = kept + bytes([3 << 3, NORMAL if used else UNUSED])
            made += bytes([1 << 3 | 2]) + _varint(len(piece)) + piece
    except (IndexError, ValueError):
        raise CheckpointError("a SentencePiece model cannot be read", "it is torn") from None
    return bytes(made)


def _fields(message: bytes) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield each field's number, start, start of its bytes if it has a length, and end."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        number, wire = key >> 3, key & 7
        body = None
        if wire == 0:
            _, at = _read_varint(message, at)
        elif wire == 1:
            at += 8
        elif wire == 2:
            size, body = _read_varint(message, at)
            at = body + size
        elif wire == 5:
            at += 4
        else:
            raise ValueError(wire)
        if at > len(message):
            raise IndexError(at)
        yield number, start, body, at


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError(shift)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
