"""The laws of sentence splitters, for the tests of a plugin that brings one.

test_law = zoo.testing.splitter_conformance("marks:marks=.;")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test
from zoo.translation.sentences import Split, make_splitter

LINES = (
    "One sentence. Another one!  A third?", "No mark at all", "...", "1. First 2. Second",
    "Dr. Smith went to Washington. He arrived.", "a.b.c", "“Oui.” “Non.”", "Ça va ? Oui !",
    "これは文です。もう一つ。", "Это предложение. Ещё одно.", "e\u0301. a\u00a0b. 👩‍🔬!", "x" * 500,
    "A tab.\tThen\tmore. ", "\ufeffmark. \u200b.", "Mr.", "?!", "(A. B.) C.", "end.\u3000wide",
)  # fmt: skip
LANGUAGES = ("en", "de", "fr", "ja", "ru", "", "xx", "de-AT", "deu_Latn")
"""Codes of languages: known ones, none, an unknown one, and longer forms."""


@dataclass(frozen=True)
class SplitterCase:
    """A splitter, by name and options."""

    named: str
    registry: Registry

    def make(self, language: str) -> Split:
        """Return the splitter of a language."""
        return make_splitter(self.named, language, self.registry)


def splitter_case(named: str, registry: Registry | None = None) -> SplitterCase:
    """Return the case of a splitter, by `NAME` or `NAME:option=value`."""
    return SplitterCase(named, registry or default_registry())


@law_of(
    causes="a separator that is left out; characters that are normalized; a match that stops "
    "before the end of the line; a language code that is not expected"
)
def sentences_make_up_the_line(case: SplitterCase) -> None:
    """In every language, the sentences of a line are parts that make it up exactly."""
    for language in LANGUAGES:
        split = case.make(language)
        for line in LINES:
            try:
                parts = list(split(line))
            except Exception as error:
                raise BrokenLawError(f"language {language!r}, {line!r:.40}: {error}") from error
            if not all(isinstance(part, str) and part for part in parts):
                raise BrokenLawError(f"language {language!r}: {line!r:.40} has the parts {parts}")


@law_of(
    causes="white space that begins the next sentence; a part of white space alone",
    requires="sentences_make_up_the_line",
)
def space_follows_its_sentence(case: SplitterCase) -> None:
    """White space between two sentences belongs to the one before it."""
    for language in LANGUAGES:
        for line in LINES:
            for part in list(case.make(language)(line))[1:]:
                if part[:1].isspace():
                    raise BrokenLawError(
                        f"language {language!r}: a part of {line!r:.40} is {part!r:.40}, which "
                        "begins with white space"
                    )


@law_of(
    causes="something kept from the line before; a value that two languages share; random numbers",
    requires="sentences_make_up_the_line",
)
def lines_are_split_alone(case: SplitterCase) -> None:
    """A line has the same sentences each time, whatever was split before, in any language."""
    splitters = [case.make(language) for language in LANGUAGES]
    expected = [list(case.make(language)(line)) for language in LANGUAGES for line in LINES]
    observed = [list(split(line)) for split in splitters for line in LINES]
    backwards = [list(split(line)) for split in reversed(splitters) for line in reversed(LINES)]
    for number, parts in enumerate(expected):
        for other in (observed[number], backwards[-1 - number]):
            if other != parts:
                raise BrokenLawError(f"{''.join(parts)!r:.40} has the parts {parts}, then {other}")


SPLITTER_LAWS = [sentences_make_up_the_line, space_follows_its_sentence, lines_are_split_alone]
"""All laws of splitters, the most basic first."""


def splitter_conformance(
    named: str, registry: Registry | None = None
) -> Callable[[LawOf[SplitterCase]], None]:
    """Return a test of every law of splitters, for one by `NAME` or `NAME:option=value`."""
    return conformance_test(SPLITTER_LAWS, lambda: splitter_case(named, registry))
