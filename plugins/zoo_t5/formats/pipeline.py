"""What `tokenizer.json` holds: a unigram model, or byte-pair codes as the zoo's exporter writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.interop import Reasons

TOKENIZER = "tokenizer.json"
SENTINEL = re.compile(r"<extra_id_\d{1,4}>")


@dataclass
class Entries:
    """A vocabulary by its foreign ids, which are the pipeline's too.

    Attributes:
        names: the text of each entry.
        control: ids that stand for no text.
        unknown: the id of the unknown token.
        pipeline: JSON of the `tokenizers` library.
        clean: whether spaces before punctuation are removed from a decoded text.
    """

    names: list[str]
    control: set[int]
    unknown: int
    pipeline: dict[str, Any]
    clean: bool = False


def read_pipeline(content: Mapping[str, Any], generic: bool, reasons: Reasons) -> Entries:
    """Return the vocabulary of a `tokenizer.json`.

    Args:
        content: of the file.
        generic: whether its tokenizer is of no class of its own, and may have byte-pair codes.
        reasons: gets what is wrong.

    Raises:
        ConversionError: it is no vocabulary.
    """
    given, added = content.get("model"), content.get("added_tokens", [])
    model = given if isinstance(given, dict) else {}
    kind, kinds = model.get("type"), ("Unigram", "BPE")[: 1 + generic]
    if kind not in kinds:
        wanted = " or ".join(map(repr, kinds))
        reasons.add(f"its {TOKENIZER} has a model of type {str(kind)[:40]!r}, not {wanted}")
        reasons.raise_if_any()
    pieces = _pieces(model)
    added_fit = isinstance(added, list) and all(
        isinstance(t, dict) and type(t.get("id")) is int and isinstance(t.get("content"), str)
        and isinstance(t.get("special"), bool) for t in added
    )  # fmt: skip
    what = "is not a list of pieces with scores" if kind == "Unigram" else "has gaps in its ids"
    reasons.check(pieces is not None, f"the vocabulary of {TOKENIZER} {what}")
    reasons.check(added_fit, f"the added_tokens of {TOKENIZER} are not tokens with ids")
    if not added_fit:
        reasons.raise_if_any()
    names = pieces or []
    unknown = _unknown(model, names)
    for token in sorted(added, key=lambda token: int(token["id"])):
        id, text = token["id"], token["content"]
        if id == len(names):
            names.append(text)
        elif not 0 <= id < len(names) or names[id] != text:
            reasons.add(f"the added token {text[:40]!r} of {TOKENIZER} has an impossible id {id}")
    which = "unk_id" if kind == "Unigram" else "unk_token"
    reasons.check(unknown is not None, f"the {which} of {TOKENIZER} is not the id of a piece")
    reasons.check(len(set(names)) == len(names), f"{TOKENIZER} has an entry twice")
    reasons.raise_if_any()
    assert unknown is not None
    control = {t["id"] for t in added if t["special"] or SENTINEL.match(t["content"])}
    return Entries(names, control, unknown, {**content, "added_tokens": added})


def _pieces(model: Mapping[str, Any]) -> list[str] | None:
    """Return the texts of a model's entries in the order of their ids; None if they are not so."""
    vocab = model.get("vocab")
    if model.get("type") == "BPE":
        ids = vocab if isinstance(vocab, dict) else {"": -1}
        if not all(type(id) is int for id in ids.values()):
            return None
        ordered = sorted(ids.items(), key=lambda entry: int(entry[1]))
        fit = [id for _, id in ordered] == [*range(len(ordered))]
        return [text for text, _ in ordered] if fit else None
    fit = isinstance(vocab, list) and all(
        isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) and type(p[1]) in (int, float)
        for p in vocab
    )
    return [text for text, _ in vocab] if fit and vocab is not None else None


def _unknown(model: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """Return the id of the unknown token; None if it is not that of a piece."""
    if model.get("type") == "BPE":
        text = model.get("unk_token")
        return names.index(text) if text in names else None
    unknown = model.get("unk_id")
    return unknown if type(unknown) is int and 0 <= unknown < len(names) else None


def hide(model: Mapping[str, Any], hidden: Mapping[int, str]) -> dict[str, Any]:
    """Return a model in which entries have other texts, by their ids."""
    vocab = model["vocab"]
    if isinstance(vocab, list):
        pieces = [[hidden.get(id, text), score] for id, (text, score) in enumerate(vocab)]
        return {**model, "vocab": pieces}
    unknown = hidden.get(vocab.get(model["unk_token"], -1), model["unk_token"])
    texts = {hidden.get(id, text): id for text, id in vocab.items()}
    return {**model, "vocab": texts, "unk_token": unknown}
