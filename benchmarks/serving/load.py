"""Measure `zoo serve` under load, beside a server that takes one request at a time.

    python -m benchmarks.serving.load --out benchmarks/serving/load.md

Closed loop: each of N clients sends its next request when the last one is answered. Open loop:
requests arrive at random (Poisson) at a fixed rate, whether or not earlier ones are answered.
Every answer is compared with `Translator.translate` on one text at a time.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import zoo
from benchmarks.serving.random_model import FROM, make

CLIENTS = (1, 8, 64, 256)


@dataclass
class Result:
    """What one load measured; latencies in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0
    refused: int = 0

    def row(self) -> str:
        times = sorted(self.latencies) or [0.0]
        at = [1000 * times[min(len(times) - 1, int(q * len(times)))] for q in (0.5, 0.95, 0.99)]
        rate = len(self.latencies) / self.seconds
        faults = f"{self.lost} | {self.wrong}"
        return f"{rate:,.1f} | {at[0]:,.0f} | {at[1]:,.0f} | {at[2]:,.0f} | {faults}"


@dataclass(frozen=True)
class Case:
    """A model, the request's options, and the translation of each text."""

    name: str
    folder: Path
    options: dict[str, Any]
    texts: dict[str, str]


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[int]:
    """Start a server; give its port."""
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if match := re.search(r"at http://\S+:(\d+)", line):
                yield int(match[1])
                break
        else:
            raise RuntimeError(f"{command} did not start")
    finally:
        process.terminate()
        process.wait()


class Client:
    """A connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, body: bytes) -> tuple[int, Any]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        head = "POST /api/translate HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        match = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        assert match is not None
        received = json.loads(await reader.readexactly(int(match[1])))
        return int(answer.split(b" ", 2)[1]), received

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def one(client: Client, case: Case, text: str, result: Result) -> None:
    """Send one request and check its answer."""
    body = json.dumps({"checkpoint": "model", "texts": [text], **case.options}).encode()
    start = time.perf_counter()
    try:
        status, answer = await client.send(body)
    except (OSError, asyncio.IncompleteReadError):
        result.lost += 1
        client.close()
        return
    if status != 200:
        result.refused += status == 429
        result.lost += status != 429
        return
    result.latencies.append(time.perf_counter() - start)
    result.wrong += answer["translations"][0]["text"] != case.texts[text]


async def closed(port: int, case: Case, clients: int, seconds: float) -> Result:
    """Run so many clients in a closed loop."""
    result, texts = Result(), list(case.texts)
    end = time.perf_counter() + seconds

    async def loop(number: int) -> None:
        client, draw = Client(port), random.Random(number)
        while time.perf_counter() < end:
            await one(client, case, draw.choice(texts), result)
        client.close()

    start = time.perf_counter()
    await asyncio.gather(*map(loop, range(clients)))
    result.seconds = time.perf_counter() - start
    return result


async def opened(port: int, case: Case, rate: float, seconds: float) -> Result:
    """Send requests at a rate, in the open loop."""
    result, texts, draw = Result(), list(case.texts), random.Random(1)
    free: list[Client] = []

    async def request() -> None:
        client = free.pop() if free else Client(port)
        await one(client, case, draw.choice(texts), result)
        free.append(client)

    start = time.perf_counter()
    tasks = []
    async for _ in _arrivals(draw, rate, seconds):
        tasks.append(asyncio.ensure_future(request()))
    await asyncio.gather(*tasks)
    result.seconds = time.perf_counter() - start
    for client in free:
        client.close()
    return result


async def _arrivals(draw: random.Random, rate: float, seconds: float) -> AsyncIterator[None]:
    start = time.perf_counter()
    at = 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
        yield


def cases(folder: Path, count: int) -> Iterator[Case]:
    """Yield the models: a trained tiny one, and a 6+6 layers of 512 with random weights."""
    texts = _texts()[:count]
    large = folder / "transformer-6x6"
    make(large)
    for name, path, options in (
        ("transformer-tiny, trained", FROM, {}),
        # Random weights write until the limit: 20 tokens, about as many as a caption has.
        ("transformer-6x6, random weights", large, {"max_length": 20}),
    ):
        translator = zoo.load(path)
        translations = {text: translator.translate(text, **options) for text in texts}
        yield Case(name, path, options, translations)


def _texts() -> list[str]:
    data = os.environ.get("ZOO_DATA")
    if data:
        file = next(Path(data).glob("multi30k/*test*2016*.en"), None)
        if file is not None:
            return file.read_text(encoding="utf-8").split("\n")[:1000]
    people = ("A man", "Two women", "A little girl in a pink dress", "Several people", "The dog")
    acts = ("rides a horse", "sits on a bench", "plays guitar on a stage in front of a crowd",
            "walks down the street", "climbs a ladder to clean a window")  # fmt: skip
    endings = ("", " in the park", " on a sunny day", " near the water with a red ball")
    return [f"{a} {b}{c}." for a in people for b in acts for c in endings]


def measure(case: Case, seconds: float, clients: tuple[int, ...]) -> list[str]:
    """Return the table's rows for one model."""
    serve = ["-m", "zoo", "serve", "--port", "0", f"model={case.folder}"]
    servers = {
        "zoo serve": serve,
        "one request at a time": ["benchmarks/serving/plain.py", str(case.folder)],
    }
    rows, best = [], 0.0
    for name, command in servers.items():
        with running(command) as port:
            asyncio.run(closed(port, case, 16, 4.0))  # loads the model in every worker
            for count in clients:
                result = asyncio.run(closed(port, case, count, seconds))
                rows.append(f"| {case.name} | {name} | closed, {count} clients | {result.row()} |")
                print(rows[-1], flush=True)
                if name == "zoo serve":
                    best = max(best, len(result.latencies) / result.seconds)
            for share in (0.5, 0.8):
                if name != "zoo serve":
                    continue
                result = asyncio.run(opened(port, case, share * best, seconds))
                load = f"open, {share * best:.0f} requests/s"
                rows.append(f"| {case.name} | {name} | {load} | {result.row()} |")
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), arguments.texts):
            rows += measure(case, arguments.seconds, tuple(arguments.clients))
    head = (
        f"Printed by `python -m benchmarks.serving.load --seconds {arguments.seconds:g}`: "
        f"{os.cpu_count()} cores, torch {torch.__version__}, Python {platform.python_version()}, "
        f"load average before {os.getloadavg()[2]:.1f}; one sentence in a request, greedy search. "
        "Times are in milliseconds."
    )
    columns = ("model", "server", "load", "sentences/s", "p50", "p95", "p99", "lost", "wrong")
    table = [f"| {' | '.join(columns)} |", "|---|---|---|" + "---:|" * 6, *rows]
    text = f"# Load\n\n{head}\n\n" + "\n".join(table) + "\n"
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
