"""Laws of how a network computes: device and precision."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zoo.nn.contract import NonAutoregressive, Seq2Seq
from zoo.nn.tree import Tree, tensors
from zoo.testing.case import Case, pad
from zoo.testing.law import BrokenLawError, law, require_close
from zoo.testing.losses import loss_of
from zoo.testing.own_search import decode

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.25}
"""Largest difference of each precision from float64, as a fraction of the largest logit."""
UNUSUAL = 53
"""Columns of padding that give sources and targets lengths which no other law has."""
NEAR = 1e-5
"""The relative change of weights that are near: many times the rounding of float32."""


class Results(NamedTuple):
    """What encode, init_state, step and forward compute; step and forward as their logits.

    Of a network with a search of its own, `state` is what `decode` returns, `step` is `forward`.
    """

    memory: Tree
    state: Tree
    step: Tensor
    next_state: Tree
    forward: Tensor

    def named_tensors(self) -> list[tuple[str, Tensor]]:
        """Return every tensor with the name of the result that holds it."""
        named = zip(self._fields, self, strict=True)
        return [(name, tensor) for name, tree in named for tensor in tensors(tree)]


def compute(case: Case, model: Seq2Seq, device: str) -> Results:
    """Run a model on the case's batch, on a device."""
    source, mask, target = (t.to(device) for t in (case.source, case.mask, case.target))
    if source.is_floating_point():
        source = source.to(next(model.parameters()).dtype)
    memory = model.encode(source, mask).memory
    if isinstance(model, NonAutoregressive):
        decoded = decode(model, memory, mask)
        logits = model(source, mask, target).logits
        return Results(memory, tuple(decoded), logits, (), logits)
    state = model.init_state(memory)
    step = model.step(target[:, 0], state, memory)
    return Results(memory, state, step.logits, step.state, model(source, mask, target).logits)


class _OneDevice(TorchDispatchMode):
    """Refuses operations on tensors of two devices, like a GPU; only copies may cross devices."""

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
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        devices = {tensor.device.type for tensor in operands}
        keywords = kwargs or {}
        is_copy = func is torch.ops.aten._to_copy.default and keywords.get("device")
        if is_copy and operands[0].is_meta:
            # A meta tensor has no values to copy; what matters here is only the new device.
            dtype = keywords.get("dtype") or operands[0].dtype
            return torch.ones(operands[0].shape, dtype=dtype, device=keywords["device"])
        # The lengths of packed sequences must be on the CPU, wherever the sequences are.
        if len(devices) > 1 and func is not torch.ops.aten._pack_padded_sequence.default:
            raise BrokenLawError(f"{func} received tensors on {' and '.join(sorted(devices))}")
        return func(*args, **keywords)


@law(
    causes="torch.arange, zeros, ones, full or tensor without device=x.device; a device written "
    "as a string; a tensor kept as a plain attribute, which .to(device) does not move",
    requires="step_is_pure batches_are_independent",
)
@torch.no_grad()
def tensors_follow_the_device(case: Case) -> None:
    """Every tensor is created on the device of the weights and the source."""
    # A tensor created without a device lands on the default one: make that differ from the model's.
    with torch.device("meta"), _OneDevice():  # type: ignore[no-untyped-call]  # torch's own
        results = compute(case, case.model, "cpu")
    _require_device("cpu", results)
    # The other way round, for a device written as a string. Meta tensors have no values: code that
    # needs some raises, and is not checked in this direction.
    meta = copy.deepcopy(case.model).to("meta")
    with contextlib.suppress(RuntimeError, NotImplementedError, ValueError, IndexError):
        with _OneDevice():  # type: ignore[no-untyped-call]  # torch's own
            results = compute(case, meta, "meta")
        _require_device("meta", results)
    if torch.cuda.is_available():
        expected = compute(case, case.model, "cpu")
        results = compute(case, copy.deepcopy(case.model).to("cuda"), "cuda")
        _require_device("cuda", results)
        for name in ("forward", "step"):
            actual = getattr(results, name).cpu()
            what = f"{name} differs on the GPU"
            require_close(actual, getattr(expected, name), what, tolerance=1e-6)


def _require_device(device: str, results: Results) -> None:
    for name, tensor in results.named_tensors():
        if tensor.device.type != device:
            raise BrokenLawError(
                f"{name} holds a tensor {tuple(tensor.shape)} on {tensor.device}, but the model is "
                f"on {device}"
            )


@law(
    causes="a tensor created without dtype=x.dtype; -1e9 or another constant that a small type "
    "cannot hold; .float() or .double() that is not undone; a sum of very many small numbers; in "
    "autocast, a product that is assigned or added in place to a tensor of its factor's type",
    requires="results_are_named_tuples",
)
@torch.no_grad()
def every_precision_works(case: Case) -> None:
    """In float64, float32, bfloat16 and autocast, results are finite and agree, of their type."""
    expected: Results | None = None
    for precision, tolerance in TOLERANCES.items():
        dtype_name = str(precision).removeprefix("torch.")
        with _naming(dtype_name):
            results = compute(case, copy.deepcopy(case.model).to(precision), "cpu")
        for name, tensor in results.named_tensors():
            if tensor.is_floating_point() and tensor.dtype != precision:
                raise BrokenLawError(f"{name} holds {tensor.dtype}, the weights are {dtype_name}")
        expected = expected or results  # float64's
        for name in ("forward", "step"):
            _require_precision(name, getattr(results, name), expected, dtype_name, tolerance)
    assert expected is not None
    source = case.source.float() if case.config.features else case.source
    # As in training with `precision = "bf16"`, which "auto" tries: products are bfloat16.
    with _naming("autocast"), torch.autocast("cpu", torch.bfloat16):
        logits = copy.deepcopy(case.model).float()(source, case.mask, case.target).logits
    _require_precision("forward", logits, expected, "autocast", TOLERANCES[torch.bfloat16])


@contextlib.contextmanager
def _naming(precision: str) -> Iterator[None]:
    """Name the precision in which the network raises an error."""
    try:
        yield
    except RuntimeError as error:
        raise BrokenLawError(f"{precision} fails: {error}") from error


def _require_precision(
    name: str, logits: Tensor, expected: Results, precision: str, tolerance: float
) -> None:
    """Raise unless the logits that a method gives are finite and near those of float64."""
    if not logits.isfinite().all():
        raise BrokenLawError(f"{name} gives infinite or NaN logits in {precision}")
    scale = float(expected.forward.abs().max())
    what = f"{name} in {precision} differs from float64"
    require_close(logits, getattr(expected, name), what, tolerance * scale)


@law(
    causes="a product without rows, such as that of an expert to which no token is routed (use "
    "zoo.nn.Linear); a backward pass of your own whose result has another type, or which a small "
    "type cannot hold; the square root or the norm of zeros",
    requires="every_precision_works every_parameter_gets_a_gradient",
)
def every_precision_trains(case: Case) -> None:
    """In float32 and autocast, gradients are finite; in float32 they are those of float64."""
    expected = _gradients(case, torch.float64)
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    spread = 0.0
    for shaken in (NEAR, -NEAR):  # one of them crosses the kink of a ReLU, if rounding does
        torch.manual_seed(13)
        for name, gradient in _gradients(case, torch.float64, shaken=shaken).items():
            spread = max(spread, float((gradient - expected[name]).abs().max()))
    within = TOLERANCES[torch.float32] * largest + 2 * spread
    for name, gradient in _gradients(case, torch.float32).items():
        require_close(gradient, expected[name], f"the gradient of {name} in float32", within)
    torch.manual_seed(13)
    _gradients(case, torch.float32, training=True)
    with torch.autocast("cpu", torch.bfloat16):
        _gradients(case, torch.float32, training=True)


def _gradients(
    case: Case, precision: torch.dtype, training: bool = False, shaken: float = 0.0
) -> dict[str, Tensor]:
    """Return the gradients of the loss, by weight, which have to be finite.

    `shaken` is the relative standard deviation of a change of the weights.
    """
    named = "autocast" if torch.is_autocast_enabled("cpu") else str(precision)[len("torch.") :]
    model = copy.deepcopy(case.model).to(precision).train(training)
    model.zero_grad()  # a copy has the gradients of the laws before
    with torch.no_grad():
        for weight in model.parameters() if shaken else ():
            weight.mul_(1 + shaken * torch.randn_like(weight))
    source = case.source.to(precision) if case.config.features else case.source
    with _naming(f"training in {named}"):
        loss_of(model, source, case.mask, case.target).backward()
    gradients = {n: w.grad for n, w in model.named_parameters() if w.grad is not None}
    for name, gradient in gradients.items():
        if not gradient.isfinite().all():
            raise BrokenLawError(f"the gradient of {name} in {named} is infinite or NaN")
    return gradients


@law(
    causes="a table that is computed once and kept, such as one of positions: make it within "
    "torch.inference_mode(False), or compute it each time",
    requires="every_parameter_gets_a_gradient",
)
def training_follows_translation(case: Case) -> None:
    """A network that has translated, in inference mode, can be trained, as after a validation."""
    limits = case.config.length_limits
    # Lengths that no other law has: a table may be kept by the module, for each length.
    longer = [
        max(0, min(columns, (limit or sys.maxsize) - 2 - tensor.shape[1]))
        for columns, limit, tensor in (
            (UNUSUAL, limits.source, case.source),
            (UNUSUAL + 1, limits.target, case.target),
        )
    ]
    long = replace(
        case,
        source=pad(case.source, longer[0]),
        mask=pad(case.mask, longer[0]),
        target=pad(case.target, longer[1]),
    )
    with torch.inference_mode():
        compute(long, case.model, "cpu")
    case.model.train()
    case.model(long.source, long.mask, long.target).logits.sum().backward()
    case.model.eval()
