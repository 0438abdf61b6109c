"""Vocabularies without `tokenizer.json`, as the slow tokenizers of transformers have them."""

from __future__ import annotations

from typing import Any

from zoo.interop import piece_names
from zoo_transformer.formats.tokenizer_files import MODEL_LIMIT
from zoo_transformer.formats.transformers_folder import TOKENIZER, VOCABULARY_LIMIT, Folder
from zoo_transformer.formats.vocabulary import inverse

VOCABULARY, MERGES = "vocab.json", "merges.txt"
BART_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def byte_level_pipeline(folder: Folder) -> dict[str, Any]:
    """Return the pipeline of `vocab.json` and `merges.txt`: byte-pair codes of bytes (Bart, GPT-2).

    The first line of `merges.txt` is its version, and what follows the last line break is ignored;
    of equal lines the last one counts.
    """
    vocabulary = folder.source.json(VOCABULARY, VOCABULARY_LIMIT)
    inverse(vocabulary, VOCABULARY, folder.reasons)
    folder.reasons.check(
        not folder.tokenizer.get("add_prefix_space"),
        f"add_prefix_space in {TOKENIZER} needs tokenizer.json",
    )
    text = folder.source.text(MERGES, VOCABULARY_LIMIT)
    pairs: dict[tuple[str, str], None] = {}
    for line in text.replace("\r\n", "\n").split("\n")[1:-1]:
        pair = line.split()
        if len(pair) == 2:
            pairs.pop((pair[0], pair[1]), None)
            pairs[pair[0], pair[1]] = None
    unknown = [part for pair in pairs for part in (*pair, "".join(pair)) if part not in vocabulary]
    if unknown:
        folder.reasons.add(f"{MERGES} has {unknown[0][:40]!r}, which {VOCABULARY} lacks")
    folder.reasons.raise_if_any()
    added = [
        {"id": vocabulary[token], "content": token, "special": True, "single_word": False,
         "lstrip": token == "<mask>", "rstrip": False, "normalized": False}
        for token in BART_SPECIALS
        if token in vocabulary
    ]  # fmt: skip
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                          "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": False,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "byte_fallback": False, "vocab": vocabulary, "merges": [*map(list, pairs)]},
    }  # fmt: skip


def fairseq_names(folder: Folder, model: str) -> dict[int, str]:
    """Return the texts of fairseq's ids: `<s>`, `<pad>`, `</s>`, `<unk>`, then the pieces.

    The first three pieces are special tokens themselves; the tokens after all pieces are not among
    these texts.
    """
    pieces = piece_names(folder.source.bytes(model, MODEL_LIMIT), model)
    first = ("<s>", "<pad>", "</s>", "<unk>")
    folder.reasons.check(
        pieces[:3] == ["<unk>", "<s>", "</s>"],
        f"{model} begins with {', '.join(pieces[:3])[:60]}, not <unk>, <s>, </s>",
    )
    return {**dict(enumerate(first)), **dict(enumerate(pieces[3:], len(first)))}


def pegasus_names(folder: Folder, model: str) -> dict[int, str]:
    """Return the texts of Pegasus' ids: those of special tokens, then of all pieces.

    `offset` in `tokenizer_config.json` is how many ids precede the pieces, 103 by default.
    """
    offset = folder.tokenizer.get("offset", 103)
    if type(offset) is not int or not 2 <= offset <= 10_000:
        folder.reasons.add(f"offset in {TOKENIZER} is {str(offset)[:40]}")
        offset = 103
    names = {0: "<pad>", 1: "</s>", 2: "<mask_1>", 3: "<mask_2>"}
    names |= {i: f"<unk_{i - 2}>" for i in range(4, offset + 2)}
    pieces = piece_names(folder.source.bytes(model, MODEL_LIMIT), model)
    for number, piece in enumerate(pieces, offset):
        if number >= offset + 2:  # the special tokens <pad> and </s> come first
            names[number] = piece
    return names
