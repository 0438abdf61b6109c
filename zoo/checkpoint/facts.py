"""What a user wants to know about a checkpoint, from its metadata. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.card import (
    CARD_LIMIT,
    completed,
    intended_use,
    license_of,
    split_card,
    trained_length,
)
from zoo.checkpoint.card_text import size_in_words
from zoo.checkpoint.format import CARD, FILES, TRAINING, WEIGHTS, about_of, check_own
from zoo.checkpoint.scores import metrics, read_scores
from zoo.decoding.options import as_flags
from zoo.evaluation.labels import metric_label
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.registry.registry import Registry


def checkpoint_facts(
    folder: Path, description: Mapping[str, Any], registry: Registry
) -> dict[str, Any]:
    """Return the facts about a checkpoint folder as plain values, by name.

    Args:
        folder: the checkpoint.
        description: the content of its `config.json`.
        registry: where data without a description is looked up.

    Raises:
        CheckpointError: its card, its scores or its training record is invalid, or its card is
            refused by `read_card`.
    """
    training: Mapping[str, Any] = {}
    if (folder / TRAINING).is_file():
        training = read_json(folder / TRAINING, TEXT_LIMIT)
    metadata: Mapping[str, Any] = {}
    if (folder / CARD).is_file():
        metadata = split_card(read_card(folder), CARD)[0]
    about = completed(about_of(description), training, registry)
    files = {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}
    return {
        "source_languages": about.source_languages,
        "target_languages": about.target_languages,
        "data": about.data,
        "terms": about.terms,
        "license": license_of(metadata),
        "scores": [
            {
                "data": record["data"],
                "split": record["split"],
                "lowercase": bool(record.get("lowercase")),
                **{name: record[name] for name in metrics(record)},
            }
            for record in read_scores(folder)
            if not (record.get("limit") or record.get("with"))  # of a part, or of an ensemble
        ],
        "weights_bytes": files.get(WEIGHTS, 0),
        "total_bytes": sum(files.values()),
        "decoding": dict(about.decoding),
        "examples": about.examples,
        "origin": about.origin,
        "parent": about.parent,
        "intended_use": intended_use(about),
        "trained_length": about.trained_length,
        "single_words": about.single_words,
        "length": trained_length(about),
        "reads_whole": about.reads_whole,
        "tasks": dict(about.tasks),
        "single_word_tasks": about.single_word_tasks,
        "lower_case": about.lower_case,
        "lower_case_tasks": about.lower_case_tasks,
    }


def facts_in_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that are known, each as one line of text."""
    sides = [
        ", ".join(side[:8]) + (f" and {len(side) - 8} more" if len(side) > 8 else "")
        for side in (facts["source_languages"], facts["target_languages"])
    ]
    parent = f" from {facts['parent']}" if facts["parent"] else ""
    lines = {
        "languages": " → ".join(filter(None, sides)),
        "data": facts["data"],
        "origin": f"{facts['origin']}{parent}",
        "terms": facts["terms"],
        "license": facts["license"],
        "size": f"{size_in_words(facts['weights_bytes'])} of weights, "
        f"{size_in_words(facts['total_bytes'])} in all",
        "scores": "; ".join(filter(None, map(_score, facts["scores"]))),
        "decoding": as_flags(facts["decoding"]) or "greedy search (the default)",
        "tasks": ", ".join(map(_task, facts["tasks"].items())),
        "example": next(iter(facts["examples"]), ""),
        "intended use": facts["intended_use"],
        "length": facts["length"],
    }
    return {name: line for name, line in lines.items() if line}


def _task(task: tuple[str, Sequence[str]]) -> str:
    """Return a task's tag, and its languages if there are any."""
    languages = " to ".join(filter(None, task[1]))
    return task[0].strip() + (f" ({languages})" if languages else "")


def _score(record: Mapping[str, Any]) -> str:
    """Return the main metrics of a record on the test set; empty for other records."""
    if record["split"] != "test" or record["lowercase"]:
        return ""
    scores = [name for name in record if name not in ("data", "split", "lowercase")]
    names = [name for name in ("bleu", "chrf", "exact_match") if name in scores] or scores[:2]
    values = ", ".join(f"{metric_label(name)} {record[name]:.2f}" for name in names)
    return f"{values} on {record['data']}, test" if values else ""


def read_card(folder: Path) -> str:
    """Return the text of a checkpoint's card, which is shown to others.

    Raises:
        CheckpointError: it is missing or too large, or a link to a file that is neither in the
            folder nor a blob of the Hub's cache.
    """
    check_own(folder, CARD)
    return read_text(folder / CARD, CARD_LIMIT)
