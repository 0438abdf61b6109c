"""Empty and blank translations, and bans that leave no possible translation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.decoding.reference import SEARCHES, scripted_task
from tests.shelves import registry_with
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.errors import DecodingError
from zoo.nn.contract import UNKNOWN

EMPTY = [[0.0, 0.0, 0.8, 0.0, 0.15, 0.05], [0.0, 0.0, 0.9, 0.0, 0.06, 0.04]]


@pytest.mark.parametrize("kind", SEARCHES, ids=str)
def test_no_translation_is_empty_unless_it_is_allowed(kind: dict[str, Any]) -> None:
    task = scripted_task(EMPTY, EMPTY)
    for best, *_ in search(task, Search(max_length=4, **kind)):
        assert best.tokens
    if "sample" not in kind:
        for best, *_ in search(task, Search(max_length=4, allow_empty=True, **kind)):
            assert best.tokens == ()
            assert best.finished
            assert best.score == pytest.approx(math.log(0.8))


@pytest.mark.parametrize("kind", SEARCHES, ids=str)
def test_no_translation_is_blank_unless_it_is_allowed(kind: dict[str, Any]) -> None:
    """Token 4 is white space: it is probable, but a translation of it alone is blank."""
    task = scripted_task(EMPTY, EMPTY, blank=[4])
    for length in (1, 2, 3, 4):
        for best, *_ in search(task, Search(max_length=length, **kind)):
            assert 5 in best.tokens
    if "sample" not in kind:
        (best,), _ = search(task, Search(max_length=4, min_length=2, allow_empty=True, **kind))
        assert best.tokens == (4,)


@pytest.mark.parametrize("kind", SEARCHES, ids=str)
def test_a_maximum_length_of_one_gives_one_token_without_the_end(kind: dict[str, Any]) -> None:
    for hypotheses in search(scripted_task(EMPTY, blank=[4]), Search(max_length=1, **kind)):
        assert [(h.tokens, h.finished) for h in hypotheses] == [((5,), False)]


def test_scores_and_ranking_of_other_translations_do_not_change() -> None:
    """Without the empty translation, the other translations keep their order and scores."""
    task = scripted_task(EMPTY)
    exhaustive = Search(exhaustive=True, n_best=50, max_length=3, length_penalty=0.7)
    (allowed,) = search(task, replace(exhaustive, allow_empty=True))
    (nonempty,) = search(task, exhaustive)
    assert nonempty == [h for h in allowed if h.tokens]
    assert len(nonempty) == len(allowed) - 1


def test_banning_everything_is_refused() -> None:
    task = scripted_task(EMPTY)
    for kind in SEARCHES:
        with pytest.raises(DecodingError, match=r"no translation is possible.*every token"):
            search(task, Search(banned=(4, 5), max_length=3, **kind))


ONLY = """
import torch
from zoo import LogitsProcessor, Processor

@hookimpl
def zoo_logits_processors():
    yield Processor("only", "allows one token", "zoo_visitor:Only")
    yield Processor("idle", "changes nothing", "zoo_visitor:Idle")

class Idle(LogitsProcessor):
    def __init__(self, task):
        pass

class Only(LogitsProcessor):
    def __init__(self, task, token: int):
        self.token = token

    def bans(self, position, state):
        return None

    def process(self, scores, rows, state):
        kept = torch.arange(scores.shape[1]) == self.token
        return scores.masked_fill(~kept, -torch.inf)
"""


def test_the_processor_that_leaves_no_token_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The unknown token is never written: who allows it alone allows none."""
    registry = registry_with(monkeypatch, ONLY)
    task = replace(scripted_task(EMPTY), registry=registry)
    for kind in SEARCHES:
        options = Search(processors=("idle", f"only:token={UNKNOWN}", "idle"), max_length=3, **kind)
        named = rf"the last of them by the processor only:token={UNKNOWN}\. Change"
        with pytest.raises(DecodingError, match=named):
            search(task, options)


def test_a_banned_token_outside_the_vocabulary_is_refused() -> None:
    for kind in SEARCHES:
        with pytest.raises(DecodingError, match=r"cannot ban token 6: the .* ids are 0 to 5"):
            search(scripted_task(EMPTY), Search(banned=(6,), max_length=3, **kind))


def test_banned_text_becomes_ids_by_the_vocabulary() -> None:
    vocabulary = ["<pad>", "<s>", "</s>", "<unk>", "▁der", "▁Hund"]
    assert Search(banned=("▁Hund", 4)).with_banned_ids(vocabulary).banned == (5, 4)
    with pytest.raises(DecodingError, match=r"cannot ban '▁Hunt'.* Did you mean ▁Hund"):
        Search(banned=("▁Hunt",)).with_banned_ids(vocabulary)
    with pytest.raises(DecodingError, match=r"cannot ban '▁Hund': a search takes token ids"):
        search(scripted_task(EMPTY), Search(banned=("▁Hund",)))
