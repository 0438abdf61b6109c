"""Other projects, each in a virtual environment that is built from the package index on first use.

    python = environment("fairseq")
    rows = run_peer("fairseq", program, "--shape", "lstm-dot", "--precision", "bf16")

`peers/NAME.txt` lists the packages of an environment, every version pinned. torch is the CPU build
(`+cpu`), because the default build adds gigabytes of GPU libraries. If your package index lacks
that build, give pip another one with `PIP_EXTRA_INDEX_URL` or `PIP_FIND_LINKS`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LISTS = Path(__file__).with_name("peers")
PEERS = tuple(sorted(file.stem for file in LISTS.glob("*.txt")))
KERNELS = {"ZOO_CACHE": str(Path(__file__).parents[1] / "build" / "benchmarks" / "kernels")}
"""Variables of commands that use the zoo's compiled kernels."""


class PeerError(Exception):
    """An environment could not be built, or a peer's program failed."""


def home() -> Path:
    """Return the folder of the environments: `ZOO_PEERS`, or `build/peers` of this repository."""
    folder = os.environ.get("ZOO_PEERS")
    return Path(folder) if folder else Path(__file__).parents[1] / "build" / "peers"


def environment(peer: str) -> Path:
    """Return the Python of a peer's environment, built if it is missing or its list has changed.

    Raises:
        PeerError: the peer is unknown, or pip failed.
    """
    if peer not in PEERS:
        raise PeerError(f"unknown peer {peer!r}; choose from {', '.join(PEERS)}")
    requirements = LISTS / f"{peer}.txt"
    folder = home() / peer
    python = folder / "bin" / "python"
    stamp = folder / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return python
    print(f"Building an environment for {peer} in {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--requirement", requirements], stdout=sys.stderr)
    if done.returncode:
        raise PeerError(f"pip could not install {requirements}; its output is above")
    stamp.write_text(digest)  # written last: an incomplete environment is built again
    return python


def run_peer(
    peer: str, program: Path, *arguments: str, variables: Mapping[str, str] | None = None
) -> list[Any]:
    """Run a program with a peer's Python and return the JSON values that it prints, one per line.

    Other output goes to standard error.

    Args:
        variables: environment variables of the program.

    Raises:
        PeerError: the environment could not be built, or the program failed.
    """
    command = [environment(peer), program, *arguments]
    return run(command, variables)


def run(command: list[Any], variables: Mapping[str, str] | None = None) -> list[Any]:
    """Run a command and return the JSON values that it prints, one per line.

    Raises:
        PeerError: the command failed.
    """
    settings = {**os.environ, **(variables or {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=settings)
    if done.returncode:
        raise PeerError(
            f"{' '.join(map(str, command))} exited with {done.returncode}; its output is above"
        )
    values = []
    for line in done.stdout.splitlines():
        try:
            values.append(json.loads(line))
        except ValueError:
            print(line, file=sys.stderr)
    return values


class Program:
    """A program that answers lines of its standard input by lines of JSON; other output is skipped.

    Args:
        command: the program and its arguments.
        variables: its environment variables besides those of this process.
    """

    def __init__(self, command: list[Any], variables: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def send(self, line: str) -> None:
        """Send a request; `answer` reports a program that has ended."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            PeerError: the program has ended.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise PeerError("a program ended; its output is above")

    def request(self, line: str) -> dict[str, Any]:
        """Return the answer to a request."""
        self.send(line)
        return self.answer()

    def close(self) -> None:
        """End the input, and wait for the end of the program."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        self.process.wait()


def compile_kernels() -> None:
    """Compile the zoo's kernels for the commands that get `KERNELS`.

    Raises:
        PeerError: there is no compiler.
    """
    run([sys.executable, "-m", "zoo", "compile-kernels"], KERNELS)
