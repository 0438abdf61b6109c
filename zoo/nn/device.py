"""The device to compute on."""

from __future__ import annotations

import torch

from zoo.errors import ConfigError, shown

NO_FLOAT64 = {"mps"}
"""Kinds of devices that cannot compute in float64."""


def exact_device(device: torch.device) -> torch.device:
    """Return where float64 is computed for a device: on itself, or on the CPU if it cannot."""
    return torch.device("cpu") if device.type in NO_FLOAT64 else device


def devices() -> list[str]:
    """Return the names of this machine's devices, the CPU first."""
    names = ["cpu"]
    if torch.cuda.is_available():
        names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """Return the device of that name; `auto` is a CUDA GPU if there is one, else the CPU.

    Raises:
        ConfigError: the machine has no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        picked = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        picked = torch.device("meta")
    if picked.type == "meta":  # no such device, or one that holds no values
        known = f"this machine has {', '.join(devices())}"
        raise ConfigError(f"no device {shown(device)} here", known, "Use one of them, or auto")
    return picked
