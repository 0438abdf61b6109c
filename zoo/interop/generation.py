"""The search that an exported Hugging Face folder recommends."""

from __future__ import annotations

from typing import Any

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Search


def recommended_search(checkpoint: Checkpoint, longest: int) -> dict[str, Any]:
    """Return values of `generation_config.json`: those of the recommended search that it has.

    transformers divides by n^length_penalty, the zoo by ((5 + n) / 6)^length_penalty: a beam with a
    penalty is recommended only if it was imported from there, and greedy search otherwise.

    Args:
        checkpoint: what is exported.
        longest: the most tokens of an output, if none are recommended.
    """
    given = dict(checkpoint.about.decoding)
    search = Search(**given)
    same = checkpoint.about.origin == "imported" or not search.length_penalty
    values: dict[str, Any] = {"num_beams": search.beam if same else 1}
    if values["num_beams"] > 1:
        values["length_penalty"] = search.length_penalty
    values["max_length"] = (search.max_length or longest - 1) + 1  # it counts the first token
    if search.no_repeat_ngram_size:
        values["no_repeat_ngram_size"] = search.no_repeat_ngram_size
    return values
