"""What one server accepts, and how long it waits. Every buffer in the server has a bound here."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_BYTES = 32_768
"""The most bytes of a request's head."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server; sizes in bytes or characters, times in seconds.

    Args:
        body_bytes: the largest request body.
        texts: texts in one request.
        characters: characters of one text.
        stream_characters: characters of a text that is translated as a stream.
        queue_texts, queue_characters: what may wait for a worker before requests get status 429.
        batch_characters: source characters in a batch, padding included, times the beam. A token
            has at least one character, so this bounds tokens too.
        batch_texts: texts in a batch.
        batch_wait: how long a text may wait for others to share its batch.
        long_characters, long_sentence: texts longer than the first, or with a sentence longer than
            the second, never occupy all workers at once. The time that a sentence takes grows with
            the square of its length.
        long_seconds: how long a long text may compute while short ones of other requests have no
            other worker.
        stop_seconds: how long a worker may take to stop what no client waits for, before its
            process is replaced.
        connections: open connections.
        head_seconds, body_seconds: how long a client may take to send a request's head and body.
        write_seconds: how long a client may stop reading before its connection is closed.
        unsent_bytes: what all clients together may leave unread; beyond it, those that have read
            their answers for longest are cut off.
        idle_seconds: how long a connection may stay open without a request.
        request_seconds: how long an accepted request may take.
        drain_seconds: how long a stopping server waits for accepted requests.
        memory_bytes: weights that all workers together may hold.
        worker_bytes: resident memory at which a worker process is replaced by a new one.
    """

    body_bytes: int = 1_000_000
    texts: int = 1_000
    characters: int = 10_000
    stream_characters: int = 200_000
    queue_texts: int = 4_096
    queue_characters: int = 2_000_000
    batch_characters: int = 16_384
    batch_texts: int = 256
    batch_wait: float = 0.005
    long_characters: int = 1_000
    long_sentence: int = 300
    long_seconds: float = 15.0
    stop_seconds: float = 5.0
    connections: int = 1_000
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    write_seconds: float = 20.0
    unsent_bytes: int = 256_000_000
    idle_seconds: float = 30.0
    request_seconds: float = 120.0
    drain_seconds: float = 60.0
    memory_bytes: int = 2_000_000_000
    worker_bytes: int = 2_000_000_000
