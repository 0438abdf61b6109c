"""What a plugin can add: every hook, with its exact signature and an example.

The hook reference in the documentation is generated from this file; a test runs each example.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from zoo.registry.declarations import (
        Architecture,
        Dataset,
        Engine,
        Format,
        Metric,
        Scheme,
    )
    from zoo.registry.events import Callback

hookspec = pluggy.HookspecMarker("zoo")
hookimpl = pluggy.HookimplMarker("zoo")


@hookspec
def zoo_architectures() -> Iterable[Architecture]:  # type: ignore[empty-body]  # a specification
    """Return the architectures that this plugin brings.

    `config` and `network` are import paths, so that a list of architectures imports neither
    pydantic nor torch.

    Example:
        from zoo import Architecture, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_architectures():
            yield Architecture(
                name="gated",
                summary="gated linear recurrences with attention",
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

        ZOO_API = 2


        @hookimpl
        def zoo_catalogues():
            return [Path(__file__).with_name("models.toml")]
    """


@hookspec
def zoo_datasets() -> Iterable[Dataset]:  # type: ignore[empty-body]  # a specification
    """Return the datasets that this plugin brings.

    `read(split, limit)` yields the pairs of a split, always in the same order. It is called only
    when the dataset is used; listing datasets reads no data. Test one with
    `zoo.testing.dataset_conformance`.

    Example:
        from itertools import islice

        from zoo import Dataset, Pair, hookimpl

        ZOO_API = 2
        RANGES = {"train": range(900), "validation": range(900, 950), "test": range(950, 1000)}


        def spell(split, limit):
            for number in islice(RANGES[split], limit):
                yield Pair(str(number), " ".join(str(number)))


        @hookimpl
        def zoo_datasets():
            yield Dataset("spelling", "a number, to its digits separated by spaces", spell)
    """


@hookspec
def zoo_hubs() -> Iterable[Scheme]:  # type: ignore[empty-body]  # a specification
    """Return the hubs that this plugin brings, each with the scheme of its addresses.

    The class is an import path, imported when an address of the scheme is first used. It is a
    subclass of `zoo.Hub`. Pinning and integrity checks are the same for every hub and not part of
    the class.

    Example:
        from zoo import Scheme, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_hubs():
            yield Scheme("attic", "checkpoints in the attic", "zoo_attic.hub:Attic")
    """


@hookspec
def zoo_commands(cli: click.Group) -> None:
    """Add commands to the `zoo` command line with `cli.add_command(...)`.

    `cli` is a group that belongs to this plugin; its commands are then added to `zoo`. A command
    whose name is taken, by a built-in command or by another plugin, is ignored with a warning that
    names both. Import heavy libraries inside the command.

    Example:
        import click

        from zoo import hookimpl

        ZOO_API = 2


        @click.command()
        @click.argument("model")
        def size(model):
            "Print the number of parameters of MODEL."
            from zoo import create_model

            network = create_model(model, device="meta")
            click.echo(f"{sum(weight.numel() for weight in network.parameters()):,}")


        @hookimpl
        def zoo_commands(cli):
            cli.add_command(size)
    """


@hookspec
def zoo_callbacks() -> Iterable[Callback]:  # type: ignore[empty-body]  # a specification
    """Return the callbacks for a training run.

    The hook is called when a run begins. Each callback is a `zoo.Callback` that overrides some of
    `begin`, `report`, `validation` and `end`. If one raises, a note says so, its callback is
    removed from the run, and training continues. With several processes, only the first one calls
    callbacks.

    `self.run` shows the run and cannot change it: `run.weights` and `run.optimizer_state` are
    copies of tensors by name, `run.model()` is a copy of the network, and `run.stop(reason)` ends
    the run after the next update, with its checkpoint, as if its totals were reached.

    Example:
        from zoo import Callback, hookimpl

        ZOO_API = 2


        class Telegraph(Callback):
            "Prints every validation."

            def validation(self, validation):
                print(f"update {validation.step}: {validation.validation_loss:.3f} nats per token")


        @hookimpl
        def zoo_callbacks():
            return [Telegraph()]
    """


@hookspec
def zoo_metrics() -> Iterable[Metric]:  # type: ignore[empty-body]  # a specification
    """Return the metrics that this plugin brings; `zoo eval` reports them after its own.

    The class is an import path, imported by `zoo eval` and called without arguments. It is a
    subclass of `zoo.SegmentMetric`, which counts segment by segment with a method
    `count(text, reference, source)`, or of sacreBLEU's `Metric`. Confidence intervals and
    significance tests are computed by bootstrap for either.

    Training can select weights by any metric: `select = "copied"`, with `bleu_sentences`. If lower
    scores are better, the class says `lower_is_better = True`.

    A class with `needs_source = True` also gets the source texts: `zoo.SegmentMetric.count` as its
    argument `source`, which is empty otherwise, a subclass of sacreBLEU's `Metric` as the last
    reference. Of several references of a text, `zoo.SegmentMetric` counts the best one. With
    `everywhere=False`, a metric is reported only for datasets that name it, and with `--metric`.

    Put a class that imports heavy libraries in a separate module.

    Example:
        from zoo import Metric, SegmentMetric, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_metrics():
            yield Metric("copied", "words that are copied from the source", "zoo_copied:Copied")


        class Copied(SegmentMetric):
            name = "copied"
            needs_source = True

            def count(self, text, reference, source):
                words = text.split()
                return sum(word in source.split() for word in words), len(words)
    """


@hookspec
def zoo_formats() -> Iterable[Format]:  # type: ignore[empty-body]  # a specification
    """Return the foreign formats that this plugin imports or exports.

    `importer` is the import path of a subclass of `zoo.interop.Importer`, `exporter` of
    `zoo.interop.Exporter`; each is imported on first use. An exporter for one architecture names it
    in `architecture`. Put both beside the architecture whose weights they know. The page
    “Export and engines” has a complete example.

    Example:
        from zoo import Format, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_formats():
            yield Format("attic", "checkpoints of the attic", importer="zoo_attic.formats:Attic")
    """


@hookspec
def zoo_engines() -> Iterable[Engine]:  # type: ignore[empty-body]  # a specification
    """Return the engines that this plugin brings, for `--engine`.

    An engine translates with a checkpoint that is exported to the format it names, once, into the
    cache. `runner` is the import path of a subclass of `zoo.interop.Runner`, imported on first use.

    Example:
        from zoo import Engine, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_engines():
            yield Engine("loom", "a fast engine", format="loom", runner="zoo_loom.runner:Loom")
    """
