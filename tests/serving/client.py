"""Starting a server and talking to it, with the standard library alone."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import EXECUTABLE, python, script


@dataclass
class Answer:
    """A response, its body read."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """A started server."""

    process: "subprocess.Popen[str]"
    port: int
    lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self,
        path: str,
        value: Any = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "",
        timeout: float = 60.0,
    ) -> Answer:
        """Send one request; `value` is sent as JSON, `body` as it is."""
        sent = json.dumps(value).encode() if value is not None else body
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            chosen = method or ("GET" if sent is None else "POST")
            all_headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(chosen, path, sent, all_headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def translate(self, checkpoint: str, *texts: str, **options: Any) -> list[str]:
        """Return the best translations."""
        answer = self.send(
            "/api/translate", {"checkpoint": checkpoint, "texts": list(texts), **options}
        )
        assert answer.status == 200, answer.body
        return [one["text"] for one in answer.json["translations"]]

    def metric(self, name: str) -> float:
        """Return the sum of a metric's samples."""
        text = self.send("/metrics").body.decode()
        values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, values))

    def worker_ids(self) -> list[int]:
        """Return the ids of the worker processes."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(children, encoding="ascii") as file:
            return [int(one) for one in file.read().split()]

    def stop(self) -> int:
        """Stop it by SIGTERM; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)


@contextlib.contextmanager
def start(
    *arguments: str, folder: Path | None = None, forked: bool = False, **environment: str
) -> Iterator[Running]:
    """Start `zoo serve` on a free port, in a folder; it is ready when this returns.

    With `forked`, it and its workers are forked processes, for tests that are not about processes.
    """
    # As the command `zoo`, which finds no modules in the current folder.
    command = ["-P", "-m", "zoo", "serve", "--port", "0", *arguments]
    variables = {**os.environ, **environment}
    with tempfile.TemporaryDirectory() as scripts:
        if forked:
            variables[EXECUTABLE] = f"{scripts}/python"
            script(Path(scripts, "python"))
        process = subprocess.Popen(
            [*(python() if forked else [sys.executable]), *command],
            stderr=subprocess.PIPE, text=True, cwd=folder, env=variables,
        )  # fmt: skip
        with ended_at_last(process) as running:
            yield running


@contextlib.contextmanager
def ended_at_last(process: "subprocess.Popen[str]") -> Iterator[Running]:
    """Wait until a server is ready, and end it."""
    running = Running(process, 0)
    assert process.stderr is not None
    listening = threading.Event()

    def read(stream: Any) -> None:
        for line in stream:
            running.lines.append(line)
            if match := re.search(r"at http://\S+:(\d+)", line):
                running.port = int(match[1])
                listening.set()
        listening.set()

    reader = threading.Thread(target=read, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        assert listening.wait(60), running.lines
        assert running.port, running.lines
        wait_until(lambda: running.send("/readyz").status == 200)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join(5)
        process.stderr.close()


def wait_until(true: Any, seconds: float = 60.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
