"""Prometheus metrics of one server, in a registry of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a server counts."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "zoo_requests_total", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "zoo_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.batch_size = Histogram(
            "zoo_batch_texts", "Texts in a batch.", buckets=SIZES, registry=registry
        )
        self.waited = Histogram(
            "zoo_queue_seconds",
            "Time that a batch's first text waited.",
            buckets=SECONDS,
            registry=registry,
        )
        self.texts = Counter("zoo_texts_total", "Texts given to workers.", registry=registry)
        self.busy_seconds = Counter(
            "zoo_worker_busy_seconds_total", "Time workers computed.", registry=registry
        )
        self.worker_deaths = Counter(
            "zoo_worker_deaths_total", "Worker processes that died.", registry=registry
        )
        self.connections_refused = Counter(
            "zoo_connections_refused_total", "Connections over the limit.", registry=registry
        )
        self.model_bytes = Gauge(
            "zoo_worker_model_bytes", "Weights that a worker holds.", ["worker"], registry=registry
        )
        self.resident = Gauge(
            "zoo_resident_bytes", "Resident memory of the server process.", registry=registry
        )
        self.resident.set_function(lambda: float(resident_bytes(os.getpid())))

    def batch(self, size: int, waited: float) -> None:
        """Record the start of a batch."""
        self.batch_size.observe(size)
        self.waited.observe(waited)
        self.texts.inc(size)

    def worker(self, number: int, made: dict[str, Any]) -> None:
        """Record a worker's answer."""
        self.busy_seconds.inc(made["seconds"])
        self.model_bytes.labels(str(number)).set(made["bytes"])

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read when the metrics are."""
        Gauge(name, about, registry=self.registry).set_function(value)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def resident_bytes(process: int) -> int:
    """Return a process's resident memory, 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
