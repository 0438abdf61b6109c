"""A batch as objectives see it: with the network that is trained on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from zoo.data.batches import Batch
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.sampling import sample
from zoo.decoding.task import Task
from zoo.errors import ConfigError, shown
from zoo.nn.contract import PADDING, Output, Seq2Seq
from zoo.nn.faults import blaming_network, broken_network, encode, require_output
from zoo.training.sharding import is_sharded_model

LOSS_NAME = re.compile(r"[\w.-]+")
"""The names that a network's own losses may have, as objectives have them."""


def may_name_a_loss(name: object) -> bool:
    """Return whether a network's own loss may have a name."""
    return isinstance(name, str) and LOSS_NAME.fullmatch(name) is not None


Augment = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _is_number(loss: object) -> bool:
    return isinstance(loss, Tensor) and not loss.dim() and loss.is_floating_point()


class TrainingBatch:
    """Pairs of similar length, on the device, and the network in training mode.

    `source` is (rows, m) int64 with `source_mask` (rows, m) bool; `target` (rows, n + 1), from the
    begin token to the end token; `labels` (rows, n) are the target without its first token.
    `forward(source, source_mask, inputs)` runs the network.
    """

    def __init__(
        self,
        network: Seq2Seq,
        batch: Batch,
        forward: Callable[..., Any] | None = None,
        augment: Augment | None = None,
        limit: int | None = None,
        copies: int = 1,
        outputs: list[tuple[Output, int]] | None = None,
        prefix: Sequence[int] = (),
    ) -> None:
        self.network, self.batch, self.copies, self.prefix = network, batch, copies, prefix
        # Not `or`: the truth of a compiled network is its length, which it lacks.
        self.forward: Callable[..., Any] = network if forward is None else forward
        self.source, self.source_mask, self.target, self.indices = batch
        self._augment, self.limit = augment, limit
        self.outputs: list[tuple[Output, int]] = [] if outputs is None else outputs
        """What the network has computed by teacher forcing, each with its number of copies."""

    @property
    def labels(self) -> Tensor:
        """The tokens to predict, (rows, n) int64."""
        return self.target[:, 1:]

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """What the network reads: source and target without its last token, augmented."""
        source, inputs = self.source, self.target[:, :-1]
        return self._augment(source, inputs) if self._augment else (source, inputs)

    @cached_property
    def output(self) -> Output:
        """What `forward` of the contract returns by teacher forcing, computed on first use."""
        source, inputs = self.inputs
        with blaming_network(self.network):
            output: Output = self.forward(source, self.source_mask, inputs)
        require_output(self.network, output, inputs)
        self.outputs.append((output, self.copies))
        return output

    @property
    def tokens(self) -> Tensor:
        """The number of real target tokens of each row, (rows,)."""
        return (self.labels != PADDING).sum(1)

    def own_losses(self) -> dict[str, Tensor]:
        """Return the network's own losses by name, the mean over the copies of the rows.

        Raises:
            PluginError: they are no table of numbers, or a name has other characters than letters,
                digits, `_`, `-` and `.`.
        """
        if not self.outputs:
            return {}
        output, copies = self.outputs[0]
        losses: object = output.losses
        if not isinstance(losses, Mapping) or not all(map(_is_number, losses.values())):
            reason = (
                f"forward returned the losses {shown(losses)}: by name, each a sum over the batch"
            )
            raise broken_network(type(self.network), reason)
        for name in losses:
            if not may_name_a_loss(name):
                allowed = "letters, digits, _, - and . are allowed"
                reason = f"a loss has the name {shown(name)}: {allowed}"
                raise broken_network(type(self.network), reason)
        return {name: loss if copies == 1 else loss / copies for name, loss in losses.items()}

    def repeated(self, copies: int) -> TrainingBatch:
        """Return the batch with all rows repeated, for other dropout masks: copy after copy."""
        parts = Batch(*(torch.cat([part] * copies) for part in self.batch))
        copies *= self.copies
        return TrainingBatch(
            self.network, parts, self.forward, self._augment, self.limit, copies, self.outputs,
            self.prefix,
        )  # fmt: skip

    def sample(
        self, count: int, longest: int | None = None, temperature: float = 1.0
    ) -> list[list[Hypothesis]]:
        """Draw `count` targets for each source from the network in evaluation mode.

        Each begins with `prefix`, such as the tag of the language of the data. The seed is drawn
        from torch's default generator. No gradient flows.

        Args:
            count: targets per source, which may be equal.
            longest: the most tokens of a target, the end token included; by default the limit of
                the search, three times the source's length plus 20.
            temperature: what the logits are divided by.

        Raises:
            ConfigError: the weights are in shards, which all processes must gather at once.
        """
        if is_sharded_model(self.network):
            raise ConfigError(
                "an objective that samples cannot be trained with --shard",
                "each process would need the others' weights at other times",
                "Leave out --shard",
            )
        seed = int(torch.randint(10**9, (), device="cpu"))
        options = Search(
            sample=True, n_best=count, max_length=longest, temperature=temperature, seed=seed
        )
        device = self.source.device.type
        training = self.network.training
        self.network.eval()
        try:
            # Without autocast: it would cache copies of the weights that have no gradient.
            with torch.inference_mode(), torch.autocast(device, enabled=False):
                memory = encode(self.network, self.source, self.source_mask)
                indices = self.indices.tolist()
                task = Task(
                    self.network, memory, self.source_mask, self.limit,
                    [self.prefix] * len(indices), indices, record=False,
                )  # fmt: skip
                return sample(task, options)
        finally:
            self.network.train(training)
