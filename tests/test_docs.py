"""The generated parts of the documentation are current."""

import importlib.util
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("docs_build", TOP / "docs" / "build.py")
assert spec is not None
assert spec.loader is not None
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


@pytest.mark.parametrize("page", sorted((TOP / "docs").rglob("*.md")), ids=lambda p: str(p.stem))
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert build.built(text) == text, "run `make docs`"
    assert text.count("<!-- generated: ") == text.count("<!-- end -->")


def test_both_parameter_tables_are_complete() -> None:
    text = build.side_by_side()
    for table in build.tables():
        assert f"**{table.total:,}**" in text
        for row in table:
            assert f"`{row.symbol}` | {row.formula} | {row.count:,}" in text
