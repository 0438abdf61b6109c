"""Read what a SentencePiece model file says: pieces, scores and the normalization table.

The file is a message of protocol buffers, of which four fields matter.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zoo.interop import Reasons, read_fields

LIMIT = 200_000_000
"""The largest size of a model in bytes."""

UNIGRAM = 1
"""The model type of unigram language models."""


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""What a piece may stand for."""


class Piece(NamedTuple):
    """A piece, its log probability, and what it stands for."""

    text: str
    score: float
    kind: int


@dataclass
class Model:
    """A SentencePiece model: its pieces by id, and the table of its normalizer."""

    pieces: list[Piece] = field(default_factory=list)
    charsmap: bytes = b""
    unknown: int = -1


def read_model(file: Path, reasons: Reasons) -> Model:
    """Return a unigram model; what is wrong with it, or not supported, becomes a reason."""
    model = Model()
    if file.stat().st_size > LIMIT:
        reasons.add(f"{file.name} has more than {LIMIT:,} bytes")
        return model
    try:
        for number, value, _ in read_fields(file.read_bytes()):
            if number == 1:
                model.pieces.append(_piece(_values(_bytes(value))))
            elif number == 2:
                kind = _values(_bytes(value)).get(3, UNIGRAM)
                reasons.check(kind == UNIGRAM, f"{file.name} is not a unigram model")
            elif number == 3:
                _normalizer(model, _values(_bytes(value)), file.name, reasons)
    except (ValueError, struct.error) as error:
        reasons.add(f"{file.name} is not a SentencePiece model: {error}")
        return model
    unknown = [id for id, piece in enumerate(model.pieces) if piece.kind == UNKNOWN]
    if len(unknown) != 1:
        reasons.add(f"{file.name} has {len(unknown)} unknown pieces, not one")
    model.unknown = unknown[0] if unknown else -1
    return model


def _normalizer(model: Model, given: dict[int, int | bytes], name: str, reasons: Reasons) -> None:
    """Take the table, and add a reason for a rule that is not T5's."""
    model.charsmap = _bytes(given.get(2, b""))
    for number, rule in ((3, "add_dummy_prefix"), (4, "remove_extra_whitespaces"),
                         (5, "escape_whitespaces")):  # fmt: skip
        reasons.check(given.get(number, 1) == 1, f"{name} does not {rule.replace('_', ' ')}")


def _piece(given: dict[int, int | bytes]) -> Piece:
    """Return a piece from its fields: text, score and kind."""
    (score,) = struct.unpack("<f", _bytes(given.get(2, bytes(4))))
    if not math.isfinite(score):
        raise ValueError("a score is not finite")
    kind = given.get(3, NORMAL)
    if not isinstance(kind, int):
        raise ValueError("a kind of piece is not a number")
    return Piece(_bytes(given.get(1, b"")).decode("utf-8"), score, kind)


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes belong")
    return value


def _values(message: bytes) -> dict[int, int | bytes]:
    """Return the last value of each field."""
    return {number: value for number, value, _ in read_fields(message)}
