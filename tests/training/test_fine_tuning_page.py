"""The snippets of docs/fine-tuning.md run in order; their runs are shortened."""

import os
import re
import subprocess
from pathlib import Path

from tests.external_plugins.test_pages import snippets
from tests.forked import python, script

TOP = Path(__file__).parents[2]


def test_the_snippets_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "zoo", "-m", "zoo")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                   "PYTHONPATH": os.pathsep.join([str(TOP), str(TOP / "plugins")])}  # fmt: skip
    ran = 0
    for snippet in snippets("fine-tuning"):
        if snippet.kind not in ("sh", "python"):
            continue
        text = re.sub(r"^(zoo train .*)$", r"\1 --steps 3", snippet.text, flags=re.MULTILINE)
        shell = ["sh", "-ec", text] if snippet.kind == "sh" else [*python(), "-c", text]
        done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        ran += 1
    assert ran == 4


def test_the_table_of_the_page_is_that_of_the_benchmark() -> None:
    page = (TOP / "docs" / "fine-tuning.md").read_text(encoding="utf-8")
    printed = (TOP / "benchmarks" / "fine-tuning.md").read_text(encoding="utf-8")
    assert printed[printed.index("| checkpoint") :].strip() in page
