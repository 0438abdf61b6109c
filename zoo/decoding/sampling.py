"""Sampling: each token is drawn at random by its probability."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.decoding.independent import decode_independently
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.pipeline import Pipeline
from zoo.decoding.task import Task
from zoo.nn.contract import Memory, State
from zoo.nn.device import exact_device


def sample(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Draw `n_best` targets for each sentence; return them best first.

    Tokens are drawn by their processed scores. The random numbers of a sentence depend on the seed
    and on its index, not on the batch. Temperature, `top_k` and `top_p` change what is drawn and no
    score.
    """
    numbers = _random_numbers(task, options)

    def choose(scores: Tensor, position: int, hypotheses: Tensor) -> Tensor:
        drawn = numbers[hypotheses.to(numbers.device), position - 1]
        return _draw(scores.to(numbers.device), drawn, options).to(scores.device)

    return decode_independently(task, options, choose)


def _random_numbers(task: Task[Memory, State], options: Search) -> Tensor:
    """Return a number for each hypothesis and position, (hypotheses, longest) float64."""
    indices = range(len(task)) if task.indices is None else task.indices
    lengths = Pipeline(task, options).max_lengths.tolist()
    rows: list[Tensor] = []
    for index, length in zip(indices, lengths, strict=True):
        generator = torch.Generator().manual_seed(options.seed * 1_000_003 + index)
        # Hypothesis by hypothesis, as many as the sentence may need: a larger n-best continues
        # where a smaller one stopped, and the other sentences do not matter.
        rows += torch.rand(options.n_best, length, generator=generator, dtype=torch.float64)
    return pad_sequence(rows, batch_first=True).to(exact_device(task.mask.device))


def _draw(scores: Tensor, numbers: Tensor, options: Search) -> Tensor:
    """Return the tokens, (rows,), at which the cumulative probability passes the numbers."""
    ranked, tokens = scores.double().sort(dim=-1, descending=True, stable=True)
    # The best score becomes 0, so that no temperature makes all of them infinite.
    ranked = (ranked - ranked[:, :1]) / options.temperature
    if options.top_k is not None:
        ranked[:, options.top_k :] = -torch.inf
    probabilities = ranked.softmax(-1)
    cumulative = probabilities.cumsum(-1)
    if options.top_p is not None:
        beyond = cumulative - probabilities >= options.top_p
        cumulative = probabilities.masked_fill(beyond, 0.0).cumsum(-1)
    passed = cumulative > (numbers * cumulative[:, -1])[:, None]
    return tokens.gather(1, passed.int().argmax(-1, keepdim=True))[:, 0]
