"""The search that the options choose."""

from __future__ import annotations

from zoo.decoding.beam import beam_search
from zoo.decoding.exhaustive import exhaustive_search
from zoo.decoding.greedy import greedy_search
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.own_search import own_search
from zoo.decoding.sampling import sample
from zoo.decoding.task import Task
from zoo.nn.contract import Memory, NonAutoregressive, State


def search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Run the search that the options select; return each sentence's n best hypotheses.

    Raises:
        DecodingError: the network brings a search that cannot follow the options, or the model has
            no attention for a coverage penalty, a banned token is not in
            the vocabulary, the options ban every token, or an exhaustive search is too large.
    """
    if isinstance(task.model, NonAutoregressive):
        return own_search(task.model, task, options)
    if options.exhaustive:
        return exhaustive_search(task, options)
    if options.sample:
        return sample(task, options)
    return greedy_search(task, options) if options.beam == 1 else beam_search(task, options)
