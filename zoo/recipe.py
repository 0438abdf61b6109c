"""How a model is trained: every choice that is not the network's own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from zoo.config import Settings


class Recipe(Settings):
    """A complete training recipe. Every value can be set in a catalogue and by `--set`."""

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
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability mass spread over the whole vocabulary"
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
    validate_every: PositiveInt | None = Field(
        None, description="updates between validations; by default one an epoch"
    )
    save_every: PositiveInt = Field(500, description="updates between saved states")
    seed: int = Field(1, ge=0, lt=2**32, description="seed of weights, order and dropout")
