"""What the benchmarks' results are written in."""

from __future__ import annotations

import os
import platform
from pathlib import Path


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
