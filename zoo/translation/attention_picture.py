"""Heatmaps as PNG or SVG, by matplotlib."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from zoo.translation.attention import KINDS, Attention, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PITCH = 0.15
"""Inches a token."""

POINTS = 8
"""The size of a token's letters."""

LETTER = 0.07
"""Inches that a letter of that size takes, about."""

LONGEST = 18
"""Letters of a token that are shown."""

RESOLUTION = 110
"""Dots an inch, in a PNG of no more than `MOST_DOTS`."""

MOST_DOTS = 60_000_000

# For scripts that matplotlib's own font lacks, where one of these is installed.
FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei",
         "Hiragino Sans", "Arial Unicode MS", "Noto Sans", "Noto Sans Arabic",
         "Noto Sans Devanagari")  # fmt: skip


def draw(attention: Attention, panels: Sequence[Panel], suffix: str) -> bytes:
    """Return a picture of the panels, `png` or `svg`: a row a layer, a column a head.

    Each panel goes from white, 0, to its own darkest, which its title tells.
    """
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.figure import Figure

    known = {font.name for font in font_manager.fontManager.ttflist}
    settings: dict[str, Any] = {
        "font.family": ["DejaVu Sans", *(font for font in FONTS if font in known)],
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "zoo",  # the same picture is the same file
    }
    file = io.BytesIO()
    with matplotlib.rc_context(cast(Any, settings)), warnings.catch_warnings():
        # A sign in no font here is drawn as a box.
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        figure = _lay_out(Figure(), attention, panels)
        width, height = figure.get_size_inches()
        dots = min(RESOLUTION, math.sqrt(MOST_DOTS / (width * height)), 30_000 / max(width, height))
        metadata = {"Date": None} if suffix == "svg" else {}
        # In an SVG the cells are an image as well, made so finely that they are not blurred.
        figure.savefig(file, format=suffix, dpi=dots, facecolor="white", metadata=metadata)
    return file.getvalue()


def _lay_out(figure: Figure, attention: Attention, panels: Sequence[Panel]) -> Figure:
    """Put every panel in its place, measured in inches from the top left."""
    rows = [list(row) for _, row in groupby(panels, key=lambda panel: (panel.kind, panel.layer))]
    sizes = [_size(attention, row) for row in rows]
    width = max(len(row) * w for row, (w, _) in zip(rows, sizes, strict=True))
    top, height = 0.0, sum(h for _, h in sizes)
    figure.set_size_inches(width, height)
    for row, (w, h) in zip(rows, sizes, strict=True):
        for column, panel in enumerate(row):
            left, above, right, below = _margins(attention, panel.kind)
            place = (
                (column * w + left) / width,
                1 - (top + h - below) / height,
                (w - left - right) / width,
                (h - above - below) / height,
            )
            _draw_panel(figure.add_axes(place), attention, panel)
        top += h
    return figure


def _margins(attention: Attention, kind: str) -> tuple[float, float, float, float]:
    """Return the inches to the left of a panel, above, to its right and below it."""
    left = max(map(len, map(_short, attention.queries(kind)))) * LETTER + 0.45
    above = max(map(len, map(_short, attention.keys(kind)))) * LETTER + 0.75
    return left, above, 0.15, 0.15


def _title(panel: Panel) -> str:
    return f"{panel.title}: darkest {float(panel.weights.max()):.2f}"


def _size(attention: Attention, row: Sequence[Panel]) -> tuple[float, float]:
    """Return the inches of each panel of a row, across and down."""
    kind = row[0].kind
    left, above, right, below = _margins(attention, kind)
    title = max(len(_title(panel)) for panel in row) * LETTER * (POINTS + 1) / POINTS
    wide = max(len(attention.keys(kind)) * PITCH, title)
    high = max(len(attention.queries(kind)) * PITCH, 0.5)
    return left + wide + right, above + high + below


def _draw_panel(axes: Any, attention: Attention, panel: Panel) -> None:
    weights = panel.weights.numpy()
    darkest = float(weights.max())
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=darkest or 1, aspect="auto",
                interpolation="nearest")  # fmt: skip
    keys, queries = attention.keys(panel.kind), attention.queries(panel.kind)
    # A dollar sign is a dollar sign, not the beginning of a formula.
    plain = {"fontsize": POINTS, "parse_math": False}
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(keys)), map(_short, keys), rotation=90, **plain)
    axes.set_yticks(range(len(queries)), map(_short, queries), **plain)
    axes.tick_params(length=0, pad=2)
    lines = {"color": "0.9", "linewidth": 0.4}
    axes.vlines([i - 0.5 for i in range(1, len(keys))], -0.5, len(queries) - 0.5, **lines)
    axes.hlines([i - 0.5 for i in range(1, len(queries))], -0.5, len(keys) - 0.5, **lines)
    _, rows, columns = KINDS.get(panel.kind, (panel.kind, "query", "key"))
    axes.set_ylabel(rows, fontsize=POINTS, color="0.4", labelpad=3)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(columns, fontsize=POINTS, color="0.4", labelpad=3)
    axes.set_title(_title(panel), fontsize=POINTS + 1, loc="left", pad=6)


def _short(token: str) -> str:
    return token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…"
