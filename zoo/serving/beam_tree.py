"""A beam search as a tree: what was kept at each step, what was pruned, and the scores.

The search itself is the one that translates. A recorder stands between it and the network: it
carries each row's tokens in the decoder's state, so that it knows every prefix that is live, and
writes down the most probable continuations of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources, exceeds
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.decoding.task import Decoder, Task
from zoo.errors import DecodingError
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN, Memory, State, Step
from zoo.nn.faults import encode
from zoo.translation.attention import printable
from zoo.translation.vocabulary import blank_tokens

MOST_TOKENS = 100
"""Steps of a search that is recorded."""

SPARE = 2
"""Continuations shown for each prefix beyond the width of the beam."""

Prefix = tuple[int, ...]


class Recorded(NamedTuple, Generic[State]):
    """A decoder's state with the tokens that each row has read, (rows, steps)."""

    state: State
    read: Tensor


PENALTIES = ("length_penalty", "coverage_penalty")
"""Recommended search options that a tree is drawn with."""


class Recorder(Generic[Memory, State]):
    """A decoder that records, for each live prefix, its most probable continuations."""

    def __init__(self, decoder: Decoder[Memory, State], width: int) -> None:
        self.decoder, self.width = decoder, width
        self.attention_kinds = getattr(decoder, "attention_kinds", {})
        self.steps: list[dict[Prefix, dict[int, float]]] = []
        self._log_probs: dict[Prefix, Tensor] = {}  # of the newest step, by the prefix

    def init_state(self, memory: Memory) -> Recorded[State]:
        """Return the state before the first token of one sentence."""
        return Recorded(self.decoder.init_state(memory), torch.zeros(1, 0, dtype=torch.long))

    def step(
        self, token: Tensor, state: Recorded[State], memory: Memory, attention: bool = False
    ) -> Step[Recorded[State]]:
        """Take a step of the decoder and record its log probabilities."""
        made = self.decoder.step(token, state.state, memory, attention)
        read = torch.cat([state.read, token[:, None]], 1)
        log_probs = made.logits.float().log_softmax(-1)
        for never in (PADDING, BEGIN, UNKNOWN):
            log_probs[:, never] = -torch.inf
        best = log_probs.topk(min(self.width, log_probs.shape[1]))
        recorded: dict[Prefix, dict[int, float]] = {}
        whole = {tuple(prefix[1:]): log_probs[row] for row, prefix in enumerate(read.tolist())}
        for row, prefix in enumerate(read.tolist()):
            continuations = dict(
                zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
            )
            continuations.setdefault(END, float(log_probs[row, END]))
            recorded.setdefault(tuple(prefix[1:]), continuations)
            self.keep(tuple(prefix[1:]))
        self.steps.append(recorded)
        self._log_probs = whole
        return Step(made.logits, Recorded(made.state, read), made.attention)

    def keep(self, path: Prefix) -> None:
        """Record a prefix of the newest step that was kept, as improbable as its token may be."""
        if path and path[-1] not in (step := self.steps[len(path) - 1][path[:-1]]):
            step[path[-1]] = float(self._log_probs[path[:-1]][path[-1]])


@torch.inference_mode()
def beam_tree(
    checkpoint: Checkpoint,
    text: str,
    options: dict[str, Any],
    on_step: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Return the beam search of one text as steps of nodes, and its hypotheses.

    A node is a prefix: its parent's index in the step before, its token, the token's log
    probability, the prefix's score, and what became of it: `kept`, `finished`, `pruned`, or `open`
    where the search ended.

    Raises:
        DecodingError: the text is empty or longer than the model reads, or the search is too long.
    """
    (source,) = checkpoint.source_tokenizer.encode([text])
    limits = checkpoint.config.length_limits
    if not source or exceeds(len(source) + 1, limits.source):
        raise DecodingError("no search to show", "the text is empty or longer than the model reads")
    if (least := options.get("min_length", 1)) > MOST_TOKENS:
        why = f"min_length is {least:,}, and {MOST_TOKENS} steps are the most"
        raise DecodingError("the search is too long to show", why, "Lower min_length")
    ids, mask = batch_sources([source])
    target = checkpoint.target_tokenizer
    beam = int(options.get("beam", 4))
    advice = {k: v for k, v in checkpoint.about.decoding.items() if k in PENALTIES}
    most = min(options.get("max_length") or MOST_TOKENS, MOST_TOKENS)
    given = {**advice, **options, "beam": beam, "n_best": beam, "max_length": most}
    recorder = Recorder(checkpoint.model, beam + SPARE)
    memory = encode(checkpoint.model, ids, mask)
    vocabulary = target.vocabulary()
    task = Task(
        recorder, memory, mask, limits.target,
        prefixes=target.encode([""]),  # the tag of a language
        blank=blank_tokens(vocabulary, target.control),
        on_step=on_step,
    )  # fmt: skip
    (hypotheses,) = search(task, Search(**given).with_banned_ids(vocabulary))
    for one in hypotheses:
        if not one.finished:
            recorder.keep(tuple(one.tokens))
    return {
        "source": [printable(checkpoint.source_tokenizer.token(i)) for i in source],
        "beam": beam,
        "steps": _nodes(recorder.steps, hypotheses, beam, lambda i: printable(target.token(i))),
        "hypotheses": [
            {
                "text": target.decode(one.tokens),
                "score": one.score,
                "rank_score": one.rank_score,
                "finished": one.finished,
            }
            for one in hypotheses
        ],
    }


def _nodes(
    steps: list[dict[Prefix, dict[int, float]]],
    hypotheses: list[Hypothesis],
    beam: int,
    token: Any,
) -> list[list[dict[str, Any]]]:
    """Return the nodes of each step, the best first, cut to those worth showing."""
    finished = {one.tokens: rank for rank, one in enumerate(hypotheses) if one.finished}
    cut = {one.tokens: rank for rank, one in enumerate(hypotheses) if not one.finished}
    scores: dict[Prefix, float] = {(): 0.0}
    index: dict[Prefix, int] = {(): 0}
    shown: list[list[dict[str, Any]]] = []
    for number, live in enumerate(steps):
        after = steps[number + 1] if number + 1 < len(steps) else {}
        nodes = []
        for prefix, continuations in live.items():
            for i, log_prob in continuations.items():
                if log_prob == -math.inf:
                    continue
                path = (*prefix, i)
                score = scores[prefix] + log_prob
                if i == END:
                    status = "finished" if prefix in finished else "pruned"
                elif path in after:
                    status = "kept"
                elif path in cut or not after:
                    status = "open"
                else:
                    status = "pruned"
                nodes.append((path, prefix, log_prob, score, status))
        nodes.sort(key=lambda node: -node[3])
        # Every node that was kept or finished, and as many more as make the competition visible.
        more = [n for n in nodes if n[4] in ("pruned", "open")][: beam + SPARE]
        nodes = [n for n in nodes if n[4] not in ("pruned", "open") or n in more]
        scores = {node[0]: node[3] for node in nodes}
        shown.append(
            [
                {
                    "parent": index[prefix],
                    "token": "</s>" if path[-1] == END else token(path[-1]),
                    "log_prob": log_prob,
                    "score": score,
                    "status": status,
                    "rank": finished.get(prefix) if path[-1] == END else cut.get(path),
                }
                for path, prefix, log_prob, score, status in nodes
            ]
        )
        index = {node[0]: i for i, node in enumerate(nodes)}
    return shown
