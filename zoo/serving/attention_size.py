"""How long a translation may be whose attention is shown, known before it is searched."""

from __future__ import annotations

import itertools
import math
from typing import Any

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources
from zoo.decoding.forced import forced_attention, most_pairs, most_target_tokens, too_many
from zoo.decoding.steps import Bound
from zoo.errors import DecodingError
from zoo.nn.contract import USUAL_KIND


def most_shown(
    checkpoint: Checkpoint, text: str, target: str | None, options: dict[str, Any], most: int
) -> Bound:
    """Return the most tokens of a translation whose attention is shown, and the error of more.

    Args:
        checkpoint: the network and its tokenizers.
        text: the source.
        target: a given target, of which nothing is searched, or None.
        options: of the search.
        most: the most bytes of attention.

    Raises:
        DecodingError: the attention of the shortest translation, or of the target, has more.
    """
    (source,) = checkpoint.source_tokenizer.encode([text])
    length = batch_sources([source])[1].shape[1]
    tokens = _target_tokens(checkpoint, source[:1], length, most)
    if target is not None:
        shortest = len(checkpoint.target_tokenizer.encode([target])[0]) + 1
    else:
        shortest = max(2, options.get("min_length", 1))  # one token and the end token
    if tokens < shortest:
        raise DecodingError(*too_large(most))
    by_pairs = most_target_tokens(length), too_many(most_pairs.get())
    return min((tokens, too_large(most)), by_pairs)


def too_large(most: int) -> tuple[str, str, str]:
    """Return the error of attention that has more bytes than are shown: what, why and advice."""
    megabytes = f"{most / 1e6:,.0f} MB are the most"
    return "the attention is too large to show", megabytes, "Shorten the text"


def _target_tokens(checkpoint: Checkpoint, source: Any, length: int, most: int) -> float:
    """Return the most tokens of a target, with its end token, whose attention has so many bytes.

    Args:
        checkpoint: the network, which is asked for the attention of a short source.
        source: the ids of that source.
        length: tokens of the real source, with the end token.
        most: the most bytes.
    """
    model = checkpoint.model
    device = next(model.parameters()).device
    ids, mask = (one.to(device) for one in batch_sources([source]))
    matrices = {
        kind: weights.shape[1] * weights.shape[2]
        for kind, weights in forced_attention(model, ids, mask, [()]).items()
    }

    def size(tokens: int) -> int:
        """Return the bytes for a target of so many tokens."""
        total = 0
        for kind, count in matrices.items():
            stride = model.attention_kinds.get(kind, USUAL_KIND).stride
            of_source = -(-length // stride) if stride else 1
            keys = {"decoder": tokens, "joint": of_source + tokens}.get(kind, of_source)
            total += 4 * count * keys * (of_source if kind == "encoder" else tokens)
        return total

    if size(1) == size(2) <= most:  # no attention of the target
        return math.inf
    return next(tokens for tokens in itertools.count() if size(tokens + 1) > most)
