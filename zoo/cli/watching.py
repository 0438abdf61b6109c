"""`zoo watch`: a run's curve, samples and remaining time while it trains. No torch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.format import RUN
from zoo.cli.options import DAY, Number, json_option
from zoo.cli.output import print_json
from zoo.errors import CheckpointError
from zoo.files import JSON_LIMIT, read_json
from zoo.registry.records import read_metrics

if TYPE_CHECKING:
    from rich.console import RenderableType

HEIGHT = 12
"""Lines of the curve."""

LARGEST = 1e100
"""Metrics from here on are not drawn."""

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a Braille character's dots, by row and column."""


class Watched:
    """The metrics of a run, read again as they grow.

    Raises:
        CheckpointError: there is no run.
    """

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, out.with_name(f"{out.name}.run")
        if not out.name or not (self.folder / RUN).is_file():
            raise CheckpointError(
                f"no run at {self.folder}", f"it has no {RUN}", "Name the --out of `zoo train`"
            )
        self.description = self._json(self.folder / RUN)
        self.records: list[dict[str, Any]] = []
        self._seen = (-1, 0)

    def update(self) -> list[dict[str, Any]]:
        """Return the records that are new; a line that is still being written waits."""
        file = self.folder / "metrics.jsonl"
        try:
            status = file.stat()
        except OSError:
            return []
        if (seen := (status.st_size, status.st_mtime_ns)) == self._seen:
            return []
        records = read_metrics(file)
        # A resumed run removes what it will repeat.
        known = len(self.records) if records[: len(self.records)] == self.records else 0
        self.records, self._seen = records, seen
        return records[known:]

    @property
    def finished(self) -> bool:
        """Whether the run has written its checkpoint."""
        try:
            written = self._json(self.out / "training.json")
        except CheckpointError:
            return False
        return bool(written.get("run") == self.description.get("id"))

    @property
    def state(self) -> dict[str, Any]:
        """What is known about the run now, as plain values."""
        report: dict[str, Any] = next((r for r in reversed(self.records) if "done" in r), {})
        validation: dict[str, Any] = next(
            (r for r in reversed(self.records) if "validation_loss" in r), {}
        )
        done, minutes = float(report.get("done") or 0.0), float(report.get("minutes") or 0.0)
        return {
            "model": self.description.get("model"),
            "data": self.description.get("data"),
            "step": report.get("step"),
            "done": done,
            "minutes": minutes,
            "minutes_left": minutes * (1 - done) / done if 0 < done <= 1 else None,
            "loss": report.get("loss"),
            "tokens_per_second": report.get("tokens_per_second"),
            "validation_loss": validation.get("validation_loss"),
            "bleu": validation.get("bleu"),
            "samples": validation.get("samples", []),
            "finished": self.finished,
        }

    def points(self, key: str) -> list[tuple[float, float]]:
        """Return the updates and the finite values of a metric."""
        return [
            (float(r["step"]), float(r[key]))
            for r in self.records
            if isinstance(r.get(key), int | float) and abs(r[key]) < LARGEST
        ]

    @staticmethod
    def _json(file: Path) -> dict[str, Any]:
        return read_json(file, 50 * JSON_LIMIT)


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Show the run as it is now, and end.")
@click.option("--every", type=Number(0.1, DAY), default=1.0, show_default=True,
              metavar="SECONDS", help="How often to look for new metrics.")  # fmt: skip
@json_option
def watch(out: Path, once: bool, every: float, as_json: bool) -> None:
    """Show the curve, samples and remaining time of the run that trains OUT.

    Ends when the run has written its checkpoint; Ctrl-C ends it before. --json prints the state of
    the run once.
    """
    run = Watched(out)
    run.update()
    if as_json:
        print_json(run.state)
        return
    from zoo.cli.output import console

    if once or not console().is_terminal:
        console().print(view(run, console().width), soft_wrap=True)
        for record in () if once else _new_records(run, every):
            click.echo(_line(record))
        return
    from rich.live import Live

    with Live(view(run, console().width), console=console()) as live:
        for _ in _new_records(run, every):
            live.update(view(run, console().width))


def _new_records(run: Watched, every: float) -> Iterator[dict[str, Any]]:
    """Yield new records until the run has finished."""
    while not run.finished:
        yield from run.update()
        time.sleep(every)
    yield from run.update()


def _line(record: dict[str, Any]) -> str:
    if record.get("validation_loss") is not None:
        bleu = f", BLEU {record['bleu']:.2f}" if record.get("bleu") is not None else ""
        return f"{record['step']:>9,}  validation loss {record['validation_loss']:.4f}{bleu}"
    loss = "" if record.get("loss") is None else f"  loss {record['loss']:.4f}"
    return f"{record['step']:>9,}{loss}"


def view(run: Watched, width: int) -> RenderableType:
    """Return what a terminal of so many columns shows."""
    from rich.console import Group
    from rich.text import Text

    state = run.state
    lines = [Text(f"{state['model']} on {state['data']}", "bold"), Text(_progress(state, width))]
    loss, valid = run.points("loss"), run.points("validation_loss")
    if loss or valid:
        lines += [Text(), *map(Text, plot(loss, valid, max(20, min(width, 110))))]
    for sample in state["samples"][:3]:
        lines += [Text()]
        lines += [
            Text.assemble((f"{name:>12} ", "dim"), str(sample.get(name, "")))
            for name in ("source", "reference", "translation")
        ]
    return Group(*lines)


def _progress(state: dict[str, Any], width: int) -> str:
    if state["step"] is None:
        return "no update is recorded yet"
    bar = max(10, min(30, width - 70))
    filled = round(bar * min(1.0, state["done"]))
    left = state["minutes_left"]
    remaining = "finished" if state["finished"] else f"{_duration(left)} left" if left else ""
    parts = [
        f"{'█' * filled}{'░' * (bar - filled)} {100 * state['done']:.0f}%",
        f"update {state['step']:,}",
        remaining,
        "" if state["loss"] is None else f"loss {state['loss']:.3f}",
        "" if state["validation_loss"] is None else f"validation {state['validation_loss']:.3f}",
        "" if state["bleu"] is None else f"BLEU {state['bleu']:.1f}",
        f"{state['tokens_per_second']:,.0f} tokens/s" if state["tokens_per_second"] else "",
    ]
    return " · ".join(part for part in parts if part)


def _duration(minutes: float) -> str:
    seconds = round(minutes * 60)
    if seconds < 90:
        return f"{seconds} s"
    return f"{round(minutes)} min" if minutes < 90 else f"{minutes / 60:.1f} h"


Points = Sequence[tuple[float, float]]


def plot(loss: Points, valid: Points, width: int) -> list[str]:
    """Return the training loss as Braille dots and the validation loss as o, with an axis."""
    values = sorted(value for _, value in (*loss, *valid))
    low, high = values[0], values[min(len(values) - 1, int(0.98 * len(values)))]
    if high - low < 1e-9:
        high = low + 1
    last = max(step for step, _ in (*loss, *valid)) or 1.0
    columns = width - 8
    dots = [[0] * columns for _ in range(HEIGHT)]
    marks = [[" "] * columns for _ in range(HEIGHT)]

    def cell(step: float, value: float) -> tuple[int, int]:
        x = min(2 * columns - 1, int(step / last * (2 * columns - 1)))
        share = (min(max(value, low), high) - low) / (high - low)
        return x, min(4 * HEIGHT - 1, int((1 - share) * (4 * HEIGHT - 1)))

    for step, value in loss:
        x, y = cell(step, value)
        dots[y // 4][x // 2] |= DOTS[y % 4][x % 2]
    for step, value in valid:
        x, y = cell(step, value)
        marks[y // 4][x // 2] = "o"
    labels = {0: f"{high:.2f}", HEIGHT - 1: f"{low:.2f}"}
    lines = []
    for row in range(HEIGHT):
        cells = zip(dots[row], marks[row], strict=True)
        drawn = "".join(m if m != " " else chr(0x2800 + d) if d else " " for d, m in cells)
        lines.append(f"{labels.get(row, ''):>6} {drawn}".rstrip())
    updates = f"{last:,.0f} updates"
    return [*lines, f"{'':>7}{'loss, o validation':<{max(1, columns - len(updates))}}{updates}"]
