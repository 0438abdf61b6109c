"""The one retry loop: which errors are retried, how often, and after what wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from zoo.errors import UnavailableError

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """Retry on `UnavailableError`, with waits that double or that the server requested.

    `tries` is the largest number of calls, `wait` the seconds before the second one, and
    `longest_wait` the most seconds that all waits may take together.
    """

    tries: int = 5
    wait: float = 1.0
    longest_wait: float = 120.0

    def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call, retried as the policy says.

        Raises:
            UnavailableError: the last try failed, or the next wait would be too long.
            Exception: any other exception of the call, without a retry.
        """
        waited = 0.0
        for attempt in range(self.tries):
            try:
                return call()
            except UnavailableError as error:
                wait = max(error.wait, self.wait * 2**attempt)
                if attempt + 1 == self.tries or waited + wait > self.longest_wait:
                    raise
            waited += wait
            time.sleep(wait)
        raise AssertionError("the loop returns or raises")
