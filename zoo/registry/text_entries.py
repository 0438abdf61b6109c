"""What plugins declare for the shelves of text and decoding: see `zoo.registry.entries`."""

from __future__ import annotations

from dataclasses import dataclass

from zoo.registry.entries import Entry


@dataclass(frozen=True)
class Processor(Entry):
    """A logits processor, for `--processor` and `zoo.Search(processors=…)`.

    The object is called with the task of each batch, and returns a `zoo.LogitsProcessor`, or None
    where there is nothing to do.
    """

    kind = "logits processor"
    plural = "processors"
    given = ("task",)


@dataclass(frozen=True)
class SearchMethod(Entry):
    """A search, for `--search` and `zoo.Search(method=…)`.

    The object is called with a task and the `zoo.Search` for each batch. It returns, for each
    sentence, one to n best `zoo.Hypothesis`, best first.
    """

    kind = "search"
    plural = "searches"
    given = ("task", "search")


@dataclass(frozen=True)
class Splitter(Entry):
    """What splits texts into sentences, for `--splitter`.

    The object is called once with the code of the texts' language, or with an empty string if it
    is not known. It returns a function of a line of text, which returns its sentences: parts that
    make up the line exactly, each with the white space after it.
    """

    kind = "splitter"
    given = ("language",)
