"""Tokenizers of T5: unigram pieces of SentencePiece, or bytes, as pipelines of `tokenizers`.

transformers cuts text with such a pipeline too, which `tokenizer.json` holds, or which it makes
from `spiece.model`. One thing differs: the text `</s>`, `<pad>`, `<s>` or `<unk>` is text and never
the special token.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.interop import (
    GENERIC,
    SAVE_TOKENIZER,
    ForeignTokenizer,
    Frame,
    Reasons,
    Source,
    TokenizersPipeline,
    Vocabulary,
    checked_frame,
    split_special,
)
from zoo_t5.formats.pipeline import SENTINEL, TOKENIZER, Entries, hide, read_pipeline
from zoo_t5.formats.sentencepiece import BYTE, CONTROL, UNKNOWN, USER_DEFINED, read_model
from zoo_t5.formats.settings import Settings

MODEL, OPTIONS = "spiece.model", "tokenizer_config.json"
ADDED = "added_tokens.json"
TOKENIZER_FILES = (TOKENIZER, MODEL, OPTIONS, ADDED)

BYTES = "bytes"
"""The value of the importer's option `tokenizer`."""

CLASSES = ("T5Tokenizer", "MT5Tokenizer", "ByT5Tokenizer")
"""The classes of transformers that cut and frame texts so, without `Fast` at the end."""

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
TAG = re.compile(r"<2([A-Za-z][A-Za-z0-9_-]{0,30})>")
"""MADLAD-400 chooses the target language by such a token before the source."""

BYTE_TOKENS, SENTINELS_OF_BYTES, SENTINELS = 256, 125, 100
"""Entries of ByT5, and the sentinels that it and T5 add."""


def read_entries(source: Source, settings: Settings, option: str, reasons: Reasons) -> Entries:
    """Return the vocabulary of a folder; what is wrong with it becomes a reason.

    Raises:
        ConversionError: there is no tokenizer.
        CheckpointError: a file is damaged.
    """
    options = source.json(OPTIONS) if source.has(OPTIONS) else {}
    kinds = (options.get("tokenizer_class"), settings.given.get("tokenizer_class"))
    reasons.check(option in ("", BYTES), f"option tokenizer is {option!r}, not {BYTES}")
    named = str(kinds[0] or kinds[1] or CLASSES[0])
    known = named in GENERIC or named.removesuffix("Fast") in CLASSES
    reasons.check(known, f"its tokenizer_class {named[:60]!r} may read otherwise")
    if option == BYTES or any(str(kind).startswith("ByT5") for kind in kinds):
        entries = _bytes(source, settings, options, reasons)
    elif source.has(TOKENIZER):
        content = source.json(TOKENIZER)
        entries = read_pipeline(content, named in GENERIC, reasons)
        _check_frame(options, content, settings, reasons)
    elif source.has(MODEL):
        entries = _model(source, settings, options, reasons)
    else:
        reasons.next = SAVE_TOKENIZER
        reasons.add(f"it has no tokenizer: neither {TOKENIZER} nor {MODEL}")
        reasons.raise_if_any()
    if options.get("split_special_tokens"):
        entries.pipeline = split_special(entries.pipeline)
    entries.clean = options.get("clean_up_tokenization_spaces") is True
    _check_added(source, options, entries, reasons)
    if named not in GENERIC:
        _check_roles(options, settings, entries, reasons)
    size = len(entries.names)
    if size > settings.vocab_size:
        reasons.add(
            f"its tokenizer has {size:,} entries, and vocab_size is {settings.vocab_size:,}"
        )
    if entries.unknown in (settings.padding, settings.end):
        reasons.add("the unknown token is padding or the end token")
    start, silent = settings.start, {settings.padding, entries.unknown, *entries.control}
    if start < size and start not in silent:  # no text would have it any more
        text = entries.names[start][:40]
        reasons.add(f"the decoder starts with {text!r} (id {start}), which is a token of text")
    return entries


def make_tokenizer(entries: Entries, settings: Settings, rows: Sequence[int]) -> ForeignTokenizer:
    """Return the tokenizer, given the foreign id of each entry here."""
    special = {settings.padding, settings.start, settings.end, entries.unknown}
    taken, tokens = set(SPECIALS), list(SPECIALS)
    control = set()
    for id in rows[len(SPECIALS) :]:
        known = id < len(entries.names)
        name = entries.names[id] if known else f"<unused_{id}>"
        name = f"{name}_{id}" if name in taken else name
        if not known or id in entries.control:
            control.add(len(tokens))
        taken.add(name)
        tokens.append(name)
    here = {id: index for index, id in enumerate(rows) if index >= len(SPECIALS)}
    order = (settings.start, settings.padding, settings.end, entries.unknown)
    here |= dict(zip(order, (1, 0, 2, 3), strict=True))
    tags = {
        match[1]: here[id]
        for id, name in enumerate(entries.names)
        if (match := TAG.fullmatch(name)) and id not in special
    }
    control |= set(tags.values())
    vocabulary = Vocabulary(
        tuple(tokens), frozenset(control), (), tags if len(tags) > 1 else {}, "target",
        clean=entries.clean,
    )  # fmt: skip
    pipeline = _without_special_texts(entries, special)
    ids = [here[id] for id in range(len(entries.names))]
    return ForeignTokenizer(TokenizersPipeline(pipeline, ids, vocabulary), vocabulary)


def _without_special_texts(entries: Entries, special: set[int]) -> dict[str, Any]:
    """Return the pipeline in which no text becomes a special token, but a sentinel may."""
    model = entries.pipeline["model"]
    # a start of the decoder may lie beyond the entries, among the rows without text
    kept, hidden = [], {id for id in special if id < len(entries.names)}
    for token in entries.pipeline["added_tokens"]:
        if token["id"] in special or token["content"] in SPECIALS:
            hidden.add(token["id"])
        else:
            kept.append({**token, "special": False})
    model = hide(model, {id: _hidden(id) for id in hidden})
    size = len(model["vocab"])
    kept += [_added(_hidden(id), id, special=True) for id in sorted(hidden) if id >= size]
    kept.sort(key=lambda token: token["id"])
    return {**entries.pipeline, "model": model, "added_tokens": kept}


def _hidden(id: int) -> str:
    """Return a name that no normalized text contains."""
    return f"\0{id}\0"


def _added(content: str, id: int, special: bool = False) -> dict[str, Any]:
    """Return a token that is matched in the text before it is cut, unless it is special."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id, "content": content, **flags, "special": special}


def _model(
    source: Source, settings: Settings, options: Mapping[str, Any], reasons: Reasons
) -> Entries:
    """Return the vocabulary of a SentencePiece model with T5's sentinels."""
    model = read_model(source.path(MODEL), reasons)
    reasons.raise_if_any()
    names = [piece.text for piece in model.pieces]
    added = [
        _added(piece.text, id, special=piece.kind != USER_DEFINED)
        for id, piece in enumerate(model.pieces)
        if piece.kind in (CONTROL, USER_DEFINED, UNKNOWN)
    ]
    wanted = options.get("extra_ids", SENTINELS)
    count = min(wanted if type(wanted) is int else SENTINELS, settings.vocab_size - len(names))
    for number in range(count - 1, -1, -1):
        if f"<extra_id_{number}>" not in names:
            added.append(_added(f"<extra_id_{number}>", len(names)))
            names.append(added[-1]["content"])
    later, special = _added_later(source, options, names, reasons)
    added += later
    by_bytes = any(piece.kind == BYTE for piece in model.pieces)
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    charsmap = base64.b64encode(model.charsmap).decode("ascii")
    normalizer = {"type": "Precompiled", "precompiled_charsmap": charsmap} if charsmap else None
    pipeline: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": {
            "type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]
        },
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]},
        "model": {
            "type": "Unigram",
            "unk_id": model.unknown,
            "vocab": [[piece.text, piece.score] for piece in model.pieces],
            "byte_fallback": by_bytes,
        },
    }  # fmt: skip
    reasons.check(len(set(names)) == len(names), f"{MODEL} has a piece twice")
    control = special | {token["id"] for token in added if token["special"]}
    control |= {id for id, name in enumerate(names) if SENTINEL.fullmatch(name)}
    return Entries(names, control, model.unknown, pipeline)


def _added_later(
    source: Source, options: Mapping[str, Any], names: list[str], reasons: Reasons
) -> tuple[list[dict[str, Any]], set[int]]:
    """Return the tokens that users have added to a model, and the ids of special ones.

    Their texts are appended to `names`. All are found in a text before the model cuts it.
    """
    given: dict[int, dict[str, Any]] = {}
    if source.has(ADDED):
        contents = source.json(ADDED).items()
        given = {id: {"content": content} for content, id in contents if type(id) is int}
    decoder = options.get("added_tokens_decoder")
    for key, flags in decoder.items() if isinstance(decoder, dict) else ():
        if str(key).isdecimal() and isinstance(flags, dict):
            given[int(key)] = flags
    added, special = [], set()
    for id, flags in sorted(given.items()):
        text = flags.get("content")
        if isinstance(text, str) and id == len(names) and text not in names:
            stated = {k: flags.get(k) is True for k in ("single_word", "lstrip", "rstrip")}
            added.append(_added(text, id) | stated)
            names.append(text)
            if flags.get("special") is True:
                special.add(id)
        elif id >= len(names) or names[id].lstrip("▁") != str(text).lstrip("▁"):
            reasons.add(f"the added token {str(text)[:40]!r} has an impossible id {id}")
    return added, special


def _check_added(
    source: Source, options: Mapping[str, Any], entries: Entries, reasons: Reasons
) -> None:
    """Add a reason if the files name added tokens that the vocabulary lacks."""
    decoder = options.get("added_tokens_decoder")
    listed = list(decoder.values()) if isinstance(decoder, dict) else []
    listed += source.json(ADDED) if source.has(ADDED) else ()
    for name in ("additional_special_tokens", "extra_special_tokens"):
        given = options.get(name)
        named = [*given.values()] if isinstance(given, dict) else given
        listed += named if isinstance(named, list) else ()
    texts = [str(each.get("content") if isinstance(each, dict) else each) for each in listed]
    known = {name.lstrip("▁") for name in entries.names}
    lacking = [t for t in texts if t.lstrip("▁") not in known and not SENTINEL.fullmatch(t)]
    if lacking:
        shown = ", ".join(text[:40] for text in lacking[:3])
        reasons.add(f"its vocabulary lacks the added tokens {shown}")


def _check_roles(
    options: Mapping[str, Any], settings: Settings, entries: Entries, reasons: Reasons
) -> None:
    """Add a reason if the network's padding is text, or its end token not the tokenizer's."""
    for role, usual, id in (
        ("pad_token", "<pad>", settings.padding), ("eos_token", "</s>", settings.end)
    ):  # fmt: skip
        given = options.get(role) or usual
        text = str(given.get("content") if isinstance(given, dict) else given)
        other = entries.names[id] if id < len(entries.names) else text
        silent = role == "pad_token" and id in entries.control  # as of MADLAD-400
        reasons.check(
            other == text or silent,
            f"its tokenizer's {role} is {text[:40]!r}, the network's {other!r}",
        )


def _check_frame(
    options: Mapping[str, Any], content: Mapping[str, Any], settings: Settings, reasons: Reasons
) -> None:
    """Add a reason if a text does not end with the end token alone, as T5's do."""
    if checked_frame(options, content, reasons) not in (None, Frame((), (settings.end,))):
        reasons.add(f"{TOKENIZER} does not put the end token, and nothing else, after a text")


def _bytes(
    source: Source, settings: Settings, options: Mapping[str, Any], reasons: Reasons
) -> Entries:
    """Return the vocabulary of ByT5: padding, end, unknown, 256 bytes, sentinels, added tokens."""
    names = ["<pad>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(BYTE_TOKENS))]
    vocab = {(_hidden(id) if id < 3 else name): id for id, name in enumerate(names)}
    wanted = options.get("extra_ids", SENTINELS_OF_BYTES)
    room = max(settings.vocab_size - len(names), 0)
    count = min(wanted if type(wanted) is int else SENTINELS_OF_BYTES, room)
    added = [_added(f"<extra_id_{i}>", len(names) + i) for i in range(count)]
    names += [token["content"] for token in added]
    later, special = _added_later(source, options, names, reasons)
    added += later
    pipeline: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated",
            "invert": False,
        },
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": _hidden(2),
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
            "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": [],
        },
    }  # fmt: skip
    control = special | {id for id, name in enumerate(names) if SENTINEL.fullmatch(name)}
    return Entries(names, control, 2, pipeline)
