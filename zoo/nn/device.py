"""The device to compute on."""

from __future__ import annotations

import torch

from zoo.errors import ConfigError


def pick_device(device: str = "auto") -> torch.device:
    """Return the device of that name; `auto` is the GPU if there is one, else the CPU.

    Raises:
        ConfigError: the machine has no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        picked = torch.empty(0, device=device).device
        if picked.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"no device {device!r} here", reason, "Use cpu, cuda or auto") from None
    return picked
