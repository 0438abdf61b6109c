"""Charts of the documentation as SVG, in light and dark: lines with labels at their ends, heatmaps.

The text of an image is text, its colors follow the reader's system, and the same numbers give the
same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

COLORS = ("#2563b8", "#b4470f", "#1c7a4a", "#7442b8")
DARK = ("#79b0ff", "#ff9d66", "#62cf94", "#c0a2ff")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2733}.title{font-size:17px;font-weight:600}"
    ".muted{fill:#566472}.grid{stroke:#dde3e8}.line{fill:none;stroke-width:2.5}"
    ".back{fill:#fff}.cell{fill:#2563b8}"
    + "".join(f".c{i}{{stroke:{c}}}.f{i}{{fill:{c};font-weight:600}}" for i, c in enumerate(COLORS))
    + "@media(prefers-color-scheme:dark){text{fill:#e4eaf0}.muted{fill:#a3b1be}"
    ".grid{stroke:#36414c}.back{fill:#12181e}.cell{fill:#79b0ff}"
    + "".join(f".c{i}{{stroke:{c}}}.f{i}{{fill:{c}}}" for i, c in enumerate(DARK))
    + "}"
)
TOP, HEIGHT, BOTTOM, LEFT, RIGHT = 92, 210, 46, 40, 104
"""Pixels of a panel: its title, its plot, the axis below, beside it, and for the labels."""


class Panel(NamedTuple):
    """A chart: its takeaway, the labels of its axes with units, and curves by name.

    `positions` are where the values of a curve are; `ticks` their labels.
    """

    takeaway: str
    x_label: str
    y_label: str
    positions: Sequence[float]
    ticks: Sequence[str]
    curves: Mapping[str, Sequence[float]]


def line_charts(title: str, panels: Sequence[Panel], width: int = 440) -> str:
    """Return panels side by side, each with its takeaway above it."""
    total = width * len(panels)
    parts = [f'<text class="title" x="{LEFT}" y="28">{escape(title)}</text>']
    parts += [
        f'<g transform="translate({index * width})">{_panel(panel, width)}</g>'
        for index, panel in enumerate(panels)
    ]
    return _svg(total, TOP + HEIGHT + BOTTOM, title, "".join(parts))


def heatmap(title: str, takeaway: str, rows: Sequence[str], columns: Sequence[str],
            weights: Sequence[Sequence[float]]) -> str:  # fmt: skip
    """Return a heatmap whose columns are source words and whose rows are target words."""
    cell, above = 56, 118
    left = max(map(len, rows)) * 8 + 56
    total = max(left + cell * len(columns) + 24, 9 * len(title) + 80, 7 * len(takeaway) + 32)
    height = above + 34 * len(rows) + 20
    parts = [
        f'<text class="title" x="16" y="28">{escape(title)}</text>'
        f'<text class="muted" x="16" y="50">{escape(takeaway)}</text>'
    ]
    for j, word in enumerate(columns):
        x = left + cell * j + cell // 2
        turned = f'transform="rotate(-28 {x} {above - 10})"'
        parts.append(f'<text x="{x}" y="{above - 10}" {turned}>{escape(word)}</text>')
    for i, word in enumerate(rows):
        y = above + 34 * i
        parts.append(f'<text x="{left - 10}" y="{y + 22}" text-anchor="end">{escape(word)}</text>')
        for j, weight in enumerate(weights[i]):
            parts.append(
                f'<rect class="cell" x="{left + cell * j + 1}" y="{y + 1}" width="{cell - 2}" '
                f'height="32" rx="3" fill-opacity="{0.04 + 0.96 * weight:.2f}">'
                f"<title>{escape(word)}, {escape(columns[j])}: {weight:.2f}</title></rect>"
            )
    return _svg(total, height, f"{title}. {takeaway}", "".join(parts))


def _svg(width: int, height: int, label: str, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(label, quote=True)}"><style>{STYLE}</style>'
        f'<rect class="back" width="{width}" height="{height}" rx="8"/>{content}</svg>\n'
    )


def _panel(panel: Panel, width: int) -> str:
    highest = max(max(values) for values in panel.curves.values())
    step = _step(highest)
    scale = HEIGHT / (math.ceil(highest / step) * step)
    low, span = panel.positions[0], (panel.positions[-1] - panel.positions[0]) or 1
    inner = width - LEFT - RIGHT
    xs = [LEFT + inner * (position - low) / span for position in panel.positions]
    base = TOP + HEIGHT
    parts = [
        f'<text class="muted" x="{LEFT}" y="52">{escape(panel.takeaway)}</text>'
        f'<text class="muted" x="{LEFT}" y="{TOP - 12}">{escape(panel.y_label)}</text>'
        f'<text class="muted" x="{LEFT + inner / 2:g}" y="{base + 38}" text-anchor="middle">'
        f"{escape(panel.x_label)}</text>"
    ]
    for index in range(math.ceil(highest / step) + 1):
        y = base - index * step * scale
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{LEFT + inner}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="muted" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{index * step:g}</text>"
        )
    parts += [
        f'<text class="muted" x="{x:.1f}" y="{base + 18}" text-anchor="middle">{escape(t)}</text>'
        for x, t in zip(xs, panel.ticks, strict=True)
    ]
    ends = {}
    for index, (name, values) in enumerate(panel.curves.items()):
        ys = [base - value * scale for value in values]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline class="line c{index}" points="{points}"/>')
        parts += [f'<circle class="c{index} f{index}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
                  for x, y in zip(xs, ys, strict=True)]  # fmt: skip
        ends[index, name] = ys[-1]
    below = math.inf  # labels from the bottom up, each at least a line above the one before
    for (index, name), y in sorted(ends.items(), key=lambda end: -end[1]):
        below = min(y, below - 16)
        parts.append(f'<text class="f{index}" x="{LEFT + inner + 8}" y="{below + 4:.1f}">'
                     f"{escape(name)}</text>")  # fmt: skip
    return "".join(parts)


def _step(highest: float) -> float:
    """Return the distance of grid lines: 1, 2 or 5 times a power of ten, at most five lines."""
    power: float = 10 ** math.floor(math.log10(highest))
    return next(power * f for f in (0.2, 0.5, 1, 2, 5) if highest / (power * f) <= 5)
