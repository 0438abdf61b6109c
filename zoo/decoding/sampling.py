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
    and on its index, not on the batch. Temperature, `top_k` (Fan et al. 2018) and `top_p` (nucleus
    sampling, Holtzman et al. 2020) apply in this order, and change what is drawn and no score.
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
        size = options.n_best, length
        rows += torch.rand(size, generator=generator, dtype=torch.float64, device="cpu")
    return pad_sequence(rows, batch_first=True).to(exact_device(task.mask.device))


def _draw(scores: Tensor, numbers: Tensor, options: Search) -> Tensor:
    """Return the tokens, (rows,), at which the cumulative probability passes the numbers.

    Tokens are in the order of their ids. In that of their scores, rounding, which depends on the
    batch, would exchange tokens of nearly equal scores, and so change what is drawn. A token whose
    score is not a number is always drawn: it ends the search with an error.
    """
    scores, is_wrong = scores.double(), scores.isnan()
    # The best score becomes 0, so that no temperature makes all of them infinite.
    scores = (scores - scores.amax(-1, keepdim=True)) / options.temperature
    cumulative = _probabilities(scores, options).cumsum(-1)
    passed = cumulative > (numbers * cumulative[:, -1])[:, None]
    return (passed | is_wrong).int().argmax(-1)


def _probabilities(scores: Tensor, options: Search) -> Tensor:
    """Return the probabilities of the tokens, (rows, V), 0 for those that are not drawn from."""
    if options.top_k is None and options.top_p is None:
        return scores.softmax(-1)
    ranked, tokens = scores.sort(dim=-1, descending=True, stable=True)
    if options.top_k is not None:
        ranked[:, options.top_k :] = -torch.inf
    probabilities = ranked.softmax(-1)
    if options.top_p is not None:
        beyond = probabilities.cumsum(-1) - probabilities >= options.top_p
        probabilities = probabilities.masked_fill(beyond, 0.0)
    return torch.zeros_like(probabilities).scatter(1, tokens, probabilities)
