"""What the lists of models and of one model say about a checkpoint. No torch."""

from __future__ import annotations

from typing import Any

from zoo.checkpoint.card import split_card
from zoo.checkpoint.facts import read_card
from zoo.checkpoint.format import CARD, CONFIG, TRAINING, architecture_of, describe
from zoo.data.languages import language_name
from zoo.files import TEXT_LIMIT, read_json
from zoo.registry.config import parameters_of
from zoo.registry.registry import Registry
from zoo.serving.checkpoints import Served

LARGEST = 1e15
"""Updates and losses from here on are not drawn."""

CURVE_POINTS = 400
"""The most points of each training curve that the page gets."""


def of_languages(served: Served) -> dict[str, Any]:
    """Return what the list of models says about a checkpoint's languages."""
    (source, target), (reads, writes) = served.default, served.languages
    return {
        "source_language": source,
        "target_language": target,
        "source_languages": [{"code": one, "name": language_name(one)} for one in reads],
        "target_languages": [{"code": one, "name": language_name(one)} for one in writes],
    }


def summary(served: Served, registry: Registry) -> dict[str, Any]:
    """Return what the list of models says about a checkpoint.

    Raises:
        ZooError: the folder is damaged or its architecture is not installed.
    """
    description = describe(served.folder)
    architecture = architecture_of(served.folder, description, registry)
    config = architecture.config_type().parse(description["config"], CONFIG)
    table = parameters_of(config, description["source_vocab"], description["target_vocab"])
    return {
        "name": served.name,
        "model": description["model"],
        "architecture": architecture.name,
        "summary": architecture.summary,
        **of_languages(served),
        "sources": list(config.sources),
        "parameters": table.total,
        "decoding": dict(served.about.decoding),
        "examples": list(served.about.examples),
    }


def details(served: Served, registry: Registry) -> dict[str, Any]:
    """Return the summary with the card, parameters by block, settings and training curve.

    Raises:
        ZooError: as `summary` does.
    """
    about = summary(served, registry)
    description = describe(served.folder)
    architecture = architecture_of(served.folder, description, registry)
    config = architecture.config_type().parse(description["config"], CONFIG)
    table = parameters_of(config, description["source_vocab"], description["target_vocab"])
    training: dict[str, Any] = {}
    if (served.folder / TRAINING).is_file():
        training = read_json(served.folder / TRAINING, TEXT_LIMIT)
    card = ""
    if (served.folder / CARD).is_file():
        card = split_card(read_card(served.folder), CARD)[1]
    return {
        **about,
        "paper": architecture.paper,
        "blocks": table.blocks(),
        "config": config.model_dump(mode="json"),
        "curve": curve(training.get("curve")),
        "card": card,
    }


def curve(records: object) -> dict[str, list[list[float]]]:
    """Return the training and validation loss as [update, nats per token], thinned for a plot."""
    rows = records if isinstance(records, list) else []
    curves: dict[str, list[list[float]]] = {}
    for key in ("loss", "validation_loss", "bleu"):
        points = [
            [float(row["step"]), float(row[key])]
            for row in rows
            if isinstance(row, dict)
            and all(
                type(row.get(name)) in (int, float) and abs(row[name]) < LARGEST
                for name in (key, "step")
            )
        ]
        step = max(1, -(-len(points) // CURVE_POINTS))
        curves[key] = points[::-step][::-1]
    return curves
