"""The options of a search, and the hypotheses that it returns; imports no torch."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any, Literal, TypeVar, get_type_hints

from zoo.decoding.option import Limits, Option, declared, described
from zoo.errors import DecodingError, UnknownNameError, did_you_mean

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


BUILT_IN = ("greedy", "beam", "sampling", "exhaustive")
"""The built-in searches."""

DRAWING = ("temperature", "top_k", "top_p", "seed")
"""Options of `Search` that only sampling reads."""

_POSITIVE, _COUNT = Limits(at_least=1), Limits(at_least=1, at_most=10_000)
_LENGTH, _EXPONENT = Limits(at_least=1, at_most=100_000), Limits(at_least=0, at_most=10)
_MOST = 1_000_000  # with larger numbers scores overflow, and are then equal
_NOT_NEGATIVE = Limits(at_least=0, at_most=_MOST)
_ABOVE_ZERO = Limits(above=0, at_most=_MOST)


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
        UnknownNameError: there is no such field; near ones are suggested.
    """

    beam: int = declared(
        1, "Number of hypotheses kept at each step; 1 (default) is greedy search.", _COUNT
    )
    n_best: int = declared(
        1, "Number of translations returned for each text, at most the beam size.", _COUNT
    )
    length_penalty: float = declared(
        0.0,
        "A: rank hypotheses by log probability / ((5 + n) / 6)^A, where n is the number of tokens "
        "including the end token. 0 (default) ranks by log probability; larger values favor "
        "longer translations.",
        _EXPONENT,
    )
    coverage_penalty: float = declared(
        0.0,
        "B: add B · Σ log min(total attention, 1) over the source tokens when ranking.",
        _NOT_NEGATIVE,
    )
    min_length: int = declared(
        1, "Minimum number of tokens in a translation, including the end token.", _COUNT
    )
    max_length: int | None = declared(
        None, "Maximum number of tokens in a translation, including the end token.", _LENGTH
    )
    allow_empty: bool = declared(False, "Allow translations that are empty or only white space.")
    banned: tuple[int | str, ...] = declared(
        (), "Never write this token of the target vocabulary (▁ marks a space); may be repeated."
    )
    no_repeat_ngram_size: int | None = declared(
        None, "N: no translation contains the same N tokens in a row twice.", _POSITIVE
    )
    repetition_penalty: float = declared(
        1.0,
        "Multiply the log probability of tokens already written; above 1 discourages repetition.",
        _ABOVE_ZERO,
    )
    stop: Literal["safe", "first"] = declared(
        "safe",
        "When beam search stops: safe (default), when no live hypothesis can still be among the n "
        "best; first, when one has finished and no live one is ranked higher at its current "
        "length.",
    )
    sample: bool = declared(False, "Draw each token at random by its probability.")
    temperature: float = declared(1.0, "Divide the logits by this before drawing.", _ABOVE_ZERO)
    top_k: int | None = declared(None, "Draw from the K most probable tokens.", _POSITIVE)
    top_p: float | None = declared(
        None,
        "Draw from the smallest set of most probable tokens with total probability P or more.",
        Limits(above=0, at_most=1),
    )
    seed: int = declared(1, "Random seed of sampling.", Limits(at_least=0, at_most=10**9))
    exhaustive: bool = declared(
        False, "Score every possible translation; for tiny vocabularies only."
    )
    method: str | None = declared(
        None,
        "The search, as NAME or NAME:option=value,option=value: greedy, beam, sampling, exhaustive "
        "or one of a plugin (see `zoo list searches`). By default the other options choose it.",
        flag="search",
    )
    processors: tuple[str, ...] = declared(
        (),
        "Apply this logits processor, as NAME or NAME:option=value,option=value (see `zoo list "
        "processors`); may be repeated.",
        flag="processor",
    )

    def __post_init__(self) -> None:
        """Check every value, and whether the valid ones fit each other; store plain values."""
        values = {o.name: o.plain(getattr(self, o.name)) for o in search_options()}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        wrong = faults(values)
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
            raise DecodingError(
                f"cannot ban {' or '.join(map(repr, unknown))}",
                "it is not one token of the target vocabulary",
                did_you_mean(unknown[0], ids, begin="Did"),
            )
        banned = tuple(ids[token] if isinstance(token, str) else token for token in self.banned)
        return replace(self, banned=banned)


def _searching(search: Any) -> str:
    if search.method is not None:
        return str(search.method)
    if search.exhaustive:
        return "exhaustive"
    return "sampling" if search.sample else "greedy" if search.beam == 1 else "beam"


def faults(values: Mapping[str, Any]) -> list[str]:
    """Return all that is wrong with search options; those that are absent have their defaults."""
    whole = {o.name: o.plain(values.get(o.name, o.default)) for o in search_options()}
    changed = [o for o in search_options() if whole[o.name] is not o.default]  # defaults are valid
    errors = {o.name: (o.flag, error) for o in changed if (error := o.error(whole[o.name]))}
    wrong = [f"`{flag}` must be {error}" for flag, error in errors.values()]
    usable = {o.name: o.default if o.name in errors else whole[o.name] for o in search_options()}
    return [*wrong, *_contradictions(SimpleNamespace(**usable), whole.keys() - errors.keys())]


def _contradictions(search: Any, valid: set[str]) -> Iterator[str]:
    """Yield each contradiction among valid options; in the search, the others are defaults."""
    name = _searching(search).partition(":")[0]
    if name in BUILT_IN and name != "sampling":
        for option in search_options():
            changed = getattr(search, option.name) != option.default
            if option.name in DRAWING and option.name in valid and changed:
                yield f"`{option.flag}` needs `--sample`"
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


def without_effect(given: Mapping[str, Any], search: Search) -> list[str]:
    """Return the faults of given options that change nothing in a search.

    A penalty ranks hypotheses against each other, and `stop` is about those of a beam. Searches of
    plugins may read any option.
    """
    name = search.searching.partition(":")[0]
    several = "a beam of at least 2"
    if name == "sampling" and search.n_best == 1:
        several = "`--n-best` of at least 2"
    unread = {"greedy": ("length_penalty", "coverage_penalty", "stop"), "exhaustive": ("stop",)}
    unread["sampling"] = unread["greedy"] if search.n_best == 1 else ("stop",)
    return [
        f"`{option.flag} {getattr(search, option.name)}` needs "
        + ("beam search" if option.name == "stop" and name != "greedy" else several)
        for option in search_options()
        if option.name in given
        and option.name in unread.get(name, ())
        and getattr(search, option.name) != option.default
    ]


def as_flags(values: Mapping[str, Any]) -> str:
    """Return search options as they are written on the command line."""
    words: list[str] = []
    for option in search_options():
        if values.get(option.name, False) is not False:
            value = values[option.name]
            for item in value if option.repeated else [value]:
                words += [option.flag] if item is True else [option.flag, str(item)]
    return shlex.join(words)


@functools.cache
def search_options() -> tuple[Option, ...]:
    """Return the fields of `Search` in order, for checks and for the command line."""
    types = get_type_hints(Search)
    return tuple(described(f.name, types[f.name], f.default, f.metadata) for f in fields(Search))
