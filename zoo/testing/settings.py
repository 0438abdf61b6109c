"""Settings of the whole process, which a network may not change."""

from __future__ import annotations

import contextlib
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch


class Setting(NamedTuple):
    """A setting by name: how it is read, as a value that can be compared, and how it is set."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


def _default_device() -> str:
    return str(torch.get_default_device())


def _set_default_device(device: str) -> None:
    # Without a default, torch need not look for one at each new tensor.
    torch.set_default_device(None if device == "cpu" else device)


def _numpy_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return kind, np.asarray(keys).tobytes(), *rest


def _set_numpy_state(state: tuple[Any, ...]) -> None:
    kind, keys, *rest = state
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


BACKENDS = ("cudnn.benchmark", "cudnn.deterministic", "cudnn.enabled", "mkldnn.enabled")
"""Flags of `torch.backends`."""


def _backends() -> dict[str, bool]:
    return {name: attrgetter(name)(torch.backends) for name in BACKENDS}


def _set_backends(flags: dict[str, bool]) -> None:
    for name, flag in flags.items():
        library, _, attribute = name.partition(".")
        setattr(getattr(torch.backends, library), attribute, flag)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


FILTERS = "the filters of warnings"

SETTINGS = [
    Setting("torch's default type", torch.get_default_dtype, torch.set_default_dtype),
    Setting("torch's default device", _default_device, _set_default_device),
    Setting("whether torch computes gradients", torch.is_grad_enabled, torch.set_grad_enabled),
    Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    Setting(
        "whether torch's algorithms are deterministic",
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
    Setting(
        "torch's precision of products",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    Setting(
        "whether torch looks for anomalies",
        torch.is_anomaly_enabled,
        torch.autograd.set_detect_anomaly,
    ),
    Setting("torch's backends", _backends, _set_backends),
    Setting("the working directory", os.getcwd, os.chdir),
    Setting("the environment", lambda: dict(os.environ), _set_environment),
    Setting("Python's random numbers", random.getstate, random.setstate),
    Setting("NumPy's random numbers", _numpy_state, _set_numpy_state),
    # `kept_settings` restores them by `catch_warnings`, which also clears Python's cache of them.
    Setting(FILTERS, lambda: list(warnings.filters), lambda filters: None),
]


def read_settings() -> list[Any]:
    """Return the values of all settings."""
    return [setting.read() for setting in SETTINGS]


def changed_settings(before: list[Any]) -> dict[str, str]:
    """Return the settings that have other values than before: their names, and what differs."""
    values = zip(SETTINGS, before, read_settings(), strict=True)
    return {setting.name: _difference(old, new) for setting, old, new in values if old != new}


def listed(changed: Mapping[str, str]) -> str:
    """Return settings with what differs, as a message names them."""
    return ", ".join(name + difference for name, difference in changed.items())


def _difference(old: object, new: object) -> str:
    """Return what differs between two values of a setting; nothing of long ones."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        return f" ({', '.join(names)})"
    text = f" (from {old!r} to {new!r})"
    return text if len(text) < 200 else ""  # states of random numbers are long


@contextlib.contextmanager
def kept_settings() -> Iterator[None]:
    """Restore the settings at the end."""
    before = read_settings()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for setting, value in zip(SETTINGS, before, strict=True):
            if setting.read() != value:
                setting.write(value)
