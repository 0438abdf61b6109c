"""What a worker computes: translations, scores, attention, a search as a tree, languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zoo.data.tokenizer import Tokenizer
from zoo.decoding.steps import bounded
from zoo.errors import DecodingError
from zoo.serving.attention_size import most_shown, too_large
from zoo.serving.beam_tree import beam_tree
from zoo.serving.detection import detected
from zoo.serving.models import Models
from zoo.serving.steps import OnStep, score_in_steps
from zoo.translation.attention import printable
from zoo.translation.attention_page import explorer_kinds
from zoo.translation.translation import Translation
from zoo.translation.translator import Translator

Operation = Callable[[Models, dict[str, Any], list[Any], OnStep], list[Any]]


ATTENTION_BYTES = 16_000_000
"""The most bytes of attention weights that are shown; their answer in base64 is a third longer."""

LONGEST_WORD = 512
"""The most tokens without a space that are translated; such a text writes for minutes."""


def translate(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the translation of each text, as plain values."""
    translator = _translator(models, job)
    if job["options"].get("split", True):
        _check_words(translator, texts)
    made = [*translator.stream(texts, long_texts="split", on_step=on_step, **_options(job))]
    scores = _scores(translator, made, on_step) if job["token_scores"] else None
    return [_record(translator.checkpoint.target_tokenizer, one, scores) for one in made]


def score(models: Models, job: dict[str, Any], pairs: list[Any], on_step: OnStep) -> list[Any]:
    """Return each target token and its log probability, the end token's last."""
    translator = _translator(models, job)
    sources, targets = zip(*pairs, strict=True)
    scores = score_in_steps(translator.score, sources, targets, on_step)
    tokenizer = translator.checkpoint.target_tokenizer
    return [
        {"score": sum(row), "tokens": _token_scores(tokenizer, ids, row)}
        for ids, row in zip(tokenizer.encode(list(targets)), scores, strict=True)
    ]


def attention(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the attention weights of one text and its translation, by kind; {} if it has none."""
    translator = _translator(models, job)
    (text,) = texts
    target, options = job["target"], _options(job) if job["target"] is None else {}
    with bounded(*most_shown(translator.checkpoint, text, target, options, ATTENTION_BYTES)):
        made = translator.attention(text, target, required=False, on_step=on_step, **options)
    if sum(4 * weights.numel() for weights in made.weights.values()) > ATTENTION_BYTES:
        raise DecodingError(*too_large(ATTENTION_BYTES))
    return [
        {
            "source": made.source,
            "target": made.target,
            "text": made.text,
            "parts": made.parts,
            "respelled": made.respelled,
            "kinds": explorer_kinds(made),
        }
    ]


def tree(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the beam search of one text as a tree."""
    translator = _translator(models, job)
    (text,) = texts
    made = beam_tree(translator.checkpoint, text, _options(job), on_step)
    parts, respelled = translator.read_as(text)
    return [{**made, "parts": len(parts), "respelled": respelled}]


def detect(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the languages that each text may be in, the best first."""
    return [*detected(models, job["languages"], texts, on_step)]


OPERATIONS: dict[str, Operation] = {
    "translate": translate,
    "score": score,
    "attention": attention,
    "tree": tree,
    "detect": detect,
}


def _translator(models: Models, job: dict[str, Any]) -> Translator:
    """Return a job's translator, between the languages that it chooses."""
    return models.get(job).for_languages(*job["languages"])


def _check_words(translator: Translator, texts: Sequence[str]) -> None:
    """Refuse texts with a part that has no space, and is far longer than the sources of training.

    Raises:
        DecodingError: there is one.
    """
    trained = translator.checkpoint.about.trained_length
    encode = translator.checkpoint.source_tokenizer.encode
    for text in texts:
        if not (trained and any(len(word) > LONGEST_WORD for word in text.split())):
            continue
        words = [part for part in translator.parts(text) if len(part.split()) == 1]
        longest = max(map(len, encode(words)), default=0)
        if longest > max(LONGEST_WORD, 8 * trained):
            most = f"sources of training have up to {trained}"
            why = f"{longest:,} tokens without a space, and {most}"
            raise DecodingError("a text is too long", why, "Put spaces between its words")


def _options(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job's options, whose lists JSON has in place of tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in job["options"].items()}


def _scores(
    translator: Translator, made: Sequence[Translation], on_step: OnStep
) -> Iterator[list[float]]:
    """Return the log probabilities of each part's tokens, those of alternatives too, in order."""
    several = [one for best in made for one in (best, *best.alternatives)]
    sources = [ids for one in several for ids in one.source_ids]
    targets = [hypothesis.tokens for one in several for hypothesis in one.hypotheses]
    return iter(score_in_steps(translator.score_ids, sources, targets, on_step))


def _record(
    tokenizer: Tokenizer, one: Translation, scores: Iterator[list[float]] | None
) -> dict[str, Any]:
    """Return a translation as plain values; `scores` are those of its parts and what follows."""
    record: dict[str, Any] = {
        "text": one.text,
        "score": one.score,
        "finished": one.finished,
        "unknown": one.unknown,
        "parts": len(one.hypotheses),
        "divided": one.divided,
        "respelled": one.respelled,
        "lost_numbers": one.lost_numbers,
        "copied": one.copied,
        "unseen_words": one.unseen_words,
        "alignment": one.alignment,
    }
    if scores is not None:
        record["tokens"] = [
            score
            for written in one.hypotheses
            for score in _token_scores(tokenizer, written.tokens, next(scores), written.finished)
        ]
    record["alternatives"] = [_record(tokenizer, other, scores) for other in one.alternatives]
    return record


def _token_scores(
    tokenizer: Tokenizer, ids: Sequence[int], row: Sequence[float], ends: bool = True
) -> list[dict[str, Any]]:
    """Return each token with its log probability, the end token if it was written."""
    tokens = [*(tokenizer.token(i) for i in ids), "</s>"]
    pairs = list(zip(tokens, row, strict=True))
    return [
        {"token": printable(token), "log_prob": log_prob}
        for token, log_prob in pairs[: len(pairs) if ends else -1]
    ]
