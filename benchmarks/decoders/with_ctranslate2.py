"""CTranslate2 in `benchmarks/decode.py`: the zoo's Transformer, converted to its format."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ctranslate2
import numpy as np
from common import BEGIN, END, THREADS, VOCAB, Batch, Decode, Job, measure
from ctranslate2.specs import TransformerSpec

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
WORDS = [*SPECIAL, *(f"w{token}" for token in range(len(SPECIAL), VOCAB))]
TOKENS = {word: token for token, word in enumerate(WORDS)}


class Weights:
    """The zoo's parameters, copied into the layers of a specification."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    def linear(self, layer: Any, name: str) -> None:
        layer.weight = self.arrays[f"{name}.weight"]
        if f"{name}.bias" in self.arrays:
            layer.bias = self.arrays[f"{name}.bias"]

    def norm(self, layer: Any, name: str) -> None:
        layer.gamma, layer.beta = self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"]

    def embed(self, stack: Any, embedding: Any, name: str) -> None:
        embedding.weight = self.arrays[f"{name}.weight"]
        stack.position_encodings.encodings = self.arrays["positions"]

    def common(self, layer: Any, name: str) -> None:
        self.linear(layer.self_attention.linear[0], f"{name}.attention.project")
        self.linear(layer.self_attention.linear[1], f"{name}.attention.out")
        self.norm(layer.self_attention.layer_norm, f"{name}.attention_norm")
        self.linear(layer.ffn.linear_0, f"{name}.inner")
        self.linear(layer.ffn.linear_1, f"{name}.outer")
        self.norm(layer.ffn.layer_norm, f"{name}.feedforward_norm")

    def cross(self, layer: Any, name: str) -> None:
        for linear, part in zip(layer.attention.linear, ("query", "project", "out"), strict=True):
            self.linear(linear, f"{name}.cross.{part}")
        self.norm(layer.attention.layer_norm, f"{name}.cross_norm")


def specification(job: Job, arrays: Any) -> TransformerSpec:
    spec = TransformerSpec.from_config(job.sizes["layers"], job.sizes["heads"], pre_norm=False)
    weights = Weights(arrays)
    weights.embed(spec.encoder, spec.encoder.embeddings[0], "source_embedding")
    weights.embed(spec.decoder, spec.decoder.embeddings, "target_embedding")
    for number, layer in enumerate(spec.encoder.layer):
        weights.common(layer, f"encoder.{number}")
    for number, layer in enumerate(spec.decoder.layer):
        weights.common(layer, f"decoder.{number}")
        weights.cross(layer, f"decoder.{number}")
    weights.linear(spec.decoder.projection, "output")
    spec.register_source_vocabulary(WORDS)
    spec.register_target_vocabulary(WORDS)
    spec.config.bos_token, spec.config.eos_token = SPECIAL[BEGIN], SPECIAL[END]
    spec.config.unk_token = SPECIAL[-1]
    spec.config.decoder_start_token = SPECIAL[BEGIN]
    spec.config.add_source_bos = spec.config.add_source_eos = False
    return spec


def make(job: Job) -> tuple[Decode, int]:
    with np.load(job.weights) as file:
        arrays = {k: job.rounded(v) if k != "positions" else v for k, v in file.items()}
    spec = specification(job, arrays)
    spec.validate()
    spec.optimize(quantization=None)
    precision = job.precision.replace("bf16", "bfloat16")
    if precision not in ctranslate2.get_supported_compute_types(job.device):
        precision = "float32"
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder,
            device=job.device,
            compute_type=precision,
            inter_threads=job.at_once,
            intra_threads=THREADS // job.at_once,
        )

    def decode(batch: Batch) -> Batch:
        results = translator.translate_batch(
            [[WORDS[token] for token in tokens] for tokens in batch],
            beam_size=job.beam,
            length_penalty=0.0,
            min_decoding_length=job.least if job.length == "forced" else 0,
            max_decoding_length=job.most,
        )
        return [[TOKENS[word] for word in result.hypotheses[0]] for result in results]

    parameters = sum(array.size for name, array in arrays.items() if name != "positions")
    return decode, parameters


def parallel_map(decode: Decode, batches: list[Batch]) -> Iterator[Batch]:
    with ThreadPoolExecutor(THREADS) as pool:  # the translator assigns each call to a free worker
        yield from pool.map(decode, batches)


measure("ctranslate2", ctranslate2.__version__, make, parallel_map)
