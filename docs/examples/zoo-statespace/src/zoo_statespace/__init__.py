"""Diagonal linear state spaces, connected by attention, with a dataset and a command."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import click
from zoo import Architecture, Dataset, Pair, hookimpl

ZOO_API = 2

WORDS = ("one", "two", "three", "four", "five", "six", "seven")
SPLITS = {"train": (0, 9_000), "validation": (9_000, 9_500), "test": (9_500, 10_000)}


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Declare the architecture `statespace`."""
    yield Architecture(
        name="statespace",
        summary="diagonal linear state spaces, connected by attention",
        paper="Gupta, Gu and Berant 2022, Diagonal State Spaces are as Effective as Structured "
        "State Spaces",
        config="zoo_statespace.config:StateSpaceConfig",
        network="zoo_statespace.network:StateSpace",
    )


@hookimpl
def zoo_catalogues() -> Iterable[Path]:
    """Return the catalogue of this package's models."""
    yield Path(__file__).with_name("models.toml")


@hookimpl
def zoo_datasets() -> Iterable[Dataset]:
    """Declare a task that needs a memory of the whole source."""
    yield Dataset(
        "backwards",
        "five words to the same words in reverse order; generated",
        _backwards,
        terms="generated; free to use",
    )


def _backwards(split: str, limit: int | None) -> Iterator[Pair]:
    start, end = SPLITS[split]
    for index in islice(range(start, end), limit):
        # Multiplying by a number coprime to the count visits all sequences in a shuffled order.
        number = index * 7_919 % len(WORDS) ** 5
        words = [WORDS[number // len(WORDS) ** digit % len(WORDS)] for digit in range(5)]
        yield Pair(" ".join(words), " ".join(reversed(words)))


@click.command("half-lives")
@click.argument("checkpoint")
def half_lives(checkpoint: str) -> None:
    """Print the half-life of each layer's state in tokens: minimum, median, maximum."""
    from zoo import ZooError, load

    network = load(checkpoint, device="cpu").checkpoint.model
    rates = {name: rate for name, rate in network.named_parameters() if name.endswith("log_rate")}
    if not rates:
        raise ZooError(f"{checkpoint} has no state spaces", "it is of another architecture")
    for name, rate in rates.items():
        # a = exp(−exp(ρ)), so half of the state remains after ln 2 / exp(ρ) tokens.
        lives = (0.6931 / rate.exp()).sort().values.tolist()
        shortest, median, longest = lives[0], lives[len(lives) // 2], lives[-1]
        click.echo(f"{name.removesuffix('.log_rate')}  {shortest:.1f}  {median:.1f}  {longest:.1f}")


@hookimpl
def zoo_commands(cli: click.Group) -> None:
    """Add the command `zoo half-lives`."""
    cli.add_command(half_lives)
