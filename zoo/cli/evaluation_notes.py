"""What `zoo eval` warns of, besides the scores."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.cli.output import say
from zoo.data.datasets import Item
from zoo.data.statistics import mostly_unspaced
from zoo.errors import PluginError, counted
from zoo.evaluation.labels import metric_label
from zoo.registry.declarations import Dataset

if TYPE_CHECKING:
    from zoo.evaluation.metrics import Scores
    from zoo.translation.translator import Translator

MUCH_REPEATED = 0.1
"""The part of pairs with a source that has several targets, above which the user hears of it."""

TOKENIZED = 100
"""Translations that end in ` .` look tokenized from this count on, as for sacreBLEU."""


def of_data(
    translators: list[Translator], dataset: Dataset, split: str, items: Sequence[Item]
) -> list[str]:
    """Return warnings if the data is of other languages than checkpoints, or the first's own."""
    from zoo.translation.languages import other_languages

    checkpoints, given = [each.checkpoint for each in translators], (dataset.languages, items)
    warnings = [warning for each in checkpoints for warning in other_languages(each, *given)]
    data = translators[0].checkpoint.about.data
    if dataset.name == data and split in ("all", "train"):
        splits = dataset.splits if split == "all" else ()
        held_out = "validation" in splits and any(True for _ in dataset.stream("validation"))
        which = "most" if held_out or split == "train" else "all"
        advice = ". Score the others with --split validation" if held_out else ""
        warnings.append(f"{data} is what it was trained on, on {which} pairs{advice}")
    return warnings


def warn(
    problems: Sequence[str], texts: Sequence[str], items: Sequence[Item], scores: Scores
) -> None:
    """Print the problems of metrics, each once, and whether BLEU does not suit the texts.

    Raises:
        PluginError: none of the metrics could be computed.
    """
    for problem in dict.fromkeys([*problems, *scores.problems]):
        say(f"Warning: {problem}")
    if not scores.by_name:
        raise PluginError("no score: no metric that --metric names can be computed")
    if empty := sum(not all(map(str.strip, (item.source, *item.references))) for item in items):
        of, count, them = ("has", "counts", "it") if empty == 1 else ("have", "count", "them")
        say(
            f"Warning: {counted(empty, 'pair')} of {len(items):,} {of} an empty source or "
            f"reference, and {count} in the scores. Leave {them} out"
        )
    different = {item for item in items if item.source.strip()}
    repeated = len(different) - len({item.source for item in different})
    if repeated > MUCH_REPEATED * len(items):
        say(
            f"Note: {repeated:,} of {len(items):,} pairs have the source of another and a "
            "different target, of which one counts as wrong: --several-references scores both"
        )
    if warning := _other_form(texts, items, scores):
        say(warning)
    if "exact_match" in scores.by_name and (spaced := sum(map(_other_space, texts, items))):
        say(
            f"Note: {spaced:,} of {counted(len(items), 'translation')} would be exact but for "
            "white space, such as a no-break space in place of a space"
        )
    if sum(text.endswith(" .") for text in texts) >= TOKENIZED:
        say("Warning: the translations look tokenized (they end in ` .`); BLEU expects plain text")
    counting = [metric_label(name) for name in ("bleu", "ter") if name in scores.by_name]
    if counting and mostly_unspaced([text for item in items for text in item.references]):
        say(
            f"Warning: {' and '.join(counting)} count words between spaces, and the references "
            "have hardly any spaces. Compare chrF, or score what --out writes with "
            "`sacrebleu --tokenize`"
        )
    elif "bleu" in scores.by_name and not scores.bleu and all(len(t.split()) < 4 for t in texts):
        say("Warning: BLEU is 0, as no translation has four words. Compare chrF or --bleu-order 1")


def _other_form(texts: Sequence[str], items: Sequence[Item], scores: Scores) -> str:
    """Return a warning if sacreBLEU's metrics read other characters for the same letters."""
    of_items = sum(not all(map(_composed, item.references)) for item in items)
    names = [metric_label(name) for name in ("bleu", "chrf", "ter") if name in scores.by_name]
    if not (of_items and names and all(map(_composed, texts))):
        return ""
    have = "reference has" if of_items == 1 else "references have"
    return (
        f"Warning: {of_items:,} of {len(items):,} {have} letters in parts (é as e and ´), and no "
        f"translation has: {', '.join(names)} count them as different. Compose them, such as by "
        "uconv -x NFC"
    )


def _other_space(text: str, item: Item) -> bool:
    """Return whether a text differs from its references, and from one only in white space."""
    forms = [unicodedata.normalize("NFC", each).strip() for each in (text, *item.references)]
    words = [form.split() for form in forms]
    return forms[0] not in forms[1:] and words[0] in words[1:]


def _composed(text: str) -> bool:
    """Return whether a text is in Unicode's form NFC."""
    return unicodedata.is_normalized("NFC", text)
