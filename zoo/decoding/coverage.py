"""Attention added up over the steps of a search, for the coverage penalty."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.decoding.candidates import in_full
from zoo.decoding.options import Search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.contract import Attention
from zoo.nn.tree import Tree


class Coverage:
    """Takes a search's steps and, where the penalty asks for it, adds up their attention.

    Args:
        task, options: the search.
        sentences: which sentence each row of the state belongs to, (rows,).
    """

    def __init__(self, task: Task, options: Search, sentences: Tensor) -> None:
        self.task, self.options = task, options
        self.mask = task.mask[sentences]
        self.sums = torch.zeros(self.mask.shape, device=self.mask.device)

    def step(self, token: Tensor, state: Tree, memory: Tree) -> tuple[Tensor, Tree]:
        """Take a step of the model; return logits and state.

        Raises:
            DecodingError: there is a penalty and the model does not look at the source.
        """
        if not self.options.coverage_penalty:
            step = self.task.model.step(token, state, memory)
        else:
            step = self.task.model.step(token, state, memory, True)
            self.sums = self.sums + cross(step.attention).flatten(1)
        return step.logits, step.state

    def penalty(self, rows: Tensor) -> Tensor:
        """Return the penalty of each of some rows, 0 or less."""
        if not self.options.coverage_penalty:
            return torch.zeros(len(rows), device=rows.device)
        return self.options.coverage(self.sums[rows], self.mask[rows])

    def gather(self, rows: Tensor) -> None:
        """Keep the given rows, (new rows,)."""
        if self.options.coverage_penalty:
            self.sums, self.mask = self.sums[rows], self.mask[rows]


def cross(kinds: Attention) -> Tensor:
    """Return the attention from target to source, its mean over layers and heads: (rows, n, m).

    Raises:
        DecodingError: the model has none.
    """
    if "cross" not in kinds:
        raise DecodingError(
            "no attention from target to source",
            "this model reads the source into one vector, and nothing tells which word it looks at",
            "Leave out the coverage penalty and alignments, or take a model with attention",
        )
    return in_full(kinds["cross"]).mean((1, 2))
