"""What is wrong with the pairs of a run.

Skipped or changed ones, copies, quotes of a table, damaged characters, lines that are no pairs.
"""

from __future__ import annotations

import contextlib
import itertools
import unicodedata
from collections.abc import Sequence

import numpy as np

from zoo.checkpoint.source_words import words_in
from zoo.data.compressed import without_suffix
from zoo.data.tables import QUOTED
from zoo.errors import counted
from zoo.nn.contract import UNKNOWN
from zoo.registry.declarations import Pair
from zoo.training.data import TrainingData
from zoo.training.plan import Plan

FEW_PAIRS = 1000
"""With fewer, a run warns; so many are read here."""
MUCH_SKIPPED = 0.1
"""The part of the pairs that are not trained on above which the user hears of it."""
MUCH_CHANGED = 0.1
"""The part of targets that a tokenizer does not keep above which the user hears of it."""
MUCH_COPIED = 0.9
"""The part of targets equal to their sources above which the user hears of it."""
FEW_QUOTED = 3
"""How many texts in quotes are no chance."""
MUCH_DAMAGED = 0.01
"""The part of the pairs with damaged characters above which the user hears of it."""
WINDOW = 1000
"""Pairs whose lengths are compared at once."""
FEW_COMPARED = 200
"""With fewer, the correlation of their lengths may be chance."""
ALIKE = 0.15
"""A standard deviation of lengths, as a part of their mean, below which they say little."""
UNRELATED = 0.1
"""A correlation of lengths that no translations have: those of captions have 0.87 and more, those
of short everyday sentences 0.61."""


KNOWN = 0.5
"""The part of the words of exchanged sides that the other side of the training pairs has."""


def faults_of_texts(plan: Plan, data: TrainingData) -> list[str]:
    """Return what is wrong with the pairs; but for their lengths, the first ones are read."""
    if plan.config.features:
        return _skipped(plan, data)
    split = "all" if "all" in data.dataset.splits else "train"  # files are not read to their end
    pairs = list(itertools.islice(data.dataset.stream(split, plan.limit), FEW_PAIRS))
    files, warnings = data.dataset.files, _skipped(plan, data) + _unrelated(data)
    warnings += _damaged(pairs)
    if plan.validation is not None:
        warnings += _exchanged(pairs, data.validation.pairs[:FEW_PAIRS])
    if any(without_suffix(file.name).lower().endswith(".tsv") for file in files):
        warnings += _quoted_cells([text for pair in pairs for text in pair])
    encoded = data.target_tokenizer.encode([pair.target for pair in pairs])
    written = [data.target_tokenizer.decode(ids) for ids in encoded]
    changed = [
        (pair.target, text)
        for pair, ids, text in zip(pairs, encoded, written, strict=True)
        if text != pair.target and UNKNOWN not in ids
    ]
    if len(changed) > MUCH_CHANGED * len(pairs) and not plan.parent:
        target, text = (ascii(each[:20])[1:-1] for each in changed[0])
        warnings.append(
            f"{len(changed):,} of the first {counted(len(pairs), 'target')} are learned otherwise: "
            f"'{target}' becomes '{text}'. {_how_to_keep(changed)}"
        )
    copies = sum(pair.source == text for pair, text in zip(pairs, written, strict=True))
    if copies > MUCH_COPIED * len(pairs):
        warnings.append(
            f"{copies:,} of the first {counted(len(pairs), 'target')} are copies of their sources: "
            "the model will learn to copy. Check that source and target are of two languages"
        )
    return warnings


def _how_to_keep(changed: Sequence[tuple[str, str]]) -> str:
    """Return what to do about targets that become other texts: little where they mean the same."""
    advice = "et tokenizer = byte, which keeps every character"
    if all(target.strip() == text.strip() for target, text in changed):
        return f"Leave out the spaces around texts, or s{advice}"
    if all(unicodedata.normalize("NFC", target) == text for target, text in changed):
        return f"Letters in parts are composed; if that matters, s{advice}"
    return f"S{advice}"


def _skipped(plan: Plan, data: TrainingData) -> list[str]:
    """Return a warning if many pairs are not trained on."""
    left, used = data.corpus.left_out, len(data.corpus)
    if left.long + left.empty <= MUCH_SKIPPED * (used + left.long + left.empty):
        return []
    limits = " and ".join(f"{limit:,}" for limit in dict.fromkeys(plan.length_limits))
    advice = "Check both sides"
    if left.long:
        own = plan.recipe.max_length in plan.length_limits
        more = ", or raise max_length" if own else ": the model reads no more"
        advice = f"A side may have {limits} tokens. Divide the texts{more}"
    return [f"{left.in_words()} of {used + left.long + left.empty:,} pairs are skipped. {advice}"]


def _quoted_cells(texts: Sequence[str]) -> list[str]:
    """Return a warning if all texts with a comma or a quote are in quotes, and several are."""
    special = [text for text in texts if "," in text or '"' in text]
    quoted = sum(QUOTED.fullmatch(text) is not None for text in special)
    if quoted < max(FEW_QUOTED, len(special)):
        return []
    return [
        f"{quoted:,} texts are in quotes, all that have a comma or a quote, as spreadsheets write "
        "them: the model will learn the quotes. Save the table as CSV in UTF-8, and name that file"
    ]


def _damaged(pairs: Sequence[Pair]) -> list[str]:
    """Return warnings of characters of another encoding, or that a program could not read."""
    warnings, least = [], max(FEW_QUOTED, MUCH_DAMAGED * len(pairs))
    texts = [f"{pair.source} {pair.target}" for pair in pairs]
    lost = sum("\ufffd" in text for text in texts)
    if lost > least:
        warnings.append(
            f"{lost:,} of the first {len(pairs):,} pairs have the character \ufffd, which programs "
            "write for what they cannot read: the model will learn it. Convert the original anew"
        )
    words = [word for text in texts if (word := next(filter(_meant, text.split()), ""))]
    if len(words) > least:
        warnings.append(
            f"{len(words):,} of the first {len(pairs):,} pairs have UTF-8 that was read as another "
            f"encoding, such as '{words[0][:20]}' for '{_meant(words[0])[:20]}': the model will "
            "learn it. Convert the original anew, or repair the text, as with the library ftfy"
        )
    return warnings


def _exchanged(pairs: Sequence[Pair], held_out: Sequence[Pair]) -> list[str]:
    """Return a warning if the sides of pairs to validate on have the words of the other sides."""
    trained, words = (
        [[w.casefold() for pair in each for w in words_in(pair[side])] for side in (0, 1)]
        for each in (pairs, held_out)
    )
    known = [*map(set, trained)]
    straight, crossed = (
        sum(word in known[side ^ other] for side in (0, 1) for word in words[side])
        for other in (0, 1)
    )
    if crossed <= max(2 * straight, KNOWN * sum(map(len, words))):
        return []
    return [
        "the sources to validate on have the words of the targets to train on: the two sides may "
        "be exchanged. The source comes first"
    ]


def _meant(word: str) -> str:
    """Return a word as it was before its UTF-8 was read as of Windows; empty if it was not."""
    for encoding in () if word.isascii() else ("cp1252", "latin-1"):
        with contextlib.suppress(UnicodeError):
            return word.encode(encoding).decode("utf-8")
    return ""


def _unrelated(data: TrainingData) -> list[str]:
    """Return a warning if the lengths of many translations have nothing to do with their sources'.

    Lengths that hardly differ, as in files that are sorted by them, say nothing.
    """
    if not all(data.dataset.languages):
        return []
    sides = [side.lengths.numpy() for side in (data.corpus.source, data.corpus.target)]
    windows = []
    for start in range(0, len(sides[0]) - FEW_COMPARED + 1, WINDOW):
        both = np.stack([side[start : start + WINDOW] for side in sides])
        differ = both.std(1) > ALIKE * both.mean(1)
        if differ.all() and np.corrcoef(both)[0, 1] < UNRELATED:
            windows.append(start)
    if not windows:
        return []
    first = f"{windows[0] + 1:,} to {min(windows[0] + WINDOW, len(sides[0])):,}"
    more = f", and in {counted(len(windows) - 1, 'further thousand')}" if windows[1:] else ""
    return [
        f"long sources do not have long translations in the pairs {first}{more}: a source and the "
        "target beside it may be no pair. Look for a line that is missing on one side"
    ]
