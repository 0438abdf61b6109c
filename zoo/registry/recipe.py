"""How a model is trained: every choice that is not part of the network's configuration."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from zoo.registry.config import Settings
from zoo.registry.open_shelf import Named, name_of


def _named(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return value
    raise ValueError("a name is needed, or a table with a name and options")


Entry = Annotated[Any, AfterValidator(_named)]
"""An entry of an open shelf: its name, or a table with its `name` and its options."""


def _one_or_more(value: Any) -> Any:
    for named in value if isinstance(value, list) else [value]:
        _named(named)
    if not value:
        raise ValueError("at least one is needed")
    return value


Entries = Annotated[Any, AfterValidator(_one_or_more)]
"""An entry, or a list of them."""


OPEN = {
    "tokenizer": "tokenizers",
    "target_tokenizer": "tokenizers",
    "objective": "objectives",
    "schedule": "schedules",
    "optimizer": "optimizers",
    "initialization": "initializations",
    "augmentations": "augmentations",
}
"""The recipe's fields that name entries, and their shelves."""


LARGEST = 2**53
"""The largest number of updates, tokens and the like; floats have all up to it exactly."""

Count = Annotated[int, Field(gt=0, le=LARGEST)]
"""A number of updates, tokens and the like."""


class Recipe(Settings):
    """A complete training recipe. Every value can be set in a catalogue, a file and by `--set`.

    `tokenizer`, `objective`, `optimizer`, `schedule`, `initialization` and `augmentations` are
    names, which training looks up on their shelves. An entry with options is named by a table:
    `schedule = {name = "waves", period = 100}`.
    TOML has no null: there, `"none"` stands for None.
    """

    tokenizer: Entry = Field(
        "bpe", description="kind of tokenizer: bpe, unigram, word, char, byte or one of a plugin"
    )
    target_tokenizer: Entry | None = Field(
        None, description="kind of tokenizer of the target, unless it is the source's or is shared"
    )
    vocab_size: int = Field(
        8000, ge=5, le=10_000_000, description="most entries of a vocabulary, special ones included"
    )
    shared_vocab: bool = Field(False, description="one tokenizer for source and target")
    max_length: Count = Field(
        256, ge=3, description="longest source or target in tokens; longer pairs are skipped"
    )
    batch_tokens: Count = Field(
        4096, description="most tokens of a batch on its longer side, padding included"
    )
    batch_sentences: Count | None = Field(
        None, description="sentences per batch, in place of batch_tokens"
    )
    accumulate: Count = Field(1, description="batches per update, whose gradients are accumulated")
    initialization: Entry = Field(
        "own", description="weights as the network draws them, or Xavier (Glorot) uniform"
    )
    objective: Entries = Field(
        "cross_entropy",
        description="what is minimized: cross_entropy, or a list whose weighted sum is",
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability mass spread over the whole vocabulary"
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        description="run each batch twice with different dropout masks; weight of their divergence",
    )
    word_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that an input token is replaced by the unknown token",
    )
    bpe_dropout: float = Field(
        0.0, ge=0, lt=1, description="probability that a BPE merge is skipped, redrawn each epoch"
    )
    augmentations: list[Entry] = Field(
        [], description="further changes of the corpus of each epoch, or of the inputs of a batch"
    )
    freeze: tuple[str, ...] = Field(
        (),
        strict=False,  # JSON's lists are read as tuples
        description="patterns of the names of weights that are not trained, such as encoder.*",
    )
    optimizer: Entry = Field("adam", description="adam or adamw")
    weight_decay: float = Field(
        0.0, ge=0, description="weight decay of matrices: adam adds it to the gradient"
    )
    learning_rate: PositiveFloat = Field(1e-3, description="peak learning rate; noam uses factor")
    schedule: Entry = Field(
        "inverse_sqrt",
        description="learning rate schedule: constant, inverse_sqrt, cosine, one_cycle or noam",
    )
    warmup: int = Field(
        400, ge=0, le=LARGEST, description="updates over which the learning rate rises"
    )
    factor: PositiveFloat = Field(1.0, description="factor of the noam schedule")
    beta1: float = Field(0.9, ge=0, lt=1, description="Adam's decay of the first moment")
    beta2: float = Field(0.98, ge=0, lt=1, description="Adam's decay of the second moment")
    epsilon: PositiveFloat = Field(1e-9, description="Adam's epsilon")
    clip: PositiveFloat | None = Field(1.0, description="largest norm of the whole gradient")
    steps: Count | None = Field(None, description="stop after this many updates")
    epochs: Count | None = Field(None, description="stop after this many epochs")
    minutes: PositiveFloat | None = Field(None, description="stop after this many minutes")
    patience: Count | None = Field(
        None, description="stop after this many validations without improvement"
    )
    cooldown: float = Field(
        0.0,
        ge=0,
        le=1,
        description="before patience ends a run, the rate decays to zero; fraction of the updates",
    )
    select: str = Field(
        "last",
        description="release the last weights, or those of the best validation by loss, bleu, chrf "
        "or another metric",
    )
    tolerance: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="validations worse by at most this fraction count as equal; the last is chosen",
    )
    average_last: Count = Field(
        1, description="release the mean of the weights at this many last validations"
    )
    average_decay: float | None = Field(
        None, gt=0, lt=1, description="release an exponential average with this decay per update"
    )
    parent_share: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="of a tuned checkpoint: the part of its weights in those that are released",
    )
    validate_every: Count | None = Field(
        None, description="updates between validations; by default one validation per epoch"
    )
    bleu_sentences: int = Field(
        0, ge=0, description="validation sentences to translate greedily and score"
    )
    samples: int = Field(3, ge=0, description="validation sentences whose translations are shown")
    save_every: Count = Field(
        500, description="updates between saved states; the end of an epoch saves one after 20"
    )
    seed: int = Field(
        1, ge=0, lt=2**32, description="seed of the weights, the order of the data and dropout"
    )
    precision: Literal["float32", "bf16", "auto"] = Field(
        "float32", description="precision of matrix products; auto times both and takes the faster"
    )
    compile: bool = Field(False, description="compile the network with torch.compile")

    @model_validator(mode="before")
    @classmethod
    def _read_none(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: None if value == "none" else value for key, value in values.items()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.select not in ("last", "loss") and not self.bleu_sentences:
            raise ValueError(
                f"select = {self.select} needs sentences to score: set bleu_sentences = 1000"
            )
        if self.patience and self.select == "last":
            raise ValueError("patience needs a measure of improvement: set select = loss, or bleu")
        if self.average_decay and self.average_last > 1:
            raise ValueError("average_last and average_decay exclude each other: set one of them")
        names = [name_of(named) for named in self.objectives]
        if self.r_drop and "cross_entropy" not in names:
            raise ValueError("r_drop is for the objective cross_entropy: add it to the list")
        if self.bpe_dropout and any(name_of(named) != "bpe" for named in self.tokenizers):
            raise ValueError("bpe_dropout skips BPE merges: set tokenizer = bpe")
        return self

    @property
    def objectives(self) -> list[Named]:
        """The objectives, one or more."""
        return self.objective if isinstance(self.objective, list) else [self.objective]

    @property
    def tokenizers(self) -> tuple[Named, Named]:
        """The kinds of tokenizer of source and target."""
        target = None if self.shared_vocab else self.target_tokenizer
        return self.tokenizer, target or self.tokenizer

    def to_toml(self) -> str:
        """Return every value as TOML, which reads back as an equal recipe."""
        lines = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            lines.append(f"# {field.description}\n{name} = {toml_value(value)}\n")
        return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Return a plain value as TOML; None becomes "none"."""
    if isinstance(value, dict):
        pairs = (f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's strings, numbers and booleans are TOML's too.
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
