"""The `README.md` of an exported folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.checkpoint.about import About
from zoo.checkpoint.card import render_front_matter, split_card
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.errors import ZooError

ORIGIN = "seq2seq-zoo"
"""The key of the metadata from which an import knows again what a checkpoint said about itself."""

FACTS = ("source_languages", "target_languages", "data", "terms", "trained_length")


def facts_of(about: About) -> dict[str, Any]:
    """Return what an export says about the languages and terms of a checkpoint, as plain values."""
    facts = {name: getattr(about, name) for name in FACTS}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in facts.items()
        if value
    }


def with_facts(about: About, card: str) -> About:
    """Return what is said about a checkpoint, with the facts of an export's card that it lacks."""
    try:
        facts = split_card(card, "the card")[0].get(ORIGIN)
        known = {name: facts.get(name) for name in FACTS} if isinstance(facts, dict) else {}
        new: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in known.items()
            if value and not getattr(about, name)
        }
        return replace(about, **new)
    except ZooError:  # it is only a card
        return about


def export_card(
    checkpoint: Checkpoint,
    folder: Path,
    precision: str,
    notes: Iterable[str] = (),
    library: str | None = None,
) -> str:
    """Return the card of an exported folder.

    Args:
        checkpoint: what was exported.
        folder: the folder, with all files except the card.
        precision: of its weights.
        notes: further lines of a list, about the format.
        library: the library that loads the folder, by its name on the Hub.
    """
    about = checkpoint.about
    facts = [f"Model: {checkpoint.model_name} (architecture {checkpoint.architecture})"]
    facts.append(f"Precision: {precision}")
    if about.source_languages or about.target_languages:
        sides = (about.source_languages, about.target_languages)
        facts.append("Languages: " + " to ".join(", ".join(side) or "unknown" for side in sides))
    facts += [f"Data: {about.data}"] if about.data else []
    facts += [f"Terms: {about.terms}"] if about.terms else []
    lines = [f"# {checkpoint.name}", "", "Exported from a checkpoint of seq2seq-zoo.", ""]
    lines += [f"- {fact}" for fact in (*facts, *notes)]
    lines += ["", "| file | bytes |", "|---|---|"]
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines += [
        f"| {file.relative_to(folder).as_posix()} | {file.stat().st_size:,} |" for file in files
    ]
    languages = [*dict.fromkeys((*about.source_languages, *about.target_languages))]
    metadata = {
        "library_name": library,
        "pipeline_tag": "translation",
        "language": languages or None,
        "tags": ["seq2seq", checkpoint.architecture],
        ORIGIN: facts_of(about) or None,
    }
    return render_front_matter(metadata) + "\n" + "\n".join(lines) + "\n"
