"""What a run's state holds besides weights: the optimizer's values and those of plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import CheckpointError, PluginError
from zoo.training.sharding import distribute_like

PLAIN = (bool, int, float, str)


class Parts:
    """The schedule and the objectives of a run, by name.

    The state of one is what its `state_dict` returns, if it has that and `load_state_dict`: tensors
    and plain values by name.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.stateful = {
            name: part
            for name, part in parts.items()
            if hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
        }

    def state(self) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
        """Return the tensors by part and name, joined by a slash, and the plain values.

        Raises:
            PluginError: a value is neither.
        """
        tensors: dict[str, Tensor] = {}
        values: dict[str, dict[str, Any]] = {}
        for name, part in self.stateful.items():
            values[name] = {}
            for key, value in part.state_dict().items():
                if isinstance(value, Tensor):
                    tensors[f"{name}/{key}"] = value.detach().cpu()
                else:
                    values[name][key] = plain(value, f"{name}: {key}")
        return tensors, values

    def load(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore what `state` returned.

        Raises:
            CheckpointError: the state is of other parts, or a part does not accept it.
        """
        if set(values) != set(self.stateful):
            raise CheckpointError("the state belongs to other objectives", ", ".join(values))
        for name, part in self.stateful.items():
            begin = f"{name}/"
            own = {k.removeprefix(begin): t for k, t in tensors.items() if k.startswith(begin)}
            try:
                part.load_state_dict({**values[name], **own})
            except CheckpointError:
                raise
            except Exception as error:  # of a plugin
                reason = f"{type(error).__name__}: {error}"
                raise CheckpointError(f"{name} does not accept its state", reason) from error


def plain(value: Any, what: str) -> Any:
    """Return a plain value as JSON has it.

    Raises:
        PluginError: it is something else, which cannot be saved without pickling.
    """
    if value is None or isinstance(value, PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, what) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item, what) for key, item in value.items()}
    raise PluginError(
        "a part of the run cannot be saved",
        f"{what} is {value!r:.100}",
        "Keep tensors, numbers, texts, and lists and tables of these",
    )


def optimizer_state(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, nn.Parameter]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return an optimizer's tensors as WEIGHT/KEY, and its other values.

    Raises:
        PluginError: a value cannot be saved.
    """
    names = {id(weight): name for name, weight in weights.items()}
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for weight, state in optimizer.state.items():
        if id(weight) not in names:
            raise PluginError(
                "a part of the run cannot be saved",
                f"the optimizer's state is of {weight!r:.100}, which is no weight",
                "Keep state by weight, or in the groups",
            )
        for key, value in state.items():
            path = f"{names[id(weight)]}/{key}"
            if isinstance(value, Tensor):
                tensors[path] = value
            else:
                values[path] = plain(value, f"optimizer: {path}")
    groups = [
        {k: plain(v, f"optimizer: {k}") for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]
    return tensors, {"values": values, "groups": groups}


def check_optimizer_state(tensors: Mapping[str, Tensor], weights: Mapping[str, Any]) -> None:
    """Make sure that an optimizer's tensors are of these weights.

    Raises:
        CheckpointError: they are not.
    """
    if not {name.rpartition("/")[0] for name in tensors} <= weights.keys():
        raise CheckpointError("the state belongs to another network", "optimizer differs")


def check_optimizer_values(
    optimizer: torch.optim.Optimizer, weights: Mapping[str, Any], other: Any
) -> None:
    """Make sure that an optimizer's other values are those of `optimizer_state`.

    Raises:
        CheckpointError: they are not.
    """
    tables = isinstance(other, dict)
    values, groups = (other.get("values", {}), other.get("groups", [])) if tables else ({}, [])
    tables &= isinstance(values, dict) and isinstance(groups, list)
    if not tables or not all(isinstance(g, dict) and "params" not in g for g in groups):
        raise CheckpointError("the state of the optimizer is not two tables")
    check_optimizer_state(values, weights)
    for group, saved in zip(optimizer.param_groups, groups, strict=False):
        for key, value in saved.items():
            kinds = {_kind(each) for each in (group.get(key), value) if each is not None}
            if len(kinds) > 1:
                raise CheckpointError("the state of the optimizer differs", f"{key[:100]!r}")


def _kind(value: object) -> str:
    """Return the kind of a value, as far as JSON keeps it."""
    if isinstance(value, list | tuple):
        return "list"
    return "number" if isinstance(value, int | float) else type(value).__name__


def load_optimizer_state(
    optimizer: torch.optim.Optimizer,
    weights: Mapping[str, nn.Parameter],
    tensors: Mapping[str, Tensor],
    other: Mapping[str, Any],
) -> None:
    """Restore what `optimizer_state` returned, whose tensors are whole."""
    for path, value in [*tensors.items(), *other.get("values", {}).items()]:
        name, _, key = path.rpartition("/")
        weight = weights[name]
        if isinstance(value, Tensor):
            value = distribute_like(value, weight) if value.dim() else value.to(weight.device)
        optimizer.state.setdefault(weight, {})[key] = value
    for group, saved in zip(optimizer.param_groups, other.get("groups", ()), strict=False):
        for key, value in saved.items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
