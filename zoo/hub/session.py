"""Operations of huggingface_hub, with every request and response checked.

The client leaves much to its caller: it has no time-outs, retries only some calls, uses a cached
file without a warning where access is denied, makes paths of the names it receives, and follows the
links of a response to any host. Hooks therefore check each request before it is sent
and each response before the client uses it. A fault leaves the client at once as an error of the
zoo, and one policy decides what is retried (`zoo.hub.retry`).

An operation changes the following, and restores it at its end, also after an error:

- the event hooks of the client's HTTP session (`huggingface_hub.get_session()`): two are added;
- the level of the logger `huggingface_hub`: CRITICAL, unless HF_DEBUG is set, because every failure
  is reported by an error of the zoo;
- `huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE`: 1 MiB at most, because a broken connection loses
  the incomplete chunk.

All other settings of the client and the process are unchanged, such as the client factory, the
environment and the warning filters.

Threads: operations of one process run one after the other. Other threads may use the client
meanwhile: their requests are recognized by their user agent and pass unchanged. Only uploads to a
store (PUT), which carry no user agent, are checked for all threads. If another thread replaces the
session during an operation (`set_client_factory`, `close_session`), the operation ends with an
`UnavailableError` and is retried.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, __version__, constants, get_session

from zoo.errors import HubError, IntegrityError, UnavailableError
from zoo.hub.client_errors import clean, error_of_exception, error_of_response, unreachable
from zoo.hub.settings import Settings
from zoo.registry.address import COMMIT

LIBRARY = "seq2seq-zoo"
CHUNK_SIZE = 1 << 20
_ETAG = re.compile(r'(W/)?"?[0-9A-Za-z_-]{1,128}"?')
_lock = threading.RLock()


@contextlib.contextmanager
def operation(
    settings: Settings, subject: str, commit: str | None = None, *, resumes: bool = False
) -> Iterator[HfApi]:
    """Yield the client's API for one operation, with its requests and responses checked.

    `subject` is the address for errors, and `commit` the one to which the operation is pinned.
    `resumes`: in this operation the client itself resumes broken connections.

    Raises:
        HubError: the Hub or its client fails.
    """
    checks = Checks(settings, subject, commit)
    with _lock, _quiet(), _small_chunks(), _hooks(checks.request, checks.response):
        session = get_session()
        try:
            yield HfApi(endpoint=settings.endpoint, headers={"user-agent": user_agent()})
        except Exception as error:
            translated = error_of_exception(
                error, subject, settings.endpoint, settings.timeout, resumes=resumes
            )
            if translated is None:
                raise
            raise translated from None
        if get_session() is not session:
            raise UnavailableError(
                f"{subject}: the operation was not checked to its end",
                "another thread has replaced the HTTP session of huggingface_hub",
                "Try again",
            )


def user_agent() -> str:
    """Return the user agent of an operation: two versions, and nothing about the machine."""
    from zoo import __version__ as version

    return f"{LIBRARY}/{version}; hf_hub/{__version__}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the client's log, which reports single attempts."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    if not constants.HF_DEBUG:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _small_chunks() -> Iterator[None]:
    size = constants.DOWNLOAD_CHUNK_SIZE
    constants.DOWNLOAD_CHUNK_SIZE = min(size, CHUNK_SIZE)
    try:
        yield
    finally:
        constants.DOWNLOAD_CHUNK_SIZE = size


@contextlib.contextmanager
def _hooks(
    on_request: Callable[[httpx2.Request], None], on_response: Callable[[httpx2.Response], None]
) -> Iterator[None]:
    """Add event hooks to the client's session, and remove them again."""
    session = get_session()
    before = session.event_hooks
    session.event_hooks = {
        "request": [*before["request"], on_request],
        "response": [*before["response"], on_response],
    }
    try:
        yield
    finally:
        added: tuple[Any, ...] = (on_request, on_response)
        session.event_hooks = {
            event: [hook for hook in hooks if hook not in added]
            for event, hooks in session.event_hooks.items()
        }


def _is_checked(request: httpx2.Request) -> bool:
    """Return whether a request may belong to an operation: uploads have no user agent."""
    return request.headers.get("user-agent", "").startswith(LIBRARY) or request.method == "PUT"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


@dataclass(frozen=True)
class Checks:
    """The checks of one operation's requests and responses."""

    settings: Settings
    subject: str
    commit: str | None

    def request(self, request: httpx2.Request) -> None:
        """Limit the time of a request, and send the token to the Hub only."""
        if not _is_checked(request):
            return
        limit = self.settings.timeout
        given = request.extensions.get("timeout") or {}
        times = {key: given.get(key) or limit for key in ("connect", "read", "write", "pool")}
        request.extensions["timeout"] = {key: min(time, limit) for key, time in times.items()}
        request.extensions.setdefault("trace", self._trace)
        if origin(str(request.url)) != origin(self.settings.endpoint):
            request.headers.pop("authorization", None)

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Raise an error of the zoo where no connection can be made.

        The client would otherwise replace its session, which drops the hooks, and retry.
        """
        error = info.get("exception")
        if event.startswith("connection.") and event.endswith(".failed") and error is not None:
            raise unreachable(error, self.subject, self.settings.endpoint)

    def response(self, response: httpx2.Response) -> None:
        """Check a response before the client uses it.

        Raises:
            HubError: the response is an error, does not come from a Hub, or links to a place
                outside of the Hub or the cache.
        """
        if not _is_checked(response.request):
            return
        request, headers, status = response.request, response.headers, response.status_code
        endpoint, path = self.settings.endpoint, request.url.path
        exists = path.endswith("/api/repos/create") and status == 409
        if status >= 400 and not exists and status != 416:
            from_hub = origin(str(request.url)) == origin(endpoint)
            raise error_of_response(response, self.subject, endpoint, from_hub=from_hub)
        self._check_links(response)
        if not response.is_success and not response.has_redirect_location:
            return
        is_call = "/api/" in path or path.endswith("/objects/batch")
        if is_call and response.is_success and "html" in headers.get("content-type", ""):
            raise self._not_a_hub()
        if request.method == "HEAD":
            self._check_names(response)

    def _check_names(self, response: httpx2.Response) -> None:
        """Reject headers that could lead out of the cache: the client makes paths of them.

        This holds for every host, because the client also uses the headers of a redirect's target.
        """
        commit = response.headers.get("x-repo-commit")
        if response.is_success and commit is None:
            raise self._not_a_hub()
        valid = commit is None or COMMIT.fullmatch(commit)
        if commit is not None and (not valid or self.commit not in (None, commit)):
            raise IntegrityError(
                f"{self.subject}: the Hub sent another commit",
                f"{commit[:60]!r}, not {self.commit}",
            )
        for name in ("etag", "x-linked-etag"):
            etag = response.headers.get(name)
            if etag is not None and not _ETAG.fullmatch(etag):
                raise IntegrityError(
                    f"{self.subject}: the Hub sent an invalid ETag", f"{etag[:60]!r}"
                )

    def _check_links(self, response: httpx2.Response) -> None:
        """Reject links to other hosts, which the client would follow with the token."""
        links = [response.headers.get("x-xet-refresh-route")]
        links += [response.links.get(kind, {}).get("url") for kind in ("next", "xet-auth")]
        for link in links:
            url = str(response.request.url.join(link)) if link else self.settings.endpoint
            # The client replaces the Hub's own name by its endpoint.
            if origin(url) not in (
                origin(self.settings.endpoint),
                origin("https://huggingface.co"),
            ):
                raise HubError(
                    f"{self.subject}: the Hub's response links to another host", clean(url)
                )

    def _not_a_hub(self) -> UnavailableError:
        return UnavailableError(
            f"{self.settings.endpoint} is not a Hub",
            f"it sent a web page for {self.subject}",
            "Check HF_ENDPOINT, and whether this network requires a login",
            wait=math.inf,  # a retry would not help
        )
