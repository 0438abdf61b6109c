"""The zoo's errors for responses of a Hub and for exceptions of its client."""

from __future__ import annotations

import math
import re

import httpx2
from huggingface_hub.errors import OfflineModeIsEnabled

from zoo.errors import (
    AccessError,
    ConflictError,
    HubError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
    ZooError,
)

LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN"


def error_of_response(
    response: httpx2.Response, subject: str, endpoint: str, *, from_hub: bool = True
) -> HubError:
    """Return the error that a response of status 400 or more means.

    `subject` is the address of the operation; `from_hub` says whether the Hub itself sent the
    response, and not a store to which it redirected.
    """
    status = response.status_code
    if status in (408, 425, 429) or status >= 500:
        problem = {429: "rate limit reached at", 408: "time-out at", 425: "time-out at"}
        return UnavailableError(
            f"{problem.get(status, 'server error at')} {endpoint}",
            f"status {status}{_message(response)} for {subject}",
            "Try again later",
            _retry_after(response),
        )
    if not from_hub:
        host = response.request.url.host
        if status == 404:
            return NotFoundError(f"{host} has no file for {subject}", "the Hub links to it")
        return HubError(f"{host} rejected a request", f"status {status} for {subject}")
    return (
        _missing_error(response, subject)
        or _access_error(response, subject, endpoint)
        or HubError(
            f"{endpoint} rejected a request", f"status {status}{_message(response)} for {subject}"
        )
    )


def _missing_error(response: httpx2.Response, subject: str) -> HubError | None:
    """Return the error for a missing revision or file, or a commit on an old parent."""
    code = response.headers.get("x-error-code", "")
    repository, _, revision = subject.partition("@")
    if code == "RevisionNotFound":
        return NotFoundError(
            f"{repository} has no revision {revision or 'main'!r}", "", "Check the @REVISION"
        )
    path = response.request.url.path
    if code == "EntryNotFound" or (
        response.status_code == 404 and not code and "/resolve/" in path
    ):
        name = path.rpartition("/")[2]
        return NotFoundError(f"{repository} has no file {name!r}", "the Hub does not find it")
    if response.status_code == 412:
        return ConflictError(f"{repository} has changed", "there is a newer commit")
    return None


def _access_error(response: httpx2.Response, subject: str, endpoint: str) -> HubError | None:
    """Return the error for a repository that cannot be seen, read or written with this token."""
    status, code = response.status_code, response.headers.get("x-error-code", "")
    has_token = response.request.headers.get("authorization") is not None
    repository = subject.partition("@")[0]
    if code == "GatedRepo":
        page = f"{endpoint}/{repository.partition('://')[2]}"
        return AccessError(
            f"{repository} is gated",
            "access requires agreement to its terms",
            f"Request access at {page}" + ("" if has_token else f", then: {LOG_IN}"),
        )
    if status == 401 and has_token and code != "RepoNotFound":
        return AccessError(
            f"{endpoint} rejected your token",
            f"it is invalid or expired{_message(response)}",
            LOG_IN,
        )
    without_code = status == 404 and "/api/models/" in response.request.url.path
    if code == "RepoNotFound" or status == 401 or without_code:
        if has_token:
            return NotFoundError(
                f"no repository {repository}",
                "it does not exist, or your token has no access to it",
                "Check the name, or ask its owner for access",
            )
        return AccessError(
            f"no repository {repository}",
            "it does not exist, or it is private and no token was sent",
            LOG_IN,
        )
    if status == 403:
        return AccessError(
            f"access to {repository} is forbidden{_message(response)}",
            "your token lacks the permission" if has_token else "no token was sent",
            "Use a token with this permission: `hf auth login`" if has_token else LOG_IN,
        )
    return None


def _message(response: httpx2.Response) -> str:
    """Return the Hub's own error message, on one line and bounded, without any token."""
    text = response.headers.get("x-error-message", "")
    token = response.request.headers.get("authorization", "").removeprefix("Bearer ")
    if token:
        text = text.replace(token, "…")
    text = clean(text)
    return f" ({text})" if text else ""


def _retry_after(response: httpx2.Response) -> float:
    """Return the seconds after which the server accepts a retry; 0 where it does not say."""
    seconds = response.headers.get("retry-after", "").strip()
    limit = re.search(r"r=0;t=(\d+)", response.headers.get("ratelimit", "").replace(" ", ""))
    if seconds.isdigit():
        return float(seconds[:9])
    return float(limit[1][:9]) if limit else 0.0


def error_of_exception(
    error: BaseException, subject: str, endpoint: str, timeout: float, *, resumes: bool = False
) -> ZooError | None:
    """Return the error of the zoo for an exception of the client; None for a programming error.

    `resumes` says that the client has resumed broken connections in this call by itself, so that
    they are not retried.
    """
    wait = math.inf if resumes else 0.0
    causes = chain(error)
    for cause in causes:
        if isinstance(cause, ZooError):
            return cause
        if isinstance(cause, OfflineModeIsEnabled):
            return HubError(f"{subject} cannot be reached", "the client is offline: HF_HUB_OFFLINE")
        if isinstance(cause, httpx2.TimeoutException):
            return UnavailableError(
                f"{endpoint} does not respond",
                f"no data for {timeout:g} seconds for {subject}",
                "Try again later",
                wait,
            )
        if isinstance(cause, UnicodeEncodeError) and cause.encoding == "ascii":
            what = f"no request can be sent for {subject}"
            return AccessError(what, "your token has characters that are not ASCII", LOG_IN)
        if isinstance(cause, httpx2.DecodingError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            break
        if isinstance(cause, httpx2.TransportError):
            # The client resumes a download, but never repeats the HEAD before it.
            if _method_of(cause) == "HEAD":
                wait = 0.0
            broken = isinstance(cause, httpx2.RemoteProtocolError | httpx2.ConnectError)
            return unreachable(cause, subject, endpoint, wait if broken else 0.0)
        if isinstance(cause, OSError) and "Consistency check failed" in str(cause):
            return IntegrityError(
                f"{subject}: a file does not have the expected size",
                "it was truncated or changed on the way",
                "Pull it again",
            )
    if isinstance(error, OSError) and error.errno is not None:
        return _not_stored(error, subject)
    if isinstance(error, _INVALID):
        return HubError(f"{subject}: the Hub sent an invalid response", clean(str(causes[-1])))
    return None


def _not_stored(error: OSError, subject: str) -> HubError:
    """Return the error for a file that the system does not let the client write or read."""
    next = "HF_HUB_CACHE can name another folder for what is pulled"
    if isinstance(error, FileNotFoundError):  # of a part of a file, or of a new folder
        next = f"Another process may have removed the folder: try again. {next}"
    where = f"{error.filename}: " if error.filename else ""
    return HubError(f"{subject} cannot be stored", f"{where}{error.strerror or error}", next)


_INVALID = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OSError, RuntimeError,
    OverflowError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError,
)  # fmt: skip
"""What the client raises for a response that it does not expect."""


def _method_of(error: httpx2.TransportError) -> str:
    try:
        return error.request.method
    except RuntimeError:  # it has none
        return ""


def unreachable(
    error: BaseException, subject: str, endpoint: str, wait: float = 0.0
) -> UnavailableError:
    """Return the error for a connection that could not be made, or broke."""
    return UnavailableError(
        f"{endpoint} cannot be reached",
        f"{clean(str(error)) or type(error).__name__}, for {subject}",
        "Check the network, or try again later",
        wait,
    )


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and its causes, the first cause last."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    return causes


def clean(text: str) -> str:
    """Return a text on one line, bounded, and without anything that looks like a token."""
    return re.sub(r"hf_\w+|Bearer \S+", "…", " ".join(text.split()))[:200]
