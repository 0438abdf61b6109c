"""The law of random numbers: which a network draws, and when."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.errors import ConfigError
from zoo.testing.case import Case, case_of
from zoo.testing.computation import compute
from zoo.testing.law import BrokenLawError, law

DROPOUTS = {
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
    "feature_dropout", "multi_head_attention_forward", "native_dropout",
}  # fmt: skip
"""Functions of torch that drop values if their argument `training` is true, as it often is by
default."""


NO_WEIGHTS: Mapping[str, Tensor] = {}


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


class _Drawing(TorchDispatchMode):
    """Keeps the random numbers that torch draws, whatever their generator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.drawn: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler to leave this class out

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags and isinstance(result, Tensor):
            self.drawn.append(result.detach().clone())
        return result


@law(
    causes="Python's random or numpy; a torch.Generator of the network's; torch.manual_seed; "
    "F.dropout without training=self.training; a dropout_p of scaled_dot_product_attention that is "
    "not 0 in evaluation mode; weights initialized outside torch.nn.init",
    requires="logits_are_finite",
)
def randomness_is_seeded(case: Case) -> None:
    """One seed gives one network and one training result; outside training nothing is random."""
    _require_seeded_weights(case)
    for dropping in (case, *_with_dropout(case)):
        _require_seeded_training(dropping)
        _require_no_randomness(dropping)


def _with_dropout(case: Case) -> list[Case]:
    """Return the case with half of the values dropped, if its config has settings for that."""
    values, kind = case.config.model_dump(mode="json"), type(case.config)
    changed = {
        name: 0.5
        for name, field in kind.model_fields.items()
        if "drop" in name.lower() and field.annotation is float
    }
    if not changed:
        return []
    try:
        return [case_of(case.network, kind.parse({**values, **changed}, "dropout"))]
    except ConfigError:  # a config of one kind of dropout, or of less
        return []


class Draws(NamedTuple):
    """What a call returns, and what it draws.

    The state of torch's default generator after it, torch's numbers, and the seeds of others.
    """

    result: Any
    state: Tensor
    numbers: list[Tensor]
    seeds: list[str]


def draws(seed: int, call: Callable[[], Any]) -> Draws:
    """Call a function with a seed of torch's default generator."""
    torch.manual_seed(seed)
    with _Drawing() as drawing, _seeds_of_others() as given:
        result = call()
    return Draws(result, torch.get_rng_state(), drawing.drawn, given)


def require_other_draws(
    one: Draws, other: Draws, what: str, when: str = "", weights: Mapping[str, Tensor] = NO_WEIGHTS
) -> None:
    """Make sure that what is drawn with two seeds of torch's default generator differs.

    How much is drawn may depend on the seed: the first numbers are compared.

    Args:
        one, other: the calls with the two seeds.
        what: who draws, and `when`, in the messages.
        weights: those that are equal after both calls, by name.

    Raises:
        BrokenLawError: numbers, seeds of other generators or the states are equal.
    """
    for seed, another in zip(one.seeds, other.seeds, strict=False):
        if seed == another:
            raise BrokenLawError(f"{when}{seed}, whatever torch's seed is")
    if torch.equal(one.state, other.state):
        raise BrokenLawError(f"{when}{what} sets the seed of torch's default generator")
    for numbers, others in zip(one.numbers, other.numbers, strict=False):
        if _are_equal(numbers, others):
            of = f"random numbers of shape {list(numbers.shape)}"
            of = f"the random numbers of {', '.join(weights)}" if weights else of
            raise BrokenLawError(f"{when}{of} do not depend on the seed")


def _require_seeded_weights(case: Case) -> None:
    """Build networks with one seed and with another."""
    made = [draws(seed, lambda: dict(case.rebuild().named_parameters())) for seed in (12, 12, 13)]
    one, same, other = (each.result for each in made)
    for name, weight in one.items():
        if not torch.equal(weight, same[name]):
            raise BrokenLawError(f"two networks of one seed differ in {name}")
    equal = {name: weight for name, weight in one.items() if torch.equal(weight, other[name])}
    random_ones = {name: weight for name, weight in equal.items() if len(weight.unique()) >= 3}
    require_other_draws(made[0], made[2], "the constructor", weights=random_ones)
    if one and len(equal) == len(one):
        raise BrokenLawError("networks of two seeds have equal weights")


@contextlib.contextmanager
def _seeds_of_others() -> Iterator[list[str]]:
    """Keep the seeds that the generators of numpy and of Python get, each with the generator."""
    given: list[str] = []

    def keep(name: str, *args: Any, **keywords: Any) -> None:
        for seed in (*args, *keywords.values()):
            if seed is not None and " at 0x" not in repr(seed):  # an address says nothing
                given.append(f"{name} gets the seed {seed!r}")

    def kept_class(name: str, kind: type) -> type:
        def init(self: Any, *args: Any, **keywords: Any) -> None:
            keep(name, *args, **keywords)
            kind.__init__(self, *args, **keywords)  # type: ignore[misc]  # not of an instance

        return type(kind.__name__, (kind,), {"__init__": init})

    def kept(*args: Any, **keywords: Any) -> np.random.Generator:
        keep("numpy.random.default_rng", *args, **keywords)
        return make(*args, **keywords)

    make = np.random.default_rng
    state = kept_class("numpy.random.RandomState", np.random.RandomState)
    with (
        mock.patch.object(np.random, "default_rng", kept),
        mock.patch.object(np.random, "RandomState", state),
        mock.patch.object(random, "Random", kept_class("random.Random", random.Random)),
    ):
        yield given


def _are_equal(numbers: Tensor, others: Tensor) -> bool:
    """Return whether two tensors, of three different fractions or of masks, are equal.

    A mask has eight numbers or more beside the usual one.
    """
    if not torch.equal(numbers, others):  # counting different numbers sorts them
        return False
    counts = numbers.unique(return_counts=True)[1].tolist()
    if numbers.is_floating_point() and len(counts) >= 3:
        return True
    return numbers.numel() - max(counts, default=0) >= 8


def _require_seeded_training(case: Case) -> None:
    """Compute training passes with one seed and with another."""
    case.model.train()
    try:
        batch = case.source, case.mask, case.target
        one, same, other = (draws(seed, lambda: case.model(*batch).logits) for seed in (11, 11, 12))
    finally:
        case.model.eval()
    if not torch.equal(one.result, same.result):
        raise BrokenLawError(
            "two training passes of one seed differ: some random numbers do not come from torch's "
            "default generator"
        )
    require_other_draws(one, other, "the network", "in training, ")


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
