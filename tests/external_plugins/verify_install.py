"""`make verify-install`: test an external plugin in a new environment and record the commands.

Arguments are passed to pip, for instance another index. The transcript is written to
docs/verified.md.
"""

from __future__ import annotations

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
)

PAGE = TOP / "docs" / "verified.md"
HEAD = """# A verified clean installation

Written by `make verify-install`: the zoo's wheel and the example plugin `{example}`
are installed with all their dependencies into an empty environment. The plugin's model is trained,
scored and released, and the plugin is uninstalled. Then the wheel of the caption checkpoints is
installed. `tests/external_plugins/journey.py` checks the
exit code and the output of every command.
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
        minutes = (time.monotonic() - start) / 60
        assert scores["exact_match"] > 95, scores
        head = HEAD.format(example=EXAMPLE.relative_to(TOP))
        ran = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"
        transcript = "\n\n".join(environment.transcript)
        transcript = transcript.replace(str(environment.folder), "CLEAN")
        text = "\n".join(line.rstrip() for line in transcript.splitlines())
        page = f"{head}\n{ran}; {minutes:.1f} minutes.\n\n{FENCE}console\n{text}\n{FENCE}\n"
        PAGE.write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
