"""What `zoo translate` says of its translations, besides them; imported with torch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from zoo.cli.output import say
from zoo.errors import counted
from zoo.translation.tasks import leading_task
from zoo.translation.translation import Translation
from zoo.translation.translator import Translator

WITHOUT_TAG = (
    "without a tag of a task at the beginning, by which a model of several knows what to do"
)
NOT_LEARNED = "with words that the model has not learned, whose translation is a guess"
SHOWN = 5
"""The most words of a note."""


def with_notes(
    stream: Iterator[Translation],
    what: str,
    first: int = 0,
    tasks: Collection[str] = (),
    *,
    at_once: bool = False,
) -> Iterator[Translation]:
    """Yield translations; warn of the first source without known tokens, and at the end of more.

    Args:
        stream: the translations.
        what: what a source is: a text or a line.
        first: how many sources precede these.
        tasks: the tags of which a source should have one.
        at_once: whether what there is to say of a translation follows it, as at a prompt.
    """
    notes = _Notes(what, tasks)
    for number, translation in enumerate(stream, first + 1):
        notes.add(number, translation)
        yield translation
        if at_once:
            notes.say_all()
            notes = _Notes(what, tasks)
    notes.say_all()


def say_of_split(translations: Sequence[Translation], what: str, tasks: Collection[str]) -> None:
    """Print how many sources of a split lack a tag of a task, and how many have guessed words."""
    all_of_them = counted(len(translations), "source")
    sources = [one.source for one in translations if one.source.strip()] if tasks else []
    if without := sum(not leading_task(source, tasks)[1] for source in sources):
        say(
            f"Warning: {what}: {without:,} of {all_of_them} {WITHOUT_TAG}. "
            f"Give one by --source-prefix ({_listed(tasks)})"
        )
    if guessed := sum(bool(one.unseen_words) for one in translations):
        say(f"Note: {what}: {guessed:,} of {all_of_them} {NOT_LEARNED}")


def _listed(tasks: Collection[str]) -> str:
    return ", ".join(tag.strip() for tag in tasks)


def untagged(translator: Translator, options: Mapping[str, Any]) -> Collection[str]:
    """Return the tags of which each source should have one: none if a prefix or language has it."""
    about = translator.checkpoint.about
    return () if options.get("source_prefix") or about.source_languages else about.tasks


class _Notes:
    """Counts what is to be said of translations."""

    def __init__(self, what: str, tasks: Collection[str]) -> None:
        self.what, self.tasks, self.sources = what, tasks, 0
        self.unknown = self.divided = self.respelled = self.copied = 0
        self.partly: list[int] = []
        self.without_task: list[int] = []
        self.lacking: list[tuple[int, str]] = []
        self.guessed = self.first_guessed = self.tables = self.texts = 0
        self.unseen: dict[str, None] = {}

    def add(self, number: int, translation: Translation) -> None:
        """Count a translation, and warn of the first whose source has no known token."""
        self.sources += 1
        self.texts += bool(translation.source.strip())
        self.tables += "\t" in translation.source.strip()
        if translation.unknown:
            self.unknown += 1
            if self.unknown == 1:
                stays = bool(translation.copied)
                result = "it stays as it is" if stays else "its translation is meaningless"
                say(
                    f"Warning: {self.what} {number} has no token of the model's vocabulary (is it "
                    f"in another script?); {result}"
                )
        elif translation.has_unknown_tokens:
            self.partly.append(number)
        if translation.unseen_words and not translation.unknown:
            self.guessed += 1
            self.first_guessed = self.first_guessed or number
            if len(self.unseen) <= SHOWN:
                self.unseen |= dict.fromkeys(translation.unseen_words)
        is_text = bool(self.tasks and translation.source_ids)
        if is_text and not leading_task(translation.source, self.tasks)[1]:
            self.without_task.append(number)
        self.lacking += [(number, lost) for lost in translation.lost_numbers[:1]]
        self.divided += translation.divided
        self.respelled += translation.respelled
        self.copied += bool(translation.copied)

    def say_all(self) -> None:
        """Print the notes on all translations."""
        for note in self.at_end():
            say(note)

    def _first(self, number: int) -> str:
        """Return which source is the first, if there are several."""
        return f"; the first is {self.what} {number:,}" if self.sources > 1 else ""

    def at_end(self) -> Iterator[str]:
        """Yield the notes on all translations."""
        what = self.what
        if 1 < self.tables == self.texts:
            yield (
                f"Note: each {what} has a tab, and is translated with it. Of a table, give one "
                "column, such as by cut -f1"
            )
        if self.without_task:
            yield (
                f"Note: {counted(len(self.without_task), what)} {WITHOUT_TAG} "
                f"({_listed(self.tasks)}){self._first(self.without_task[0])}"
            )
        if self.divided:
            yield (
                f"Note: {counted(self.divided, what)} had a sentence longer than those of "
                "training; it was translated in parts"
            )
        if self.respelled:
            yield (
                f"Note: {counted(self.respelled, what)} with capitals or marks that the model "
                "hardly knows, read in the spelling of training or without them"
            )
        if self.copied:
            yield (
                f"Note: {counted(self.copied, what)} with numbers, dates, addresses or names that "
                "were copied"
            )
        if self.partly:
            yield (
                f"Note: {counted(len(self.partly), what)} with something that the model's "
                f"vocabulary lacks, and that is lost{self._first(self.partly[0])}"
            )
        if self.guessed:
            words = ", ".join([*self.unseen][:SHOWN]) + ", …" * (len(self.unseen) > SHOWN)
            yield (
                f"Note: {counted(self.guessed, what)} {NOT_LEARNED}: {words}"
                f"{self._first(self.first_guessed)}"
            )
        if self.lacking:
            first, lost = self.lacking[0]
            yield (
                f"Note: {counted(len(self.lacking), what)} with a number that the translation "
                f"lacks, or has in words, such as {lost}: compare them{self._first(first)}"
            )
        if self.unknown > 1:
            yield (
                f"Warning: {self.unknown:,} {what}s in all have no token of the model's vocabulary"
            )
