"""The summary of a finished run: its length, scores, warnings and the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from zoo.errors import counted
from zoo.registry.recipe import Recipe
from zoo.training.advice import late_warnings
from zoo.training.data import TrainingData
from zoo.training.held_out import HeldOutScores
from zoo.training.plan import Plan
from zoo.training.session import Session
from zoo.training.tuning_record import describe


@dataclass(frozen=True)
class Summary:
    """How a run went: its length, its scores, warnings, and the next three commands."""

    out: Path
    updates: int
    epochs: float
    minutes: float
    best_update: int
    best_loss: float | None
    held_out: HeldOutScores | None
    warnings: tuple[str, ...]
    commands: tuple[str, ...]
    compared: tuple[str, ...] = ()
    """Scores before and after tuning, in lines."""
    released: str = ""
    """Which weights were released, if a score selects them and not the loss."""

    def lines(self) -> list[str]:
        """Return the summary as text."""
        lines = [
            f"{from_here(self.out)}: {counted(self.updates, 'update')}, "
            f"{self.epochs:.1f} epochs in {self.minutes:.1f} minutes"
        ]
        if self.best_loss is not None:
            lines.append(
                f"Best validation: loss {self.best_loss:.3f} after update {self.best_update:,}"
            )
        lines += [self.released] if self.released else []
        lines += of_held_out(self.held_out)
        lines += self.compared
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return [*lines, "Next:", *(f"  {command}" for command in self.commands)]


def says_nothing(bleu: float | None, exact: float | None) -> bool:
    """Return whether BLEU is 0 although some translations are right.

    It counts four words in a row, which short texts do not have.
    """
    return bool(exact) and not bleu


def of_held_out(scores: HeldOutScores | None) -> list[str]:
    """Return a line with the scores of held-out pairs, if there are any."""
    if scores is None or scores.bleu is None or scores.chrf is None or scores.exact is None:
        return []
    bleu = "" if says_nothing(scores.bleu, scores.exact) else f"BLEU {scores.bleu:.1f}, "
    return [
        f"Held-out text, {counted(scores.pairs, 'pair')}: {bleu}chrF {scores.chrf:.1f}, "
        f"exact match {scores.exact:.1f}% (greedy), loss {scores.loss:.3f}"
    ]


def from_here(path: str | Path) -> str:
    """Return a path as it is typed in the current folder: relative if it is below that folder."""
    try:
        relative = str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current folder was removed
        return str(path)
    return str(path) if relative.startswith("-") else relative


def summarize(session: Session) -> Summary:
    """Return how a finished run went, and the next commands."""
    trainer = session.trainer
    plan, data, state = trainer.plan, trainer.data, trainer.state
    metrics = trainer.folder.metrics()
    validations = [record for record in metrics if "validation_loss" in record]
    best = min(validations, key=lambda record: float(record["validation_loss"]), default=None)
    return Summary(
        trainer.folder.out,
        state.step,
        state.epoch + state.position / len(trainer.batches),
        state.seconds / 60,
        best["step"] if best else 0,
        best["validation_loss"] if best else None,
        session.held_out,
        (*late_warnings(plan, data, state.step, metrics), *session.warnings),
        next_commands(trainer.folder.out, data, plan),
        tuple(describe(compared) for compared in session.compared),
        _released(plan.recipe, state.best_step, validations),
    )


def _released(recipe: Recipe, step: int, validations: Sequence[Mapping[str, Any]]) -> str:
    """Return which weights were released, if `select` names a score and not the loss."""
    select, mean, share = recipe.select, recipe.average_last > 1, recipe.parent_share
    for record in validations:
        score = {**record, **record.get("scores", {})}.get(select)
        if record["step"] == step and score is not None and select != "loss":
            what = "the mean of the weights that were kept until" if mean else "the weights after"
            mixed = f" and {share:g} of the first weights" if share else ""
            return f"Released: {what} update {step:,}{mixed}, with {select} {score:.1f}"
    return ""


def next_commands(out: Path, data: TrainingData, plan: Plan) -> tuple[str, ...]:
    """Return commands to use a checkpoint with.

    Args:
        out: its folder.
        data: what it was trained on.
        plan: how, with the name or files of that data.
    """
    held_out, config = data.validation.pairs, plan.config
    shown = held_out or islice(data.dataset.stream(data.dataset.splits[0]), 1)
    text = min((p.source for p in shown), key=len, default="") or "TEXT"
    if not config.features and len(config.sources) == 1:
        text = text[:80]  # not of a file's name, nor of JSON
    splits = data.dataset.splits
    validated = bool(held_out) and "validation" in splits
    # All pairs of files were trained on, if other data validates.
    to_score = plan.data if "test" in splits else plan.validation or plan.data
    own = to_score == plan.data
    split = " --split validation" if own and validated and "test" not in splits else ""
    folder = shlex.quote(from_here(out))
    score: tuple[str, ...] = (
        f"zoo eval {folder} --data {shlex.quote(from_here(to_score))}{split}",
    )
    if validated and plan.limit is not None and "all" in splits:
        score = ()  # of all pairs of the files, others are held out
    serve = () if config.features else (f"zoo serve {folder}",)
    is_text = "-- " if text.startswith("-") else ""  # else it would be an option
    return (
        f"zoo translate {folder} {is_text}{shlex.quote(text)}",
        *score,
        *serve,
    )
