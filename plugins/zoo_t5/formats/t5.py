"""Read T5, mT5, ByT5, MADLAD-400, Flan-T5 and UMT5 from a folder of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.interop import (
    WEIGHT_FILES,
    About,
    ForeignTokenizer,
    Imported,
    Importer,
    Reasons,
    Source,
    StateDict,
    open_weights,
)
from zoo.nn import UNKNOWN
from zoo_t5.formats.settings import Settings
from zoo_t5.formats.vocabulary import BYTES, TOKENIZER_FILES, make_tokenizer, read_entries

UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Early releases hold this tensor, which no version of the network reads."""

EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""Names of the one matrix of both embeddings."""


class T5Folder(Importer):
    """Reads a folder in which `config.json` names the model type t5, mt5 or umt5."""

    version = 4
    files = ("config.json", "generation_config.json", *TOKENIZER_FILES, *WEIGHT_FILES)
    options = {  # noqa: RUF012  # a class variable, as declared
        "tokenizer": f"{BYTES}: texts are cut into bytes, for a ByT5 without tokenizer_config.json"
    }

    def recognizes(self, source: Source) -> bool:
        """Return whether `config.json` names one of the model types."""
        if not source.has("config.json"):
            return False
        return source.json("config.json").get("model_type") in ("t5", "mt5", "umt5")

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read configuration, tokenizer and weights."""
        reasons = Reasons(f"{source} cannot be imported")
        settings = Settings(source, reasons)
        tensors = Tensors(dict(open_weights(source)), reasons)
        tensors.check_embedding(settings.vocab_size)
        reasons.raise_if_any()
        entries = read_entries(source, settings, options.get("tokenizer", ""), reasons)
        reasons.raise_if_any()
        rows = settings.rows(entries.unknown)
        tokenizer = make_tokenizer(entries, settings, rows)
        weights, share = _weights(tensors, settings, rows)
        tensors.ignore(UNUSED)
        tensors.finish()
        reasons.raise_if_any()
        config = {**settings.config, "share": share}
        decoding = settings.generation.decoding(_banned(settings, rows, tokenizer), reasons)
        about = About(decoding=decoding, origin="imported", tasks=settings.tasks())
        return Imported("t5", settings.kind, config, weights, tokenizer, tokenizer, about)


def _banned(settings: Settings, rows: list[int], tokenizer: ForeignTokenizer) -> tuple[str, ...]:
    """Return the texts of entries that are never written, sentinels too."""
    ids = settings.generation.banned()
    return tuple(tokenizer.token(i) for i, id in enumerate(rows) if id in ids and i > UNKNOWN)


class Tensors(StateDict):
    """The tensors of the folder; each is taken once, which frees its memory."""

    tensors: dict[str, Any]
    single = True

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a tensor as float32, as `StateDict.take` does."""
        weight = super().take(name, *shape).float()
        self.tensors.pop(name, None)
        return weight

    def check_embedding(self, rows: int) -> None:
        """Check that the embedding has the rows of the vocabulary, before as many are made.

        Without an embedding, the vocabulary may have the size of the largest ones that exist.
        """
        name = next((name for name in EMBEDDINGS if name in self.tensors), EMBEDDINGS[0])
        shape = tuple(self.tensors[name].shape) if name in self.tensors else (1_000_000,)
        enough = bool(shape) and shape[0] >= rows
        self.reasons.check(enough, f"vocab_size is {rows:,}, and {name} has no such row")

    def embedding(self, *shape: int) -> Tensor:
        """Return the matrix of both embeddings, which may be there under several names."""
        first, *others = [name for name in EMBEDDINGS if name in self.tensors] or EMBEDDINGS[:1]
        matrix = self.take(first, *shape)
        for name in others:
            same = torch.equal(self.take(name, *shape), matrix)
            self.reasons.check(same, f"{name} is not equal to {first}")
        return matrix


def _weights(
    tensors: Tensors, settings: Settings, rows: list[int]
) -> tuple[dict[str, Tensor], str]:
    """Return the weights by their names here, and which embeddings are shared."""
    c = settings.config
    d, vocab = c["dim"], settings.vocab_size
    weights: dict[str, Tensor] = {}
    for stack in ("encoder", "decoder"):
        for layer in range(c[f"{stack}_layers"]):
            weights |= _layer(tensors, c, stack, layer)
        weights[f"{stack}_norm.weight"] = tensors.take(f"{stack}.final_layer_norm.weight", d)
    embedding = tensors.embedding(vocab, d)
    share = "all"
    if "lm_head.weight" in tensors.tensors:
        head = tensors.take("lm_head.weight", vocab, d)
        if not torch.equal(head, embedding):
            share = "embeddings"
            settings.check_own_output(tensors.reasons)
            weights["output.weight"] = head[rows]
    elif settings.given.get("tie_word_embeddings") is False:
        tensors.reasons.add("tie_word_embeddings is false, but there is no lm_head.weight")
    weights["target_embedding.weight"] = embedding[rows]
    return weights, share


def _layer(tensors: Tensors, c: Mapping[str, Any], stack: str, layer: int) -> dict[str, Tensor]:
    """Return the weights of one layer; its position biases are there if it has any."""
    d, k, f, heads = c["dim"], c["heads"] * c["head_dim"], c["feedforward_dim"], c["heads"]
    block, here = f"{stack}.block.{layer}.layer", f"{stack}.{layer}"
    own = f"{block}.0.SelfAttention"
    weights = {
        f"{here}.attention.project.weight": torch.cat(
            [tensors.take(f"{own}.{name}.weight", k, d) for name in "qkv"]
        ),
        f"{here}.attention.out.weight": tensors.take(f"{own}.o.weight", d, k),
        f"{here}.attention_norm.weight": tensors.take(f"{block}.0.layer_norm.weight", d),
    }
    if layer == 0 or c["layer_positions"]:
        biases = tensors.take(f"{own}.relative_attention_bias.weight", c["buckets"], heads)
        weights[f"{stack}_positions.{layer}.weight"] = biases
    last = 1
    if stack == "decoder":
        last, cross = 2, f"{block}.1.EncDecAttention"
        weights |= {
            f"{here}.cross.query.weight": tensors.take(f"{cross}.q.weight", k, d),
            f"{here}.cross.project.weight": torch.cat(
                [tensors.take(f"{cross}.{name}.weight", k, d) for name in "kv"]
            ),
            f"{here}.cross.out.weight": tensors.take(f"{cross}.o.weight", d, k),
            f"{here}.cross_norm.weight": tensors.take(f"{block}.1.layer_norm.weight", d),
        }
    dense = f"{block}.{last}.DenseReluDense"
    inner = ("wi_0", "wi_1") if c["gated"] else ("wi",)
    return weights | {
        f"{here}.inner.weight": torch.cat(
            [tensors.take(f"{dense}.{name}.weight", f, d) for name in inner]
        ),
        f"{here}.outer.weight": tensors.take(f"{dense}.wo.weight", d, f),
        f"{here}.feedforward_norm.weight": tensors.take(f"{block}.{last}.layer_norm.weight", d),
    }
