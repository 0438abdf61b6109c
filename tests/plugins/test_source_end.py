"""The option `source_end`: a network that does not read the end token of a source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.nn.build import create_model
from zoo.nn.contract import END, Seq2Seq

MODELS: dict[str, dict[str, Any]] = {
    "transformer-tiny": {"dim": 24, "heads": 4, "feedforward_dim": 16},
    "rnnsearch-tiny": {"embedding_dim": 8, "encoder_dim": 6, "hidden_dim": 10},
    "rnnsearch-tiny, from the last state": {
        "embedding_dim": 8, "encoder_dim": 6, "hidden_dim": 12, "start": "final", "directions": 2
    },
}  # fmt: skip

LENGTHS = (4, 1, 6)


def networks(name: str) -> tuple[Seq2Seq, Seq2Seq]:
    """Return a network that reads the end token, and one with the same weights that does not."""
    made = []
    for source_end in (True, False):
        model = create_model(name.partition(",")[0], source_vocab=15, target_vocab=13,
                             source_end=source_end, **MODELS[name])  # fmt: skip
        made.append(model.double().eval())
    made[1].load_state_dict(made[0].state_dict())
    return made[0], made[1]


def batch(ends: bool) -> Tensor:
    torch.manual_seed(3)
    source = torch.zeros(3, 8, dtype=torch.long)
    for row, length in enumerate(LENGTHS):
        source[row, :length] = torch.randint(4, 15, (length,))
        if ends:
            source[row, length] = END
    return source


@pytest.mark.parametrize("name", MODELS)
def test_the_end_token_has_no_effect(name: str) -> None:
    reads, skips = networks(name)
    target = torch.randint(4, 13, (3, 5))
    with_end, without = batch(True), batch(False)
    with torch.no_grad():
        actual = skips(with_end, with_end != 0, target, attention=True)
        expected = reads(without, without != 0, target, attention=True)
        other = reads(with_end, with_end != 0, target)
    torch.testing.assert_close(actual.logits, expected.logits, rtol=0, atol=1e-12)
    assert not torch.allclose(other.logits, expected.logits)
    torch.testing.assert_close(
        actual.attention["cross"], expected.attention["cross"], rtol=0, atol=1e-12
    )
    for row, length in enumerate(LENGTHS):
        assert actual.attention["cross"][row, :, :, :, length].abs().max() == 0


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_source_keeps_its_only_token(name: str) -> None:
    reads, skips = networks(name)
    source = torch.tensor([[END, 0, 0], [5, 6, END]])
    target = torch.randint(4, 13, (2, 4))
    with torch.no_grad():
        actual = skips(source, source != 0, target).logits
        expected = reads(source, source != 0, target).logits
    torch.testing.assert_close(actual[0], expected[0], rtol=0, atol=1e-12)
    assert not torch.allclose(actual[1], expected[1])
