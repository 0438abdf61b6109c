"""The log probabilities of given targets."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from zoo.decoding.forced import forced_log_probs
from zoo.errors import DecodingError, shown
from zoo.translation.parallel import BATCH_TOKENS, batches, source_length
from zoo.translation.parts import MAX_SOURCE_LENGTH, Part
from zoo.translation.text_search import TextSearch

LOGITS = 1 << 15
"""The target vocabulary from which scored batches become smaller."""


def score_texts(
    search: TextSearch, sources: Sequence[str], targets: Sequence[str]
) -> list[list[float]]:
    """Return the log probability of each token of each target, the end token's last."""
    _check_pairs(search, sources, targets)
    parts = search.reader.parts(enumerate(sources), "refuse", MAX_SOURCE_LENGTH)
    encoded = search.checkpoint.target_tokenizer.encode(list(targets))
    _check_targets(search, encoded)
    return _score(search, parts, encoded)


def score_ids(
    search: TextSearch, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return what `score_texts` does for the ids of sources and targets."""
    sources, targets = _checked_ids(sources, "sources"), _checked_ids(targets, "targets")
    _check_pairs(search, sources, targets)
    checkpoint = search.checkpoint
    for side, tokenizer in (
        (sources, checkpoint.source_tokenizer), (targets, checkpoint.target_tokenizer)
    ):  # fmt: skip
        size = tokenizer.size
        if unknown := [i for ids in side for i in ids if not 0 <= i < size]:
            raise DecodingError(f"there is no token {unknown[0]}", f"ids are 0 to {size - 1:,}")
    parts = [Part(i, 0, "", "", ([*ids],)) for i, ids in enumerate(sources)]
    limit = search.reader.limit(MAX_SOURCE_LENGTH)
    if long := [part for part in parts if source_length(part) >= limit]:
        raise search.reader.too_long(long[0].text_index, long[0].tokens, limit)
    _check_targets(search, targets)
    return _score(search, parts, targets)


def _checked_ids(lists: object, side: str) -> list[list[int]]:
    """Return the ids of each text as Python's own; those of numpy and torch may be given.

    Raises:
        DecodingError: these are no lists of integers.
    """
    try:
        return [[index(i) for i in ids] for ids in lists]  # type: ignore[attr-defined]  # see below
    except TypeError as error:
        why = f"they are {shown(lists)}, not a list of token ids for each text"
        hint = "See `source_ids` of a translation, and `tokens` of its hypotheses"
        raise DecodingError(f"{side} have no ids to score", why, hint) from error


def _check_pairs(search: TextSearch, sources: Sequence[object], targets: Sequence[object]) -> None:
    if len(sources) != len(targets):
        counts = f"{len(sources):,} sources and {len(targets):,} targets are given"
        raise DecodingError("each source needs one target", counts)
    if len(search.checkpoints) > 1:
        raise DecodingError("an ensemble cannot score given targets", "name one checkpoint")


def _check_targets(search: TextSearch, targets: Sequence[Sequence[int]]) -> None:
    limit = search.checkpoint.config.length_limits.target or MAX_SOURCE_LENGTH
    for i, target in enumerate(targets):
        if len(target) + 2 > limit:
            raise DecodingError(f"target {i + 1} is too long", f"over {limit:,} tokens")


def _score(
    search: TextSearch, parts: Sequence[Part], encoded: Sequence[Sequence[int]]
) -> list[list[float]]:
    """Return the log probabilities of the tokens of targets, each with its end token's."""
    model = search.checkpoint.model

    def length(part: Part) -> int:
        return max(len(part.tokens[0]), len(encoded[part.text_index]))

    def scores_of(batch: list[Part]) -> list[list[float]]:
        given = [encoded[part.text_index] for part in batch]
        return forced_log_probs(model, *search.reader.tensors(batch)[0], given)

    # The logits of a batch, not only its tokens, must fit into memory.
    width = 1 + model.target_vocab // LOGITS
    work = search.shared(list(batches(parts, width, BATCH_TOKENS, length)), 1, length)
    by_index: dict[int, list[float]] = {}
    for batch, scores in zip(work, search.each(scores_of, work), strict=True):
        by_index |= zip((part.text_index for part in batch), scores, strict=True)
    return [by_index[i] for i in range(len(parts))]
