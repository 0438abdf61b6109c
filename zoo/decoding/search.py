"""The search that the options choose."""

from __future__ import annotations

from typing import Any

from zoo.decoding.named import checked_hypotheses
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.own_search import own_search
from zoo.decoding.task import Task
from zoo.nn.contract import Memory, NonAutoregressive, State
from zoo.registry.open_shelf import parse_named
from zoo.registry.registry import default_registry


def search(task: Task[Memory, State], options: Search) -> list[list[Hypothesis]]:
    """Run the search that the options select; return each sentence's n best hypotheses.

    Raises:
        DecodingError: the network brings a search that cannot follow the options, or the model has
            no attention for a coverage penalty, a banned token is not in the vocabulary, the
            options ban every token, or an exhaustive search is too large.
        UnknownNameError, ConfigError: there is no search or logits processor of that name, or its
            options are not valid.
        PluginError: a plugin's search or processor is broken.
    """
    if isinstance(task.model, NonAutoregressive):
        return own_search(task.model, task, options)
    shelf = (task.registry or default_registry()).searches
    named = parse_named(options.searching)
    entry = shelf.find(named["name"])
    if len(named) == 1 and shelf.owner(entry.name).builtin:
        hypotheses: list[list[Hypothesis]] = entry.load()(task, options)
        return hypotheses
    made: Any = shelf.make(named, task, options)
    with shelf.blaming(entry.name):
        return checked_hypotheses(made, task, options)
