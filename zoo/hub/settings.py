"""The settings of the Hub's client, read from the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants

from zoo.errors import HubError
from zoo.hub.retry import RetryPolicy


@dataclass(frozen=True)
class Settings:
    """Where the Hub and its cache are, the time-out of a request in seconds, and the retries.

    `xet`, from ZOO_HUB_XET=1, trusts the server to choose an Xet store.
    """

    endpoint: str
    cache: Path
    timeout: float = 20.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    xet: bool = False

    @classmethod
    def from_environment(cls) -> Settings:
        """Return the settings of the environment; the client's own variables hold.

        Raises:
            HubError: a variable that must be a positive number is not, the endpoint is no URL, or
                the cache is below the home of a user who has none.
        """
        defaults = RetryPolicy()
        policy = {f.name: _number(f.name, getattr(defaults, f.name)) for f in fields(RetryPolicy)}
        return cls(
            endpoint=_endpoint(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT),
            cache=_cache(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE),
            timeout=_number("timeout", cls.timeout),
            retry=RetryPolicy(int(policy["tries"]), policy["wait"], policy["longest_wait"]),
            xet=os.environ.get("ZOO_HUB_XET") == "1",
        )

    @property
    def uses_xet(self) -> bool:
        """Whether large files may be transferred by Xet: at the Hub itself, or where trusted."""
        return self.xet or self.endpoint == "https://huggingface.co"

    @property
    def offline(self) -> bool:
        """Whether the environment forbids requests."""
        value = os.environ.get("HF_HUB_OFFLINE", "").upper()
        return value in ("1", "ON", "YES", "TRUE") or constants.is_offline_mode()


def _cache(folder: str) -> Path:
    """Return the folder of the cache; `~` is the user's home.

    Raises:
        HubError: the user has none.
    """
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        raise HubError(
            f"the Hub's cache cannot be {folder}",
            "you have no home folder",
            "Set HF_HOME, or HF_HUB_CACHE, to a folder",
        ) from None


def _endpoint(text: str) -> str:
    """Return the URL of a Hub without a slash at its end.

    Raises:
        HubError: it is not the URL of a server.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
        valid = parts.scheme in ("http", "https") and parts.hostname and port != 0
        if not valid or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError
        httpx2.URL(text)
        if not re.fullmatch(r"[!-~]{1,500}", text):
            raise ValueError
    except (ValueError, httpx2.InvalidURL):
        raise HubError(
            f"HF_ENDPOINT is {_without_secrets(text)}",
            "it must be a URL such as https://huggingface.co",
            "It must not contain a user name, a query or a fragment",
        ) from None
    return text.rstrip("/")


def _without_secrets(text: str) -> str:
    """Return the scheme and the host of a URL: a password or token can be anywhere else."""
    match = re.fullmatch(r"(https?://)(?:[^/?#@]*@)?([\w.-]{1,253})(?:[:/?#][^@]*)?", text)
    return repr("".join(match.groups())) if match else "no URL of a server"


def _number(name: str, default: float) -> float:
    """Return the value of the variable ZOO_HUB_NAME: a whole number where the default is one."""
    variable = f"ZOO_HUB_{name.upper()}"
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = int(text) if type(default) is int else float(text)
        if not 0 < value < 1e6:
            raise ValueError
    except ValueError:
        raise HubError(f"{variable} is {text!r}", "it must be a number greater than 0") from None
    return value
