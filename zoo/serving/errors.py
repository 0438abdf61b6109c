"""Errors of the server: each has an HTTP status, a code for programs and a message for people."""

from __future__ import annotations

from typing import Any

from zoo.errors import ZooError
from zoo.serving.limits import HEAD_BYTES


class RequestError(ZooError):
    """A request that is answered with an error."""

    status = 400
    code = "bad_request"
    retry_after: int | None = None

    def body(self) -> dict[str, Any]:
        """Return the JSON answer; `error` is text, as LibreTranslate's clients expect."""
        return {"error": str(self), "code": self.code}

    def headers(self) -> dict[str, str]:
        """Return the headers that go with the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class EndingError(RequestError):
    """A request after which the connection ends, since its next bytes may be anything."""

    def headers(self) -> dict[str, str]:
        """Return the header that ends the connection (RFC 9112, sections 6.1 and 9.6)."""
        return {"Connection": "close"}


class TooLargeError(RequestError):
    """A body, a list or a text beyond the server's limits."""

    status, code = 413, "too_large"


class HeadTooLargeError(EndingError):
    """A head of a request beyond the server's limit; some are not read at all."""

    status, code = 431, "too_large"

    def __init__(self) -> None:
        super().__init__(
            "the head of the request is too large",
            f"{HEAD_BYTES:,} bytes are the most",
            "Send a shorter address, and fewer headers and cookies",
        )


class EncodedError(RequestError):
    """A compressed body."""

    status, code = 415, "encoded"

    def __init__(self, encoding: str) -> None:
        super().__init__(
            "a compressed request body is not read",
            f"its Content-Encoding is {encoding[:50]!r}",
            "Send it as it is, without Content-Encoding",
        )

    def headers(self) -> dict[str, str]:
        """Return the header that says what is read (RFC 9110, section 15.5.16)."""
        return {"Accept-Encoding": "identity"}


class TwoLengthsError(EndingError):
    """A body with two lengths: a proxy may end it elsewhere than this server does."""

    def __init__(self) -> None:
        super().__init__(
            "the length of the request body is not clear",
            "it has Content-Length and Transfer-Encoding",
            "Send one of them",
        )


class TransferCodingError(RequestError):
    """A body in a transfer coding that is not read (RFC 9112, section 6.1)."""

    status, code = 501, "encoded"

    def __init__(self) -> None:
        super().__init__(
            "the transfer coding of the request body is not read",
            "chunked alone is",
            "Send it chunked, or with Content-Length",
        )


class VersionError(EndingError):
    """A request of another major version of HTTP (RFC 9110, section 15.6.6)."""

    status, code = 505, "bad_http"

    def __init__(self) -> None:
        super().__init__("this version of HTTP is not served", "", "Send HTTP/1.1")


class ExpectationError(RequestError):
    """An expectation that cannot be met (RFC 9110, section 15.5.18)."""

    status, code = 417, "bad_http"

    def __init__(self, given: str) -> None:
        why = f"its header Expect is {given[:50]!r}"
        super().__init__("the request expects what is not known", why, "Send 100-continue or none")


class UpgradeError(RequestError):
    """A request to speak another protocol than HTTP."""

    def __init__(self) -> None:
        super().__init__("websockets are not served", "", "Send a plain HTTP request")


class SlowClientError(RequestError):
    """A client that does not send its request in time."""

    status, code = 408, "client_too_slow"


class KeyRequiredError(RequestError):
    """A request without the server's API key."""

    status, code = 403, "wrong_api_key"


class ForeignOriginError(RequestError):
    """A request from a page of another site, or for another host name."""

    status, code = 403, "foreign_origin"


class UnknownCheckpointError(RequestError):
    """A checkpoint or page that the server does not have."""

    status, code = 404, "not_found"


class QueueFullError(RequestError):
    """More texts or characters wait than the server holds."""

    status, code, retry_after = 429, "queue_full", 1

    def __init__(self, waiting: int, most: int, what: str) -> None:
        super().__init__(
            "the queue is full", f"{waiting:,} of at most {most:,} {what} wait", "Try again soon"
        )


class WorkerError(RequestError):
    """A worker process that died, twice, over the same text."""

    status, code, retry_after = 503, "worker_died", 5


class CheckpointGoneError(RequestError):
    """A checkpoint that was removed or damaged while the server runs."""

    status, code = 503, "checkpoint_unavailable"


class StoppingError(RequestError):
    """A server that drains its queue before it stops."""

    status, code, retry_after = 503, "stopping", 5


class TimeoutExceededError(RequestError):
    """A request that took longer than the server allows."""

    status, code, retry_after = 504, "timeout", 5


class InternalError(RequestError):
    """A defect of the server."""

    status, code = 500, "internal"


FROM_WORKER: dict[str, type[RequestError]] = {
    "bad_request": RequestError,
    "checkpoint_unavailable": CheckpointGoneError,
    "internal": InternalError,
}
"""The errors that a worker reports, by code."""
