"""The search that a network brings, because it predicts the tokens of a target together."""

from __future__ import annotations

import math
from typing import Any

import torch

from zoo.decoding.options import Hypothesis, Search, search_options
from zoo.decoding.pipeline import check_banned
from zoo.decoding.processors import BannedTokens
from zoo.decoding.ranking import not_a_number
from zoo.decoding.task import Task, full_precision, target_limits
from zoo.errors import DecodingError
from zoo.nn.contract import END, Memory, NonAutoregressive
from zoo.nn.faults import blaming_network, broken_network

READ = frozenset({"max_length", "banned", "allow_empty"})
"""The search options that such a network follows. It writes no empty translation in any case."""


@torch.inference_mode()
def own_search(
    model: NonAutoregressive[Memory], task: Task[Any, Any], options: Search
) -> list[list[Hypothesis]]:
    """Run a network's own search; return one hypothesis for each sentence.

    Raises:
        DecodingError: options are given that only a search by steps can follow, all of them named;
            a banned token is not in the vocabulary, or all are banned; or a score is not a number.
    """
    changed = [
        f"`{option.flag}`"
        for option in search_options()
        if option.name not in READ and getattr(options, option.name) != option.default
    ]
    if any(task.prefixes or ()):
        changed.append("`--prefix`")
    if changed:
        raise DecodingError(
            f"this model cannot follow {', '.join(changed)}",
            f"{type(model).__name__} predicts all tokens together, by a search of its own",
            "Leave these options out",
        )
    limits = target_limits(task.mask.sum(1), task.limit)
    if options.max_length == 1:
        raise DecodingError("`--max-length 1` has no room for a token", "the end token counts")
    if options.max_length is not None:
        limits = limits.clamp(max=options.max_length)
    never = BannedTokens.create(task, options).banned
    check_banned(never, model.target_vocab)
    banned = torch.tensor(never, device=task.mask.device)
    with blaming_network(model):
        tokens, log_probs = model.decode(task.memory, limits, banned)
        whole = tokens.shape == log_probs.shape and tokens.shape[:1] == (len(task),)
        if not (whole and bool((tokens == END).any(1).all())):
            raise broken_network(type(model), "decode returned a target without an end token")
    scores = full_precision(log_probs)
    hypotheses = []
    for row, of_row in zip(tokens.tolist(), scores, strict=True):
        length = row.index(END)
        values = of_row[: length + 1].tolist()
        score = sum(values)
        if math.isnan(score):
            raise not_a_number()
        if score == -math.inf:
            why = "the search options ban every token"
            raise DecodingError("no translation is possible", why, "Ban fewer tokens")
        hypotheses.append([Hypothesis(tuple(row[:length]), score, finished=True, rank_score=score)])
    return hypotheses
