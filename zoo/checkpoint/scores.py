"""The scores that a checkpoint carries: records as `zoo eval --json` prints them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.format import SCORES
from zoo.checkpoint.markdown import markdown_table
from zoo.errors import CheckpointError
from zoo.files import read_json


def read_scores(folder: Path) -> list[dict[str, Any]]:
    """Return a checkpoint's scores, each a record as `zoo eval --json` prints it.

    Raises:
        CheckpointError: they are not well-formed.
    """
    file = folder / SCORES
    if not file.is_file():
        return []
    records = read_json(file).get("scores")
    if not isinstance(records, list) or not all(is_score(record) for record in records):
        raise CheckpointError(f"{file} is not well-formed", "it needs records under 'scores'")
    return records


def is_score(record: object) -> bool:
    """Tell whether a value is a record of scores: data, split, and numbers with signatures."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("data"), str)
        and isinstance(record.get("split"), str)
        and all(type(value) in (str, int, float, bool, type(None)) for value in record.values())
    )


def with_score(
    records: Sequence[Mapping[str, Any]], new: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the records with a new one, which takes the place of one measured in the same way."""
    kept = [dict(record) for record in records if _way(record) != _way(new)]
    return [*kept, {name: value for name, value in new.items() if name != "checkpoint"}]


def metrics(record: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's scores: each has a signature beside it."""
    return [
        name
        for name, value in record.items()
        if type(value) in (int, float) and f"{name}_signature" in record
    ]


def _way(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what was scored, how and by which metrics: what a repetition has in common."""
    return (record["data"], record["split"], sorted(metrics(record)), _options(record))


ABOUT = ("checkpoint", "data", "split", "sentences", "benchmark", "command")
"""What a record tells besides scores, options of `zoo eval`, and another system's scores."""


def _options(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `zoo eval` was asked besides data and split."""
    scores = metrics(record)
    return {
        name: value
        for name, value in record.items()
        if name not in ABOUT
        and not name.startswith("against")
        and not any(name == score or name.startswith(f"{score}_") for score in scores)
        and not name.endswith("_p_value")
    }


def command(record: Mapping[str, Any], checkpoint: str) -> str:
    """Return the command that gives a record's scores again."""
    words = ["zoo", "eval", checkpoint, "--data", record["data"], "--split", record["split"]]
    for name, value in _options(record).items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    scores = metrics(record)
    for name in scores:
        order = name.removeprefix("bleu_")
        words += ["--bleu-order", order] if order != name and order.isdigit() else []
    if any(f"{name}_confidence" in record for name in scores):
        words.append("--confidence")
    return shlex.join(words)


def scores_table(records: Sequence[Mapping[str, Any]], checkpoint: str) -> str:
    """Return scores as Markdown: each record's command, and a line for each of its metrics."""
    parts = []
    for record in records:
        count = record.get("sentences")
        how = record.get("command", command(record, checkpoint))
        about = f"{count:,} sentences of " if type(count) is int else ""
        parts.append(f"{about}`{record['data']}`, {record['split']}: `{how}`")
        rows = []
        for name in metrics(record):
            wide = record.get(f"{name}_confidence")
            shown = f"{record[name]:.2f}" + (f" ± {wide:.2f}" if type(wide) is float else "")
            rows.append([name.replace("_", " "), shown, f"`{record[f'{name}_signature']}`"])
        parts.append(markdown_table(["metric", "score", "signature"], rows))
    return "\n\n".join(parts)
