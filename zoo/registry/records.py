"""The recorded events of a run: one JSON object for each line of `metrics.jsonl`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

from zoo.errors import CheckpointError
from zoo.files import VALUES_LIMIT, read_bytes

LIMIT = 500_000_000
"""The most bytes of metrics that are read."""

LARGEST = 2**53
"""From here on an update, a time or a fraction is none."""

NUMBERS = (
    "step", "epoch", "done", "minutes", "loss", "learning_rate", "tokens_per_second",
    "validation_loss", "bleu", "chrf",
)  # fmt: skip

COUNTS = ("step", "epoch", "done", "minutes", "tokens_per_second")


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Return the records, without a last line that is still being written or was cut short.

    Raises:
        CheckpointError: the file cannot be read, or a line is not a record.
    """
    if not file.is_file():
        return []
    return [_record(line, number, file) for number, line in enumerate(_lines(file), 1)]


def _lines(file: Path) -> list[bytes]:
    content = read_bytes(file, LIMIT)
    if sum(map(content.count, b"[{,\n")) > VALUES_LIMIT:
        raise CheckpointError(f"{file} cannot be read", f"it has over {VALUES_LIMIT:,} values")
    return content.split(b"\n")[:-1]


def _is_number(key: str, value: object) -> bool:
    """Return whether a value is missing, or a number that this metric can be."""
    if isinstance(value, float) and key not in COUNTS:
        return True  # a loss may be infinite
    known = type(value) is int or (isinstance(value, float) and math.isfinite(value))
    return value is None or (known and 0 <= cast(float, value) < LARGEST)


def _record(line: bytes, number: int, file: Path) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and type(record.get("step")) is int:
        samples = record.get("samples", [])
        tables = isinstance(samples, list) and all(isinstance(each, dict) for each in samples)
        if tables and all(_is_number(key, record.get(key)) for key in NUMBERS):
            return record
    raise CheckpointError(
        f"{file} cannot be read",
        f"line {number:,} is not a record of an update",
        "The file is damaged: remove this line",
    )
