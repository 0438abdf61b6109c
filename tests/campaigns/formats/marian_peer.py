"""Compare imported archives with Marian itself, and with transformers' conversion of them.

Marian's package for Python runs its translator on the processor:

    python -m tests.campaigns.formats.marian_peer marian

The conversion is a script of transformers up to 4.46, with the classes of version 4:

    ZOO_DATA=… python -m tests.campaigns.formats.marian_peer transformers --script FILE
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from tests.interop.marian_folder import logits, write
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da",
       "transformer-postprocess-top": "n"}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "another size": {"dim-emb": 32, "transformer-heads": 4, "transformer-dim-ffn": 48,
                     "enc-depth": 1, "dec-depth": 3},
    "relu, norm of embeddings, nothing shared": {
        "transformer-ffn-activation": "relu", "transformer-postprocess-emb": "nd",
        "tied-embeddings-all": False},
    "norm before the sum and on top, one embedding": {
        "transformer-postprocess": "dna", "transformer-postprocess-top": "n",
        "tied-embeddings-all": False, "tied-embeddings-src": True},
    "target tied, two vocabularies": {
        "tied-embeddings-all": False, "tied-embeddings": True, "dim-vocabs": [20, 16]},
    "norm before each sublayer": PRE,
}  # fmt: skip
INPUTS = 200


def imported(folder: Path, **options: str) -> Checkpoint:
    """Import a folder and load the result."""
    with tempfile.TemporaryDirectory() as out:
        registry = default_registry()
        import_checkpoint(folder, Path(out) / "z", registry, "marian-npz", options)
        return read(Path(out) / "z", registry)


def compare_with_marian() -> None:
    """Compare log probabilities of Marian's outputs, and the outputs, on 200 inputs each."""
    import pymarian

    print("| settings | largest difference | first token only | outputs that differ |")
    print("|---|---|---|---|")
    for name, options in CASES.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "m"
            settings, arrays = write(folder, **options)
            translator = pymarian.Translator(
                f"--models {folder}/model.npz --vocabs {folder}/vocab.src.yml "
                f"{folder}/vocab.trg.yml --beam-size 1 --cpu-threads 1 --n-best --word-scores "
                "--max-length 10 --max-length-factor 5 --mini-batch 1 --quiet"
            )
            random.seed(1)
            words = range(2, settings["dim-vocabs"][0])
            sources = [[random.choice(words) for _ in range(random.randint(1, 12))]
                       for _ in range(INPUTS)]  # fmt: skip
            lines = translator.translate([" ".join(f"w{i}" for i in row) for row in sources])
            checkpoint = imported(folder)
            row = [compare_line(line, source, checkpoint, settings, arrays)
                   for line, source in zip(lines, sources, strict=True)]  # fmt: skip
        print(f"| {name} | {max(r[0] for r in row):.1e} | {max(r[1] for r in row):.1e} | "
              f"{sum(r[2] for r in row)} of {INPUTS} |", flush=True)  # fmt: skip
        if options is PRE:
            print(f"| the same, keys not normalized | {max(r[3] for r in row):.1e} | | |")


def compare_line(
    line: str, source: list[int], checkpoint: Checkpoint, settings: dict[str, Any], arrays: Any
) -> tuple[float, float, bool, float]:
    """Return the largest and the first difference, whether outputs differ, and the translator's."""
    _, text, scores, *_ = (part.strip() for part in line.split("|||"))
    expected = torch.tensor([float(score) for score in scores.split()[1:]])
    ids = checkpoint.target_tokenizer.encode([text])[0]
    given = [*ids, 2] if len(expected) > len(ids) else ids
    inner = torch.tensor([[*(i + 2 for i in source), 2]])
    model: Any = checkpoint.model
    with torch.inference_mode():
        output = model(inner, inner > 0, torch.tensor([[1, *given[:-1]]])).logits[0].log_softmax(-1)
        task: Task[Any, Any] = Task(
            model, model.encode(inner, inner > 0).memory, inner > 0, None, None
        )
        written = search(task, Search(beam=1, max_length=len(given), allow_empty=True))[0][0].tokens
    actual = output.gather(1, torch.tensor(given)[:, None])[:, 0]
    differences = (actual - expected).abs()
    as_translated = 0.0
    if settings["transformer-preprocess"] == "n":
        theirs = [0 if i == 2 else i - 2 for i in given]
        for n, token in enumerate(theirs):
            row = logits(arrays, settings, [*source, 0], theirs[:n], raw_keys=True)[-1]
            value = row[token] - np.log(np.exp(row).sum())
            as_translated = max(as_translated, abs(float(value) - float(expected[n])))
    different = list(written)[: len(ids)] != ids
    return float(differences.max()), float(differences[0]), different, as_translated


def compare_with_transformers(script: Path) -> None:
    """Compare with the conversion: logits, greedy search, ids of 5,000 sentences."""
    import sentencepiece
    from transformers import MarianTokenizer

    from tests.campaigns.formats.peers import text_of
    from tests.campaigns.formats.transformers_peer import ODD, decoded, spm
    from tests.campaigns.formats.transformers_peer import logits as compare_logits

    spec = importlib.util.spec_from_file_location("conversion", script)
    assert spec is not None
    assert spec.loader is not None
    conversion = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conversion)
    texts = [*text_of(5000), *ODD]
    half = len(texts) // 2
    for activation in ("swish", "relu", "gelu"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "m"
            models = {}
            for side, part in (("source", texts[:half]), ("target", texts[half:])):
                spm(part, 500, Path(temporary) / side)
                models[side] = sentencepiece.SentencePieceProcessor(str(Path(temporary) / side))
            pieces = sorted({m.id_to_piece(i) for m in models.values() for i in range(3, 490)})
            names = ["</s>", "<unk>", ">>fra<<", *pieces]
            options = {"dim-vocabs": [len(names)] * 2, "dim-emb": 128, "transformer-heads": 4,
                       "dec-depth": 2, "transformer-ffn-activation": activation}  # fmt: skip
            write(folder, **options)  # the conversion has as many positions as the width
            for side in models:
                (Path(temporary) / side).rename(folder / f"{side}.spm")
            for file in folder.glob("vocab.*.yml"):
                file.unlink()
            lines = "".join(
                f"{json.dumps(n, ensure_ascii=False)}: {i}\n" for i, n in enumerate(names)
            )
            (folder / "opus.vocab.yml").write_text(lines, encoding="utf-8")
            decoder = {"models": ["model.npz"], "vocabs": ["opus.vocab.yml"] * 2, "beam-size": 6}
            (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
            checkpoint = imported(folder, **{"as": "transformers"})
            foreign = conversion.OpusState(folder).load_marian_model().double().eval()
            # Marian has no padding: it has no probability here, and the conversion bans it
            foreign.final_logits_bias.data[0, -1] = -1e4
            tokenizer = MarianTokenizer.from_pretrained(folder)
            size, rest = len(names) + 1, iter(range(4, len(names) + 2))
            special = {size - 1: 0, 0: 2, 1: 3}
            ids = [special[i] if i in special else next(rest) for i in range(size)]
            model = checkpoint.model.double()
            result = compare_logits(model, foreign, tokenizer, ids, ids)
            result |= decoded(checkpoint, foreign, tokenizer, ids, ids, texts)
            wrong = 0
            for text, inner in zip(texts, checkpoint.source_tokenizer.encode(texts), strict=True):
                wrong += [*inner, 2] != [ids[i] for i in tokenizer(text).input_ids]
            print(
                activation, result | {"texts": len(texts), "texts that differ": wrong}, flush=True
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("against", choices=["marian", "transformers"])
    parser.add_argument("--script", type=Path)
    arguments = parser.parse_args()
    if arguments.against == "marian":
        compare_with_marian()
    else:
        compare_with_transformers(arguments.script)
