"""Folders as the library transformers writes them, and what their networks compute.

The reference is written from that library's documentation with plain operations of torch, one
position table, one head and one sentence at a time; it shares no code with the importers.
"""

from __future__ import annotations

import functools
import io
import json
from pathlib import Path
from typing import Any

import safetensors.torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

from tests.interop.families import SIZES, Rules, random_weights

LINES = (
    "A dog runs over the green grass.",
    "Two men are cooking in a small kitchen, and a child watches them.",
    "Ein Hund läuft über das grüne Gras.",
    "Zwei Männer kochen in einer kleinen Küche.",
)
MARIAN = Rules(pre=False, positions="halves")


@functools.cache
def model_of(lines: tuple[str, ...], size: int = 56) -> bytes:
    """Return a SentencePiece model."""
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=content, vocab_size=size,
        num_threads=1, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return content.getvalue()


def marian(folder: Path, tags: tuple[str, ...] = (), **values: Any) -> dict[str, Tensor]:
    """Write a folder of Marian, ids in another order than the pieces; return its weights."""
    folder.mkdir(parents=True)
    pieces: set[str] = set()
    for side, lines in (("source", LINES[:2]), ("target", LINES[2:])):
        model = model_of(lines)
        (folder / f"{side}.spm").write_bytes(model)
        processor = SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i) for i in range(3, processor.get_piece_size())}
    names = ["</s>", "<unk>", *tags, *sorted(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    config = {
        "model_type": "marian", "vocab_size": len(names), "pad_token_id": len(names) - 1,
        "eos_token_id": 0, "decoder_start_token_id": len(names) - 1, "num_beams": 6,
        "activation_function": "swish", "scale_embedding": True, "max_length": 512,
        "bad_words_ids": [[len(names) - 1]], **SIZES, **values,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"source_lang": "eng", "target_lang": "deu", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    weights = random_weights(config, MARIAN, len(names), len(names))
    weights["model.shared.weight"] = weights.pop("model.encoder.embed_tokens.weight")
    del weights["model.decoder.embed_tokens.weight"], weights[MARIAN.output]
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    return weights
