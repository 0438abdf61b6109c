"""Folders of transformers, imported and exported again, compared with the originals there.

Run it in an environment with transformers, sentencepiece and torch:

    ZOO_DATA=… python -m tests.campaigns.formats.round_trip_peer

For each format it makes models of random weights with tokenizers trained on the texts, as
`transformers_peer.py` does; both folders are loaded by `AutoModelForSeq2SeqLM` and `AutoTokenizer`.
A `tokenizer.json` gets a special token `<ent>`, as users add them, which some texts have.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import zoo
from tests.campaigns.formats import t5
from tests.campaigns.formats.peers import text_of
from tests.campaigns.formats.transformers_peer import FORMATS, SIZES
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

ADDED = ["a <ent> dog", "<mask> runs", "<ent><mask>, a<ent>", "two  <mask>  dogs"]


def add_token(folder: Path) -> None:
    """Add a special token to a folder whose tokenizer is a pipeline."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tied = config.get("tie_word_embeddings", True)  # the library resizes one matrix of several
    if not tied or not (folder / "tokenizer.json").is_file():
        return
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<ent>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    if len(tokenizer) > config["vocab_size"]:
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        model.resize_token_embeddings(len(tokenizer))
        model.save_pretrained(folder)


def compared(folder: Path, texts: list[str]) -> str:
    """Import and export a folder, and return the cells of its row."""
    add_token(folder)
    imported, exported = (folder.with_name(f"{folder.name}.{end}") for end in ("zoo", "again"))
    import_checkpoint(folder, imported, default_registry())
    given = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    zoo.export(imported, "huggingface", exported, precision=given.get("dtype"))
    models = [AutoModelForSeq2SeqLM.from_pretrained(f).eval() for f in (folder, exported)]
    tokenizers = [AutoTokenizer.from_pretrained(f) for f in (folder, exported)]
    ids = [tokenizer(texts).input_ids for tokenizer in tokenizers]
    wrong = sum(a != b for a, b in zip(*ids, strict=True))
    short = [row for row in ids[0] if 2 < len(row) < 40][:64]
    worst = 0.0
    for start in range(0, len(short), 16):
        rows = short[start : start + 16]
        batch = tokenizers[0].pad({"input_ids": rows}, return_tensors="pt")
        target = torch.randint(5, models[0].config.vocab_size - 5, (len(rows), 9))
        with torch.no_grad():
            logits = [m(**batch, decoder_input_ids=target).logits for m in models]
        worst = max(worst, float((logits[0] - logits[1]).abs().max()))
    batch = tokenizers[0].pad({"input_ids": short[:32]}, return_tensors="pt")
    unknown = tokenizers[0].unk_token_id
    padding = tokenizers[0].pad_token_id
    written = [
        m.generate(
            **batch, num_beams=1, max_new_tokens=20, max_length=None,
            suppress_tokens=[padding, unknown],
            forced_bos_token_id=models[1].generation_config.forced_bos_token_id,
            bad_words_ids=None, no_repeat_ngram_size=0, begin_suppress_tokens=None,
            forced_eos_token_id=None,
        ).tolist() for m in models
    ]  # fmt: skip
    equal = sum(a == b for a, b in zip(*written, strict=True))
    return f"{worst:.1e} | {equal} of {len(written[0])} | {wrong} of {len(texts)}"


def rows(formats: list[str], count: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| format | options | logits | greedy equal | texts with other ids |"
    yield "|---|---|--:|--:|--:|"
    texts = [*text_of(count), *ADDED]
    with tempfile.TemporaryDirectory() as temporary:
        for format in (name for name in formats if name != "t5"):
            make, options, _ = FORMATS[format]
            for number, values in enumerate(options):
                folder = Path(temporary) / f"{format}-{number}"
                given: dict[str, Any] = {**values}
                make(folder, texts[:1500], SIZES[number % 2], given)
                yield f"| {format} | {values or 'default'} | {compared(folder, texts)} |"
        if "t5" in formats:
            corpus = Path(temporary) / "corpus"
            corpus.write_text("\n".join(texts[:1500]), encoding="utf-8")
            t5.make_tokenizers(corpus, Path(temporary))
            for number, (name, values) in enumerate(t5.VARIANTS.items()):
                folder = Path(temporary) / f"t5-{number}"
                tokenizer = Path(temporary) / ("bytes" if number % 2 else "t5")
                t5.make_folder(folder, tokenizer, t5.SIZES["small"], {**values})
                yield f"| t5 | {name} | {compared(folder, texts)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = [*(name for name in FORMATS if name != "fsmt"), "t5"]
    parser.add_argument("--formats", nargs="*", default=kinds, choices=kinds)
    parser.add_argument("--texts", type=int, default=1000)
    given = parser.parse_args()
    for line in rows(given.formats, given.texts):
        print(line, flush=True)


if __name__ == "__main__":
    main()
