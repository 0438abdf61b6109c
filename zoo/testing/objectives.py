"""The laws of training objectives, for the tests of a plugin that brings one.

test_law = zoo.testing.objective_conformance({"name": "ctc", "weight": 0.3})
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.data.batches import Batch
from zoo.nn.build import build, network_type
from zoo.nn.contract import BEGIN, END, PADDING
from zoo.registry.open_shelf import Named
from zoo.registry.registry import Registry, default_registry
from zoo.testing.case import with_ends
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test
from zoo.testing.small_run import small_setup
from zoo.training.augmentation import Augmentations
from zoo.training.objective import TrainingLoss
from zoo.training.parts import Parts

TEXTS = ("a bad cab", "dab", "a cab faced", "bee", "feed a decade")
SEED = 5
STEP = 1e-5
"""The length of the step of a numerical derivative."""
UPDATES = 3
"""Losses that are computed before a state is saved."""


@dataclass
class ObjectiveCase:
    """An objective on a small network in float64 and in evaluation mode, and a batch."""

    loss: TrainingLoss
    batch: Batch
    make: Callable[[], TrainingLoss]

    def total(self, batch: Batch | None = None, loss: TrainingLoss | None = None) -> Tensor:
        """Return the loss of a batch; torch's default generator always has the same seed."""
        torch.manual_seed(SEED)
        total: Tensor = (loss or self.loss)(batch or self.batch).total
        return total

    def close(self, actual: Tensor, expected: Tensor, what: str, within: float = 1e-9) -> None:
        """Raise unless two numbers are equal, relative to their size.

        Raises:
            BrokenLawError: they are not.
        """
        actual, expected = actual.detach(), expected.detach()
        within = within if expected.dtype == torch.float64 else max(within, 1e-3)
        difference = float((actual - expected).abs() / max(1.0, float(expected.abs())))
        if not difference <= within:
            raise BrokenLawError(
                f"{what}: {float(actual):.10g}, not {float(expected):.10g}; the relative "
                f"threshold is {within:.2g}"
            )


def objective_case(
    named: Named, architecture: str = "rnnsearch", registry: Registry | None = None
) -> ObjectiveCase:
    """Return the case of an objective, on the example config of an architecture.

    Raises:
        ZooError: the objective is unknown or broken, or its options are not valid.
    """
    registry = registry or default_registry()
    setup = small_setup(registry, {"objective": [named]}, architecture, TEXTS)
    network_class = network_type(registry.architecture(architecture))
    tokenizer = setup.source_tokenizer

    def make() -> TrainingLoss:
        torch.manual_seed(SEED)
        network = build(network_class, setup.config, tokenizer.size, tokenizer.size)
        return TrainingLoss(setup, network.double(), Augmentations(setup)).double().eval()

    rows = [torch.tensor(ids) for ids in tokenizer.encode(TEXTS)]
    end, begin = torch.tensor([END]), torch.tensor([BEGIN])
    source = torch.nn.utils.rnn.pad_sequence([torch.cat([row, end]) for row in rows], True)
    with_ends(source, setup.config)
    target = [torch.cat([begin, row.flip(0)[:6], end]) for row in rows]
    targets = torch.nn.utils.rnn.pad_sequence(target, True)
    batch = Batch(source, source != PADDING, targets, torch.arange(len(rows)))
    return ObjectiveCase(make(), batch, make)


@law_of(
    causes="a division by a number of tokens that can be 0; .detach(), .item() or torch.no_grad() "
    "around the loss"
)
def is_one_finite_number(case: ObjectiveCase) -> None:
    """The loss is one finite number with a gradient."""
    total = case.total()
    if not bool(total.isfinite()):
        raise BrokenLawError(f"the loss is {float(total)}")
    if not total.requires_grad:
        raise BrokenLawError("the loss has no gradient: no .detach(), .item() or no_grad")


@law_of(
    causes="padding positions that are not masked; a mean over the padded length",
    requires="is_one_finite_number",
)
def ignores_padding(case: ObjectiveCase) -> None:
    """More padding on the right of source and target changes nothing."""
    source, target = (
        torch.nn.functional.pad(ids, (0, 3), value=PADDING)
        for ids in (case.batch.source, case.batch.target)
    )
    padded = Batch(source, source != PADDING, target, case.batch.indices)
    case.close(case.total(padded), case.total(), "the loss with more padding")


@law_of(
    causes="a mean in place of a sum; padding that counts; rows of a batch that are compared with "
    "each other",
    requires="is_one_finite_number ignores_padding",
)
def is_a_sum_over_rows(case: ObjectiveCase) -> None:
    """The loss of a batch is the sum of the losses of its rows, each without padding."""
    parts = []
    for i in range(len(case.batch.source)):
        source, target = case.batch.source[i : i + 1], case.batch.target[i : i + 1]
        source, target = source[:, source[0] != PADDING], target[:, target[0] != PADDING]
        row = Batch(source, source != PADDING, target, case.batch.indices[i : i + 1])
        parts.append(case.total(row).detach())
    what = "the sum over the rows by themselves"
    case.close(torch.stack(parts).sum(), case.total().detach(), what)


@law_of(
    causes="a detached factor that depends on the weights; random numbers that differ from one "
    "call to the next; a custom backward; .float() of the float64 in which the law computes",
    requires="is_one_finite_number",
)
def gradient_is_the_derivative(case: ObjectiveCase) -> None:
    """The gradient equals the numerical derivative along a random direction."""
    weights = list(case.loss.parameters())
    case.total().backward()
    torch.manual_seed(SEED + 1)
    directions = [torch.randn_like(weight) for weight in weights]
    norm = torch.stack([d.square().sum() for d in directions]).sum().sqrt()
    pairs = zip(weights, directions, strict=True)
    slope = sum((w.grad * d).sum() / norm for w, d in pairs if w.grad is not None)
    sides = []
    with torch.no_grad():
        for side in (1, -1):
            for weight, direction in zip(weights, directions, strict=True):
                weight.add_(direction, alpha=float(side * STEP / norm))
            sides.append(case.total().detach())
            for weight, direction in zip(weights, directions, strict=True):
                weight.sub_(direction, alpha=float(side * STEP / norm))
    numerical = (sides[0] - sides[1]) / (2 * STEP)
    case.close(torch.as_tensor(slope), numerical, "the gradient along a direction", 1e-5)


@law_of(
    causes="a value that bfloat16 rounds to 0; a condition on the dtype",
    requires="is_one_finite_number",
)
def bf16_has_the_same_gradients(case: ObjectiveCase) -> None:
    """With products in bfloat16, the same weights get gradients as in float32."""
    reached = []
    for enabled in (False, True):
        loss = case.make().float()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total = case.total(loss=loss)
        if not bool(total.isfinite()):
            raise BrokenLawError(f"the loss is {float(total)}")
        total.backward()
        named = loss.named_parameters()
        reached.append({name for name, w in named if w.grad is not None and bool(w.grad.any())})
    lost = sorted(reached[0] - reached[1])
    if lost:
        raise BrokenLawError(f"no gradient reaches {', '.join(lost[:3])}")


@law_of(
    causes="state that `state_dict` leaves out or `load_state_dict` does not read; values that "
    "JSON lacks",
    requires="is_one_finite_number",
)
def state_round_trips(case: ObjectiveCase) -> None:
    """What `state_dict` returns, written as JSON and tensors and read back, continues a run."""
    loss, other = case.loss.train(), case.make().train()
    for _ in range(UPDATES):
        case.total(loss=loss).backward()
    tensors, values = Parts(loss.named_parts()).state()
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    Parts(other.named_parts()).load(copies, json.loads(json.dumps(values)))
    again = Parts(other.named_parts()).state()
    if again[1] != values or any(not torch.equal(again[0][key], copies[key]) for key in copies):
        raise BrokenLawError("the state that is read back differs")
    what = f"the loss of a run that is resumed after {UPDATES} updates"
    case.close(case.total(loss=other), case.total(loss=loss), what)


OBJECTIVE_LAWS = [
    is_one_finite_number,
    ignores_padding,
    is_a_sum_over_rows,
    gradient_is_the_derivative,
    bf16_has_the_same_gradients,
    state_round_trips,
]
"""All laws of objectives, the most basic first."""


def objective_conformance(
    named: Named, architecture: str = "rnnsearch", registry: Registry | None = None
) -> Callable[[LawOf[ObjectiveCase]], None]:
    """Return a test of every law of objectives, for one that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe.
    """
    return conformance_test(OBJECTIVE_LAWS, lambda: objective_case(named, architecture, registry))
