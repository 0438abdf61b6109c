"""SentencePiece models for text that is prepared first, or with fewer or more pieces."""

from __future__ import annotations

import base64
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from zoo.data.foreign_engines import SentencePiece, Vocabulary, unreadable_model
from zoo.data.protobuf import read_fields, write_field
from zoo.data.words import STEPS, without_extra_spaces
from zoo.errors import CheckpointError

NORMAL, UNUSED = 1, 5
"""Types of pieces in a model's file: usual ones, and those that are not used."""

WORDS = 3
"""The type of a model whose pieces are whole words."""

FIXED = (2, 3, 4, 6)
"""Types that do not change: unknown, control, user-defined and byte."""


class PreparedPieces(SentencePiece):
    """A model of the `sentencepiece` library, for text that is prepared first.

    Args:
        model: the content of the model's file.
        vocabulary: the ids.
        steps: names of `STEPS`, applied in this order.
        file: the model's file, for errors.
    """

    def __init__(
        self, model: bytes, vocabulary: Vocabulary, steps: Sequence[str], file: str = ""
    ) -> None:
        super().__init__(model, vocabulary, file)
        self.steps = tuple(steps)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids."""
        prepared = []
        for text in texts:
            for step in self.steps:
                text = STEPS[step](text)
            prepared.append(text)
        return super().encode(prepared)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; the step `joeynmt` removes its extra spaces too."""
        text = super().decode(ids)
        return without_extra_spaces(text) if "joeynmt" in self.steps else text

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


def piece_names(model: bytes, file: str = "") -> list[str]:
    """Return the texts of a model's pieces by their ids, without the library.

    Errors name its `file`.

    Raises:
        CheckpointError: it is not such a file.
    """
    names = []
    try:
        for number, piece, _ in read_fields(model):
            if number == 1 and isinstance(piece, bytes):
                names.append(_text(piece).decode())
    except ValueError:
        raise unreadable_model(file, "it is torn") from None
    if not names:
        raise unreadable_model(file, "it has no pieces")
    return names


def restrict(model: bytes, known: Collection[str], file: str = "") -> bytes:
    """Return a model that cuts text into known pieces and single characters only.

    This is what `SentencePieceProcessor.SetVocabulary` does in memory. The file is a message of
    protocol buffers, whose field 1 holds each piece: text in field 1, score in 2, type in 3.
    Errors name it by `file`.

    Raises:
        CheckpointError: it is not such a file.
    """
    wanted, made = {piece.encode() for piece in known}, bytearray()
    try:
        for number, piece, encoded in read_fields(model):
            if number != 1 or not isinstance(piece, bytes):
                made += encoded
                continue
            kinds = [field.value for field in read_fields(piece) if field.number == 3]
            if not kinds or kinds[-1] not in FIXED:
                text = _text(piece)
                used = text in wanted or len(text.decode()) == 1
                kept = b"".join(field.encoded for field in read_fields(piece) if field.number != 3)
                piece = kept + write_field(3, NORMAL if used else UNUSED)
            made += write_field(1, piece)
    except ValueError:
        raise unreadable_model(file, "it is torn") from None
    return bytes(made)


def has_whole_words(model: bytes) -> bool:
    """Return whether a model has words rather than their pieces: field 3 of its field 2."""
    kinds = [
        kind.value
        for number, part, _ in read_fields(model)
        if number == 2 and isinstance(part, bytes)
        for kind in read_fields(part)
        if kind.number == 3
    ]
    return kinds[-1:] == [WORDS]


def with_pieces(model: bytes, texts: Iterable[str]) -> bytes:
    """Return a model with further pieces, as unlikely as its least likely one.

    Raises:
        CheckpointError: it is not such a file.
    """
    known = {*piece_names(model)}
    new = [text for text in texts if text not in known]
    scores = [
        struct.unpack("<f", score.value)[0]
        for number, piece, _ in read_fields(model)
        if number == 1 and isinstance(piece, bytes)
        for score in read_fields(piece)
        if score.number == 2 and isinstance(score.value, bytes)
    ]
    lowest = write_field(2, float(min(scores, default=0.0)))
    return model + b"".join(write_field(1, write_field(1, t.encode()) + lowest) for t in new)


def _text(piece: bytes) -> bytes:
    """Return the text of a piece: field 1."""
    texts = [field.value for field in read_fields(piece) if field.number == 1]
    return texts[-1] if texts and isinstance(texts[-1], bytes) else b""
