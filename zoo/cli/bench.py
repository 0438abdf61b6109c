"""`zoo bench`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from zoo.cli.output import json_option, names, print_json, say


@click.group()
def bench() -> None:
    """Measure speed on this machine."""


@bench.command()
@click.argument("model")
@click.option("--data", required=True, help="A dataset's name, or files, as in zoo train.")
@click.option("--limit", type=click.IntRange(1), help="Read only the first N pairs of each file.")
@click.option("--recipe", help="A recipe of the catalogue, over the model's and the data's own.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="A value of the model's config or of the recipe; may be repeated.")  # fmt: skip
@click.option("--precision", type=click.Choice(["float32", "bf16", "auto"]),
              help="What products are computed in; auto measures once.")  # fmt: skip
@click.option("--updates", type=click.IntRange(1), default=20, show_default=True,
              help="Updates to time, after three that are not.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
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

    Prints target tokens a second, the share of padding, and the share of the machine's speed that
    the updates reach: their products' operations beside a large matrix product's, in this run.
    """
    found = names()
    from zoo.registry.config import parse_settings
    from zoo.training import prepare
    from zoo.training.benchmark import measure

    own = parse_settings(settings)
    if precision is not None:
        own["recipe.precision"] = precision
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench"
        ready = prepare(model, data, out, settings=own, steps=updates, registry=found, **options)
        with ready:
            speed = measure(ready.trainer, updates)
    used = ready.plan.recipe.precision
    if as_json:
        megabytes = _peak_megabytes()
        row = {"model": model, "data": data, "precision": used, "padding": ready.padding}
        print_json({**row, **speed._asdict(), "peak_megabytes": megabytes})
        return
    if ready.choice is not None:
        say(str(ready.choice))
    say(f"{model} on {data}, {used}: {speed.tokens_per_second:,.0f} target tokens/s")
    say(f"{100 * ready.padding:.1f}% of the batches is padding")
    say(
        f"{100 * speed.utilisation:.0f}% of a matrix product's speed: {speed.flops / 1e9:,.0f} of "
        f"{speed.peak_flops / 1e9:,.0f} GFLOP/s"
    )
    if (megabytes := _peak_megabytes()) is not None:
        say(f"Peak memory of the process: {megabytes:,.0f} MB")


def _peak_megabytes() -> float | None:
    """Return the most memory the process had, where the system tells."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)
