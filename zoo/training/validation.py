"""The validation split: its loss, its BLEU, and a sample of its translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from zoo.data.batches import Corpus, LeftOut, batch_sources, encode_pairs, evaluation_batches
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.greedy import greedy
from zoo.evaluation.metrics import score
from zoo.nn.contract import Seq2Seq
from zoo.registry.declarations import Pair
from zoo.registry.events import Sample
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.training.group import Group
from zoo.training.loss import teacher_forcing
from zoo.training.precision import autocast

ROWS = 64
"""Sentences translated at a time."""


class HeldOut:
    """The pairs to validate on, as tokens and as text; those too long or empty are left out."""

    def __init__(
        self, pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, limits: LengthLimits
    ) -> None:
        encoded = list(encode_pairs(pairs, source, target, limits))
        self.pairs = [
            p for p, ids in zip(pairs, encoded, strict=True) if not isinstance(ids, LeftOut)
        ]
        self.sources = [ids[0][:-1] for ids in encoded if not isinstance(ids, LeftOut)]
        self.corpus = Corpus.encode(self.pairs, source, target, limits)
        self.target, self.limits = target, limits

    def __len__(self) -> int:
        return len(self.pairs)


class Result(NamedTuple):
    """The loss per target token, in nats; BLEU, if it was asked for; and samples."""

    loss: float
    bleu: float | None
    samples: list[Sample]


@torch.inference_mode()
def validate(model: Seq2Seq, held_out: HeldOut, recipe: Recipe, group: Group) -> Result:
    """Try a model, in evaluation mode, on all that is held out. All processes must call it."""
    sums = torch.zeros(2, dtype=torch.float64, device=group.device)
    for place, batch in enumerate(evaluation_batches(held_out.corpus, recipe.batch_tokens)):
        # Shards must be gathered by all processes at once; whole weights let each do its own part.
        if group.sharded or place % group.size == group.rank:
            with autocast(group.device, recipe.precision):
                loss = teacher_forcing(model, batch.to(group.device))
            sums += torch.stack([loss.total.double(), loss.tokens.double()])
    total, tokens = (sums if group.sharded else group.sum(sums)).tolist()
    bleu: float | None = None
    samples: list[tuple[str, str, str]] = []
    if group.sharded or group.first:
        bleu, samples = _translate(model, held_out, recipe, group)
    bleu, texts = group.tell([bleu, samples])
    return Result(total / tokens, bleu, [Sample(*text) for text in texts])


def _translate(
    model: Seq2Seq, held_out: HeldOut, recipe: Recipe, group: Group
) -> tuple[float | None, list[tuple[str, str, str]]]:
    """Return BLEU of a part of what is held out, and sources, references and translations."""
    scored = _spread(len(held_out), recipe.bleu_sentences)
    shown = _spread(len(held_out), recipe.samples)
    wanted = sorted({*scored, *shown}, key=lambda i: (len(held_out.sources[i]), i))
    texts: dict[int, str] = {}
    for start in range(0, len(wanted), ROWS):
        rows = wanted[start : start + ROWS]
        source, mask = batch_sources([held_out.sources[i] for i in rows])
        source, mask = source.to(group.device), mask.to(group.device)
        found = greedy(model, source, mask, held_out.limits.target)
        texts |= {
            i: held_out.target.decode(hypothesis.tokens)
            for i, hypothesis in zip(rows, found, strict=True)
        }
    bleu = None
    if scored:
        references = [held_out.pairs[i].target for i in scored]
        bleu = score([texts[i] for i in scored], references).bleu
    return bleu, [(*held_out.pairs[i], texts[i]) for i in shown]


def _spread(count: int, most: int) -> list[int]:
    """Return up to `most` places, evenly spread over `count`."""
    most = min(count, most)
    return [i * count // most for i in range(most)]
