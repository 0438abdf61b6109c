"""The figures of the documentation: current, legible, and the same for the same numbers."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs import charts
from zoo.training.curve import smoothed
from zoo.translation.attention import printable, sentence, spelled

TOP = Path(__file__).parents[1]
FIGURES = (TOP / "docs/zoo-multi30k-en-de.svg", TOP / "docs/attention.svg",
           TOP / "benchmarks/growth.svg")  # fmt: skip


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.stem)
def test_a_figure_has_a_title_both_themes_and_no_stray_marks(figure: Path) -> None:
    text = figure.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.get("aria-label")
    assert "prefers-color-scheme:dark" in text
    assert "▁" not in text
    width = float(root.get("viewBox", "").split()[2])
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        length = 7.2 * len(element.text or "")
        assert float(element.get("x", 0)) <= width
        if element.get("text-anchor") is None and "transform" not in element.attrib:
            assert float(element.get("x", 0)) + length <= width + 8, element.text


def test_the_figure_of_lengths_shows_the_stored_scores() -> None:
    stored = json.loads((TOP / "cards" / "comparison.json").read_text(encoding="utf-8"))
    text = (TOP / "docs" / "zoo-multi30k-en-de.svg").read_text(encoding="utf-8")
    lines = re.findall(r'<polyline class="line c(\d)" points="([^"]+)"', text)
    models = [name for name in stored if name.endswith(".multi30k-en-de")]
    assert len(lines) == len(models)
    for (_, points), name in zip(lines, models, strict=True):
        heights = [float(point.split(",")[1]) for point in points.split()]
        scores = [score for _, score in stored[name]["by_length"].values()]
        base = charts.TOP + charts.HEIGHT
        scale = (base - heights[0]) / scores[0]
        assert [base - h for h in heights] == pytest.approx([scale * s for s in scores], abs=0.2)


def test_labels_at_the_ends_of_lines_do_not_overlap() -> None:
    curves = {"one": [1.0, 5.0], "two": [2.0, 5.1], "three": [3.0, 5.05]}
    text = charts.line_charts("T", [charts.Panel("t", "x", "y", [0, 1], ["a", "b"], curves)])
    heights = [float(y) for y in re.findall(r'<text class="f\d" x="[\d.]+" y="([\d.]+)"', text)]
    assert len(heights) == 3
    assert min(a - b for a, b in itertools.pairwise(heights)) >= 16
    assert text == charts.line_charts(
        "T", [charts.Panel("t", "x", "y", [0, 1], ["a", "b"], curves)]
    )


def test_tokens_are_shown_without_the_mark_of_words() -> None:
    assert spelled(["▁Two", "▁dog", "s", "▁", ".", "</s>"]) == [
        "Two", "dog", "·s", "␣", ".", "</s>"]  # fmt: skip
    assert spelled(["▁chat", "\u202f", "!"]) == ["chat", "␣", "!"]
    assert printable("chat\u202f!\x1b") == "chat\u202f!\\x1b"
    assert spelled(["a", "b", "</s>"]) == ["a", "b", "</s>"]
    assert sentence(["▁Two", "▁dog", "s"]) == "Two dogs"


def test_a_constant_loss_stays_constant_when_smoothed() -> None:
    assert smoothed([3.0] * 5) == pytest.approx([3.0] * 5)
    assert smoothed([1.0, 0.0]) == pytest.approx([1.0, 0.9 / 1.9])
