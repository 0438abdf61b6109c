"""How finished and cut hypotheses are scored and ranked: one rule for every search."""

from __future__ import annotations

import math
from collections.abc import Iterable

from zoo.decoding.options import Hypothesis, Search
from zoo.errors import DecodingError
from zoo.nn.contract import END, PADDING


def length_divisor(options: Search, length: float) -> float:
    """Return ((5 + n) / 6)^length_penalty for n tokens, the end token included.

    Wu et al. 2016, equation 14.
    """
    return float(((5 + length) / 6) ** options.length_penalty)


def ended(
    options: Search, written: list[int], score: float, log_prob: float, penalty: float
) -> Hypothesis:
    """Return the hypothesis of the tokens written.

    Args:
        options: the search.
        written: token ids without the begin token, with the end token if the hypothesis has one;
            padding may follow.
        score: the sum of the processed log probabilities, which the search maximizes.
        log_prob: the sum of the network's log probabilities.
        penalty: what the logits processors add to the rank, 0 or less.

    Raises:
        DecodingError: the score is not a number.
    """
    if math.isnan(score):
        raise not_a_number()
    if PADDING in written:
        written = written[: written.index(PADDING)]
    finished = bool(written) and written[-1] == END
    tokens = tuple(written[:-1] if finished else written)
    rank_score = score / length_divisor(options, len(written)) + penalty
    return Hypothesis(tokens, log_prob, finished, rank_score)


def not_a_number() -> DecodingError:
    """Return the error for a network whose results are not numbers."""
    return DecodingError(
        "the model's scores are not numbers",
        "its weights are so large that they overflow, or are damaged, or its network is broken",
        "Pull or train it again, or report it to the author of the network",
    )


def best(hypotheses: Iterable[Hypothesis], options: Search) -> list[Hypothesis]:
    """Return the n best hypotheses: finished before unfinished, then by rank score.

    Equal ones keep their order.
    """
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.order)[: options.n_best]
