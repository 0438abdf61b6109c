"""`zoo bench`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from zoo.cli.completion import complete_data, complete_model
from zoo.cli.options import (
    Group,
    check_contradictions,
    device_option,
    json_option,
    limit_option,
    recipe_option,
    settings_option,
    training_precision_option,
)
from zoo.cli.output import loaded_registry, print_json, say


@click.group(cls=Group)
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.argument("model", shell_complete=complete_model)
@click.option("--data", required=True, shell_complete=complete_data,
              help="A dataset's name, or files, as in zoo train.")  # fmt: skip
@limit_option
@recipe_option
@settings_option
@training_precision_option
@click.option("--updates", type=click.IntRange(1), default=20, show_default=True,
              help="Updates to time, after three for warm-up.")  # fmt: skip
@device_option
@json_option
def train(
    model: str,
    data: str,
    settings: tuple[str, ...],
    precision: str | None,
    updates: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Time updates of MODEL on parallel text; nothing is kept.

    Reports target tokens/s, padding, and throughput relative to a large matrix multiplication.
    """
    registry = loaded_registry()
    from zoo.registry.config import parse_settings
    from zoo.training.benchmark import time_updates
    from zoo.training.request import TrainingRequest
    from zoo.training.session import begin

    values = parse_settings(settings)
    check_contradictions(values, {"precision": precision})
    if precision is not None:
        values["recipe.precision"] = precision
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench"
        request = TrainingRequest(model, data, out, settings=values, steps=updates, **options)
        with begin(request, registry) as session:
            trainer = session.trainer
            padding = trainer.corpus.padding(trainer.batches)
            speed = time_updates(trainer, updates)
    used = trainer.plan.recipe.precision
    if as_json:
        megabytes = _peak_megabytes()
        row = {"model": model, "data": data, "precision": used, "padding": padding}
        print_json({**row, **speed._asdict(), "peak_megabytes": megabytes})
        return
    if session.precision is not None:
        say(str(session.precision))
    say(f"{model} on {data}, {used}: {speed.tokens_per_second:,.0f} target tokens/s, "
        f"{100 * padding:.1f}% padding")  # fmt: skip
    say(f"{100 * speed.utilization:.0f}% of the throughput of a large matrix multiplication: "
        f"{speed.flops / 1e9:,.0f} of {speed.peak_flops / 1e9:,.0f} GFLOP/s")  # fmt: skip
    if (megabytes := _peak_megabytes()) is not None:
        say(f"Peak memory of the process: {megabytes:,.0f} MB")


def _peak_megabytes() -> float | None:
    """Return the peak memory of the process, where the system reports it."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)
