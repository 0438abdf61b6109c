"""The laws of a search that a plugin brings, checked on a small network.

In a plugin's own tests, one line runs all of them:

    test_law = zoo.testing.search_conformance("my-search:option=3")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from zoo.decoding.forced import forced_log_probs
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.nn.contract import END, UNKNOWN, Encoded, Output, Seq2Seq, Step
from zoo.nn.tree import tensors
from zoo.registry.config import Config
from zoo.registry.parameters import Dim, Table
from zoo.registry.registry import Registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test

VOCABULARY, SENTENCES, LONGEST = 9, 4, 6
TOLERANCE = 1e-9
"""Largest difference between two scores that are mathematically equal."""

PENALTY = 1.7


class _PairsConfig(Config):
    @classmethod
    def example(cls) -> Self:
        return cls()

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        table = Table()
        table.add("following", "F", (Dim("V", target_vocab), Dim("V", target_vocab)))
        table.add("translated", "T", (Dim("V", source_vocab), Dim("V", target_vocab)))
        return table

    @property
    def width(self) -> int:
        return 1


class _Pairs(Seq2Seq[Tensor, Tensor]):
    """Logits of the last token, of the last but one, and of the mean of the source.

    The state is the last token read, (rows,).
    """

    def __init__(self) -> None:
        super().__init__(_PairsConfig(), VOCABULARY, VOCABULARY)
        draw = torch.Generator().manual_seed(11)
        shape = (VOCABULARY, VOCABULARY)
        self.following = nn.Parameter(2 * torch.randn(shape, generator=draw).double())
        self.translated = nn.Parameter(3 * torch.randn(shape, generator=draw).double())

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Tensor]:
        summed = (self.translated[source] * source_mask[..., None]).sum(1)
        return Encoded(summed / source_mask.sum(1, keepdim=True))

    def init_state(self, memory: Tensor) -> Tensor:
        return torch.zeros(len(memory), dtype=torch.long)

    def step(
        self, token: Tensor, state: Tensor, memory: Tensor, attention: bool = False
    ) -> Step[Tensor]:
        of_source = memory.repeat_interleave(len(token) // len(memory), 0)
        logits = self.following[token] + self.following[state].flip(1) / 2 + of_source
        return Step(logits, token)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        memory = self.encode(source, source_mask).memory
        state, logits = self.init_state(memory), []
        for token in target.unbind(1):
            step = self.step(token, state, memory)
            logits.append(step.logits)
            state = step.state
        return Output(torch.stack(logits, 1))


@dataclass(frozen=True)
class SearchCase:
    """A search, by name and options, and sentences to search on a small network."""

    options: Search
    task: Task[Tensor, Tensor]
    source: Tensor

    def run(self, task: Task[Tensor, Tensor] | None = None, /, **changes: Any) -> list[list[Any]]:
        """Return the hypotheses of each sentence, with some options changed."""
        return search(task or self.task, replace(self.options, **changes))

    def log_prob(self, sentence: int, hypothesis: Hypothesis) -> list[float]:
        """Return the network's log probability of each token, the end token's if finished."""
        one = slice(sentence, sentence + 1)
        model, mask = _Pairs(), self.task.mask[one]
        (scores,) = forced_log_probs(model, self.source[one], mask, [hypothesis.tokens])
        return scores if hypothesis.finished else scores[:-1]


def search_case(method: str, registry: Registry | None = None, /, **options: Any) -> SearchCase:
    """Return the case of a search, by `NAME` or `NAME:option=value`."""
    model = _Pairs().eval()
    source = torch.randint(
        4, VOCABULARY, (SENTENCES, 3), generator=torch.Generator().manual_seed(2)
    )
    source[:, -1] = END
    mask = source > 0
    with torch.no_grad():
        memory = model.encode(source, mask).memory
    chosen = Search(**{"method": method, "max_length": LONGEST, **options})
    return SearchCase(chosen, Task(model, memory, mask, registry=registry), source)


def _length(hypothesis: Hypothesis) -> int:
    """Return the number of tokens, the end token included."""
    return len(hypothesis.tokens) + hypothesis.finished


@law_of(causes="a search that gives up; an end token among the tokens")
def hypotheses_are_complete(case: SearchCase) -> None:
    """Each sentence has one to n best hypotheses, each finished or cut at the maximum length."""
    for of_one in case.run():
        for each in of_one:
            if not each.finished and _length(each) < LONGEST:
                raise BrokenLawError(
                    f"{each} is neither finished nor cut: the maximum length is {LONGEST}"
                )
            if not all(UNKNOWN < token < VOCABULARY for token in each.tokens):
                raise BrokenLawError(f"{each} has special tokens, or some outside the vocabulary")


@law_of(
    causes="processed scores in place of log probabilities; a state or a parent of another row; "
    "the end token's log probability left out",
    requires="hypotheses_are_complete",
)
def scores_equal_forced_scores(case: SearchCase) -> None:
    """A score is the sum of the network's log probabilities of the tokens, whatever the options."""
    for changes in ({}, {"repetition_penalty": PENALTY}, {"length_penalty": 1.0}):
        for i, of_one in enumerate(case.run(**changes)):
            for each in of_one:
                expected = sum(case.log_prob(i, each))
                if not abs(each.score - expected) < TOLERANCE:
                    raise BrokenLawError(
                        f"with {changes or 'no other options'}, {each} of sentence {i} has the "
                        f"score {each.score:.6f}, but the network gives {expected:.6f}; the "
                        f"threshold is {TOLERANCE}"
                    )


@law_of(
    causes="log probabilities in place of processed scores; a length without the end token",
    requires="hypotheses_are_complete scores_equal_forced_scores",
)
def ranks_follow_the_options(case: SearchCase) -> None:
    """A rank is that of the length penalty and of the processed scores."""
    for i, of_one in enumerate(case.run(repetition_penalty=PENALTY, length_penalty=0.6)):
        for each in of_one:
            tokens = [*each.tokens, END]
            scores = [
                score * (PENALTY if token in tokens[:position] else 1)
                for position, (token, score) in enumerate(
                    zip(tokens, case.log_prob(i, each), strict=False)
                )
            ]
            expected = sum(scores) / ((5 + _length(each)) / 6) ** 0.6
            if not abs(each.rank_score - expected) < TOLERANCE:
                raise BrokenLawError(
                    f"{each} of sentence {i} has the rank {each.rank_score:.6f}, not "
                    f"{expected:.6f}; the threshold is {TOLERANCE}"
                )


@law_of(
    causes="pipeline.process or pipeline.max_lengths that is not used at every step",
    requires="hypotheses_are_complete",
)
def limits_hold(case: SearchCase) -> None:
    """Minimum and maximum length, banned tokens and prefixes hold for every hypothesis."""
    for longest in (1, 3):
        for each in _flat(case.run(max_length=longest)):
            if _length(each) > longest:
                raise BrokenLawError(f"{each} is longer than max_length = {longest}")
    for each in _flat(case.run(min_length=4)):
        if each.finished and _length(each) < 4:
            raise BrokenLawError(f"{each} is shorter than min_length = 4")
    for each in _flat(case.run(banned=(4, 5, 6))):
        if {4, 5, 6} & {*each.tokens}:
            raise BrokenLawError(f"{each} has a token of banned = (4, 5, 6)")
    prefix = (7, 4)
    task = replace(case.task, prefixes=[prefix] * SENTENCES)
    for each in _flat(case.run(task)):
        if each.tokens[:2] != prefix:
            raise BrokenLawError(f"{each} does not begin with the prefix {prefix}")


@law_of(
    causes="random numbers without a seed of their own; a row's sentence mistaken; writing in "
    "place",
    requires="hypotheses_are_complete",
)
def batches_do_not_matter(case: SearchCase) -> None:
    """A sentence has the same hypotheses alone, in a batch, and when it is searched again."""
    memory = [tensor.clone() for tensor in tensors(case.task.memory)]
    task = replace(case.task, indices=range(SENTENCES))
    together = case.run(task)
    for i, of_one in enumerate(together):
        (alone,) = case.run(task.sentence(i))
        if [each.tokens for each in alone] != [each.tokens for each in of_one]:
            raise BrokenLawError(f"sentence {i} has {alone} alone, and {of_one} in the batch")
    again = case.run(task)
    if [[h.tokens for h in of_one] for of_one in again] != [
        [h.tokens for h in of_one] for of_one in together
    ]:
        raise BrokenLawError("a second search of the same sentences gives other hypotheses")
    if not all(map(torch.equal, memory, tensors(case.task.memory))):
        raise BrokenLawError("the search has changed the memory")


def _flat(hypotheses: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    return [each for of_one in hypotheses for each in of_one]


SEARCH_LAWS = [
    hypotheses_are_complete,
    scores_equal_forced_scores,
    ranks_follow_the_options,
    limits_hold,
    batches_do_not_matter,
]
"""All laws of searches, the most basic first."""


def search_conformance(
    method: str, registry: Registry | None = None, /, **options: Any
) -> Callable[[LawOf[SearchCase]], None]:
    """Return a test of every law, for a search by `NAME` or `NAME:option=value`.

    `options` are further fields of `zoo.Search`, such as `n_best=3`.
    """
    return conformance_test(SEARCH_LAWS, lambda: search_case(method, registry, **options))
