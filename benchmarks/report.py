"""What the benchmarks' results are written in."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class CachedWeights:
    """Rows of measurements in a file of JSON lines; a new one takes the place of its key's old."""

    def __init__(self, file: Path, key: Callable[[Row], Hashable]) -> None:
        self.file, self.key = file, key

    def read(self) -> dict[Any, Row]:
        """Return the rows by their keys."""
        if not self.file.is_file():
            return {}
        rows = [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]
        return {self.key(row): row for row in rows}

    def keep(self, row: Row) -> None:
        """Put a row in its place."""
        rows = {**self.read(), self.key(row): row}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(kept) + "\n" for kept in rows.values())
        self.file.write_text(text, encoding="utf-8")


def write(results: Path, mark: str, text: str) -> None:
    """Put a table between its marks in a page of results."""
    begin, end = f"<!-- {mark} -->", "<!-- end -->"
    old = results.read_text(encoding="utf-8") if results.is_file() else f"{begin}\n{end}\n"
    before, _, rest = old.partition(begin)
    after = rest.partition(end)[2]
    results.write_text(f"{before}{begin}\n{text}\n\n{end}{after}", encoding="utf-8")


def machine() -> str:
    """Return the processor's name and how many of its cores there are."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((x.partition(":")[2].strip() for x in lines if "model name" in x), model)
    return f"{os.cpu_count()} cores of {model}"
