"""What the parts of a run are made from: objectives and augmentations of the open shelves."""

from __future__ import annotations

from dataclasses import dataclass

from zoo.data.tokenizer import Tokenizer
from zoo.registry.config import Config
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry


@dataclass(frozen=True)
class Setup:
    """A run before its first update.

    `config` is the network's configuration, `recipe` the complete recipe, and `limits` the longest
    source and target in tokens. Checkpoints are looked up in `registry`.
    """

    registry: Registry
    config: Config
    recipe: Recipe
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    limits: LengthLimits
