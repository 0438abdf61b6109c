"""Searches written to be read, with plain lists and whole prefixes, and models to try them on."""

from __future__ import annotations

import math
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
"""Target tokens beside the four special ones, where every target is to be enumerated."""


class Script(NamedTuple):
    """What has been written so far, and the sentence's own script."""

    place: Tensor
    probabilities: Tensor


class Scripted(Seq2Seq[Tensor, Script]):
    """Gives scripted probabilities: `script[sentence][place]`, the sentence being source[:, 0]."""

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
        place = state.place.clamp(max=memory.shape[1] - 1)
        logits = state.probabilities[torch.arange(len(place)), place].log()
        return Step(logits, Script(state.place + 1, state.probabilities))

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        raise NotImplementedError


def scripted(*sentences: list[list[float]]) -> tuple[Scripted, Tensor]:
    return Scripted(torch.tensor(sentences)), torch.arange(4, 4 + len(sentences))[:, None]


def scripted_task(*sentences: list[list[float]]) -> Task:
    model, source = scripted(*sentences)
    return Task(model, model.encode(source, source > 0).memory, source > 0)


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
    """Build a network on its example config, its last layer's weights made larger."""
    torch.manual_seed(seed)
    declared = default_registry().architecture(architecture)
    config, vocab = declared.config_type().example(), words + 4
    model = build(network_type(declared), config, vocab, vocab).double().eval()
    with torch.no_grad():
        for weight in model.parameters():  # far from uniform, so that searches differ
            weight.mul_(sharp**0.5).add_(0.1 * torch.randn_like(weight))
    lengths = torch.tensor([3, 5, 4])
    source = torch.randint(END + 1, vocab, (3, 5))
    source[torch.arange(3), lengths - 1] = END
    source[torch.arange(5) >= lengths[:, None]] = PADDING
    return Small(model, source, source != PADDING)


class Oracle:
    """Log probabilities of whole prefixes, by `forward` alone, sentence by sentence."""

    def __init__(self, given: Small, row: int) -> None:
        length = int(given.mask[row].sum())
        self.model = given.model
        self.source, self.mask = given.source[[row], :length], given.mask[[row], :length]
        self.known: dict[tuple[int, ...], Tensor] = {}

    def next(self, prefix: tuple[int, ...]) -> Tensor:
        """Return log probabilities of the token after a prefix, (V,), −inf for what never comes."""
        if prefix not in self.known:
            with torch.no_grad():
                target = torch.tensor([[BEGIN, *prefix]])
                chances = self.model(self.source, self.mask, target).logits[0, -1].log_softmax(-1)
            chances[[PADDING, BEGIN, UNKNOWN]] = -math.inf
            self.known[prefix] = chances
        return self.known[prefix]

    def covered(self, tokens: tuple[int, ...]) -> Tensor:
        """Return the attention that writing these tokens paid each source token, (m,)."""
        with torch.no_grad():
            target = torch.tensor([[BEGIN, *tokens[:-1]]])
            kinds = self.model(self.source, self.mask, target, True)[1]
        total: Tensor = kinds["cross"][0].mean((0, 1)).sum(0)
        return total


class Found(NamedTuple):
    """A hypothesis with its end token, if it came."""

    rank: float
    score: float
    tokens: tuple[int, ...]

    @property
    def order(self) -> tuple[bool, float]:
        return (self.tokens[-1] != END, -self.rank)


def ranked(oracle: Oracle, tokens: tuple[int, ...], score: float, options: Search) -> Found:
    rank = score / ((5 + len(tokens)) / 6) ** options.length_penalty
    if options.coverage_penalty:
        covered = oracle.covered(tokens)
        rank += options.coverage_penalty * sum(math.log(min(float(c), 1.0)) for c in covered)
    return Found(rank, score, tokens)


def everything(oracle: Oracle, options: Search, most: int) -> list[Found]:
    """Enumerate every target of at most `most` tokens, the end token counted; best first."""
    found: list[Found] = []

    def go(prefix: tuple[int, ...], score: float) -> None:
        for token, chance in enumerate(oracle.next(prefix).tolist()):
            if chance == -math.inf or (token == END and len(prefix) + 1 < options.min_length):
                continue
            longer = (*prefix, token)
            if token == END or len(longer) == most:
                found.append(ranked(oracle, longer, score + chance, options))
            else:
                go(longer, score + chance)

    go((), 0.0)
    return sorted(found, key=lambda f: f.order)


def slow_beam(
    oracle: Oracle, options: Search, most: int, cuts: list[float] | None = None
) -> list[Found]:
    """Beam search by its definition, to the very end: the finished keep their slots.

    `cuts` is given how much better the last that was kept was than the first that was not, at
    each place.
    """
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[Found] = []
    slots = options.beam
    for place in range(1, most + 1):
        continued = []
        for score, prefix in live:
            for token, chance in enumerate(oracle.next(prefix).tolist()):
                if chance > -math.inf and not (token == END and place < options.min_length):
                    continued.append((score + chance, (*prefix, token)))
        continued.sort(key=lambda pair: -pair[0])
        if cuts is not None and 0 < slots < len(continued):
            cuts.append(continued[slots - 1][0] - continued[slots][0])
        live = []
        for score, tokens in continued[:slots]:
            if tokens[-1] == END or place == most:
                done.append(ranked(oracle, tokens, score, options))
                slots -= 1
            else:
                live.append((score, tokens))
    return sorted(done, key=lambda f: f.order)
