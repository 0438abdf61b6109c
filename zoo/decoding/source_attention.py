"""The attention from target to source, for alignments and for the coverage penalty."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from zoo.decoding.task import full_precision
from zoo.errors import DecodingError
from zoo.nn.contract import USUAL_KIND, Attention, AttentionKind

ADVICE = "Leave out the coverage penalty and alignments, or use a model with attention"


def cross_attention(attention: Attention) -> Tensor:
    """Return the attention from target to source, averaged over layers and heads: (rows, n, keys).

    Raises:
        DecodingError: the model has none of its own.
    """
    if "cross" not in attention:
        why = "this model returns no weights of the kind cross"
        if "joint" in attention:
            why = "one softmax of this model covers source and target together"
        raise DecodingError("no attention from target to source", why, ADVICE)
    return full_precision(attention["cross"]).mean((1, 2))


def alignment_weights(attention: Attention, kinds: Mapping[str, AttentionKind], m: int) -> Tensor:
    """Return the weight of each source token for each target token, (rows, n, m).

    A key that stands for several tokens gives its weight to each of them.

    Raises:
        DecodingError: the model has no attention to source tokens.
    """
    joint = "joint" in attention and "cross" not in attention
    stride = kinds.get("joint" if joint else "cross", USUAL_KIND).stride
    if stride is None:
        why = "the keys of this model's attention stand for no source tokens"
        raise DecodingError("no attention to source tokens", why, ADVICE)
    if joint:
        weights = full_precision(attention["joint"]).mean((1, 2))[..., : -(-m // stride)]
    else:
        weights = cross_attention(attention)
    return weights if stride == 1 else weights.repeat_interleave(stride, 2)[..., :m]


def check_coverage(kinds: Mapping[str, AttentionKind]) -> AttentionKind:
    """Return what a network declares of its cross-attention, which a coverage penalty sums up.

    Raises:
        DecodingError: the sum means nothing.
    """
    kind = kinds.get("cross", USUAL_KIND)
    if not kind.sums_to_one or kind.stride is None:
        why = "the weights of this model's attention do not sum to one"
        if kind.sums_to_one:
            why = "the keys of this model's attention stand for no source tokens"
        raise DecodingError("no coverage penalty", why, "Leave out the coverage penalty")
    return kind
