"""The snippets in docs/export.md run."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def test_snippets_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
                for line in block.splitlines()]  # fmt: skip
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(commands) == len(programs) == 2
    results = [run(*shlex.split(line)[1:]) for line in commands]
    assert [result.exit_code for result in results] == [0, 0], [r.output for r in results]
    assert (tmp_path / "numbers-int8" / "model.bin").is_file()
    assert results[1].output == "soixante-dix\n"
    for program in programs:
        exec(compile(program, "docs/export.md", "exec"), {})
    files, translation = capsys.readouterr().out.splitlines()
    assert "model.bin" in files
    assert translation == "quatre cent cinq"
