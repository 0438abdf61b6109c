"""`make verify-install`: the journey in a truly clean environment, its result recorded.

Arguments go to pip (another index, for instance). What was run and what it printed is written to
docs/verified.md.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from pathlib import Path

from tests.road.journey import EXAMPLE, TOP, Environment, build_wheel, journey

PAGE = TOP / "docs" / "verified.md"
HEAD = """# A clean install, verified

Written by `make verify-install`: the zoo's wheel and the example plugin `{example}`
installed with all they need into an empty environment, and the plugin's whole way from there. Every
command's exit code and answer were checked by `tests/road/journey.py`.
"""


FENCE = "`" * 4
"""Longer than those of the card that is shown inside."""


def main() -> None:
    """Go the journey, and write down how it went."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        options = ["--constraint", str(TOP / "constraints.txt"), *sys.argv[1:]]
        there = Environment.clean(Path(folder) / "clean", options)
        scores = journey(there, wheel)
        minutes = (time.monotonic() - start) / 60
        assert scores["exact_match"] > 95, scores
        head = HEAD.format(example=EXAMPLE.relative_to(TOP))
        ran = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
        told = "\n\n".join(there.told).replace(str(there.folder), "CLEAN")
        text = "\n".join(line.rstrip() for line in told.splitlines())
        page = f"{head}\n{ran}; {minutes:.1f} minutes.\n\n{FENCE}console\n{text}\n{FENCE}\n"
        PAGE.write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
