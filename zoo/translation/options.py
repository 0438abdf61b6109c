"""The keyword arguments of `translate` and the other methods of a translator, and their checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

from zoo.data.sources import join_sources
from zoo.decoding.named import check_named
from zoo.decoding.options import Search, search_options
from zoo.errors import ConfigError, DecodingError, UnknownNameError
from zoo.registry.registry import Registry
from zoo.translation.parts import MAX_SOURCE_LENGTH, LongTexts
from zoo.translation.sentences import SPLITTER

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

Source: TypeAlias = "str | Mapping[str, str] | npt.NDArray[Any] | Tensor"
"""A text, several sources by name, or feature vectors, (frames, dim)."""

Texts: TypeAlias = "Sequence[Source]"

WINDOW = 2048
"""Texts that are read ahead by default, so that a batch has texts of similar lengths."""


class SearchOptions(TypedDict, total=False):
    """The fields of `zoo.Search`, as keyword arguments."""

    beam: int
    n_best: int
    length_penalty: float
    coverage_penalty: float
    min_length: int
    max_length: int | None
    allow_empty: bool
    banned: tuple[int | str, ...]
    no_repeat_ngram_size: int | None
    repetition_penalty: float
    stop: Literal["safe", "first"]
    sample: bool
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int
    exhaustive: bool
    method: str | None
    processors: tuple[str, ...]
    recommended: bool


class Options(SearchOptions, total=False):
    """The keyword arguments of `Translator.stream` and, besides `details`, of `translate`."""

    source_lang: str
    target_lang: str
    window: int | None
    prefix: str
    source_prefix: str
    alignment: bool
    split: bool
    splitter: str
    long_texts: LongTexts
    max_source_length: int
    on_batch: Callable[[int], None] | None
    first: int


DEFAULTS: dict[str, Any] = {
    **{option.name: option.default for option in search_options()},
    "recommended": True,
    "source_lang": "",
    "target_lang": "",
    "window": None,
    "prefix": "",
    "source_prefix": "",
    "alignment": False,
    "split": True,
    "splitter": SPLITTER,
    "long_texts": "refuse",
    "max_source_length": MAX_SOURCE_LENGTH,
    "on_batch": None,
    "first": 0,
}
"""The default of each option."""


def keywords(kind: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function whose `**options` are the keys of a TypedDict.

    Its signature lists them with their defaults, for `help` and completion. A wrong name is
    answered with a near one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        types = get_type_hints(kind)
        plain = inspect.signature(function)
        named = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
        own = [p.name for p in named if p.kind is p.KEYWORD_ONLY]

        @functools.wraps(function)
        def checked(*arguments: P.args, **given: P.kwargs) -> R:
            for name in given:
                if name not in types and name not in own and name not in plain.parameters:
                    raise UnknownNameError("option", name, [*types, *own])
            return function(*arguments, **given)

        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name],
                              annotation=types[name])
            for name in types
        ]  # fmt: skip
        signature = plain.replace(parameters=[*named, *more])
        checked.__signature__ = signature  # type: ignore[attr-defined]  # functions have it
        return checked

    return decorate


def check_options(options: Mapping[str, Any]) -> None:
    """Make sure that options, besides those of the search, have values of their kinds.

    Raises:
        DecodingError: it lists all that have not.
    """
    faults = []
    for name, least in (("window", 1), ("max_source_length", 1), ("first", 0)):
        value = DEFAULTS[name] if options[name] is None else options[name]
        if value is not None and not (isinstance(value, Integral) and int(value) >= least):
            faults.append(f"{name} is {value!r}, not a whole number from {least} on")
    for name in ("source_lang", "target_lang", "prefix", "source_prefix"):
        if not isinstance(options[name], str):
            faults.append(f"{name} is {options[name]!r}, not a text")
    kinds = get_args(LongTexts)
    if options["long_texts"] not in kinds:
        faults.append(f"long_texts is {options['long_texts']!r}, not {' or '.join(kinds)}")
    if faults:
        raise DecodingError("these options are not possible", "; ".join(faults))


def make_search(
    effective: Mapping[str, Any], given: Mapping[str, Any], registry: Registry
) -> Search:
    """Return a search, after a check of the search and the logits processors that it names.

    Args:
        effective: all options, recommended ones included.
        given: those that the user gave.
        registry: where names are looked up.

    Raises:
        UnknownNameError, ConfigError, DecodingError: an option or a name is not valid.
        PluginError: what is named cannot be imported.
    """
    search = Search(**effective)
    try:
        check_named(search, registry)
    except (UnknownNameError, ConfigError) as error:
        if all(given.get(key) == effective.get(key) for key in ("method", "processors")):
            raise
        raise DecodingError(
            "the recommended search is not possible", str(error), "Use `--no-recommended`"
        ) from error
    return search


def is_features(text: object) -> bool:
    """Return whether this is a matrix, of numpy or torch, rather than a text or a list of them."""
    return getattr(text, "ndim", 0) == 2 and hasattr(text, "__array__")


def as_one(texts: Source | Texts) -> Source | None:
    """Return what is one text; None for several."""
    one = isinstance(texts, str | Mapping) or is_features(texts)
    return cast(Source, texts) if one else None


def check_text(text: object, what: str) -> str:
    """Return a text that is a string; several sources, by name, become one.

    Raises:
        DataError: several sources are given, but no main text.
        DecodingError: it is not, for example None, or NaN for a missing value in a table.
    """
    if isinstance(text, str):
        return text
    if isinstance(text, Mapping):
        return join_sources(text)
    if is_features(text):
        from zoo.data.features import Features

        return Features(text)
    if text is None or text != text:
        hint = "Leave missing values out, or put an empty text in their place"
    else:
        hint = "Decode bytes first" if isinstance(text, bytes) else "A text is a string"
    raise DecodingError(f"{what} is not a text", f"it is {str(text)[:50]!r}", hint)


def check_texts(texts: object, what: str = "text") -> Iterator[str]:
    """Return an iterator of texts that checks each of them when it is reached.

    Raises:
        DecodingError: it is one text, or nothing that can be iterated.
    """
    one = isinstance(texts, str | bytes | Mapping) or is_features(texts)
    if one or not isinstance(texts, Iterable):
        check_text(None if texts is None else texts, f"what stands for {what}s")
        raise DecodingError(f"{what}s must be a list", "this is one text", "Put it into a list")
    return (check_text(text, f"{what} {i}") for i, text in enumerate(texts, 1))
