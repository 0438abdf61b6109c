"""The commands of the README and of the site's first pages, run as pasted from installed wheels.

Commands that cannot run here are skipped for the reasons in `SKIPPED`; training ends after three
updates. What a page shows below a command must be printed by it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.external_plugins.journey import TOP, Environment

PAGES = (
    "README.md", "docs/index.md", "docs/install.md", "docs/zoo.md", "docs/decoding.md",
    "docs/evaluating.md", "docs/export.md", "docs/serving.md", "docs/troubleshooting.md",
)  # fmt: skip
SKIPPED = {
    r"python3 -m venv|\. \.venv|pip ": "this program makes the environment",
    r"make |\.venv/bin/python -m pytest": "runs in a clone",
    r"zoo (push|pull) |zoo translate hf://": "needs the Hub; tests/hub has a server",
    r"zoo data get ": "downloads files; tests/core/test_downloads.py has a server",
    r"zoo (import|card) FOLDER": "FOLDER is yours; tests/interop has folders of every format",
    r"zoo plugins statespace": "the plugin's journey is tested apart",
    r"ZOO_PLUGINS=gated|python -X importtime": "about a plugin that its reader is writing",
    r"zoo serve|curl |zoo watch": "runs until it is stopped: `serving` below",
}
"""Commands, by how they begin, that are not run one by one, and why."""
CAPTIONS = {
    "runs/captions": "transformer-tiny.multi30k-en-de",
    "runs/other": "transformer-tiny.multi30k-en-de",
}
"""Released checkpoints in the place of those that a reader has trained for half an hour."""
TEXTS = {
    "en": "Two dogs are playing.\nA man walks.\n",
    "de": "Zwei Hunde spielen.\nEin Mann geht.\n",
}


@dataclass(frozen=True)
class Pasted:
    """A command of a page, and the lines that the page shows below it."""

    page: str
    line: str
    shown: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why it is not run; empty if it is."""
        reasons = [why for start, why in SKIPPED.items() if re.match(start, self.line)]
        if not reasons and "multi30k" in self.line and "--data" in self.line:
            return "" if os.environ.get("ZOO_DATA") else "needs the corpora in ZOO_DATA"
        return reasons[0] if reasons else ""


def pasted(page: str) -> list[Pasted]:
    """Return the shell commands of a page in order."""
    text = (TOP / page).read_text(encoding="utf-8")
    commands = []
    for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        lines = block.replace("\\\n", " ").splitlines()
        if kind == "sh":
            commands += [Pasted(page, line.strip()) for line in lines if line.strip()]
            continue
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            shown = [line.rstrip() for line in lines[start + 1 : end] if line.strip() not in "…"]
            commands.append(Pasted(page, lines[start][2:], tuple(shown)))
    return commands


def python_of(page: str) -> str:
    """Return the Python of a page, without tests of plugins; its training ends after three updates.

    The tests are those of `zoo new-plugin`, which pytest runs (`test_new_plugin.py`).
    """
    text = (TOP / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    program = "\n".join(block for block in blocks if "zoo.testing" not in block)
    return program.replace('out="runs/numbers")', 'out="runs/numbers", steps=3)')


def prepare(environment: Environment) -> None:
    """Write what the commands read: text files, and checkpoints of the caption package."""
    for name in ("captions", "corpus", "texts", "training/corpus"):
        for language, text in TEXTS.items():
            file = environment.folder / f"{name}.{language}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text * 20, encoding="utf-8")
    numbers = "twenty-one\nfour hundred and five\n" * 20
    (environment.folder / "numbers.en").write_text(numbers, encoding="utf-8")
    listed = json.loads(environment.run("zoo", "list", "checkpoints", "--json"))["checkpoints"]
    folders = {row["name"]: row["location"] for row in listed}
    for folder, name in CAPTIONS.items():
        shutil.copytree(folders[name], environment.folder / folder)


def run_pages(environment: Environment) -> dict[str, str]:
    """Run the commands of all pages; return those that were skipped, with the reasons."""
    prepare(environment)
    skipped = {}
    for command in (each for page in PAGES for each in pasted(page)):
        if command.reason:
            skipped[command.line] = command.reason
            continue
        train = command.line.startswith("zoo train")
        line = re.sub(r"\s+#.*", "", command.line) + " --steps 3" * train
        printed = environment.shell(line, "training" if train else "")
        missing = [line for line in command.shown if line not in printed]
        assert not missing, (command, missing)
    (environment.folder / "python").mkdir()
    environment.run("python", "-c", f"import os; os.chdir('python')\n{python_of('README.md')}")
    serving(environment)
    return skipped


def serving(environment: Environment) -> None:
    """Start the page's server, send its request, and stop it as Ctrl-C does."""
    lines = [command.line for command in pasted("docs/serving.md")]
    (request,) = (line for line in lines if line.startswith("curl "))
    command = [str(environment.folder / "bin" / "zoo"), "serve", "runs/captions"]
    server = subprocess.Popen(command, cwd=environment.folder, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        while not _answers("http://127.0.0.1:8000/healthz"):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(1)
        assert "Ein Mann" in environment.shell(request)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    import sys

    skipped = run_pages(Environment(Path(sys.argv[1]), ()))
    for line, reason in skipped.items():
        print(f"not run: {line}: {reason}")
