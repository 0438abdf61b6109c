"""Messages of protocol buffers: fields are read back, and torn ones are refused."""

from __future__ import annotations

import pytest

from zoo.data.protobuf import read_fields, write_field

FIELDS: list[tuple[int, int | bytes]] = [(1, b""), (3, 300), (100, b"x" * 200), (2, 2**63), (1, 0)]


def test_fields_are_read_back() -> None:
    message = b"".join(write_field(*field) for field in FIELDS)
    fields = list(read_fields(message))
    assert [(number, value) for number, value, _ in fields] == FIELDS
    assert b"".join(field.encoded for field in fields) == message


def test_fields_of_fixed_length() -> None:
    message = bytes([2 << 3 | 5, 1, 2, 3, 4, 3 << 3 | 1, *range(8)])
    fields = [(number, value) for number, value, _ in read_fields(message)]
    assert fields == [(2, bytes([1, 2, 3, 4])), (3, bytes(range(8)))]


def test_every_truncation_is_refused() -> None:
    message = write_field(1, b"text") + bytes([2 << 3 | 5, 1, 2, 3, 4]) + write_field(3, 300)
    ends = {0, len(write_field(1, b"text")), len(message) - len(write_field(3, 300)), len(message)}
    for size in range(len(message)):
        if size not in ends:
            with pytest.raises(ValueError, match="truncated"):
                list(read_fields(message[:size]))


@pytest.mark.parametrize(
    ("message", "error"),
    [(bytes([1 << 3 | 3]), "unknown wire type 3"), (b"\x80" * 20, "a number is too long"),
     (bytes([1 << 3 | 2, *[255] * 9, 1]), "truncated")],
)  # fmt: skip
def test_what_is_no_message_is_refused(message: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        list(read_fields(message))
