"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; characters that would end a cell are escaped."""
    lines = [_line(head), _line(["---"] * len(head)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
