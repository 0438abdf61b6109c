"""The notebooks of the site run, and print what is stored in them."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("docs_notebooks", DOCS / "notebooks.py")
assert spec is not None
assert spec.loader is not None
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)


@pytest.mark.parametrize("name", ["first-steps", "own-data", "attention", "plugin"])
def test_a_notebook_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    notebook = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    try:
        done = notebooks.run(notebook, name)
    finally:
        sys.modules.pop("zoo_bag", None)
    for stored, ran in zip(notebook["cells"], done["cells"], strict=True):
        if stored["cell_type"] == "code" and "varies" not in stored["metadata"].get("tags", []):
            assert ran["outputs"] == stored["outputs"], "run `make notebooks`"
    assert {file.stem for file in (DOCS / "notebooks").glob("*.ipynb")} == {
        "first-steps", "own-data", "attention", "plugin",
    }  # fmt: skip
