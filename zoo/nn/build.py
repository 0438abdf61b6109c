"""Build networks by name or from their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import index
from typing import Any, SupportsIndex, cast

import torch
from torch.overrides import TorchFunctionMode

from zoo.errors import ConfigError, PluginError, shown
from zoo.nn.contract import UNKNOWN, Memory, Seq2Seq, State
from zoo.nn.device import pick_device
from zoo.nn.faults import broken_network
from zoo.registry.arguments import checked
from zoo.registry.config import Config
from zoo.registry.declarations import Architecture
from zoo.registry.imports import import_object
from zoo.registry.parameters import VOCABULARY_LIMIT
from zoo.registry.registry import Registry, default_registry

MADE_BY = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye,
           torch.linspace, torch.logspace}  # fmt: skip
"""Functions of torch whose tensors are of its default type, unless another is given.

`torch.full` is not among them: the type of its value decides.
"""


class _Building(TorchFunctionMode):
    """How weights are made while a network is built.

    Args:
        without_values: no random numbers are drawn: on the meta device, torch is slow at that.
        in_float32: they are float32, whatever torch's default type is: random numbers depend on it.
    """

    def __init__(self, without_values: bool, in_float32: bool) -> None:
        super().__init__()
        self.without_values, self.in_float32 = without_values, in_float32

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = dict(kwargs or {})
        if self.without_values and getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else keywords["tensor"]
        if self.in_float32 and func in MADE_BY and keywords.get("dtype") is None:
            keywords["dtype"] = torch.float32
        return func(*args, **keywords)


def network_type(architecture: Architecture) -> type[Seq2Seq]:
    """Import and return an architecture's network class.

    Raises:
        PluginError: it cannot be imported, or is no class.
    """
    what = f"architecture {architecture.name!r}"
    network = import_object(architecture.network, what)
    if not isinstance(network, type):
        reason = f"{architecture.network} is {shown(network)}, not a class"
        raise PluginError(f"{what} is broken", reason, "Report this to its author")
    return cast("type[Seq2Seq]", network)


def build(
    network: type[Seq2Seq[Memory, State]],
    config: Config,
    source_vocab: int,
    target_vocab: int,
    device: str | torch.device = "cpu",
) -> Seq2Seq[Memory, State]:
    """Build a network on a device; on `meta`, its weights have shapes but no values.

    They are float32, and the same numbers are drawn, whatever torch's default type is.

    Raises:
        ConfigError: the network refuses the configuration with these vocabularies.
        PluginError: its constructor raises another error.
    """
    try:
        without_values = torch.device(device).type == "meta"
        is_usual = torch.get_default_dtype() is torch.float32
        with torch.device(device), _Building(without_values, not is_usual):
            made = network(config, source_vocab, target_vocab)
            if not hasattr(made, "source_vocab"):
                call = "super().__init__(config, source_vocab, target_vocab)"
                raise TypeError(f"it has to call {call}")
        return made if is_usual else made.float()
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"{network.__name__} cannot be built", str(error)) from error
    except Exception as error:
        reason = f"its constructor raised {type(error).__name__}: {error}"
        raise broken_network(network, reason) from error


@checked
def create_model(
    name: str,
    *,
    source_vocab: int | None = None,
    target_vocab: int | None = None,
    device: str | torch.device = "cpu",
    registry: Registry | None = None,
    **overrides: object,
) -> Seq2Seq:
    """Return a new network of the named model, with fresh weights in float32.

    Args:
        name: a model of the registry.
        source_vocab, target_vocab: vocabulary sizes, special tokens included; by default the
            model's reference sizes.
        device: where to build it: a device of this machine, `auto`, or `meta` for weights that have
            shapes but no values.
        registry: the registry to use; by default that of the installed plugins.
        overrides: values that replace those of the model's configuration.

    Raises:
        ZooError: the name is unknown, its plugin is missing, or a value does not fit.
    """
    registry = registry or default_registry()
    entry = registry.find_model(name)
    sizes = (
        entry.source_vocab if source_vocab is None else source_vocab,
        entry.target_vocab if target_vocab is None else target_vocab,
    )
    of_source, of_target = map(_checked_size, ("source_vocab", "target_vocab"), sizes)
    config = registry.config(name, overrides)
    network = network_type(registry.architecture(entry.architecture))
    picked = device if str(device) == "meta" else pick_device(device)
    return build(network, config, of_source, of_target, picked)


def _checked_size(side: str, size: object) -> int:
    """Return the size of a vocabulary, which may be NumPy's integer.

    Raises:
        ConfigError: it is no integer, or is out of bounds.
    """
    whole = -1
    if not isinstance(size, bool | type):  # a class has the method too
        with suppress(TypeError):  # so has an array, of which index accepts a single integer
            whole = index(cast(SupportsIndex, size))
    if not UNKNOWN < whole <= VOCABULARY_LIMIT:
        raise ConfigError(
            f"{side} cannot be {shown(size)}",
            f"it is an integer from {UNKNOWN + 1}, the number of special tokens, to "
            f"{VOCABULARY_LIMIT:,}",
        )
    return whole
