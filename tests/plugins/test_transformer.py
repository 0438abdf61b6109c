"""The Transformer compared with torch's encoder and decoder layers with the same weights."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.plugins.oracles import random_batch
from zoo.nn.build import create_model
from zoo.nn.contract import Seq2Seq


def torch_logits(model: Seq2Seq, source: Tensor, target: Tensor, *, pre: bool) -> Tensor:
    """Return the logits of nn.TransformerEncoderLayer and nn.TransformerDecoderLayer."""
    w: dict[str, Tensor] = dict(model.named_parameters())
    d, heads, ff = 24, 4, 40
    options = {"dropout": 0.0, "batch_first": True, "norm_first": pre, "dtype": torch.float64}

    def embed(tokens: Tensor, table: Tensor) -> Tensor:
        x = table[tokens] * math.sqrt(d)
        for p in range(tokens.shape[1]):
            for i in range(0, d, 2):
                x[:, p, i] += math.sin(p / 10000 ** (i / d))
                x[:, p, i + 1] += math.cos(p / 10000 ** (i / d))
        return x

    def copy(module: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
        module.load_state_dict(weights)
        return module.eval()

    def attention(path: str) -> tuple[Tensor, Tensor]:
        if f"{path}.query.weight" not in w:
            return w[f"{path}.project.weight"], w[f"{path}.project.bias"]
        return (
            torch.cat([w[f"{path}.query.weight"], w[f"{path}.project.weight"]]),
            torch.cat([w[f"{path}.query.bias"], w[f"{path}.project.bias"]]),
        )

    def weights(path: str, kinds: dict[str, str], norms: list[str]) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for name_in_torch, name_here in kinds.items():
            weight, bias = attention(f"{path}.{name_here}")
            tensors |= {
                f"{name_in_torch}.in_proj_weight": weight,
                f"{name_in_torch}.in_proj_bias": bias,
            }
            for part in ("weight", "bias"):
                tensors[f"{name_in_torch}.out_proj.{part}"] = w[f"{path}.{name_here}.out.{part}"]
        pairs = [("linear1", "inner"), ("linear2", "outer")]
        pairs += [(f"norm{i}", name) for i, name in enumerate(norms, 1)]
        for name_in_torch, name_here in pairs:
            for part in ("weight", "bias"):
                tensors[f"{name_in_torch}.{part}"] = w[f"{path}.{name_here}.{part}"]
        return {name: weight.detach() for name, weight in tensors.items()}

    def norm(x: Tensor, name: str) -> Tensor:
        if not pre:
            return x
        return nn.functional.layer_norm(x, (d,), w[f"{name}.weight"], w[f"{name}.bias"])

    mask = source == 0
    x = embed(source, w["source_embedding.weight"])
    for layer in range(3):
        layer_of_torch = copy(
            nn.TransformerEncoderLayer(d, heads, ff, **options),  # type: ignore[arg-type]
            weights(f"encoder.{layer}", {"self_attn": "attention"},
                    ["attention_norm", "feedforward_norm"]),
        )  # fmt: skip
        x = layer_of_torch(x, src_key_padding_mask=mask)
    memory = norm(x, "encoder_norm")
    y = embed(target, w["target_embedding.weight"])
    causal = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
    for layer in range(2):
        layer_of_torch = copy(
            nn.TransformerDecoderLayer(d, heads, ff, **options),  # type: ignore[arg-type]
            weights(f"decoder.{layer}", {"self_attn": "attention", "multihead_attn": "cross"},
                    ["attention_norm", "cross_norm", "feedforward_norm"]),
        )  # fmt: skip
        y = layer_of_torch(y, memory, tgt_mask=causal, memory_key_padding_mask=mask)
    return norm(y, "decoder_norm") @ w["output.weight"].T + w["output.bias"]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.filterwarnings("ignore:.*(nested tensor|norm_first).*:UserWarning")
def test_torchs_layers_agree(norm: str, attention: bool) -> None:
    torch.manual_seed(1)
    model = create_model("transformer-tiny", source_vocab=15, target_vocab=13, encoder_layers=3,
                         decoder_layers=2, dim=24, heads=4, feedforward_dim=40,
                         norm=norm).double().eval()  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():  # so that norms are not one and biases not zero
            weight.add_(torch.randn_like(weight), alpha=0.1)
        source, target = random_batch(15, (4, 7, 3, 5), 2), random_batch(13, (6, 6, 6, 6), 3)
        output = model(source, source != 0, target, attention=attention)
        expected = torch_logits(model, source, target, pre=norm == "pre")
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-10)


def test_shared_embeddings_are_one_weight() -> None:
    model = create_model("transformer-tiny", source_vocab=50, target_vocab=50, share="all")
    names = [name for name, _ in model.named_parameters()]
    assert "target_embedding.weight" in names
    assert not {"source_embedding.weight", "output.weight"} & set(names)
    source = torch.tensor([[7, 8, 2]])
    logits = model(source, source != 0, torch.tensor([[1, 9]])).logits
    gradient = torch.autograd.grad(logits.sum(), model.target_embedding.weight)[0]  # type: ignore[union-attr, arg-type]
    assert gradient.abs().sum(1).gt(0).all(), "in the output layer every row gets a gradient"


def test_the_annotated_layer_equals_its_definition() -> None:
    """Each sublayer is x + norm(f(x)), the norm γ (x − mean) / (std + 1e-6) + β, std unbiased."""
    torch.manual_seed(1)
    sizes = {"dim": 24, "heads": 4, "feedforward_dim": 40}
    made = create_model("transformer-annotated", source_vocab=15, target_vocab=13, **sizes)  # type: ignore[arg-type]
    model: Any = made.double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
        layer = model.encoder[0]
        x = torch.randn(2, 5, 24, dtype=torch.float64)
        mask = torch.zeros(2, 1, 1, 5, dtype=torch.bool)

        def norm(y: Tensor, which: nn.Module) -> Tensor:
            deviation = ((y - y.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True) / 23
            scaled = (y - y.mean(-1, keepdim=True)) / (deviation.sqrt() + 1e-6)
            weight, bias = which.parameters()
            return weight * scaled + bias

        h = x + norm(layer.attention(x, mask, None), layer.attention_norm)
        expected = h + norm(layer.outer(layer.inner(h).clamp(min=0)), layer.feedforward_norm)
        torch.testing.assert_close(layer(x, mask, None), expected, rtol=0, atol=1e-10)
        names = [name for name, _ in model.named_parameters()]
        assert "encoder_norm.weight" in names
        assert "decoder_norm.bias" in names


def test_the_position_table_grows_follows_the_dtype_and_allows_training_after_decoding() -> None:
    model: Any = create_model("transformer-6x6", source_vocab=9, target_vocab=9, dim=8, heads=2)
    for start, end, dtype in ((0, 3, torch.float32), (5, 50, torch.float32), (1, 4, torch.float64)):
        with torch.inference_mode():
            positions = model.positions(start, end, torch.empty(8, dtype=dtype))
        expected = [
            [(math.cos if i % 2 else math.sin)(p / 10000 ** ((i - i % 2) / 8)) for i in range(8)]
            for p in range(start, end)
        ]
        torch.testing.assert_close(positions, torch.tensor(expected, dtype=dtype))
    source = torch.tensor([[4, 5, 2]])
    with torch.inference_mode():
        model.float().encode(source, source > 0)
    model(source, source > 0, source).logits.sum().backward()
    assert model.target_embedding.weight.grad is not None
