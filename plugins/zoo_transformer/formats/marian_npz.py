"""Marian's own models: `.npz` archives with their settings, and the vocabularies beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from zoo.interop import (
    About,
    ForeignTokenizer,
    Imported,
    Importer,
    Reasons,
    SentencePiece,
    Source,
    Vocabulary,
    Weights,
    Words,
)
from zoo_transformer.config import TransformerConfig
from zoo_transformer.formats.family import Fields, Kind, Layout, Network, layout
from zoo_transformer.formats.marian import MODELS, tagged_tokenizer
from zoo_transformer.formats.marian_files import (
    LIMIT,
    archives,
    named_by_decoder,
    read_model,
    read_vocabulary,
    vocabulary_files,
)
from zoo_transformer.formats.marian_settings import Settings, read_settings
from zoo_transformer.formats.tensor_names import Names
from zoo_transformer.formats.vocabulary import NEVER, Rows, SpecialIds, check_names

ACTIVATIONS = {"relu": "relu", "swish": "swish"}
PROJECTIONS = (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj"))
BLOCKS = {
    "encoder": (("self_attn", "self"),),
    "decoder": (("self_attn", "self"), ("encoder_attn", "context")),
}
"""The attention of each stack, by the names of transformers and of Marian."""

AS = ("marian", "transformers")


@dataclass(frozen=True)
class Stored:
    """A tensor as Marian stores it.

    Attributes:
        name: Marian's name.
        shape: Marian's shape.
        transposed: whether it is a matrix of inputs × outputs.
        end: what is appended as one more row or entry, which Marian lacks; None for nothing.
    """

    name: str
    shape: tuple[int, ...]
    transposed: bool = False
    end: float | None = None

    def make(self, tensor: Tensor) -> Tensor:
        """Return the tensor of the family."""
        if self.end is not None:
            rows = tensor.T if self.shape[0] == 1 or self.transposed else tensor
            tensor = torch.cat([rows, torch.full_like(rows[:1], self.end)])
            return tensor.T if self.shape[0] == 1 else tensor
        if self.shape[0] == 1:
            return tensor[0]
        return tensor.T if self.transposed else tensor


class MarianArchive(Importer):
    """Reads Transformers that Marian trained.

    Its decoder reads zeros before the first token: that is the row of the begin token here.
    """

    files: ClassVar[tuple[str, ...]] = ("*.npz", "*.yml", "*.yaml", "*.spm", "*vocab*")
    options: ClassVar[dict[str, str]] = {
        "checkpoint": "the archive, if there are several",
        "source-vocab": "the file of the source's vocabulary",
        "target-vocab": "the file of the target's vocabulary",
        "as": "marian, by default; or transformers: positions, ε of the norm and gelu as its "
        "conversion of such models has them",
    }

    def recognizes(self, source: Source) -> bool:
        """Return whether there is an archive with Marian's settings, or `decoder.yml` names one."""
        if source.file is not None or archives(source):
            return bool(archives(source))
        return any(name.endswith(".npz") for name in named_by_decoder(source, "models"))

    def named(self, source: Source) -> list[str]:
        """Return the names of the vocabularies in `decoder.yml`."""
        return named_by_decoder(source, "vocabs")

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read the archive and the vocabularies.

        Raises:
            ConversionError: it cannot be expressed exactly; lists all reasons.
            ConfigError: sizes are out of bounds.
            CheckpointError: a file is damaged.
        """
        reasons = Reasons(f"{source} cannot be imported")
        way = options.get("as", AS[0])
        reasons.check(way in AS, f"as is {way[:40]!r}: {' or '.join(AS)}")
        marian = read_model(source, options, reasons)
        fields = Fields(marian.settings, reasons)
        settings = read_settings(fields)
        kind, made = _layout(fields, settings, way == "transformers")
        reasons.raise_if_any()
        TransformerConfig.parse(made.values, f"{source} cannot be imported")
        weights = _weights(marian.tensors, settings, reasons)
        files = vocabulary_files(source, marian, options, reasons)
        entries = [read_vocabulary(source, name, reasons) for name in files]
        reasons.raise_if_any()
        rows = [
            _rows(names, size, file, reasons)
            for names, size, file in zip(entries, settings.vocab, files, strict=True)
        ]
        reasons.raise_if_any()
        network = Network(Names(weights, reasons), made, kind, rows[0], rows[1])
        values = network.weights()
        reasons.raise_if_any()
        tokenizers = [
            _tokenizer(source, file, names, order, side)
            for side, (file, names, order) in enumerate(zip(files, entries, rows, strict=True))
        ]
        about = About(decoding=_decoding(marian.decoder), origin="imported")
        return Imported(
            "transformer", "marian", network.values, values, tokenizers[0], tokenizers[1], about
        )


def _layout(fields: Fields, settings: Settings, transformers: bool) -> tuple[Kind, Layout]:
    """Return the kind and the layout, by the names of transformers' configurations."""
    activation = fields.get("transformer-ffn-activation", "swish")
    known = {**ACTIVATIONS, "gelu": "gelu"} if transformers else ACTIVATIONS
    if activation not in known:
        why = " (x · σ(1.702 x), an approximation)" if activation == "gelu" else ""
        fields.reasons.add(
            f"transformer-ffn-activation {activation[:40]!r}{why} is not one of the network's"
        )
    kind = Kind(
        settings.norm,
        "halves" if transformers else "fairseq",
        embedding_norm=settings.embedding_norm,
        final_norm=settings.final_norm,
        bias=settings.bias,
    )
    heads = fields.get("transformer-heads", 8)
    values = {
        "encoder_layers": settings.layers[0],
        "decoder_layers": settings.layers[1],
        "d_model": settings.dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": settings.feedforward,
        "decoder_ffn_dim": settings.feedforward,
        "dropout": fields.get("transformer-dropout", 0.0),
        "activation_function": known.get(activation, "relu"),
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": settings.one_embedding,
        "tie_word_embeddings": settings.tied_output,
        "vocab_size": settings.vocab[0] + 1,
        "decoder_vocab_size": settings.vocab[1] + 1,
    }
    made = layout(Fields(values, fields.reasons), kind)
    epsilon = 1e-5 if transformers else 1e-6
    return kind, replace(
        made, values={**made.values, "position_offset": 0, "norm_epsilon": epsilon}
    )


def _stored(settings: Settings, present: Mapping[str, Tensor]) -> Iterator[tuple[str, Stored]]:
    """Yield each tensor, by the name that transformers gives it."""
    d, f, (source, target) = settings.dim, settings.feedforward, settings.vocab
    suffix = "_pre" if settings.norm == "pre" else ""
    if settings.one_embedding:
        yield "model.shared.weight", Stored("Wemb", (source, d), end=0.0)
    else:
        yield "model.encoder.embed_tokens.weight", Stored("encoder_Wemb", (source, d), end=0.0)
        yield "model.decoder.embed_tokens.weight", Stored("decoder_Wemb", (target, d), end=0.0)
    output = "decoder_ff_logit_out"
    if not settings.tied_output and f"{output}_W" in present:
        yield "lm_head.weight", Stored(f"{output}_W", (d, target), transposed=True, end=0.0)
    elif not settings.tied_output:
        yield "lm_head.weight", Stored(f"{output}_Wt", (target, d), end=0.0)
    if settings.bias:
        yield "final_logits_bias", Stored(f"{output}_b", (1, target), end=NEVER)
    for side, depth in zip(("encoder", "decoder"), settings.layers, strict=True):
        top, embedding = f"model.{side}.layer_norm", f"model.{side}.layernorm_embedding"
        if settings.final_norm:
            yield from _norm(top, f"{side}_top", "", d)
        if settings.embedding_norm:
            yield from _norm(embedding, f"{side}_emb", "_pre", d)
        for layer in range(depth):
            inner, outer = f"model.{side}.layers.{layer}", f"{side}_l{layer + 1}"
            for block, theirs in BLOCKS[side]:
                for x, projection in PROJECTIONS:
                    name = f"{inner}.{block}.{projection}"
                    yield (
                        f"{name}.weight",
                        Stored(f"{outer}_{theirs}_W{x}", (d, d), transposed=True),
                    )
                    yield f"{name}.bias", Stored(f"{outer}_{theirs}_b{x}", (1, d))
                yield from _norm(f"{inner}.{block}_layer_norm", f"{outer}_{theirs}_Wo", suffix, d)
            yield f"{inner}.fc1.weight", Stored(f"{outer}_ffn_W1", (d, f), transposed=True)
            yield f"{inner}.fc1.bias", Stored(f"{outer}_ffn_b1", (1, f))
            yield f"{inner}.fc2.weight", Stored(f"{outer}_ffn_W2", (f, d), transposed=True)
            yield f"{inner}.fc2.bias", Stored(f"{outer}_ffn_b2", (1, d))
            yield from _norm(f"{inner}.final_layer_norm", f"{outer}_ffn_ffn", suffix, d)


def _norm(name: str, theirs: str, suffix: str, d: int) -> Iterator[tuple[str, Stored]]:
    yield f"{name}.weight", Stored(f"{theirs}_ln_scale{suffix}", (1, d))
    yield f"{name}.bias", Stored(f"{theirs}_ln_bias{suffix}", (1, d))


def _weights(tensors: Mapping[str, Tensor], settings: Settings, reasons: Reasons) -> Weights:
    """Return the tensors by the names of transformers, each made when it is looked up."""
    all_stored = dict(_stored(settings, tensors))
    for stored in all_stored.values():
        tensor = tensors.get(stored.name)
        if tensor is None:
            reasons.add(f"{stored.name} is missing")
        elif tuple(tensor.shape) != stored.shape:
            reasons.add(f"{stored.name} is {tuple(tensor.shape)}, not {stored.shape}")
        elif not tensor.is_floating_point():
            reasons.add(f"{stored.name} is of type {tensor.dtype}")
    known = {stored.name for stored in all_stored.values()}
    for name in tensors:
        if name not in known:
            reasons.add(f"{name[:100]} is not a parameter of this network")
    return Weights({name: partial(_make, stored, tensors) for name, stored in all_stored.items()})


def _make(stored: Stored, tensors: Mapping[str, Tensor]) -> Tensor:
    return stored.make(tensors[stored.name])


def _rows(names: dict[int, str], size: int, file: str, reasons: Reasons) -> Rows:
    """Return the order of the entries; those beyond `size` are removed, as Marian does."""
    for number in [number for number in names if number >= size]:
        del names[number]
    ids = {token: number for number, token in names.items()}
    special = []
    for number, token, old in ((0, "</s>", "eos"), (1, "<unk>", "UNK")):
        if file.endswith((".yml", ".yaml", ".json")) and names.get(number, "") in ("", old):
            special.append(number)  # as vocabularies of Nematus have it
        elif token in ids:
            special.append(ids[token])
        else:
            reasons.add(f"{file} has no {token}")
            special.append(number)
    check_names(names, size, reasons, file)
    given = SpecialIds(size, size, *special)
    for fault in given.faults(size + 1):
        reasons.add(f"{file}: {fault}")
    return Rows.of(given, size + 1)


def _tokenizer(
    source: Source, file: str, names: dict[int, str], rows: Rows, side: int
) -> ForeignTokenizer:
    """Return the tokenizer of one side: 0 is the source, 1 the target."""
    model = MODELS[side]
    if file.endswith(".spm"):
        vocabulary = Vocabulary(rows.tokens(names), rows.control(names, ()))
        engine = SentencePiece(source.bytes(file, LIMIT), vocabulary, file)
        return ForeignTokenizer(engine, vocabulary)
    if source.has(model):
        return tagged_tokenizer(source.bytes(model, LIMIT), names, rows, side)
    vocabulary = Vocabulary(rows.tokens(names), rows.control(names, ()))
    return ForeignTokenizer(Words(vocabulary, "spaces"), vocabulary)


def _decoding(decoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recommended search options of `decoder.yml`."""
    beam, penalty = decoder.get("beam-size"), decoder.get("normalize", 0)
    if type(beam) is not int or not 1 < beam <= 64:
        return {}
    valid = type(penalty) in (int, float) and 0 <= penalty <= 10
    return {"beam": beam, "length_penalty": float(penalty) if valid else 0.0}
