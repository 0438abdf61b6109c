"""What a worker computes: translations, scores, attention, a search as a tree, languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zoo.data.batches import batch_sources
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.forced import forced_log_probs
from zoo.serving.beam_tree import beam_tree
from zoo.serving.detection import detected
from zoo.serving.models import Models
from zoo.translation.attention import compute_attention, printable
from zoo.translation.attention_page import explorer_kinds
from zoo.translation.translation import Translation
from zoo.translation.translator import Translator

OnStep = Callable[[], None]
"""Called between the steps of a search; it raises `StoppedError` where no client waits."""

Operation = Callable[[Models, dict[str, Any], list[Any], OnStep], list[Any]]


class StoppedError(Exception):
    """Work that was given up before its end."""


def translate(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the translation of each text, as plain values."""
    translator = _translator(models, job)
    translations = translator.stream(texts, long_texts="split", on_step=on_step, **_options(job))
    return [_record(translator, one, job["token_scores"]) for one in translations]


def score(models: Models, job: dict[str, Any], pairs: list[Any], on_step: OnStep) -> list[Any]:
    """Return each target token and its log probability, the end token's last."""
    translator = _translator(models, job)
    sources, targets = zip(*pairs, strict=True)
    scores = translator.score(sources, targets)
    tokenizer = translator.checkpoint.target_tokenizer
    return [
        {
            "score": sum(row),
            "tokens": [
                {"token": printable(token), "log_prob": log_prob}
                for token, log_prob in zip(_tokens(tokenizer, ids), row, strict=True)
            ],
        }
        for ids, row in zip(tokenizer.encode(list(targets)), scores, strict=True)
    ]


def attention(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the attention weights of one text and its translation, by kind; {} if it has none."""
    translator = _translator(models, job)
    checkpoint = translator.checkpoint
    (text,) = texts
    if job["target"] is None:
        made = translator.stream([text], split=False, on_step=on_step, **_options(job))
        translation = next(made)
        hypotheses = translation.hypotheses
        target: Sequence[int] = hypotheses[0].tokens if hypotheses else ()
    else:
        target = checkpoint.target_tokenizer.encode([job["target"]])[0]
    weights = compute_attention(checkpoint, text, target, required=False)
    return [
        {
            "source": weights.source,
            "target": weights.target,
            "text": checkpoint.target_tokenizer.decode(target),
            "kinds": explorer_kinds(weights),
        }
    ]


def tree(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the beam search of one text as a tree."""
    translator = _translator(models, job)
    (text,) = texts
    return [beam_tree(translator.checkpoint, text, _options(job), on_step)]


def detect(models: Models, job: dict[str, Any], texts: list[Any], on_step: OnStep) -> list[Any]:
    """Return the languages that each text may be in, the best first."""
    return [*detected(models, job["languages"], texts)]


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


def _options(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job's options, whose lists JSON has in place of tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in job["options"].items()}


def _record(translator: Translator, one: Translation, token_scores: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "text": one.text,
        "score": one.score,
        "finished": one.finished,
        "unknown": one.unknown,
        "divided": one.divided,
        "alignment": one.alignment,
    }
    if token_scores:
        record["tokens"] = _token_scores(translator, one)
    record["alternatives"] = [_record(translator, o, token_scores) for o in one.alternatives]
    return record


def _token_scores(translator: Translator, one: Translation) -> list[dict[str, Any]]:
    """Return each token of a translation with its log probability; none for a text of parts."""
    if len(one.hypotheses) != 1:
        return []
    checkpoint, ids = translator.checkpoint, one.hypotheses[0].tokens
    source, mask = batch_sources(one.source_ids)
    (row,) = forced_log_probs(checkpoint.model, source, mask, [ids])
    tokens = _tokens(checkpoint.target_tokenizer, ids)
    count = len(tokens) if one.finished else len(tokens) - 1
    return [
        {"token": printable(token), "log_prob": log_prob}
        for token, log_prob in zip(tokens[:count], row[:count], strict=True)
    ]


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    return [*(tokenizer.token(i) for i in ids), "</s>"]
