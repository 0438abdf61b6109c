"""Measure `zoo serve` under load, beside servers that take one request at a time.

    python -m benchmarks.serving.load                 every row that is missing, at most 12 minutes
    python -m benchmarks.serving.load --again         every row anew
    python -m benchmarks.serving.load --table         only write the table again

The servers that take one request at a time hold the same weights: the zoo's translator, and
CTranslate2. Closed loop: each of N clients sends its next request when the last one is answered.
Open loop: requests arrive at random (Poisson) at a fixed rate, whether or not earlier ones are
answered. Every answer is compared with `Translator.translate` on one text at a time.

Each row is stored in `load.jsonl` when it is measured; a run that its time ends is continued by the
next. The table is written between the markers in `RESULTS.md`.
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
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import zoo
from benchmarks.report import Measurements, Row, machine, now, write
from benchmarks.serving.random_model import FROM, make

HERE = Path(__file__).parent
ROWS = Measurements(HERE / "load.jsonl", lambda row: (row["model"], row["server"], row["load"]))
CLIENTS = (1, 8, 64, 256)
SHARES = (0.5, 0.8)
"""Rates of the open loop, as shares of the highest rate of the closed loop."""
MODELS = ("transformer-tiny, trained", "transformer-6x6, random weights")
PLAIN = {"zoo, one request at a time": [], "CTranslate2, one request at a time": ["--ctranslate2"]}
PATIENCE = {"zoo serve": 60.0}
PLAIN_PATIENCE = 2.0
"""Seconds for which answers are awaited after the last request; a plain server has a long queue."""


@dataclass
class Result:
    """What one load measured; latencies in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0
    refused: int = 0
    unanswered: int = 0

    def row(self) -> Row:
        """Return what is stored; latencies in milliseconds."""
        times = sorted(self.latencies) or [0.0]
        at = [1000 * times[min(len(times) - 1, int(q * len(times)))] for q in (0.5, 0.95, 0.99)]
        counts = {name: getattr(self, name) for name in ("lost", "wrong", "refused", "unanswered")}
        rate = len(self.latencies) / self.seconds
        return {"rate": rate, **dict(zip(("p50", "p95", "p99"), at, strict=True)), **counts}


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


async def closed(port: int, case: Case, clients: int, seconds: float, patience: float) -> Result:
    """Run so many clients in a closed loop."""
    result, texts = Result(), list(case.texts)
    start = time.perf_counter()
    end = start + seconds

    async def loop(number: int) -> None:
        client, draw = Client(port), random.Random(number)
        try:
            while time.perf_counter() < end:
                await one(client, case, draw.choice(texts), result)
                result.seconds = time.perf_counter() - start  # until the last answer
        finally:
            client.close()

    await _finished([asyncio.ensure_future(loop(n)) for n in range(clients)], result,
                    seconds + patience)  # fmt: skip
    return result


async def opened(port: int, case: Case, rate: float, seconds: float, patience: float) -> Result:
    """Send requests at a rate, in the open loop."""
    result, texts, draw = Result(), list(case.texts), random.Random(1)
    free: list[Client] = []
    start = time.perf_counter()

    async def request() -> None:
        client = free.pop() if free else Client(port)
        await one(client, case, draw.choice(texts), result)
        free.append(client)
        result.seconds = time.perf_counter() - start

    tasks = []
    async for _ in _arrivals(draw, rate, seconds):
        tasks.append(asyncio.ensure_future(request()))
    await _finished(tasks, result, patience)
    for client in free:
        client.close()
    return result


async def _finished(tasks: list[asyncio.Future[None]], result: Result, seconds: float) -> None:
    """Wait for all tasks, so long at most, and count those that are not done."""
    _, late = await asyncio.wait(tasks, timeout=seconds)
    result.unanswered = len(late)
    for task in late:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _arrivals(draw: random.Random, rate: float, seconds: float) -> AsyncIterator[None]:
    start = time.perf_counter()
    at = 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
        yield


def cases(folder: Path, count: int, names: Sequence[str], end: float) -> Iterator[Case]:
    """Yield the models: a trained tiny one, and a 6+6 layers of 512 with random weights."""
    texts = _texts()[:count]
    for name in names:
        if time.monotonic() > end:
            return
        # Random weights write until the limit: 20 tokens, about as many as a caption has.
        options = {"beam": 1} if name == MODELS[0] else {"beam": 1, "max_length": 20}
        path = FROM if name == MODELS[0] else folder / "transformer-6x6"
        if path is not FROM:
            make(path)
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


def wanted(clients: Sequence[int]) -> list[tuple[str, str, str]]:
    """Return the keys of all rows, in the order in which they are measured."""
    loops = [f"closed, {n} clients" for n in clients]
    shares = [f"open, {share:.0%} of the highest rate" for share in SHARES]
    return [
        (model, server, load)
        for model in MODELS
        for server in ("zoo serve", *PLAIN)
        for load in (loops + shares if server == "zoo serve" else loops)
    ]


def measure(case: Case, server: str, loads: Sequence[str], seconds: float, end: float) -> None:
    """Measure and store rows of one model and server, until the time `end`."""
    serve = ["-m", "zoo", "serve", "--port", "0", f"model={case.folder}"]
    plain = ["benchmarks/serving/plain.py", str(case.folder), *PLAIN.get(server, [])]
    patience = PATIENCE.get(server, PLAIN_PATIENCE)
    # A plain server still works on the requests of clients that have left: each row has its own.
    groups = [list(loads)] if server == "zoo serve" else [[load] for load in loads]
    for group in groups:
        if time.monotonic() > end:
            return
        with running(serve if server == "zoo serve" else plain) as port:
            asyncio.run(closed(port, case, 8, 2.0, 60.0))  # loads the model in every worker
            for load in group:
                if time.monotonic() > end:
                    return
                kind, number = load.split(", ")
                amount = float(number.split()[0].rstrip("%"))
                if kind == "closed":
                    made = asyncio.run(closed(port, case, int(amount), seconds, patience))
                else:
                    of_server = [
                        r for key, r in ROWS.read().items() if key[:2] == (case.name, server)
                    ]
                    most = max(r["rate"] for r in of_server if r["load"].startswith("closed"))
                    rate = amount / 100 * most
                    made = asyncio.run(opened(port, case, rate, seconds, patience))
                when = f"{now()} UTC"
                key = {"model": case.name, "server": server, "load": load}
                row = {**key, **made.row(), "when": when, "seconds": seconds,
                       "system_load": round(os.getloadavg()[0], 1)}  # fmt: skip
                ROWS.put(row)
                print(json.dumps(row), flush=True)


def table(clients: Sequence[int]) -> str:
    """Return the table of the rows that are measured, and what 64 clients say."""
    rows = ROWS.read()
    columns = ("model", "server", "load", "sentences/s", "p50", "p95", "p99", "lost", "wrong",
               "refused", "unanswered", "load of the machine")  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---|---|---|" + "--:|" * 9]
    for key in wanted(clients):
        if key in rows:
            row = rows[key]
            times, counts = ("p50", "p95", "p99"), ("lost", "wrong", "refused", "unanswered")
            cells = [*key, f"{row['rate']:,.1f}", *(f"{row[name]:,.0f}" for name in times)]
            cells += [str(row[name]) for name in (*counts, "system_load")]
            lines.append(f"| {' | '.join(cells)} |")
    notes = []
    for model in MODELS:
        rates = {s: rows.get((model, s, "closed, 64 clients"), {}).get("rate")
                 for s in ("zoo serve", *PLAIN)}  # fmt: skip
        notes += [
            f"- {model}, 64 clients: `zoo serve` has {rates['zoo serve'] / rate:.1f} times the "
            f"sentences/s of {server}."
            for server, rate in rates.items()
            if rate and rates["zoo serve"] and server != "zoo serve"
        ]
    measured = sorted({row["when"] for row in rows.values()})
    head = (
        f"Measured {measured[0]} to {measured[-1]} on {machine()}, torch {torch.__version__}, "
        f"Python {platform.python_version()}; one sentence in a request, greedy search; times in "
        "milliseconds. The last column is the load average after the row."
    )
    return "\n".join([head, "", *lines, "", *notes])


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=8.0, help="Length of a row.")
    parser.add_argument("--minutes", type=float, default=12.0, help="Start no row after so long.")
    parser.add_argument("--texts", type=int, default=100, help="Different sentences.")
    parser.add_argument("--clients", type=int, nargs="*", default=CLIENTS)
    parser.add_argument("--again", action="store_true", help="Measure rows that are there too.")
    parser.add_argument("--table", action="store_true", help="Only write the table.")
    arguments = parser.parse_args()
    # The last row, its server and its unanswered requests take about a minute.
    end = time.monotonic() + 60 * (arguments.minutes - 1)
    there = {} if arguments.again else ROWS.read()
    missing = [key for key in wanted(arguments.clients) if key not in there]
    models = [] if arguments.table else list(dict.fromkeys(key[0] for key in missing))
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder), arguments.texts, models, end):
            servers = dict.fromkeys(server for model, server, _ in missing if model == case.name)
            for server in servers:
                loads = [key[2] for key in missing if key[:2] == (case.name, server)]
                measure(case, server, loads, arguments.seconds, end)
    if ROWS.read():
        write(HERE / "RESULTS.md", "benchmarks.serving.load", table(arguments.clients))
    left = [key for key in wanted(arguments.clients) if key not in ROWS.read()]
    print(f"{len(left)} rows are missing" if left else "Every row is measured", flush=True)


if __name__ == "__main__":
    main()
