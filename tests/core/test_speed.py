"""What is done in ways of our own for speed gives what torch's own gives."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it

from zoo.nn import Dropout, softmax, softmax_gradient
from zoo.training.loss import cross_entropy, divergence
from zoo_transformer.attention import attend


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradient_are_torchs(smoothing: float) -> None:
    torch.manual_seed(1)
    wanted = torch.randint(0, 7, (23,))
    assert bool((wanted == 0).any())
    ours = (4 * torch.randn(23, 7, dtype=torch.float64)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    loss = cross_entropy(ours, wanted, smoothing)
    expected = F.cross_entropy(
        theirs, wanted, ignore_index=0, label_smoothing=smoothing, reduction="sum"
    )
    (3 * loss).backward()
    (3 * expected).backward()
    assert ours.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_loss_in_bf16_is_nearer_to_the_truth_than_torchs() -> None:
    torch.manual_seed(1)
    exact = 4 * torch.randn(200, 500, dtype=torch.float64)
    rounded = exact.bfloat16()
    wanted = torch.randint(1, 500, (200,))
    truth = F.cross_entropy(rounded.double(), wanted, reduction="sum")
    ours = cross_entropy(rounded, wanted)
    theirs = F.cross_entropy(rounded, wanted, reduction="sum")
    assert ours.dtype == torch.float32
    assert abs(ours - truth) < abs(theirs - truth)


def test_a_vanished_probability_does_not_make_the_loss_infinite() -> None:
    logits = torch.tensor([[0.0, 500.0, 0.0]])
    assert float(cross_entropy(logits, torch.tensor([2]))) == pytest.approx(500.0)


def test_the_divergence_and_its_gradient_are_torchs() -> None:
    torch.manual_seed(1)
    tokens = 150  # more than are looked at in one go
    wanted = torch.randint(0, 5, (tokens,))
    ours = (3 * torch.randn(2 * tokens, 7, dtype=torch.float64)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    p, q = theirs.log_softmax(-1).chunk(2)
    both = F.kl_div(q, p, reduction="none", log_target=True) + F.kl_div(
        p, q, reduction="none", log_target=True
    )
    expected = (both / 2)[wanted != 0].sum()
    loss = divergence(ours, wanted)
    (3 * loss).backward()
    (3 * expected).backward()
    assert ours.grad is not None
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("kind", [None, "causal", "padding"])
def test_attention_while_training_is_torchs(kind: str | None) -> None:
    torch.manual_seed(1)
    rows, heads, n, m, d = 3, 2, 5, 7, 4
    if kind == "causal":
        m = n
    hidden = {
        None: None,
        "causal": torch.ones(n, n, dtype=torch.bool).triu(1),
        "padding": torch.arange(m) >= torch.tensor([7, 2, 5])[:, None, None, None],
    }[kind]
    made = [torch.randn(rows, heads, size, d, dtype=torch.float64) for size in (n, m, m)]
    ours = [x.clone().requires_grad_() for x in made]
    theirs = [x.clone().requires_grad_() for x in made]
    out = attend(ours[0], ours[1], ours[2], hidden, None)
    assert type(out.grad_fn).__name__ == "_AttendBackward"
    expected = F.scaled_dot_product_attention(
        theirs[0], theirs[1], theirs[2], attn_mask=None if hidden is None else ~hidden
    )
    given = torch.randn_like(out)
    out.backward(given)
    expected.backward(given)
    torch.testing.assert_close(out, expected)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("m", [1, 6, 7, 40])
def test_attention_while_decoding_is_torchs(n: int, m: int) -> None:
    """With one query and few keys it takes another way than with many."""
    torch.manual_seed(n + m)
    query, key, value = (torch.randn(3, 2, size, 64) for size in (n, m, m))
    hidden = torch.arange(m) >= torch.tensor([1, m, (m + 1) // 2])[:, None, None, None]
    weights: list[torch.Tensor] = []
    out = attend(query, key, value, hidden, None)
    torch.testing.assert_close(
        out, F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden)
    )
    torch.testing.assert_close(attend(query, key, value, hidden, weights), out)
    torch.testing.assert_close(weights[0] @ value, out)


@pytest.mark.parametrize("m", [1, 2, 15, 16, 17])
@pytest.mark.parametrize("rows", [3, 700])
def test_a_softmax_of_short_rows_is_torchs(rows: int, m: int) -> None:
    torch.manual_seed(4)
    scores = torch.randn(rows, 4, m)
    scores[torch.rand(rows, 4, m) < 0.3] = -math.inf
    scores[..., 0] = 0.5
    mine, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    weights, expected = softmax(mine), theirs.softmax(-1)
    torch.testing.assert_close(weights, expected)
    given = torch.randn(rows, 4, m)
    weights.backward(given)
    expected.backward(given)
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(softmax_gradient(given, weights.detach()), theirs.grad)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
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
def test_dropout_is_a_product_with_its_mask_in_every_type(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x = torch.randn(7, 33, dtype=dtype, requires_grad=True)
    given = torch.randn(33, 7, dtype=dtype).t()
    y = Dropout(0.25)(x)
    y.backward(given)
    mask = y.detach() != 0
    assert 0 < int(mask.sum()) < mask.numel()
    assert torch.equal(y.detach(), x.detach() * mask * (4 / 3))
    assert x.grad is not None
    assert torch.equal(x.grad, given * mask * (4 / 3))
    for p, expected in ((0.0, x), (1e-9, x), (1 - 1e-9, 0 * x), (1.0, 0 * x)):
        assert torch.equal(Dropout(p)(x), expected)


def test_dropout_draws_from_the_default_generator_alone() -> None:
    drop, x = Dropout(0.5), torch.ones(64, 3)
    torch.manual_seed(1)
    first, second = drop(x), drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)
    assert drop.eval()(x) is x
