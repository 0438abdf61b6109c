"""What the Hub's refusals mean, and what a person can do about each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zoo.errors import (
    AccessError,
    ConflictError,
    HubError,
    NotFoundError,
    UnavailableError,
)
from zoo.hub.retry import clean

if TYPE_CHECKING:
    import httpx2

LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN"


def refusal(
    response: httpx2.Response, subject: str, endpoint: str, *, ours: bool = True
) -> HubError:
    """Return the error that an answer of 400 and more means.

    `subject` is the address that was asked for; `ours` says whether the Hub itself answered and not
    a store that it sent us to.
    """
    status, code = response.status_code, response.headers.get("x-error-code", "")
    said = _said(response)
    known = response.request.headers.get("authorization") is not None
    if status in (408, 425, 429) or status >= 500:
        what = f"{endpoint} asks for patience" if status == 429 else f"{endpoint} is unwell"
        return UnavailableError(
            what,
            f"it answered {status}{said}, asked for {subject}",
            "Try again later",
            _wait(response),
        )
    if not ours:
        host = response.request.url.host
        return HubError(f"{host} refuses", f"it answered {status}, asked for {subject}")
    repository = subject.partition("@")[0]
    if code == "RevisionNotFound":
        revision = subject.partition("@")[2] or "main"
        return NotFoundError(
            f"{repository} has no revision {revision!r}", "", "Check the @REVISION"
        )
    if code == "EntryNotFound":
        name = response.request.url.path.rpartition("/")[2]
        return NotFoundError(f"{repository} has no file {name!r}", "the Hub does not find it there")
    if code == "GatedRepo":
        path = repository.partition("://")[2]
        return AccessError(
            f"{repository} is gated",
            "its authors give it to those who agree to their terms",
            f"Ask for access at {endpoint}/{path}" + ("" if known else f", then: {LOG_IN}"),
        )
    if status == 412:
        return ConflictError(f"{repository} has moved", "somebody has committed to it meanwhile")
    if status == 401 and known and code != "RepoNotFound":
        return AccessError(
            f"{endpoint} refuses your token", f"it is wrong or expired{said}", LOG_IN
        )
    nameless = status == 404 and "/api/models/" in response.request.url.path
    if code == "RepoNotFound" or status == 401 or nameless:
        if known:
            return NotFoundError(
                f"no repository {repository}",
                "there is none, or your token may not see it",
                "Check the name, or ask its owner for access",
            )
        return AccessError(
            f"no repository {repository} to be seen",
            "there is none, or it is private, and no token was sent",
            LOG_IN,
        )
    if status == 403:
        return AccessError(
            f"{repository} is forbidden{said}",
            "your token has not the right" if known else "no token was sent",
            "Use a token that may do this: `hf auth login`" if known else LOG_IN,
        )
    return HubError(f"{endpoint} refuses", f"it answered {status}{said}, asked for {subject}")


def _said(response: httpx2.Response) -> str:
    """Return what the Hub said of itself, on one line and bounded, without any token."""
    text = response.headers.get("x-error-message", "")
    sent = response.request.headers.get("authorization", "").removeprefix("Bearer ")
    if sent:
        text = text.replace(sent, "…")
    text = clean(text)
    return f" ({text})" if text else ""


def _wait(response: httpx2.Response) -> float:
    """Return for how many seconds the Hub asks, 0 where it does not say."""
    given = response.headers.get("retry-after", "").strip()
    limited = re.search(r"r=0;t=(\d+)", response.headers.get("ratelimit", "").replace(" ", ""))
    if given.isdigit():
        return float(given[:9])
    return float(limited[1][:9]) if limited else 0.0
