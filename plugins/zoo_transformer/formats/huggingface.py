"""Export a Transformer as a Hugging Face folder that `AutoModelForSeq2SeqLM` loads.

The class follows from the norm and the positions: Marian, Pegasus, BART, mBART, or M2M-100, which
is NLLB's too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from zoo.interop import (
    Checkpoint,
    Exporter,
    ForeignTokenizer,
    export_card,
    in_dtype,
    recommended_search,
    write_json,
    write_tensors,
)
from zoo.nn import BEGIN, END, PADDING
from zoo_transformer.config import TransformerConfig
from zoo_transformer.formats.huggingface_vocabulary import (
    Numbering,
    ends_with_tag,
    numbering,
    tokenizer_reasons,
    write_tokenizer,
)
from zoo_transformer.formats.huggingface_weights import (
    POSITIONS,
    foreign_weights,
    holds_bias,
    output_bias,
)

ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "tanh": "tanh"
}  # fmt: skip
"""Its names of the activations."""


NEEDS_5 = "Needs transformers 5: earlier versions have one matrix for both embeddings of Pegasus"


class Family(NamedTuple):
    """A class of transformers."""

    name: str
    model_type: str
    architecture: str
    norm: str
    positions: str
    embedding_norm: bool = False


FAMILIES = (
    Family("Marian", "marian", "MarianMTModel", "post", "interleaved"),
    Family("Pegasus", "pegasus", "PegasusForConditionalGeneration", "pre", "interleaved"),
    Family("BART", "bart", "BartForConditionalGeneration", "post", "learned", True),
    Family("mBART", "mbart", "MBartForConditionalGeneration", "pre", "learned", True),
    Family("Pegasus", "pegasus", "PegasusForConditionalGeneration", "pre", "learned"),
    Family("M2M-100", "m2m_100", "M2M100ForConditionalGeneration", "pre", "fairseq"),
)


def family_of(config: TransformerConfig) -> Family | None:
    """Return the class with a configuration's norm, positions and, if possible, embedding norm.

    Pegasus stores its sinusoids, so that a folder may have learned positions in their place.
    """
    matched = [f for f in FAMILIES if (f.norm, f.positions) == (config.norm, config.positions)]
    equal = [f for f in matched if f.embedding_norm == config.embedding_norm]
    return next(iter(equal or matched), None)


class HuggingFace(Exporter):
    """Writes `config.json`, `model.safetensors`, `generation_config.json` and a tokenizer."""

    precisions: ClassVar[tuple[str, ...]] = ("float32", "float16", "bfloat16")
    version: ClassVar[int] = 3
    files: ClassVar[tuple[str, ...]] = (
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "vocab.json", "target_vocab.json", "source.spm", "target.spm",
        "sentencepiece.bpe.model",
    )  # fmt: skip

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        """Return what the class of its norm and positions cannot express."""
        config = cast(TransformerConfig, checkpoint.config)
        family = family_of(config)
        shares = ["none", "embeddings", "all"]
        lacking = f"no class has norm {config.norm} with positions {config.positions}"
        if (config.norm, config.positions) == ("post", "fairseq"):
            lacking = "norm post with positions fairseq is that of FSMT, which is only imported"
        reasons = {
            lacking: family is None,
            "unbiased_norm": config.unbiased_norm,
            f"norm_epsilon {config.epsilon}: theirs is 1e-5": config.epsilon != 1e-5,
            "source_end is false: theirs read it": not config.source_end
            and not (family and family.model_type == "mbart" and ends_with_tag(checkpoint)),
        }
        result = [reason for reason, holds in reasons.items() if holds]
        if family is None:
            return result
        name = family.name
        if family.model_type == "marian":
            shares.append("target")
        one = config.max_source_positions == config.max_target_positions
        reasons = {
            f"embedding_norm is {config.embedding_norm}: {name} differs": config.embedding_norm
            != family.embedding_norm,
            f"a norm after each stack: {name} has none": config.norm == "post"
            and config.stack_norm,
            f"no norm after each stack: {name} has one": config.norm == "pre"
            and not config.stack_norm,
            f"share is {config.share}: {name} has {' or '.join(shares)}": config.share
            not in shares,
            f"{name} has one length for both tables of positions": config.positions == "learned"
            and not one,
        }
        result += [reason for reason, holds in reasons.items() if holds]
        result += tokenizer_reasons(checkpoint, family.model_type)
        return result + ([] if result else _vocabulary_reasons(checkpoint, family))

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the folder."""
        config = cast(TransformerConfig, checkpoint.config)
        family = cast(Family, family_of(config))
        both = _numberings(checkpoint, family)
        weights = in_dtype(foreign_weights(checkpoint, *both), precision)
        write_tensors(folder / "model.safetensors", weights, metadata={"format": "pt"})
        model = foreign_config(config, family, *both)
        tied = {"tie_word_embeddings": "lm_head.weight" not in weights}
        write_json(folder / "config.json", {**model, **tied, "dtype": precision})
        write_json(folder / "generation_config.json", generation(checkpoint, both[1]))
        write_tokenizer(checkpoint, family.model_type, *both, folder)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the name of the library."""
        notes = [
            "Load it with `AutoModelForSeq2SeqLM` and `AutoTokenizer`; no code of this repository "
            "runs"
        ]
        config = cast(TransformerConfig, checkpoint.config)
        family = cast(Family, family_of(config))
        if family.model_type == "pegasus" and not config.one_vocabulary:
            notes.append(NEEDS_5)
        return export_card(checkpoint, folder, precision, notes, "transformers")


def _numberings(checkpoint: Checkpoint, family: Family) -> tuple[Numbering, Numbering]:
    """Return the orders of both vocabularies; where no entry starts the decoder, both get one."""
    weights = dict(checkpoint.model.named_parameters())
    target = weights["target_embedding.weight"]
    source = weights.get("source_embedding.weight", target)
    one = numbering(checkpoint.source_tokenizer, family.model_type, source)
    other = numbering(checkpoint.target_tokenizer, family.model_type, target)
    if not one.starts and other.starts:
        return one.with_any_start(), other  # no source has a begin token
    if not other.starts:
        return one.with_own_start(), other.with_own_start()
    return one, other


def _vocabulary_reasons(checkpoint: Checkpoint, family: Family) -> list[str]:
    """Return why a class cannot have a checkpoint's vocabulary."""
    config = cast(TransformerConfig, checkpoint.config)
    target = _numberings(checkpoint, family)[1]
    padding = target.of(PADDING)
    offset = {"pegasus": 0, "marian": 0, "m2m_100": padding + 1}.get(family.model_type, 2)
    reasons = []
    if config.position_offset != offset:
        reasons.append(f"position_offset is {config.position_offset}: theirs is {offset}")
    weights = dict(checkpoint.model.named_parameters())
    if family.model_type == "m2m_100" and not holds_bias(output_bias(weights, target), weights):
        reasons.append("a bias in the output layer, which M2M-100's matrix cannot hold")
    return reasons


def generation(checkpoint: Checkpoint, target: Numbering) -> dict[str, Any]:
    """Return the recommended search, which never writes padding or unknown, nor nothing."""
    tokenizer = checkpoint.target_tokenizer
    prefix = tokenizer.entries.prefix if isinstance(tokenizer, ForeignTokenizer) else ()
    return {
        "bos_token_id": target.begin,
        "eos_token_id": target.of(END),
        "pad_token_id": target.of(PADDING),
        "decoder_start_token_id": target.start,
        "forced_bos_token_id": target.of(prefix[0]) if prefix else None,
        "forced_eos_token_id": None,
        **recommended_search(checkpoint, target.of, BEGIN in target.ids),
    }


def foreign_config(
    config: TransformerConfig, family: Family, source: Numbering, target: Numbering
) -> dict[str, Any]:
    """Return the values of `config.json`; those that differ from a class's defaults are all set."""
    learned = config.positions == "learned"
    values: dict[str, Any] = {
        "model_type": family.model_type,
        "architectures": [family.architecture],
        "vocab_size": len(source.ids),
        "d_model": config.dim,
        "max_position_embeddings": config.max_source_positions if learned else POSITIONS,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embeddings,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "is_encoder_decoder": True,
        "pad_token_id": target.of(PADDING),
        "bos_token_id": target.begin,
        "eos_token_id": target.of(END),
        "decoder_start_token_id": target.start,
        "forced_eos_token_id": None,
    }
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        values |= {
            f"{side}_layers": layers,
            f"{side}_attention_heads": config.heads,
            f"{side}_ffn_dim": config.feedforward_dim,
            f"{side}_layerdrop": 0.0,
        }
    values["num_hidden_layers"] = config.encoder_layers
    if family.model_type == "marian":
        values |= {
            "decoder_vocab_size": len(target.ids),
            "share_encoder_decoder_embeddings": config.share in ("embeddings", "all"),
        }
    return values
