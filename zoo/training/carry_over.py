"""The first weights of a run that is tuned from a checkpoint.

With the parent's vocabularies, they are the parent's weights. With other ones, the rows of tokens
that both have are carried over: of the embeddings, of the output layer and of anything else whose
size depends on a vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConfigError
from zoo.nn.build import build, network_type
from zoo.nn.contract import UNKNOWN, Seq2Seq
from zoo.registry.config import Config
from zoo.registry.declarations import Architecture
from zoo.training.parent import Parent

FEWEST = 16
"""With fewer rows carried over, their mean and deviation say nothing: new rows stay as drawn."""

Shapes = Mapping[str, torch.Size]


class CarriedOver(NamedTuple):
    """First weights by name, and how many tokens of each side's vocabulary kept their rows.

    new: the names of the weights that have other rows too.
    """

    weights: dict[str, Tensor]
    source: int
    target: int
    new: tuple[str, ...] = ()


class TokenRows(NamedTuple):
    """The ids of the tokens that two vocabularies share: in the new one and in the old one."""

    new: Tensor
    old: Tensor


def first_weights(
    parent: Parent, network: Seq2Seq, architecture: Architecture, source: Tokenizer,
    target: Tokenizer,
) -> CarriedOver:  # fmt: skip
    """Return the weights with which tuning begins, on the CPU.

    Args:
        parent: the checkpoint to tune.
        network: a network of the same configuration with fresh weights, for these tokenizers.
        architecture: that of both.
        source, target: the run's tokenizers.

    The rows of tokens that the parent lacks are drawn with the mean and the standard deviation, per
    column, of the rows that are carried over, but for those of special tokens: padding is zero, and
    an imported begin token may have a bias of −10,000, so that it is never written.

    Raises:
        ConfigError: the configuration changes the weights' shapes, or a weight depends on a
            vocabulary in another way than by a row, or column, per token.
    """
    checkpoint = parent.checkpoint
    old = {name: w.detach().cpu() for name, w in checkpoint.model.named_parameters()}
    fresh = {name: weight.detach().cpu() for name, weight in network.named_parameters()}
    both = (checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    if (source, target) == both:
        _check_same_shapes(checkpoint.model_name, old, fresh)
        return CarriedOver(old, source.size, target.size)
    rows = [shared_rows(*pair) for pair in zip((source, target), both, strict=True)]
    dims = _vocabulary_dims(architecture, checkpoint.config, (both[0].size, both[1].size))
    generator = torch.Generator().manual_seed(torch.initial_seed())
    weights: dict[str, Tensor] = {}
    for name, weight in fresh.items():
        if name not in old:
            raise ConfigError(f"{checkpoint.model_name} has no weight {name}", "its shapes differ")
        side_and_dim = dims.get(name)
        if side_and_dim is None:
            weights[name] = old[name]
        else:
            side, dim = side_and_dim
            weights[name] = _with_rows(weight, old[name], rows[side], dim, generator)
    _check_same_shapes(checkpoint.model_name, weights, fresh)
    sizes = (source.size, target.size)
    new = [name for name, (side, _) in dims.items() if len(rows[side].new) < sizes[side]]
    return CarriedOver(weights, len(rows[0].new), len(rows[1].new), tuple(new))


def shared_rows(new: Tokenizer, old: Tokenizer) -> TokenRows:
    """Return the ids of the tokens that both vocabularies have; special tokens are among them.

    Of several sources, tokens of the same source are compared.
    """
    if new is old:
        return TokenRows(*(torch.arange(new.size, device="cpu"),) * 2)
    of_old, of_new = _by_token(old), _by_token(new)
    pairs = [(i, of_old[token]) for token, i in of_new.items() if token in of_old]
    return TokenRows(*torch.tensor(pairs, device="cpu").T)


def _by_token(tokenizer: Tokenizer) -> dict[tuple[str, str], int]:
    """Return the id of each token, by its source, if there are several, and its text."""
    if not isinstance(tokenizer, SourceTokenizer):
        return {("", tokenizer.token(i)): i for i in range(tokenizer.size)}
    members = zip(tokenizer.starts, tokenizer.members.items(), strict=True)
    return {
        (name if i > UNKNOWN else "", member.token(i)): i + start if i > UNKNOWN else i
        for start, (name, member) in members
        for i in range(member.size)
    }


def _with_rows(
    fresh: Tensor, old: Tensor, rows: TokenRows, dim: int, generator: torch.Generator
) -> Tensor:
    """Return `fresh` with the old weight's rows, along `dim`, and others that are like them."""
    fresh, old = fresh.transpose(0, dim), old.transpose(0, dim)
    usual = old[rows.old[rows.new > UNKNOWN]]
    if len(usual) < FEWEST:
        weight = fresh.clone()
    else:
        mean, deviation = usual.mean(0), usual.std(0)
        drawn = torch.randn(fresh.shape, generator=generator, dtype=torch.float32, device="cpu")
        weight = mean + deviation * drawn
    weight[rows.new] = old[rows.old]
    return weight.transpose(0, dim).contiguous()


def _vocabulary_dims(
    architecture: Architecture, config: Config, sizes: tuple[int, int]
) -> dict[str, tuple[int, int]]:
    """Return, for each weight that depends on a vocabulary, the side (0 or 1) and the dimension.

    It is read off the shapes of networks of the same configuration with one token more.
    """

    def shapes(source: int, target: int) -> Shapes:
        model = build(network_type(architecture), config, source, target, "meta")
        return {name: weight.shape for name, weight in model.named_parameters()}

    (source, target), faults = sizes, []
    before = shapes(source, target)
    if config.one_vocabulary:
        larger = [(1, shapes(source + 1, target + 1))]
    else:
        larger = [(0, shapes(source + 1, target)), (1, shapes(source, target + 1))]
    dims: dict[str, tuple[int, int]] = {}
    for side, after in larger:
        for name, shape in before.items():
            grown = [after[name][i] - shape[i] for i in range(len(shape))]
            if sum(grown) == 0:
                continue
            if sum(grown) != 1 or name in dims:
                faults.append(name)
            dims[name] = (side, grown.index(max(grown)))
    if faults:
        raise ConfigError(
            "the vocabularies of this checkpoint cannot be changed",
            f"{', '.join(faults)} do not have one row for each token",
            "Leave out --new-vocabulary and --extend-vocabulary",
        )
    return dims


def _check_same_shapes(model: str, old: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> None:
    """Make sure that the run's network has the parent's weights.

    Raises:
        ConfigError: it lists the weights that differ.
    """
    one, other = ({n: w.shape for n, w in weights.items()} for weights in (old, fresh))
    if one != other:
        names = sorted(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise ConfigError(
            f"this configuration is not that of {model}",
            f"it changes {', '.join(names[:5])}{more}",
            "Only values that leave the weights' shapes alone, such as dropout, can be set",
        )
