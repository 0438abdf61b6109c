"""Tokenizers of folders of transformers: `tokenizer.json`, or the model from which it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.interop import (
    ForeignTokenizer,
    SentencePiece,
    TokenizersPipeline,
    Vocabulary,
    split_special,
)
from zoo_transformer.formats.transformers_folder import VOCABULARY_LIMIT, Folder
from zoo_transformer.formats.vocabulary import Rows, check_names, codes

PIPELINE = "tokenizer.json"
MODEL_LIMIT = 50_000_000
"""The most bytes of a SentencePiece model."""


@dataclass(frozen=True)
class Framing:
    """What surrounds the tokens of a text, by foreign ids.

    Attributes:
        tags: (code, id) of each language.
        prefix: what precedes each text, if no tag does.
        control: ids of entries that stand for no text.
        tags_last: whether the tag follows the text and an end token.
    """

    tags: tuple[tuple[str, int], ...] = ()
    prefix: tuple[int, ...] = ()
    control: Collection[int] = ()
    tags_last: bool = False


def from_pipeline(
    folder: Folder, content: Mapping[str, Any], rows: Rows, framing: Framing, side: str
) -> ForeignTokenizer:
    """Return the tokenizer of a pipeline, such as that in `tokenizer.json`."""
    names = pipeline_names(content)
    ids = rows.ids()
    check_names(names, len(ids), folder.reasons, PIPELINE)
    _check_prefix(framing, len(ids), folder)
    before = content.get("pre_tokenizer")
    bytewise = isinstance(before, dict) and before.get("type") == "ByteLevel"
    vocabulary = _vocabulary(rows, names, framing, side, _spaced if bytewise else str)
    engine = TokenizersPipeline(content, ids, vocabulary)
    if folder.tokenizer.get("split_special_tokens"):
        content = split_special(content, {*framing.prefix, *(tag for _, tag in framing.tags)})
        engine = TokenizersPipeline(content, ids, vocabulary)
    return ForeignTokenizer(engine, vocabulary)


def from_sentencepiece(
    folder: Folder, file: str, rows: Rows, names: Mapping[int, str], framing: Framing, side: str
) -> ForeignTokenizer:
    """Return the tokenizer of a SentencePiece model, given the texts of the foreign ids."""
    check_names(names, len(rows.ids()), folder.reasons, file)
    _check_prefix(framing, len(rows.ids()), folder)
    vocabulary = _vocabulary(rows, names, framing, side, str)
    model = SentencePiece(folder.source.bytes(file, MODEL_LIMIT), vocabulary, file)
    return ForeignTokenizer(model, vocabulary)


def read_pipeline(folder: Folder) -> dict[str, Any]:
    """Return `tokenizer.json`; what other files change about it is a reason, once."""
    if folder.pipeline is None:
        folder.pipeline = folder.source.json(PIPELINE, VOCABULARY_LIMIT)
        folder.check_pipeline(folder.pipeline, set(pipeline_names(folder.pipeline).values()))
    return folder.pipeline


def pipeline_names(content: Mapping[str, Any]) -> dict[int, str]:
    """Return the texts of a pipeline's entries by their ids; {} if they are no vocabulary."""
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    names: dict[int, str] = {}
    if isinstance(vocabulary, dict):
        names = {i: token for token, i in vocabulary.items() if type(i) is int}
    elif isinstance(vocabulary, list):
        pairs = enumerate(vocabulary)
        names = {i: str(pair[0]) for i, pair in pairs if isinstance(pair, list) and pair}
    added = content.get("added_tokens")
    for entry in added if isinstance(added, list) else []:
        if isinstance(entry, dict) and type(entry.get("id")) is int:
            names[entry["id"]] = str(entry.get("content"))
    return names


def special_ids(content: Mapping[str, Any]) -> frozenset[int]:
    """Return the ids of a pipeline's special tokens."""
    added = content.get("added_tokens")
    entries = added if isinstance(added, list) else []
    return frozenset(
        entry["id"]
        for entry in entries
        if isinstance(entry, dict) and entry.get("special") and type(entry.get("id")) is int
    )


def _check_prefix(framing: Framing, size: int, folder: Folder) -> None:
    for token in framing.prefix:
        wrong = f"texts begin with the token {token} of {size:,}"
        folder.reasons.check(0 <= token < size, wrong)
    folder.reasons.raise_if_any()


def _vocabulary(
    rows: Rows, names: Mapping[int, str], framing: Framing, side: str, spelled: Callable[[str], str]
) -> Vocabulary:
    ids = rows.ids()
    tags = codes(framing.tags, ids)
    taken = {0, 1, 2, 3}
    control = {ids[i] for i in (*framing.control, *framing.prefix) if 0 <= i < len(ids)}
    return Vocabulary(
        tuple(spelled(token) for token in rows.tokens(names)),
        rows.control(names, ()) | (control - taken) | frozenset(tags.values()),
        prefix=tuple(ids[i] for i in framing.prefix),
        tags=tags,
        tags_of="source" if side == "source" else "target",
        tags_last=framing.tags_last,
    )


def _spaced(token: str) -> str:
    """Return a token of a byte-level vocabulary with ▁ for a space."""
    return token.replace("Ġ", "▁")
