"""Minimum risk training: the expected error of what the network samples."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.decoding.task import full_precision
from zoo.nn.contract import BEGIN, END, PADDING, Seq2Seq
from zoo.training.setup import Setup
from zoo.training.training_batch import TrainingBatch


class MinimumRisk:
    """The risk of samples, the reference among them (Shen et al. 2016, equations 6 to 8).

    With the distinct candidates S of a source x, which are samples and the reference:

        Σ_{y ∈ S} Q(y) Δ(y),   Q(y) = p(y | x)^α / Σ_{z ∈ S} p(z | x)^α

    Δ is 1 − s / 100, with s the sentence's chrF or BLEU. Each sentence counts by its number of
    target tokens, as in the other objectives. Samples of over `longest` tokens do not count.
    """

    def __init__(
        self,
        setup: Setup,
        network: Seq2Seq,
        samples: Annotated[int, Field(ge=1, le=1000)] = 8,
        alpha: Annotated[float, Field(gt=0)] = 0.005,
        temperature: Annotated[float, Field(gt=0)] = 1.0,
        metric: Literal["chrf", "bleu"] = "chrf",
        longest: Annotated[int, Field(ge=1)] | None = None,
    ) -> None:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        self.tokenizer, self.longest = setup.target_tokenizer, longest
        self.samples, self.alpha, self.temperature = samples, alpha, temperature
        self.metric = CHRF() if metric == "chrf" else BLEU(effective_order=True)

    def __call__(self, batch: TrainingBatch) -> Tensor:
        """Return the risk of a batch."""
        candidates = self._candidates(batch)
        owner = torch.tensor(
            [row for row, targets in enumerate(candidates) for _ in targets],
            device=batch.source.device,
        )
        rows = [torch.tensor(ids, device="cpu") for targets in candidates for ids in targets]
        target = pad_sequence(rows, batch_first=True, padding_value=PADDING).to(owner.device)
        logits = full_precision(
            batch.forward(batch.source[owner], batch.source_mask[owner], target[:, :-1]).logits
        )
        labels = target[:, 1:]
        log_probs = -torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), labels, ignore_index=PADDING, reduction="none"
        ).sum(1)
        sizes = [len(targets) for targets in candidates]
        scores = pad_sequence(
            list((self.alpha * log_probs).split(sizes)),
            batch_first=True,
            padding_value=float("-inf"),
        )
        risks = pad_sequence(self._risks(candidates), batch_first=True).to(owner.device)
        risk = (scores.softmax(1) * risks).sum(1)
        return (risk * batch.tokens).sum()

    def _candidates(self, batch: TrainingBatch) -> list[list[tuple[int, ...]]]:
        """Return the distinct targets of each row with begin and end tokens, the reference last."""
        lengths = batch.tokens
        drawn = batch.sample(self.samples, self.longest, self.temperature)
        candidates = []
        for row, hypotheses in enumerate(drawn):
            reference = tuple(batch.target[row, : int(lengths[row]) + 1].tolist())
            ended = ((BEGIN, *h.tokens, END) for h in hypotheses if h.finished)
            candidates.append([*dict.fromkeys(t for t in ended if t != reference), reference])
        return candidates

    def _risks(self, candidates: list[list[tuple[int, ...]]]) -> list[Tensor]:
        risks = []
        for targets in candidates:
            texts = [self.tokenizer.decode(ids[1:-1]) for ids in targets]
            scores = [self.metric.sentence_score(text, [texts[-1]]).score for text in texts]
            risks.append(1 - torch.tensor(scores, dtype=torch.float32, device="cpu") / 100)
        return risks
