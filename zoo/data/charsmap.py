"""SentencePiece's compiled character maps: a check that the library can follow every entry.

A map is a double-array trie (little-endian, 32 bits per unit, Aoe 1989) and the replacements that
its leaves point to, each ended by a NUL byte.
"""

from __future__ import annotations

import base64
import binascii

import numpy as np
import numpy.typing as npt

SIZE_LIMIT = 4_000_000
"""Most bytes of a map; SentencePiece's own have under 400,000."""

REPLACEMENT_LIMIT = 256
"""Most bytes of a replacement: it is what one character may become."""

DEPTH = 8
"""Most bytes of a key that the library looks up: it reads characters and short clusters."""


def fault_of_charsmap(encoded: object) -> str:
    """Return why a map in base64 is refused; empty if it is sound."""
    if not isinstance(encoded, str) or len(encoded) > SIZE_LIMIT * 4 // 3 + 4:
        return f"it must be base64 of at most {SIZE_LIMIT:,} bytes"
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "it is not base64"
    return fault_of_map(content)


def fault_of_map(content: bytes) -> str:
    """Return why a map is refused; empty if it is sound."""
    if len(content) > SIZE_LIMIT:
        return f"it has over {SIZE_LIMIT:,} bytes"
    size = int.from_bytes(content[:4], "little")
    if size < 1024 or size % 1024 or 4 + size > len(content):
        return "its trie is truncated or has no whole blocks"
    replacements = content[4 + size :]
    try:
        replacements.decode("utf-8")
    except UnicodeDecodeError:
        return "its replacements are not UTF-8"
    if max(map(len, replacements.split(b"\0"))) > REPLACEMENT_LIMIT:
        return f"a replacement has over {REPLACEMENT_LIMIT} bytes"
    units = np.frombuffer(content[4 : 4 + size], dtype="<u4").astype(np.int64)
    return _fault_of_trie(units, np.frombuffer(replacements, dtype=np.uint8))


def growth_of_charsmap(encoded: str) -> int:
    """Return how many times longer a sound map in base64 may make a text."""
    content = base64.b64decode(encoded)
    replacements = content[4 + int.from_bytes(content[:4], "little") :]
    return max(1, *map(len, replacements.decode("utf-8").split("\0")))


def _fault_of_trie(units: npt.NDArray[np.int64], replacements: npt.NDArray[np.uint8]) -> str:
    """Return what is wrong with a trie's reachable units.

    A node is the index `p` of its block: its child by byte c is the unit p ^ c if that unit's label
    is c, and its value is the unit p itself.
    """
    indices = np.arange(len(units))
    labels = units & 0x800000FF  # the highest bit marks a value
    parents = indices ^ (labels & 0xFF)
    nodes_of = indices ^ ((units >> 10) << ((units & (1 << 9)) >> 6))
    has_value = (units >> 8) & 1 == 1
    # A replacement begins with a whole character.
    begins = np.append((replacements & 0xC0) != 0x80, True)
    reached = np.zeros(len(units), dtype=bool)
    new = nodes_of[:1]
    for _ in range(DEPTH):
        if (new >= len(units)).any():
            return "its trie leads out of itself"
        reached[:] = False
        reached[new] = True
        children = reached[parents] & (labels > 0) & (labels < 256)
        new = nodes_of[children]
        values = nodes_of[children & has_value]
        if (values >= len(units)).any():
            return "its trie leads out of itself"
        starts = units[values] & 0x7FFFFFFF
        if (starts > len(replacements)).any() or not begins[starts].all():
            return "a value of its trie is no replacement"
        if not len(new):
            return ""
    return ""
