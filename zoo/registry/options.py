"""The options of an entry of an open shelf: read off its signature, and checked by pydantic."""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pydantic import create_model

from zoo.errors import ConfigError, PluginError
from zoo.registry.config import Settings

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def option_types(
    target: Callable[..., Any], given: Sequence[str], numbers: Collection[str] = ()
) -> type[Settings]:
    """Return the type of an entry's options: every parameter after those that its kind gives.

    `numbers` are further keys, which the kind itself reads.

    Raises:
        PluginError: the signature does not take what is given, or an option has no usable type.
    """
    signature = _signature(target)
    parameters = list(signature.parameters.values())
    shape = f"({', '.join([*given, 'option=…'])})"
    taken = [p for p in parameters if p.kind in POSITIONAL][: len(given)]
    open_ended = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    if len(taken) < len(given) and not open_ended:
        raise _unfit(f"it is called with {shape}, and takes {signature}")
    options = [p for p in parameters if p not in taken and p.kind not in VARIABLE]
    fields: dict[str, Any] = dict.fromkeys(numbers, (float, 1.0))
    reserved = {"name", *numbers}
    for option in options:
        if option.name in reserved or option.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise _unfit(f"{option.name!r} cannot be an option: it is called with {shape}")
        required = option.default is inspect.Parameter.empty
        fields[option.name] = (_type_of(target, option), ... if required else option.default)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an option may be called like a method of pydantic
            return create_model("Options", __base__=Settings, **fields)
    except Exception as error:  # pydantic's, of many types
        raise _unfit(f"the types of its options are not usable: {error}") from error


def checked_options(types: type[Settings], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values that are given, converted and checked.

    Raises:
        ConfigError: some are unknown, missing or of the wrong type; it lists all of them.
    """
    if values and not types.model_fields:
        raise ConfigError(where, f"it has no options; given are {', '.join(map(str, values))}")
    parsed = types.parse(values, where)
    return {name: getattr(parsed, name) for name in types.model_fields if name in values}


def described_options(types: type[Settings]) -> list[dict[str, Any]]:
    """Return each option as plain values: its name, its type with its bounds, its default."""
    schema = types.model_json_schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "type": _type_shown(option),
            "required": name in required,
            "default": option.get("default"),
        }
        for name, option in schema["properties"].items()
    ]


TYPES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "object": "table"}
BOUNDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}


def _type_shown(schema: Mapping[str, Any]) -> str:
    """Return a type's JSON schema as text for people."""
    if "anyOf" in schema:
        return " or ".join(map(_type_shown, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(map(repr, schema.get("enum", [schema.get("const")])))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type_shown(schema.get('items', {}))}"
    bounds = [f"{mark} {schema[key]}" for key, mark in BOUNDS.items() if key in schema]
    return ", ".join([TYPES.get(kind, kind), *bounds])


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    if not callable(target):
        raise _unfit(f"it is {target!r}, which cannot be called")
    try:
        return inspect.signature(target)
    except (TypeError, ValueError) as error:
        raise _unfit(f"it has no signature: {error}") from error


def _type_of(target: Callable[..., Any], option: inspect.Parameter) -> Any:
    """Return the type of an option: its annotation, or that of its default."""
    annotation = option.annotation
    if annotation is inspect.Parameter.empty:
        if option.default in (inspect.Parameter.empty, None):
            raise _unfit(f"option {option.name!r} has neither a type nor a default")
        return type(option.default)
    function = target.__init__ if inspect.isclass(target) else inspect.unwrap(target)
    # Only this one: the types of what is given may be imported for type checkers alone.
    holder = SimpleNamespace(__annotations__={option.name: annotation})
    names = getattr(function, "__globals__", {})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)[option.name]
    except Exception as error:  # whatever evaluating an annotation raises
        raise _unfit(f"the type of option {option.name!r} is not known: {error}") from error


def _unfit(reason: str) -> PluginError:
    return PluginError("an entry does not fit its kind", reason)
