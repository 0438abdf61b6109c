"""The keyword arguments of `translate` and the other methods of a translator, and their checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

from zoo.data.readers import has_lone_surrogate
from zoo.data.sources import join_sources
from zoo.decoding.named import check_named
from zoo.decoding.option import plain_number
from zoo.decoding.options import Search, search_options, without_effect
from zoo.errors import ConfigError, DecodingError, UnknownNameError, shown
from zoo.registry.registry import Registry
from zoo.translation.parts import MAX_SOURCE_LENGTH, LongTexts

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
    on_step: Callable[[], None] | None
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
    "splitter": "",
    "long_texts": "refuse",
    "max_source_length": MAX_SOURCE_LENGTH,
    "on_batch": None,
    "on_step": None,
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
                if name not in types and name not in plain.parameters:
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


def separated(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that are not the search's, with defaults, and those that are, as given.

    Raises:
        DecodingError: as `checked_options`.
    """
    search = {option.name for option in search_options()}
    own = {name: options.get(name, default) for name, default in DEFAULTS.items()
           if name not in search}  # fmt: skip
    return checked_options(own), {name: options[name] for name in options if name in search}


LEAST = {"window": 1, "max_source_length": 2, "first": 0}
"""The least value of each option that is a number."""

MOST = 1 << 40
"""The bound of these options: a text's random numbers are drawn by its number."""

FUNCTIONS = ("on_batch", "on_step")
"""Options that are functions, or None."""


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options, besides those of the search, after a check of their kinds.

    Raises:
        DecodingError: it lists all that are of another kind.
    """
    options = {name: plain_number(value) for name, value in options.items()}
    expected = {name: _kind_of(name) for name, value in options.items() if not _fits(name, value)}
    faults = [f"{name} is {shown(options[name])}, not {kind}" for name, kind in expected.items()]
    if options.get("split") is False and options["splitter"] and not faults:
        faults.append(f"`--splitter {options['splitter']}` and `--no-split` exclude each other")
    if faults:
        raise DecodingError("these options are not possible", "; ".join(faults))
    return options


def _fits(name: str, value: object) -> bool:
    """Return whether an option may have a value."""
    default = DEFAULTS.get(name, False)
    if name in FUNCTIONS:
        return value is None or callable(value)
    if name == "long_texts":
        return isinstance(value, str) and value in get_args(LongTexts)
    if name in LEAST:
        if isinstance(value, int) and not isinstance(value, bool):
            return LEAST[name] <= value < MOST
        return value is None and default is None
    if isinstance(value, str) and has_lone_surrogate(value):
        return False
    return isinstance(value, type(default))


def _kind_of(name: str) -> str:
    """Return which values an option may have, in words."""
    if name in LEAST:
        return f"a whole number from {LEAST[name]} on"
    kinds = {
        "long_texts": " or ".join(get_args(LongTexts)),
        **dict.fromkeys(FUNCTIONS, "a function"),
    }
    is_text = isinstance(DEFAULTS.get(name, False), str)
    return kinds.get(name, "a text" if is_text else "True or False")


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
    if faults := without_effect(given, search):
        raise DecodingError("these search options change nothing", "; ".join(faults))
    try:
        check_named(search, registry)
    except (UnknownNameError, ConfigError) as error:
        if all(given.get(key) == effective.get(key) for key in ("method", "processors")):
            raise
        raise DecodingError(
            "the recommended search is not possible", str(error), "Use `--no-recommended`"
        ) from error
    return search


TEXT_ARRAYS = ("U", "S", "O")
"""The kinds of numpy's arrays that may hold texts."""


def is_features(text: object) -> bool:
    """Return whether this is a matrix, of numpy or torch, rather than a text or a list of them."""
    kind = getattr(getattr(text, "dtype", None), "kind", "")
    return getattr(text, "ndim", 0) == 2 and hasattr(text, "__array__") and kind not in TEXT_ARRAYS


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
        if not text.isascii() and has_lone_surrogate(text):
            why = "it has half of a surrogate pair, which UTF-8 cannot encode"
            raise DecodingError(f"{what} is not a text", why, "Decode its bytes as UTF-8")
        if "\0" in text:
            raise DecodingError(f"{what} is not a text", "it has a NUL character", "Remove it")
        return text
    if isinstance(text, Mapping):
        return join_sources(text)
    if is_features(text):
        from zoo.data.features import Features

        return Features(text)
    if _is_missing(text):
        hint = "Leave missing values out, or put an empty text in their place"
    else:
        hint = "Decode bytes first" if isinstance(text, bytes) else "A text is a string"
    raise DecodingError(f"{what} is not a text", f"it is {_start(text)!r}", hint)


def _is_missing(value: object) -> bool:
    """Return whether this is None or NaN, as missing values in a table are."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # of an array
        return False


def _start(value: object) -> str:
    """Return the beginning of a value as text."""
    return str(value)[:50] if not isinstance(value, int) else shown(value)[:50]


def check_texts(texts: object, what: str = "text") -> Iterator[str]:
    """Return an iterator of texts that checks each of them when it is reached.

    Raises:
        DecodingError: it is one text, or nothing that can be iterated.
    """
    one = isinstance(texts, str | bytes | Mapping) or is_features(texts)
    scalar = getattr(texts, "ndim", 1) == 0  # such an array cannot be iterated
    if one or scalar or not isinstance(texts, Iterable):
        check_text(texts, f"what stands for {what}s")
        raise DecodingError(f"{what}s must be a list", "this is one text", "Put it into a list")
    return (check_text(text, f"{what} {i}") for i, text in enumerate(texts, 1))
