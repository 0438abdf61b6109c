"""The Transformer compared with torch's encoder and decoder layers with the same weights."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.plugins.oracles import random_batch
from zoo.nn.build import create_model
from zoo.nn.contract import Seq2Seq
from zoo.registry.registry import Registry
from zoo_transformer.config import TransformerConfig


def reference_positions(config: TransformerConfig, n: int, table: Tensor | None) -> Tensor:
    """Return what is added to n tokens, (n, d), number by number."""
    d, start = config.dim, config.position_offset
    if table is not None:
        return table[start : start + n]
    added = torch.zeros(n, d, dtype=torch.float64)
    for p in range(n):
        for i in range(d // 2):
            if config.positions == "interleaved":
                angle = (start + p) / 10000 ** (2 * i / d)
                added[p, 2 * i], added[p, 2 * i + 1] = math.sin(angle), math.cos(angle)
            elif config.positions == "fairseq":
                angle = (start + p) * math.exp(-i * math.log(10000) / (d // 2 - 1))
                added[p, i], added[p, d // 2 + i] = math.sin(angle), math.cos(angle)
    return added


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": lambda x: 1 - 2 / (torch.exp(2 * x) + 1),
}


def torch_logits(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    """Return the logits of nn.TransformerEncoderLayer and nn.TransformerDecoderLayer."""
    w: dict[str, Tensor] = dict(model.named_parameters())
    config: TransformerConfig = model.config  # type: ignore[assignment]
    d, epsilon = config.dim, config.norm_epsilon or 1e-5
    options = {
        "d_model": d, "nhead": config.heads, "dim_feedforward": config.feedforward_dim,
        "dropout": 0.0, "batch_first": True, "norm_first": config.norm == "pre",
        "dtype": torch.float64, "activation": ACTIVATIONS[config.activation],
        "layer_norm_eps": epsilon,
    }  # fmt: skip

    def embed(tokens: Tensor, side: str) -> Tensor:
        shared = config.share in ("all", "embeddings")
        x = w["target_embedding.weight" if shared else f"{side}_embedding.weight"][tokens]
        x = x * (math.sqrt(d) if config.scale_embeddings else 1)
        table = w.get(f"{side}_positions.weight")
        x = x + reference_positions(config, tokens.shape[1], table)
        return norm(x, f"{side}_norm")

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
        """Normalize if there is such a norm; `test_torchs_layers_agree` checks that there is."""
        if f"{name}.weight" not in w:
            return x
        return nn.functional.layer_norm(x, (d,), w[f"{name}.weight"], w[f"{name}.bias"], epsilon)

    mask = source == 0
    x = embed(source, "source")
    for layer in range(3):
        layer_of_torch = copy(
            nn.TransformerEncoderLayer(**options),  # type: ignore[arg-type]
            weights(f"encoder.{layer}", {"self_attn": "attention"},
                    ["attention_norm", "feedforward_norm"]),
        )  # fmt: skip
        x = layer_of_torch(x, src_key_padding_mask=mask)
    memory = norm(x, "encoder_norm")
    y = embed(target, "target")
    causal = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
    for layer in range(2):
        layer_of_torch = copy(
            nn.TransformerDecoderLayer(**options),  # type: ignore[arg-type]
            weights(f"decoder.{layer}", {"self_attn": "attention", "multihead_attn": "cross"},
                    ["attention_norm", "cross_norm", "feedforward_norm"]),
        )  # fmt: skip
        y = layer_of_torch(y, memory, tgt_mask=causal, memory_key_padding_mask=mask)
    tied = config.share in ("all", "target")
    output = w["target_embedding.weight" if tied else "output.weight"]
    return norm(y, "decoder_norm") @ output.T + w["output.bias"]


OPTIONS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "gelu, final norm": {"activation": "gelu", "final_norm": True, "norm_epsilon": 1e-3},
    "gelu_tanh, no final norm": {"activation": "gelu_tanh", "norm": "pre", "final_norm": False},
    "silu, fairseq": {"activation": "silu", "positions": "fairseq", "position_offset": 2},
    "tanh, no positions": {"activation": "tanh", "positions": "none", "scale_embeddings": False},
    "offset": {"position_offset": 3},
    "learned": {"positions": "learned", "position_offset": 2, "embedding_norm": True,
                "max_source_positions": 9, "max_target_positions": 7},
    "shared embeddings": {"share": "embeddings", "embedding_norm": True},
    "shared target": {"share": "target"},
    "all shared": {"share": "all"},
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.filterwarnings("ignore:.*(nested tensor|norm_first|activation).*:UserWarning")
def test_torchs_layers_agree(options: str, attention: bool) -> None:
    torch.manual_seed(1)
    model = create_model("transformer-tiny", source_vocab=13, target_vocab=13, encoder_layers=3,
                         decoder_layers=2, dim=24, heads=4, feedforward_dim=40,
                         **OPTIONS[options]).double().eval()  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():  # so that norms are not one and biases not zero
            weight.add_(torch.randn_like(weight), alpha=0.1)
        source, target = random_batch(13, (4, 7, 3, 5), 2), random_batch(13, (6, 6, 6, 6), 3)
        output = model(source, source != 0, target, attention=attention)
        expected = torch_logits(model, source, target)
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "norms"),
    [
        ({}, set()),
        ({"norm": "pre"}, {"encoder_norm", "decoder_norm"}),
        ({"norm": "branch"}, {"encoder_norm", "decoder_norm"}),
        ({"final_norm": True}, {"encoder_norm", "decoder_norm"}),
        ({"norm": "pre", "final_norm": False}, set()),
        ({"embedding_norm": True}, {"source_norm", "target_norm"}),
    ],
)
def test_norms_are_where_the_options_put_them(options: dict[str, Any], norms: set[str]) -> None:
    model = create_model("transformer-tiny", source_vocab=9, target_vocab=9, **options)
    assert {name for name, _ in model.named_children() if name.endswith("_norm")} == norms


def test_learned_positions_end_where_the_limits_say(registry: Registry) -> None:
    values: dict[str, Any] = {
        "positions": "learned",
        "max_source_positions": 5,
        "max_target_positions": 4,
    }
    assert registry.config("transformer-tiny", values).length_limits == (5, 4)
    assert registry.config("transformer-tiny", {}).length_limits == (None, None)
    model = create_model("transformer-tiny", source_vocab=9, target_vocab=9, **values)
    source, target = torch.full((1, 5), 5), torch.full((1, 4), 5)
    model(source, source > 0, target)
    with pytest.raises(RuntimeError):
        model(source, source > 0, torch.full((1, 5), 5))


def test_a_learned_position_past_the_limit_is_an_error_when_decoding_step_by_step() -> None:
    model = create_model("transformer-tiny", source_vocab=9, target_vocab=9, positions="learned",
                         max_target_positions=2)  # fmt: skip
    source = torch.full((1, 3), 5)
    memory = model.encode(source, source > 0).memory
    state = model.init_state(memory)
    for _ in range(2):
        state = model.step(torch.tensor([5]), state, memory).state
    with pytest.raises(RuntimeError):
        model.step(torch.tensor([5]), state, memory)


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
        model.to(dtype)
        with torch.inference_mode():
            positions = model.first_positions("target", end)[start:]
        expected = [
            [(math.cos if i % 2 else math.sin)(p / 10000 ** ((i - i % 2) / 8)) for i in range(8)]
            for p in range(start, end)
        ]
        torch.testing.assert_close(positions, torch.tensor(expected, dtype=dtype))
    source = torch.tensor([[4, 5, 2]])
    model.float()
    with torch.inference_mode():
        model.encode(source, source > 0)
    model(source, source > 0, source).logits.sum().backward()
    assert model.target_embedding.weight.grad is not None
