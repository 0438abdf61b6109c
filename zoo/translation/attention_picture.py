"""Attention weights as PNG or SVG heatmaps, drawn by matplotlib."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from zoo.registry.imports import require
from zoo.translation.attention import KINDS, Attention, Panel, sentence, spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 0.15
"""The width and height of a cell in inches."""

FONT_SIZE = 8
"""The font size of a token in points."""

CHARACTER = 0.07
"""The approximate width in inches of a character of that size."""

HEADER = 0.55
"""The inches for both sentences above the panels."""

MAX_CHARACTERS = 18
"""The most characters of a token that are shown."""

RESOLUTION = 110
"""Dots per inch of a PNG of at most `MAX_PIXELS`."""

MAX_PIXELS = 60_000_000

MAX_SIDE = 30_000
"""The most pixels of a side."""

# For scripts that matplotlib's own font lacks; after them, the Noto fonts of other scripts.
FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei",
         "Hiragino Sans", "Arial Unicode MS", "Noto Sans", "Noto Sans Arabic",
         "Noto Sans Devanagari")  # fmt: skip


def draw(attention: Attention, panels: Sequence[Panel], suffix: str) -> bytes:
    """Return the panels as an image, `png` or `svg`, with a row per layer and a column per head.

    The colors of each panel run from white at 0 to dark at its maximum, which its title states.
    While it draws, matplotlib's settings and the filters of warnings are changed; they are
    restored at the end.
    """
    require("matplotlib", extra="plots", purpose="PNG and SVG")
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[str, Any] = {
        "font.family": _fonts(attention)[0],
        "svg.fonttype": "none",  # text as text, not as outlines
        "svg.hashsalt": "zoo",  # the same picture gives the same file
    }
    file = io.BytesIO()
    with matplotlib.rc_context(cast(Any, settings)), warnings.catch_warnings():
        # A character that no installed font has is drawn as a box.
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        figure = lay_out(Figure(), attention, panels)
        width, height = figure.get_size_inches()
        dpi = min(
            RESOLUTION, math.sqrt(MAX_PIXELS / (width * height)), MAX_SIDE / max(width, height)
        )
        metadata = {"Date": None} if suffix == "svg" else {}
        # The cells are an image in an SVG as well; its resolution keeps them sharp.
        figure.savefig(file, format=suffix, dpi=dpi, facecolor="white", metadata=metadata)
    return file.getvalue()


def undrawn(attention: Attention) -> str:
    """Return the characters that no installed font has, which are boxes in a PNG."""
    require("matplotlib", extra="plots", purpose="PNG and SVG")
    return _fonts(attention)[1]


def _fonts(attention: Attention) -> tuple[list[str], str]:
    """Return the installed fonts that both sentences need, and the characters that these lack."""
    from matplotlib import font_manager

    text = f"{sentence(attention.source)}{sentence(attention.target)}"
    missing = {ord(character) for character in text if not character.isspace()}
    installed = {font.name: font.fname for font in reversed(font_manager.fontManager.ttflist)}
    others = sorted(name for name in installed if name.startswith("Noto Sans "))
    fonts = list[str]()
    for name in dict.fromkeys(("DejaVu Sans", *FONTS, *others)):
        if name in installed and (missing or not fonts):
            known = missing & font_manager.get_font(installed[name]).get_charmap().keys()
            missing -= known
            fonts += [name] if known or not fonts else []
    return fonts, "".join(map(chr, sorted(missing)))


def lay_out(figure: Figure, attention: Attention, panels: Sequence[Panel]) -> Figure:
    """Add every panel to the figure, by inches from the top left."""
    rows = [list(row) for _, row in groupby(panels, key=lambda panel: (panel.kind, panel.layer))]
    sizes = [_size(attention, row) for row in rows]
    width = max(len(row) * w for row, (w, _) in zip(rows, sizes, strict=True))
    sentences = (sentence(attention.source), sentence(attention.target))
    width = max(width, max(map(len, sentences)) * CHARACTER * 1.25 + 0.4)
    top, height = HEADER, HEADER + sum(h for _, h in sizes)
    figure.set_size_inches(width, height)
    for line, text in enumerate(sentences):
        figure.text(0.15 / width, 1 - (0.28 + 0.2 * line) / height, f"{'→ ' * line}{text}",
                    fontsize=FONT_SIZE + 2, weight="bold", parse_math=False)  # fmt: skip
    for row, (w, h) in zip(rows, sizes, strict=True):
        for column, panel in enumerate(row):
            left, above, right, below = _margins(attention, panel.kind)
            rectangle = (
                (column * w + left) / width,
                1 - (top + h - below) / height,
                (w - left - right) / width,
                (h - above - below) / height,
            )
            _draw_panel(figure.add_axes(rectangle), attention, panel)
        top += h
    return figure


def _margins(attention: Attention, kind: str) -> tuple[float, float, float, float]:
    """Return the inches left of a panel, above it, right of it and below it."""
    left = max(map(len, map(_shorten, spelled(attention.queries(kind))))) * CHARACTER + 0.45
    above = max(map(len, map(_shorten, spelled(attention.keys(kind))))) * CHARACTER + 0.75
    return left, above, 0.15, 0.15


def _title(panel: Panel) -> str:
    return f"{panel.title}: maximum {float(panel.weights.max()):.2f}"


def _size(attention: Attention, row: Sequence[Panel]) -> tuple[float, float]:
    """Return the width and height in inches of each panel of a row, with its margins."""
    kind = row[0].kind
    left, above, right, below = _margins(attention, kind)
    title = max(len(_title(panel)) for panel in row) * CHARACTER * (FONT_SIZE + 1) / FONT_SIZE
    width = max(len(spelled(attention.keys(kind))) * CELL, title)
    height = max(len(spelled(attention.queries(kind))) * CELL, 0.5)
    return left + width + right, above + height + below


def _draw_panel(axes: Any, attention: Attention, panel: Panel) -> None:
    weights = panel.weights.numpy()
    maximum = float(weights.max())
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=maximum or 1, aspect="auto",
                interpolation="nearest")  # fmt: skip
    keys, queries = spelled(attention.keys(panel.kind)), spelled(attention.queries(panel.kind))
    # A dollar sign must not start a formula.
    literal = {"fontsize": FONT_SIZE, "parse_math": False}
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(keys)), map(_shorten, keys), rotation=90, **literal)
    axes.set_yticks(range(len(queries)), map(_shorten, queries), **literal)
    axes.tick_params(length=0, pad=2)
    lines = {"color": "0.9", "linewidth": 0.4}
    axes.vlines([i - 0.5 for i in range(1, len(keys))], -0.5, len(queries) - 0.5, **lines)
    axes.hlines([i - 0.5 for i in range(1, len(queries))], -0.5, len(keys) - 0.5, **lines)
    _, rows, columns = KINDS.get(panel.kind, (panel.kind, "query", "key"))
    axes.set_ylabel(rows, fontsize=FONT_SIZE, color="0.4", labelpad=3)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(columns, fontsize=FONT_SIZE, color="0.4", labelpad=3)
    axes.set_title(_title(panel), fontsize=FONT_SIZE + 1, loc="left", pad=6)


def _shorten(token: str) -> str:
    return token if len(token) <= MAX_CHARACTERS else f"{token[: MAX_CHARACTERS - 1]}…"
