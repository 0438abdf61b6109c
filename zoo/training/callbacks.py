"""Who is told what happens: the curve as a picture, TensorBoard, and plugins."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.files import replace_file
from zoo.registry.events import Callback, Event, Note, Report, Validation
from zoo.registry.registry import Registry
from zoo.training.run import Run


class Callbacks:
    """Callbacks, each kept from ending the run: one that raises is told of and left out."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self.active = list(callbacks)

    def begin(self, step: int, run: Run) -> list[Note]:
        """Tell that training begins."""
        return self._call(step, "begin", run.folder, run.describe()) if self.active else []

    def tell(self, event: Event) -> list[Note]:
        """Tell of an event."""
        if isinstance(event, Report):
            return self._call(event.step, "report", event)
        if isinstance(event, Validation):
            return self._call(event.step, "validation", event)
        return []

    def end(self, step: int) -> list[Note]:
        """Tell that training is over."""
        return self._call(step, "end")

    def _call(self, step: int, method: str, *arguments: Any) -> list[Note]:
        """Call a method of each; return what went wrong."""
        notes = []
        for callback in list(self.active):
            try:
                getattr(callback, method)(*arguments)
            except Exception as error:
                self.active.remove(callback)
                name = type(callback).__name__
                notes.append(Note(step, f"{name} is left out: {type(error).__name__}: {error}"))
        return notes


def callbacks(registry: Registry) -> tuple[Callbacks, list[str]]:
    """Return the plugins' callbacks, TensorBoard's where it is installed, and what went wrong."""
    found: list[Callback] = []
    wrong = []
    broken = len(registry.plugins.broken)
    for plugin, given in registry.plugins.call("zoo_callbacks"):
        for callback in given:
            if isinstance(callback, Callback):
                found.append(callback)
            else:
                wrong.append(f"{plugin} brings {callback!r}, which is no Callback")
    wrong += [
        f"plugin {p} brings no callbacks: {p.problem}" for p in registry.plugins.broken[broken:]
    ]
    if importlib.util.find_spec("tensorboard"):
        found.append(TensorBoard())
    return Callbacks(found), wrong


class TensorBoard(Callback):
    """Writes `OUT.run/tensorboard`, for `tensorboard --logdir`."""

    def begin(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Open the event file."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def report(self, report: Report) -> None:
        """Write loss, rate and speed."""
        for name in ("loss", "learning_rate", "gradient_norm", "tokens_per_second"):
            value = getattr(report, name)
            if value is not None:
                self.writer.add_scalar(f"training/{name}", value, report.step)

    def validation(self, validation: Validation) -> None:
        """Write loss, BLEU and samples."""
        self.writer.add_scalar("validation/loss", validation.validation_loss, validation.step)
        if validation.bleu is not None:
            self.writer.add_scalar("validation/bleu", validation.bleu, validation.step)
        for i, sample in enumerate(validation.samples):
            text = f"{sample.source}\n\n{sample.reference}\n\n**{sample.translation}**"
            self.writer.add_text(f"sample {i + 1}", text, validation.step)
        self.writer.flush()

    def end(self) -> None:
        """Close the event file."""
        self.writer.close()


def draw_curve(metrics: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Return losses and BLEU by update as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="update", ylabel="loss, nats per target token", title=title)
    series = [("loss", "training, label smoothing included", "-"),
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


def write_curve(folder: Path, metrics: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Write the curve into a run's folder, and return it."""
    picture = draw_curve(metrics, title)
    replace_file(folder / "curve.png", picture)
    return picture
