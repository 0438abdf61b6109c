"""Settings of the whole process, which a network may not change."""

from __future__ import annotations

import contextlib
import os
import random
import warnings
from collections.abc import Callable, Iterator
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
    Setting("the working directory", os.getcwd, os.chdir),
    Setting("Python's random numbers", random.getstate, random.setstate),
    Setting("NumPy's random numbers", _numpy_state, _set_numpy_state),
    # `kept_settings` restores them by `catch_warnings`, which also clears Python's cache of them.
    Setting("the filters of warnings", lambda: list(warnings.filters), lambda filters: None),
]


def read_settings() -> list[Any]:
    """Return the values of all settings."""
    return [setting.read() for setting in SETTINGS]


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
