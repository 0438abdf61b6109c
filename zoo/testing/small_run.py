"""A run before its first update, on an architecture's example config and a few texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zoo.data.tokenizer import Tokenizer
from zoo.registry.open_shelf import Named
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.setup import Setup


def small_setup(
    registry: Registry,
    recipe: Mapping[str, Any],
    architecture: str,
    texts: Sequence[str],
    tokenizer: Named = "char",
    vocab_size: int = 20,
) -> Setup:
    """Return what the parts of a run are made from, with one tokenizer of some texts."""
    config = registry.architecture(architecture).config_type().example()
    learned = Tokenizer.train(texts, tokenizer, vocab_size, registry)
    parsed = Recipe.parse(dict(recipe), "the recipe")
    return Setup(registry, config, parsed, learned, learned, LengthLimits(48, 48))
