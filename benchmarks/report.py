"""Where benchmark results are stored: rows in JSON Lines files, tables in Markdown pages."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


class Measurements:
    """Rows in a JSON Lines file, one per key: a new row replaces the old one of its key."""

    def __init__(self, file: Path, key: Callable[[Row], Hashable]) -> None:
        self.file, self.key = file, key

    def read(self) -> dict[Any, Row]:
        """Return the rows by key."""
        if not self.file.is_file():
            return {}
        rows = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
        return {self.key(row): row for row in rows}

    def put(self, row: Row) -> None:
        """Add a row, or replace the one of the same key."""
        rows = {**self.read(), self.key(row): row}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(each) + "\n" for each in rows.values())
        self.file.write_text(text, encoding="utf-8")


def write(results: Path, marker: str, text: str) -> None:
    """Replace the text between two markers of a results page."""
    begin, end = f"<!-- {marker} -->", "<!-- end -->"
    old = results.read_text(encoding="utf-8") if results.is_file() else f"{begin}\n{end}\n"
    before, _, rest = old.partition(begin)
    after = rest.partition(end)[2]
    results.write_text(f"{before}{begin}\n{text}\n\n{end}{after}", encoding="utf-8")


def now() -> str:
    """Return the time of a measurement, UTC, to the minute."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


def machine() -> str:
    """Return the number of cores and the processor's name."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((x.partition(":")[2].strip() for x in lines if "model name" in x), model)
    return f"{os.cpu_count()} cores of {model}"


def kind_of_machine() -> str:
    """Return the processor's name and generation, and the instructions that products may use.

    Processors of one name and the same instructions may be of generations of which one multiplies
    twice as fast: family 25 of AMD's, Zen 4, adds and multiplies 16 numbers at once in two steps,
    family 26, Zen 5, in one.
    """
    said: dict[str, str] = {}
    if Path("/proc/cpuinfo").is_file():
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            said.setdefault(name.strip(), value.strip())
    flags = said.get("flags", "").split()
    generation = f" (family {said['cpu family']}, model {said['model']})" if "model" in said else ""
    known = ", ".join(x for x in INSTRUCTIONS if x in flags) or "unknown"
    return f"{machine()}{generation}; {known}"
