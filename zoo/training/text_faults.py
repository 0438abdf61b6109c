"""What is wrong with the pairs of a run: skipped or changed ones, copies, quotes of a table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from zoo.data.compressed import without_suffix
from zoo.data.tables import QUOTED
from zoo.errors import counted
from zoo.nn.contract import UNKNOWN
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


def faults_of_texts(plan: Plan, data: TrainingData) -> list[str]:
    """Return what is wrong with the pairs: skipped or changed ones, copies, or quotes of a table.

    But for the skipped ones, the first pairs are read.
    """
    if plan.config.features:
        return _skipped(plan, data)
    split = "all" if "all" in data.dataset.splits else "train"  # files are not read to their end
    pairs = list(itertools.islice(data.dataset.stream(split, plan.limit), FEW_PAIRS))
    files, warnings = data.dataset.files, _skipped(plan, data)
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
            f"'{target}' becomes '{text}'. Set tokenizer = byte, which keeps every character"
        )
    copies = sum(pair.source == text for pair, text in zip(pairs, written, strict=True))
    if copies > MUCH_COPIED * len(pairs):
        warnings.append(
            f"{copies:,} of the first {counted(len(pairs), 'target')} are copies of their sources: "
            "the model will learn to copy. Check that source and target are of two languages"
        )
    return warnings


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
