"""Search: from memory to hypotheses, by `step` alone."""

from zoo.decoding.beam import beam_search
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.exhaustive import exhaustive_search
from zoo.decoding.forced import align, forced, look
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.task import Decoder, Task, target_limits
from zoo.decoding.walk import greedy, greedy_search, sample

__all__ = [
    "Decoder",
    "Ensemble",
    "Hypothesis",
    "Search",
    "Task",
    "align",
    "beam_search",
    "exhaustive_search",
    "forced",
    "greedy",
    "greedy_search",
    "look",
    "sample",
    "search",
    "target_limits",
]


def search(task: Task, options: Search) -> list[list[Hypothesis]]:
    """Search as the options say; return each sentence's n best, the best first.

    Raises:
        DecodingError: the model has no attention for a coverage penalty, or an exhaustive search
            would be too large.
    """
    if options.exhaustive:
        return exhaustive_search(task, options)
    if options.sample:
        return sample(task, options)
    return greedy_search(task, options) if options.beam == 1 else beam_search(task, options)
