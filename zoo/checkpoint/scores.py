"""The scores of a checkpoint: records as `zoo eval --json` prints them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import SCORES
from zoo.checkpoint.markdown import markdown_table
from zoo.decoding.options import search_options
from zoo.errors import CheckpointError
from zoo.evaluation.labels import metric_label
from zoo.files import read_json

RECORD_LIMIT = 1_000
"""The most values of a record."""

TEXT_LIMIT = 10_000
"""The most characters of a text in a record."""

NUMBER_LIMIT = 1e15
"""Scores, counts and options are nearer to zero."""


def read_scores(folder: Path) -> list[dict[str, Any]]:
    """Return a checkpoint's scores, each a record as `zoo eval --json` prints it.

    Raises:
        CheckpointError: `scores.json` is invalid.
    """
    file = folder / SCORES
    if not file.is_file():
        return []
    records = read_json(file).get("scores")
    if not isinstance(records, list) or not all(is_score(record) for record in records):
        raise CheckpointError(f"{file} is invalid", "'scores' must be a list of score records")
    return records


def source_prefixes(folder: Path) -> list[str]:
    """Return the source prefixes with which a checkpoint was scored: the tags of its tasks.

    Raises:
        CheckpointError: `scores.json` is invalid.
    """
    prefixes = [record.get("source_prefix") for record in read_scores(folder)]
    return list(dict.fromkeys(prefix for prefix in prefixes if isinstance(prefix, str) and prefix))


def is_score(record: object) -> bool:
    """Return whether a value is a record of scores: data, split, and numbers with signatures."""
    return (
        isinstance(record, dict)
        and len(record) <= RECORD_LIMIT
        and isinstance(record.get("data"), str)
        and isinstance(record.get("split"), str)
        and isinstance(record.get("benchmark", ""), str)
        and isinstance(record.get("command", ""), str)
        and all(_is_plain(value) for value in record.values())
        and all(
            type(record.get(f"{name}_confidence", 0.0)) in (int, float, type(None))
            for name in metrics(record)
        )
        and all(
            isinstance(value, str) for name, value in record.items() if name.endswith("_signature")
        )
    )


def _is_plain(value: object) -> bool:
    """Return whether a record may hold a value: lists hold those of repeated options."""
    if isinstance(value, list):
        return len(value) <= RECORD_LIMIT and all(type(item) in (str, int) for item in value)
    if isinstance(value, str):
        return len(value) <= TEXT_LIMIT
    if isinstance(value, int | float):
        return -NUMBER_LIMIT < value < NUMBER_LIMIT  # false for NaN
    return value is None


def with_score(
    records: Sequence[Mapping[str, Any]], new: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the records with a new one, which replaces a record of the same evaluation."""
    added = {name: value for name, value in new.items() if name != "checkpoint"}
    same = [_evaluation(record) == _evaluation(added) for record in records]
    kept = [added if equal else dict(record) for record, equal in zip(records, same, strict=True)]
    return kept if any(same) else [*kept, added]


def metrics(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's metrics: those that have a signature."""
    return [
        name
        for name, value in record.items()
        if type(value) in (int, float) and f"{name}_signature" in record
    ]


def _evaluation(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies an evaluation: its data, split, metrics and options."""
    return (record["data"], record["split"], sorted(metrics(record)), _options(record))


DESCRIPTION = ("checkpoint", "data", "split", "sentences", "benchmark", "command")
"""The keys of a record that are not scores, options of `zoo eval` or another system's scores."""


def _options(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `zoo eval` in a record, except data and split."""
    names = metrics(record)
    return {
        name: value
        for name, value in record.items()
        if name not in DESCRIPTION
        and not name.startswith("against")
        and not any(name == score or name.startswith(f"{score}_") for score in names)
        and not name.endswith("_p_value")
    }


def command(record: Mapping[str, Any], checkpoint: str) -> str:
    """Return the command that reproduces a record's scores."""
    words = ["zoo", "eval", checkpoint, "--data", record["data"], "--split", record["split"]]
    flags = {option.name: option.flag for option in search_options()}
    flags["by_sentences"] = "--sentences"
    for name, value in _options(record).items():
        option = flags.get(name, f"--{name.replace('_', '-')}")
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [option] if item is True else [option, str(item)]
    names = metrics(record)
    for name in names:
        order = name.removeprefix("bleu_")
        words += ["--bleu-order", order] if order != name and order.isdigit() else []
    if any(f"{name}_confidence" in record for name in names):
        words.append("--confidence")
    return shlex.join(words)


def scores_table(records: Sequence[Mapping[str, Any]], checkpoint: str) -> str:
    """Return scores as Markdown: the command of each record, and a row for each of its metrics."""
    parts = []
    for record in records:
        count = record.get("sentences")
        printed_by = record.get("command", command(record, checkpoint))
        sentences = f"{count:,} sentences of " if type(count) is int else ""
        parts.append(f"{sentences}`{record['data']}`, {record['split']}: `{printed_by}`")
        rows = []
        for name in metrics(record):
            interval = record.get(f"{name}_confidence")
            score = f"{record[name]:.2f}"
            score += f" ± {interval:.2f}" if type(interval) is float else ""
            rows.append([metric_label(name), score, f"`{record[f'{name}_signature']}`"])
        parts.append(markdown_table(["metric", "score", "signature"], rows))
    return "\n\n".join(parts)
