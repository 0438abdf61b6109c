"""Reference searches with plain lists and whole prefixes, and small models for tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.decoding.options import Search
from zoo.decoding.task import Task
from zoo.nn import Encoded, Output, Step
from zoo.nn.build import build, network_type
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN, Seq2Seq
from zoo.registry.registry import default_registry

ARCHITECTURES = sorted(default_registry().architectures)
WORDS = 3
"""Target tokens besides the four special ones, in tests that enumerate every target."""


SEARCHES: list[dict[str, Any]] = [{}, {"beam": 3}, {"sample": True}, {"exhaustive": True}]
"""The options of greedy, beam, random and exhaustive search."""


class Script(NamedTuple):
    """The number of tokens that were read, (rows,), and each sentence's scripted probabilities."""

    position: Tensor
    probabilities: Tensor


class Scripted(Seq2Seq[Tensor, Script]):
    """Returns scripted probabilities, `script[sentence][position]`.

    The sentence's index is source[:, 0] − 4.
    """

    def __init__(self, script: Tensor) -> None:
        super().__init__(default_registry().config("seq2seq-tiny"), 9, script.shape[-1])
        self.script = script

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Tensor]:
        return Encoded(self.script[source[:, 0] - 4])

    def init_state(self, memory: Tensor) -> Script:
        return Script(torch.zeros(len(memory), dtype=torch.long), memory)

    def step(
        self, token: Tensor, state: Script, memory: Tensor, attention: bool = False
    ) -> Step[Script]:
        position = state.position.clamp(max=memory.shape[1] - 1)
        logits = state.probabilities[torch.arange(len(position)), position].log()
        return Step(logits, Script(state.position + 1, state.probabilities))

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        raise NotImplementedError


def scripted(*sentences: list[list[float]]) -> tuple[Scripted, Tensor]:
    return Scripted(torch.tensor(sentences)), torch.arange(4, 4 + len(sentences))[:, None]


def scripted_task(*sentences: list[list[float]], blank: Sequence[int] = ()) -> Task[Tensor, Script]:
    model, source = scripted(*sentences)
    memory = model.encode(source, source > 0).memory
    return Task(model, memory, source > 0, blank=torch.tensor(blank, dtype=torch.long))


class Small(NamedTuple):
    """A random network with few target tokens, and sources for it."""

    model: Seq2Seq
    source: Tensor
    mask: Tensor

    def task(self, **options: Any) -> Task:
        with torch.no_grad():
            memory = self.model.encode(self.source, self.mask).memory
        return Task(self.model, memory, self.mask, **options)


def small(architecture: str, seed: int = 1, words: int = WORDS, sharp: float = 3.0) -> Small:
    """Build a network from its example config, with larger weights."""
    torch.manual_seed(seed)
    declared = default_registry().architecture(architecture)
    config, vocab = declared.config_type().example(), words + 4
    model = build(network_type(declared), config, vocab, vocab).double().eval()
    with torch.no_grad():
        for weight in model.parameters():  # probabilities far from uniform, so that searches differ
            weight.mul_(sharp**0.5).add_(0.1 * torch.randn_like(weight))
    lengths = torch.tensor([3, 5, 4])
    source = torch.randint(END + 1, vocab, (3, 5))
    source[torch.arange(3), lengths - 1] = END
    source[torch.arange(5) >= lengths[:, None]] = PADDING
    return Small(model, source, source != PADDING)


@functools.cache
def with_oracles(
    architecture: str, seed: int = 1, words: int = WORDS, sharp: float = 3.0
) -> tuple[Small, tuple[Oracle, ...]]:
    """Return a small network with an oracle of each row; all tests share what these computed."""
    given = small(architecture, seed, words, sharp)
    return given, tuple(Oracle(given, row) for row in range(len(given.mask)))


class Rules(NamedTuple):
    """The rules that a sentence's targets must satisfy, stated for whole targets.

    Attributes:
        options: the search.
        longest: the maximum length, the end token included.
        blank: the tokens that consist of white space.
        prefix: the tokens that every target begins with; no rule applies to them.
    """

    options: Search
    longest: int
    blank: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()

    def permit(self, tokens: tuple[int, ...]) -> bool:
        """Return whether a target, or a prefix of one, breaks no rule."""
        options, prefix_length = self.options, len(self.prefix)
        if tokens[:prefix_length] != self.prefix[: len(tokens)]:
            return False
        if len(tokens) <= prefix_length:
            return True
        words = tokens[:-1] if tokens[-1] == END else tokens
        if {*tokens[prefix_length:]} & {*options.banned}:
            return False
        if tokens[-1] == END and len(tokens) < options.min_length:
            return False
        complete = tokens[-1] == END or len(tokens) == self.longest
        if complete and not options.allow_empty and all(word in self.blank for word in words):
            return False
        size = options.no_repeat_ngram_size
        if size is not None:
            ngrams = [words[end - size : end] for end in range(size, len(words) + 1)]
            new = [i for i in range(len(ngrams)) if i + size > prefix_length]
            return all(ngrams[i] not in ngrams[:i] for i in new)
        return True

    def score(self, tokens: tuple[int, ...], log_probs: list[float]) -> float:
        """Return the score that the search maximizes, given each token's log probability."""
        total = 0.0
        for i, log_prob in enumerate(log_probs):
            repeated = i >= len(self.prefix) and tokens[i] in tokens[:i]
            total += log_prob * (self.options.repetition_penalty if repeated else 1.0)
        return total


class Oracle:
    """Log probabilities after whole prefixes of one sentence, computed only with `forward`."""

    def __init__(self, network: Small, row: int) -> None:
        length = int(network.mask[row].sum())
        self.model = network.model
        self.source, self.mask = network.source[[row], :length], network.mask[[row], :length]
        # Many rules are checked on the same targets: each is computed once.
        self.next = functools.cache(self._next)
        self.coverage = functools.cache(self._coverage)

    def _next(self, prefix: tuple[int, ...]) -> list[float]:
        """Return the next token's V log probabilities; −inf for specials except the end."""
        with torch.no_grad():
            target = torch.tensor([[BEGIN, *prefix]])
            logits = self.model(self.source, self.mask, target).logits[0, -1]
        log_probs = logits.log_softmax(-1)
        log_probs[[PADDING, BEGIN, UNKNOWN]] = -math.inf
        return log_probs.tolist()

    def log_probs(self, tokens: tuple[int, ...]) -> list[float]:
        """Return the log probability of each token of a target."""
        return [self.next(tokens[:i])[token] for i, token in enumerate(tokens)]

    def _coverage(self, tokens: tuple[int, ...]) -> list[float]:
        """Return the attention to each source token, m, summed over the steps of the target."""
        with torch.no_grad():
            target = torch.tensor([[BEGIN, *tokens[:-1]]])
            kinds = self.model(self.source, self.mask, target, True)[1]
        return kinds["cross"][0].mean((0, 1)).sum(0).tolist()


class ScoredTarget(NamedTuple):
    """A target with its end token, if it is finished; its rank score and log probability."""

    rank: float
    score: float
    tokens: tuple[int, ...]

    @property
    def order(self) -> tuple[bool, float]:
        """The sort key: finished targets first, then by rank score."""
        return (self.tokens[-1] != END, -self.rank)


def ranked(oracle: Oracle, tokens: tuple[int, ...], rules: Rules) -> ScoredTarget:
    """Return a target with its rank score and the sum of its log probabilities."""
    options, log_probs = rules.options, oracle.log_probs(tokens)
    rank = rules.score(tokens, log_probs) / ((5 + len(tokens)) / 6) ** options.length_penalty
    if options.coverage_penalty:
        # At a dead end, the search takes one more step to see that no token may follow.
        dead_end = tokens[-1] != END and len(tokens) < rules.longest
        coverage = oracle.coverage((*tokens, END) if dead_end else tokens)
        rank += options.coverage_penalty * sum(math.log(min(c, 1.0)) for c in coverage)
    return ScoredTarget(rank, sum(log_probs), tokens)


def continuations(
    oracle: Oracle, prefix: tuple[int, ...], rules: Rules
) -> list[tuple[float, tuple[int, ...]]]:
    """Return every permitted continuation by one token, with its score, in order of token id."""
    before = oracle.log_probs(prefix)
    return [
        (rules.score(tokens, [*before, log_prob]), tokens)
        for token, log_prob in enumerate(oracle.next(prefix))
        if log_prob > -math.inf and rules.permit(tokens := (*prefix, token))
    ]


def enumerate_targets(oracle: Oracle, rules: Rules) -> list[ScoredTarget]:
    """Enumerate every permitted target, best first; a dead end gives an unfinished target."""
    targets: list[ScoredTarget] = []

    def enumerate_from(prefix: tuple[int, ...]) -> None:
        longer = continuations(oracle, prefix, rules)
        if not longer:
            targets.append(ranked(oracle, prefix, rules))
        for _, tokens in longer:
            if tokens[-1] == END or len(tokens) == rules.longest:
                targets.append(ranked(oracle, tokens, rules))
            else:
                enumerate_from(tokens)

    enumerate_from(())
    return sorted(targets, key=lambda target: target.order)


def reference_beam_search(
    oracle: Oracle, rules: Rules, cuts: list[float] | None = None
) -> list[ScoredTarget]:
    """Beam search by its definition, without early stopping; finished targets keep their slots.

    At each position, the score difference between the last kept continuation and the first dropped
    one is appended to `cuts`.
    """
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[ScoredTarget] = []
    slots = rules.options.beam
    for position in range(1, rules.longest + 1):
        continued = []
        for _, prefix in live:
            longer = continuations(oracle, prefix, rules)
            continued += longer
            if not longer:
                done.append(ranked(oracle, prefix, rules))
        continued.sort(key=lambda pair: -pair[0])
        if cuts is not None and 0 < slots < len(continued):
            cuts.append(continued[slots - 1][0] - continued[slots][0])
        live = []
        for score, tokens in continued[:slots]:
            if tokens[-1] == END or position == rules.longest:
                done.append(ranked(oracle, tokens, rules))
                slots -= 1
            else:
                live.append((score, tokens))
    return sorted(done, key=lambda target: target.order)
