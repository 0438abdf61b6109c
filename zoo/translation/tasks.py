"""The tasks of a checkpoint of several: each source begins with the tag of its task."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from zoo.checkpoint.checkpoint import Checkpoint


def leading_task(text: str, tasks: Iterable[str]) -> tuple[str, str]:
    """Return the tag with which a text begins, as typed and as a checkpoint knows it, or nothing.

    It may be typed in capitals, after white space, and without the white space at its end.
    """
    match = _expression(tuple(tasks)).match(text)
    if match is None or match.lastindex is None:
        return "", ""
    return match[0], _longest_first(tasks)[match.lastindex - 1]


def without_tags(text: str, tag: str, leading: Callable[[str], tuple[str, str]]) -> str:
    """Return a text without a tag at the beginning of lines after the first.

    Args:
        text: what follows the tag that it begins with.
        tag: that tag, as it is read.
        leading: returns the tag that a line begins with, as typed and as it is read.
    """
    first, *lines = text.splitlines(keepends=True) or [""]

    def without(line: str) -> str:
        typed, other = leading(line)
        return line[len(typed) :] if other == tag and len(typed) < len(line) else line

    return "".join([first, *map(without, lines)])


@functools.lru_cache(maxsize=16)
def _expression(tasks: tuple[str, ...]) -> re.Pattern[str]:
    """Return an expression with a group for each tag, the longest first."""
    groups = []
    for tag in map(str.strip, _longest_first(tasks)):
        words = r"\s+".join(map(re.escape, tag.split()))
        groups.append(f"({words})" + (r"(?!\w)" if tag[-1].isalnum() else ""))
    return re.compile(rf"\s*(?:{'|'.join(groups)})\s*", re.IGNORECASE)


def _longest_first(tasks: Iterable[str]) -> list[str]:
    return sorted(tasks, key=len, reverse=True)


def for_task(checkpoint: Checkpoint, tag: str, languages: tuple[str, ...]) -> Checkpoint:
    """Return a checkpoint that knows the languages of one of its tasks."""
    source, target = ((language,) if language else () for language in languages)
    about = replace(
        checkpoint.about,
        source_languages=source,
        target_languages=target,
        tasks={tag: languages},
        single_words=tag in checkpoint.about.single_word_tasks,
        lower_case=tag in checkpoint.about.lower_case_tasks,
    )
    return replace(checkpoint, about=about)
