"""What whoever reads scores should know of the texts that were scored."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from zoo.data.datasets import Item
from zoo.data.statistics import mostly_unspaced
from zoo.errors import counted
from zoo.evaluation.labels import metric_label
from zoo.evaluation.metrics import Scores

MUCH_REPEATED = 0.1
"""The part of pairs with a source that has several targets, above which the user hears of it."""

TOKENIZED = 100
"""Translations that end in ` .` look tokenized from this count on, as for sacreBLEU."""


def of_texts(texts: Sequence[str], items: Sequence[Item], scores: Scores) -> Iterator[str]:
    """Yield what makes scores misleading: pairs to leave out, and metrics that do not suit."""
    if empty := sum(not all(map(str.strip, (item.source, *item.references))) for item in items):
        of, count, them = ("has", "counts", "it") if empty == 1 else ("have", "count", "them")
        yield (
            f"{counted(empty, 'pair')} of {len(items):,} {of} an empty source or reference, and "
            f"{count} in the scores. Leave {them} out"
        )
    different = {item for item in items if item.source.strip()}
    repeated = len(different) - len({item.source for item in different})
    if repeated > MUCH_REPEATED * len(items):
        yield (
            f"{repeated:,} of {len(items):,} pairs have the source of another and a different "
            "target, of which one counts as wrong. Score them as references of one source, as "
            "zoo eval --several-references does"
        )
    yield from _other_form(texts, items, scores)
    if "exact_match" in scores.by_name and (spaced := sum(map(_other_space, texts, items))):
        yield (
            f"{spaced:,} of {counted(len(items), 'translation')} would be exact but for white "
            "space, such as a no-break space in place of a space"
        )
    if sum(text.endswith(" .") for text in texts) >= TOKENIZED:
        yield "the translations look tokenized (they end in ` .`); BLEU expects plain text"
    counting = [metric_label(name) for name in ("bleu", "ter") if name in scores.by_name]
    if counting and mostly_unspaced([text for item in items for text in item.references]):
        yield (
            f"{' and '.join(counting)} count words between spaces, and the references have hardly "
            "any spaces. Compare chrF, or score what --out writes with `sacrebleu --tokenize`"
        )
    elif "bleu" in scores.by_name and not scores.bleu and all(len(t.split()) < 4 for t in texts):
        yield "BLEU is 0, as no translation has four words. Compare chrF or --bleu-order 1"


def _other_form(texts: Sequence[str], items: Sequence[Item], scores: Scores) -> Iterator[str]:
    """Yield a warning if sacreBLEU's metrics read other characters for the same letters."""
    of_items = sum(not all(map(_composed, item.references)) for item in items)
    names = [metric_label(name) for name in ("bleu", "chrf", "ter") if name in scores.by_name]
    if of_items and names and all(map(_composed, texts)):
        have = "reference has" if of_items == 1 else "references have"
        yield (
            f"{of_items:,} of {len(items):,} {have} letters in parts (é as e and ´), and no "
            f"translation has: {', '.join(names)} count them as different. Compose them, such as "
            "by uconv -x NFC"
        )


def _other_space(text: str, item: Item) -> bool:
    """Return whether a text differs from its references, and from one only in white space."""
    forms = [unicodedata.normalize("NFC", each).strip() for each in (text, *item.references)]
    words = [form.split() for form in forms]
    return forms[0] not in forms[1:] and words[0] in words[1:]


def _composed(text: str) -> bool:
    """Return whether a text is in Unicode's form NFC."""
    return unicodedata.is_normalized("NFC", text)
