"""The snippets of the contract's page run."""

from pathlib import Path

import pytest

from tests.external_plugins.test_pages import Snippet, snippets


@pytest.mark.parametrize("number", range(sum(s.kind == "python" for s in snippets("contract"))))
def test_a_snippet_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[Snippet] = [s for s in snippets("contract") if s.kind == "python"]
    monkeypatch.chdir(tmp_path)
    exec(compile(chosen[number].text, f"snippet {number}", "exec"), {"__name__": "snippet"})


def test_all_snippets_are_python() -> None:
    assert {snippet.kind for snippet in snippets("contract")} == {"python"}
