"""The cards: what a model or a checkpoint is, for people and for the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoo.architecture import Architecture
from zoo.config import Config, Table
from zoo.datasets import Dataset
from zoo.registry import Model

if TYPE_CHECKING:
    from zoo.checkpoint import Checkpoint


EQUATIONS = """## Equations

The family's, with all of its choices; which of them this model makes stands under Configuration."""


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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


def checkpoint_card(
    checkpoint: Checkpoint,
    architecture: Architecture,
    dataset: Dataset,
    training: Mapping[str, Any],
) -> str:
    """Return a checkpoint's card, with the metadata that the Hub reads."""
    from huggingface_hub import ModelCardData

    config, model = checkpoint.config, checkpoint.model
    table = config.parameters(model.source_vocab, model.target_vocab)
    data = ModelCardData(
        library_name="seq2seq-zoo",
        pipeline_tag="translation",
        language=[language for language in dataset.languages if language] or None,
        tags=["seq2seq", architecture.name],
    )
    losses = [
        record["validation_loss"]
        for record in training["curve"]
        if "validation_loss" in record and record["step"] <= training["released"]
    ]
    settings = markdown_table(
        ["key", "value"], [[f"`{k}`", f"`{v}`"] for k, v in training["recipe"].items()]
    )
    terms = f"\n\nTerms of the data: {dataset.terms}." if dataset.terms else ""
    return f"""---
{data.to_yaml()}
---

# {checkpoint.name}

The model `{checkpoint.model_name}` ({architecture.summary}) trained on `{dataset.name}`:
{training["pairs"]:,} pairs, {training["steps"]:,} updates, {training["minutes"]} minutes\
{f", validation loss {losses[-1]:.3f} nats a token" if losses else ""}.{terms}

![Loss by update](curve.png)

```python
import zoo

zoo.load("{checkpoint.name}").translate(["…"])
```

Paper: {architecture.paper}.

## Configuration

{settings_table(config)}

## Recipe

{settings}

## Parameters

{parameter_table(table)}
"""
