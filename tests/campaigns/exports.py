"""Exports of the released checkpoints, compared with the zoo on Test 2016 of Multi30K.

    python -m tests.campaigns.exports                 each engine: texts, BLEU, seconds
    python -m tests.campaigns.exports --clean FOLDER  exported folders in environments of their own
    python -m tests.campaigns.exports --logits        log probabilities of the references

The first needs the extras `ctranslate2` and `onnx`, and ZOO_DATA. The second creates an environment
for each project from the package index, in which the zoo is not installed, and translates there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sacrebleu
import torch

import zoo
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources
from zoo.nn.contract import BEGIN, END
from zoo.registry.registry import default_registry

FAMILIES = ("transformer", "rnnsearch", "seq2seq", "convs2s")
ENGINES = {"transformer": ("ctranslate2", "onnxruntime")}
"""The engines of a family, if not onnxruntime alone."""

TRANSFORMERS = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
folder, texts, beam = sys.argv[1], json.load(sys.stdin), int(sys.argv[2])
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
results = []
for start in range(0, len(texts), 50):
    batch = tokenizer(texts[start : start + 50], return_tensors="pt", padding=True)
    options = {"length_penalty": 0.0} if beam > 1 else {}
    tokens = model.generate(**batch, num_beams=beam, **options)
    results += tokenizer.batch_decode(tokens, skip_special_tokens=True)
json.dump(results, sys.stdout)
"""

TRANSFORMERS_SCORES = """
import json, sys
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
folder, (texts, targets) = sys.argv[1], json.load(sys.stdin)
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
results = []
for text, target in zip(texts, targets):
    source = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        read = torch.tensor([[model.config.decoder_start_token_id, *target[:-1]]])
        logits = model(**source, decoder_input_ids=read).logits[0].log_softmax(-1)
    results.append(logits[range(len(target)), target].tolist())
json.dump(results, sys.stdout)
"""

CTRANSLATE2 = """
import json, sys
import ctranslate2
folder, texts, beam = sys.argv[1], json.load(sys.stdin), int(sys.argv[2])
model = ctranslate2.Translator(folder, device="cpu", intra_threads=1)
special = [["<pad>"], ["<s>"], ["<unk>"]]
results = model.translate_batch(texts, beam_size=beam, max_batch_size=4096, batch_type="tokens",
    length_penalty=0, max_input_length=0, suppress_sequences=special, max_decoding_length=300)
json.dump([result.hypotheses[0] for result in results], sys.stdout)
"""

ONNXRUNTIME = """
import json, sys
import numpy, onnxruntime
folder, sources = sys.argv[1], json.load(sys.stdin)
encoder = onnxruntime.InferenceSession(f"{folder}/encoder.onnx")
step = onnxruntime.InferenceSession(f"{folder}/step.onnx")
layout = json.load(open(f"{folder}/zoo.json"))
memory_count, results = len(layout["memory"]), []
wanted = {each.name for each in step.get_inputs()}
for source in sources:
    ids = numpy.array([source], dtype=numpy.int64)
    feed = {"source": ids, "mask": numpy.ones(ids.shape, dtype=bool)}
    made = encoder.run(None, {each.name: feed[each.name] for each in encoder.get_inputs()})
    memory, initial = made[:memory_count], iter(made[memory_count:])
    state = []
    for leaf in layout["state"]:
        shape = [1, *(0 if isinstance(size, str) else size for size in leaf["shape"][1:])]
        state.append(next(initial) if leaf["initial"] else numpy.zeros(shape, leaf["dtype"]))
    written = [1]
    while written[-1] != 2 and len(written) <= 3 * len(source) + 20:
        feed = {"token": numpy.array(written[-1:], dtype=numpy.int64)}
        for leaves, values in ((layout["memory"], memory), (layout["state"], state)):
            feed |= {leaf["name"]: value for leaf, value in zip(leaves, values)}
        logits, *state = step.run(None, {name: feed[name] for name in feed if name in wanted})
        logits[:, [0, 1, 3] + [2] * (len(written) == 1)] = -numpy.inf
        written.append(int(logits.argmax()))
    results.append(written[1:-1] if written[-1] == 2 else written[1:])
json.dump(results, sys.stdout)
"""


def name_of(family: str) -> str:
    """Return the released checkpoint of a family."""
    return f"{family}-tiny.multi30k-en-de"


def test_2016(limit: int | None) -> tuple[list[str], list[str]]:
    """Return sources and references."""
    pairs = default_registry().datasets["multi30k-en-de"].load("test", limit)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def compared(families: list[str], limit: int | None, beams: list[int]) -> Iterator[str]:
    """Yield a table row for each checkpoint, engine, precision and beam."""
    yield (
        "| checkpoint | engine | precision | beam | equal texts | BLEU | of the zoo | seconds | "
        "of the zoo |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    sources, references = test_2016(limit)
    for family in families:
        for beam in beams:
            start = time.perf_counter()
            expected = zoo.load(name_of(family)).translate(sources, beam=beam, length_penalty=0.0)
            before = time.perf_counter() - start
            own = sacrebleu.corpus_bleu(expected, [references]).score
            for engine in ENGINES.get(family, ("onnxruntime",)):
                for precision in ("float32", "int8"):
                    translator = zoo.load(name_of(family), engine=engine, precision=precision)
                    start = time.perf_counter()
                    texts = translator.translate(sources, beam=beam, length_penalty=0.0)
                    seconds = time.perf_counter() - start
                    equal = sum(a == b for a, b in zip(texts, expected, strict=True))
                    bleu = sacrebleu.corpus_bleu(texts, [references]).score
                    yield (
                        f"| {name_of(family)} | {engine} | {precision} | {beam} | {equal:,} of "
                        f"{len(sources):,} | {bleu:.2f} | {own:.2f} | {seconds:.1f} | "
                        f"{before:.1f} |"
                    )


def log_probs(families: list[str], limit: int | None) -> Iterator[str]:
    """Yield a table row with the largest difference of a reference token's log probability."""
    yield "| checkpoint | format | tokens | largest difference |"
    yield "|---|---|--:|--:|"
    sources, references = test_2016(limit)
    for family in families:
        translator = zoo.load(name_of(family))
        expected = translator.score(sources, references)
        for engine in ENGINES.get(family, ("onnxruntime",)):
            runner = zoo.load(name_of(family), engine=engine)._search._engine.runner  # type: ignore[union-attr]  # it has one
            of_engine = ctranslate2_scores if engine == "ctranslate2" else onnx_scores
            actual = of_engine(runner, translator.checkpoint, sources, references)
            tokens, worst = difference(actual, expected)
            yield f"| {name_of(family)} | {engine} | {tokens:,} | {worst:.1e} |"


def ctranslate2_scores(
    runner: Any, checkpoint: Checkpoint, sources: list[str], references: list[str]
) -> list[list[float]]:
    """Return CTranslate2's log probability of each token of the references."""
    tokens = [
        [[tokenizer.token(i) for i in ids] for ids in tokenizer.encode(texts)]
        for tokenizer, texts in (
            (checkpoint.source_tokenizer, sources), (checkpoint.target_tokenizer, references)
        )
    ]  # fmt: skip
    scored = runner.model.score_batch(*tokens, max_input_length=0, max_batch_size=64)
    return [list(one.log_probs) for one in scored]


@torch.no_grad()
def onnx_scores(
    runner: Any, checkpoint: Checkpoint, sources: list[str], references: list[str]
) -> list[list[float]]:
    """Return the exported step's log probability of each token of the references."""
    source_ids = checkpoint.source_tokenizer.encode(sources)
    target_ids = checkpoint.target_tokenizer.encode(references)
    results = []
    for source, target in zip(source_ids, target_ids, strict=True):
        tensor, mask = batch_sources([source])
        memory = runner.network.encode(tensor, mask).memory
        state, scores = runner.network.init_state(memory), []
        for read, written in zip([BEGIN, *target], [*target, END], strict=True):
            step = runner.network.step(torch.tensor([read]), state, memory)
            state = step.state
            scores.append(float(step.logits[0].log_softmax(0)[written]))
        results.append(scores)
    return results


def clean(folder: Path, limit: int | None, formats: list[str] | None) -> Iterator[str]:
    """Yield a table row for each format, translated where only its own project is installed."""
    yield "| format | installed | equal greedy translations |"
    yield "|---|---|---|"
    sources, references = test_2016(limit)
    translator = zoo.load(name_of("transformer"))
    tokenizer = translator.checkpoint.source_tokenizer
    ids = tokenizer.encode(sources)
    limits = {"huggingface": 511, "ctranslate2": 300, "onnx": None}
    cases = {
        "huggingface": (["torch", "transformers"], TRANSFORMERS, sources),
        "ctranslate2": (
            ["ctranslate2"], CTRANSLATE2, [[tokenizer.token(i) for i in row] for row in ids],
        ),
        "onnx": (["onnxruntime"], ONNXRUNTIME, [[*row, 2] for row in ids]),
    }  # fmt: skip
    for format, (packages, program, given) in cases.items():
        if formats is not None and format not in formats:
            continue
        out, environment = folder / format, folder / f"{format}-environment"
        zoo.export(name_of("transformer"), format, out)
        if not environment.exists():
            venv.create(environment, with_pip=True)
            pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, *packages], check=True)
        python = str(environment / "bin" / "python")
        results = answer(python, program, out, given)
        expected = translator.translate(
            sources, details=True, beam=1, length_penalty=0.0, max_length=limits[format]
        )
        wanted: Any = {
            "huggingface": [one.text for one in expected],
            "ctranslate2": [list(one.tokens) for one in expected],
            "onnx": [list(one.hypotheses[0].tokens) for one in expected],
        }[format]
        equal = sum(a == b for a, b in zip(results, wanted, strict=True))
        yield f"| {format} | {', '.join(packages)} | {equal:,} of {len(sources):,} |"
        if format == "huggingface":
            target_ids = [[*ids, END] for ids in tokenizer.encode(references)]
            actual = answer(python, TRANSFORMERS_SCORES, out, [sources, target_ids])
            tokens, worst = difference(actual, translator.score(sources, references))
            yield f"| {format} | log probabilities of {tokens:,} tokens | within {worst:.1e} |"


def answer(python: str, program: str, folder: Path, given: Any) -> Any:
    """Run a program in an environment of its own, and return its JSON."""
    done = subprocess.run(
        [python, "-c", program, str(folder), "1"],
        input=json.dumps(given), capture_output=True, text=True, check=True, cwd=folder.parent,
    )  # fmt: skip
    return json.loads(done.stdout)


def difference(actual: list[list[float]], expected: list[list[float]]) -> tuple[int, float]:
    """Return the number of log probabilities, and their largest difference."""
    pairs = [
        (a, b)
        for one, other in zip(actual, expected, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    return len(pairs), max(abs(a - b) for a, b in pairs)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=Path, metavar="FOLDER")
    parser.add_argument("--logits", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--formats", nargs="*", help="of --clean; by default all")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--beams", nargs="*", type=int, default=[1, 5])
    given = parser.parse_args()
    if given.clean is not None:
        given.clean.mkdir(parents=True, exist_ok=True)
        rows = clean(given.clean, given.limit, given.formats)
    elif given.logits:
        rows = log_probs(given.families, given.limit)
    else:
        rows = compared(given.families, given.limit, given.beams)
    for row in rows:
        print(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
