"""The search that an exported Hugging Face folder recommends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Search
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN


def recommended_search(
    checkpoint: Checkpoint, longest: int, of: Callable[[int], int], has_begin: bool
) -> dict[str, Any]:
    """Return values of `generation_config.json`: those of the recommended search that it has.

    transformers divides by n^length_penalty, the zoo by ((5 + n) / 6)^length_penalty: a beam with a
    penalty is recommended only if it was imported from there, and greedy search otherwise. A length
    counts the first token there, but the shortest one does not count the end token.

    Args:
        checkpoint: what is exported.
        longest: the most tokens of an output, if none are recommended.
        of: from an id of the zoo to that of the exported vocabulary.
        has_begin: whether the exported vocabulary has the begin token.
    """
    target = checkpoint.target_tokenizer
    vocabulary = [target.token(i) for i in range(target.size)]
    search = Search(**checkpoint.about.decoding).with_banned_ids(vocabulary)
    same = checkpoint.about.origin == "imported" or not search.length_penalty
    values: dict[str, Any] = {"num_beams": search.beam if same else 1}
    if values["num_beams"] > 1:
        values["length_penalty"] = search.length_penalty
    values["max_length"] = (search.max_length or longest - 1) + 1
    if search.min_length > 1:
        values["min_length"] = search.min_length
    if search.no_repeat_ngram_size:
        values["no_repeat_ngram_size"] = search.no_repeat_ngram_size
    if search.sample:
        drawn = {"temperature": search.temperature, "top_k": search.top_k or 0}
        values |= {"do_sample": True, **drawn, "top_p": search.top_p or 1.0}
    never = {PADDING, UNKNOWN, *search.banned} | ({BEGIN} if has_begin else set())
    values["suppress_tokens"] = sorted(of(int(i)) for i in never)
    values["begin_suppress_tokens"] = None if search.allow_empty else [of(END)]
    return values
