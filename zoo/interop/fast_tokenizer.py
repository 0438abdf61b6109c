"""The tokenizer files that every Hugging Face folder has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.data.foreign_tokenizer import CLEANED
from zoo.files import write_json

TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "clean_up_tokenization_spaces": False, "split_special_tokens": True,
    "model_max_length": 1024, "padding_side": "right",
    "model_input_names": ["input_ids", "attention_mask"],
}  # fmt: skip
"""As the zoo's tokenizers: the text `</s>` is text."""


def write_fast_tokenizer(
    folder: Path,
    content: Mapping[str, Any],
    names: Sequence[str],
    prefix: Sequence[int],
    end: int,
    settings: Mapping[str, Any],
    clean: bool = False,
    after: Sequence[int] = (),
) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` loads.

    Args:
        folder: an exported folder.
        content: a pipeline of the library tokenizers.
        names: the text of each entry.
        prefix: ids that precede each source.
        end: the id that follows each source.
        settings: further values of `tokenizer_config.json`.
        clean: whether spaces before punctuation are removed from a decoded text.
        after: ids that follow the end token.
    """
    made = {**content, "post_processor": post_processor(prefix, [end, *after], names)}
    if clean:
        steps = [{"type": "Replace", "pattern": {"String": a}, "content": b} for a, b in CLEANED]
        before = [content["decoder"]] if content.get("decoder") else []
        made["decoder"] = {"type": "Sequence", "decoders": [*before, {"type": "Fuse"}, *steps]}
    write_json(folder / "tokenizer.json", made)
    write_json(folder / "tokenizer_config.json", {**TOKENIZER, **settings})


def post_processor(
    prefix: Sequence[int], suffix: Sequence[int], names: Sequence[str]
) -> dict[str, Any]:
    """Return what puts a prefix before each source, and a suffix after it."""
    before, after = (
        [{"SpecialToken": {"id": names[i], "type_id": 0}} for i in ids] for ids in (prefix, suffix)
    )
    text = [{"Sequence": {"id": letter, "type_id": 0}} for letter in "AB"]
    return {
        "type": "TemplateProcessing",
        "single": [*before, text[0], *after],
        "pair": [*before, text[0], *after, text[1], *after],
        "special_tokens": {
            names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in {*prefix, *suffix}
        },
    }
