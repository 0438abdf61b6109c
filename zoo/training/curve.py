"""The plot of a run's metrics."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

SMOOTHING = 0.1
"""The weight of a new value in the moving average of the training loss."""

COLORS = {"training": "#7a8794", "validation": "#2563b8", "BLEU": "#b4470f"}


def for_the_record(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the metrics as a checkpoint keeps it: no samples, numbers of six digits."""
    return {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in report.items()
        if name != "samples"
    }


def draw_curve(metrics: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Return a plot of losses, and below it of BLEU if there is any, by update, as PNG.

    The training loss is a moving average over its values, which are shown faintly behind it. The
    best validation loss and BLEU are marked with their values.
    """
    from matplotlib.figure import Figure

    scores = _points(metrics, "bleu")
    rows = 2 if scores else 1
    width, height = 8, 2.4 + 2.2 * rows
    figure = Figure(figsize=(width, height))
    # Fixed margins in inches: a layout engine draws every figure twice.
    figure.subplots_adjust(0.7 / width, 0.55 / height, 1 - 0.15 / width, 1 - 0.75 / height)
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    losses, validation = _points(metrics, "loss"), _points(metrics, "validation_loss")
    if losses:
        steps, values = zip(*losses, strict=True)
        axes[0].plot(steps, values, color=COLORS["training"], alpha=0.3, linewidth=0.8)
        axes[0].plot(steps, smoothed(values), color=COLORS["training"], linewidth=2,
                     label="training, smoothed")  # fmt: skip
    _draw_best(axes[0], validation, "validation", min)
    axes[0].set_ylabel("loss, nats per target token")
    if scores:
        _draw_best(axes[1], scores, "BLEU", max)
        axes[1].set_ylabel("BLEU, greedy search")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    axes[-1].set_xlabel("update")
    figure.suptitle(title, x=0.02, ha="left", weight="bold", parse_math=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the exponential moving average of values, corrected for its start."""
    averages, total, weight = [], 0.0, 0.0
    for value in values:
        total = (1 - SMOOTHING) * total + SMOOTHING * value
        weight = (1 - SMOOTHING) * weight + SMOOTHING
        averages.append(total / weight)
    return averages


def _points(metrics: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float]]:
    return [(record["step"], record[key]) for record in metrics if record.get(key) is not None]


def _draw_best(axes: Any, points: Sequence[tuple[int, float]], name: str, best: Any) -> None:
    """Draw a curve with its points; its best value stands in the legend."""
    if points:
        step, value = best(points, key=lambda point: point[1])
        label = f"{name}: best {value:.4g} at update {step:,}"
        axes.plot(*zip(*points, strict=True), "o-", color=COLORS[name], markersize=3, label=label)
        axes.plot([step], [value], "o", color=COLORS[name], markersize=8, fillstyle="none")
