"""What a law is tried on: a network on its example config, and a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoo.nn.build import build, network_type
from zoo.nn.contract import BEGIN, END, PADDING, Seq2Seq
from zoo.registry.config import Config
from zoo.registry.declarations import Architecture
from zoo.registry.registry import Registry, default_registry

SOURCE_VOCAB, TARGET_VOCAB = 19, 17
SOURCE_LENGTHS, TARGET_LENGTHS = (3, 9, 5, 7, 4), (8, 4, 6, 5, 8)
ROWS, BEAM = len(SOURCE_LENGTHS), 3


@dataclass
class Case:
    """An architecture's network on its example config, and a batch to try it on.

    `declared` and `names` say how a registry knows it; a network by itself has neither.
    """

    network: type[Seq2Seq]
    config: Config
    model: Seq2Seq
    source: Tensor
    mask: Tensor
    target: Tensor
    declared: Architecture | None = None
    registry: Registry | None = None

    def again(self, device: str = "cpu") -> Seq2Seq:
        """Return another network of the same configuration, with weights of its own."""
        return build(self.network, self.config, self.model.source_vocab, TARGET_VOCAB, device)


def case(architecture: str, registry: Registry | None = None, **values: Any) -> Case:
    """Build the case of an architecture of the registry; `values` override its example config.

    Raises:
        ZooError: no plugin brings it, or a value does not fit.
    """
    registry = registry or default_registry()
    declared = registry.architecture(architecture)
    config_type = declared.config_type()
    config = config_type.example()
    if values:
        given = {**config.model_dump(mode="json"), **values}
        config = config_type.parse(given, f"example of {architecture}")
    made = case_of(network_type(declared), config)
    made.declared, made.registry = declared, registry
    return made


def case_of(network: type[Seq2Seq], config: Config) -> Case:
    """Build the case of a network and a config."""
    torch.manual_seed(5)
    source_vocab = TARGET_VOCAB if config.one_vocabulary else SOURCE_VOCAB
    model = build(network, config, source_vocab, TARGET_VOCAB).double().eval()
    source, target = _tokens(SOURCE_LENGTHS, source_vocab), _tokens(TARGET_LENGTHS, TARGET_VOCAB)
    for row, length in enumerate(SOURCE_LENGTHS):
        source[row, length - 1] = END
    target[:, 0] = BEGIN
    return Case(network, config, model, source, source != PADDING, target)


def _tokens(lengths: tuple[int, ...], vocab: int) -> Tensor:
    tokens = torch.randint(END + 1, vocab, (len(lengths), max(lengths)))
    return tokens.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PADDING)
