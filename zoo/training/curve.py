"""The plot of a run's metrics."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any


def draw_curve(metrics: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Return a plot of losses and BLEU by update, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="update", ylabel="loss, nats per target token", title=title)
    series = [("loss", "training, with label smoothing", "-"),
              ("validation_loss", "validation", "o-")]  # fmt: skip
    for key, label, style in series:
        points = [(record["step"], record[key]) for record in metrics if key in record]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, markersize=3, linewidth=1)
    axes.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    scores = [(r["step"], r["bleu"]) for r in metrics if r.get("bleu") is not None]
    if scores:
        other = axes.twinx()
        other.set_ylabel("BLEU")
        handles += other.plot(*zip(*scores, strict=True), "s--", color="C2", markersize=3)
        labels.append("BLEU, greedy")
    if handles:
        axes.legend(handles, labels)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
