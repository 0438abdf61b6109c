"""Laws of where and how it computes: devices, precisions, and the generator of randomness."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from zoo.nn.tree import tensors
from zoo.testing.case import Case
from zoo.testing.law import BrokenLawError, law, same

NEAR = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.25}
"""How near answers of each precision are to those of float64, as a part of the largest logit."""


def answers(case: Case, model: torch.nn.Module, device: str) -> dict[str, Any]:
    """Return what encode, init_state, step and forward give on a device."""
    source, mask, target = (t.to(device) for t in (case.source, case.mask, case.target))
    memory = model.encode(source, mask).memory  # type: ignore[operator]  # a Seq2Seq
    state = model.init_state(memory)  # type: ignore[operator]
    logits, after, _ = model.step(target[:, 0], state, memory)  # type: ignore[operator]
    found = {"memory": memory, "state": state, "step": logits, "state after a step": after}
    return found | {"forward": model(source, mask, target).logits}


class _OneDevice(TorchDispatchMode):
    """Refuses tensors of two devices in one operation, as a GPU would; copies alone cross over."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        kinds = {tensor.device.type for tensor in given}
        named = kwargs or {}
        if func is torch.ops.aten._to_copy.default and named.get("device") and given[0].is_meta:
            # There are no values to copy; what is asked here is only where they would be.
            dtype = named.get("dtype") or given[0].dtype
            return torch.ones(given[0].shape, dtype=dtype, device=named["device"])
        # The lengths of packed sequences belong on the CPU wherever the sequences are.
        if len(kinds) > 1 and func is not torch.ops.aten._pack_padded_sequence.default:
            raise BrokenLawError(f"{func} was given tensors on {' and on '.join(sorted(kinds))}")
        return func(*args, **named)


@law(
    causes="torch.arange, zeros, ones, full or tensor without device=x.device; a device written "
    "out as a word; a tensor kept as a plain attribute, which .to(device) does not move"
)
@torch.no_grad()
def no_tensor_is_left_on_another_device(case: Case) -> None:
    """Every tensor is made where the weights and the source are."""
    # A tensor made without a device lands on the default one: make that another than the model's.
    with torch.device("meta"), _OneDevice():  # type: ignore[no-untyped-call]  # torch's own
        found = answers(case, case.model, "cpu")
    _all_on("cpu", found)
    # And the other way round, for a device that is written out. Here there are no values: what
    # needs some cannot be judged so.
    meta = copy.deepcopy(case.model).to("meta")
    with contextlib.suppress(RuntimeError, NotImplementedError, ValueError, IndexError):
        with _OneDevice():  # type: ignore[no-untyped-call]  # torch's own
            found = answers(case, meta, "meta")
        _all_on("meta", found)
    if torch.cuda.is_available():
        wanted = answers(case, case.model, "cpu")
        found = answers(case, copy.deepcopy(case.model).to("cuda"), "cuda")
        _all_on("cuda", found)
        for part in ("forward", "step"):
            same(found[part].cpu(), wanted[part], f"{part} on the GPU differs", within=1e-6)


def _all_on(device: str, found: dict[str, Any]) -> None:
    for name, tree in found.items():
        for tensor in tensors(tree):
            if tensor.device.type != device:
                raise BrokenLawError(
                    f"{name} holds a tensor {tuple(tensor.shape)} on {tensor.device}, the model "
                    f"being on {device}"
                )


@law(
    causes="a tensor made without dtype=x.dtype; -1e9 or another constant that a small type "
    "cannot hold; .float() or .double() not undone; a sum of very many small numbers"
)
@torch.no_grad()
def every_precision_works(case: Case) -> None:
    """In float64, float32 and bfloat16 it answers in kind, finite, and much the same."""
    wanted: dict[str, Any] = {}
    for precision, near in NEAR.items():
        name = str(precision).removeprefix("torch.")
        try:
            found = answers(case, copy.deepcopy(case.model).to(precision), "cpu")
        except RuntimeError as error:
            raise BrokenLawError(f"{name} fails: {error}") from error
        for part, tree in found.items():
            for tensor in tensors(tree):
                if tensor.is_floating_point() and tensor.dtype != precision:
                    raise BrokenLawError(f"with weights of {name}, {part} holds {tensor.dtype}")
        wanted = wanted or found  # float64's
        scale = float(wanted["forward"].abs().max())
        for part in ("forward", "step"):
            if not found[part].isfinite().all():
                raise BrokenLawError(f"{part} gives infinities in {name}")
            same(found[part].double(), wanted[part], f"{part} in {name}", within=near * scale)


@law(
    causes="Python's random or numpy; a torch.Generator of its own; F.dropout without "
    "training=self.training; weights drawn outside torch.nn.init"
)
def randomness_is_seeded(case: Case) -> None:
    """One seed gives one network and, in training, one answer; out of it there is no randomness."""
    networks = []
    for _ in range(2):
        torch.manual_seed(12)
        networks.append(case.again())
    for (name, one), other in zip(
        networks[0].named_parameters(), networks[1].parameters(), strict=True
    ):
        if not torch.equal(one, other):
            raise BrokenLawError(f"one seed gives two first values of {name}")
    found: list[Tensor] = []
    for training in (True, True, False, False):
        torch.manual_seed(11 if training else len(found))
        before = torch.get_rng_state()
        case.model.train(training)
        found.append(case.model(case.source, case.mask, case.target).logits.detach())
        if not training and not torch.equal(before, torch.get_rng_state()):
            raise BrokenLawError("random numbers are drawn outside training mode")
    case.model.eval()
    if not torch.equal(found[0], found[1]):
        raise BrokenLawError(
            "one seed gives two answers: some randomness is not torch's default generator"
        )
    if not torch.equal(found[2], found[3]):
        raise BrokenLawError("randomness outside training mode")
