"""Callbacks: TensorBoard's, and those that plugins bring."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from zoo.errors import FAILURES, shown
from zoo.registry.events import Callback, Event, Note, Report, Run, Validation
from zoo.registry.registry import Registry


class Callbacks:
    """Calls callbacks. One that raises is reported and disabled; training continues."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self.active = list(callbacks)

    def begin(
        self, step: int, folder: Path, description: Mapping[str, Any], view: Callable[[str], Run]
    ) -> list[Note]:
        """Call `begin` of each; return notes about failures, as the other methods do.

        `view` returns the run as the callback of this name sees it.
        """
        for callback in self.active:
            callback.run = view(type(callback).__name__)
        return self._call(step, "begin", folder, description)

    def notify(self, event: Event) -> list[Note]:
        """Call `report` or `validation` of each."""
        if isinstance(event, Report):
            return self._call(event.step, "report", event)
        if isinstance(event, Validation):
            return self._call(event.step, "validation", event)
        return []

    def end(self, step: int) -> list[Note]:
        """Call `end` of each."""
        return self._call(step, "end")

    def _call(self, step: int, method: str, *arguments: Any) -> list[Note]:
        notes = []
        for callback in list(self.active):
            try:
                with torch.random.fork_rng(_devices()):
                    getattr(callback, method)(*arguments)
            except FAILURES as error:
                self.active.remove(callback)
                problem = " ".join(f"{type(error).__name__}: {error}".split())
                notes.append(Note(step, f"{type(callback).__name__} is disabled: {problem}"))
        return notes


def _devices() -> list[int]:
    """Return the GPUs, if any is in use; training draws from the generator of one of them."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def load_callbacks(registry: Registry) -> tuple[Callbacks, list[str]]:
    """Return the plugins' callbacks, TensorBoard's if it is installed, and notes about failures."""
    callbacks: list[Callback] = []
    notes = []
    broken = len(registry.plugins.broken)
    for plugin, brought in registry.plugins.call("zoo_callbacks"):
        for callback in brought:
            if isinstance(callback, Callback):
                callbacks.append(callback)
            else:
                notes.append(f"plugin {plugin} brings {shown(callback)}, which is no Callback")
    notes += [
        f"plugin {p} brings no callbacks: {p.problem}" for p in registry.plugins.broken[broken:]
    ]
    if importlib.util.find_spec("tensorboard"):
        callbacks.append(TensorBoard())
    return Callbacks(callbacks), notes


class TensorBoard(Callback):
    """Writes `OUT.run/tensorboard`, for `tensorboard --logdir`."""

    def begin(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Open the event file."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def report(self, report: Report) -> None:
        """Write losses, learning rate, gradient norm and speed."""
        for name in ("loss", "learning_rate", "gradient_norm", "tokens_per_second"):
            value = getattr(report, name)
            if value is not None:
                self.writer.add_scalar(f"training/{name}", value, report.step)
        for name, loss in report.losses.items():
            self.writer.add_scalar(f"training/loss/{name}", loss, report.step)

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
