"""Soak and flood `zoo serve`, on this machine's loopback address.

    python -m tests.campaigns.serving soak --minutes 30 --out tests/campaigns/soak.md
    python -m tests.campaigns.serving flood --connections 10000

The soak keeps the server busy with everything it offers: translations, streams, attention, trees,
wrong requests, clients that hang up, and workers that are killed. Texts are compared with those of
`Translator.translate`, and resident memory is written down. The flood opens many connections at
once.
"""

import argparse
import json
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import zoo
from tests.serving.client import Running, start, wait_until

CARDS = Path(__file__).parents[2] / "cards" / "checkpoints"
NAMES = ("transformer-tiny.multi30k-en-de", "rnnsearch-tiny.multi30k-en-de",
         "transformer-tiny.numbers-en-fr")  # fmt: skip
TEXTS = ("A man rides a horse.", "Two dogs play in the snow with a red ball.", "four hundred",
         "Several people sit around a table in the park.", "A girl climbs stairs.")  # fmt: skip


class Soak:
    """Clients that send requests until they are stopped."""

    def __init__(self, server: Running) -> None:
        self.server, self.stop = server, threading.Event()
        self.counts: dict[str, int] = {}
        self.lock = threading.Lock()
        self.faults: list[str] = []
        translators = {name: zoo.load(CARDS / name) for name in NAMES}
        self.wanted = {(n, t): translators[n].translate(t) for n in NAMES for t in TEXTS}

    def client(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self.stop.is_set():
            name, kind = self.request(draw)
            try:
                problem = getattr(self, kind)(name, draw)
            except Exception as error:  # every surprise is a finding, not the end of the soak
                problem = f"{type(error).__name__}: {error}"
            with self.lock:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                if problem:
                    self.faults.append(f"{kind}: {problem}"[:200])

    def request(self, draw: random.Random) -> tuple[str, str]:
        kinds = ("translate", "stream", "attention", "tree", "wrong", "hang_up")
        return draw.choice(NAMES), draw.choices(kinds, (80, 4, 4, 4, 4, 4))[0]

    def translate(self, name: str, draw: random.Random) -> str:
        texts = draw.choices(TEXTS, k=draw.randint(1, 4))
        answer = self.server.send("/api/translate", {"checkpoint": name, "texts": texts})
        if answer.status != 200:
            return f"status {answer.status}: {answer.body[:100]!r}"
        received = [one["text"] for one in answer.json["translations"]]
        return (
            ""
            if received == [self.wanted[name, text] for text in texts]
            else f"{texts}: {received}"
        )

    def stream(self, name: str, draw: random.Random) -> str:
        asked = {"checkpoint": name, "text": " ".join(TEXTS * 3)}
        answer = self.server.send("/api/translate/stream", asked)
        return "" if b"event: done" in answer.body else repr(answer.body[-100:])

    def attention(self, name: str, draw: random.Random) -> str:
        asked = {"checkpoint": name, "text": draw.choice(TEXTS)}
        return _expect(self.server.send("/api/attention", asked), 200)

    def tree(self, name: str, draw: random.Random) -> str:
        asked = {"checkpoint": name, "text": draw.choice(TEXTS), "beam": 4}
        return _expect(self.server.send("/api/tree", asked), 200)

    def wrong(self, name: str, draw: random.Random) -> str:
        body, status = draw.choice(
            [(b"{", 400), (b"\xff", 400), (b" " * 1_100_000, 413),
             (b'{"checkpoint": "x", "texts": ["a"]}', 404)]
        )  # fmt: skip
        return _expect(self.server.send("/api/translate", body=body), status)

    def hang_up(self, name: str, draw: random.Random) -> str:
        body = json.dumps({"checkpoint": name, "texts": list(TEXTS) * 5}).encode()
        head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        sent = head.encode() + b"\r\n\r\n" + body
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as one:
            one.sendall(sent[: draw.randint(1, len(sent))])
        return ""


def _expect(answer: Any, status: int) -> str:
    return "" if answer.status == status else f"status {answer.status}: {answer.body[:100]!r}"


def soak(minutes: float, clients: int, out: Path | None) -> None:
    """Run the soak and write its table."""
    folders = [str(CARDS / name) for name in NAMES]
    rows: list[str] = []
    with start(*folders, "--memory", "0.08", "--queue", "100000") as server:
        run = Soak(server)
        threads = [threading.Thread(target=run.client, args=(n,)) for n in range(clients)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        kills = 0
        for part in range(1, 21):
            time.sleep(max(0.0, begun + part * minutes * 3 - time.monotonic()))
            if part in (5, 10):  # early enough that the second half shows memory alone
                os.kill(server.worker_ids()[0], signal.SIGKILL)
                kills += 1
            mb = [server.metric(name) / 1e6 for name in
                  ("zoo_resident_bytes", "zoo_workers_resident_bytes")]  # fmt: skip
            elapsed = (time.monotonic() - begun) / 60
            rows.append(f"| {elapsed:.1f} | {sum(run.counts.values()):,} | "
                        f"{mb[0]:.0f} | {mb[1]:.0f} |")  # fmt: skip
            print(rows[-1], flush=True)
        run.stop.set()
        for thread in threads:
            thread.join()
        status = server.stop()
    counts = ", ".join(f"{count:,} × {kind}" for kind, count in sorted(run.counts.items()))
    text = (
        f"# Soak\n\nPrinted by `python -m tests.campaigns.serving soak --minutes {minutes:g} "
        f"--clients {clients}`: {counts}; {kills} workers killed; {len(run.faults)} wrong or lost "
        f"answers; exit status {status} after SIGTERM.\n\n"
        "| minutes | requests | server, MB resident | workers, MB resident |\n"
        "|---:|---:|---:|---:|\n" + "\n".join(rows) + "\n"
    )
    print(text, *run.faults[:20], sep="\n")
    if out is not None:
        out.write_text(text, encoding="utf-8")


def flood(count: int) -> None:
    """Open many connections at once; ask for a translation before, during and after."""
    with start(str(CARDS / NAMES[2])) as server:
        asked = {"checkpoint": NAMES[2], "texts": ["four hundred and five"]}
        before = server.send("/api/translate", asked).json["translations"][0]["text"]
        memory = server.metric("zoo_resident_bytes") / 1e6
        held: list[socket.socket] = []
        failed = 0
        begun = time.monotonic()
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            try:
                one.connect_ex(("127.0.0.1", server.port))
                held.append(one)
            except OSError:
                failed += 1
        opened = time.monotonic() - begun
        time.sleep(5)
        answers: dict[str, int] = {}
        for one in held:
            try:
                first = one.recv(100).split(b"\r\n")[0].decode() or "closed"
            except BlockingIOError:
                first = "open, silent"
            except OSError as error:
                first = type(error).__name__
            answers[first] = answers.get(first, 0) + 1
        for one in held:
            one.close()

        def works() -> bool:
            try:
                return server.send("/healthz", timeout=5).status == 200
            except OSError:
                return False

        wait_until(works, 60)
        after = server.send("/api/translate", asked).json["translations"][0]["text"]
        later = server.metric("zoo_resident_bytes") / 1e6
        print(f"{count:,} connections in {opened:.1f} s, {failed} failed to begin: {answers}")
        print(
            f"before {before!r}, after {after!r}; server {memory:.0f} MB before, {later:.0f} after"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("soak")
    one.add_argument("--minutes", type=float, default=30.0)
    one.add_argument("--clients", type=int, default=16)
    one.add_argument("--out", type=Path)
    other = parts.add_parser("flood")
    other.add_argument("--connections", type=int, default=10_000)
    arguments = parser.parse_args()
    if arguments.part == "soak":
        soak(arguments.minutes, arguments.clients, arguments.out)
    else:
        flood(arguments.connections)


if __name__ == "__main__":
    main()
