"""ConvS2S compared with NumPy, written from the equations."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it

from tests.plugins.oracles import Array, random_batch, sigmoid, softmax, weights_of
from zoo.nn.build import create_model
from zoo_convs2s.config import ConvS2SConfig
from zoo_convs2s.network import Map


def matrix(w: dict[str, Array], path: str) -> Array:
    """W = g V / ‖V‖ with one norm per output; or W itself without weight normalization."""
    if f"{path}.weight" in w:
        return w[f"{path}.weight"]
    v = w[f"{path}.direction"]
    norms = np.sqrt((v**2).reshape(len(v), -1).sum(1))
    return np.asarray(v * (w[f"{path}.length"] / norms).reshape(-1, *[1] * (v.ndim - 1)))


def linear(w: dict[str, Array], path: str, x: Array) -> Array:
    return np.asarray(matrix(w, path) @ x + w[f"{path}.bias"])


def convolve(w: dict[str, Array], path: str, x: list[Array], before: int) -> list[Array]:
    """GLU of the convolution whose kernel starts `before` positions earlier; zeros outside."""
    kernel, zero = matrix(w, path), np.zeros_like(x[0])
    outputs = []
    for position in range(len(x)):
        total = w[f"{path}.bias"].copy()
        for tap in range(kernel.shape[2]):
            at = position - before + tap
            total += kernel[:, :, tap] @ (x[at] if 0 <= at < len(x) else zero)
        a, b = np.split(total, 2)
        outputs.append(a * sigmoid(b))
    return outputs


@pytest.mark.parametrize("lesson", [False, True])
def test_equations(lesson: bool) -> None:
    half = 1.0 if lesson else math.sqrt(0.5)
    encoder, decoder = [[6, 3], [9, 5]], [[7, 3], [8, 2], [8, 1]]
    torch.manual_seed(1)
    model = create_model("convs2s-tiny", source_vocab=15, target_vocab=13, embedding_dim=5,
                         encoder=encoder, decoder=decoder, output_dim=4, max_positions=9,
                         dropout=0.0, positions=not lesson, scale=not lesson,
                         weight_norm=not lesson).double().eval()  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():  # so that g is not ‖V‖ and biases are not zero
            weight.add_(torch.randn_like(weight), alpha=0.1)
    source, target = random_batch(15, (4, 7, 3), 2), random_batch(13, (5, 5, 5), 3)
    with torch.no_grad():
        logits, attention, _ = model(source, source != 0, target, attention=True)
    w = weights_of(model)
    for row in range(3):
        tokens = source[row][source[row] != 0].tolist()
        e = [w["source_embedding.weight"][t] + (0 if lesson else w["source_positions.weight"][p])
             for p, t in enumerate(tokens)]  # fmt: skip
        h = [linear(w, "encoder.enter", x) for x in e]
        for layer, (width, kernel) in enumerate(encoder):
            path = f"encoder.layers.{layer}"
            residual = h if len(h[0]) == width else [linear(w, f"{path}.residual", x) for x in h]
            new = convolve(w, f"{path}.convolution", h, kernel // 2)
            h = [(x + y) * half for x, y in zip(new, residual, strict=True)]
        z = [linear(w, "encoder.leave", x) for x in h]
        values = [(x + y) * half for x, y in zip(z, e, strict=True)]
        g = [w["target_embedding.weight"][t] + (0 if lesson else w["target_positions.weight"][p])
             for p, t in enumerate(target[row].tolist())]  # fmt: skip
        h = [linear(w, "decoder.enter", x) for x in g]
        for layer, (width, kernel) in enumerate(decoder):
            path = f"decoder.layers.{layer}"
            residual = h if len(h[0]) == width else [linear(w, f"{path}.residual", x) for x in h]
            new = convolve(w, f"{path}.convolution", h, kernel - 1)
            for position, x in enumerate(new):
                d = (linear(w, f"{path}.query", x) + g[position]) * half
                weights = softmax(np.array([d @ key for key in z]))
                c = np.sum([a * v for a, v in zip(weights, values, strict=True)], axis=0)
                if not lesson:
                    c = len(tokens) * math.sqrt(1 / len(tokens)) * c
                y = (linear(w, f"{path}.context", c) + x) * half
                new[position] = (y + residual[position]) * half
                actual = attention["cross"][row, layer, 0, position, : len(tokens)]
                np.testing.assert_allclose(actual, weights, rtol=0, atol=1e-10)
            h = new
        for position, x in enumerate(h):
            expected = linear(w, "output", linear(w, "decoder.leave", x))
            np.testing.assert_allclose(logits[row, position], expected, rtol=0, atol=1e-10)


def test_the_encoders_gradient_is_divided_by_the_number_of_attentions() -> None:
    torch.manual_seed(1)
    model = create_model("convs2s-tiny", source_vocab=15, target_vocab=13, dropout=0.0).double()
    source, target = random_batch(15, (4, 7, 3), 2), random_batch(13, (5, 5, 5), 3)
    memory = model.encode(source, source != 0).memory
    gradient = torch.autograd.grad(memory.keys.sum(), model.encoder.leave.bias)[0]  # type: ignore[union-attr, arg-type]
    tokens = source.numel()
    torch.testing.assert_close(gradient, torch.full_like(gradient, tokens / (2 * 3)))
    assert model(source, source != 0, target).logits.requires_grad


def test_initialization_preserves_the_variance() -> None:
    """Section 3.5: with its initialization, activations keep their variance through the layers."""
    torch.manual_seed(1)
    model = create_model("convs2s", source_vocab=50, target_vocab=50, max_positions=64,
                         encoder=[[256, 3]] * 8, embedding_dim=256).eval()  # fmt: skip
    source = torch.randint(4, 50, (8, 60))
    with torch.no_grad():
        h = model.encoder.enter(torch.randn(8, 60, 256))  # type: ignore[operator, union-attr]
        first = float(h.std())
        for layer in model.encoder.layers:  # type: ignore[union-attr]
            h = layer(h, source != 0)
    assert 0.5 < float(h.std()) / first < 2


def test_the_cached_matrix_follows_its_parts() -> None:
    """After changes in place, by loading, by assignment, and of the dtype."""
    torch.manual_seed(1)
    model = create_model("convs2s-tiny", source_vocab=20, target_vocab=20).eval()
    source = torch.randint(4, 20, (2, 5))
    maps = [module for module in model.modules() if isinstance(module, Map)]

    def logits() -> torch.Tensor:
        with torch.no_grad():
            cached = model(source, source != 0, source).logits
        expected = model(source, source != 0, source).logits  # with gradients nothing is cached
        torch.testing.assert_close(cached, expected)
        return expected.detach().clone()

    results = [logits()]
    with torch.no_grad():
        maps[-1].length.mul_(1.5)
    results.append(logits())
    other = create_model("convs2s-tiny", source_vocab=20, target_vocab=20)
    model.load_state_dict(other.state_dict())
    results.append(logits())
    maps[-1].direction.data = maps[-1].direction.data + 1.0
    results.append(logits())
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(results))
    assert model.double()(source, source != 0, source).logits.dtype == torch.float64
    logits()
    assert not any("cached" in name for name in model.state_dict())


def test_weights_that_were_made_in_inference_mode() -> None:
    """torch does not count how often these are written to, and asking for it is an error."""
    source = torch.randint(4, 20, (2, 5))
    with torch.inference_mode():
        model = create_model("convs2s-tiny", source_vocab=20, target_vocab=20).eval()
        first, second = (model(source, source != 0, source).logits for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize(("before", "after"), [(2, 2), (4, 0)])
def test_a_convolution_by_windows_has_torchs_derivative(n: int, before: int, after: int) -> None:
    """The network multiplies windows by the weights; torch convolves."""
    torch.manual_seed(1)
    config = create_model("convs2s-tiny", source_vocab=15, target_vocab=13).config
    assert isinstance(config, ConvS2SConfig)
    layer = Map(config, 6, 3, 5).double()
    with torch.no_grad():
        layer.length.mul_(1 + torch.rand(6))
    gradients, results = [], []
    weigh = torch.randn(2, n, 6, dtype=torch.float64)
    for windowed in (True, False):
        x = torch.randn(2, n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        x.requires_grad_()
        if windowed:
            y = layer.convolve(x, before, after)
        else:
            norm = layer.direction.flatten(1).norm(dim=1)
            weight = layer.direction * (layer.length / norm)[:, None, None]
            padded = F.pad(x.transpose(1, 2), (before, after))
            y = F.conv1d(padded, weight, layer.bias).transpose(1, 2)
        results.append(y)
        inputs = [x, layer.direction, layer.length, layer.bias]
        gradients.append(torch.autograd.grad((y.sin() * weigh).sum(), inputs))
    torch.testing.assert_close(*results)
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected)
    with torch.no_grad():
        torch.testing.assert_close(layer.convolve(x, before, after), results[0])
