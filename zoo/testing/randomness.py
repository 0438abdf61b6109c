"""The law of random numbers: which a network draws, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from zoo.testing.case import Case
from zoo.testing.computation import compute
from zoo.testing.law import BrokenLawError, law

DROPOUTS = {
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
    "feature_dropout", "multi_head_attention_forward", "native_dropout",
}  # fmt: skip
"""Functions of torch that drop values if their argument `training` is true, as it often is by
default."""


class _WithoutDropout(TorchFunctionMode):
    """Refuses dropout, also with a probability of 0, as examples of configs often have it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        name = getattr(func, "__name__", "").removesuffix("_")
        if name in DROPOUTS:
            # torch's own functions of C name it `train`, or have it as their third argument.
            named = [keywords[key] for key in ("training", "train") if key in keywords]
            if any(named or args[2:3]):
                raise BrokenLawError(f"{name} has training=True outside training mode")
        return func(*args, **keywords)


@law(
    causes="Python's random or numpy; a torch.Generator of the network's; torch.manual_seed; "
    "F.dropout without training=self.training; weights initialized outside torch.nn.init",
    requires="logits_are_finite",
)
def randomness_is_seeded(case: Case) -> None:
    """One seed gives one network and one training result; outside training nothing is random."""
    _require_seeded_weights(case)
    _require_seeded_training(case)
    _require_no_randomness(case)


def _require_seeded_weights(case: Case) -> None:
    """Build networks with one seed and with another."""
    networks, states = [], []
    for seed in (12, 12, 13):
        torch.manual_seed(seed)
        networks.append(dict(case.rebuild().named_parameters()))
        states.append(torch.get_rng_state())
    one, same, other = networks
    for name, weight in one.items():
        if not torch.equal(weight, same[name]):
            raise BrokenLawError(f"two networks of one seed differ in {name}")
    if torch.equal(states[0], states[2]):
        raise BrokenLawError("the constructor sets the seed of torch's default generator")
    if one and all(torch.equal(weight, other[name]) for name, weight in one.items()):
        raise BrokenLawError("networks of two seeds have equal weights")


def _require_seeded_training(case: Case) -> None:
    """Compute training passes with one seed and with another."""
    logits, states = [], []
    case.model.train()
    try:
        for seed in (11, 11, 12):
            torch.manual_seed(seed)
            logits.append(case.model(case.source, case.mask, case.target).logits)
            states.append(torch.get_rng_state())
    finally:
        case.model.eval()
    if not torch.equal(logits[0], logits[1]):
        raise BrokenLawError(
            "two training passes of one seed differ: some random numbers do not come from torch's "
            "default generator"
        )
    if torch.equal(states[0], states[2]):
        raise BrokenLawError("in training, the network sets the seed of torch's default generator")


def _require_no_randomness(case: Case) -> None:
    """Run all methods twice outside training mode."""
    results = []
    for seed in (2, 3):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        with _WithoutDropout():
            results.append(compute(case, case.model, "cpu"))
        if not torch.equal(before, torch.get_rng_state()):
            raise BrokenLawError("random numbers are drawn outside training mode")
    for name in ("step", "forward"):
        one, other = (getattr(result, name) for result in results)
        if not torch.equal(one, other):
            raise BrokenLawError(f"the logits of {name} are random outside training mode")
