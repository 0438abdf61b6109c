"""What is tried again, how often and after what wait; and which error of ours stands behind one of
the client's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from zoo.errors import HubError, IntegrityError, UnavailableError, ZooError

if TYPE_CHECKING:
    from zoo.hub.client import Settings

T = TypeVar("T")


def persist(call: Callable[[], T], settings: Settings, subject: str, *, resumes: bool = False) -> T:
    """Return what a call returns, trying it again with back-off while the Hub is only unwell.

    `resumes` says that the client tries connections again by itself in this call.

    Raises:
        HubError: it does not come to anything.
    """
    import httpx2

    waited = 0.0
    for attempt in range(settings.tries):
        try:
            return call()
        except Exception as error:
            fault = told(error, settings, subject)
            spent = resumes and any(
                isinstance(
                    e, httpx2.RemoteProtocolError | httpx2.TimeoutException | httpx2.ConnectError
                )
                for e in chain(error)
            )
            if not isinstance(fault, UnavailableError) or spent or attempt + 1 == settings.tries:
                raise fault from None
            wait = max(fault.wait, settings.wait * 2**attempt)
            if waited + wait > settings.longest_wait:
                raise fault from None
        waited += wait
        time.sleep(wait)
    raise AssertionError("the loop above returns or raises")


def told(error: BaseException, settings: Settings, subject: str) -> ZooError:
    """Return the error of ours that stands behind what the client raised.

    An error that is nobody's fault but the program's is raised as it is.
    """
    import httpx2
    from huggingface_hub.errors import OfflineModeIsEnabled

    for seen in chain(error):
        if isinstance(seen, ZooError):
            return seen
        if isinstance(seen, OfflineModeIsEnabled):
            return HubError(f"{subject} cannot be asked", "the client is offline (HF_HUB_OFFLINE)")
        if isinstance(seen, httpx2.TimeoutException):
            return UnavailableError(
                f"{settings.endpoint} does not answer",
                f"nothing came for {settings.timeout:g} seconds, asking for {subject}",
                "Try again later",
            )
        if isinstance(seen, httpx2.TransportError):
            return UnavailableError(
                f"{settings.endpoint} cannot be reached",
                f"{clean(str(seen)) or type(seen).__name__}, asking for {subject}",
                "Check the network, or try again later",
            )
        if isinstance(seen, OSError) and "Consistency check failed" in str(seen):
            return IntegrityError(
                f"{subject}: a file came with another size than promised",
                "it was cut short, or something on the way changed it",
                "Pull it again",
            )
    if isinstance(error, OSError) and error.errno is not None:
        return HubError(f"{subject} cannot be stored", error.strerror or str(error))
    if isinstance(
        error, ValueError | KeyError | TypeError | AttributeError | OSError | RuntimeError
    ):
        return HubError(f"{subject}: the Hub's answer makes no sense", clean(str(chain(error)[-1])))
    raise error


def chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that stand behind it, the first cause last."""
    found = [error]
    while (behind := found[-1].__cause__ or found[-1].__context__) and behind not in found:
        found.append(behind)
    return found


def clean(text: str) -> str:
    """Return a text on one line, bounded, and without anything that looks like a token."""
    return re.sub(r"hf_\w+|Bearer \S+", "…", " ".join(text.split()))[:200]
