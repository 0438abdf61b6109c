"""The arguments of public functions, checked by their annotations; imports no torch."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from os import PathLike
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from zoo.errors import ArgumentError, shown

P = ParamSpec("P")
R = TypeVar("R")

WORDS: dict[type, str] = {
    str: "a text",
    PathLike: "a path",
    bool: "True or False",
    Mapping: "a mapping",
    Callable: "a function",  # type: ignore[dict-item]  # a class, for isinstance
    NoneType: "None",
}
"""The kinds that are checked, besides classes of the zoo and of torch, in words."""

LIBRARIES = ("zoo", "torch")
"""The packages whose classes are checked."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses arguments of other kinds than its annotations name.

    An argument is checked if each type of its annotation is one of `WORDS`, or a class of
    `LIBRARIES`. The function checks numbers itself, which may be NumPy's and have a range, and what
    can be iterated.
    """
    kinds = functools.cache(lambda: _kinds_of(function))
    signature = inspect.signature(function)

    @functools.wraps(function)
    def check(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError:
            return function(*arguments, **named)  # Python's message names the function
        faults = []
        for name, given in bound.arguments.items():
            several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            for value in given if several else (given,):
                if (types := kinds().get(name)) and (fault := _fault(value, types)):
                    faults.append(f"{name} is {shown(value)}, {fault}")
        if faults:
            called = function.__qualname__.removesuffix(".__init__")
            why = "; ".join(faults)
            raise ArgumentError(f"wrong arguments of {called}", why, f"See help(zoo.{called})")
        return function(*arguments, **named)

    return check


def _kinds_of(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """Return the types of the arguments that are checked, by name."""
    kinds = {}
    for name, annotation in get_type_hints(function).items():
        union = get_origin(annotation) in (Union, UnionType)
        given = get_args(annotation) if union else (annotation,)
        types = tuple(get_origin(each) or each for each in given)
        if name != "return" and all(map(_is_checked, types)):
            kinds[name] = types
    return kinds


def _is_checked(kind: Any) -> bool:
    library = str(getattr(kind, "__module__", "")).partition(".")[0]
    return kind in WORDS or (isinstance(kind, type) and library in LIBRARIES)


def _fault(value: object, types: tuple[type, ...]) -> str:
    """Return why a value is of none of the types, or can be no path; empty if it can be meant."""
    if not isinstance(value, types):
        named = [kind for kind in types if kind is not NoneType]
        words = [WORDS.get(kind) or f"a value of type {kind.__qualname__}" for kind in named]
        return f"not {' or '.join(words)}"
    if PathLike in types and isinstance(value, str | PathLike):
        try:
            if b"\0" in os.fsencode(value):
                return "with a null character, which no path has"
        except UnicodeEncodeError:
            return "with half of a surrogate pair, which no path has"
    return ""
