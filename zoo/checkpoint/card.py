"""The cards: what a model or a checkpoint is, for people and for the Hub.

A checkpoint's card has a part that is written from what is known, between two marks, and around it
whatever its author writes: making it again keeps the author's words and metadata.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.checkpoint.format import CARD, CONFIG, CURVE, TRAINING, architecture_of, describe
from zoo.checkpoint.markdown import markdown_table as markdown_table
from zoo.checkpoint.scores import scores_table
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.registry.catalogue import Model
from zoo.registry.config import Config
from zoo.registry.declarations import Architecture, Dataset
from zoo.registry.parameters import Table
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.checkpoint.checkpoint import Checkpoint


EQUATIONS = """## Equations

The family's, with all of its choices; which of them this model makes stands under Configuration."""


def parameter_table(table: Table) -> str:
    """Return every parameter, each block's sum, and the total, as Markdown."""
    rows = [
        [
            row.block,
            f"`{row.symbol}`",
            row.formula,
            " × ".join(f"{size:,}" for size in row.shape),
            f"{row.count:,}",
            f"`{row.path}`" + (f"[{row.slice[0]}:{row.slice[1]}]" if row.slice else ""),
        ]
        for row in table
    ]
    head = ["block", "symbol", "shape", "numbers", "parameters", "weight"]
    sums = [[block, f"{count:,}"] for block, count in table.blocks().items()]
    sums.append(["**total**", f"**{table.total:,}**"])
    return f"{markdown_table(head, rows)}\n\n{markdown_table(['block', 'parameters'], sums)}"


def settings_table(config: Config) -> str:
    """Return a configuration with each value's meaning, as Markdown."""
    fields = type(config).model_fields
    rows = [
        [f"`{name}`", f"`{value}`", fields[name].description or ""]
        for name, value in config.model_dump(mode="json").items()
    ]
    return markdown_table(["key", "value", "meaning"], rows)


def model_card(model: Model, architecture: Architecture, config: Config) -> str:
    """Return the card of a model that a catalogue lists."""
    table = config.parameters(model.source_vocab, model.target_vocab)
    count = (
        f"{table.total:,} parameters at {model.source_vocab:,} source and "
        f"{model.target_vocab:,} target entries."
    )
    if model.paper_parameters is not None:
        off = 100 * (table.total / model.paper_parameters - 1)
        more = f"{abs(off):.1f}% {'more' if off > 0 else 'less'}"
        count += f" The paper says {model.paper_parameters:,}: this is {more}."
    sections = [
        f"# {model.name}",
        f"{model.summary[:1].upper()}{model.summary[1:]}.",
        f"Architecture `{architecture.name}`: {architecture.summary}. Paper: {architecture.paper}.",
        count,
        model.notes.strip(),
        f"```sh\nzoo train {model.name} --data corpus:en-de --out my-{model.name} --epochs 10\n```",
        EQUATIONS if architecture.equations else "",
        architecture.equations_text(),
        f"## Configuration\n\n{settings_table(config)}",
        f"## Parameters\n\n{parameter_table(table)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


CARD_LIMIT = 1_000_000
"""The most bytes of a card."""

LIBRARY = "seq2seq-zoo"
BEGIN, END = "<!-- generated: zoo card -->\n", "<!-- end -->\n"
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Facts:
    """What is known of a checkpoint; `training` and `scores` may be empty."""

    name: str
    model: str
    architecture: Architecture
    config: Config
    sizes: tuple[int, int]
    dataset: str
    languages: Sequence[str] = ()
    terms: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[Mapping[str, Any]] = ()


def checkpoint_card(
    checkpoint: Checkpoint,
    architecture: Architecture,
    dataset: Dataset,
    training: Mapping[str, Any],
) -> str:
    """Return a new checkpoint's card, with the metadata that the Hub reads."""
    model = checkpoint.model
    facts = Facts(
        checkpoint.name,
        checkpoint.model_name,
        architecture,
        checkpoint.config,
        (model.source_vocab, model.target_vocab),
        dataset.name,
        [language for language in dataset.languages if language],
        dataset.terms,
        training=training,
    )
    return compose(facts, "")


def card_of(folder: Path, registry: Registry, scores: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a checkpoint folder's card, made again from what is known and what its author wrote.

    Raises:
        CheckpointError, PluginError: the folder is not a whole checkpoint, its card is not
            well-formed, or its architecture is not installed.
    """
    description = describe(folder)
    architecture = architecture_of(folder, description, registry)
    config = architecture.config_type().parse(description["config"], f"{folder / CONFIG}, config")
    training: Mapping[str, Any] = {}
    if (folder / TRAINING).is_file():
        training = read_json(folder / TRAINING, TEXT_LIMIT)
    data = str(training.get("data", "unknown data"))
    dataset = registry.datasets.get(data)
    before = read_text(folder / CARD, CARD_LIMIT) if (folder / CARD).is_file() else ""
    facts = Facts(
        _title(before) or folder.resolve().name,
        description["model"],
        architecture,
        config,
        (description["source_vocab"], description["target_vocab"]),
        dataset.name if dataset else Path(data).name,
        [language for language in dataset.languages if language] if dataset else (),
        dataset.terms if dataset else "",
        training=training,
        scores=scores,
    )
    try:
        return compose(facts, before)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{folder / TRAINING} is not well-formed", reason) from None


def compose(facts: Facts, before: str) -> str:
    """Return a card: the author's metadata and words of the card before, and ours made new.

    Raises:
        CheckpointError: the card before is not well-formed.
    """
    from huggingface_hub import ModelCardData

    metadata, text = split_card(before, CARD)
    tags = metadata.get("tags")
    ours = {
        "library_name": LIBRARY,
        "pipeline_tag": "translation",
        "language": list(facts.languages) or metadata.get("language"),
        "tags": [*(tags if isinstance(tags, list) else []), "seq2seq", facts.architecture.name],
    }
    # Whoever writes a card by hand may order its metadata as they like.
    order = [*metadata, *(key for key in ours if key not in metadata)]
    data = ModelCardData(**{**metadata, **ours})
    start, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and not end:
        raise CheckpointError(f"{CARD} has lost its mark {END.strip()!r}", "", "Put it back")
    around = (start, after) if begin else ("", f"\n{text.strip()}\n" if text.strip() else "")
    front = data.to_yaml(original_order=order)
    lead = around[0].strip()
    lead = f"{lead}\n\n" if lead else ""
    return f"---\n{front}\n---\n\n{lead}{BEGIN}{generated(facts)}{END}{around[1]}"


def generated(facts: Facts) -> str:
    """Return the part of a card that is written from what is known."""
    training, config = facts.training, facts.config
    story = f"The model `{facts.model}` ({facts.architecture.summary}) trained on `{facts.dataset}`"
    picture = f"![Loss by update]({CURVE})\n\n" if "released" in training else ""
    details = []
    if "pairs" in training:
        details = [f"{training['pairs']:,} pairs", f"{training['steps']:,} updates"]
        details.append(f"{training['minutes']} minutes")
    last = training.get("released", math.inf)  # what came after is not in the weights
    curve = [
        row for row in training.get("curve", []) if "validation_loss" in row and row["step"] <= last
    ]
    if curve:
        details.append(f"validation loss {curve[-1]['validation_loss']:.3f} nats a token")
    sections = [
        f"# {facts.name}",
        story + (f": {', '.join(details)}." if details else "."),
        f"Terms of the data: {facts.terms}." if facts.terms else "",
        f'```python\nimport zoo\n\nzoo.load("{facts.name}").translate(["…"])\n```',
        f"Paper: {facts.architecture.paper}.",
        f"## Scores\n\n{scores_table(facts.scores, facts.name)}" if facts.scores else "",
        f"## Configuration\n\n{settings_table(config)}",
        f"## Recipe\n\n{_recipe_table(training['recipe'])}" if training.get("recipe") else "",
        f"## Curve\n\n{picture}{_curve_table(curve)}" if curve else "",
        f"## Parameters\n\n{parameter_table(config.parameters(*facts.sizes))}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _recipe_table(recipe: Mapping[str, Any]) -> str:
    return markdown_table(["key", "value"], [[f"`{k}`", f"`{v}`"] for k, v in recipe.items()])


def _curve_table(curve: Sequence[Mapping[str, Any]]) -> str:
    """Return at most ten points of the validation curve, the last among them."""
    step = max(1, -(-len(curve) // 10))
    rows = [[f"{row['step']:,}", f"{row['validation_loss']:.4f}"] for row in curve[::-step][::-1]]
    return markdown_table(["update", "validation loss, nats a token"], rows)


def evaluation_results(scores: Sequence[Mapping[str, Any]]) -> str:
    """Return the Hub's record of the scores on its own benchmarks, empty if there are none.

    A score is one of those where its `benchmark` reads owner/dataset or owner/dataset:task.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = []
    for record in scores:
        dataset, _, task = str(record.get("benchmark", "")).partition(":")
        if dataset and "bleu" in record:
            notes = f"BLEU, {record.get('bleu_signature', '')}".removesuffix(", ")
            value = round(record["bleu"], 2)
            entries.append(EvalResultEntry(dataset, task or "default", value, notes=notes))
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False) if entries else ""


# --- reading ------------------------------------------------------------------------------------


def split_card(card: str, where: str) -> tuple[dict[str, Any], str]:
    """Return a card's metadata and its text.

    Raises:
        CheckpointError: the metadata is not a table of YAML, or not what the Hub takes.
    """
    match = _FRONT.match(card)
    if match is None:
        return {}, card
    import yaml
    from huggingface_hub import ModelCardData

    try:
        metadata = yaml.safe_load(match[1])
        if metadata is None:
            metadata = {}
        if not isinstance(metadata, dict) or not all(type(key) is str for key in metadata):
            raise ValueError("it is not a table with words for keys")
        for key in ("library_name", "pipeline_tag", "license"):
            if not isinstance(metadata.get(key), str | None):
                raise ValueError(f"{key!r} must be a word")
        for key in ("language", "tags", "datasets", "metrics"):
            value = [] if metadata.get(key) is None else metadata[key]
            values = value if isinstance(value, list) else [value]
            if not all(isinstance(value, str) for value in values):
                raise ValueError(f"{key!r} must be words (quote no and on)")
        ModelCardData(**metadata).to_yaml()
    except Exception as error:  # YAML's constructors raise whatever Python's own do
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CheckpointError(f"the metadata of {where} is not well-formed", reason) from None
    return metadata, card[match.end() :]


def _title(card: str) -> str:
    match = re.search(r"^# (.+)$", card, re.MULTILINE)
    return match[1].strip() if match else ""


def check_card(folder: Path) -> None:
    """Make sure that a checkpoint's card can go to a hub.

    Raises:
        CheckpointError: it is missing, or its metadata is not well-formed or of something else.
    """
    file = folder / CARD
    if not file.is_file():
        raise CheckpointError(
            f"{folder} has no card", f"{CARD} is missing", f"`zoo card {folder} --write` makes it"
        )
    metadata, _ = split_card(read_text(file, CARD_LIMIT), str(file))
    if metadata.get("library_name") != LIBRARY:
        raise CheckpointError(
            f"the card {file} does not say what it is a card of",
            f"its metadata must have library_name: {LIBRARY}",
            f"`zoo card {folder} --write` makes it again and keeps what you wrote",
        )
