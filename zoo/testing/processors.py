"""The laws of logits processors, for the tests of a plugin that brings one.

test_law = zoo.testing.processor_conformance("no-echo:tokens=3")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.decoding.named import named_processor
from zoo.decoding.processor import LogitsProcessor, Rows
from zoo.decoding.task import Task
from zoo.nn.contract import BEGIN, END
from zoo.nn.tree import gather, tensors
from zoo.registry.registry import Registry, default_registry
from zoo.testing.case import BEAM, ROWS, TARGET_VOCAB, case
from zoo.testing.law import TOLERANCE, BrokenLawError, LawOf, law_of, require_close
from zoo.testing.outcomes import conformance_test

POSITIONS = 7


class Seen(NamedTuple):
    """What a processor gives at one position.

    Scores, bans, how many positions have these, and what is added to the rank.
    """

    scores: Tensor
    bans: frozenset[int] | None
    lasting: int
    penalty: Tensor


@dataclass(frozen=True)
class ProcessorCase:
    """A logits processor, by name and options, and five sentences in a network of random weights.

    `tokens` are what each row of a beam of three writes, (rows, positions).
    """

    named: str
    task: Task[Any, Any]
    tokens: Tensor

    def make(self, task: Task[Any, Any] | None = None) -> LogitsProcessor[Any]:
        """Return the processor of a task; one that does nothing if it has nothing to do."""
        return named_processor(task or self.task, self.named) or LogitsProcessor()

    def walk(
        self,
        made: LogitsProcessor[Any],
        tokens: Tensor,
        task: Task[Any, Any] | None = None,
        gathered: Tensor | None = None,
    ) -> list[Seen]:
        """Return what the processor gives while each row writes its tokens.

        The first token that is read is the begin token. `gathered` is a permutation of the rows of
        each sentence, which is made in the middle.
        """
        task = task or self.task
        sentence = torch.arange(len(task)).repeat_interleave(len(tokens) // len(task))
        memory = task.memory
        state = gather(task.model.init_state(memory), sentence)
        own, token, seen = made.init_state(sentence), torch.full_like(sentence, BEGIN), []
        for position in range(tokens.shape[1]):
            if gathered is not None and position == POSITIONS // 2:
                own, state = gather(own, gathered), gather(state, gathered)
                token, tokens = token[gathered], tokens[gathered]
            step = task.step(token, state, memory, made.needs_attention)
            state, own = step.state, made.update(own, token, step.attention)
            rows = Rows(sentence, tokens[:, :position], step.logits.log_softmax(-1))
            bans = made.bans(position + 1, own)
            penalty = made.penalty(own, sentence)
            seen.append(
                Seen(
                    made.process(rows.log_probs, rows, own),
                    None if bans is None else frozenset(bans),
                    made.bans_last(position + 1, own),
                    torch.zeros(len(token)) if penalty is None else penalty,
                )
            )
            token = tokens[:, position]
        return seen


def processor_case(
    named: str, architecture: str = "rnnsearch", registry: Registry | None = None
) -> ProcessorCase:
    """Return the case of a processor, by `NAME` or `NAME:option=value`."""
    registry = registry or default_registry()
    of = case(architecture, registry)
    with torch.no_grad():
        memory = of.model.encode(of.source, of.mask).memory
    task = Task(of.model, memory, of.mask, registry=registry)
    # Few words, so that rows repeat them.
    draw = torch.Generator().manual_seed(9)
    tokens = torch.randint(END + 2, END + 5, (ROWS * BEAM, POSITIONS), generator=draw)
    return ProcessorCase(named, task, tokens)


@law_of(
    causes="scores changed in place; probabilities in place of log probabilities; `changes_scores` "
    "not set; a penalty above 0; a state whose tensors do not have the rows on dimension 0"
)
@torch.no_grad()
def results_are_scores(case: ProcessorCase) -> None:
    """Scores keep their shape and are at most 0 and not NaN; what is added to a rank is, too."""
    for position, seen in enumerate(case.walk(case.make(), case.tokens), 1):
        scores, penalty = seen.scores, seen.penalty
        if scores.shape != (len(case.tokens), TARGET_VOCAB) or penalty.shape != scores.shape[:1]:
            raise BrokenLawError(f"position {position}: scores {scores.shape}")
        if not bool((scores <= 0).all()) or not bool((penalty <= 0).all()):
            raise BrokenLawError(f"position {position}: a score or a penalty is NaN or above 0")


@law_of(
    causes="`bans` overridden and not None where `process` does more; bans of one row for all; a "
    "position counted from 0",
    requires="results_are_scores",
)
@torch.no_grad()
def process_bans_what_bans_gives(case: ProcessorCase) -> None:
    """Where `bans` gives tokens, `process` bans these in every row, and changes nothing else."""
    made = case.make()
    if made.changes_scores:
        return  # a search calls `process` at every position
    plain = case.walk(LogitsProcessor(), case.tokens)
    for position, (seen, before) in enumerate(
        zip(case.walk(made, case.tokens), plain, strict=True), 1
    ):
        if seen.bans is None:
            continue
        expected = before.scores.clone()
        expected[:, sorted(seen.bans)] = -torch.inf
        if not torch.equal(seen.scores, expected):
            banned = sorted({*(seen.scores == -torch.inf).nonzero()[:, 1].tolist()})
            raise BrokenLawError(
                f"position {position}: bans gives {sorted(seen.bans)} for all rows, process bans "
                f"{banned} in some; where rows differ, bans must return None"
            )


@law_of(
    causes="a position counted from 0; bans that end one position too early or too late; an "
    "inherited `bans_last`",
    requires="process_bans_what_bans_gives",
)
@torch.no_grad()
def bans_last_as_long_as_they_say(case: ProcessorCase) -> None:
    """`bans` gives the same for as many positions as `bans_last` says."""
    every = case.walk(case.make(), case.tokens)
    for first, seen in enumerate(every):
        for position in range(first + 1, min(first + seen.lasting, len(every))):
            bans = every[position].bans
            if bans != seen.bans:
                before, after = ("None" if x is None else sorted(x) for x in (seen.bans, bans))
                raise BrokenLawError(
                    f"position {first + 1}: bans gives {before} for {seen.lasting} positions, but "
                    f"{after} at position {position + 1}"
                )


@law_of(
    causes="attributes that `update` or `process` sets; a state that is changed in place",
    requires="results_are_scores",
)
@torch.no_grad()
def processor_is_immutable(case: ProcessorCase) -> None:
    """A processor gives the same when it is used again, after other tokens were written."""
    made = case.make()
    expected = case.walk(made, case.tokens)
    case.walk(made, case.tokens.flip(0))
    _require_equal(case.walk(made, case.tokens), expected, "used again")
    sentence = torch.arange(len(case.task))
    state = made.init_state(sentence)
    before = [tensor.clone() for tensor in tensors(state)]
    token = case.tokens[: len(sentence), 0]
    attention = case.task.step(
        token, case.task.model.init_state(case.task.memory), case.task.memory, made.needs_attention
    ).attention
    made.update(state, token, attention)
    if not all(map(torch.equal, before, tensors(state))):
        raise BrokenLawError("update changed the state that it was given")


@law_of(
    causes="the index of a row in place of `rows.sentence`; a mean or a maximum over rows; the "
    "number of sentences of the batch; a maximum length that depends on the longest source",
    requires="process_bans_what_bans_gives",
)
@torch.no_grad()
def batches_do_not_matter(case: ProcessorCase) -> None:
    """The rows of a sentence are treated alike alone and in a batch."""
    together, limits = case.walk(case.make(), case.tokens), _limits(case.make())
    for index in range(len(case.task)):
        alone, rows = case.task.sentence(index), slice(index * BEAM, (index + 1) * BEAM)
        of_one, expected_limit = _limits(case.make(alone)), limits[index : index + 1]
        if of_one != expected_limit:
            raise BrokenLawError(
                f"sentence {index} alone: max_lengths gives {of_one}, not {expected_limit}"
            )
        observed = case.walk(case.make(alone), case.tokens[rows], alone)
        expected = [s._replace(scores=s.scores[rows], penalty=s.penalty[rows]) for s in together]
        _require_equal(observed, expected, f"sentence {index} alone")


def _limits(made: LogitsProcessor[Any]) -> list[int]:
    """Return each sentence's maximum length; nothing if there is none."""
    lengths = made.max_lengths()
    return [] if lengths is None else lengths.tolist()


@law_of(
    causes="a state that is kept on the object; a state whose rows gather does not reach",
    requires="processor_is_immutable batches_do_not_matter",
)
@torch.no_grad()
def rows_can_be_reordered(case: ProcessorCase) -> None:
    """Rows of a beam that change their places keep what is remembered of each."""
    draw = torch.Generator().manual_seed(3)
    order = torch.stack(
        [row * BEAM + torch.randperm(BEAM, generator=draw) for row in range(len(case.task))]
    ).flatten()
    expected = [
        s._replace(scores=s.scores[order], penalty=s.penalty[order])
        for s in case.walk(case.make(), case.tokens)
    ]
    observed = case.walk(case.make(), case.tokens, gathered=order)
    half = POSITIONS // 2
    _require_equal(observed[half:], expected[half:], "with rows in another order")


def _require_equal(observed: list[Seen], expected: list[Seen], what: str) -> None:
    for position, (one, other) in enumerate(zip(observed, expected, strict=True), 1):
        where = f"{what}, position {position}"
        if one.bans is not None and other.bans is not None and one.bans != other.bans:
            raise BrokenLawError(f"{where}: bans {sorted(one.bans)}, not {sorted(other.bans)}")
        # Banned tokens have −inf, whose differences are no numbers.
        if not torch.equal(one.scores.isinf(), other.scores.isinf()):
            raise BrokenLawError(f"{where}: other tokens are banned")
        finite, expected_scores = (each.scores.nan_to_num(neginf=0.0) for each in (one, other))
        require_close(finite, expected_scores, f"{where}: the scores differ", TOLERANCE)
        require_close(one.penalty, other.penalty, f"{where}: the penalties differ", TOLERANCE)


PROCESSOR_LAWS = [
    results_are_scores,
    process_bans_what_bans_gives,
    bans_last_as_long_as_they_say,
    processor_is_immutable,
    batches_do_not_matter,
    rows_can_be_reordered,
]
"""All laws of logits processors, the most basic first."""


def processor_conformance(
    named: str, architecture: str = "rnnsearch", registry: Registry | None = None
) -> Callable[[LawOf[ProcessorCase]], None]:
    """Return a test of every law of processors, for one by `NAME` or `NAME:option=value`.

    The network is the example of an architecture.
    """
    return conformance_test(PROCESSOR_LAWS, lambda: processor_case(named, architecture, registry))
