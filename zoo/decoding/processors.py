"""The built-in logits processors, which every search applies through `zoo.decoding.pipeline`.

Those with options of their own can also be named, like those of plugins: `zoo_logits_processors`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Self

import torch
from pydantic import Field
from torch import Tensor

from zoo.decoding.options import Search
from zoo.decoding.processor import FOREVER, LogitsProcessor, Rows
from zoo.decoding.source_attention import check_coverage, cross_attention
from zoo.decoding.task import Task, target_limits
from zoo.errors import DecodingError
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN

NEVER = (PADDING, BEGIN, UNKNOWN)
"""Tokens that no hypothesis contains."""


class BannedTokens(LogitsProcessor):
    """Bans padding, begin, unknown, and the tokens that the user bans."""

    def __init__(self, task: Task[Any, Any], tokens: tuple[int, ...] = ()) -> None:
        self.banned = tuple(sorted({*NEVER, *tokens}))

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self:
        """Return the processor.

        Raises:
            DecodingError: a banned token is text, which a translator turns into its id.
        """
        ids = [token for token in options.banned if isinstance(token, int)]
        if len(ids) < len(options.banned):
            texts = ", ".join(repr(token) for token in options.banned if isinstance(token, str))
            raise DecodingError(f"cannot ban {texts}", "a search takes token ids", "Pass the ids")
        return cls(task, tuple(ids))

    def bans(self, position: int, state: tuple[()]) -> Collection[int]:
        """Return the same tokens at every position."""
        return self.banned

    def bans_last(self, position: int, state: tuple[()]) -> int:
        """Return `FOREVER`."""
        return FOREVER


class MinimumLength(LogitsProcessor):
    """Bans the end token before the minimum length, which counts the end token."""

    def __init__(self, task: Task[Any, Any], length: Annotated[int, Field(ge=1)]) -> None:
        self.length = length

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor unless every length is allowed."""
        return cls(task, options.min_length) if options.min_length > 1 else None

    def bans(self, position: int, state: tuple[()]) -> Collection[int]:
        """Return the end token if it comes too early."""
        return (END,) if position < self.length else ()

    def bans_last(self, position: int, state: tuple[()]) -> int:
        """Return how many positions are left to the minimum; `FOREVER` once it is reached."""
        return self.length - position if position < self.length else FOREVER


class MaximumLength(LogitsProcessor):
    """Cuts hypotheses at the maximum length, which counts the end token; changes no score."""

    def __init__(self, lengths: Tensor) -> None:
        self.lengths = lengths

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self:
        """Return the processor; the default maximum depends on each source's length.

        The model's limit always holds; a prefix leaves room for one more token.
        """
        if options.max_length is None:
            lengths = target_limits(task.mask.sum(1), None).clamp(min=options.min_length)
        else:
            lengths = torch.full((len(task),), options.max_length, device=task.mask.device)
        if task.prefixes is not None:
            lengths = torch.maximum(lengths, (task.padded_prefixes() != PADDING).sum(1) + 1)
        return cls(lengths if task.limit is None else lengths.clamp(max=task.limit - 1))

    def max_lengths(self) -> Tensor:
        """Return each sentence's maximum length, (sentences,)."""
        return self.lengths


class NotEmpty(LogitsProcessor[Tensor]):
    """Bans the end token until a token that is not blank has been written.

    At the maximum length, where a hypothesis is cut, a row of blank tokens may not write another.
    The state is (rows,) bool, whether all tokens so far are blank; an empty tuple once no row's
    are, so that later steps cost nothing.
    """

    def __init__(self, blank: Tensor | None, lengths: Tensor) -> None:
        self.blank, self.lengths = blank, lengths
        self.shortest = int(lengths.amin()) if len(lengths) else 1

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor unless empty translations are allowed."""
        if options.allow_empty:
            return None
        blank = None if task.blank is None or not len(task.blank) else task.blank
        return cls(blank, MaximumLength.create(task, options).lengths)

    def within(self, lengths: Tensor) -> Self:
        """Return the processor with the maximum lengths of all processors together."""
        return type(self)(self.blank, lengths)

    @property
    def only_bans(self) -> bool:
        """Whether it only bans tokens: once no row is blank."""
        return True

    def init_state(self, sentence: Tensor) -> Tensor | tuple[()]:
        """Return the state in which every row is blank; () if no token is blank."""
        return () if self.blank is None else torch.ones_like(sentence, dtype=torch.bool)

    def update(
        self, state: Tensor | tuple[()], token: Tensor, attention: Mapping[str, Tensor]
    ) -> Tensor | tuple[()]:
        """Return which rows have written only blank tokens."""
        if isinstance(state, tuple) or self.blank is None:
            return ()
        state = state & ((token[:, None] == self.blank).any(1) | (token == BEGIN))
        return state if bool(state.any()) else ()

    def bans(self, position: int, state: Tensor | tuple[()]) -> Collection[int] | None:
        """Return the end token at the first position; later, rows differ while any is blank."""
        if position == 1 and (self.blank is None or position < self.shortest):
            return (END,)
        return () if isinstance(state, tuple) else None

    def bans_last(self, position: int, state: Tensor | tuple[()]) -> int:
        """Return `FOREVER` once no row is blank any more."""
        return FOREVER if position > 1 and isinstance(state, tuple) else 0

    def process(self, scores: Tensor, rows: Rows, state: Tensor | tuple[()]) -> Tensor:
        """Ban the end token in blank rows, and blank tokens in those that are cut here."""
        if isinstance(state, tuple) or self.blank is None:
            return super().process(scores, rows, state)
        last = state & (rows.position >= self.lengths[rows.sentence])
        scores = scores.clone()
        scores[:, END] = scores[:, END].masked_fill(state, -torch.inf)
        scores[:, self.blank] = scores[:, self.blank].masked_fill(last[:, None], -torch.inf)
        return scores


class NoRepeatNgrams(LogitsProcessor):
    """Bans tokens that would complete an n-gram which the hypothesis already contains.

    Paulus et al. 2018, section 2.5, for trigrams. The end token belongs to no n-gram.
    """

    def __init__(self, task: Task[Any, Any], size: Annotated[int, Field(ge=1)]) -> None:
        self.size = size

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor if a size is given."""
        size = options.no_repeat_ngram_size
        return None if size is None else cls(task, size)

    def bans(self, position: int, state: tuple[()]) -> Collection[int] | None:
        """Return nothing while no n-gram is complete; later, rows differ."""
        return () if position <= self.size else None

    def process(self, scores: Tensor, rows: Rows, state: tuple[()]) -> Tensor:
        """Ban the last token of every earlier n-gram that begins with the last n − 1 tokens."""
        if rows.position <= self.size:
            return scores
        ngrams = rows.written.unfold(1, self.size, 1)  # (rows, n-grams, size)
        suffix = rows.written[:, rows.written.shape[1] - self.size + 1 :]
        row, ngram = (ngrams[..., :-1] == suffix[:, None]).all(2).nonzero(as_tuple=True)
        banned = torch.zeros_like(scores, dtype=torch.bool)
        banned[row, ngrams[row, ngram, -1]] = True
        return scores.masked_fill(banned, -torch.inf)


class RepetitionPenalty(LogitsProcessor):
    """Multiplies the scores of tokens that the hypothesis already contains.

    Keskar et al. 2019 (CTRL), section 4.1, with two differences. The paper divides logits; a
    logit's sign has no meaning, which is why implementations divide positive logits and multiply
    negative ones. Log probabilities are never positive, so that here all are multiplied. And the
    result is not normalized: a probability p becomes p^penalty. The end token is never penalized.
    """

    changes_scores = True

    def __init__(self, task: Task[Any, Any], penalty: Annotated[float, Field(gt=0)]) -> None:
        self.factor = float(penalty)

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor unless the penalty changes nothing."""
        penalty = options.repetition_penalty
        return None if penalty == 1 else cls(task, penalty)

    def process(self, scores: Tensor, rows: Rows, state: tuple[()]) -> Tensor:
        """Penalize the tokens written."""
        written = scores.gather(1, rows.written)
        return scores.scatter(1, rows.written, written * self.factor)


class CoveragePenalty(LogitsProcessor[Tensor]):
    """Adds B · Σ_j log min(Σ_i α_ij, 1) to a hypothesis's rank; changes no score.

    Wu et al. 2016, equation 14. The state is the attention to each key of the source, summed over
    steps: (rows, keys). `mask` is True at real keys, (sentences, keys).
    """

    needs_attention = True

    def __init__(self, task: Task[Any, Any], factor: Annotated[float, Field(ge=0)]) -> None:
        kind = check_coverage(getattr(task.model, "attention_kinds", {}))
        self.factor, self.mask = factor, kind.keys(task.mask)

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor if a penalty is given.

        Raises:
            DecodingError: the network's attention says nothing about the coverage of the source.
        """
        return cls(task, options.coverage_penalty) if options.coverage_penalty else None

    def init_state(self, sentence: Tensor) -> Tensor:
        """Return no attention."""
        shape = len(sentence), self.mask.shape[1]
        return torch.zeros(shape, dtype=torch.float32, device=sentence.device)

    def update(
        self, state: Tensor | tuple[()], token: Tensor, attention: Mapping[str, Tensor]
    ) -> Tensor:
        """Add a step's attention.

        Raises:
            DecodingError: the model has no attention from target to source.
        """
        assert isinstance(state, Tensor)
        return state + cross_attention(attention).flatten(1)

    def penalty(self, state: Tensor | tuple[()], sentence: Tensor) -> Tensor:
        """Return the penalty of each row, (rows,)."""
        assert isinstance(state, Tensor)
        # Attention that has underflowed to 0 counts as the least that has not.
        logs = state.clamp(min=1e-30, max=1.0).log().masked_fill(~self.mask[sentence], 0.0)
        return self.factor * logs.sum(1)


class Prefix(LogitsProcessor):
    """Forces each sentence's prefix, regardless of bans and penalties.

    It must be the last processor. A prefix's tokens keep the network's log probabilities.
    """

    def __init__(self, prefixes: Tensor) -> None:
        self.prefixes = prefixes

    @classmethod
    def create(cls, task: Task[Any, Any], options: Search) -> Self | None:
        """Return the processor if the task has prefixes."""
        prefixes = task.padded_prefixes()
        return cls(prefixes) if prefixes.shape[1] else None

    def bans(self, position: int, state: tuple[()]) -> Collection[int] | None:
        """Return nothing after the longest prefix; up to its end, rows differ."""
        return () if position > self.prefixes.shape[1] else None

    def bans_last(self, position: int, state: tuple[()]) -> int:
        """Return `FOREVER` once the longest prefix is written."""
        return FOREVER if position > self.prefixes.shape[1] else 0

    def process(self, scores: Tensor, rows: Rows, state: tuple[()]) -> Tensor:
        """Ban all tokens but the prefix's, in rows whose prefix reaches this position."""
        if rows.position > self.prefixes.shape[1]:
            return scores
        token = self.prefixes[rows.sentence, rows.position - 1, None]
        only = torch.full_like(scores, -torch.inf).scatter(
            1, token, rows.log_probs.gather(1, token)
        )
        return torch.where(token == PADDING, scores, only)


FIRST: tuple[type[LogitsProcessor[Any]], ...] = (
    BannedTokens, MinimumLength, MaximumLength, NotEmpty, RepetitionPenalty, NoRepeatNgrams,
    CoveragePenalty,
)  # fmt: skip
"""The processors of the fields of `Search`, in the order in which they run. Those that a search
names run after them, and `Prefix` runs last."""
