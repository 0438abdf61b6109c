"""The Hugging Face client, watched: every question it asks and every answer it gets passes here.

The client leaves much to its caller: it waits without end, tries some calls again and others not,
takes a cached file in silence where it is refused, believes the names it is told, and follows a
list's next page to wherever that is. So a hook looks at each request and at each answer, and what
is wrong leaves the client at once as one of our own errors; one place decides what is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zoo.errors import HubError, IntegrityError, UnavailableError
from zoo.hub.responses import refusal
from zoo.hub.retry import clean
from zoo.registry.address import COMMIT

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi

# What the client calls home of agents and versions is nobody's wish here. Read at its import.
QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1"}

LIBRARY = "seq2seq-zoo"
_ETAG = re.compile(r'(W/)?"?[0-9A-Za-z_-]{1,128}"?')
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Where the Hub and its cache are, and how patient we are with it. Times in seconds."""

    endpoint: str
    cache: Path
    timeout: float = 20.0
    tries: int = 5
    wait: float = 1.0
    longest_wait: float = 120.0

    @classmethod
    def from_environment(cls) -> Settings:
        """Return the settings that the environment makes, with the client's own names first.

        Raises:
            HubError: a number is not one.
        """
        constants = client().constants
        numbers: dict[str, Any] = {}
        for key in ("timeout", "tries", "wait", "longest_wait"):
            given = os.environ.get(f"ZOO_HUB_{key.upper()}")
            if given is not None:
                try:
                    numbers[key] = int(given) if key == "tries" else float(given)
                    if not 0 < numbers[key] < 1e6:
                        raise ValueError
                except ValueError:
                    raise HubError(
                        f"ZOO_HUB_{key.upper()} is {given!r}", "it must be a number over 0"
                    ) from None
        return cls(
            endpoint=(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/"),
            cache=Path(os.environ.get("HF_HUB_CACHE") or constants.HF_HUB_CACHE).expanduser(),
            **numbers,
        )

    @property
    def offline(self) -> bool:
        """Whether the environment forbids to ask anybody."""
        given = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        return given or client().constants.is_offline_mode()


def client() -> Any:
    """Import and return huggingface_hub; some of its settings are read at this moment."""
    for key, value in QUIET.items():
        os.environ.setdefault(key, value)
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.utils

    return huggingface_hub


def origin(url: str) -> tuple[str, str, int | None]:
    """Return a URL's scheme, host and port."""
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or {"http": 80, "https": 443}.get(parts.scheme),
    )


@dataclass
class Watch:
    """What one operation looks for, about `subject`, an address, pinned to `commit` if to any."""

    settings: Settings
    subject: str
    commit: str | None = None

    def ask(self, request: httpx2.Request) -> None:
        """Look at a question before it is asked."""
        times = dict(request.extensions.get("timeout") or {})
        for key in ("connect", "read", "write", "pool"):
            given = times.get(key)
            times[key] = (
                self.settings.timeout if given is None else min(given, self.settings.timeout)
            )
        request.extensions["timeout"] = times
        if origin(str(request.url)) != origin(self.settings.endpoint):
            request.headers.pop("authorization", None)

    def answer(self, response: httpx2.Response) -> None:
        """Look at an answer before the client does.

        Raises:
            HubError: it refuses, it is no Hub's, or it leads where it must not.
        """
        request, headers = response.request, response.headers
        ours = origin(str(request.url)) == origin(self.settings.endpoint)
        path = request.url.path
        status = response.status_code
        exists = path.endswith("/api/repos/create") and status == 409
        if status >= 400 and not exists and status != 416:
            raise refusal(response, self.subject, self.settings.endpoint, ours=ours)
        self._check_links(response)
        if not response.is_success and not response.has_redirect_location:
            return
        asked = "/api/" in path or path.endswith("/objects/batch")
        if asked and response.is_success and "html" in headers.get("content-type", ""):
            raise self._not_the_hub()
        if request.method == "HEAD":
            self._check_names(response)

    def _check_names(self, response: httpx2.Response) -> None:
        """Refuse what could lead out of the cache: the client makes paths of these headers.

        Whoever answers, since the client takes them from wherever the Hub's redirects end.
        """
        commit = response.headers.get("x-repo-commit")
        if response.is_success and commit is None:
            raise self._not_the_hub()
        if commit is not None and (
            not COMMIT.fullmatch(commit) or self.commit not in (None, commit)
        ):
            raise IntegrityError(
                f"{self.subject}: the Hub names another commit",
                f"{commit[:60]!r}, not {self.commit}",
            )
        for name in ("etag", "x-linked-etag"):
            tag = response.headers.get(name)
            if tag is not None and not _ETAG.fullmatch(tag):
                raise IntegrityError(
                    f"{self.subject}: the Hub sent no proper ETag", f"{tag[:60]!r}"
                )

    def _check_links(self, response: httpx2.Response) -> None:
        """Refuse links that the client would follow elsewhere, or have followed, with the token."""
        links = [response.headers.get("x-xet-refresh-route")]
        links += [response.links.get(kind, {}).get("url") for kind in ("next", "xet-auth")]
        for link in links:
            url = str(response.request.url.join(link)) if link else self.settings.endpoint
            # The client itself puts its endpoint in place of the Hub's own name.
            if origin(url) not in (
                origin(self.settings.endpoint),
                origin("https://huggingface.co"),
            ):
                raise HubError(
                    f"{self.subject}: the Hub's answer leads elsewhere", f"to {clean(url)}"
                )

    def _not_the_hub(self) -> UnavailableError:
        return UnavailableError(
            f"what answers at {self.settings.endpoint} is no Hub",
            f"it sent a web page for {self.subject}",
            "Check HF_ENDPOINT, and whether this network wants you to log in first",
            wait=math.inf,  # waiting does not help
        )


_lock = threading.RLock()
_watch: Watch | None = None


def _ask(request: httpx2.Request) -> None:
    if _watch is not None and _is_ours(request):
        _watch.ask(request)


def _answer(response: httpx2.Response) -> None:
    if _watch is not None and _is_ours(response.request):
        _watch.answer(response)


def _is_ours(request: httpx2.Request) -> bool:
    """Tell our requests from those of another library in another thread, which share the client.

    The client signs everything in our name but the bare uploads to a store.
    """
    return request.headers.get("user-agent", "").startswith(LIBRARY) or request.method == "PUT"


def _install() -> None:
    """Have the client's sessions watched, whoever makes them, from now on."""
    from huggingface_hub import get_session, set_client_factory
    from huggingface_hub.utils import _http

    if _ask in get_session().event_hooks["request"]:
        return
    # The client has no public way to ask for the factory in force, which may be the user's own.
    before = _http._GLOBAL_CLIENT_FACTORY

    def watched() -> httpx2.Client:
        session = before()
        session.event_hooks["request"].append(_ask)
        session.event_hooks["response"].append(_answer)
        return session

    set_client_factory(watched)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[HfApi]:
    """Give the client's API, watched; one operation at a time.

    What the client logs of its own attempts is not shown: whatever comes of them, we tell.
    """
    global _watch
    hub = client()
    logger, chunk = logging.getLogger("huggingface_hub"), hub.constants.DOWNLOAD_CHUNK_SIZE
    with _lock:
        _install()
        level, before = logger.level, _watch
        if not hub.constants.HF_DEBUG:
            logger.setLevel(logging.CRITICAL)
        # The client loses what is not a whole chunk when a connection breaks.
        hub.constants.DOWNLOAD_CHUNK_SIZE = min(chunk, _CHUNK)
        _watch = watch
        try:
            yield hub.HfApi(
                endpoint=watch.settings.endpoint,
                library_name=LIBRARY,
                library_version=_version(),
            )
        finally:
            _watch = before
            hub.constants.DOWNLOAD_CHUNK_SIZE = chunk
            logger.setLevel(level)


def _version() -> str:
    from zoo import __version__

    return __version__
