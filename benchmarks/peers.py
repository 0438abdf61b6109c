"""Other projects, each in an environment of its own, made from the package index on first use.

    python = environment("fairseq")
    rows = ask("fairseq", Path("benchmarks/train_fairseq.py"), "--shape", "transformer-256")

What is installed stands in `peers/NAME.txt`, every version pinned; torch is its CPU build (`+cpu`),
since the plain one brings gigabytes that a benchmark on processors has no use for. Where the
package index has no such build, tell pip of one that has: `PIP_EXTRA_INDEX_URL`, `PIP_FIND_LINKS`.
"""

from __future__ import annotations

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


class PeerError(Exception):
    """An environment could not be made, or a peer's program failed."""


def home() -> Path:
    """Return where the environments are: `ZOO_PEERS`, or `build/peers` of this repository."""
    named = os.environ.get("ZOO_PEERS")
    return Path(named) if named else Path(__file__).parents[1] / "build" / "peers"


def environment(peer: str) -> Path:
    """Return the Python of a peer's environment, made if it is not there or its list has changed.

    Raises:
        PeerError: there is no such peer, or pip failed.
    """
    if peer not in PEERS:
        raise PeerError(f"no peer is called {peer}; there are {', '.join(PEERS)}")
    wanted = LISTS / f"{peer}.txt"
    folder = home() / peer
    python = folder / "bin" / "python"
    stamp = folder / "made-from"
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return python
    print(f"Making an environment for {peer} in {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--requirement", wanted], stdout=sys.stderr)
    if done.returncode:
        raise PeerError(f"pip could not install {wanted}; see above")
    stamp.write_text(digest)  # last: an environment half made is made again
    return python


def ask(
    peer: str, program: Path, *arguments: str, variables: Mapping[str, str] | None = None
) -> list[Any]:
    """Run a program with a peer's Python; return the JSON values it printed, one a line.

    Other lines of its output are passed on to standard error, as is all it writes there.

    Args:
        variables: environment variables to set for it.

    Raises:
        PeerError: the environment could not be made, or the program failed.
    """
    command = [environment(peer), program, *arguments]
    return run(command, variables)


def run(command: list[Any], variables: Mapping[str, str] | None = None) -> list[Any]:
    """Run any command as `ask` does: for this project's own side of a comparison.

    Raises:
        PeerError: it failed.
    """
    settings = {**os.environ, **(variables or {})}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=settings)
    if done.returncode:
        raise PeerError(f"{' '.join(map(str, command))} ended with {done.returncode}; see above")
    values = []
    for line in done.stdout.splitlines():
        try:
            values.append(json.loads(line))
        except ValueError:
            print(line, file=sys.stderr)
    return values
