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


def test_the_page_on_speed_says_where_others_are_faster() -> None:
    page = " ".join((TOP / "docs" / "speed.md").read_text(encoding="utf-8").split())
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in build.speed().splitlines()
    ]
    behind = {
        name: [row[0] for row in rows if row[at] and float(row[at].split()[0]) < 1]
        for at, name in enumerate(head)
        if at and "LSTM" not in name
    }
    assert len(behind["one by one, float32"]) == len(rows)
    assert len(behind["one by one, int8"]) == 3
    assert "in float32 on all of these processors, in int8 on three." in page
    for name in ("batches, float32", "batches, int8"):
        assert behind[name] == ["AMD EPYC, Zen 3 (AVX2 alone)"]
    assert "On Zen 3 it is ahead in some batches too, in float32 and in int8." in page
