"""The built-in tasks in one dataset: each source begins with the tag of its task.

A tag in the source is how one network learns several tasks without a change of its architecture
(Johnson et al. 2017, section 3, for languages). The pairs and the splits are those of the datasets
that it joins, so no test source of one of them is trained on here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from zoo import Pair
from zoo_corpora import dates
from zoo_corpora.corpora import multi30k, tatoeba_76k
from zoo_corpora.generated import numbers
from zoo_corpora.pronunciation import pronunciations

Read = Callable[[str, int | None], Iterable[Pair]]

TASKS: dict[str, tuple[tuple[str, str], tuple[Read, ...]]] = {
    "numbers: ": (("en", "fr"), (numbers,)),
    "date: ": (("", ""), (dates.multilingual,)),
    "phones: ": (("en", ""), (pronunciations,)),
    "en-fr: ": (("en", "fr"), (partial(tatoeba_76k, False), partial(multi30k, "en", "fr"))),
    "fr-en: ": (("fr", "en"), (partial(tatoeba_76k, True),)),
    "en-de: ": (("en", "de"), (partial(multi30k, "en", "de"),)),
    "de-en: ": (("de", "en"), (partial(multi30k, "de", "en"),)),
}
"""The languages of each task, and what is read for it, by the tag with which its sources begin."""

LANGUAGES = {tag: languages for tag, (languages, _) in TASKS.items()}
"""Those of each task."""

MOST = {"train": 150_000, "validation": 200, "test": 1_000}
"""The most pairs of one dataset in a split."""

GENERATED = 30_000
"""The most training pairs of a generated dataset, of which there could be any number."""


def tasks(split: str, limit: int | None) -> Iterator[Pair]:
    """Yield a pair of each dataset in turn, so that the first ones are of every task."""
    streams = [
        _pairs(tag, read, split, limit) for tag, (_, reads) in TASKS.items() for read in reads
    ]
    rounds = itertools.zip_longest(*streams)
    return (pair for pairs in rounds for pair in pairs if pair is not None)


def _pairs(tag: str, read: Read, split: str, limit: int | None) -> Iterator[Pair]:
    most = min(MOST[split], GENERATED) if tag in ("numbers: ", "date: ") else MOST[split]
    for source, target in itertools.islice(read(split, limit), most):
        yield Pair(tag + source, target)
