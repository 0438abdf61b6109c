"""The language of a text, from the vocabularies and checkpoints that are served."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import SHARED, SOURCE
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, ZooError
from zoo.nn.contract import END, UNKNOWN
from zoo.serving.errors import CheckpointGoneError, RequestError
from zoo.serving.models import Models

CHARACTERS = 200
"""How much of a text is scored to choose among languages of one vocabulary."""


def detected(
    models: Models, languages: Mapping[str, dict[str, Any]], text: str
) -> list[dict[str, Any]]:
    """Return each language with its confidence in percent, the best first.

    A tokenizer's value is the share of characters in known tokens, times the mean length of a
    token: a vocabulary cuts its own language into few long pieces. A language's value is that of
    its best tokenizer. Languages of one shared vocabulary have the same value, which is divided by
    how probable the text is where a checkpoint writes it in each of them.

    Args:
        models: the loaded checkpoints.
        languages: for each, its `folders` of checkpoints that read it, or write it with a shared
            vocabulary, and as `writer` the job of one that writes it so, or None.
        text: the text.
    """
    if not text.strip():
        raise RequestError("no language to detect", "the text is empty")
    coverages = {
        language: max(_coverage(one, text) for one in _tokenizers(about["folders"]))
        for language, about in languages.items()
    }
    values = {language: value for language, (value, _) in coverages.items()}
    highest = max(values.values())
    tied = [language for language, value in values.items() if value == highest > 0]
    if len(tied) > 1:
        writers = [languages[language]["writer"] for language in tied]
        for language, share in zip(tied, _shares(models, writers, text), strict=True):
            values[language] *= len(tied) * share
    total = sum(values.values()) or 1.0
    detections = [
        {"language": language, "confidence": round(100 * known * values[language] / total, 1)}
        for language, (_, known) in coverages.items()
    ]
    return sorted(detections, key=lambda one: -one["confidence"])


def _shares(models: Models, writers: Sequence[dict[str, Any] | None], text: str) -> Sequence[float]:
    """Return the share of each writer, by the mean log probability of the text's tokens.

    The text is scored as a translation of itself. The shares are equal if one cannot score it.
    """
    part, means = text.strip()[:CHARACTERS], []
    try:
        for writer in writers:
            if writer is None:
                return [1 / len(writers)] * len(writers)
            ((*row,),) = models.get(writer).score([part], [part])
            means.append(sum(row) / len(row))
    except ZooError:  # such as a checkpoint that was removed, or one that reads several sources
        return [1 / len(writers)] * len(writers)
    weights = [math.exp(mean - max(means)) for mean in means]
    return [weight / sum(weights) for weight in weights]


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
        return _loaded(file, file.stat().st_mtime_ns)
    except (OSError, CheckpointError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointGoneError(f"{file.parent.name} cannot be read", reason) from None


@functools.lru_cache(maxsize=64)
def _loaded(file: Path, changed: int) -> Tokenizer:
    """Return the tokenizer in a file; one that was changed is loaded again."""
    return load_tokenizer(file)


def _coverage(tokenizer: Tokenizer, text: str) -> tuple[float, float]:
    """Return a tokenizer's value for a text, and the share of characters in known tokens."""
    (ids,) = tokenizer.encode([text])
    ids = [i for i in ids if i != END and i not in tokenizer.control]  # of the text, without a tag
    covered = sum(len(tokenizer.token(i).replace("▁", "")) for i in ids if i != UNKNOWN)
    known = min(1.0, covered / len("".join(text.split())))
    return known * covered / max(1, len(ids)), known
