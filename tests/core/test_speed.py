"""Functions rewritten for speed equal those of torch."""

import math
import sys

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it

from zoo.errors import ZooError
from zoo.nn import Dropout, recurrent_linear, softmax, softmax_gradient, tanh
from zoo.training.losses import cross_entropy, symmetric_kl
from zoo_transformer.attention import attend


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_equal_torchs(smoothing: float) -> None:
    torch.manual_seed(1)
    targets = torch.randint(0, 7, (23,))
    assert bool((targets == 0).any())
    actual = (4 * torch.randn(23, 7, dtype=torch.float64)).requires_grad_()
    reference = actual.detach().clone().requires_grad_()
    loss = cross_entropy(actual, targets, smoothing)
    expected = F.cross_entropy(
        reference, targets, ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )
    (3 * loss).backward()
    (3 * expected).backward()
    assert actual.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(actual.grad, reference.grad)


@pytest.mark.parametrize("factors", [(2.0, 3.0), (0.0, 5.0), (math.inf, 5.0)])
def test_a_second_backward_pass_of_the_loss(factors: tuple[float, float]) -> None:
    """Its gradient is scaled in place, which a second pass and other uses of it must not see."""
    torch.manual_seed(1)
    targets = torch.randint(0, 7, (50,))  # more than one chunk
    logits = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    doubled = 2 * logits
    loss = cross_entropy(doubled, targets, 0.1) + doubled.square().sum()
    reference = F.cross_entropy(
        doubled, targets, ignore_index=0, label_smoothing=0.1, reduction="sum"
    )
    expected = torch.autograd.grad(reference + doubled.square().sum(), logits, retain_graph=True)
    for factor in factors:
        (actual,) = torch.autograd.grad(loss * factor, logits, retain_graph=True)
        if math.isfinite(factor):
            torch.testing.assert_close(actual, factor * expected[0])
        else:
            assert not bool(actual.isfinite().any())


@pytest.mark.parametrize("name", ["attention", "cross-entropy", "divergence", "recurrence"])
def test_second_derivatives_are_refused(name: str) -> None:
    """Also by tensors that the backward pass saved: torch's own decorator lets these pass."""
    torch.manual_seed(1)
    x, labels = torch.randn(4, 2, 8, 8, requires_grad=True), torch.randint(1, 8, (64,))
    rows = (2 * x).view(64, 8)
    results = {
        "attention": lambda: attend(x, x, x, None, None).sum(),
        "cross-entropy": lambda: cross_entropy(rows, labels),
        "divergence": lambda: symmetric_kl(rows, labels[:32]),
        "recurrence": lambda: recurrent_linear(x[0, 0], None, 64, 1)(rows).sum(),
    }
    torch.autograd.grad(results[name](), x, retain_graph=True)
    with pytest.raises(ZooError, match="there is no second derivative"):
        torch.autograd.grad(results[name](), x, create_graph=True)


def test_the_loss_in_bf16_is_more_accurate_than_torchs() -> None:
    torch.manual_seed(1)
    exact = 4 * torch.randn(200, 500, dtype=torch.float64)
    rounded = exact.bfloat16()
    targets = torch.randint(1, 500, (200,))
    truth = F.cross_entropy(rounded.double(), targets, reduction="sum")
    actual = cross_entropy(rounded, targets)
    reference = F.cross_entropy(rounded, targets, reduction="sum")
    assert actual.dtype == torch.float32
    assert abs(actual - truth) < abs(reference - truth)


def test_a_probability_of_zero_gives_a_finite_loss() -> None:
    logits = torch.tensor([[0.0, 500.0, 0.0]])
    assert float(cross_entropy(logits, torch.tensor([2]))) == pytest.approx(500.0)


def test_the_divergence_and_its_gradient_equal_torchs() -> None:
    torch.manual_seed(1)
    tokens = 150  # more than one chunk
    targets = torch.randint(0, 5, (tokens,))
    actual = (3 * torch.randn(2 * tokens, 7, dtype=torch.float64)).requires_grad_()
    reference = actual.detach().clone().requires_grad_()
    p, q = reference.log_softmax(-1).chunk(2)
    both = F.kl_div(q, p, reduction="none", log_target=True) + F.kl_div(
        p, q, reduction="none", log_target=True
    )
    expected = (both / 2)[targets != 0].sum()
    loss = symmetric_kl(actual, targets)
    (3 * loss).backward()
    (3 * expected).backward()
    assert actual.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(actual.grad, reference.grad)


@pytest.mark.parametrize("kind", [None, "causal", "padding"])
def test_attention_in_training_equals_torchs(kind: str | None) -> None:
    torch.manual_seed(1)
    rows, heads, n, m, d = 3, 2, 5, 7, 4
    if kind == "causal":
        m = n
    mask = {
        None: None,
        "causal": torch.ones(n, n, dtype=torch.bool).triu(1),
        "padding": torch.arange(m) >= torch.tensor([7, 2, 5])[:, None, None, None],
    }[kind]
    inputs = [torch.randn(rows, heads, size, d, dtype=torch.float64) for size in (n, m, m)]
    actual = [x.clone().requires_grad_() for x in inputs]
    reference = [x.clone().requires_grad_() for x in inputs]
    out = attend(actual[0], actual[1], actual[2], mask, None)
    assert type(out.grad_fn).__name__ == "_AttendBackward"
    expected = F.scaled_dot_product_attention(
        reference[0], reference[1], reference[2], attn_mask=None if mask is None else ~mask
    )
    gradient = torch.randn_like(out)
    out.backward(gradient)
    expected.backward(gradient)
    torch.testing.assert_close(out, expected)
    for x, expected_x in zip(actual, reference, strict=True):
        torch.testing.assert_close(x.grad, expected_x.grad)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("m", [1, 6, 7, 40])
def test_attention_in_decoding_equals_torchs(n: int, m: int) -> None:
    """A single query with few keys is computed by separate code."""
    torch.manual_seed(n + m)
    query, key, value = (torch.randn(3, 2, size, 64) for size in (n, m, m))
    mask = torch.arange(m) >= torch.tensor([1, m, (m + 1) // 2])[:, None, None, None]
    weights: list[torch.Tensor] = []
    out = attend(query, key, value, mask, None)
    torch.testing.assert_close(
        out, F.scaled_dot_product_attention(query, key, value, attn_mask=~mask)
    )
    torch.testing.assert_close(attend(query, key, value, mask, weights), out)
    torch.testing.assert_close(weights[0] @ value, out)


@pytest.mark.parametrize("m", [1, 2, 15, 16, 17])
@pytest.mark.parametrize("rows", [3, 700])
def test_softmax_of_short_rows_equals_torchs(rows: int, m: int) -> None:
    torch.manual_seed(4)
    scores = torch.randn(rows, 4, m)
    scores[torch.rand(rows, 4, m) < 0.3] = -math.inf
    scores[..., 0] = 0.5
    actual, reference = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    weights, expected = softmax(actual), reference.softmax(-1)
    torch.testing.assert_close(weights, expected)
    gradient = torch.randn(rows, 4, m)
    weights.backward(gradient)
    expected.backward(gradient)
    torch.testing.assert_close(actual.grad, reference.grad)
    torch.testing.assert_close(softmax_gradient(gradient, weights.detach()), reference.grad)


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("is_fast", [False, True])
def test_tanh_is_torchs_with_its_derivative(
    is_fast: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few numbers are computed by torch's operator, many by another formula where that is slow."""
    monkeypatch.setattr(sys.modules["zoo.nn.tanh"], "is_fast_in_torch", lambda: is_fast)
    torch.manual_seed(1)
    x = 4 * torch.randn(rows, 512)
    exact = x.double().requires_grad_()
    weigh = torch.randn(rows, 512)
    expected = torch.autograd.grad(exact.tanh(), exact, weigh.double())[0]
    torch.testing.assert_close(tanh(x).double(), exact.tanh(), rtol=0, atol=2e-7)
    x.requires_grad_()
    y = tanh(x)
    torch.testing.assert_close(y.double(), exact.tanh(), rtol=0, atol=2e-7)
    gradient = torch.autograd.grad(y, x, weigh)[0]
    torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("vendor", "is_fast"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_tanh_is_torchs_own_on_intels_processors(
    vendor: str, is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There torch's is two to four times as fast as the other formula."""
    module = sys.modules["zoo.nn.tanh"]
    monkeypatch.setattr(module, "processor", lambda what: vendor)
    monkeypatch.setattr(module, "is_fast_in_torch", module.is_fast_in_torch.__wrapped__)
    x = 4 * torch.randn(9000)
    assert torch.equal(tanh(x), x.tanh()) == is_fast


def test_tanh_keeps_what_is_not_a_number_and_leaves_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["zoo.nn.tanh"], "is_fast_in_torch", lambda: False)
    x = torch.zeros(5000)
    x[:4] = torch.tensor([math.inf, -math.inf, math.nan, 200.0])
    before = x.clone()
    torch.testing.assert_close(
        tanh(x)[:4], torch.tensor([1.0, -1.0, math.nan, 1.0]), equal_nan=True
    )
    assert torch.equal(x.nan_to_num(), before.nan_to_num())


def test_dropout_drops_a_fraction_p_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    drop = Dropout(0.3)
    x = torch.ones(1001, 999, requires_grad=True)
    y = drop(x)
    count = x.numel()
    dropped = int((y == 0).sum())
    deviation = math.sqrt(count * 0.3 * 0.7)
    assert abs(dropped - 0.3 * count) < 5 * deviation
    assert float(y.detach().max()) == pytest.approx(1 / 0.7, rel=1e-4)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())  # the same mask, the same scale


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_dropout_multiplies_by_its_mask_in_every_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x = torch.randn(7, 33, dtype=dtype, requires_grad=True)
    gradient = torch.randn(33, 7, dtype=dtype).t()
    y = Dropout(0.25)(x)
    y.backward(gradient)
    mask = y.detach() != 0
    assert 0 < int(mask.sum()) < mask.numel()
    assert torch.equal(y.detach(), x.detach() * mask * (4 / 3))
    assert x.grad is not None
    assert torch.equal(x.grad, gradient * mask * (4 / 3))
    for p, expected in ((0.0, x), (1e-9, x), (1 - 1e-9, 0 * x), (1.0, 0 * x)):
        assert torch.equal(Dropout(p)(x), expected)


def test_dropout_draws_only_from_the_default_generator() -> None:
    drop, x = Dropout(0.5), torch.ones(64, 3)
    torch.manual_seed(1)
    first, second = drop(x), drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)
    assert drop.eval()(x) is x
