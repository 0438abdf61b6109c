"""Attention heatmaps in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from zoo.translation.attention import KINDS, Attention, Panel, spelled

SHADES = " ░▒▓█"
"""Characters from 0 to the maximum, for a terminal without colors."""

MAX_LABEL = 14
"""Columns of a token at the left, and lines of a token at the top."""


def print_heatmap(console: Console, attention: Attention, panel: Panel) -> None:
    """Print a panel: a row of shaded cells per query, and the key with its highest weight.

    Columns that do not fit the terminal's width follow below.
    """
    keys, queries = spelled(attention.keys(panel.kind)), spelled(attention.queries(panel.kind))
    _, rows, columns = KINDS.get(panel.kind, (panel.kind, "query", "key"))
    maximum = float(panel.weights.max())
    console.print(
        Text(f"{panel.title}: rows {rows}, columns {columns}, maximum {maximum:.2f}", "bold")
    )
    left = min(MAX_LABEL, max(map(cell_len, queries))) + 1
    right = min(MAX_LABEL, max(map(cell_len, keys))) + len("  0.00 ")
    available = max(console.width - left - right, 4)
    wide = any(cell_len(character) > 1 for key in keys for character in key)
    cell = next((n for n in (3, 2) if len(keys) * n <= available), 2 if wide else 1)
    for start in range(0, len(keys), available // cell):
        band = slice(start, start + available // cell)
        for line in _vertical(keys[band], cell):
            console.print(Text(" " * left + line.rstrip()), soft_wrap=True)
        for query, weights in zip(queries, panel.weights, strict=True):
            row = Text(_fit(query, left - 1).rjust(left - 1 - _extra(query, left - 1)) + " ")
            for weight in weights[band].tolist():
                row.append_text(_cell(weight / maximum if maximum else 0.0, cell, console))
            best = int(weights.argmax())
            row.append(f" {float(weights[best]):.2f} {_fit(keys[best], MAX_LABEL)}", "dim")
            console.print(row, soft_wrap=True)
        console.print()


def _cell(fraction: float, width: int, console: Console) -> Text:
    """Return a cell whose darkness is a fraction of the maximum, 0 to 1."""
    if not console.color_system or console.no_color:
        return Text(SHADES[min(round(fraction * (len(SHADES) - 1)), len(SHADES) - 1)] * width)
    red, green, blue = (round(255 + (end - 255) * fraction) for end in (8, 48, 107))
    return Text(" " * width, Style(bgcolor=Color.from_rgb(red, green, blue)))


def _vertical(keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of keys written vertically, `width` columns each, aligned at the bottom."""
    stacks = [_characters(_fit(key, MAX_LABEL)) for key in keys]
    height = max(map(len, stacks))
    for i in range(height):
        line = ""
        for stack in stacks:
            top = height - len(stack)
            character = stack[i - top] if i >= top else ""
            line += character + " " * (width - cell_len(character))
        yield line


def _characters(text: str) -> list[str]:
    """Return a text's characters, each with its combining marks."""
    characters: list[str] = []
    for character in text:
        if characters and cell_len(character) == 0:
            characters[-1] += character
        else:
            characters.append(character)
    return characters


def _fit(text: str, width: int) -> str:
    """Return a text cut to at most `width` columns."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _extra(text: str, width: int) -> int:
    """Return how many more columns than characters a fitted text takes."""
    fitted = _fit(text, width)
    return cell_len(fitted) - len(fitted)
