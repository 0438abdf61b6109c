"""The options by which commands search."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("--beam", int, "Hypotheses kept at each step; 1, the default, is greedy search."),
    ("--n-best", int, "Translations of each text, at most as many as the beam has."),
    (
        "--length-penalty",
        float,
        "A: hypotheses are ranked by log probability / ((5 + n) / 6)^A, n being the tokens with "
        "the end token counted. 0, the default, ranks by probability; the greater A, the longer.",
    ),
    (
        "--coverage-penalty",
        float,
        "B: adds B · Σ log min(attention paid, 1) over the source's tokens, as ranked by.",
    ),
    ("--min-length", int, "Least tokens of a translation, the end token counted."),
    ("--max-length", int, "Most tokens of a translation, the end token counted."),
    (
        "--stop",
        click.Choice(["safe", "first"]),
        "When a beam stops: safe, when nothing live can still win; first, when one has finished "
        "and nothing live is ranked better as it stands.",
    ),
    ("--sample", None, "Draw each token by its probability."),
    ("--temperature", float, "Divides the logits before drawing."),
    ("--top-k", int, "Draw from the K likeliest tokens."),
    ("--top-p", float, "Draw from the fewest likeliest tokens that have the probability P."),
    ("--seed", int, "Of drawing: the same seed draws the same."),
    ("--exhaustive", None, "Score every target there can be; for tiny vocabularies."),
)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a search; it takes those given as the mapping `search`."""

    @functools.wraps(command)
    def with_search(*arguments: Any, **options: Any) -> Any:
        own = {name: options.pop(name) for name in _names()}
        search = {
            name: value for name, value in own.items() if value is not None and value is not False
        }
        return command(*arguments, search=search, **options)

    for name, kind, text in reversed(OPTIONS):
        shape: dict[str, Any] = {"is_flag": True} if kind is None else {"type": kind}
        with_search = click.option(name, help=text, **shape)(with_search)
    return with_search


def _names() -> list[str]:
    return [name.removeprefix("--").replace("-", "_") for name, _, _ in OPTIONS]
