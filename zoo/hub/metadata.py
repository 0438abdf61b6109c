"""The Hub's requirements on a checkpoint: the metadata of its card, and its evaluation results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.checkpoint.card import LIBRARY, split_card
from zoo.checkpoint.facts import read_card
from zoo.checkpoint.format import CARD
from zoo.checkpoint.scores import metrics
from zoo.errors import CheckpointError


def check_card(folder: Path) -> None:
    """Make sure that a checkpoint's card can be pushed to a hub.

    Raises:
        CheckpointError: the card is missing, or its metadata is invalid or of another library.
    """
    file, metadata = _metadata(folder)
    if metadata.get("library_name") != LIBRARY:
        raise CheckpointError(
            f"the card {file} does not name its library",
            f"its metadata must have library_name: {LIBRARY}",
            f"`zoo card {folder} --write` generates it again and keeps your text",
        )


def check_metadata(folder: Path) -> None:
    """Make sure that the card of a folder of any format can be pushed to a hub.

    Raises:
        CheckpointError: the card is missing, or its metadata is invalid.
    """
    _metadata(folder)


def _metadata(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return the card of a folder and its metadata, checked by the Hub's client."""
    file = folder / CARD
    if not file.is_file():
        raise CheckpointError(
            f"{folder} has no card", f"{CARD} is missing", f"Write it: `zoo card {folder} --write`"
        )
    metadata, _ = split_card(read_card(folder), str(file))
    _check_with_client(metadata, file)
    return file, metadata


def _check_with_client(metadata: Mapping[str, Any], file: Path) -> None:
    """Make sure that the Hub's client accepts a card's metadata."""
    from huggingface_hub import ModelCardData

    try:
        ModelCardData(**metadata).to_yaml()
    except Exception as error:  # the client raises arbitrary built-in exceptions
        reason = str(error)[:300] or type(error).__name__
        raise CheckpointError(f"the metadata of {file} is invalid", reason) from None


def evaluation_results(scores: Sequence[Mapping[str, Any]]) -> str:
    """Return scores on the Hub's benchmarks in the Hub's own format; empty if there are none.

    A score is one of those if its `benchmark` is owner/dataset or owner/dataset:task.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = []
    for record in scores:
        dataset, _, task = str(record.get("benchmark", "")).partition(":")
        if dataset and "bleu" in metrics(record):
            notes = f"BLEU, {record['bleu_signature']}"
            value = round(record["bleu"], 2)
            entries.append(EvalResultEntry(dataset, task or "default", value, notes=notes))
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False) if entries else ""
