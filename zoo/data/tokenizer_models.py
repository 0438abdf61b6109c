"""What the vocabulary models of a `tokenizer.json` may contain: see `zoo.data.tokenizer_check`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from zoo.data.text_tokenizer import TOKEN_LIMIT

Checked = tuple[dict[str, int], list[str]]
"""The vocabulary, ids by token, and what is refused."""


def _vocabulary(model: Mapping[str, Any]) -> Checked:
    """Check a vocabulary that is an object of ids, its unknown token, and what marks subwords."""
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not vocabulary:
        return {}, ["vocab must be an object of ids"]
    if not all(type(id) is int for id in vocabulary.values()):
        return {}, ["vocab must be an object of ids"]
    if max(map(len, vocabulary)) > TOKEN_LIMIT:
        return {}, [f"a token has over {TOKEN_LIMIT:,} characters"]
    faults = []
    unknown = model.get("unk_token")
    if unknown is not None and (type(unknown) is not str or unknown not in vocabulary):
        faults.append("unk_token is not in the vocabulary")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        mark = model.get(key)
        if mark is not None and (type(mark) is not str or len(mark) > 16):
            faults.append(f"{key} must be text of up to 16 characters")
    return vocabulary, faults


def word_level(model: Mapping[str, Any]) -> Checked:
    """Check a vocabulary of whole words."""
    vocabulary, faults = _vocabulary(model)
    if not faults and model.get("unk_token") is None:
        faults.append("unk_token is missing")
    return vocabulary, faults


def word_piece(model: Mapping[str, Any]) -> Checked:
    """Check subwords of the longest match first."""
    vocabulary, faults = word_level(model)
    longest = model.get("max_input_chars_per_word", 100)
    if type(longest) is not int or not 1 <= longest <= TOKEN_LIMIT:
        faults.append(f"max_input_chars_per_word must be from 1 to {TOKEN_LIMIT:,}")
    return vocabulary, faults


def bpe(model: Mapping[str, Any]) -> Checked:
    """Check byte-pair merges: every part and every result must be a token."""
    vocabulary, faults = _vocabulary(model)
    if model.get("dropout") not in (None, 0):
        faults.append("dropout must be null: the same text always has the same tokens")
    merges = model.get("merges", [])
    if not isinstance(merges, list):
        return vocabulary, [*faults, "merges must be a list"]
    prefix = model.get("continuing_subword_prefix") or ""
    if faults:
        return vocabulary, faults
    for merge in merges:
        parts = merge.split(" ") if type(merge) is str else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(type(p) is str for p in parts):
            return vocabulary, ["a merge must have two parts"]
        one, other = parts
        if not other.startswith(prefix):
            return vocabulary, [f"the merge of {one[:40]!r} and {other[:40]!r} lacks the prefix"]
        if not {one, other, one + other[len(prefix) :]} <= vocabulary.keys():
            return vocabulary, [f"the merge of {one[:40]!r} and {other[:40]!r} is not of tokens"]
    return vocabulary, []


def unigram(model: Mapping[str, Any]) -> Checked:
    """Check pieces with their log probabilities."""
    pieces = model.get("vocab")
    if not isinstance(pieces, list) or not pieces:
        return {}, ["vocab must be a list of pieces"]
    vocabulary: dict[str, int] = {}
    for id, piece in enumerate(pieces):
        if not isinstance(piece, list) or len(piece) != 2 or type(piece[0]) is not str:
            return {}, ["a piece must be [token, log probability]"]
        token, score = piece
        if type(score) not in (int, float) or not math.isfinite(score) or abs(score) > 1e12:
            return {}, [f"the log probability of {token[:40]!r} must be finite"]
        if not 1 <= len(token) <= TOKEN_LIMIT:
            return {}, [f"a token must have 1 to {TOKEN_LIMIT:,} characters"]
        if vocabulary.setdefault(token, id) != id:
            return {}, [f"{token[:40]!r} is there twice"]
    unknown = model.get("unk_id")
    if unknown is None and model.get("byte_fallback") is True:
        missing = [byte for byte in range(256) if f"<0x{byte:02X}>" not in vocabulary]
        return vocabulary, ["bytes are missing, and there is no unk_id"] if missing else []
    if type(unknown) is not int or not 0 <= unknown < len(vocabulary):
        return {}, ["unk_id must be the id of a piece"]
    return vocabulary, []


MODELS: dict[str, Callable[[Mapping[str, Any]], Checked]] = {
    "WordLevel": word_level,
    "WordPiece": word_piece,
    "BPE": bpe,
    "Unigram": unigram,
}
"""The accepted models, each with its check."""
