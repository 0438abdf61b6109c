"""Speed of the engines beside the zoo's decoder: the same sentences, in turn in one process.

    python benchmarks/engines.py                       both sizes; about ten minutes
    python benchmarks/engines.py --sentences 16 --rounds 1 --shapes transformer-256

It needs the extras `ctranslate2` and `onnx`. The Transformers have random weights whose outputs end
like those of trained ones; sources are sentences of Multi30k's Test 2016 from `ZOO_DATA`. Each call
is `Translator.translate`: text in, text out. In each round all engines translate, one after the
other, in another order; the fastest round of each counts. The tables are written to
`RESULTS-engines.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report import Row, machine, now, write

HERE = Path(__file__).parent
CACHE = HERE.parent / "build" / "benchmarks" / "engines"
RESULTS = HERE / "RESULTS-engines.md"
SHAPES = {
    "transformer-256": "Transformer 3+3×256, feed-forward 1024",
    "transformer-512": "Transformer 6+6×512, feed-forward 2048",
}
ENGINES = (None, "ctranslate2", "onnxruntime")
PRECISIONS, BEAMS, THREADS = ("float32", "int8"), (1, 5), (1, 2)
CROSS = 0.1
"""Scale of what cross-attention adds: the end of an output then depends on its positions."""

LONGEST = 60
"""Most tokens of an output."""


def checkpoint(shape: str) -> Path:
    """Return a checkpoint with random weights, made once; outputs have the length of sources."""
    folder = CACHE / shape
    if folder.is_dir():
        return folder
    sys.path.insert(0, str(HERE / "decoders"))
    import torch
    import with_zoo
    from common import POSITIONS, SHAPES, VOCAB

    from zoo.checkpoint.checkpoint import Checkpoint
    from zoo.checkpoint.checkpoint import write as write_checkpoint
    from zoo.data.tokenizer import Tokenizer
    from zoo.registry.registry import default_registry
    from zoo_transformer.network import sinusoids

    data = default_registry().datasets["multi30k-en-de"]
    tokenizer = Tokenizer.train((pair.source for pair in data.load("train")), "bpe", VOCAB)
    texts = [pair.source for pair in data.load("test", 128)]
    model = with_zoo.create(shape)
    for layer in model.decoder:  # else the source alone decides: half of the outputs never end
        for weight in layer.cross.out.parameters():
            weight.data.mul_(CROSS)
    table = sinusoids(POSITIONS, SHAPES[shape]["dim"], torch.float32, torch.device("cpu"))
    with_zoo.shape_outputs(model, table, [[*ids, 2] for ids in tokenizer.encode(texts)])
    made = Checkpoint(shape, shape, "transformer", model.config, model, tokenizer, tokenizer)
    CACHE.mkdir(parents=True, exist_ok=True)
    write_checkpoint(folder, made, default_registry(), "", {})
    return folder


def rows_of(options: argparse.Namespace) -> Iterator[Row]:
    """Measure everything with one number of threads, and yield a row per engine and search."""
    from zoo.cli.process import configure

    configure()  # as in the zoo's command line, before torch is imported
    import torch

    from zoo import Translator
    from zoo.checkpoint.checkpoint import read
    from zoo.registry.registry import default_registry

    torch.set_num_threads(options.threads)
    pairs = default_registry().datasets["multi30k-en-de"].load("test", options.sentences)
    texts = [pair.source for pair in pairs]
    for shape in options.shapes:
        made = read(checkpoint(shape), default_registry())
        for precision in PRECISIONS:
            translators = {
                engine: Translator(made, precision=precision, engine=engine) for engine in ENGINES
            }
            for beam in BEAMS:
                yield from search(translators, texts, beam, options.rounds, shape, precision)


def search(
    translators: dict[str | None, Any],
    texts: list[str],
    beam: int,
    rounds: int,
    shape: str,
    precision: str,
) -> Iterator[Row]:
    """Translate in turn, and yield a row for each engine.

    An engine leaves outputs without an end to the zoo's decoder, which would do its work again:
    only the sentences whose outputs all end are measured.
    """
    best: dict[str | None, float] = {}
    written: dict[str | None, list[Any]] = {}
    asked, ending = len(texts), set(range(len(texts)))
    for translator in translators.values():
        first = translator.translate(texts, details=True, beam=beam, max_length=LONGEST)
        ending &= {i for i, one in enumerate(first) if len(one.tokens) < LONGEST}
    texts = [texts[i] for i in sorted(ending)]
    for number in range(rounds):
        shift = number % len(ENGINES)
        for engine in (*ENGINES[shift:], *ENGINES[:shift]):
            start = time.perf_counter()
            written[engine] = translators[engine].translate(
                texts, details=True, beam=beam, max_length=LONGEST
            )
            seconds = time.perf_counter() - start
            best[engine] = min(best.get(engine, seconds), seconds)
    own = written[None]
    for engine, results in written.items():
        equal = sum(a.text == b.text for a, b in zip(results, own, strict=True))
        yield {
            "shape": shape, "precision": precision, "beam": beam, "engine": engine or "zoo",
            "speed": len(texts) / best[engine], "ratio": best[None] / best[engine],
            "equal": equal / len(texts), "sentences": len(texts), "asked": asked,
            "tokens": sum(len(one.tokens) for one in results) / len(texts),
        }  # fmt: skip


def measured(options: argparse.Namespace) -> list[Row]:
    """Run a process for each number of threads, and return their rows."""
    rows = []
    for threads in THREADS:
        given = ["--sentences", options.sentences, "--rounds", options.rounds]
        command = [sys.executable, __file__, "--threads", threads, *given, "--shapes"]
        variables = {"OMP_NUM_THREADS": str(threads), "ZOO_CACHE": str(CACHE)}
        with subprocess.Popen(
            [str(part) for part in (*command, *options.shapes)],
            env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    rows.append({**json.loads(line), "threads": threads})
                    print(line, end="", flush=True)
        if process.returncode:
            raise SystemExit(f"the process with {threads} threads failed: {process.returncode}")
    return rows


def table(rows: list[Row], shape: str) -> list[str]:
    """Return the table of a shape: a row per engine, precision and number of threads."""
    lines = [
        f"\n### {SHAPES[shape]}\n",
        "| precision | threads | engine | greedy, sentences/s | relative | equal texts "
        "| beam 5, sentences/s | relative | equal texts |",
        "|---|--:|---|" + "--:|" * 6,
    ]
    keys = dict.fromkeys(
        (r["precision"], r["threads"], r["engine"]) for r in rows if r["shape"] == shape
    )
    for precision, threads, engine in sorted(keys, key=lambda key: (key[0], key[1])):
        cells = [precision, str(threads), engine]
        for beam in BEAMS:
            wanted = (shape, precision, threads, engine, beam)
            names = ("shape", "precision", "threads", "engine", "beam")
            (row,) = (r for r in rows if tuple(r[name] for name in names) == wanted)
            cells += [f"{row['speed']:,.1f}", f"{row['ratio']:.2f}", f"{row['equal']:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, default=256, help="sentences in each translation")
    parser.add_argument("--rounds", type=int, default=2, help="the fastest counts")
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads is not None:
        for row in rows_of(options):
            print(json.dumps(row), flush=True)
        return
    start = time.monotonic()
    rows = measured(options)
    fewest = min(row["sentences"] for row in rows)
    text = [
        f"Measured {now()} UTC on {machine()}, "
        f"{options.sentences} sentences, the fastest of {options.rounds} rounds, "
        f"{(time.monotonic() - start) / 60:.1f} minutes in all. Each search has only the "
        f"sentences whose outputs end within {LONGEST} tokens in every engine, at least {fewest}.",
    ]
    for shape in options.shapes:
        text += table(rows, shape)
    print("\n".join(text))
    write(RESULTS, "benchmarks/engines.py", "\n".join(text))


if __name__ == "__main__":
    main()
