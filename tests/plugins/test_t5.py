"""T5 compared with the equations of its paper, computed token by token in float64."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor

from tests.plugins.oracles import random_batch
from zoo.nn.build import create_model
from zoo_t5.attention import bucket_of

SIZES = {"encoder_layers": 3, "decoder_layers": 2, "dim": 24, "heads": 4, "head_dim": 5,
         "feedforward_dim": 40, "buckets": 8, "max_distance": 10}  # fmt: skip

VARIANTS: dict[str, dict[str, Any]] = {
    "first version": {"activation": "relu", "gated": False},
    "version 1.1": {"share": "embeddings", "scale_output": False},
    "ungated SiLU": {"activation": "silu", "gated": False, "share": "none"},
    "exact GELU, ε": {"activation": "gelu", "norm_epsilon": 0.1},
    "biases of each layer": {"layer_positions": True, "scale_output": False},
}


def bucket(offset: int, n: int, furthest: int, encoder: bool) -> int:
    """The bucket of an offset; the bounds of the shared buckets are powers, found without logs.

    Bucket e + i of a direction begins at the distance e · (furthest / e)^(i / (n − e)).
    """
    if encoder:
        n //= 2
        return bucket(-abs(offset), n, furthest, False) + (n if offset > 0 else 0)
    distance, e = max(-offset, 0), n // 2
    if distance < e:
        return distance
    within = [i for i in range(n - e) if (distance / e) ** (n - e) >= (furthest / e) ** i]
    return e + max(within)


@pytest.mark.parametrize(("n", "furthest"), [(32, 128), (8, 10), (6, 20), (64, 300)])
@pytest.mark.parametrize("encoder", [True, False])
def test_buckets_equal_their_definition(n: int, furthest: int, encoder: bool) -> None:
    offsets = torch.arange(-400, 401)
    given = bucket_of(offsets, n, furthest, encoder).tolist()
    assert given == [bucket(i, n, furthest, encoder) for i in range(-400, 401)]
    assert set(given) == set(range(n)) - ({n // 2} if encoder else set())


def expected_logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Return the logits by loops over sentences, heads, queries and keys, without padding."""
    return torch.stack(
        [sentence_logits(model, s[s != 0], t) for s, t in zip(source, target, strict=True)]
    )


def sentence_logits(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Return the logits of one sentence pair, (n, vocab)."""
    w: dict[str, Tensor] = dict(model.named_parameters())
    c = model.config

    def norm(x: Tensor, name: str) -> Tensor:
        rms = ((x**2).sum(1, keepdim=True) / c.dim + c.norm_epsilon).sqrt()
        return w[f"{name}.weight"] * x / rms

    def activation(x: Tensor) -> Tensor:
        if c.activation == "gelu_tanh":
            return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        functions = {
            "relu": x.clamp(min=0),
            "gelu": x * (1 + torch.erf(x / math.sqrt(2))) / 2,
            "silu": x / (1 + torch.exp(-x)),
        }
        return functions[c.activation]

    def attend(q: Tensor, k: Tensor, v: Tensor, biases: Tensor | None, encoder: bool) -> Tensor:
        heads = []
        for h in range(c.heads):
            part = slice(h * c.head_dim, (h + 1) * c.head_dim)
            rows = []
            for i in range(len(q)):
                seen = range(len(k)) if biases is None or encoder else range(i + 1)
                scores = []
                for j in seen:
                    score = q[i, part] @ k[j, part]
                    if biases is not None:
                        score = score + biases[bucket(j - i, c.buckets, c.max_distance, encoder), h]
                    scores.append(score)
                rows.append(torch.stack(scores).softmax(0) @ v[: len(seen), part])
            heads.append(torch.stack(rows))
        return torch.cat(heads, 1)

    def self_attention(x: Tensor, stack: str, layer: int) -> Tensor:
        path = f"{stack}.{layer}.attention"
        q, k, v = (norm(x, f"{path}_norm") @ w[f"{path}.project.weight"].T).chunk(3, 1)
        biases = w[f"{stack}_positions.{layer if c.layer_positions else 0}.weight"]
        return x + attend(q, k, v, biases, stack == "encoder") @ w[f"{path}.out.weight"].T

    def feedforward(x: Tensor, path: str) -> Tensor:
        inner = norm(x, f"{path}.feedforward_norm") @ w[f"{path}.inner.weight"].T
        if c.gated:
            gate, linear = inner.chunk(2, 1)
            inner = activation(gate) * linear
        else:
            inner = activation(inner)
        return x + inner @ w[f"{path}.outer.weight"].T

    embedding = w["target_embedding.weight"]
    x = w.get("source_embedding.weight", embedding)[source]
    for layer in range(c.encoder_layers):
        x = feedforward(self_attention(x, "encoder", layer), f"encoder.{layer}")
    memory = norm(x, "encoder_norm")
    y = embedding[target]
    for layer in range(c.decoder_layers):
        path = f"decoder.{layer}"
        y = self_attention(y, "decoder", layer)
        k, v = (memory @ w[f"{path}.cross.project.weight"].T).chunk(2, 1)
        q = norm(y, f"{path}.cross_norm") @ w[f"{path}.cross.query.weight"].T
        y = y + attend(q, k, v, None, False) @ w[f"{path}.cross.out.weight"].T
        y = feedforward(y, path)
    scale = c.dim**-0.5 if c.scale_output else 1.0
    return norm(y, "decoder_norm") * scale @ w.get("output.weight", embedding).T


@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_equal_the_equations(variant: str, attention: bool) -> None:
    torch.manual_seed(1)
    options = {**SIZES, **VARIANTS[variant]}
    model: Any = create_model("t5-tiny", source_vocab=15, target_vocab=15, **options)
    model = model.double().eval()
    with torch.no_grad():
        for weight in model.parameters():  # so that norms are not one
            weight.add_(torch.randn_like(weight), alpha=0.1)
        source, target = random_batch(15, (4, 13, 3, 5), 2), random_batch(15, (14, 14, 14, 14), 3)
        given = model(source, source != 0, target, attention=attention).logits
        expected = expected_logits(model, source, target)
    torch.testing.assert_close(given, expected, rtol=0, atol=1e-10)


def test_long_texts_take_torchs_kernel_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(1)
    model: Any = create_model("t5-tiny", source_vocab=15, target_vocab=15, **SIZES).double().eval()  # type: ignore[arg-type]
    source, target = random_batch(15, (80, 30), 2), random_batch(15, (70, 70), 3)
    with torch.no_grad():
        short = model(source, source != 0, target).logits
        monkeypatch.setattr("zoo_t5.attention.MAX_KEYS", 20)
        long = model(source, source != 0, target).logits
        state, memory = model.init_state(encoded := model.encode(source, source != 0).memory), None
        for position in range(30):
            step = model.step(target[:, position], state, memory or encoded)
            state = step.state
            torch.testing.assert_close(step.logits, short[:, position], rtol=0, atol=1e-10)
    torch.testing.assert_close(long, short, rtol=0, atol=1e-10)


def test_dropout_is_everywhere_that_the_paper_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings, attention weights, activations, sublayer outputs and stack outputs (3.1.2)."""
    shapes: list[tuple[int, ...]] = []
    drop = F.dropout

    def seen(x: Tensor, p: float, **others: bool) -> Tensor:
        shapes.append(tuple(x.shape))
        return drop(x, p, **others)

    model: Any = create_model("t5-tiny", source_vocab=15, target_vocab=15, dropout=0.5, **SIZES)  # type: ignore[arg-type]
    monkeypatch.setattr("zoo_t5.attention.F.dropout", seen)
    monkeypatch.setattr("zoo.nn.dropout.Dropout.forward", lambda module, x: seen(x, module.p))
    source = random_batch(15, (6,), 2)
    model.train()(source, source != 0, source[:, :3])
    x, y = (1, 6, 24), (1, 3, 24)
    encoder = [x, *[(1, 4, 6, 6), x, (1, 6, 40), x] * 3, x]
    decoder = [y, *[(1, 4, 3, 3), y, (1, 4, 3, 6), y, (1, 3, 40), y] * 2, y]
    assert shapes == encoder + decoder


def test_the_bucket_table_grows_and_allows_training_after_decoding() -> None:
    model: Any = create_model("t5-tiny", source_vocab=9, target_vocab=9, **SIZES)  # type: ignore[arg-type]
    positions = model.encoder_positions[0]
    for length in (3, 70, 300, 5):
        with torch.inference_mode():
            biases, last = positions(length), positions.last_row(length)
        offsets = torch.arange(length) - torch.arange(length)[:, None]
        expected = positions.weight[bucket_of(offsets, 8, 10, True)].permute(2, 0, 1)[None]
        assert torch.equal(biases, expected)
        assert torch.equal(last, expected[:, :, -1:])
    source = torch.tensor([[4, 5, 2]])
    model(source, source > 0, source).logits.sum().backward()
    assert positions.weight.grad is not None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"buckets": 7}, "must be even"),
        ({"buckets": 32, "max_distance": 16}, "max_distance 16 must be greater"),
        ({"buckets": 2}, "buckets = 2"),
    ],
)
def test_impossible_buckets_are_refused(values: dict[str, Any], message: str) -> None:
    from zoo.errors import ConfigError

    with pytest.raises(ConfigError, match=message):
        create_model("t5-tiny", **values)
