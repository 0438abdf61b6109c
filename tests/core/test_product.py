"""The product with a weight matrix is torch's own, whatever it is given."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import zoo
from zoo.nn.int8 import Int8
from zoo.nn.linear import ROWS, CachedWeights, PackedWeights, linear, recurrent_linear


class Called(TorchDispatchMode):
    """Notes the names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("part", [slice(None), slice(5, None), slice(0, 8)])
def test_linear_is_torchs(part: slice) -> None:
    torch.manual_seed(1)
    whole, bias = torch.randn(7, 20), torch.randn(7)
    weight = whole[:, part]
    x = torch.randn(3, 2, weight.shape[1])
    with torch.no_grad():
        found: Tensor = linear(x, weight, bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, bias))


def test_part_of_a_matrix_is_left_to_torch() -> None:
    """oneDNN's product with a strided weight is a hundred times slower."""
    weight, x = torch.randn(7, 20), torch.randn(3, 15)
    with torch.no_grad(), Called() as called:
        linear(x, weight[:, 5:])
    assert not any("mkldnn" in name for name in called.names)


@pytest.mark.parametrize("outputs", [7, 40])
@pytest.mark.parametrize("rows", [3, ROWS])
@pytest.mark.parametrize("part", [slice(None), slice(5, None)])
def test_linear_has_torch_s_derivative(outputs: int, rows: int, part: slice) -> None:
    """Also of a part of a matrix, and of a sum, whose gradient has strides of zero."""
    torch.manual_seed(1)
    given = torch.randn(2, rows, 20), torch.randn(outputs, 20), torch.randn(outputs)
    for weigh in (torch.randn(2, rows, outputs), torch.ones(()).expand(2, rows, outputs)):
        found: list[Tensor | None] = []
        wanted: list[Tensor | None] = []
        for product, gradients in ((linear, found), (torch.nn.functional.linear, wanted)):
            x, weight, bias = (tensor.clone().requires_grad_() for tensor in given)
            (product(x[..., part], weight[:, part], bias).sin() * weigh).sum().backward()
            gradients += [x.grad, weight.grad, bias.grad]
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(5,), (0, 5), (2, 0, 5)])
def test_linear_takes_vectors_and_nothing(shape: tuple[int, ...]) -> None:
    x, weight, bias = torch.ones(shape), torch.randn(3, 5), torch.zeros(3, requires_grad=True)
    found = linear(x, weight, bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, bias))
    found.sum().backward()
    assert torch.equal(bias.grad, torch.full((3,), float(found.numel() // 3)))  # type: ignore[arg-type]  # there is one


def test_linear_can_be_differentiated_twice() -> None:
    torch.manual_seed(1)
    given = [torch.randn(3, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True)]
    found = []
    for product in (linear, torch.nn.functional.linear):
        first = torch.autograd.grad(product(*given).sin().sum(), given, create_graph=True)
        total = torch.stack([g.square().sum() for g in first]).sum()
        found.append(torch.autograd.grad(total, given))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def recur(step: Callable[[Tensor], Tensor], x: Tensor, steps: int) -> Tensor:
    """Return the last state of a recurrence."""
    for _ in range(steps):
        x = step(x).tanh()
    return x


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("before", [(), (3,)], ids=["one matrix", "a matrix for each sentence"])
def test_a_recurrence_s_gradients_are_those_of_its_steps(
    steps: int, before: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    given = [torch.randn(*before, 2, 6), torch.randn(*before, 6, 6), torch.randn(6)]
    for kind in (torch.float32, torch.float64):
        x, weight, bias = (tensor.to(kind).requires_grad_() for tensor in given)
        plain = recur(lambda x: x @ weight.transpose(-1, -2) + bias, x, steps)  # noqa: B023
        wanted = torch.autograd.grad(plain.square().sum(), [x, weight, bias])
        # More steps may be announced than are made.
        found = recur(recurrent_linear(weight, bias, 2, steps + 1), x, steps)
        torch.testing.assert_close(found, plain)
        # Twice: what the first left behind would be counted again.
        for _ in range(2):
            again = torch.autograd.grad(found.square().sum(), [x, weight, bias], retain_graph=True)
            for ours, theirs in zip(again, wanted, strict=True):
                torch.testing.assert_close(ours, theirs)


def test_a_recurrence_under_autocast() -> None:
    """Its product is in bfloat16 and its gradients in float32, as torch's are."""
    torch.manual_seed(1)
    x, weight = torch.randn(2, 6), torch.randn(6, 6, requires_grad=True)
    gradients: list[Tensor] = []
    for make in (
        recurrent_linear,
        lambda weight, *_: lambda x: torch.nn.functional.linear(x, weight),
    ):
        with torch.autocast("cpu", torch.bfloat16):
            last = recur(make(weight, None, 2, 3), x, 3)
        assert last.dtype == torch.bfloat16
        gradients += torch.autograd.grad(last.float().square().sum(), [weight])
    assert gradients[0].dtype == torch.float32
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0.05, atol=0.05)


def test_a_strangers_recurrence_has_it_too() -> None:
    assert zoo.nn.recurrent_linear is recurrent_linear


def test_int8_is_near_and_does_not_depend_on_batch_mates() -> None:
    """Each row is scaled by itself: a huge batch mate changes nothing."""
    torch.manual_seed(1)
    net = zoo.Linear(64, 40)
    x = torch.randn(5, 3, 64)
    with torch.no_grad():
        wanted = net(x)
        with Int8().on():
            found, alone = net(x), net(x[:1])
            mates = net(torch.cat([x[:1], 1000 * x[1:]]))
    assert found.shape == wanted.shape
    assert float((found - wanted).abs().max()) < 0.02 * float(wanted.abs().max())
    assert not torch.equal(found, wanted), "nothing was converted"
    assert torch.equal(alone, found[:1])
    assert torch.equal(mates[:1], found[:1])
    with torch.no_grad():
        assert torch.equal(net(x), wanted), "it ends with its block"


def test_int8_is_the_product_of_the_rounded_numbers() -> None:
    """Against its definition, row by row, in float64."""
    torch.manual_seed(1)
    x, weight = torch.randn(3, 30), torch.nn.Parameter(torch.randn(7, 30))
    weight.data[2] = 0.0
    bias = torch.randn(7)
    with torch.no_grad(), Int8().on():
        found = linear(x, weight, bias)

    def rounded(rows: Tensor) -> Tensor:
        rows = rows.detach().double()
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
        return (rows / scale).round() * scale

    wanted = rounded(x) @ rounded(weight).t() + bias.double()
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_int8_leaves_learning_and_parts_alone() -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(3, 8), torch.nn.Parameter(torch.randn(7, 8))
    with Int8().on():
        torch.testing.assert_close(linear(x, weight), torch.nn.functional.linear(x, weight))
        with torch.no_grad():
            part = linear(x[:, :5], weight[:, :5])
    torch.testing.assert_close(part, x[:, :5] @ weight[:, :5].detach().t())


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize("biased", [True, False])
def test_packed_weights_give_the_same_product(rows: int, biased: bool) -> None:
    torch.manual_seed(1)
    net, x = zoo.Linear(33, 70, bias=biased), torch.randn(2, rows, 33)
    with torch.no_grad():
        wanted = torch.nn.functional.linear(x, net.weight, net.bias)
        with PackedWeights().on(), Called() as called:
            found = net(x)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert any("reorder" in name for name in called.names), "nothing was packed"


@pytest.mark.parametrize("kept", [PackedWeights, Int8])
def test_what_is_kept_follows_its_weight(kept: type[CachedWeights]) -> None:
    """A weight that is written to is converted anew, and one that is gone is forgotten."""
    torch.manual_seed(1)
    net, x, products = zoo.Linear(8, 6), torch.randn(3, 8), kept()
    with torch.no_grad(), products.on():
        before = net(x)
        form = products._forms[id(net.weight)][2]
        assert torch.equal(net(x), before)
        assert products._forms[id(net.weight)][2] is form, "it was made twice"
        net.weight.mul_(2.0)
        net.bias.mul_(2.0)
        torch.testing.assert_close(net(x), 2 * before)
        net.weight.data = net.weight.data / 2
        net.bias.data = net.bias.data / 2
        torch.testing.assert_close(net(x), before)
    assert len(products._forms) == 1
    del net
    gc.collect()
    assert not products._forms
