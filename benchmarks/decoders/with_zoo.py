"""The zoo in `benchmarks/decode.py`; with --prepare it writes the sources and the weights."""

from __future__ import annotations

from zoo.cli.process import configure

configure()  # as in the zoo's command line, before torch is imported

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import BEGIN, END, FREE, PADDING, POSITIONS, SHAPES, THREADS, UNKNOWN, VOCAB

from common import Batch, Decode, Job, measure  # isort: skip
from torch import Tensor

import zoo
from zoo.data.batches import batch_sources
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.step_graphs import encode_recorded
from zoo.decoding.task import Task
from zoo.errors import ZooError
from zoo.nn.contract import Seq2Seq
from zoo.registry.registry import default_registry
from zoo.translation.parallel import parallel_map, shared_out
from zoo.translation.text_search import WEIGHTS

SENTENCES = 1000
SHARP = 4.0
"""Factor on the random output weights: one token gets a high probability, as after training."""
LATE = 3.0
"""Weight of the direction of late positions in the end token's output row."""
MEAN_LENGTH = 14
"""Mean length of a greedy output of free length in tokens: that of the sources."""


def create(shape: str) -> Seq2Seq:
    """Return the network of a shape with random weights from a fixed seed."""
    torch.manual_seed(1)
    sizes = SHAPES[shape]
    name, config = shape, {}
    if shape.startswith("transformer"):
        name, config = (
            "transformer-6x6",
            {
                "encoder_layers": sizes["layers"],
                "decoder_layers": sizes["layers"],
                "dim": sizes["dim"],
                "heads": sizes["heads"],
                "feedforward_dim": sizes["feedforward"],
                "output_bias": False,
            },
        )
    elif shape.startswith("lstm"):
        name, config = (
            "rnnsearch",
            {
                "embedding_dim": sizes["embedding"],
                "encoder_dim": sizes["encoder"],
                "hidden_dim": sizes["hidden"],
                "attention_dim": sizes["hidden"],
                "score": shape.removeprefix("lstm-"),
                "readout": "tanh",
                "readout_dim": sizes["hidden"],
            },
        )
    return zoo.create_model(name, source_vocab=VOCAB, target_vocab=VOCAB, **config).eval()


@torch.inference_mode()
def shape_outputs(model: Seq2Seq, table: Tensor, sources: Batch) -> None:
    """Set weights so that a random Transformer's outputs resemble those of a trained one.

    The output rows of tokens that never occur are zero. The end token's row contains the direction
    of late positions. The last norm's bias points along that row, which acts as a bias on the end
    token's logit; a bisection sets it so that outputs have the mean length.
    """
    rows, bias = model.output.weight, model.decoder[-1].feedforward_norm.bias
    model.target_embedding.weight.mul_(0.5)  # positions must matter, not only the last token
    rows[[PADDING, BEGIN, UNKNOWN]] = 0.0
    late = table[24] - table[2]
    rows[END] += LATE * late / late.norm()
    rows.mul_(SHARP)
    towards = rows[END] / rows[END].norm()
    source, mask = batch_sources([tokens[:-1] for tokens in sources])
    low, high = -2.0, 4.0
    for _ in range(10):
        middle = (low + high) / 2
        bias.copy_(middle * towards)
        task = Task(model, model.encode(source, mask).memory, mask)
        results = search(task, Search(max_length=FREE, allow_empty=True))
        mean = sum(len(hypotheses[0].tokens) for hypotheses in results) / len(results)
        low, high = (middle, high) if mean > MEAN_LENGTH else (low, middle)


def sources() -> Batch:
    """Return Multi30k's test sentences in BPE of 8,000 entries, or random ones without data."""
    try:
        data = default_registry().datasets["multi30k-en-de"]
        tokenizer = Tokenizer.train((pair.source for pair in data.load("train")), "bpe", VOCAB)
        texts = [pair.source for pair in data.load("test")][:SENTENCES]
        return [[*tokens, END] for tokens in tokenizer.encode(texts)]
    except ZooError as error:
        print(f"Multi30k is not available, sources are random: {error}")
    draw = random.Random(1)
    lengths = [max(4, round(draw.gauss(14, 4))) for _ in range(SENTENCES)]
    return [[*(draw.randrange(UNKNOWN + 1, VOCAB) for _ in range(n)), END] for n in lengths]


def prepare(folder: Path, shapes: list[str]) -> None:
    """Write `sources.json`, and `SHAPE.npz` for each of the shapes."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = sources()
    for shape in shapes:
        if (folder / f"{shape}.npz").is_file():
            continue
        model = create(shape)
        arrays: dict[str, Any] = {}
        if shape.startswith("transformer"):
            from zoo_transformer.network import sinusoids

            table = sinusoids(POSITIONS, SHAPES[shape]["dim"], torch.float32, torch.device("cpu"))
            shape_outputs(model, table, texts[:128])
            arrays["positions"] = table.numpy()
        for name, weight in model.state_dict().items():
            arrays[name] = weight.numpy()
        unfinished = folder / f"{shape}.unfinished.npz"
        np.savez(unfinished, **arrays)
        unfinished.rename(folder / f"{shape}.npz")
    (folder / "sources.json").write_text(json.dumps(texts), encoding="utf-8")


def make(job: Job) -> tuple[Decode, int]:
    torch.set_num_threads(THREADS)
    model = create(job.shape)
    with np.load(job.weights) as arrays, torch.no_grad():
        for name, weight in model.state_dict().items():
            weight.copy_(torch.from_numpy(job.rounded(arrays[name])))
    parameters = sum(weight.numel() for weight in model.parameters())
    model.to(job.device)
    on_cpu = job.device == "cpu"
    if job.precision == "bf16" and not on_cpu:
        model.to(torch.bfloat16)
    weights = WEIGHTS[job.precision if on_cpu and job.precision != "float16" else "float32"]()
    # The other projects may produce empty outputs.
    options = Search(beam=job.beam, min_length=job.least, max_length=job.most, allow_empty=True)

    @torch.inference_mode()
    def decode_piece(batch: Batch) -> Batch:
        source, mask = (
            part.to(job.device) for part in batch_sources([tokens[:-1] for tokens in batch])
        )
        with weights.activate(fixed=True):
            memory = encode_recorded(model, source, mask)
            results = search(Task(model, memory, mask), options)
        return [list(hypotheses[0].tokens) for hypotheses in results]

    def decode(batch: Batch) -> Batch:
        """Decode a batch as a translator does, which cuts one that is alone for its threads."""
        if not on_cpu:
            return decode_piece(batch)
        pieces = shared_out([batch], job.beam, len)
        return [tokens for piece in parallel_map(decode_piece, pieces) for tokens in piece]

    return decode, parameters


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--prepare", nargs="+")
    given = parser.parse_known_args()[0].prepare
    if given:
        prepare(Path(given[0]), given[1:])
        return
    measure("zoo", zoo.__version__, make, parallel_map)


if __name__ == "__main__":
    main()
