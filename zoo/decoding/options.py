"""What a search is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from torch import Tensor

from zoo.errors import DecodingError
from zoo.nn.contract import END


@dataclass(frozen=True)
class Hypothesis:
    """A target: its token ids without begin and end, and the natural log of its probability.

    The score sums over its tokens and, where it is `finished`, the end token; a hypothesis that
    reached the length limit first is not finished. Hypotheses are ranked by `rank_score`, which
    is the score unless a penalty was asked for (`Search`).
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool
    rank_score: float

    @property
    def order(self) -> tuple[bool, float]:
        """What hypotheses sort by, the best first."""
        return (not self.finished, -self.rank_score)


@dataclass(frozen=True)
class Search:
    """How to search, and how hypotheses are ranked.

    A hypothesis of log probability s, of n tokens with the end token counted, is ranked by

        s / ((5 + n) / 6)^length_penalty + coverage_penalty · Σ_j log min(Σ_i α_ij, 1)

    (Wu et al. 2016, equation 14), α being the attention from target to source, its mean over
    layers and heads, and j going over the source's tokens. Finished hypotheses go before those
    that were cut at the longest length.

    Args:
        beam: hypotheses kept at each step; 1 is greedy search.
        n_best: hypotheses returned, at most `beam`.
        length_penalty: 0 ranks by probability alone; the greater, the longer the best.
        coverage_penalty: 0 or greater; the greater, the more of the source must be looked at.
        min_length, max_length: tokens of a target, the end token counted.
        stop: `safe` goes on until no live hypothesis can get among the n best; `first` until one
            has finished and no live one is ranked better at its present length.
        sample: draw each token by its probability, `n_best` hypotheses independently.
        temperature: divides the logits before drawing.
        top_k, top_p: draw from the k likeliest tokens, or from the fewest likeliest that together
            have the probability p.
        seed: of drawing; a text's place among the texts and this decide what is drawn.
        exhaustive: score every possible target.

    Raises:
        DecodingError: values that do not fit, all of them.
    """

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    min_length: int = 1
    max_length: int | None = None
    stop: Literal["safe", "first"] = "safe"
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1
    exhaustive: bool = False

    def __post_init__(self) -> None:
        """Check every value and their fit."""
        wrong = [*self._out_of_range(), *self._unfit()]
        if wrong:
            raise DecodingError("no such search", "; ".join(wrong))

    def _out_of_range(self) -> list[str]:
        wrong = []
        for name in ("beam", "n_best", "min_length", "max_length", "top_k"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                wrong.append(f"{name} is a whole number of at least 1, not {value!r}")
        for name in ("length_penalty", "coverage_penalty"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                wrong.append(f"{name} is a number of at least 0, not {value!r}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            wrong.append(f"temperature is a number above 0, not {self.temperature!r}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            wrong.append(f"top_p is a number above 0 and at most 1, not {self.top_p!r}")
        if self.stop not in ("safe", "first"):
            wrong.append(f"stop is safe or first, not {self.stop!r}")
        return wrong

    def _unfit(self) -> list[str]:
        wrong = []
        drawing = [
            field.name
            for field in fields(self)
            if field.name in ("temperature", "top_k", "top_p", "seed")
            and getattr(self, field.name) != field.default
        ]
        if drawing and not self.sample:
            wrong.append(f"{' and '.join(drawing)} count where tokens are drawn: ask to sample")
        if self.sample and self.beam != 1:
            wrong.append("a beam does not draw: leave out beam or sample")
        if self.sample and self.exhaustive:
            wrong.append("an exhaustive search does not draw: leave out one of them")
        if self.exhaustive and self.beam != 1:
            wrong.append("an exhaustive search has no beam: leave out one of them")
        if self.n_best > self.beam and not (self.sample or self.exhaustive):
            wrong.append(f"a beam of {self.beam} has no {self.n_best} best: raise beam")
        if self.stop == "first" and self.n_best > 1:
            wrong.append("stop=first finds one hypothesis: n best need stop=safe")
        if self.max_length is not None and self.min_length > self.max_length:
            wrong.append(f"min_length {self.min_length} is over max_length {self.max_length}")
        return wrong

    @property
    def penalised(self) -> bool:
        """Whether hypotheses are ranked by more than their probability."""
        return bool(self.length_penalty or self.coverage_penalty)

    def divisor(self, length: float) -> float:
        """Return ((5 + n) / 6)^length_penalty for n tokens, the end token counted."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def coverage(self, covered: Tensor, mask: Tensor) -> Tensor:
        """Return the coverage penalty, (…), of attention summed over steps, (…, m)."""
        # What was never looked at has underflowed, and counts as the least that has not.
        logs = covered.clamp(min=1e-30, max=1.0).log().masked_fill(~mask, 0.0)
        return self.coverage_penalty * logs.sum(-1)

    def hypothesis(self, written: list[int], score: float, coverage: float = 0.0) -> Hypothesis:
        """Return the hypothesis of the tokens written, the end token among them if it came."""
        finished = written[-1] == END
        tokens = tuple(written[:-1] if finished else written)
        return Hypothesis(tokens, score, finished, score / self.divisor(len(written)) + coverage)
