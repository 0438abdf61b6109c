"""How a model is trained: every choice that is not the network's own."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from zoo.registry.config import Settings


class Recipe(Settings):
    """A complete training recipe. Every value can be set in a catalogue, a file and by `--set`.

    Where a value may be left open, `"none"` says so in TOML, which has no word for it.
    """

    tokenizer: Literal["word", "char", "bpe", "unigram"] = Field(
        "bpe", description="how text is cut into tokens"
    )
    vocab_size: PositiveInt = Field(
        8000, ge=5, le=10_000_000, description="most entries of a vocabulary, special ones included"
    )
    shared_vocab: bool = Field(False, description="one tokenizer for both sides")
    max_length: PositiveInt = Field(
        256, ge=3, description="longest source or target in tokens; longer pairs are left out"
    )
    batch_tokens: PositiveInt = Field(
        4096, description="most tokens of a batch on its larger side, padding included"
    )
    batch_sentences: PositiveInt | None = Field(
        None, description="sentences in a batch, instead of bounding its tokens"
    )
    accumulate: PositiveInt = Field(
        1, description="batches to an update, whose gradients are added up"
    )
    initialisation: Literal["own", "xavier"] = Field(
        "own", description="weights as the network draws them, or each matrix by Glorot's uniform"
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability mass spread over the whole vocabulary"
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        description="read each batch twice, and weigh by this how far the two differ by dropout",
    )
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="chance that a token read, of either side, is made unknown"
    )
    bpe_dropout: float = Field(
        0.0, ge=0, lt=1, description="chance that a merge of subwords is left out, anew each epoch"
    )
    optimiser: Literal["adam", "adamw"] = Field("adam", description="how gradients become updates")
    weight_decay: float = Field(
        0.0, ge=0, description="pull of every matrix to zero: in Adam's gradient, beside AdamW's"
    )
    learning_rate: PositiveFloat = Field(1e-3, description="peak rate, where schedule uses one")
    schedule: Literal["constant", "noam", "inverse_sqrt", "cosine"] = Field(
        "inverse_sqrt", description="how the rate changes"
    )
    warmup: int = Field(400, ge=0, description="steps over which the rate rises")
    factor: PositiveFloat = Field(1.0, description="factor of Noam's schedule")
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the mean")
    beta2: float = Field(0.98, ge=0, lt=1, description="Adam's decay of the square")
    epsilon: PositiveFloat = Field(1e-9, description="Adam's epsilon")
    clip: PositiveFloat | None = Field(1.0, description="largest norm of the whole gradient")
    steps: PositiveInt | None = Field(None, description="stop after this many updates")
    epochs: PositiveInt | None = Field(None, description="stop after this many passes")
    minutes: PositiveFloat | None = Field(None, description="stop after this much time")
    patience: PositiveInt | None = Field(
        None, description="stop after this many validations in a row without a better one"
    )
    select: Literal["last", "loss", "bleu"] = Field(
        "last", description="whose weights to release: the last, or those of the best validation"
    )
    average_last: PositiveInt = Field(
        1, description="release the mean of the weights at this many validations"
    )
    average_decay: float | None = Field(
        None, gt=0, lt=1, description="release an average that keeps this share at each update"
    )
    validate_every: PositiveInt | None = Field(
        None, description="updates between validations; by default one an epoch"
    )
    bleu_sentences: int = Field(
        0, ge=0, description="held-out sentences to translate greedily and score each time"
    )
    samples: int = Field(3, ge=0, description="held-out sentences whose translations are shown")
    save_every: PositiveInt = Field(
        500, description="updates between saved states, besides one at the end of each epoch"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="seed of weights, order and dropout")
    precision: Literal["float32", "bf16", "auto"] = Field(
        "float32", description="what products are computed in; auto measures both and takes one"
    )
    compile: bool = Field(False, description="have torch.compile make kernels for the network")

    @model_validator(mode="before")
    @classmethod
    def _read_none(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: None if value == "none" else value for key, value in values.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.select == "bleu" and not self.bleu_sentences:
            raise ValueError("select = bleu needs sentences to score: set bleu_sentences = 1000")
        if self.patience and self.select == "last":
            raise ValueError("patience asks what is better: set select = loss, or bleu")
        if self.average_decay and self.average_last > 1:
            raise ValueError("average_last and average_decay are two ways: set one of them")
        if self.bpe_dropout and self.tokenizer != "bpe":
            raise ValueError("bpe_dropout leaves out merges: set tokenizer = bpe")
        return self

    def to_toml(self) -> str:
        """Return every value as TOML, which reads back as an equal recipe."""
        lines = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            lines.append(f"# {field.description}\n{name} = {toml_value(value)}\n")
        return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Return a plain value as TOML; None is "none"."""
    # JSON's strings, numbers, booleans and lists are TOML's too.
    return json.dumps("none" if value is None else value)
