"""The requests of the API, typed; the OpenAPI description is made of these and the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator

MOST_BEAM = 16

TREE_BEAM = 8
"""The widest beam that is shown as a tree."""


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):  # Python counts with them; no client means to
        raise ValueError("Input should be a valid number, not true or false")
    return value


NOT_BOOLEAN = BeforeValidator(_no_boolean)
"""Follows the bounds of a number that may be null: only then does its JSON schema have them."""

Whole = Annotated[int, NOT_BOOLEAN]
Real = Annotated[float, NOT_BOOLEAN]

Token = Annotated[str, Field(min_length=1, max_length=100)]


class FirstFault(FailFast):
    """Of a list, the first wrong item is reported.

    To list all those of a body of 1 MB took five seconds, and other requests waited.
    """

    __hash__ = object.__hash__  # a type of a union needs one


Texts = Annotated[list[str], FirstFault()]
Pairs = Annotated[list[tuple[str, str]], FirstFault()]


class Strict(BaseModel):
    """A request: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class Languages(Strict):
    """The languages of a checkpoint that knows several, such as M2M-100."""

    source_lang: str = Field(
        "",
        max_length=100,
        description="A source language by English name or code. Without it, the default one.",
    )
    target_lang: str = Field(
        "",
        max_length=100,
        description="A target language by English name or code. Without it, the default one.",
    )

    def languages(self) -> tuple[str, str]:
        """Return both, empty where none is chosen."""
        return self.source_lang, self.target_lang


def _without_defaults(schema: dict[str, Any]) -> None:
    """Leave the defaults of the search out of a JSON schema.

    Generated clients send each default, in place of what the checkpoint recommends.
    """
    for name in _search_options():
        schema["properties"][name].pop("default", None)


def _search_options() -> set[str]:
    return set(SearchRequest.model_fields) - {"checkpoint"} - set(Languages.model_fields)


class SearchRequest(Languages):
    """What every request that translates takes.

    Options that are not given are those that the checkpoint recommends.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    checkpoint: str = Field(description="The name of a checkpoint, as GET /api/models lists it.")
    beam: Whole = Field(
        1,
        ge=1,
        le=MOST_BEAM,
        description="Hypotheses kept at each step; 1 is greedy search. Without it, the beam that "
        "the checkpoint recommends, or 1.",
    )
    length_penalty: Real = Field(
        0.0, ge=0, le=10, description="Exponent of the length penalty; 0 ranks by probability."
    )
    coverage_penalty: Real = Field(0.0, ge=0, le=10, description="Weight of the coverage penalty.")
    max_length: Annotated[int, Field(ge=1, le=1000), NOT_BOOLEAN] | None = Field(
        None, description="Most target tokens, the end token included."
    )
    min_length: Whole = Field(
        1, ge=1, le=1000, description="Fewest target tokens, the end token included."
    )
    banned: list[Token] = Field(
        [],
        max_length=100,
        description="Tokens of the target vocabulary that are never written; ▁ marks a space.",
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=1, le=100), NOT_BOOLEAN] | None = Field(
        None, description="No translation has so many tokens in a row twice."
    )
    repetition_penalty: Real = Field(
        1.0,
        gt=0,
        le=100,
        description="Factor on the log probability of tokens already written; above 1 discourages "
        "repetition.",
    )

    def options(self) -> dict[str, Any]:
        """Return the options of the search that were given."""
        names = _search_options() & self.model_fields_set
        return {name: getattr(self, name) for name in sorted(names)}


class Reading(Strict):
    """How a text is read."""

    split: bool = Field(
        True,
        description="Translate the sentences of a text one by one; false reads it whole and as it "
        "is.",
    )
    splitter: str = Field(
        "",
        max_length=200,
        description="What splits sentences, as `zoo list splitters` names it. Without it, "
        "`sentencex` if the source language is known.",
    )
    source_prefix: str = Field(
        "",
        max_length=1000,
        description="A text that is read before each text or sentence, such as a task's tag.",
    )


class RichRequest(SearchRequest, Reading):
    """What requests for whole translations take besides."""

    n_best: Whole = Field(1, ge=1, le=MOST_BEAM, description="Translations returned for each text.")
    prefix: str = Field("", max_length=1000, description="What every translation begins with.")
    alignment: bool = Field(False, description="Return pairs of aligned words.")
    token_scores: bool = Field(False, description="Return each token's log probability.")

    @model_validator(mode="after")
    def _fits(self) -> RichRequest:
        if "beam" in self.model_fields_set and self.n_best > self.beam:
            raise ValueError(f"n_best {self.n_best} needs a beam of at least {self.n_best}")
        return self

    def options(self) -> dict[str, Any]:
        """Return the options of the search and of the translation."""
        names = ("n_best", "prefix", "alignment", *Reading.model_fields)
        values = {name: getattr(self, name) for name in names}
        fields = type(self).model_fields
        changed = {name: v for name, v in values.items() if v != fields[name].default}
        return {**super().options(), **changed}


class TranslateRequest(RichRequest):
    """Texts to translate."""

    texts: Texts = Field(min_length=1, description="The texts, each translated by itself.")


class StreamRequest(SearchRequest, Reading):
    """A long text to translate piece by piece."""

    text: str = Field(
        description="The text; it is split at line breaks and, if `split` is true, at ends of "
        "sentences."
    )

    def options(self) -> dict[str, Any]:
        """Return the options of the search for a piece: it is a sentence."""
        reading = {"splitter": "lines"} if self.split else {"split": False}
        return {**super().options(), **reading, "source_prefix": self.source_prefix}


class ScoreRequest(Languages):
    """Translations to score."""

    checkpoint: str
    pairs: Pairs = Field(min_length=1, description="Pairs of source and target.")


class AttentionRequest(SearchRequest):
    """A text whose attention weights are wanted."""

    text: str
    target: str | None = Field(None, description="A target, in place of the model's translation.")


class TreeRequest(SearchRequest):
    """A text whose beam search is wanted as a tree."""

    text: str
    beam: Whole = Field(
        1,
        ge=1,
        le=TREE_BEAM,
        description="Hypotheses kept at each step. Without it, the beam that the checkpoint "
        "recommends, or 1.",
    )


class LibreTranslateRequest(BaseModel):
    """LibreTranslate's request; keys that this server does not use are ignored."""

    q: str | Texts
    source: str = Field("auto", min_length=1, max_length=100)
    target: str = Field(min_length=1, max_length=100)
    format: Literal["text", "html", ""] | None = None  # empty: text, as in LibreTranslate
    alternatives: Whole = Field(0, ge=0, le=MOST_BEAM - 1)
    api_key: str | None = None


class DetectRequest(BaseModel):
    """A text whose language is wanted."""

    q: str
    api_key: str | None = None
