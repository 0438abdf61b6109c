"""torch's recurrent networks over padded sources, compared with torch's packed sequences."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo.nn import padded, run_padded, run_recurrent
from zoo.nn.padded import layer_by_layer, one_block

LENGTHS = torch.tensor([9, 4, 1, 7, 2])
MASK = torch.arange(9) < LENGTHS[:, None]


def packed(net: Any, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    sequence = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    outputs, final = net(sequence)
    states = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0]
    return states, final if isinstance(final, tuple) else (final,)


def everything(net: nn.Module, x: Tensor, results: tuple[Tensor, tuple[Tensor, ...]]) -> list[Any]:
    """Return states, final states and all gradients."""
    states, final = results
    loss = states.sin().sum() + sum(part.cos().sum() for part in final)
    return [states, *final, *torch.autograd.grad(loss, [x, *net.parameters()])]


@pytest.mark.parametrize("precision", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_padding_changes_nothing(
    kind: Any, layers: int, bidirectional: bool, precision: torch.dtype
) -> None:
    """States, and gradients of all weights; what is at padding may be anything.

    In float32, oneDNN computes the LSTM, and closes and opens its gates.
    """
    torch.manual_seed(layers)
    net = kind(12, 16, layers, batch_first=True, bidirectional=bidirectional).to(precision)
    x = torch.randn(5, 9, 12, dtype=precision)
    bounds = (1e-9, 1e-12) if precision == torch.float64 else (1e-4, 1e-5)
    x[~MASK] = torch.nan
    x.requires_grad_()
    expected = everything(net, x, packed(net, x))
    for run in (run_padded, lambda net, x, mask: layer_by_layer(net, x, None, mask)):
        for actual, one in zip(everything(net, x, run(net, x, MASK)), expected, strict=True):
            torch.testing.assert_close(actual, one, rtol=bounds[0], atol=bounds[1])
    with torch.inference_mode():
        torch.testing.assert_close(run_padded(net, x.detach(), MASK), packed(net, x.detach()))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_network_goes_on_from_a_state(kind: Any) -> None:
    torch.manual_seed(1)
    net = kind(6, 8, 2, batch_first=True).double()
    x = torch.randn(4, 5, 6, dtype=torch.float64, requires_grad=True)
    start = tuple(torch.randn(2, 4, 8).double() for _ in range(2 if kind is nn.LSTM else 1))
    states, final = net(x, start if kind is nn.LSTM else start[0])
    expected = everything(net, x, (states, final if isinstance(final, tuple) else (final,)))
    for results in (run_recurrent(net, x, start), layer_by_layer(net, x, start, None)):
        for actual, one in zip(everything(net, x, results), expected, strict=True):
            torch.testing.assert_close(actual, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dropout_is_between_layers(kind: Any) -> None:
    """What it draws is what torch's generator says, and the last layer's states keep all of it."""
    torch.manual_seed(2)
    net = kind(6, 8, 2, batch_first=True, dropout=0.5).double()
    first, second = (kind(n, 8, batch_first=True).double() for n in (6, 8))
    for number, one in enumerate((first, second)):
        for name, weight in one.named_parameters():
            weight.data = net.get_parameter(name.replace("_l0", f"_l{number}")).data
    x = torch.randn(5, 9, 6, dtype=torch.float64)
    torch.manual_seed(3)
    actual = layer_by_layer(net, x, None, MASK)[0]
    torch.manual_seed(3)
    steps_first = packed(first, x)[0].transpose(0, 1).contiguous()  # as torch lays them out
    between = torch.nn.functional.dropout(steps_first, 0.5).transpose(0, 1)
    torch.testing.assert_close(actual, packed(second, between)[0])
    net.eval()
    expected = packed(second, packed(first, x)[0])[0]
    torch.testing.assert_close(layer_by_layer(net, x, None, MASK)[0], expected)


class Own(nn.LSTM):
    """A network whose class may compute anything."""


@pytest.mark.parametrize("net", [
    nn.LSTM(6, 8, batch_first=True, proj_size=3), nn.GRU(6, 8, batch_first=True, bias=False),
    nn.RNN(6, 8, batch_first=True), Own(6, 8, batch_first=True),
], ids=lambda net: type(net).__name__)  # fmt: skip
def test_other_networks_are_computed_by_torch(net: Any) -> None:
    x = torch.randn(5, 9, 6)
    torch.testing.assert_close(run_padded(net, x, MASK), packed(net, x))


@pytest.mark.parametrize("where", ["the network", "all networks", "its method"])
def test_a_network_with_hooks_is_called(where: str) -> None:
    """A hook may make the weights, as torch's older `weight_norm` does."""
    net: Any = nn.LSTM(6, 8, batch_first=True)
    x, calls, forward = torch.randn(5, 9, 6), [], net.forward

    def hook(*given: Any) -> Any:
        calls.append(1)
        return forward(*given) if where == "its method" else None

    if where == "its method":
        net.forward = hook
        run_padded(net, x, MASK)
    else:
        register = net.register_forward_pre_hook
        if where == "all networks":
            register = register_module_forward_pre_hook
        handle = register(hook)
        run_padded(net, x, MASK)
        handle.remove()
    assert calls


def test_a_block_has_the_weights_as_cudnn_reads_them() -> None:
    """All matrices, then all biases; the list is in torch's order."""
    net = nn.GRU(6, 8, batch_first=True, bidirectional=True)
    made = one_block(net.all_weights[0] + net.all_weights[1], torch.bfloat16)
    for weight, view in zip(net.parameters(), made, strict=True):
        torch.testing.assert_close(view, weight.bfloat16(), rtol=0, atol=0)
    matrices, biases = ([w for w in made if w.dim() == n] for n in (2, 1))
    starts = [w.storage_offset() for w in matrices + biases]
    assert starts == [0, *itertools.accumulate(w.numel() for w in matrices + biases)][:-1]
    assert len({w.untyped_storage().data_ptr() for w in made}) == 1


def test_a_gru_on_a_cpu_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch's fused steps, padding would only be computed in addition."""
    calls: list[str] = []
    for name in ("layer_by_layer", "pack_padded_sequence"):
        original = getattr(padded, name)

        def call(*given: Any, name: str = name, original: Any = original, **more: Any) -> Any:
            calls.append(name)
            return original(*given, **more)

        monkeypatch.setattr(padded, name, call)
    x = torch.randn(5, 9, 6)
    for kind in (nn.GRU, nn.LSTM):
        run_padded(kind(6, 8, batch_first=True), x, MASK)
    assert calls == ["pack_padded_sequence", "layer_by_layer"]


def test_autocast_decides_the_precision() -> None:
    net = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
    x = torch.randn(5, 9, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, final = run_padded(net, x, MASK)
        expected, _ = packed(net, x)
    assert states.dtype == final[0].dtype == torch.bfloat16
    assert not states[~MASK].any()
    torch.testing.assert_close(states, expected.to(states.dtype), rtol=0.05, atol=0.02)


def test_a_net_or_a_mask_that_does_not_fit_is_refused() -> None:
    x = torch.zeros(2, 5, 3)
    with pytest.raises(ValueError, match=r"GRU\(3, 4\) has no batch_first=True"):
        run_padded(nn.GRU(3, 4), x, torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"a mask of \[2, 4\] does not fit \[2, 5, 3\]"):
        run_padded(nn.GRU(3, 4, batch_first=True), x, torch.ones(2, 4, dtype=torch.bool))
