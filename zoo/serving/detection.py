"""The language of a text, from the vocabularies and checkpoints that are served."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import SHARED, SOURCE
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, ZooError
from zoo.nn.contract import END, UNKNOWN
from zoo.serving.checkpoints import state_of
from zoo.serving.errors import CheckpointGoneError
from zoo.serving.models import Models
from zoo.serving.steps import OnStep, score_in_steps
from zoo.translation.translator import Translator

CHARACTERS = 200
"""How much of a text is scored to choose among languages of one vocabulary."""


def detected(
    models: Models,
    languages: Mapping[str, dict[str, Any]],
    texts: Sequence[str],
    on_step: OnStep,
) -> list[list[dict[str, Any]]]:
    """Return, for each text, the languages with their confidences in percent, the best first.

    A tokenizer's value is the share of characters in known tokens, times the mean length of a
    token: a vocabulary cuts its own language into few long pieces. A language's value is that of
    its best tokenizer. Languages of one shared vocabulary have the same value, which is divided by
    how probable the text is where a checkpoint writes it in each of them; else by how much of the
    text is known to those that read it: of English and Hindi, one knows no Devanagari.

    Args:
        models: the loaded checkpoints.
        languages: for each, its `folders` of checkpoints that read it, or write it with a shared
            vocabulary, its `readers` of those that read it, and as `writer` the job of one that
            writes it so, or None.
        texts: the texts, none of them empty.
        on_step: called between the steps; what it raises ends the work.
    """
    coverages = {}
    for language, about in languages.items():
        on_step()
        coverages[language] = _coverages(about["folders"], texts)
    values = [{language: of_texts[i][0] for language, of_texts in coverages.items()}
              for i in range(len(texts))]  # fmt: skip
    tied: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, of_text in enumerate(values):
        highest = max(of_text.values())
        tied[tuple(name for name, value in of_text.items() if value == highest > 0)].append(i)
    for names, rows in tied.items():
        if len(names) < 2:
            continue
        writers, of_rows = [languages[name]["writer"] for name in names], [texts[i] for i in rows]
        if None in writers:
            read = [_coverages(languages[name]["readers"], of_rows) for name in names]
            shares = [_parts([known for _, known in row]) for row in zip(*read, strict=True)]
        else:
            shares = _shares(models, writers, of_rows, on_step)
        for i, of_writers in zip(rows, shares, strict=True):
            for name, share in zip(names, of_writers, strict=True):
                values[i][name] *= len(names) * share
    return [
        _ranked(of_text, {language: of_texts[i][1] for language, of_texts in coverages.items()})
        for i, of_text in enumerate(values)
    ]


def _parts(values: Sequence[float]) -> Sequence[float]:
    """Return each value's part of their sum; equal parts of zeros."""
    total = sum(values)
    return [value / total if total else 1 / len(values) for value in values]


def _ranked(values: Mapping[str, float], known: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the languages of a text, by their values and the shares of known characters."""
    total = sum(values.values()) or 1.0
    detections = [
        {"language": language, "confidence": round(100 * known[language] * value / total, 1)}
        for language, value in values.items()
    ]
    return sorted(detections, key=lambda one: -one["confidence"])


def _shares(
    models: Models,
    writers: Sequence[dict[str, Any]],
    texts: Sequence[str],
    on_step: OnStep,
) -> list[Sequence[float]]:
    """Return, for each text, the share of each writer by the mean log probability of its tokens.

    A text is scored as a translation of itself. The shares are equal if one cannot score it.
    """
    starts = [text.strip()[:CHARACTERS] for text in texts]
    equal = [1 / len(writers)] * len(writers)
    means: list[Sequence[float | None]] = []
    for writer in writers:
        try:
            translator = models.get(writer)
        except CheckpointGoneError:
            return [equal] * len(texts)
        means.append(_means(translator, starts, on_step))
    shares: list[Sequence[float]] = []
    for of_text in zip(*means, strict=True):
        scored = [mean for mean in of_text if mean is not None]
        weights = [math.exp(mean - max(scored)) for mean in scored]
        complete = len(scored) == len(writers)
        shares.append([weight / sum(weights) for weight in weights] if complete else equal)
    return shares


def _means(translator: Translator, texts: Sequence[str], on_step: OnStep) -> list[float | None]:
    """Return the mean log probability of each text's tokens, None for one that has no score.

    That is a text that is too long, or any text where the model reads several sources.
    """
    try:
        scores = score_in_steps(translator.score, texts, texts, on_step)
        return [sum(row) / len(row) for row in scores]
    except ZooError:
        if len(texts) == 1:
            return [None]
        return [mean for text in texts for mean in _means(translator, [text], on_step)]


def _coverages(folders: Sequence[str], texts: Sequence[str]) -> list[tuple[float, float]]:
    """Return what `_coverage` does for each text, by the best tokenizer of checkpoints."""
    of_tokenizers = [_coverage(tokenizer, texts) for tokenizer in _tokenizers(folders)]
    return [max(of_text) for of_text in zip(*of_tokenizers, strict=True)]


def _tokenizers(folders: Sequence[str]) -> list[Tokenizer]:
    """Return the tokenizers of checkpoints, as far as these can be read.

    Raises:
        CheckpointGoneError: none can.
    """
    tokenizers, gone = [], None
    for file in (Path(folder) / SHARED for folder in folders):
        try:
            tokenizers.append(_tokenizer(file if file.is_file() else file.with_name(SOURCE)))
        except CheckpointGoneError as error:
            gone = error
    if gone is not None and not tokenizers:
        raise gone
    return tokenizers


def _tokenizer(file: Path) -> Tokenizer:
    try:
        return _loaded(file, state_of(file.parent, [file.name]))
    except (OSError, CheckpointError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointGoneError(f"{file.parent.name} cannot be read", reason) from None


@functools.lru_cache(maxsize=64)
def _loaded(file: Path, state: tuple[str, ...]) -> Tokenizer:
    """Return the tokenizer in a file; one that was changed is loaded again."""
    return load_tokenizer(file)


def _coverage(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[float, float]]:
    """Return a tokenizer's value for each text, and the share of characters in known tokens."""
    coverages = []
    for text, encoded in zip(texts, tokenizer.encode(texts), strict=True):
        # Of the text, without a tag.
        ids = [i for i in encoded if i != END and i not in tokenizer.control]
        covered = sum(len(tokenizer.token(i).replace("▁", "")) for i in ids if i != UNKNOWN)
        known = min(1.0, covered / len("".join(text.split())))
        coverages.append((known * covered / max(1, len(ids)), known))
    return coverages
