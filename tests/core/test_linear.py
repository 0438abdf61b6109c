"""The product with a weight matrix equals torch's, by every kernel and for every operand."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.nn import Linear, linear, recurrent_linear
from zoo.nn.bf16 import BFloat16
from zoo.nn.cached_weights import PackedWeights, TransposedWeights
from zoo.nn.int8 import Int8
from zoo.nn.linear import ROWS


class CalledOperators(TorchDispatchMode):
    """Records the names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("part", [slice(None), slice(5, None), slice(0, 8)])
def test_linear_equals_torch(part: slice) -> None:
    torch.manual_seed(1)
    whole, bias = torch.randn(7, 20), torch.randn(7)
    weight = whole[:, part]
    x = torch.randn(3, 2, weight.shape[1])
    with torch.no_grad():
        result: Tensor = linear(x, weight, bias)
    torch.testing.assert_close(result, torch.nn.functional.linear(x, weight, bias))


def test_a_slice_of_a_matrix_is_left_to_torch() -> None:
    """oneDNN's product with a strided weight is a hundred times slower."""
    weight, x = torch.randn(7, 20), torch.randn(3, 15)
    with torch.no_grad(), CalledOperators() as called:
        linear(x, weight[:, 5:])
    assert not any("mkldnn" in name for name in called.names)


@pytest.mark.parametrize("outputs", [7, 40])
@pytest.mark.parametrize("rows", [3, ROWS])
@pytest.mark.parametrize("part", [slice(None), slice(5, None)])
def test_linear_has_torchs_derivative(outputs: int, rows: int, part: slice) -> None:
    """Also for a slice of a matrix, and for a sum, whose gradient has strides of zero."""
    torch.manual_seed(1)
    operands = torch.randn(2, rows, 20), torch.randn(outputs, 20), torch.randn(outputs)
    for weigh in (torch.randn(2, rows, outputs), torch.ones(()).expand(2, rows, outputs)):
        result: list[Tensor | None] = []
        expected: list[Tensor | None] = []
        for product, gradients in ((linear, result), (torch.nn.functional.linear, expected)):
            x, weight, bias = (tensor.clone().requires_grad_() for tensor in operands)
            (product(x[..., part], weight[:, part], bias).sin() * weigh).sum().backward()
            gradients += [x.grad, weight.grad, bias.grad]
        for actual, reference in zip(result, expected, strict=True):
            torch.testing.assert_close(actual, reference, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(5,), (0, 5), (2, 0, 5)])
def test_linear_takes_vectors_and_empty_tensors(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    operands = [torch.ones(shape), torch.randn(3, 5), torch.zeros(3)]
    result: list[Tensor] = []
    expected: list[Tensor] = []
    for product, of_product in ((linear, result), (torch.nn.functional.linear, expected)):
        copies = [operand.clone().requires_grad_() for operand in operands]
        of_product.append(product(*copies))
        of_product += torch.autograd.grad(of_product[0].sum(), copies)
    torch.testing.assert_close(result, expected)


def test_a_recurrence_of_no_rows_has_gradients_of_zero() -> None:
    """An expert to which no token of a batch is routed has no rows."""
    x, weight = torch.ones(0, 5, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    product = recurrent_linear(weight, None, 0, 2)
    (product(x) + product(x)).sum().backward()
    assert torch.equal(x.grad, torch.zeros(0, 5))  # type: ignore[arg-type]  # it has a gradient
    assert torch.equal(weight.grad, torch.zeros(3, 5))  # type: ignore[arg-type]  # it has a gradient


def test_linear_can_be_differentiated_twice() -> None:
    torch.manual_seed(1)
    operands = [torch.randn(3, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True)]
    result = []
    for product in (linear, torch.nn.functional.linear):
        first = torch.autograd.grad(product(*operands).sin().sum(), operands, create_graph=True)
        total = torch.stack([g.square().sum() for g in first]).sum()
        result.append(torch.autograd.grad(total, operands))
    for actual, reference in zip(*result, strict=True):
        torch.testing.assert_close(actual, reference)


def recur(step: Callable[[Tensor], Tensor], x: Tensor, steps: int) -> Tensor:
    """Return the last state of a recurrence."""
    for _ in range(steps):
        x = step(x).tanh()
    return x


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("before", [(), (3,)], ids=["one matrix", "one matrix per sentence"])
def test_gradients_of_a_recurrence_are_those_of_its_steps(
    steps: int, before: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    operands = [torch.randn(*before, 2, 6), torch.randn(*before, 6, 6), torch.randn(6)]
    for kind in (torch.float32, torch.float64):
        x, weight, bias = (tensor.to(kind).requires_grad_() for tensor in operands)
        plain = recur(lambda x: x @ weight.transpose(-1, -2) + bias, x, steps)  # noqa: B023
        expected = torch.autograd.grad(plain.square().sum(), [x, weight, bias])
        # More steps may be announced than are taken.
        result = recur(recurrent_linear(weight, bias, 2, steps + 1), x, steps)
        torch.testing.assert_close(result, plain)
        # Twice: leftovers of the first pass would be counted again.
        for _ in range(2):
            again = torch.autograd.grad(result.square().sum(), [x, weight, bias], retain_graph=True)
            for actual, reference in zip(again, expected, strict=True):
                torch.testing.assert_close(actual, reference)


def test_a_recurrence_under_autocast() -> None:
    """Its products are bfloat16 and its gradients float32, like torch's."""
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


def test_int8_is_accurate_and_independent_of_the_batch() -> None:
    """Each row has its own scale: a huge value in another row changes nothing."""
    torch.manual_seed(1)
    net = Linear(64, 40)
    x = torch.randn(5, 3, 64)
    with torch.no_grad():
        expected = net(x)
        with Int8().activate():
            result, alone = net(x), net(x[:1])
            with_others = net(torch.cat([x[:1], 1000 * x[1:]]))
    assert result.shape == expected.shape
    assert float((result - expected).abs().max()) < 0.02 * float(expected.abs().max())
    assert not torch.equal(result, expected), "int8 was not used"
    assert torch.equal(alone, result[:1])
    assert torch.equal(with_others[:1], result[:1])
    with torch.no_grad():
        assert torch.equal(net(x), expected), "int8 ends with its block"


@pytest.mark.parametrize("emulated", [False, True])
def test_int8_equals_the_product_of_rounded_numbers(
    emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with the definition in float64; torch's product is in int8, or in float32."""
    monkeypatch.setattr("zoo.nn.int8.emulates_int8", lambda: emulated)
    torch.manual_seed(1)
    x, weight = torch.randn(3, 30), torch.nn.Parameter(torch.randn(7, 30))
    weight.data[2] = 0.0
    bias = torch.randn(7)
    with torch.no_grad(), Int8().activate():
        result = linear(x, weight, bias)

    def rounded(rows: Tensor) -> Tensor:
        rows = rows.detach().double()
        scale = rows.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
        return (rows / scale).round() * scale

    expected = rounded(x) @ rounded(weight).t() + bias.double()
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


def test_bf16_where_onednn_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    net, x = Linear(33, 70), torch.randn(2, 5, 33)
    results = []
    for _ in range(2):
        with torch.no_grad(), BFloat16().activate():
            results.append(net(x))
        monkeypatch.setattr("zoo.nn.onednn.packs_bf16", lambda: False)
    torch.testing.assert_close(*results, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("kind", [BFloat16, Int8])
def test_narrow_weights_skip_training_and_slices(kind: type[BFloat16 | Int8]) -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(3, 8), torch.nn.Parameter(torch.randn(7, 8))
    with kind().activate():
        torch.testing.assert_close(linear(x, weight), torch.nn.functional.linear(x, weight))
        with torch.no_grad():
            part = linear(x[:, :5], weight[:, :5])
    torch.testing.assert_close(part, x[:, :5] @ weight[:, :5].detach().t())


@pytest.mark.parametrize(
    ("kind", "operator"), [(PackedWeights, "reorder"), (TransposedWeights, "mm")]
)
@pytest.mark.parametrize("rows", [0, 1, 5, 300])
@pytest.mark.parametrize("biased", [True, False])
def test_cached_float32_weights_give_the_same_product(
    kind: type[PackedWeights | TransposedWeights], operator: str, rows: int, biased: bool
) -> None:
    torch.manual_seed(1)
    net, x = Linear(33, 70, bias=biased), torch.randn(2, rows, 33)
    with torch.no_grad():
        expected = torch.nn.functional.linear(x, net.weight, net.bias)
        with kind().activate(), CalledOperators() as called:
            result = net(x)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    assert any(operator in name for name in called.names), "the weight was not converted"


@pytest.mark.parametrize("kind", [PackedWeights, TransposedWeights, BFloat16, Int8])
def test_cached_forms_follow_their_weights(
    kind: type[PackedWeights | TransposedWeights | BFloat16 | Int8],
) -> None:
    """A weight that is written to is converted again; a deleted one is dropped."""
    torch.manual_seed(1)
    net, x, cache = Linear(8, 6), torch.randn(3, 8), kind()
    with torch.no_grad(), cache.activate():
        before = net(x)
        form = cache._forms[id(net.weight)][2]
        assert torch.equal(net(x), before)
        assert cache._forms[id(net.weight)][2] is form, "the weight was converted twice"
        net.weight.mul_(2.0)
        net.bias.mul_(2.0)
        torch.testing.assert_close(net(x), 2 * before)
        net.weight.data = net.weight.data / 2
        net.bias.data = net.bias.data / 2
        torch.testing.assert_close(net(x), before)
    assert len(cache._forms) == 1
    del net
    gc.collect()
    assert not cache._forms
