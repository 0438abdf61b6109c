"""The answers of the API, typed; the OpenAPI description is made of these and the requests."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

PARTS = (
    "In how many parts POST /api/translate reads the text: sentences, and parts of a sentence that "
    "is longer than those of training. Here it is read whole."
)
RESPELLED = (
    "Whether POST /api/translate reads capitals or marks in the spelling of training. Here the "
    "text is read as it is."
)


class TokenScore(BaseModel):
    """A target token and the natural log of its probability."""

    token: str
    log_prob: float


class Translation(BaseModel):
    """A translation; `score` is the natural log of its probability."""

    text: str
    score: float
    finished: bool = Field(description="False where it was cut at the longest length.")
    unknown: bool = Field(description="True where no token of the source is in the vocabulary.")
    parts: int = Field(description="In how many parts the text was read, such as sentences.")
    divided: bool = Field(
        description="True where a sentence longer than those of training was translated in parts."
    )
    respelled: bool = Field(
        description="True where capitals or marks were read in the spelling of training."
    )
    lost_numbers: list[str] = Field(
        description="Numbers of the text that the translation lacks, or has in words."
    )
    copied: list[str] = Field(
        description="Numbers, addresses and names for which the model read stand-ins."
    )
    unseen_words: list[str] = Field(
        description="Words that the model has not learned: their translation is a guess."
    )
    alignment: list[tuple[int, int]] | None = Field(
        description="Pairs of source and target word, counted from 0; null unless asked for."
    )
    tokens: list[TokenScore] | None = Field(
        None,
        description="The tokens of each part in order, as the model wrote them; </s> ends a part.",
    )
    alternatives: list[Translation] = Field(description="The next best translations.")


class TranslateAnswer(BaseModel):
    """A translation of each text, in order."""

    translations: list[Translation]


class Score(BaseModel):
    """The log probability of a target, and of each of its tokens."""

    score: float
    tokens: list[TokenScore]


class ScoreAnswer(BaseModel):
    """A score for each pair, in order."""

    scores: list[Score]


class Weights(BaseModel):
    """The attention of one kind; weights are (layers, heads, queries, keys)."""

    layers: int
    heads: int
    queries: list[str]
    keys: list[str]
    weights: str = Field(description="Little-endian float32 values in base64.")


class AttentionAnswer(BaseModel):
    """The attention of writing one target; `kinds` is empty for a model without attention."""

    source: list[str]
    target: list[str]
    text: str
    parts: int = Field(description=PARTS)
    respelled: bool = Field(description=RESPELLED)
    kinds: dict[str, Weights]


class Node(BaseModel):
    """A prefix in a beam search."""

    parent: int = Field(description="Index of the parent among the nodes of the step before.")
    token: str
    log_prob: float
    score: float
    status: str = Field(description="kept, finished, pruned, or open where the search ended.")
    rank: int | None = Field(description="Rank among the hypotheses, from 0.")


class Hypothesis(BaseModel):
    """A hypothesis that a search returned."""

    text: str
    score: float
    rank_score: float
    finished: bool


class TreeAnswer(BaseModel):
    """A beam search: the nodes of each step, and the hypotheses, the best first."""

    source: list[str]
    parts: int = Field(description=PARTS)
    respelled: bool = Field(description=RESPELLED)
    beam: int
    steps: list[list[Node]]
    hypotheses: list[Hypothesis]


class NamedLanguage(BaseModel):
    """A language that can be chosen."""

    code: str
    name: str


class ModelSummary(BaseModel):
    """A checkpoint that the server offers."""

    name: str
    model: str
    architecture: str
    summary: str
    source_language: str
    target_language: str
    source_languages: list[NamedLanguage] = Field(
        description="The languages that it reads, the default first."
    )
    target_languages: list[NamedLanguage] = Field(
        description="The languages that it writes, the default first."
    )
    sources: list[str] = Field(
        ["text"],
        description="What the model reads. With several, a text is a JSON object of them.",
    )
    parameters: int
    problem: str = ""
    decoding: dict[str, Any] = Field({}, description="The recommended options of the search.")
    examples: list[str] = Field([], description="Source texts of the kind that it translates.")


class ModelsAnswer(BaseModel):
    """All checkpoints."""

    models: list[ModelSummary]


class ModelDetails(ModelSummary):
    """A checkpoint with its card (Markdown), parameters by block, and training curve."""

    paper: str
    blocks: dict[str, int]
    config: dict[str, Any]
    curve: dict[str, list[tuple[float, float]]]
    card: str


class LibreTranslateAnswer(BaseModel):
    """LibreTranslate's answer; each value is a list where `q` is one."""

    translatedText: str | list[str]  # noqa: N815  # LibreTranslate's key
    detectedLanguage: Any = None  # noqa: N815  # LibreTranslate's key
    alternatives: list[str] | list[list[str]] | None = None


class Detection(BaseModel):
    """A language and the confidence in percent."""

    language: str
    confidence: float


class Language(NamedLanguage):
    """A source language and the target languages that it can be translated into."""

    targets: list[str]


class ErrorAnswer(BaseModel):
    """Any error."""

    error: str
    code: str
