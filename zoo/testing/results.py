"""Whether a network returns the named tuples of the contract."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor

from zoo.nn.contract import Encoded, Output, Step
from zoo.nn.tree import Tree

if TYPE_CHECKING:
    from zoo.testing.case import Case

EXPECTED = {
    "encode": (Encoded, "zoo.nn.Encoded(memory, attention)"),
    "step": (Step, "zoo.nn.Step(logits, state, attention)"),
    "forward": (Output, "zoo.nn.Output(logits, attention, losses)"),
}


@torch.no_grad()
def wrong_results(case: Case) -> str | None:
    """Return which methods return something else than the contract's named tuples, or None.

    Networks of plugin API 1 are recognized by this: they returned bare logits or `(logits, state)`,
    and longer tuples if attention was requested.
    """
    problems: dict[str, str] = {}
    wrong_types = False

    def check(method: str, result: object, attention: bool) -> None:
        nonlocal wrong_types
        expected, description = EXPECTED[method]
        is_expected = isinstance(result, expected)
        wrong = _wrong_fields(cast(NamedTuple, result)) if is_expected else _type(result)
        if wrong and method not in problems:
            wrong_types |= not is_expected
            condition = " with attention=True" if attention else ""
            problems[method] = f"{method}{condition} returns {wrong}, not {description}"

    model, source, mask, target = case.model, case.source, case.mask, case.target
    for attention in (False, True):
        # If an exception has another cause than a wrong result, the law that ran reports it.
        with contextlib.suppress(Exception):
            encoded = cast(object, model.encode(source, mask, attention))
            check("encode", encoded, attention)
            state = model.init_state(_memory(encoded))
            check("step", model.step(target[:, 0], state, _memory(encoded), attention), attention)
        with contextlib.suppress(Exception):
            check("forward", model(source, mask, target, attention), attention)
    if not problems:
        return None
    listed = "; ".join(problems.values())
    if not wrong_types:
        return listed
    return f"{listed}. Since plugin API 2, methods return named tuples: see docs/api-2.md"


FIELDS: dict[str, type] = {"logits": Tensor, "attention": Mapping, "losses": Mapping}
"""The types of fields; those of memory and state differ between networks."""


def _wrong_fields(result: NamedTuple) -> str:
    """Return the fields of a named tuple that have another type, or nothing."""
    wrong = [
        f"{name} of type {type(value).__name__}"
        for name, value in result._asdict().items()
        if not isinstance(value, FIELDS.get(name, object))
    ]
    return f"{type(result).__name__} with {' and '.join(wrong)}" if wrong else ""


def _memory(encoded: object) -> Tree:
    """Return the memory in what `encode` of either version returned."""
    if isinstance(encoded, Encoded):
        return cast(Tree, encoded.memory)
    if type(encoded) is tuple and len(encoded) == 2 and isinstance(encoded[1], dict):
        return cast(Tree, encoded[0])
    return cast(Tree, encoded)


def _type(result: object) -> str:
    if type(result) is tuple:
        return f"a tuple ({', '.join(type(part).__name__ for part in result)})"
    return f"a {type(result).__name__}"
