"""The queue of texts that wait for a worker, and how batches are chosen from it.

Requests share the workers by fair queueing: each text gets a tag, the virtual time at which its
request arrived plus the cost of the request's texts up to and including this one. The text with the
lowest tag leads the next batch, and its tag is the new virtual time. A short request overtakes the
rest of a long one; a long one waits at most until others have led batches of the cost it asks for.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoo.serving.errors import QueueFullError
from zoo.serving.limits import Limits

SENTENCE_ENDS = re.compile(r"[.!?…。！？\n]")

NEAR = 24
"""Texts whose lengths differ by no more characters than this always count as alike."""


@dataclass(eq=False)
class Item:
    """One text in the queue.

    key: items of equal keys can share a batch; job: what the worker computes, the same for equal
    keys; payload: this item's own input; length: in characters; width: hypotheses per text;
    client: the same for all items of one request.
    """

    key: Hashable
    job: dict[str, Any]
    payload: Any
    length: int
    future: asyncio.Future[Any]
    width: int = 1
    client: object = None
    arrived: float = 0.0
    tag: float = 0.0
    attempts: int = 0
    sentence: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Measure the longest sentence, in characters; a translation may have to be longer."""
        if isinstance(self.payload, str):
            longest = max(map(len, SENTENCE_ENDS.split(self.payload)))
            self.sentence = max(longest, self.job.get("options", {}).get("min_length", 0))

    @property
    def cost(self) -> int:
        """The work this item asks for, in characters."""
        return (self.length + 1) * self.width


class Queue:
    """Texts that wait; not safe for threads. `clock` returns seconds."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.limits, self.clock = limits, clock
        self.items: set[Item] = set()
        self.characters = 0
        self._virtual = 0.0

    def __len__(self) -> int:
        return len(self.items)

    def add(self, items: Sequence[Item]) -> None:
        """Add the items of one request.

        Raises:
            QueueFullError: they do not all fit; none is added.
        """
        limits = self.limits
        length = sum(item.length for item in items)
        for what, waiting, more, most in (
            ("texts", len(self.items), len(items), limits.queue_texts),
            ("characters", self.characters, length, limits.queue_characters),
        ):
            if self.items and waiting + more > most:
                raise QueueFullError(waiting, most, what)
        tag, now = self._virtual, self.clock()
        for item in items:
            tag += item.cost
            item.tag, item.arrived = tag, now
            self._insert(item)

    def put_back(self, items: Sequence[Item]) -> None:
        """Return items whose worker died; they keep their tags, and no limit applies."""
        for item in items:
            self._insert(item)

    def discard(self, item: Item) -> None:
        """Remove an item whose client has left; no effect if it is not waiting."""
        if item in self.items:
            self.items.remove(item)
            self.characters -= item.length

    def take(self, idle: int, workers: int, long_running: int) -> tuple[list[Item], float | None]:
        """Return the next batch, or an empty one and the seconds to wait for it.

        Args:
            idle: workers that wait for a batch, at least one; if all do, a text does not wait.
            workers: all workers.
            long_running: workers that are busy with a long text.

        Returns:
            The batch, removed from the queue, and None; or an empty batch and either seconds to
            wait until it should be started, or None where only an event can change the answer.
        """
        waiting = [item for item in self.items if not item.future.done()]
        if len(waiting) < len(self.items):
            for item in self.items.difference(waiting):
                self.discard(item)
        if workers > 1 and long_running >= workers - 1:
            waiting = [item for item in waiting if not self.is_long(item)]
        if not waiting:
            return [], None
        first = min(waiting, key=lambda item: (item.tag, item.arrived))
        alike = [item for item in waiting if item.key == first.key]
        batch = self._fill(first, alike, idle)
        full = len(batch) < len(alike)
        # With all workers idle there is nothing to save by waiting for company.
        wait = self.limits.batch_wait - (self.clock() - min(item.arrived for item in batch))
        if idle < workers and not full and wait > 0:
            return [], wait
        for item in batch:
            self.discard(item)
        self._virtual = max(self._virtual, first.tag)
        return batch, None

    def is_long(self, item: Item) -> bool:
        """Return whether an item may not occupy the last free worker."""
        limits = self.limits
        return item.length > limits.long_characters or item.sentence > limits.long_sentence

    def _insert(self, item: Item) -> None:
        self.items.add(item)
        self.characters += item.length

    def _fill(self, first: Item, alike: list[Item], idle: int) -> list[Item]:
        """Return `first` and the items of its key that are nearest to it in length."""
        most = min(self.limits.batch_texts, max(1, math.ceil(len(alike) / idle)))
        alike.sort(key=lambda item: (item is not first, abs(item.length - first.length), item.tag))
        batch, longest = [first], first.length
        for item in alike[1:]:
            low, high = sorted((item.length, first.length))
            if len(batch) == most or high > max(2 * low, low + NEAR):
                break
            longest = max(longest, item.length)
            if (len(batch) + 1) * (longest + 1) * first.width > self.limits.batch_characters:
                break
            batch.append(item)
        return batch
