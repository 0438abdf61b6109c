"""What plugins declare for the shelves of text and decoding: see `zoo.registry.entries`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class TokenizerKind(Entry):
    """A kind of tokenizer, for `tokenizer` in a recipe.

    The object is a subclass of `zoo.TextTokenizer`, or a function of texts and the largest size of
    the vocabulary that returns a tokenizer of the library `tokenizers`.
    """

    kind = "tokenizer"
    given = ("texts", "vocab_size")

    def load(self) -> Callable[..., Any]:
        """Import and return the function that trains: the class's `train`, if it is one."""
        loaded = super().load()
        trains: Callable[..., Any] = getattr(loaded, "train", loaded)
        return trains

    def reader(self) -> Callable[..., Any] | None:
        """Import and return the function that reads a checkpoint's tokenizer; None if none does."""
        reads: Callable[..., Any] | None = getattr(super().load(), "parse", None)
        return reads
