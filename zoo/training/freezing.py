"""Weights that training leaves as they are, chosen by patterns of their names."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from zoo.errors import ConfigError, did_you_mean


def check_not_frozen(new: Sequence[str], model: nn.Module, patterns: Sequence[str]) -> None:
    """Make sure that no weight with new, random rows is frozen; the model's others are.

    Raises:
        ConfigError: one is.
    """
    if patterns and (frozen := sorted({*new} & {*freeze(model, patterns)})):
        raise ConfigError(
            f"{', '.join(frozen)} cannot be frozen",
            "the rows of tokens that the parent lacks are random, and would stay so",
            "Leave out --freeze for them, or leave the vocabularies as they are",
        )


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the parameters whose names match a pattern, and return their names.

    In a pattern, `*` is any text, `?` any character, `[ab]` one of these. A tied weight is frozen
    by any of its names.

    Raises:
        ConfigError: a pattern matches no parameter, or all parameters are frozen.
    """
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    faults = [
        f"{pattern!r} matches no parameter ({_hint(pattern, names)})"
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
    if faults:
        hint = "`zoo info MODEL --parameters` lists the names"
        raise ConfigError("nothing to freeze", "; ".join(faults), hint)
    for name, weight in model.named_parameters(remove_duplicate=False):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ConfigError(
            "nothing is left to train",
            f"{', '.join(map(repr, patterns))} freezes all parameters",
            "Leave some of them out",
        )
    return [name for name, weight in model.named_parameters() if not weight.requires_grad]


def _hint(pattern: str, names: Sequence[str]) -> str:
    """Return the patterns or names that are near, or the outermost parts of the network."""
    groups = list(dict.fromkeys(f"{prefix}.*" for name in names for prefix in _prefixes(name)))
    if guess := did_you_mean(pattern, [*groups, *names]):
        return guess
    outermost = dict.fromkeys(name.partition(".")[0] + ".*" * ("." in name) for name in names)
    return f"the network has {', '.join(outermost)}"


def _prefixes(name: str) -> list[str]:
    """Return a dotted name's prefixes, the shortest first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
