"""What the `README.md` of an imported or exported folder says, and who may use its weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.checkpoint.about import TEXT_LIMITS, About, one_line
from zoo.checkpoint.card import (
    METADATA_LIMIT,
    generated_metadata,
    license_of,
    render_front_matter,
    split_card,
)
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.facts import read_card
from zoo.checkpoint.format import CARD
from zoo.errors import CheckpointError, ZooError
from zoo.interop.generation import longest_output, was_written
from zoo.interop.source import Source

ORIGIN = "seq2seq-zoo"
"""The key of the metadata from which an import knows again what a checkpoint said about itself."""

FACTS = (
    "source_languages", "target_languages", "data", "terms", "decoding", "examples",
    "intended_use", "trained_length", "single_words", "reads_whole", "tasks",
    "single_word_tasks", "lower_case", "lower_case_tasks",
)  # fmt: skip

OWN = ("library_name", "pipeline_tag", ORIGIN)
"""Keys of the metadata that each folder has of its own: the others are the author's."""

ROOM = 10_000
"""Characters of the metadata for what a new card adds: tags, languages, facts of an export."""

MARKUP = "`<>[]"
"""Characters that no license has, but code of another card: it would become part of a new one."""

LICENSES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "COPYING")
STATEMENTS = (CARD, *LICENSES)
"""Files that say who may use the weights."""


def facts_of(checkpoint: Checkpoint, room: int = METADATA_LIMIT) -> dict[str, Any]:
    """Return what an export says about a checkpoint, as plain values of at most `room` characters.

    `longest` is the longest output that some formats state, which is no recommendation.
    """
    about = checkpoint.about.as_json()
    facts: dict[str, Any] = {"longest": longest_output(checkpoint)}
    for name in (name for name in FACTS if name in about):
        more = {**facts, name: _plain(about[name])}
        if len(render_front_matter({ORIGIN: more})) <= room:
            facts = more
    return facts


def _plain(value: object) -> object:
    """Return a value with lists for tuples, as YAML and JSON have them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def with_facts(about: About, facts: object) -> About:
    """Return what is said about a checkpoint, with the facts of an export's card that it lacks.

    The recommended search is the exported one if the folder still has what was written of it.
    """
    if not isinstance(facts, dict):
        return about
    try:
        stated = About.parse({name: facts[name] for name in FACTS if name in facts})
        lacking = (name for name in FACTS if name != "decoding" and not getattr(about, name))
        new = {name: getattr(stated, name) for name in lacking}
        if was_written(stated.decoding, about.decoding, facts.get("longest")):
            banned = {key: value for key, value in about.decoding.items() if key == "banned"}
            kept = {key: value for key, value in stated.decoding.items() if key != "banned"}
            new["decoding"] = kept | banned
            # a penalty that transformers' formula does not have was not written
            hidden = kept.get("beam", 1) > 1 and "beam" not in about.decoding
            new["own_penalty"] = hidden and bool(kept.get("length_penalty"))
        return replace(about, **new)
    except ZooError:  # it is only a card
        return about


def stated_card(folder: Path, name: str) -> tuple[dict[str, Any], str, object]:
    """Return what a folder's card says: the author's metadata, the license in words, and facts.

    The license has no markup and names the folder by `name`. The facts are those of an export; None
    if it is none. A link to a file of the folder is left out: the file is not copied.
    """
    metadata, fault = dict[str, Any](), ""
    if (folder / CARD).is_file():
        try:
            metadata = split_card(read_card(folder), CARD, lenient=True)[0]
        except CheckpointError:  # it names the folder, which is not for others
            fault = f" (its {CARD} cannot be read)"
    files = [name for name in LICENSES if (folder / name).is_file()]
    terms = f"see the file {files[0]} of {name}" if files else f"unknown{fault}"
    author = _kept({key: value for key, value in metadata.items() if key not in OWN})
    if "://" not in str(author.get("license_link")):
        author.pop("license_link", None)
    license = "".join(c for c in license_of(author) or terms if c not in MARKUP)
    return author, license, metadata.get(ORIGIN)


def _kept(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return an author's metadata; of those that a new card cannot hold, the license at most."""
    keys = ("license", "license_name")
    for kept in (metadata, {key: value for key, value in metadata.items() if key in keys}):
        text = render_front_matter(kept)
        with contextlib.suppress(CheckpointError):
            split_card(text, CARD)
            if len(text) <= METADATA_LIMIT - ROOM:
                return kept
    return {}


def with_card(about: About, source: Source, parent: str = "") -> tuple[About, dict[str, Any]]:
    """Return what is said about an imported checkpoint with what its card adds, and metadata.

    The metadata is that of the new card: the author's, with a license; what no file states is
    `unknown`. Of a single file nothing is known: a card beside it may be of something else.

    Args:
        about: what the importer read.
        source: the files.
        parent: the address of the folder, if it was downloaded.
    """
    author, license, facts = dict[str, Any](), "unknown", None
    if source.file is None:
        author, license, facts = stated_card(source.folder, parent or source.folder.resolve().name)
    about = with_facts(about, facts)
    terms = about.terms or f"license of the imported weights: {license}"
    if not license_of(author):
        author["license"] = "other" if license.startswith("see") else "unknown"
    return replace(about, terms=one_line(terms, TEXT_LIMITS["terms"])), author


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
    author, license = dict[str, Any](), "unknown"
    if checkpoint.folder is not None:
        author, license, _ = stated_card(checkpoint.folder, checkpoint.name)
    facts = [f"Model: {checkpoint.model_name} (architecture {checkpoint.architecture})"]
    facts.append(f"Precision: {precision}")
    if about.source_languages or about.target_languages:
        sides = (about.source_languages, about.target_languages)
        facts.append("Languages: " + " to ".join(", ".join(side) or "unknown" for side in sides))
    facts += [f"Data: {about.data}"] if about.data else []
    facts += [f"Terms: {about.terms}"] if about.terms else []
    facts += [f"License: {license}"]
    facts += [f"Intended use: {about.intended_use}"] if about.intended_use else []
    lines = [f"# {checkpoint.name}", "", "Exported from a checkpoint of seq2seq-zoo.", ""]
    lines += [f"- {fact}" for fact in (*facts, *notes)]
    lines += ["", "| file | bytes |", "|---|---|"]
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines += [
        f"| {file.relative_to(folder).as_posix()} | {file.stat().st_size:,} |" for file in files
    ]
    generated = generated_metadata(about, checkpoint.architecture, author)
    others = {key: value for key, value in author.items() if key not in generated}
    metadata = {"library_name": library, **generated, **others}
    metadata[ORIGIN] = facts_of(checkpoint, METADATA_LIMIT - len(render_front_matter(metadata)))
    front_matter = render_front_matter(metadata)
    return front_matter + "\n" + "\n".join(lines) + "\n"
