"""Several networks that write one target together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.decoding.candidates import in_full
from zoo.errors import DecodingError
from zoo.nn.contract import Seq2Seq, Step
from zoo.nn.tree import Tree


class Ensemble:
    """Gives each token the mean of its members' probabilities.

    Members share the target vocabulary; each may read the source in tokens of its own. To a
    search it is like one network, whose memory and state are the tuple of its members'.

    Raises:
        DecodingError: the members' target vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        sizes = {model.target_vocab for model in models}
        if len(sizes) != 1:
            raise DecodingError(
                "these checkpoints cannot write together",
                f"their target vocabularies have {' and '.join(f'{s:,}' for s in sorted(sizes))} "
                "entries",
            )
        self.models = tuple(models)

    def encode(self, sources: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tree, ...]:
        """Read each member's source and mask, (sentences, its own m)."""
        return tuple(
            model.encode(source, mask).memory
            for model, (source, mask) in zip(self.models, sources, strict=True)
        )

    def init_state(self, memory: tuple[Tree, ...]) -> tuple[Tree, ...]:
        """Return each member's first state."""
        return tuple(m.init_state(own) for m, own in zip(self.models, memory, strict=True))

    def step(
        self,
        token: Tensor,
        state: tuple[Tree, ...],
        memory: tuple[Tree, ...],
        attention: bool = False,
    ) -> Step[tuple[Tree, ...]]:
        """Read one token a row; return the log of the mean probability, (rows, V), and state.

        Raises:
            DecodingError: `attention` is asked for: members look at tokens of their own.
        """
        if attention:
            raise DecodingError(
                "an ensemble has no attention of its own",
                "its members may look at different tokens",
                "Leave out the coverage penalty",
            )
        logs, states = [], []
        for model, own, read in zip(self.models, state, memory, strict=True):
            step = model.step(token, own, read)
            logs.append(in_full(step.logits).log_softmax(-1))
            states.append(step.state)
        mean = torch.stack(logs).logsumexp(0) - torch.tensor(float(len(logs))).log()
        return Step(mean, tuple(states))
