"""`make verify-install`: test an external plugin in a new environment and record the commands.

Arguments are passed to pip, for instance another index. The transcript is written to
docs/verified.md.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from tests.external_plugins.journey import (
    EXAMPLE,
    TOP,
    Environment,
    build_wheel,
    captions_journey,
    journey,
    remove_captions,
)
from tests.external_plugins.pasted import run_pages

PAGE = TOP / "docs" / "verified.md"
HEAD = """# A verified clean installation

Written by `make verify-install`: the zoo's wheel and the example plugin `{example}`
are installed with all their dependencies into an empty environment. The plugin's model is trained,
scored and released, and the plugin is uninstalled. Then the wheels of the other checkpoints are
installed, and the commands of the README and of the site's first pages are run as pasted, outside
of the repository (`tests/external_plugins/pasted.py`). The exit code and the output of every
command are checked.
"""


FENCE = "`" * 4
"""Longer than the fences of the card in the transcript."""


def main() -> None:
    """Run the journey and write the transcript."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        options = ["--constraint", str(TOP / "constraints.txt"), *sys.argv[1:]]
        environment = Environment.clean(Path(folder) / "clean", options)
        scores = journey(environment, wheel)
        captions = build_wheel(Path(folder) / "captions", TOP / "plugins" / "zoo_captions")
        captions_journey(environment, captions)
        more = [
            build_wheel(Path(folder) / package, TOP / "plugins" / package)
            for package in ("zoo_everyday", "zoo_tasks")
        ]
        environment.install(f"{wheel}[all]", *map(str, more))
        skipped = run_pages(environment)
        remove_captions(environment)
        minutes = (time.monotonic() - start) / 60
        assert scores["exact_match"] > 95, scores
        head = HEAD.format(example=EXAMPLE.relative_to(TOP))
        ran = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
        transcript = "\n\n".join(environment.transcript)
        folders = {str(environment.folder): "CLEAN", str(TOP): "CLONE", str(Path.home()): "~"}
        folders |= {os.environ[name]: f"${name}" for name in ("ZOO_DATA",) if os.environ.get(name)}
        for path, name in folders.items():
            transcript = transcript.replace(path, name)
        text = "\n".join(line.rstrip() for line in transcript.splitlines())
        day = datetime.date.today().isoformat()
        page = f"{head}\n{ran}, {day}; {minutes:.1f} minutes.\n\n{FENCE}console\n{text}\n{FENCE}\n"
        page += "\nNot run one by one:\n\n"
        page += "".join(f"- `{line}`: {reason}\n" for line, reason in skipped.items())
        PAGE.write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
