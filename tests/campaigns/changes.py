"""Random changes of valid files: of their bytes, or of the values that their structure holds."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

WORDS = [
    b"null", b"true", b"-1", b"0", b"1e999", b"9" * 30, b"NaN", b'""', b"[]", b"{}", b"[" * 50,
    b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\t", b'"type":"Sequence"', b"..", b"/",
    b"&a *a", b"<<:", b"!!python/object/apply:os.system [ls]", b"(a+)+$", b"65536", b"4294967296",
    "ﷺ".encode(), b'{"Regex":"x*"}', b"file:///", b"@", b"://",
]  # fmt: skip
"""What is inserted into bytes, beside random ones."""

VALUES: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: 1, lambda: -1, lambda: 2**31,
    lambda: 2**63, lambda: 10**30, lambda: 10**300, lambda: 0.5, lambda: 1e308, lambda: 5e-324,
    lambda: float("nan"), lambda: float("inf"), lambda: "", lambda: " ", lambda: "\0",
    lambda: "\ud800", lambda: "a" * 100_000, lambda: "../../a", lambda: "http://127.0.0.1:9/a",
    list, dict, lambda: [[]], lambda: [0] * 2000, lambda: {"": None},
    lambda: json.loads("[" * 200 + "]" * 200), lambda: {"type": "Sequence", "normalizers": []},
    lambda: {str(n): n for n in range(2000)},
]  # fmt: skip
"""What replaces a value of JSON."""

END = 1500
"""Bytes at the beginning and at the end of a file that get half of the changes."""


def changed(valid: bytes, draw: random.Random) -> bytes:
    """Return a file with one to eight changes: where it has a structure, half of them keep that."""
    if draw.random() < 0.5:
        structured = _structured(valid, draw)
        if structured is not None:
            return structured
    return _bytes_changed(valid, draw)


def _bytes_changed(valid: bytes, draw: random.Random) -> bytes:
    content = bytearray(valid)
    ends = draw.random() < 0.5  # structure is at the ends of a file, much of the rest is numbers
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(content) + 1)
        if ends and len(content) > 2 * END:
            at = at % END if draw.random() < 0.5 else len(content) - at % END
        end = min(len(content), at + draw.choice((0, 1, 4, 30)))
        kind = draw.randrange(6)
        if kind == 0:
            content[at:end] = draw.choice(WORDS)
        elif kind == 1:
            content[at:end] = draw.randbytes(draw.choice((1, 2, 8)))
        elif kind == 2:
            content[at:end] = b""
        elif kind == 3 and end > at:
            content[at:end] = content[at:end] * draw.choice((2, 3, 100))
        elif kind == 4:
            other = draw.randrange(len(content) + 1)
            content[at:end] = content[other : other + draw.choice((1, 10, 100))]
        elif content:
            content[at % len(content)] ^= 1 << draw.randrange(8)
    return bytes(content)


def _structured(valid: bytes, draw: random.Random) -> bytes | None:
    """Change a member of a ZIP archive, a header with its length, a JSON text or a line of it."""
    if valid.startswith(b"PK"):
        return _archive_changed(valid, draw)
    length = int.from_bytes(valid[:8], "little")
    if valid[8:9] == b"{" and length <= len(valid) - 8:
        header = _json_changed(valid[8 : 8 + length], draw)
        return header and len(header).to_bytes(8, "little") + header + valid[8 + length :]
    whole = _json_changed(valid, draw)
    if whole is not None:
        return whole
    lines = valid.split(b"\n")
    at = draw.randrange(len(lines))
    line = _json_changed(lines[at], draw)
    return line and b"\n".join([*lines[:at], line, *lines[at + 1 :]])


def _archive_changed(valid: bytes, draw: random.Random) -> bytes:
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(valid)) as old, zipfile.ZipFile(result, "w") as new:
        # Half of the changes are made to the pickle, if there is one, and not to the numbers.
        pickles = [name for name in old.namelist() if name.endswith(".pkl")]
        names = pickles if pickles and draw.random() < 0.5 else old.namelist()
        chosen = draw.choice(names)
        for member in old.infolist():
            content = old.read(member)
            new.writestr(member, changed(content, draw) if member.filename == chosen else content)
    return result.getvalue()


def _json_changed(text: bytes, draw: random.Random) -> bytes | None:
    """Replace, remove, rename or repeat values of a JSON text; None if it is not an object."""
    try:
        value = json.loads(text) if text[:1] in (b"{", b"[") else None
    except ValueError:
        return None
    if not value:
        return None
    for _ in range(draw.choice((1, 1, 2, 4))):
        value = _value_changed(value, draw)
    return json.dumps(value).encode()


def _value_changed(value: Any, draw: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or draw.random() < 0.05:
        return _other(value, draw)
    key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
    kind = draw.randrange(10)
    if kind == 0:
        del value[key]
    elif kind == 1 and isinstance(value, dict):
        name = _bytes_changed(str(key).encode("utf-8", "replace"), draw)
        value[name.decode("utf-8", "replace")] = value[key]
    elif kind == 1 and isinstance(value, list):
        value.insert(draw.randrange(len(value) + 1), value[key])
    elif kind == 2:
        value[key] = _other(value[key], draw)
    elif kind == 3:
        value[key] = draw.choice(list(value.values()) if isinstance(value, dict) else value)
    else:
        value[key] = _value_changed(value[key], draw)
    return value


def _other(value: Any, draw: random.Random) -> Any:
    """Return another value in place of one: one near to it, or any."""
    near: list[Any] = []
    if isinstance(value, str):
        near = [value + " ", value.upper(), value[1:], value * 2, value + "\n", f"{value}\u200b"]
    elif isinstance(value, int):
        near = [value + 1, value - 1, -value, value * 2, float(value), str(value)]
    elif isinstance(value, float):
        near = [-value, value * 1e6, value // 1, str(value)]
    return draw.choice(near) if near and draw.random() < 0.5 else draw.choice(VALUES)()
