"""An ensemble: several networks decode one target together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.decoding.task import full_precision
from zoo.errors import DecodingError
from zoo.nn.contract import NonAutoregressive, Seq2Seq, Step
from zoo.nn.faults import encode, init_state, step
from zoo.nn.tree import Tree


class Ensemble:
    """Averages the members' probabilities of each token.

    Members share the target vocabulary; each may have its own source vocabulary. A search calls it
    like one network, whose memory and state are tuples of the members'.

    Raises:
        DecodingError: the members' target vocabularies differ in size, or one of them predicts all
            tokens together.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        if any(isinstance(model, NonAutoregressive) for model in models):
            raise DecodingError(
                "these checkpoints cannot form an ensemble",
                "a network that predicts all tokens together has no probability of the next token",
            )
        sizes = {model.target_vocab for model in models}
        if len(sizes) != 1:
            raise DecodingError(
                "these checkpoints cannot form an ensemble",
                f"their target vocabularies have {' and '.join(f'{s:,}' for s in sorted(sizes))} "
                "entries",
            )
        self.models = tuple(models)

    def encode(self, sources: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tree, ...]:
        """Encode each member's source and mask, (sentences, m); m may differ between members."""
        return tuple(
            encode(model, source, mask)
            for model, (source, mask) in zip(self.models, sources, strict=True)
        )

    def init_state(self, memory: tuple[Tree, ...]) -> tuple[Tree, ...]:
        """Return each member's state before the first token."""
        pairs = zip(self.models, memory, strict=True)
        return tuple(init_state(model, part) for model, part in pairs)

    def step(
        self,
        token: Tensor,
        state: tuple[Tree, ...],
        memory: tuple[Tree, ...],
        attention: bool = False,
    ) -> Step[tuple[Tree, ...]]:
        """Read one token a row; return the log of the mean probability, (rows, V), and the states.

        Raises:
            DecodingError: `attention` is asked for: the members' source tokens may differ.
        """
        if attention:
            raise DecodingError(
                "an ensemble has no attention",
                "its members may have different source tokens",
                "Leave out the coverage penalty",
            )
        steps = [
            step(model, token, model_state, model_memory)
            for model, model_state, model_memory in zip(self.models, state, memory, strict=True)
        ]
        log_probs = [full_precision(one.logits).log_softmax(-1) for one in steps]
        mean = torch.stack(log_probs).logsumexp(0) - math.log(len(steps))
        return Step(mean, tuple(one.state for one in steps))
