"""Heatmaps in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from zoo.translation.attention import KINDS, Attention, Panel

SHADES = " ░▒▓█"
"""From nothing to the darkest, where there is no colour."""

LONGEST = 14
"""Columns of a token at the left, and lines of one at the top."""


def show(console: Console, attention: Attention, panel: Panel) -> None:
    """Print a panel: a row a query, shaded cells, and what the query looks at most.

    Columns that do not fit the terminal follow below, in a band of their own.
    """
    keys, queries = attention.keys(panel.kind), attention.queries(panel.kind)
    _, rows, columns = KINDS.get(panel.kind, (panel.kind, "query", "key"))
    darkest = float(panel.weights.max())
    console.print(
        Text(f"{panel.title}: rows {rows}, columns {columns}, darkest {darkest:.2f}", "bold")
    )
    left = min(LONGEST, max(map(cell_len, queries))) + 1
    right = min(LONGEST, max(map(cell_len, keys))) + len("  0.00 ")
    room = max(console.width - left - right, 4)
    wide = any(cell_len(sign) > 1 for key in keys for sign in key)
    cell = next((n for n in (3, 2) if len(keys) * n <= room), 2 if wide else 1)
    for start in range(0, len(keys), room // cell):
        band = slice(start, start + room // cell)
        for line in _standing(keys[band], cell):
            console.print(Text(" " * left + line.rstrip()), soft_wrap=True)
        for query, weights in zip(queries, panel.weights, strict=True):
            row = Text(_fit(query, left - 1).rjust(left - 1 - _extra(query, left - 1)) + " ")
            for weight in weights[band].tolist():
                row.append_text(_cell(weight / darkest if darkest else 0.0, cell, console))
            most = int(weights.argmax())
            row.append(f" {float(weights[most]):.2f} {_fit(keys[most], LONGEST)}", "dim")
            console.print(row, soft_wrap=True)
        console.print()


def _cell(share: float, width: int, console: Console) -> Text:
    """Return a cell that is the darker the greater the share, 0 to 1."""
    if not console.color_system or console.no_color:
        return Text(SHADES[min(round(share * (len(SHADES) - 1)), len(SHADES) - 1)] * width)
    red, green, blue = (round(255 + (end - 255) * share) for end in (8, 48, 107))
    return Text(" " * width, Style(bgcolor=Color.from_rgb(red, green, blue)))


def _standing(keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield the lines of keys written downwards, each `width` columns wide, ending level."""
    stacks = [_signs(_fit(key, LONGEST)) for key in keys]
    high = max(map(len, stacks))
    for i in range(high):
        line = ""
        for stack in stacks:
            sign = stack[i - high + len(stack)] if i >= high - len(stack) else ""
            line += sign + " " * (width - cell_len(sign))
        yield line


def _signs(text: str) -> list[str]:
    """Return a text's signs, each with the marks that stand on it."""
    signs: list[str] = []
    for sign in text:
        if signs and cell_len(sign) == 0:
            signs[-1] += sign
        else:
            signs.append(sign)
    return signs


def _fit(text: str, width: int) -> str:
    """Return a text cut to so many columns."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _extra(text: str, width: int) -> int:
    """Return how many more columns than signs a fitted text takes."""
    fitted = _fit(text, width)
    return cell_len(fitted) - len(fitted)
