"""What `zoo eval` warns of, besides the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.cli.output import say
from zoo.data.datasets import Item
from zoo.errors import PluginError
from zoo.registry.declarations import Dataset

if TYPE_CHECKING:
    from zoo.evaluation.metrics import Scores
    from zoo.translation.translator import Translator


def of_data(
    translators: list[Translator], dataset: Dataset, split: str, items: Sequence[Item]
) -> list[str]:
    """Return warnings if the data is of other languages than checkpoints, or the first's own."""
    from zoo.translation import languages

    return languages.of_data([each.checkpoint for each in translators], dataset, split, items)


def warn(
    problems: Sequence[str], texts: Sequence[str], items: Sequence[Item], scores: Scores
) -> None:
    """Print the problems of metrics, each once, and what makes the scores misleading.

    Raises:
        PluginError: none of the metrics could be computed.
    """
    from zoo.evaluation.notes import of_texts

    for problem in dict.fromkeys([*problems, *scores.problems]):
        say(f"Warning: {problem}")
    if not scores.by_name:
        raise PluginError("no score: no metric that --metric names can be computed")
    for note in of_texts(texts, items, scores):
        say(f"Warning: {note}")
