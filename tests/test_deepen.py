"""A larger Transformer made of a released one computes the same, and all of it learns."""

from pathlib import Path

import torch

import zoo
from tests.conftest import ImportScript

TOP = Path(__file__).parents[1]
PARENT = TOP / "cards" / "checkpoints" / "transformer-tiny.tasks"
CHANGES = {"encoder_layers": 6, "decoder_layers": 5, "feedforward_dim": 1000, "dropout": 0.3}


def test_a_larger_transformer_begins_as_the_smaller_one(
    tmp_path: Path, import_script: ImportScript
) -> None:
    deepen = import_script("deepen").deepen
    folder = deepen(PARENT, tmp_path / "larger", CHANGES)
    small, large = zoo.load(PARENT).checkpoint, zoo.load(folder).checkpoint
    assert {name: getattr(large.config, name) for name in CHANGES} == CHANGES
    source, mask = torch.randint(3, 5000, (3, 9)), torch.ones(3, 9, dtype=torch.bool)
    target = torch.randint(3, 5000, (3, 7))
    logits = large.model(source, mask, target).logits
    expected = small.model(source, mask, target).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    assert deepen(PARENT, folder, {}) == folder  # what exists is kept

    logits.logsumexp(2).sum().backward()
    weights = dict(large.model.named_parameters())
    for layer in ("encoder.1", "encoder.4", "decoder.2"):  # the new ones
        for name in (f"{layer}.attention.out.weight", f"{layer}.outer.weight"):
            weight = weights[name]
            assert weight.grad is not None, name
            assert weight.grad.any(), name
            assert not weight.any(), name
