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
  the incomplete chunk;
- `huggingface_hub.constants.HF_HUB_DISABLE_XET`: True at any other endpoint than the Hub itself,
  because a server chooses the Xet store, which may be a folder of this machine; its requests are
  made outside of Python, where no hook can check them. ZOO_HUB_XET=1 trusts the server.

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
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, __version__, constants, get_session

from zoo.errors import HubError, IntegrityError, UnavailableError, wrong_network
from zoo.hub.client_errors import clean, error_of_exception, error_of_response, unreachable
from zoo.hub.digest import FileDigest
from zoo.hub.retry import RetryPolicy
from zoo.hub.settings import Settings
from zoo.registry.address import COMMIT, SHA256

LIBRARY = "seq2seq-zoo"
CHUNK_SIZE = 1 << 20
_ETAG = re.compile(r'(W/)?"?[0-9A-Za-z_-]{1,128}"?')
_lock = threading.RLock()


@contextlib.contextmanager
def operation(
    settings: Settings,
    subject: str,
    commit: str | None = None,
    *,
    resumes: bool = False,
    digest: FileDigest | None = None,
    failures: Failures | None = None,
) -> Iterator[HfApi]:
    """Yield the client's API for one operation, with its requests and responses checked.

    `subject` is the address for errors, and `commit` the one to which the operation is pinned.
    `resumes`: in this operation the client itself resumes broken connections. `digest` is that of
    the file which it downloads. `failures` counts for several operations together.

    Raises:
        HubError: the Hub or its client fails.
    """
    checks = Checks(settings, subject, commit, digest, failures)
    _start(subject)
    with _lock, _quiet(), _settings(settings), _hooks(checks.request, checks.response):
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


def _start(subject: str) -> None:
    """Make the client's HTTP session, which reads the settings of the network.

    Raises:
        UnavailableError: one of them is wrong.
    """
    try:
        get_session()
    except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
        raise wrong_network(subject, error) from None


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
def _settings(settings: Settings) -> Iterator[None]:
    before = constants.DOWNLOAD_CHUNK_SIZE, constants.HF_HUB_DISABLE_XET
    constants.DOWNLOAD_CHUNK_SIZE = min(before[0], CHUNK_SIZE)
    constants.HF_HUB_DISABLE_XET = before[1] or not settings.uses_xet
    try:
        yield
    finally:
        constants.DOWNLOAD_CHUNK_SIZE, constants.HF_HUB_DISABLE_XET = before


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


def _parts(header: object) -> list[str]:
    """Return the links of an upload in parts: the values of the header whose keys are numbers."""
    items = header.items() if isinstance(header, dict) else ()
    return [value for key, value in items if str(key).isdigit()]


def origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


class Failures:
    """Ends an operation after too many broken connections in a row, or too long a time of them.

    The client repeats each upload by itself, and the zoo repeats the operation: the bounds of
    `RetryPolicy` hold for both together.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.count, self.first = 0, 0.0

    def reset(self) -> None:
        """Begin to count again, after an upload that arrived."""
        self.count = 0

    def exceeded(self) -> bool:
        """Count a failure; return whether it is one too many."""
        now = time.monotonic()
        self.first = now if self.count == 0 else self.first
        self.count += 1
        return self.count >= self.policy.tries or now - self.first > self.policy.longest_wait


@dataclass(frozen=True)
class Checks:
    """The checks of one operation's requests and responses."""

    settings: Settings
    subject: str
    commit: str | None
    digest: FileDigest | None
    failures: Failures | None

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
        if error is None or not event.endswith(".failed"):
            return
        if event.startswith("connection."):
            raise unreachable(error, self.subject, self.settings.endpoint)
        if self.failures is not None and self.failures.exceeded():
            raise unreachable(error, self.subject, self.settings.endpoint, math.inf)

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
        if response.is_success and request.method == "PUT" and self.failures is not None:
            self.failures.reset()
        if response.is_success and path.endswith("/objects/batch"):
            self._check_batch(response)
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

        linked = response.headers.get("x-linked-size")
        if linked is not None and self.digest is not None and linked != str(self.digest.size):
            raise IntegrityError(
                f"{self.subject}: the Hub sent another size", f"{linked[:40]!r} bytes"
            )
        self._check_digest(response)

    def _check_digest(self, response: httpx2.Response) -> None:
        """Make sure that the cache names a file by its digest: the name is the ETag."""
        etag = response.headers.get("x-linked-etag") or response.headers.get("etag")
        is_large = "x-linked-size" in response.headers or "x-xet-hash" in response.headers
        if etag is None or self.digest is None:
            return
        name = etag.removeprefix("W/").strip('"')
        wrong = (
            (SHA256.fullmatch(name) and self.digest.sha256 not in ("", name))
            or (COMMIT.fullmatch(name) and self.digest.git not in ("", name))
            or (is_large and not SHA256.fullmatch(name))
        )
        if wrong:
            raise IntegrityError(
                f"{self.subject}: the Hub sent another digest", f"the ETag {etag[:80]!r}"
            )

    def _check_batch(self, response: httpx2.Response) -> None:
        """Reject links of an upload that are no web addresses, or get the token elsewhere."""
        response.read()
        answer = response.json()
        objects = answer.get("objects") if isinstance(answer, dict) else None
        for entry in objects if isinstance(objects, list) else ():
            actions = entry.get("actions") if isinstance(entry, dict) else None
            for kind, action in (actions or {}).items():
                links = [action["href"], *_parts(action.get("header"))]
                for link in links:
                    if urlsplit(link).scheme not in ("http", "https"):
                        raise self._foreign_link(link)
                    if kind == "verify" and not self._is_hub(link):
                        raise self._foreign_link(link)

    def _is_hub(self, url: str) -> bool:
        # The client replaces the Hub's own name by its endpoint.
        hubs = (origin(self.settings.endpoint), origin("https://huggingface.co"))
        return origin(url) in hubs

    def _foreign_link(self, link: str) -> HubError:
        return HubError(
            f"{self.subject}: the Hub's response links to another host", clean(str(link))
        )

    def _check_links(self, response: httpx2.Response) -> None:
        """Reject links to other hosts, which the client would follow with the token."""
        links = [response.headers.get("x-xet-refresh-route")]
        links += [response.links.get(kind, {}).get("url") for kind in ("next", "xet-auth")]
        for link in links:
            url = str(response.request.url.join(link)) if link else self.settings.endpoint
            if not self._is_hub(url):
                raise self._foreign_link(url)

    def _not_a_hub(self) -> UnavailableError:
        return UnavailableError(
            f"{self.settings.endpoint} is not a Hub",
            f"it sent a web page for {self.subject}",
            "Check HF_ENDPOINT, and whether this network requires a login",
            wait=math.inf,  # a retry would not help
        )
