"""The laws of initializations, for the tests of a plugin that brings one.

test_law = zoo.testing.initialization_conformance({"name": "normal", "deviation": 0.05})
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.nn.build import build, network_type
from zoo.nn.contract import BEGIN, END, PADDING, Seq2Seq
from zoo.registry.config import Config, parameters_of
from zoo.registry.declarations import Architecture
from zoo.registry.open_shelf import Named
from zoo.registry.registry import Registry, default_registry
from zoo.testing.case import with_ends
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.losses import loss_of
from zoo.testing.outcomes import conformance_test
from zoo.testing.randomness import draws, require_other_draws
from zoo.training.optimizer import Adam

VOCAB = 17
FIRST = 2.0
"""The most that the first loss may be, relative to that of equal probabilities."""

UPDATES = 100
LEFT = 0.5
"""The part of the first loss that may be left after 100 updates."""


@dataclass(frozen=True)
class InitializationCase:
    """An initialization, by name and options, and a network that it is for."""

    named: Named
    registry: Registry
    declaration: Architecture
    config: Config

    def build(self, seed: int) -> Seq2Seq:
        """Return the network with the weights that it draws itself."""
        torch.manual_seed(seed)
        return build(network_type(self.declaration), self.config, VOCAB, VOCAB)

    @torch.no_grad()
    def initialize(self, network: Seq2Seq) -> Seq2Seq:
        """Change a network's weights in place, as training does, and return it."""
        table = parameters_of(self.config, VOCAB, VOCAB)
        self.registry.initializations.make(self.named, network, table)
        return network

    def loss(self, network: Seq2Seq) -> Tensor:
        """Return the cross-entropy of eight sentences whose targets are copies."""
        draw = torch.Generator().manual_seed(3)
        words = torch.randint(END + 1, VOCAB, (8, 4), generator=draw)
        source = F.pad(words, (0, 1), value=END)
        target = F.pad(source, (1, 0), value=BEGIN)
        with_ends(source, self.config)
        return loss_of(network, source, source != PADDING, target)


def initialization_case(
    named: Named, architecture: str = "seq2seq", registry: Registry | None = None
) -> InitializationCase:
    """Return the case of an initialization, on the example config of an architecture."""
    registry = registry or default_registry()
    declaration = registry.architecture(architecture)
    return InitializationCase(named, registry, declaration, declaration.config_type().example())


@law_of(
    causes="`module.weight = nn.Parameter(…)` in place of `weight.copy_(…)`; a division by 0; a "
    "weight of another type"
)
def weights_change_in_place(case: InitializationCase) -> None:
    """The network keeps its parameters, with their shapes and types, and all are finite."""
    network = case.build(1)
    before = {
        name: (id(w), w.data_ptr(), w.shape, w.dtype, w.requires_grad)
        for name, w in network.named_parameters()
    }
    case.initialize(network)
    after = {
        name: (id(w), w.data_ptr(), w.shape, w.dtype, w.requires_grad)
        for name, w in network.named_parameters()
    }
    if before != after:
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        raise BrokenLawError(f"other parameters, shapes or types: {', '.join(names[:3])}")
    bad = [name for name, w in network.named_parameters() if not bool(w.isfinite().all())]
    if bad:
        raise BrokenLawError(f"weights are not finite: {', '.join(bad[:3])}")


@law_of(
    causes="Python's random or numpy; a torch.Generator of its own; torch.manual_seed",
    requires="weights_change_in_place",
)
def one_seed_gives_one_network(case: InitializationCase) -> None:
    """One seed of torch's default generator gives one network, and another seed other numbers."""
    one, same, other = (
        draws(seed, functools.partial(case.initialize, case.build(2))) for seed in (2, 2, 3)
    )
    weights = dict(same.result.named_parameters())
    differ = [n for n, w in one.result.named_parameters() if not torch.equal(w, weights[n])]
    if differ:
        raise BrokenLawError(f"two networks of one seed differ in {', '.join(differ[:3])}")
    require_other_draws(one, other, "the initialization")


@law_of(
    causes="a deviation that does not depend on the sizes of the matrix; a variance in place of a "
    "deviation",
    requires="weights_change_in_place",
)
@torch.no_grad()
def first_loss_is_small(case: InitializationCase) -> None:
    """The first cross-entropy is at most twice that of equal probabilities."""
    loss = float(case.loss(case.initialize(case.build(3))))
    if not loss <= FIRST * math.log(VOCAB):
        raise BrokenLawError(
            f"the first loss is {loss:.3g}; the threshold is {FIRST} · ln {VOCAB} = "
            f"{FIRST * math.log(VOCAB):.3g}"
        )


@law_of(
    causes="weights that are all equal, so that all units stay equal; weights of 0; weights that "
    "are so small or so large that no gradient is left",
    requires="weights_change_in_place first_loss_is_small",
)
def network_learns(case: InitializationCase) -> None:
    """The network overfits eight sentences: half of the loss is gone after 100 updates."""
    network = case.initialize(case.build(4)).train()
    optimizer = Adam(network.parameters(), 5e-3, fused=True)
    first = case.loss(network).item()
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss = case.loss(network)
        loss.backward()
        optimizer.step()
        if loss.item() <= LEFT * first:
            return
    raise BrokenLawError(
        f"after {UPDATES} updates the loss is {loss.item():.3g}; the threshold is "
        f"{LEFT * first:.3g}, {LEFT} of the first"
    )


INITIALIZATION_LAWS = [
    weights_change_in_place,
    one_seed_gives_one_network,
    first_loss_is_small,
    network_learns,
]
"""All laws of initializations, the most basic first."""


def initialization_conformance(
    named: Named, architecture: str = "seq2seq", registry: Registry | None = None
) -> Callable[[LawOf[InitializationCase]], None]:
    """Return a test of every law of initializations, for one that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe. The network is the example of
    an architecture.
    """
    return conformance_test(
        INITIALIZATION_LAWS, lambda: initialization_case(named, architecture, registry)
    )
