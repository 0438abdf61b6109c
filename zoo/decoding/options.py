"""The options of a search, and the hypotheses that it returns; imports no torch."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import NoneType, SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from zoo.errors import DecodingError, UnknownNameError, near
from zoo.registry.open_shelf import parse_named

T = TypeVar("T")


@dataclass(frozen=True)
class Hypothesis:
    """A target: its token ids without begin and end, and its natural log probability.

    Attributes:
        tokens: the token ids.
        score: the sum of the network's log probabilities of the tokens and, if `finished`, of the
            end token. No option changes the score of a given target.
        finished: whether it ends with the end token. A hypothesis that is cut at the maximum
            length, or that no token may continue, is not finished.
        rank_score: what hypotheses are ranked by (`Search`); equal to `score` by default.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool
    rank_score: float

    @property
    def order(self) -> tuple[bool, float]:
        """The sort key: finished before unfinished, then by `rank_score`, best first."""
        return (not self.finished, -self.rank_score)


class Limits(NamedTuple):
    """The range of a number: `at_least` and `at_most` are inclusive, `above` is not."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf

    def contain(self, value: float) -> bool:
        """Return whether a number is finite and within the limits."""
        within = self.at_least <= value <= self.at_most and value > self.above
        return within and abs(value) < 1e300  # some integers are beyond every float

    def __str__(self) -> str:
        """Return the limits in words: ` above 0 and at most 1`."""
        bounds = zip(("of at least", "above", "at most"), self, strict=True)
        parts = [f"{name} {bound:,}" for name, bound in bounds if math.isfinite(bound)]
        return " and ".join(parts)


def _option(default: T, help: str, limits: Limits | None = None, flag: str = "") -> T:
    """Return a field of `Search` with its help text and the limits of its value.

    `flag` is the option of a value that names an entry; the others have the name of their field.
    """
    return field(default=default,
                 metadata={"help": help, "limits": limits or Limits(), "flag": flag})  # fmt: skip


BUILT_IN = ("greedy", "beam", "sampling", "exhaustive")
"""The built-in searches."""

DRAWING = ("temperature", "top_k", "top_p", "seed")
"""Options of `Search` that only sampling reads."""

_POSITIVE, _COUNT = Limits(at_least=1), Limits(at_least=1, at_most=10_000)
_NOT_NEGATIVE = Limits(at_least=0)


def _with_near_names(search: type[T]) -> type[T]:
    """Make a dataclass answer a wrong keyword with a near one."""
    plain = search.__init__
    known = [f.name for f in fields(search)]  # type: ignore[arg-type]  # it is a dataclass

    @functools.wraps(plain)
    def checked(self: T, *arguments: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise UnknownNameError("option", name, known)
        plain(self, *arguments, **given)

    search.__init__ = checked  # type: ignore[method-assign, assignment]  # of the same arguments
    return search


@_with_near_names
@dataclass(frozen=True)
class Search:
    """The options of a search; each field's metadata holds its help text.

    A hypothesis of score s and n tokens, the end token counted, is ranked by

        s / ((5 + n) / 6)^length_penalty + coverage_penalty · Σ_j log min(Σ_i α_ij, 1)

    (Wu et al. 2016, equation 14), where α is the attention from target to source, averaged over
    layers and heads, and j runs over the source tokens. Finished hypotheses precede unfinished
    ones. With a repetition penalty, s is the sum of the penalized log probabilities.

    Raises:
        DecodingError: values are out of range or contradict each other; the error lists them all.
    """

    beam: int = _option(
        1, "Number of hypotheses kept at each step; 1 (default) is greedy search.", _COUNT
    )
    n_best: int = _option(
        1, "Number of translations returned for each text, at most the beam size.", _COUNT
    )
    length_penalty: float = _option(
        0.0,
        "A: rank hypotheses by log probability / ((5 + n) / 6)^A, where n is the number of tokens "
        "including the end token. 0 (default) ranks by log probability; larger values favor "
        "longer translations.",
        _NOT_NEGATIVE,
    )
    coverage_penalty: float = _option(
        0.0,
        "B: add B · Σ log min(total attention, 1) over the source tokens when ranking.",
        _NOT_NEGATIVE,
    )
    min_length: int = _option(
        1, "Minimum number of tokens in a translation, including the end token.", _COUNT
    )
    max_length: int | None = _option(
        None, "Maximum number of tokens in a translation, including the end token.", _POSITIVE
    )
    allow_empty: bool = _option(False, "Allow translations that are empty or only white space.")
    banned: tuple[int | str, ...] = _option(
        (), "Never write this token of the target vocabulary (▁ marks a space); may be repeated."
    )
    no_repeat_ngram_size: int | None = _option(
        None, "N: no translation contains the same N tokens in a row twice.", _POSITIVE
    )
    repetition_penalty: float = _option(
        1.0,
        "Multiply the log probability of tokens already written; above 1 discourages repetition.",
        Limits(above=0),
    )
    stop: Literal["safe", "first"] = _option(
        "safe",
        "When beam search stops: safe (default), when no live hypothesis can still be among the n "
        "best; first, when one has finished and no live one is ranked higher at its current "
        "length.",
    )
    sample: bool = _option(False, "Draw each token at random by its probability.")
    temperature: float = _option(1.0, "Divide the logits by this before drawing.", Limits(above=0))
    top_k: int | None = _option(None, "Draw from the K most probable tokens.", _POSITIVE)
    top_p: float | None = _option(
        None,
        "Draw from the smallest set of most probable tokens with total probability P or more.",
        Limits(above=0, at_most=1),
    )
    seed: int = _option(1, "Random seed of sampling.", Limits(at_least=0, at_most=10**9))
    exhaustive: bool = _option(
        False, "Score every possible translation; for tiny vocabularies only."
    )
    method: str | None = _option(
        None,
        "The search, as NAME or NAME:option=value,option=value: greedy, beam, sampling, exhaustive "
        "or one of a plugin (see `zoo list searches`). By default the other options choose it.",
        flag="search",
    )
    processors: tuple[str, ...] = _option(
        (),
        "Apply this logits processor, as NAME or NAME:option=value,option=value (see `zoo list "
        "processors`); may be repeated.",
        flag="processor",
    )

    def __post_init__(self) -> None:
        """Check every value, and whether the valid ones fit each other."""
        wrong = faults({option.name: getattr(self, option.name) for option in search_options()})
        if wrong:
            raise DecodingError("invalid search options", "; ".join(wrong))

    @property
    def searching(self) -> str:
        """The search that the options choose: its name, with its options if it has any."""
        return _searching(self)

    def with_banned_ids(self, vocabulary: Sequence[str]) -> Search:
        """Return the search with ids in place of banned tokens that are given as text.

        Args:
            vocabulary: the text of each target token, by its id.

        Raises:
            DecodingError: a token is not in the vocabulary; near ones are suggested.
        """
        if not any(isinstance(token, str) for token in self.banned):
            return self
        ids = {token: i for i, token in enumerate(vocabulary)}
        unknown = [token for token in self.banned if isinstance(token, str) and token not in ids]
        if unknown:
            nearest = near(unknown[0], ids)
            raise DecodingError(
                f"cannot ban {' or '.join(map(repr, unknown))}",
                "it is not one token of the target vocabulary",
                f"Did you mean {' or '.join(nearest)}?" if nearest else "",
            )
        banned = tuple(ids[token] if isinstance(token, str) else token for token in self.banned)
        return replace(self, banned=banned)


def _searching(search: Any) -> str:
    if search.method is not None:
        return str(search.method)
    if search.exhaustive:
        return "exhaustive"
    return "sampling" if search.sample else "greedy" if search.beam == 1 else "beam"


class Option(NamedTuple):
    """A field of `Search`: its name, type, default, help text and limits.

    Attributes:
        kind: `int`, `float`, `bool` or `str`; the type of one item where `repeated`.
        choices: the values that a `str` may have; empty if it may have any.
        optional: whether None is a value.
        repeated: whether the value is a tuple.
        word: the flag's name, if a value names an entry of a shelf; empty otherwise.
    """

    name: str
    kind: type
    choices: tuple[str, ...]
    optional: bool
    repeated: bool
    default: object
    help: str
    limits: Limits
    word: str = ""

    @property
    def flag(self) -> str:
        """The option's name on the command line, in code quotes."""
        return f"`--{self.word or self.name.replace('_', '-')}`"

    def error(self, value: Any) -> str | None:
        """Return what a wrong value must be, or None for a valid one."""
        if self.word and value is not None:
            items = value if self.repeated else (value,)
            whole = isinstance(items, tuple) and all(isinstance(item, str) for item in items)
            try:
                for item in items if whole else ():
                    parse_named(item)
            except ValueError as error:
                return f"{error}, not {value!r}"
            return None if whole else f"a name, or a tuple of names, not {value!r}"
        if self.repeated:
            valid = isinstance(value, tuple) and all(isinstance(item, int | str) for item in value)
            return None if valid else f"a tuple of token ids and tokens, not {value!r}"
        if value is None and self.optional:
            return None
        if self.kind is bool:
            return None if isinstance(value, bool) else f"true or false, not {value!r}"
        if self.kind is str:
            return None if value in self.choices else f"{' or '.join(self.choices)}, not {value!r}"
        types = int if self.kind is int else int | float
        if isinstance(value, types) and not isinstance(value, bool) and self.limits.contain(value):
            return None
        what = "an integer" if self.kind is int else "a number"
        return f"{f'{what} {self.limits}'.strip()}, not {value!r}"


def faults(values: Mapping[str, Any]) -> list[str]:
    """Return all that is wrong with search options; those that are absent have their defaults."""
    whole = {option.name: values.get(option.name, option.default) for option in search_options()}
    errors = {option: option.error(whole[option.name]) for option in search_options()}
    wrong = [f"{option.flag} must be {error}" for option, error in errors.items() if error]
    valid = {option.name for option, error in errors.items() if not error}
    return [*wrong, *_contradictions(SimpleNamespace(**whole), valid)]


def _contradictions(search: Any, valid: set[str]) -> Iterator[str]:
    """Yield each contradiction among options whose values are valid."""
    usable = {o.name: getattr(search, o.name) if o.name in valid else o.default
              for o in search_options()}  # fmt: skip
    search = SimpleNamespace(**usable)
    name = _searching(search).partition(":")[0]
    if name in BUILT_IN and name != "sampling":
        for option in search_options():
            changed = getattr(search, option.name) != option.default
            if option.name in DRAWING and option.name in valid and changed:
                yield f"{option.flag} needs `--sample`"
    if search.sample and search.exhaustive:
        yield "`--sample` and `--exhaustive` exclude each other"
    flags = {"sampling": "sample", "exhaustive": "exhaustive"}
    for of_flag, flag in flags.items():
        if getattr(search, flag) and search.method is not None and name != of_flag:
            yield f"`--{flag}` and `--search {name}` exclude each other"
    if name in (*flags, "greedy") and search.beam != 1:
        chosen = f"search {name}" if search.method is not None else flags[name]
        yield f"`--{chosen}` and `--beam {search.beam}` exclude each other"
    if "n_best" in valid:
        many = f"`--n-best {search.n_best}`"
        if name in ("greedy", "beam") and search.n_best > search.beam:
            yield f"{many} needs a beam of at least {search.n_best}"
        if search.stop == "first" and search.n_best > 1:
            yield f"{many} needs `--stop safe`"
    least, most = search.min_length, search.max_length
    if {"min_length", "max_length"} <= valid and most is not None and least > most:
        yield f"`--min-length {least}` exceeds `--max-length {most}`"


def combine(given: Mapping[str, Any], recommended: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given search options and those recommended ones that fit them.

    A given option replaces the recommended one. A recommended option that contradicts the given
    ones, such as a beam where `sample` is given, is left out.
    """
    combined = dict(given)
    for option in search_options():
        if option.name in recommended and option.name not in given:
            more = {**combined, option.name: recommended[option.name]}
            if set(faults(more)) <= set(faults(combined)):
                combined = more
    return combined


def as_flags(values: Mapping[str, Any]) -> str:
    """Return search options as they are written on the command line."""
    words: list[str] = []
    for option in search_options():
        if values.get(option.name, False) is not False:
            value, flag = values[option.name], option.flag.strip("`")
            for item in value if option.repeated else [value]:
                words += [flag] if item is True else [flag, str(item)]
    return shlex.join(words)


@functools.cache
def search_options() -> tuple[Option, ...]:
    """Return the fields of `Search` in order, for checks and for the command line."""
    types = get_type_hints(Search)
    return tuple(_described(f.name, types[f.name], f.default, f.metadata) for f in fields(Search))


def _described(name: str, kind: Any, default: object, metadata: Mapping[str, Any]) -> Option:
    """Return a field's option from its type hint."""
    repeated = get_origin(kind) is tuple
    optional = NoneType in get_args(kind)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if repeated or choices:
        kind = str
    elif optional:
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    more = (metadata["help"], metadata["limits"], metadata["flag"])
    return Option(name, kind, choices, optional, repeated, default, *more)
