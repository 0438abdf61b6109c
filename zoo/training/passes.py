"""The forward and the backward pass of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from zoo.data.batches import Batch
from zoo.errors import FAILURES
from zoo.nn.cuda_graphs import (
    Snapshot,
    can_record,
    declares_recordable,
    failures,
    held_tensors,
    new_pool,
    new_stream,
    on_stream,
    record,
)
from zoo.registry.recipe import Recipe
from zoo.training.augmentation import Augmentation, WordDropout
from zoo.training.objective import CrossEntropy, Loss, RDrop, TrainingLoss
from zoo.training.precision import autocast
from zoo.training.process_group import ProcessGroup

MOST_SHAPES = 256
"""The most shapes of batches that are recorded; others are computed as usual."""

MEMORY_SHARE = 3
"""Nothing is recorded once training has used one part in so many of the GPU's memory."""

Parts = Mapping[str, Tensor]
"""A network's and the objectives' own losses, by name."""


class Passes:
    """Computes the loss of batches and adds its gradients to those of the weights.

    Args:
        compute: from a batch to its loss.
        weights: those that may be trained.
        device: theirs.
        precision: `float32` or `bf16`.
    """

    def __init__(
        self,
        compute: Callable[[Batch], Loss],
        weights: Sequence[nn.Parameter],
        device: torch.device,
        precision: str,
    ) -> None:
        self._compute, self._weights = compute, list(weights)
        self.device, self._precision = device, precision

    def clear(self) -> None:
        """Begin an update: there are no gradients."""
        for weight in self._weights:
            weight.grad = None

    def __call__(
        self, batch: Batch, tokens: int, weight: float = 1.0, copies: int = 1
    ) -> tuple[Tensor, Parts]:
        """Return a batch's loss per token, without gradient, and the parts of its whole loss.

        Args:
            batch: on the device.
            tokens: the number of target tokens of the update.
            weight: of the batch.
            copies: what the gradient is multiplied by besides.
        """
        return self._run(batch, tokens, weight, copies)

    def _run(
        self, batch: Batch, tokens: int | Tensor, weight: float = 1.0, copies: int = 1
    ) -> tuple[Tensor, Parts]:
        with autocast(self.device, self._precision):
            loss = self._compute(batch)
        mean = loss.total * weight / tokens
        (mean * copies).backward()
        return mean.detach(), {name: part.detach() for name, part in loss.own.items()}


class RecordedPasses(Passes):
    """Passes that an NVIDIA GPU repeats as it has recorded them, for each shape of a batch.

    A shape is recorded when it comes a second time. What is computed is the same. Nothing is
    recorded any more once that has failed, as for a network that waits for the GPU, and nothing of
    a network of which a batch does not use every weight. One process computes all rows of a batch.

    Args:
        compute, weights, device, precision: as for `Passes`.
        networks: whose settings and hooks must stay as they are recorded.
    """

    def __init__(
        self,
        compute: Callable[[Batch], Loss],
        weights: Sequence[nn.Parameter],
        device: torch.device,
        precision: str,
        networks: list[nn.Module],
    ) -> None:
        super().__init__(compute, weights, device, precision)
        self.failure = ""  # not the error, which holds tensors
        self._networks = networks
        self._snapshot: Snapshot | None = None
        self._addresses: list[tuple[int, bool]] = []
        self._pool: Any = None
        self._failures = failures()
        self._stream: torch.cuda.Stream | None = None
        self._seen: set[Any] = set()
        self._recorded: dict[Any, _Recorded] = {}
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []

    def clear(self) -> None:
        """Begin an update: the gradients are zero, in the memory where they have been before."""
        super().clear()
        for weight, gradient in self._gradients:
            weight.grad = gradient
        if self._gradients:
            torch._foreach_zero_([gradient for _, gradient in self._gradients])

    def __call__(
        self, batch: Batch, tokens: int, weight: float = 1.0, copies: int = 1
    ) -> tuple[Tensor, Parts]:
        """Return a batch's loss per token, without gradient, and the parts of its whole loss."""
        assert weight == copies == 1
        self._look()
        # All on one stream: backward passes add to a gradient on the stream of the first one.
        with self._on_stream():
            return self._compute_batch(batch, tokens)

    def _compute_batch(self, batch: Batch, tokens: int) -> tuple[Tensor, Parts]:
        key = tuple((part.shape, part.dtype) for part in batch)
        if key in self._recorded:
            return self._recorded[key].repeat(batch, tokens)
        if key in self._seen and self._gradients and self._may_record():
            return self._record(key, batch, tokens)
        self._seen.add(key)
        result = self._run(batch, tokens)
        if not self._gradients:
            trained = [weight for weight in self._weights if weight.requires_grad]
            self._gradients = [(w, w.grad) for w in trained if w.grad is not None]
        return result

    def _on_stream(self) -> contextlib.AbstractContextManager[Any]:
        self._stream = self._stream or new_stream(self.device)
        return on_stream(self._stream)

    def _look(self) -> None:
        """Forget what was recorded of other settings, or of weights that were elsewhere."""
        addresses = [(weight.data_ptr(), weight.requires_grad) for weight in self._weights]
        is_known = addresses == self._addresses and self._failures == failures()
        known = self._snapshot if is_known else None
        if known is not None and known.has_same_modules(self._networks):
            return
        for weight in self._weights:
            if not weight.requires_grad:  # an optimizer would move it, if by zero
                weight.grad = None
        self._recorded.clear()
        self._seen.clear()
        self._gradients, self._pool, self._failures = [], None, failures()
        self._snapshot, self._addresses = Snapshot.of(self._networks), addresses

    def _may_record(self) -> bool:
        return (
            not self.failure
            and self._snapshot is not None
            and len(self._gradients) == sum(weight.requires_grad for weight in self._weights)
            and not torch.is_autocast_enabled(self.device.type)
            and len(self._recorded) < MOST_SHAPES
            and self._has_memory()
        )

    def _has_memory(self) -> bool:
        used = torch.cuda.max_memory_reserved(self.device) * MEMORY_SHARE
        return used < torch.cuda.get_device_properties(self.device).total_memory

    def _record(self, key: Any, batch: Batch, tokens: int) -> tuple[Tensor, Parts]:
        """Compute a batch, and record it."""
        room = Batch(*(part.clone() for part in batch))
        count = torch.tensor(tokens, dtype=torch.float32, device=self.device)
        made: list[tuple[Tensor, Parts]] = []
        self._pool = self._pool or new_pool()
        try:
            assert self._stream is not None
            repeat = record(lambda: made.append(self._run(room, count)), self._pool, self._stream)
        except FAILURES as error:
            if not made:
                raise
            self.failure, self._pool = f"{type(error).__name__}: {error}", None
        else:
            held = held_tensors(self._networks)
            self._recorded[key] = _Recorded(repeat, room, count, *made[1], held)
        return made[0]


def make_passes(loss: TrainingLoss, group: ProcessGroup, recipe: Recipe) -> Passes:
    """Return the passes of a run, recorded where that is possible."""
    given = group.distribute(loss), list(loss.parameters()), group.device, recipe.precision
    alone = group.size == 1 and not group.sharded and not recipe.compile
    if alone and can_record(group.device) and _is_recordable(loss):
        return RecordedPasses(*given, [loss.network])
    return Passes(*given)


def _is_recordable(loss: TrainingLoss) -> bool:
    """Return whether what is computed of a batch depends on its shape alone."""
    return (
        declares_recordable(loss.network)
        and all(type(part.compute) in (CrossEntropy, RDrop) for part in loss.parts)
        and all(
            type(made) is WordDropout or type(made).batch is Augmentation.batch
            for _, made in loss.augmentations.made
        )
    )


class _Recorded:
    """The passes of one shape."""

    def __init__(
        self, repeat: Callable[[], None], room: Batch, count: Tensor, total: Tensor, parts: Parts,
        held: list[Tensor],
    ) -> None:  # fmt: skip
        self._repeat, self._room, self._count = repeat, room, count
        self._total, self._parts, self._held = total, parts, held

    def repeat(self, batch: Batch, tokens: int) -> tuple[Tensor, Parts]:
        """Return what `Passes` does of a batch."""
        for to, part in zip(self._room, batch, strict=True):
            to.copy_(part, non_blocking=True)
        self._count.fill_(tokens)
        self._repeat()
        return self._total.clone(), {name: part.clone() for name, part in self._parts.items()}
