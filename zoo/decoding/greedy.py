"""Greedy search: the best token at every step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.decoding.independent import decode_independently
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.own_search import own_search
from zoo.decoding.step_graphs import encode_recorded
from zoo.decoding.task import Task
from zoo.nn.contract import Memory, NonAutoregressive, Seq2Seq, State


@torch.inference_mode()
def greedy(
    model: Seq2Seq[Memory, State],
    source: Tensor,
    source_mask: Tensor,
    limit: int | None = None,
    record: bool = True,
    prefix: Sequence[int] = (),
    max_length: int | None = None,
) -> list[Hypothesis]:
    """Encode sources, and decode each by greedy search, or by the network's own.

    Args:
        model: a network.
        source, source_mask: (sentences, m) int64 and bool.
        limit: the model's maximum target length in tokens, begin and end included.
        record: whether a GPU may record the steps, as in `Task`.
        prefix: the tokens that every target begins with, such as the tag of its language.
        max_length: the most tokens of each, the end token included, instead of the default for its
            source.

    Returns:
        One hypothesis for each sentence, in order.
    """
    memory = encode_recorded(model, source, source_mask, record)
    prefixes = [prefix] * len(source_mask) if prefix else None
    task = Task(model, memory, source_mask, limit, prefixes, record=record)
    options = Search(max_length=max_length)
    if isinstance(model, NonAutoregressive):
        return [best[0] for best in own_search(model, task, options)]
    hypotheses = greedy_search(task, options)
    return [best[0] for best in hypotheses]


def greedy_search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Take the best token at every step; of equal ones, the lowest."""
    return decode_independently(task, options)
