"""The command-line options of a search, one for each field of `zoo.Search`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from zoo.cli.completion import complete_named
from zoo.decoding import options
from zoo.decoding.option import Option

PLURALS = {"search": "searches", "processor": "processors"}
"""The kinds of what options name."""


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the search options to a command.

    It receives those given as the mapping `search`, and whether the checkpoint's recommended ones
    apply besides as `recommended`.
    """
    return _with_options(command, options.search_options())


def best_search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the search options to a command that needs only the best translation of each text."""
    chosen = [option for option in options.search_options() if option.name != "n_best"]
    return _with_options(command, chosen)


def _with_options(command: Callable[..., Any], chosen: Sequence[Option]) -> Callable[..., Any]:

    @functools.wraps(command)
    def with_search(*arguments: Any, **given: Any) -> Any:
        values = {option.name: given.pop(option.name) for option in chosen}
        return command(*arguments, search=given_options(values), **given)

    with_search = click.option(
        "--recommended/--no-recommended",
        default=True,
        show_default=True,
        help="Use the checkpoint's recommended search options where none are given.",
    )(with_search)
    for option in reversed(chosen):
        with_search = _add(option)(with_search)
    return with_search


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, without flags and values that were not."""
    # By identity: a seed of 0 is given, though 0 == False.
    absent = (None, False, ())
    return {
        name: value
        for name, value in options.items()
        if value != "" and not any(value is nothing for nothing in absent)
    }


def _add(option: Option) -> Callable[..., Any]:
    """Return the decorator that adds one option; without a default, so that given ones show."""
    if option.kind is bool:
        return click.option(option.flag, option.name, is_flag=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices else option.kind
    named = complete_named(PLURALS[option.word]) if option.word else None
    return click.option(
        option.flag, option.name, type=kind, multiple=option.repeated, help=option.help,
        shell_complete=named,
    )  # fmt: skip
