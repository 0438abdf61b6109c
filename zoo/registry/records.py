"""The recorded events of a run: one JSON object for each line of `metrics.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo.errors import CheckpointError
from zoo.files import read_bytes

LIMIT = 500_000_000
"""The most bytes of metrics that are read."""

NUMBERS = (
    "step", "epoch", "done", "minutes", "loss", "learning_rate", "tokens_per_second",
    "validation_loss", "bleu", "chrf",
)  # fmt: skip


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Return the records, without a last line that is still being written or was cut short.

    Raises:
        CheckpointError: the file cannot be read, or a line is not a record.
    """
    if not file.is_file():
        return []
    return [_record(line, number, file) for number, line in enumerate(_lines(file), 1)]


def _lines(file: Path) -> list[bytes]:
    return read_bytes(file, LIMIT).split(b"\n")[:-1]


def _record(line: bytes, number: int, file: Path) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and type(record.get("step")) is int:
        values = (record.get(key) for key in NUMBERS)
        if all(type(value) in (int, float, type(None)) for value in values):
            return record
    raise CheckpointError(
        f"{file} cannot be read",
        f"line {number:,} is not a record of an update",
        "The file is damaged: remove this line",
    )
