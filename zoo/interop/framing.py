"""The tokens that a pipeline of the `tokenizers` library puts around a text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from zoo.data.text_tokenizer import SPECIALS
from zoo.interop.reasons import Reasons

GENERIC = (
    "PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend", "PythonBackend"
)  # fmt: skip
"""Classes of tokenizers that frame a text as `tokenizer.json` says; others do as they are.

A tuple, because `tokenizer_class` may be of any type in a file, and a set hashes what it looks for.
"""

SAVE_TOKENIZER = "Save its tokenizer there too: `tokenizer.save_pretrained(FOLDER)`"
"""What to do if a folder of transformers has only a network."""


class Frame(NamedTuple):
    """The ids before a text, and those after it."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def stated_frame(options: Mapping[str, Any], content: Mapping[str, Any]) -> Frame | None:
    """Return what surrounds a text by a `tokenizer.json`, if a generic class reads it.

    Args:
        options: the `tokenizer_config.json`, which names the class.
        content: the `tokenizer.json`.

    Returns:
        The frame; None if another class decides.

    Raises:
        ValueError: it is of a kind that is not known.
    """
    if options.get("tokenizer_class") not in GENERIC:
        return None
    return _frame(content.get("post_processor"))


def checked_frame(
    options: Mapping[str, Any], content: Mapping[str, Any], reasons: Reasons
) -> Frame | None:
    """Return what `stated_frame` does; one that is not known is a reason, and None."""
    try:
        return stated_frame(options, content)
    except ValueError as error:
        reasons.add(f"tokenizer.json: {error}")
        return None


def split_special(content: Mapping[str, Any], keep: Collection[int] = ()) -> dict[str, Any]:
    """Return a `tokenizer.json` that reads special tokens as text (`split_special_tokens`).

    Args:
        content: a `tokenizer.json` that the library can read.
        keep: ids of special tokens that no text becomes anyway.
    """
    vocab, added = content["model"]["vocab"], []
    pieces = {piece if isinstance(piece, str) else piece[0] for piece in vocab}
    for token in content.get("added_tokens") or ():
        if token["special"] and token["id"] not in keep and token["content"] not in SPECIALS:
            if token["content"] in pieces:
                continue
            token = {**token, "content": f"\0{token['id']}\0"}  # in its order, but in no text
        added.append(token)
    return {**content, "added_tokens": added}


def _frame(given: Any) -> Frame:
    """Return the frame of a post-processor."""
    kind = given.get("type") if isinstance(given, dict) else given
    try:
        if kind is None or kind == "ByteLevel":  # it changes offsets alone
            return Frame()
        if kind in ("BertProcessing", "RobertaProcessing"):
            return Frame((int(given["cls"][1]),), (int(given["sep"][1]),))
        if kind == "Sequence":
            parts = [_frame(part) for part in given["processors"]]
            real = [part for part in parts if part != Frame()]
            if len(real) < 2:
                return real[0] if real else Frame()
        if kind == "TemplateProcessing":
            ids: list[int | None] = []
            for part in given["single"]:
                if "Sequence" in part:
                    ids.append(None)
                else:
                    ids += given["special_tokens"][part["SpecialToken"]["id"]]["ids"]
            at = ids.index(None)
            before, after = ids[:at], ids[at + 1 :]
            if all(type(i) is int for i in (*before, *after)):
                return Frame(tuple(before), tuple(after))  # type: ignore[arg-type]  # all are int
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
        pass
    raise ValueError(f"the post_processor is of type {str(kind)[:40]!r}, or not a known one of it")
