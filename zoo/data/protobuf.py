"""Messages of protocol buffers, such as SentencePiece models: their fields, one after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple


class Field(NamedTuple):
    """A field of a message.

    number: of the field. value: an integer, or the bytes of a field of fixed or of any length.
    encoded: the whole field as it is in the message.
    """

    number: int
    value: int | bytes
    encoded: bytes


def read_fields(message: bytes) -> Iterator[Field]:
    """Yield the fields of a message.

    Raises:
        ValueError: it is no message, or truncated.
    """
    position = 0
    while position < len(message):
        start = position
        key, position = _read_number(message, position)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == 0:
            value, position = _read_number(message, position)
        else:
            if wire == 2:
                length, position = _read_number(message, position)
            elif wire in (1, 5):
                length = 8 if wire == 1 else 4
            else:
                raise ValueError(f"unknown wire type {wire}")
            if position + length > len(message):
                raise ValueError("it is truncated")
            value = message[position : position + length]
            position += length
        yield Field(number, value, message[start:position])


def write_field(number: int, value: int | float | bytes) -> bytes:
    """Return an encoded field, of a positive integer, of a number of 32 bits or of bytes."""
    if isinstance(value, float):
        return _number(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


def _read_number(message: bytes, position: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("it is truncated")
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number is too long")


def _number(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
