"""The settings of the Hub's client, read from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path

from huggingface_hub import constants

from zoo.errors import HubError
from zoo.hub.retry import RetryPolicy


@dataclass(frozen=True)
class Settings:
    """Where the Hub and its cache are, the time-out of a request in seconds, and the retries."""

    endpoint: str
    cache: Path
    timeout: float = 20.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    @classmethod
    def from_environment(cls) -> Settings:
        """Return the settings of the environment; the client's own variables hold.

        Raises:
            HubError: a variable that must be a positive number is not.
        """
        defaults = RetryPolicy()
        policy = {f.name: _number(f.name, getattr(defaults, f.name)) for f in fields(RetryPolicy)}
        return cls(
            endpoint=(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/"),
            cache=Path(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE).expanduser(),
            timeout=_number("timeout", cls.timeout),
            retry=RetryPolicy(int(policy["tries"]), policy["wait"], policy["longest_wait"]),
        )

    @property
    def offline(self) -> bool:
        """Whether the environment forbids requests."""
        value = os.environ.get("HF_HUB_OFFLINE", "").upper()
        return value in ("1", "ON", "YES", "TRUE") or constants.is_offline_mode()


def _number(name: str, default: float) -> float:
    """Return the value of the variable ZOO_HUB_NAME: a whole number where the default is one."""
    variable = f"ZOO_HUB_{name.upper()}"
    text = os.environ.get(variable)
    if text is None:
        return default
    try:
        value = int(text) if type(default) is int else float(text)
        if not 0 < value < 1e6:
            raise ValueError
    except ValueError:
        raise HubError(f"{variable} is {text!r}", "it must be a number greater than 0") from None
    return value
