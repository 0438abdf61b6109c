"""Distillation: the network learns the distributions of a released checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.task import full_precision
from zoo.errors import CheckpointError, ConfigError
from zoo.nn.contract import PADDING, Seq2Seq
from zoo.training.setup import Setup
from zoo.training.training_batch import TrainingBatch
from zoo.translation.loading import load


class Distillation:
    """The divergence from a teacher's distributions, word by word (Kim & Rush 2016, section 3.1).

    Over the real target tokens, with the teacher's q and the network's p, both of logits that are
    divided by the temperature T (Hinton et al. 2015, section 2):

        T² Σ_i Σ_y q_i(y) (log q_i(y) − log p_i(y))

    The teacher reads the batch without augmentations and without dropout. The checkpoint is
    anything that `zoo.load` accepts, with the vocabularies of the run.
    """

    def __init__(
        self,
        setup: Setup,
        network: Seq2Seq,
        teacher: str,
        temperature: Annotated[float, Field(gt=0)] = 1.0,
    ) -> None:
        self.name, self.temperature = teacher, temperature
        device = next(network.parameters()).device
        checkpoint = load(teacher, device=str(device), registry=setup.registry).checkpoint
        _check_vocabularies(setup, checkpoint)
        self.teacher = checkpoint.model.eval().requires_grad_(False)

    def __call__(self, batch: TrainingBatch) -> Tensor:
        """Return the divergence of a batch."""
        with torch.no_grad():
            wanted = self.teacher(batch.source, batch.source_mask, batch.target[:, :-1]).logits
        real = batch.labels != PADDING
        q, p = (
            (full_precision(logits[real]) / self.temperature).log_softmax(-1)
            for logits in (wanted, batch.output.logits)
        )
        divergence = torch.nn.functional.kl_div(p, q, reduction="sum", log_target=True)
        return self.temperature**2 * divergence

    def state_dict(self) -> dict[str, Any]:
        """Return a digest of the teacher's weights, which must not change while a run lasts."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.teacher.named_parameters()):
            digest.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
        return {"teacher": digest.hexdigest()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make sure that the teacher is the one with which the run began.

        Raises:
            CheckpointError: it is not.
        """
        if state != self.state_dict():
            raise CheckpointError(
                f"the teacher {self.name} has changed since the run began",
                "its weights are not the same",
                "Restore it, or begin a new run",
            )


def _check_vocabularies(setup: Setup, checkpoint: Checkpoint) -> None:
    """Make sure that teacher and run have the same tokens.

    Raises:
        ConfigError: they have not.
    """
    sides = {
        "source": (checkpoint.source_tokenizer, setup.source_tokenizer),
        "target": (checkpoint.target_tokenizer, setup.target_tokenizer),
    }
    differ = [side for side, both in sides.items() if not _equal(*both)]
    if differ:
        raise ConfigError(
            f"{checkpoint.name} cannot be the teacher",
            f"its {' and '.join(differ)} vocabulary is not that of the run",
            "Train on the teacher's data with its tokenizer, vocab_size and shared_vocab, or tune "
            "a checkpoint that has the same vocabularies with --from",
        )


def _equal(one: Tokenizer, other: Tokenizer) -> bool:
    return one is other or one.to_json() == other.to_json()
