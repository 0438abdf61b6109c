"""What a law is tried on: a network on its example config, and a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.config import Config
from zoo.model import BEGIN, END, PADDING, Seq2Seq, build
from zoo.registry import Registry, registry

SOURCE_VOCAB, TARGET_VOCAB = 19, 17
SOURCE_LENGTHS, TARGET_LENGTHS = (3, 9, 5, 7, 4), (8, 4, 6, 5, 8)
ROWS, BEAM = len(SOURCE_LENGTHS), 3
CLOSE = 1e-9


class BrokenLawError(AssertionError):
    """A law of the contract does not hold."""


@dataclass
class Case:
    """An architecture's network on its example config, and a batch to try it on."""

    network: type[Seq2Seq]
    config: Config
    model: Seq2Seq
    source: Tensor
    mask: Tensor
    target: Tensor


def case(architecture: str, names: Registry | None = None) -> Case:
    """Build the case of an architecture of the registry."""
    declared = (names or registry()).architecture(architecture)
    config, network = declared.config_type().example(), declared.network_type()
    return case_of(network, config)


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


def same(seen: Tensor, wanted: Tensor, what: str, cause: str) -> None:
    """Raise unless the two are equal to within `CLOSE`."""
    if seen.shape != wanted.shape:
        raise BrokenLawError(
            f"{what}: shape {tuple(seen.shape)}, not {tuple(wanted.shape)}. {cause}"
        )
    off = float((seen - wanted).abs().max()) if seen.numel() else 0.0
    if not off < CLOSE:
        raise BrokenLawError(f"{what}: off by {off:.2g}. {cause}")
