"""Logits processors and searches that are named: made from their entries, and checked."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.processor import LogitsProcessor, Rows
from zoo.decoding.task import Task
from zoo.nn.contract import UNKNOWN
from zoo.nn.tree import Tree, tensors
from zoo.registry.open_shelf import OpenShelf, parse_named
from zoo.registry.registry import Registry, default_registry
from zoo.registry.text_entries import Processor


def check_named(options: Search, registry: Registry) -> None:
    """Check the names and options of a search's method and processors before it is run.

    Raises:
        UnknownNameError, ConfigError: there is no such entry, or its options are not valid.
        PluginError: an entry cannot be imported.
    """
    registry.searches.options(parse_named(options.searching))
    for text in options.processors:
        registry.processors.options(parse_named(text))


def named_processor(task: Task[Any, Any], text: str) -> LogitsProcessor[Any] | None:
    """Return the processor that `NAME:option=value` names, or None if it has nothing to do.

    Raises:
        UnknownNameError, ConfigError, PluginError: as `check_named`; or it is no LogitsProcessor.
    """
    shelf, named = (task.registry or default_registry()).processors, parse_named(text)
    made = shelf.make(named, task)
    if made is not None and not isinstance(made, LogitsProcessor):
        reason = f"it made {reprlib.repr(made)}, which is no zoo.LogitsProcessor"
        raise shelf.broken(named["name"], reason)
    if made is None or shelf.owner(named["name"]).builtin:
        return made
    return CheckedProcessor(shelf, named["name"], made, len(task))


class CheckedProcessor(LogitsProcessor[Tree]):
    """A plugin's processor, whose results are checked, and whose errors name it."""

    def __init__(
        self,
        shelf: OpenShelf[Processor],
        name: str,
        processor: LogitsProcessor[Any],
        sentences: int,
    ) -> None:
        self.shelf, self.name, self.processor, self.sentences = shelf, name, processor, sentences
        # Attributes of the class in the base class; here they differ by the processor.
        self.needs_attention = bool(processor.needs_attention)  # type: ignore[misc]  # see above
        self.changes_scores = bool(processor.changes_scores)  # type: ignore[misc]  # see above

    @property
    def only_bans(self) -> bool:
        """Whether it only bans tokens."""
        return self.processor.only_bans

    def init_state(self, sentence: Tensor) -> Tree | tuple[()]:
        """Return the state before the first token."""
        with self.shelf.blaming(self.name):
            return self._state(self.processor.init_state(sentence), len(sentence))

    def update(
        self, state: Tree | tuple[()], token: Tensor, attention: Mapping[str, Tensor]
    ) -> Tree | tuple[()]:
        """Return the state after the network has read a token a row."""
        with self.shelf.blaming(self.name):
            return self._state(self.processor.update(state, token, attention), len(token))

    def bans(self, position: int, state: Tree | tuple[()]) -> Collection[int] | None:
        """Return the tokens banned in all rows, or None if `process` must run."""
        with self.shelf.blaming(self.name):
            banned = self.processor.bans(position, state)
            if banned is not None and not all(type(token) is int for token in banned):
                raise TypeError(f"bans returned {reprlib.repr(banned)}, not token ids")
            return banned

    def bans_last(self, position: int, state: Tree | tuple[()]) -> int:
        """Return for how many positions `bans` is the same."""
        with self.shelf.blaming(self.name):
            return int(self.processor.bans_last(position, state))

    def process(self, scores: Tensor, rows: Rows, state: Tree | tuple[()]) -> Tensor:
        """Return new scores of the next token."""
        with self.shelf.blaming(self.name):
            before = scores.clone()
            made: object = self.processor.process(scores, rows, state)
            if not isinstance(made, Tensor) or made.shape != scores.shape:
                shape = tuple(made.shape) if isinstance(made, Tensor) else reprlib.repr(made)
                raise ValueError(f"process returned {shape}, not scores {tuple(scores.shape)}")
            if not torch.equal(before, scores):
                raise ValueError("process changed the scores that it was given, in place")
            if bool((made.isnan() | (made > 0)).any()):
                raise ValueError("process returned a score that is not a number or above 0")
            if not self.changes_scores and bool(((made != before) & made.isfinite()).any()):
                raise ValueError("process changed a score: set changes_scores = True")
            return made

    def penalty(self, state: Tree | tuple[()], sentence: Tensor) -> Tensor | None:
        """Return what is added to the rank of each row."""
        with self.shelf.blaming(self.name):
            made: object = self.processor.penalty(state, sentence)
            if made is None:
                return None
            if not isinstance(made, Tensor) or made.shape != sentence.shape:
                raise ValueError(f"penalty returned {reprlib.repr(made)}, not one value a row")
            if not bool((made <= 0).all()):
                raise ValueError("penalty returned a value above 0")
            return made

    def max_lengths(self) -> Tensor | None:
        """Return each sentence's maximum length."""
        with self.shelf.blaming(self.name):
            made: object = self.processor.max_lengths()
            if made is None:
                return None
            if not isinstance(made, Tensor) or made.shape != (self.sentences,):
                raise ValueError(f"max_lengths returned {reprlib.repr(made)}, not one a sentence")
            if not bool((made >= 1).all()):
                raise ValueError("max_lengths returned a length below 1")
            return made

    def _state(self, state: Any, rows: int) -> Any:
        for tensor in tensors(state):
            if tensor.dim() == 0 or len(tensor) != rows:
                shape = tuple(tensor.shape)
                raise ValueError(f"its state holds a tensor {shape} for {rows} rows")
        return state


def checked_hypotheses(
    made: object, task: Task[Any, Any], options: Search
) -> list[list[Hypothesis]]:
    """Return what a plugin's search has found.

    Raises:
        ValueError: it is not one to n best hypotheses for each sentence, best first.
    """
    size = getattr(task.model, "target_vocab", math.inf)
    if not isinstance(made, list) or len(made) != len(task):
        raise ValueError(f"it returned {reprlib.repr(made)} for {len(task)} sentences")
    for of_one in made:
        if not isinstance(of_one, list) or not 1 <= len(of_one) <= options.n_best:
            count = len(of_one) if isinstance(of_one, list) else reprlib.repr(of_one)
            raise ValueError(f"it returned {count} hypotheses of a sentence, not 1 to n_best")
        for hypothesis in of_one:
            if not isinstance(hypothesis, Hypothesis) or not _is_valid(hypothesis, size):
                raise ValueError(f"it returned {repr(hypothesis)[:200]}")
        if sorted(of_one, key=lambda hypothesis: hypothesis.order) != of_one:
            raise ValueError("its hypotheses are not ordered, best first")
    return made


def _is_valid(hypothesis: Hypothesis, size: float) -> bool:
    numbers = (hypothesis.score, hypothesis.rank_score)
    return (
        isinstance(hypothesis.tokens, tuple)
        and all(type(token) is int and UNKNOWN < token < size for token in hypothesis.tokens)
        and all(isinstance(number, float) and math.isfinite(number) for number in numbers)
    )
