"""The process that listens: connections with time limits, and a shutdown that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import struct
import sys
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from zoo.errors import DataError
from zoo.serving.errors import HeadTooLargeError, TransferCodingError
from zoo.serving.limits import HEAD_BYTES, Limits
from zoo.serving.metrics import Metrics

logger = logging.getLogger(__name__)

SEND_BYTES = 131_072
"""The bytes of an answer that the system holds for a client that reads slowly."""

RECEIVE_BYTES = 16_384
"""The most bytes that are read of a connection before others have their turn.

asyncio reads 262,144: those of a body in chunks of one byte took more than a second.
"""

FULL_SECONDS = 60.0
"""How often the log may say that no further connection can be accepted."""


class Connection(h11.Connection):
    """HTTP that ignores empty lines before a request (RFC 9112, section 2.2)."""

    def next_event(self) -> Any:
        """Return what comes next; h11 takes an empty line for a request without its first line."""
        if self.their_state is h11.IDLE:
            waiting = bytes(self._receive_buffer)
            self._receive_buffer.maybe_extract_at_most(len(waiting) - len(waiting.lstrip(b"\r\n")))
        return super().next_event()


class LimitedProtocol(H11Protocol):
    """One connection with self.limits.

    uvicorn has no limit for clients that send their head slowly or stop reading, and answers some
    faults in plain text.
    """

    limits: Limits
    metrics: Metrics
    head_timer: asyncio.TimerHandle | None = None
    write_timer: asyncio.TimerHandle | None = None
    unread = 0
    unread_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection, or refuse it."""
        self.conn = Connection(h11.SERVER, HEAD_BYTES)
        super().connection_made(transport)  # type: ignore[arg-type]
        transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]
        # What the system holds for a slow client is bounded, and shows soon that the client reads.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        if len(self.connections) > self.limits.connections:
            self.metrics.connections_refused.inc()
            self._refuse(503, "Service Unavailable", "too many connections", "connections")
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Read data; the head timer runs while no request is complete."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.is_closing() or self.cycle is None:  # the timer of the first head runs
            return
        if not self.cycle.response_complete:
            self._cancel_head()
        elif self._is_idle():  # an empty line, or the rest of a body that was refused
            self._cancel_head()
            if self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        elif self.head_timer is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._cancel_head()
        self._cancel_write()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or not served of it; h11's error is being handled."""
        status = getattr(sys.exception(), "error_status_hint", 400)
        for error in (HeadTooLargeError(), TransferCodingError()):
            if status == error.status:
                self._refuse(status, HTTPStatus(status).phrase, str(error), error.code)
                return
        self._refuse(400, "Bad Request", "not a valid HTTP request", "bad_http")

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: websockets are refused, and offers of other protocols ignored."""

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        super().pause_writing()
        if self.write_timer is None:
            self.unread_since = self.loop.time()
            self._await_reading()
        self._bound_unsent()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._cancel_write()
        super().resume_writing()

    def _await_reading(self) -> None:
        self.unread = self.transport.get_write_buffer_size()
        self.write_timer = self.loop.call_later(self.limits.write_seconds, self._reading_late)

    def _reading_late(self) -> None:
        """Close the connection of a client that has read nothing; a slow one may go on."""
        if self.transport.get_write_buffer_size() < self.unread:
            self._await_reading()
        else:
            self._cut_off()

    def _bound_unsent(self) -> None:
        """Cut off the clients that have read for longest while all leave too much unread."""
        protocols = cast("set[LimitedProtocol]", self.connections)
        slow = [one for one in protocols if one.write_timer is not None]
        unsent = sum(one.transport.get_write_buffer_size() for one in slow)
        for one in sorted(slow, key=lambda one: one.unread_since):
            if unsent <= self.limits.unsent_bytes:
                break
            unsent -= one.transport.get_write_buffer_size()
            one._cut_off()

    def _cut_off(self) -> None:
        # Nothing of the answer is kept: the system would hold its part of it for minutes.
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _is_idle(self) -> bool:
        """Return whether no part of a request has arrived since the last one was answered."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _await_head(self) -> None:
        self.head_timer = self.loop.call_later(self.limits.head_seconds, self._head_late)

    def _head_late(self) -> None:
        self.head_timer = None
        if self.conn.their_state is not h11.IDLE:  # a body whose request is answered already
            self.transport.close()
        elif not self.transport.is_closing():
            self._refuse(408, "Request Timeout", "the request did not arrive in time",
                         "client_too_slow")  # fmt: skip

    def _refuse(self, status: int, phrase: str, message: str, code: str) -> None:
        body = json.dumps({"error": message, "code": code}).encode()
        retry = "Retry-After: 1\r\n" if status == 503 else ""
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _cancel_head(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _cancel_write(self) -> None:
        if self.write_timer is not None:
            self.write_timer.cancel()
            self.write_timer = None


class Server(uvicorn.Server):
    """A server that a signal stops: it answers what it has accepted, then returns."""

    on_listening: Callable[[int], object] | None = None
    reported = -FULL_SECONDS

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal; `::` means the addresses of IPv4 too, where the system has both."""
        if self.config.host == "::" and socket.has_dualstack_ipv6():  # asyncio has IPv6 alone
            at = ("::", self.config.port)
            sockets = [socket.create_server(at, family=socket.AF_INET6, dualstack_ipv6=True)]
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report the port."""
        asyncio.get_running_loop().set_exception_handler(self._report)
        await super().startup(sockets)
        if self.started and self.on_listening is not None:
            self.on_listening(self.port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was accepted, then stop the application; after a second Ctrl-C at once.

        From Python 3.12 on, uvicorn waits for all connections then, too: work that the application
        stops ends them.
        """
        answering = asyncio.ensure_future(super().shutdown(sockets))
        while not (answering.done() or self.force_exit):
            await asyncio.wait([answering], timeout=0.1)
        if self.force_exit:
            await self.lifespan.shutdown()
        await answering

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what asyncio cannot do; of connections without a file, it reports every attempt."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(context)
        elif loop.time() >= self.reported + FULL_SECONDS:
            self.reported = loop.time()
            logger.error("connections wait: %s", error.strerror)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals as uvicorn does, but end by returning rather than by the signal."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    @property
    def port(self) -> int:
        """The port that the started server listens on."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


def check_address(host: str, port: int) -> None:
    """Check that a server can listen at an address; port 0 is any free one.

    Raises:
        DataError: the address is used, not allowed, or not one of this machine.
    """
    free = False
    try:
        for family, kind, _, _, at in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    tried.bind(at)
                    free = True
                except OSError as error:
                    # A name may have addresses of a kind that this machine does not have.
                    if error.errno != errno.EADDRNOTAVAIL:
                        raise
        if not free:
            raise OSError(errno.EADDRNOTAVAIL, "no such address on this machine")
    except (OSError, UnicodeError) as error:  # the latter of a name with an empty or a long part
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"cannot listen at {host}, port {port}", reason, "Choose another --host or --port"
        ) from None


def server(app: ASGIApp, host: str, port: int, limits: Limits, metrics: Metrics) -> Server:
    """Return a server for an application; `run()` blocks until a signal stops it."""
    options: dict[str, Any] = {
        "http": type("Protocol", (LimitedProtocol,), {"limits": limits, "metrics": metrics}),
        "ws": "none",
        "lifespan": "on",
        "timeout_keep_alive": int(limits.idle_seconds),
        "timeout_graceful_shutdown": int(limits.drain_seconds),
        "server_header": False,
        "proxy_headers": False,
        "access_log": False,
        "log_config": None,
        "log_level": "error",  # no line for each client that speaks no HTTP
        "backlog": 1024,
    }
    return Server(uvicorn.Config(app, host=host, port=port, **options))
