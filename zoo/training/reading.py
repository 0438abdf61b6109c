"""What a checkpoint learns from its training text besides weights: how texts are read and end."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from zoo.checkpoint.about import DECODING_LIMITS, About
from zoo.checkpoint.source_words import list_words, words_of_both
from zoo.data.statistics import mostly_unspaced
from zoo.decoding.task import target_limits
from zoo.nn.contract import UNKNOWN
from zoo.registry.registry import Registry
from zoo.training.data import TrainingData, length_of_nearly_all
from zoo.translation.respelling import Respeller
from zoo.translation.scripts import without_stop
from zoo.translation.sentences import SPLITTER, language_code, make_splitter, split_sentences
from zoo.translation.spelling import APOSTROPHE, is_wordless
from zoo.translation.tasks import leading_task
from zoo.translation.white_space import SEVERAL_SPACES, as_read

READ = 1_000
"""About this many training sources, evenly spaced, show how sources are read."""

MOST_READ = 500_000
"""The most of them whose words are listed, evenly spaced."""

MANY_CHANGED = 0.1
"""The part of them in another spelling above which all are read as they are.

A corpus with headlines in capitals has fewer; the letters of 14% of chemical formulas would change.
"""

MANY_SPACED = 0.01
"""The part of texts in no language, with white space or a comma to keep, above which it is kept.

Such texts may be programs; without any, a network does not know what they mean.
"""

MANY_WORDLESS = 0.2
"""The part of them without a letter above which all are read as they are."""

FEW_CHANGED = 2
"""Up to so many may be chance."""

WITH_UNKNOWN = re.compile(r"⁇\S*")
"""What is left of a word with an unknown token, from that on."""

ENOUGH = 20
"""So many texts in small letters, and none with a capital, are no chance."""

LONGEST_WORD = 12
"""The most characters of a usual word in a script without spaces."""

MANY_SENTENCES = 0.1
"""The part of texts in such a script that are sentences, above which they are no single words."""

MANY_CUT = 0.001
"""The part of the training targets over the default maximum length that raises it."""

MANY_DIVIDED = 0.5
"""The part of them that have several sentences above which all are read whole."""


def about_of(data: TrainingData, registry: Registry) -> About:
    """Return what a checkpoint that is trained on this data says about itself."""
    about = replace(About.of_dataset(data.dataset), trained_length=data.trained_length)
    return replace(with_reading(about, data, registry), decoding=longer_targets(data))


def longer_targets(data: TrainingData) -> dict[str, int]:
    """Return a maximum length to recommend where the default one would cut targets of training.

    That is a multiple of the source's length: a number of six digits has twelve words.
    """
    lengths = data.corpus.target.lengths - 1  # the begin token is not counted
    longest = length_of_nearly_all(lengths.numpy())
    cut = lengths > target_limits(data.corpus.source.lengths, None)
    if float(cut.float().mean()) <= MANY_CUT:
        return {}
    return {"max_length": min(longest + longest // 2, DECODING_LIMITS["max_length"])}


def with_reading(about: About, data: TrainingData, registry: Registry) -> About:
    """Return a description that has the languages with how texts are read, as its data shows."""
    texts = _some_sources(data, READ) if data.trained_length else []
    of_tasks = by_task(texts, data.dataset.tasks)
    return replace(
        about,
        single_words=are_single_words(texts),
        reads_whole=bool(texts) and _reads_whole(data, about, registry, texts),
        single_word_tasks=tuple(tag for tag, own in of_tasks.items() if are_single_words(own)),
        lower_case=are_lower_case(texts),
        lower_case_tasks=tuple(tag for tag, own in of_tasks.items() if are_lower_case(own)),
    )


def source_words(
    data: TrainingData, about: About, before: frozenset[str] | None = None
) -> frozenset[str]:
    """Return the words of the training sources; none where they say nothing, or are no text.

    Sources of tasks that read single words are left out: what sentences have is not learned there.
    `before` are the words of the checkpoint that is tuned, none if they are not known.
    """
    texts = _some_sources(data, MOST_READ, whole=False) if data.trained_length else []
    tags = set(about.single_word_tasks)
    of_text = (text for text in texts if leading_task(text, tags)[1] not in tags)
    words = list_words((WITH_UNKNOWN.sub(" ", text) for text in of_text), before or frozenset())
    return words if before is None else words_of_both(before, words)


def by_task(texts: Sequence[str], tasks: Collection[str]) -> dict[str, list[str]]:
    """Return the sources of each task, without its tag."""
    sources: dict[str, list[str]] = {tag: [] for tag in tasks}
    for text in texts if tasks else ():
        typed, tag = leading_task(text, tasks)
        if tag:
            sources[tag].append(text[len(typed) :])
    return sources


def are_single_words(texts: Sequence[str]) -> bool:
    """Return whether each of some texts is a word, or nothing.

    In scripts without spaces, sentences have none either; but many end with a mark, or are long.
    """
    if not texts or any(len(text.split()) > 1 for text in texts):
        return False
    sentences = sum(without_stop(text) != text or len(text) > LONGEST_WORD for text in texts)
    return not (mostly_unspaced(texts) and sentences > MANY_SENTENCES * len(texts))


def are_lower_case(texts: Sequence[str]) -> bool:
    """Return whether most of many texts have small letters, and none a capital."""
    small = sum(map(str.islower, texts))
    enough = small >= ENOUGH and 2 * small >= len(texts)
    return enough and all(text == text.lower() for text in texts)


def _reads_whole(
    data: TrainingData, about: About, registry: Registry, texts: Sequence[str]
) -> bool:
    """Return whether a trained checkpoint should read its sources whole and as they are.

    Texts are split into sentences, read in the usual spelling, and copied if they have no letter,
    because people type what the texts of training do not have. Where the texts of training are of
    that kind (documents, formulas, codes, numbers), nothing of this is done.
    """
    if data.dataset.tasks:
        return False
    many_changed, many_spaced, many_wordless, many_divided = (
        max(part * len(texts), FEW_CHANGED)
        for part in (MANY_CHANGED, MANY_SPACED, MANY_WORDLESS, MANY_DIVIDED)
    )
    translates = about.source_languages and about.target_languages
    if translates and sum(map(is_wordless, texts)) > many_wordless:
        return True
    if not language_code(about.source_languages) and sum(map(_has_layout, texts)) > many_spaced:
        return True
    return (
        _respelled(data, about, texts) > many_changed
        or _divided(about, texts, registry) > many_divided
    )


def _has_layout(text: str) -> bool:
    """Return whether a text has white space, or a mark at its end, that would not be read."""
    return as_read(text, SEVERAL_SPACES) != text


def _some_sources(data: TrainingData, count: int, *, whole: bool = True) -> list[str]:
    """Return about so many training sources, evenly spaced; if whole, without unknown tokens."""
    source, tokenizer = data.corpus.source, data.source_tokenizer
    step = max(len(source) // count, 1)
    rows = [
        source.tokens[source.starts[i] : source.starts[i + 1]].tolist()
        for i in range(0, len(source), step)
    ]
    return [tokenizer.decode(row) for row in rows if not (whole and UNKNOWN in row)]


def _respelled(data: TrainingData, about: About, texts: Sequence[str]) -> int:
    """Return how many texts would be read in another spelling, apostrophes aside."""
    tokenizer = data.source_tokenizer
    plain = [APOSTROPHE.sub("'", text) for text in texts]

    def tokenize(some: Sequence[str]) -> list[tuple[list[int], ...]]:
        return [(ids,) for ids in tokenizer.encode(some)]

    return len(Respeller(tokenizer, about, tokenize).spellings(plain, tokenize(plain)))


def _divided(about: About, texts: Sequence[str], registry: Registry) -> int:
    """Return how many texts would be split, or lose the mark of a list."""
    if not language_code(about.source_languages):
        return 0
    split = make_splitter(SPLITTER, about.source_languages[0], registry)
    pieces = [split_sentences(text, split) for text in texts]
    return sum(
        [piece.text for piece in of_text] != [text.strip()]
        for of_text, text in zip(pieces, texts, strict=True)
    )
