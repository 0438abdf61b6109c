"""What a plugin can add: every hook, with its exact signature and an example.

The reference in the documentation is written from this file, and a test runs each example.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from zoo.registry.declarations import Architecture, Dataset, Metric, Scheme
    from zoo.registry.events import Callback

hookspec = pluggy.HookspecMarker("zoo")
hookimpl = pluggy.HookimplMarker("zoo")


@hookspec
def zoo_architectures() -> Iterable[Architecture]:  # type: ignore[empty-body]  # a specification
    """Return the architectures that this plugin brings.

    Config and network are named by where they are, so that a list of architectures imports
    neither pydantic nor torch.

    Example:
        from zoo import Architecture, hookimpl


        @hookimpl
        def zoo_architectures():
            yield Architecture(
                name="gated",
                summary="gated linear recurrences, joined by attention",
                paper="Feng et al. 2024, Were RNNs All We Needed?",
                config="zoo_gated.config:GatedConfig",
                network="zoo_gated.network:Gated",
            )
    """


@hookspec
def zoo_catalogues() -> Iterable[Path]:  # type: ignore[empty-body]  # a specification
    """Return TOML files that list models, checkpoints and recipes.

    Example:
        from pathlib import Path

        from zoo import hookimpl


        @hookimpl
        def zoo_catalogues():
            return [Path(__file__).with_name("models.toml")]
    """


@hookspec
def zoo_datasets() -> Iterable[Dataset]:  # type: ignore[empty-body]  # a specification
    """Return the datasets that this plugin brings.

    `read(split, limit)` yields the pairs of a split in order, each time the same; nothing is read
    before it is asked for.

    Example:
        from itertools import islice

        from zoo import Dataset, Pair, hookimpl

        COUNTS = {"train": 900, "validation": 50, "test": 50}


        def spell(split, limit):
            start = {"train": 0, "validation": 900, "test": 950}[split]
            numbers = range(start, start + COUNTS[split])
            for number in islice(numbers, limit):
                yield Pair(str(number), " ".join(str(number)))


        @hookimpl
        def zoo_datasets():
            yield Dataset("spelling", "a number, to its digits one by one", spell)
    """


@hookspec
def zoo_hubs() -> Iterable[Scheme]:  # type: ignore[empty-body]  # a specification
    """Return the hubs that this plugin brings, each with the scheme of its addresses.

    The class is named as text and imported when an address of the scheme is first used. It is a
    subclass of `zoo.Hub`; pinning and checks are the same for every hub, and not its business.

    Example:
        from zoo import Scheme, hookimpl


        @hookimpl
        def zoo_hubs():
            yield Scheme("attic", "checkpoints under the roof", "zoo_attic.hub:Attic")
    """


@hookspec
def zoo_commands(cli: click.Group) -> None:
    """Add commands to the `zoo` command line: `cli.add_command(...)`.

    `cli` is a group of this plugin's own, whose commands then join `zoo`. A name that is taken,
    by a command in the box or by another plugin, is left out, and both are told. Import what is
    heavy inside the command.

    Example:
        import click

        from zoo import hookimpl


        @click.command()
        @click.argument("model")
        def size(model):
            "Print how many parameters MODEL has."
            from zoo import create_model

            network = create_model(model, device="meta")
            click.echo(f"{sum(weight.numel() for weight in network.parameters()):,}")


        @hookimpl
        def zoo_commands(cli):
            cli.add_command(size)
    """


@hookspec
def zoo_callbacks() -> Iterable[Callback]:  # type: ignore[empty-body]  # a specification
    """Return callbacks for a training run that begins.

    Each is a `zoo.Callback` with some of `begin`, `report`, `validation` and `end`. One that raises
    is told and left out of the rest of the run; training goes on. Of several processes, the first
    has them.

    Example:
        from zoo import Callback, hookimpl


        class Telegraph(Callback):
            "Tells of every validation."

            def validation(self, validation):
                print(f"update {validation.step}: {validation.validation_loss:.3f} nats a token")


        @hookimpl
        def zoo_callbacks():
            return [Telegraph()]
    """


@hookspec
def zoo_metrics() -> Iterable[Metric]:  # type: ignore[empty-body]  # a specification
    """Return the metrics that this plugin brings, which `zoo eval` gives beside its own.

    The class is named as text and imported by `zoo eval`. It is a subclass of sacreBLEU's `Metric`
    that is made without arguments; intervals and tests by bootstrap come with that.

    Example:
        from zoo import Metric, hookimpl


        @hookimpl
        def zoo_metrics():
            yield Metric("vowels", "share of vowels that are right", "zoo_vowels.metric:Vowels")
    """
