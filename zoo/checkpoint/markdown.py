"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_table(head: list[str], rows: list[list[str]], *, numbers: bool = False) -> str:
    """Return a Markdown table; characters that would end a cell are escaped.

    With `numbers`, all columns but the first are aligned to the right.
    """
    ends = ["---", *["--:" if numbers else "---"] * (len(head) - 1)]
    lines = [_line(head), _line(ends), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
