"""Model cards: a model of a catalogue in Markdown, with its configuration and parameters."""

from __future__ import annotations

from zoo.checkpoint.card_text import size_in_words
from zoo.checkpoint.markdown import markdown_table
from zoo.registry.catalogue import Model
from zoo.registry.config import Config, parameters_of
from zoo.registry.declarations import Architecture
from zoo.registry.parameters import Table

EQUATIONS = """## Equations

The equations of the architecture with all of its options. Configuration lists the options of this
model."""


def parameter_table(table: Table) -> str:
    """Return all parameters, the sum of each block, and the total, as Markdown tables."""
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
    head = ["block", "symbol", "shape", "size", "parameters", "weight"]
    sums = [[block, f"{count:,}"] for block, count in table.blocks().items()]
    sums.append(["**total**", f"**{table.total:,}**"])
    return f"{markdown_table(head, rows)}\n\n{markdown_table(['block', 'parameters'], sums)}"


def size_of(table: Table, weights: int) -> str:
    """Return the number of parameters, and the size of the weights unless it is 0 bytes."""
    size = f" in {size_in_words(weights)}" if weights else ""
    return f"{table.total:,} parameters{size}"


def settings_table(config: Config) -> str:
    """Return a configuration with the meaning of each value, as a Markdown table."""
    fields = type(config).model_fields
    rows = [
        [f"`{name}`", f"`{value}`", fields[name].description or ""]
        for name, value in config.model_dump(mode="json").items()
    ]
    return markdown_table(["key", "value", "meaning"], rows)


def model_card(model: Model, architecture: Architecture, config: Config) -> str:
    """Return the card of a model in a catalogue."""
    table = parameters_of(config, model.source_vocab, model.target_vocab)
    count = (
        f"{table.total:,} parameters with vocabularies of {model.source_vocab:,} source and "
        f"{model.target_vocab:,} target tokens."
    )
    if model.paper_parameters is not None:
        difference = 100 * (table.total / model.paper_parameters - 1)
        relation = f"{abs(difference):.1f}% {'more' if difference > 0 else 'fewer'}"
        count += f" The paper reports {model.paper_parameters:,}: this model has {relation}."
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
