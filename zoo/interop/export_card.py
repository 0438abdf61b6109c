"""The `README.md` of an exported folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zoo.checkpoint.card import render_front_matter
from zoo.checkpoint.checkpoint import Checkpoint


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
    }
    return render_front_matter(metadata) + "\n" + "\n".join(lines) + "\n"
