"""What a law is checked on: a network of the example config, and a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from zoo.errors import ConfigError
from zoo.nn.build import build, network_type
from zoo.nn.contract import BEGIN, END, PADDING, Memory, Seq2Seq, State
from zoo.registry.config import Config
from zoo.registry.declarations import Architecture
from zoo.registry.registry import Registry, default_registry
from zoo.testing.settings import kept_settings

SOURCE_VOCAB, TARGET_VOCAB = 19, 17
SOURCE_LENGTHS, TARGET_LENGTHS = (3, 9, 5, 7, 4), (8, 4, 6, 5, 8)
ROWS, BEAM = len(SOURCE_LENGTHS), 3
SHAKEN = 0.1
"""The standard deviation of what is added to weights of equal numbers."""
FEATURES = 7
"""Numbers of a feature vector, for networks that read them."""
LEAST = (max(SOURCE_LENGTHS) + 3, max(TARGET_LENGTHS) + 1)
"""The least limits of lengths: laws add three columns of padding, and an end token to a target."""
LONG = 40
"""Tokens of a long source with its padding, unless the network has a lower limit."""


@dataclass
class Case:
    """A network of an architecture's example config, and a batch to check laws on.

    `declaration` and `registry` are None for a network that no plugin declares.
    """

    network: type[Seq2Seq]
    config: Config
    model: Seq2Seq
    source: Tensor
    mask: Tensor
    target: Tensor
    declaration: Architecture | None = None
    registry: Registry | None = None
    table: Tensor | None = None
    """For a network that reads feature vectors, the vector of each id, (SOURCE_VOCAB, dim)."""
    ids: Tensor = field(default_factory=lambda: torch.empty(0))
    """The token ids of `source`, or those whose vectors it has."""

    def read(self, ids: Tensor) -> Tensor:
        """Return what the network reads for token ids: these, or their vectors in float64."""
        return ids if self.table is None else self.table[ids]

    @property
    def source_ids(self) -> int:
        """How many different ids a source may have."""
        return self.model.source_vocab if self.table is None else len(self.table)

    def long(self) -> Case:
        """Return the case of one source of 37 tokens, or of three less than the longest allowed.

        So laws can add three columns of padding.
        """
        length = min(self.config.length_limits.source or LONG, LONG) - 3
        ids = torch.arange(length)[None] % (self.source_ids - END - 1) + END + 1
        ids[0, -1] = END
        with_ends(ids, self.config)
        source, target = self.read(ids), self.target[:1, :4]
        return replace(self, source=source, mask=ids != PADDING, target=target, ids=ids)

    def after_steps(self, count: int) -> tuple[Any, Any]:
        """Return the memory, and the state after so many tokens of each target."""
        memory = self.model.encode(self.source, self.mask).memory
        state = self.model.init_state(memory)
        for position in range(count):
            state = self.model.step(self.target[:, position], state, memory).state
        return memory, state

    @contextlib.contextmanager
    def redrawn(self, seed: int) -> Iterator[None]:
        """Give the network other weights within a block."""
        torch.manual_seed(seed)
        weights = list(self.model.parameters())
        kept = [weight.detach().clone() for weight in weights]
        other = self.rebuild().to(weights[0].dtype)
        _shake_constants(other)
        try:
            _copy(list(other.parameters()), weights)
            yield
        finally:
            _copy(kept, weights)

    def rebuild(self, device: str = "cpu") -> Seq2Seq:
        """Return a new network of the same configuration, with fresh weights."""
        return build(self.network, self.config, self.model.source_vocab, TARGET_VOCAB, device)


def case(architecture: str, registry: Registry | None = None, **values: object) -> Case:
    """Build the case of an architecture by name; `values` override its example config.

    Raises:
        ZooError: no plugin provides it, or a value does not fit.
    """
    registry = registry or default_registry()
    declaration = registry.architecture(architecture)
    config_type = declaration.config_type()
    config = _example(config_type)
    if values:
        overridden = {**config.model_dump(mode="json"), **values}
        config = config_type.parse(overridden, f"example of {architecture}")
    made = case_of(network_type(declaration), config)
    made.declaration, made.registry = declaration, registry
    return made


def _example(config_type: type[Config]) -> Config:
    """Return a config type's example.

    Raises:
        ConfigError: its `example()` is missing, or returns something else.
    """
    config: object = config_type.example()
    if isinstance(config, config_type):
        return config
    missing = config_type.example.__func__ is Config.example.__func__  # type: ignore[attr-defined]  # a classmethod's
    why = "the class does not define it" if missing else f"it returns {config!r}"
    raise ConfigError(
        f"{config_type.__name__}.example() gives no config to run the laws on",
        why,
        "Define a classmethod `example` that returns a tiny config",
    )


def case_of(network: type[Seq2Seq[Memory, State]], config: Config) -> Case:
    """Build the case of a network class and a config.

    Raises:
        ConfigError: its length limits have no room for the sentences of the laws.
    """
    limits = config.length_limits
    if any(limit is not None and limit < least for limit, least in zip(limits, LEAST, strict=True)):
        raise ConfigError(
            f"{type(config).__name__} leaves no room for the sentences of the laws",
            f"its length_limits are {limits.source} and {limits.target}, at least {LEAST[0]} "
            f"and {LEAST[1]} are needed",
            "Give `example()`, or this test, values with larger limits",
        )
    torch.manual_seed(5)
    source_vocab = TARGET_VOCAB if config.one_vocabulary else SOURCE_VOCAB
    size = FEATURES if config.features else source_vocab
    # The laws treat memory and state as trees of tensors; their types do not matter.
    of_trees = cast("type[Seq2Seq]", network)
    with kept_settings():
        model = build(of_trees, config, size, TARGET_VOCAB).double().eval()
    _shake_constants(model)
    source, target = _tokens(SOURCE_LENGTHS, source_vocab), _tokens(TARGET_LENGTHS, TARGET_VOCAB)
    for row, length in enumerate(SOURCE_LENGTHS):
        source[row, length - 1] = END
    with_ends(source, config)
    target[:, 0] = BEGIN
    made = Case(of_trees, config, model, source, source != PADDING, target, ids=source)
    if config.features:
        made.table = torch.randn(source_vocab, FEATURES).double()
        made.table[PADDING] = 0
        made.source = made.read(source)
    return made


@torch.no_grad()
def _copy(weights: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    for weight, other in zip(into, weights, strict=True):
        weight.copy_(other)


@torch.no_grad()
def _shake_constants(model: Seq2Seq) -> None:
    """Change weights whose numbers are all equal, as of a bias, a gain, or a gate that is closed.

    Zeros hide what they multiply, and zeros and ones that they themselves are left out somewhere.
    """
    generator = torch.Generator().manual_seed(7)
    for weight in model.parameters():
        if weight.numel() and bool((weight == weight.flatten()[0]).all()):
            change = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.add_(SHAKEN * weight.abs().clamp(min=1) * change)


def pad(source: Tensor, columns: int) -> Tensor:
    """Return a source, or a mask, with more columns of padding on the right."""
    return F.pad(source, (0, 0) * (source.dim() - 2) + (0, columns))


def with_ends(source: Tensor, config: Config) -> Tensor:
    """Put an end token after each source but the last, in place, where a network reads several."""
    count = len(config.sources)
    for row, length in zip(source, (source != PADDING).sum(1).tolist(), strict=True):
        for index in range(1, count):
            row[index * (length - 1) // count] = END
    return source


def _tokens(lengths: tuple[int, ...], vocab: int) -> Tensor:
    tokens = torch.randint(END + 1, vocab, (len(lengths), max(lengths)))
    return tokens.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PADDING)
