"""The languages that a checkpoint reads and writes, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.source_words import folded, words_in
from zoo.data.datasets import Item
from zoo.data.languages import find_language, is_language, named_language, same_language
from zoo.errors import DecodingError
from zoo.registry.declarations import Dataset

COMPARED = 500
"""The first items of data whose words are compared with those of a checkpoint's training."""

FEWEST = 20
"""The fewest words of a side that show anything."""

MOST_KNOWN = 0.5
"""The part of the targets' words that is known where they are in the language of the sources.

English captions have 87 to 99% of the words of English sentences, French or German ones 12 to 23%.
"""


def choose(checkpoint: Checkpoint, source: str, target: str) -> Checkpoint:
    """Return a checkpoint whose tokenizers choose these languages; an empty one is the default.

    Raises:
        DecodingError: a language is not one of the checkpoint's, or is ambiguous.
    """
    reads, writes = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    if source:
        if reads.tags and reads.tags_of == "source":
            reads = reads.for_language(find_language(source, reads.tags))
        else:
            _check_only(source, checkpoint.about.source_languages, "reads")
    if target:
        if writes.tags and writes.tags_of == "target":
            writes = writes.for_language(find_language(target, writes.tags))
        elif reads.tags and reads.tags_of == "target":
            reads = reads.for_language(find_language(target, reads.tags))
        else:
            _check_only(target, checkpoint.about.target_languages, "writes")
    about = replace(
        checkpoint.about,
        source_languages=_first(source, checkpoint.about.source_languages),
        target_languages=_first(target, checkpoint.about.target_languages),
    )
    return replace(checkpoint, source_tokenizer=reads, target_tokenizer=writes, about=about)


def languages_of(checkpoint: Checkpoint, languages: tuple[str, str]) -> tuple[str, str]:
    """Return the languages of data to choose; empty ones if a checkpoint has no tags to choose by.

    Nor is there a choice if a name of data is no language and no tag, such as `src`.
    """
    sides = (checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    named = all(
        named_language(code) or any(code in side.tags for side in sides) for code in languages
    )
    return languages if named and any(side.tags for side in sides) else ("", "")


def _first(given: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes with the chosen language first, if it is among them."""
    code = find_language(given, codes) if given else ""
    return (code, *(other for other in codes if other != code)) if code in codes else codes


def _check_only(given: str, languages: Sequence[str], does: str) -> None:
    """Check a choice where there is none.

    Raises:
        DecodingError: it is another language, or is ambiguous.
    """
    if find_language(given, languages) not in languages:
        known = ", ".join(languages) or "one language, which is not recorded"
        raise DecodingError(
            f"no language {given!r} can be chosen", f"the checkpoint {does} {known}"
        )


def of_data(
    checkpoints: Sequence[Checkpoint], dataset: Dataset, split: str, items: Sequence[Item]
) -> list[str]:
    """Return warnings if data is of other languages than checkpoints, or the first one's own."""
    languages = dataset.languages
    warnings = [text for each in checkpoints for text in other_languages(each, languages, items)]
    data = checkpoints[0].about.data
    if dataset.name == data and split in ("all", "train"):
        splits = dataset.splits if split == "all" else ()
        held_out = "validation" in splits and any(True for _ in dataset.stream("validation"))
        which = "most" if held_out or split == "train" else "all"
        advice = ". Score the others with --split validation" if held_out else ""
        warnings.append(f"{data} is what it was trained on, on {which} pairs{advice}")
    return warnings


def other_languages(
    checkpoint: Checkpoint, languages: tuple[str, str], items: Sequence[Item]
) -> list[str]:
    """Return a warning if data is of other languages than a checkpoint translates, or nothing.

    Of several that tags choose, it translates the chosen ones.

    Args:
        checkpoint: the checkpoint.
        languages: what the data is called.
        items: the data, which may have its sources where the targets should be.
    """
    about = checkpoint.about
    sides = about.source_languages, about.target_languages
    if checkpoint.source_tokenizer.tags or checkpoint.target_tokenizer.tags:
        sides = about.source_languages[:1], about.target_languages[:1]
    known = all(sides) and all(map(is_language, languages))
    if not known or all(
        any(same_language(code, one) for one in side)
        for code, side in zip(languages, sides, strict=True)
    ):
        return _exchanged(checkpoint, items[:COMPARED])
    own, given = (" to ".join(pair) for pair in ([side[0] for side in sides], languages))
    return [f"{checkpoint.name}: it translates {own}, and the data is {given}"]


def _exchanged(checkpoint: Checkpoint, items: Sequence[Item]) -> list[str]:
    """Return a warning if the targets of items, not the sources, have the words of training."""
    if not checkpoint.words:
        return []
    sources = [word for item in items for word in words_in(item.source)]
    targets = [word for item in items for word in words_in(item.references[0])]
    if min(len(sources), len(targets)) < FEWEST:
        return []
    parts = [
        sum(folded(word) in checkpoint.words for word in words) / len(words)
        for words in (sources, targets)
    ]
    if parts[1] < MOST_KNOWN or parts[0] > parts[1] / 2:
        return []
    return [
        f"{checkpoint.name}: its training sources had {parts[1]:.0%} of the words of the targets, "
        f"and {parts[0]:.0%} of those of the sources: they may be exchanged. The source comes first"
    ]
