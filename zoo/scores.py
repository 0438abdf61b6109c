"""The scores that a checkpoint carries: records as `zoo eval --json` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import CheckpointError
from zoo.files import read_json
from zoo.format import SCORES
from zoo.markdown import markdown_table


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
    """Return the records with a new one, which takes the place of its data's and split's."""
    key = (new["data"], new["split"])
    kept = [dict(record) for record in records if (record["data"], record["split"]) != key]
    return [*kept, {name: value for name, value in new.items() if name != "checkpoint"}]


def scores_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return scores as Markdown, a line for each metric with its signature."""
    rows = []
    for record in records:
        count = record.get("sentences")
        for metric, value in record.items():
            if type(value) in (int, float) and metric != "sentences":
                signature = record.get(f"{metric}_signature")
                rows.append(
                    [
                        f"`{record['data']}`",
                        str(record["split"]),
                        f"{count:,}" if type(count) is int else "",
                        metric.replace("_", " "),
                        f"{value:.2f}",
                        f"`{signature}`" if signature else "",
                    ]
                )
    return markdown_table(["data", "split", "sentences", "metric", "score", "signature"], rows)
