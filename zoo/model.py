"""The contract that every network meets, and the function that makes one by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from zoo.config import Config
from zoo.errors import ConfigError
from zoo.registry import Registry, registry
from zoo.tree import Tree

PADDING, BEGIN, END, UNKNOWN = range(4)
"""The ids of the special tokens, in every vocabulary."""


class Seq2Seq(nn.Module, ABC):
    """An encoder–decoder. `Network(config, source_vocab, target_vocab)` builds it.

    Batch first; masks are bool, True where there is a real token; padding on the right. A source
    ends with the end token, a target begins with the begin token, and `logits[:, i]` predict
    token i + 1. `encode`, `step` and `forward` take `attention=True` and then also return a
    mapping from kind (`encoder`, `decoder`, `cross`) to weights, (rows, layers, heads, queries,
    keys).

    Memory and state are nested NamedTuples, tuples or lists of tensors, `zoo.Cache`s and
    `zoo.Past`s, rows on dimension 0. Memory rows are sentences; state rows are sentences × beam, a
    sentence's rows adjacent; memory is never copied per beam. A `step` must not change what it is
    given.

    A network has no buffers outside its weights: what can be computed is computed. Randomness
    comes from torch's default generators alone.
    """

    def __init__(self, config: Config, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        if config.one_vocabulary and source_vocab != target_vocab:
            raise ValueError(
                f"this configuration needs one vocabulary: {source_vocab:,} is not {target_vocab:,}"
            )
        self.source_vocab, self.target_vocab = source_vocab, target_vocab

    @abstractmethod
    def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
        """Read the sources, (sentences, m) int64, with their mask, into memory."""

    @abstractmethod
    def init_state(self, memory: Tree) -> Tree:
        """Return the state before the first token, one row a sentence."""

    @abstractmethod
    def step(self, token: Tensor, state: Tree, memory: Tree, attention: bool = False) -> Any:
        """Read one token a row, (rows,) int64; return logits (rows, target_vocab) and state."""

    @abstractmethod
    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Any:
        """Return logits (sentences, n, target_vocab) of all positions at once, given the target.

        `target` is (sentences, n) int64. This is what training calls.
        """


class _Undrawn(TorchFunctionMode):
    """Draws nothing: where there are shapes alone, torch takes a second to do it in Python."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def build(
    network: type[Seq2Seq],
    config: Config,
    source_vocab: int,
    target_vocab: int,
    device: str | torch.device = "cpu",
) -> Seq2Seq:
    """Build a network on a device; on `meta`, shapes alone.

    Raises:
        ConfigError: the network refuses the configuration with these vocabularies.
    """
    try:
        shapes_alone = torch.device(device).type == "meta"
        with torch.device(device), _Undrawn() if shapes_alone else nullcontext():
            return network(config, source_vocab, target_vocab)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"{network.__name__} cannot be built", str(error)) from error


def create_model(
    name: str,
    *,
    source_vocab: int | None = None,
    target_vocab: int | None = None,
    device: str | torch.device = "cpu",
    names: Registry | None = None,
    **overrides: Any,
) -> Seq2Seq:
    """Return a new network of the named model, with fresh weights.

    Args:
        name: a model of the registry.
        source_vocab, target_vocab: sizes, special tokens included; by default the model's
            reference sizes.
        device: where to build it.
        names: another registry than the installed plugins'.
        overrides: values of the model's configuration.

    Raises:
        ZooError: the name is unknown, its plugin is missing, or a value does not fit.
    """
    names = names or registry()
    entry = names.model(name)
    config = names.config(name, overrides)
    network = names.architecture(entry.architecture).network_type()
    return build(
        network,
        config,
        entry.source_vocab if source_vocab is None else source_vocab,
        entry.target_vocab if target_vocab is None else target_vocab,
        device,
    )
