"""Exhaustive search: every possible target."""

from __future__ import annotations

import math
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.pipeline import Pipeline, States, dead_ends
from zoo.decoding.processor import Rows
from zoo.decoding.processors import NEVER
from zoo.decoding.ranking import best
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn.contract import BEGIN, END, PADDING, Memory, State
from zoo.nn.faults import init_state
from zoo.nn.tree import gather

MAX_TARGETS = 3_000_000
"""The most targets of one sentence that an exhaustive search ranks, in about ten seconds."""

ROWS = 1024
"""Prefixes that take a step together."""


class Block(NamedTuple, Generic[State]):
    """Prefixes of one length, one a row.

    Attributes:
        written: (rows, position − 1) int64.
        score, log_prob: (rows,), the sums of the processed and of the network's log probabilities.
        parent: (rows,) int64, the rows of the states that the prefixes continue.
        state, states: the network's state, and the logits processors'.
    """

    written: Tensor
    score: Tensor
    log_prob: Tensor
    parent: Tensor
    state: State
    states: States

    def part(self, rows: Tensor) -> Block[State]:
        """Return some rows, (rows,) int64; the states stay whole, so that parts share them."""
        written, score, log_prob, parent = (column[rows] for column in self[:4])
        return Block(written, score, log_prob, parent, self.state, self.states)


def exhaustive_search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Score every target of each sentence; return the n best, best first.

    Raises:
        DecodingError: there are more than three million targets to rank.
    """
    return [_search_one(task.sentence(index), options) for index in range(len(task))]


@torch.inference_mode()
def _search_one(task: Task[Memory, State], options: Search) -> list[Hypothesis]:
    """Search the one sentence of a task, depth first, so that few blocks wait."""
    pipeline = Pipeline(task, options)
    device = task.mask.device
    zero, row = (torch.zeros(1, dtype=t, device=device) for t in (torch.float32, torch.long))
    written = torch.full((1, 0), BEGIN, device=device)
    state, states = init_state(task.model, task.memory), pipeline.init_state(row)
    blocks = [Block(written, zero, zero, row, state, states)]
    hypotheses: list[Hypothesis] = []
    while blocks:
        longer, over, more = _continue(task, options, pipeline, blocks.pop())
        hypotheses = best([*hypotheses, *more], options)
        blocks += [longer.part(rows) for rows in (~over).nonzero()[:, 0].split(ROWS) if len(rows)]
    return hypotheses


def _continue(
    task: Task[Memory, State], options: Search, pipeline: Pipeline, block: Block[State]
) -> tuple[Block[State], Tensor, list[Hypothesis]]:
    """Continue a block with every allowed token.

    Returns:
        The longer prefixes, which of them are over, (rows,) bool, and the hypotheses that these and
        the prefixes without a continuation are.
    """
    begin = torch.full_like(block.score, BEGIN, dtype=torch.long)[:, None]
    token = torch.cat([begin, block.written], 1)[:, -1]
    state, states = gather(block.state, block.parent), gather(block.states, block.parent)
    step = task.step(token, state, task.memory, pipeline.needs_attention)
    states = pipeline.update(states, token, step.attention)
    if not block.written.shape[1]:
        _check_size(task, options, step.logits.shape[1], int(pipeline.max_lengths))
    log_probs = step.logits.log_softmax(1)
    scores = pipeline.process(states, Rows(torch.zeros_like(token), block.written, log_probs))
    rows = torch.arange(len(token), device=token.device)
    dead = block._replace(parent=rows, state=step.state, states=states)
    hypotheses = _ended(dead, dead_ends(scores), pipeline)
    row, tokens = (scores > -torch.inf).nonzero(as_tuple=True)
    longer = Block(
        torch.cat([block.written[row], tokens[:, None]], 1),
        block.score[row] + scores[row, tokens],
        block.log_prob[row] + log_probs[row, tokens],
        row,
        step.state,
        states,
    )
    over = (tokens == END) | (longer.written.shape[1] >= pipeline.max_lengths)
    return longer, over, hypotheses + _ended(longer, over, pipeline)


def _ended(block: Block[State], over: Tensor, pipeline: Pipeline) -> list[Hypothesis]:
    """Return the hypotheses of some rows, (rows,) bool."""
    part = block.part(over.nonzero()[:, 0])
    states, sentence = gather(part.states, part.parent), torch.zeros_like(part.parent)
    every = torch.ones_like(part.parent, dtype=torch.bool)
    return pipeline.hypotheses(part.written, part.score, part.log_prob, states, sentence, every)


def _check_size(task: Task[Memory, State], options: Search, vocab: int, length: int) -> None:
    """Refuse a search of too many targets, given the vocabulary size and the maximum length."""
    words = vocab - len({END, *NEVER, *options.banned})
    free = length - int((task.padded_prefixes() != PADDING).sum())
    digits = free * math.log10(max(1, words))
    targets = math.inf
    if digits < 15:  # larger powers are exact in no reasonable time
        # A prefix may end; those of the greatest length are targets without an end token too.
        targets = sum(words**position for position in range(free)) + words**free
    if targets > MAX_TARGETS:
        size = f"{targets:,}" if math.isfinite(targets) else f"about 10^{int(digits)}"
        raise DecodingError(
            "exhaustive search would take too long",
            f"{words:,} tokens and a maximum length of {length:,}, the end token included, make "
            f"{size} targets to rank; the limit is {MAX_TARGETS:,}",
            "Lower `--max-length`, or use a beam",
        )
