"""torch's recurrent networks over padded sources, and sources without their end tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo.nn.contract import END
from zoo.nn.processor import emulates_bf16

GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""ONNX's order of gates, as indices in torch's."""

MARKS = 8
"""How many features mark padding; tensor cores read rows whose width they divide."""

MARK_WEIGHT = 2.0**11
"""Their weights, whose sum opens or closes a gate entirely; they are exact in every precision."""

HELD = {"LSTM": (-1, 1, 0, 0), "GRU": (0, 1, 0)}
"""Which gates must be closed (−1) or open (1), in torch's order, so that a state stays."""

Final = tuple[Tensor, ...]
"""The hidden state and, for an LSTM, the cell: (layers × directions, rows, size) each."""


def without_end(source: Tensor, mask: Tensor) -> Tensor:
    """Return the mask without the end token of each source, unless it is the only token.

    source: (rows, m); mask: (rows, m) bool, True at real tokens, which are on the left.
    """
    last = mask.sum(1, keepdim=True) - 1
    position = torch.arange(source.shape[1], device=source.device)
    return mask & ~((position == last) & (source == END) & (last > 0))


def run_padded(net: nn.LSTM | nn.GRU, x: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
    """Run torch's LSTM or GRU over right-padded sequences, from a state of zeros.

    Args:
        net: with `batch_first=True` and biases.
        x: (rows, m, inputs).
        mask: (rows, m) bool, True at real positions.

    Returns:
        The last layer's states, (rows, m, directions × size), zero at padding; and a tuple of the
        final hidden state and, for an LSTM, the final cell, (layers × directions, rows, size) each.

    Raises:
        ValueError: the net reads lengths first, or the mask does not fit.
    """
    if not net.batch_first:
        raise ValueError(f"run_padded needs a net with rows first: {net} has no batch_first=True")
    if mask.shape != x.shape[:2]:
        raise ValueError(f"run_padded: a mask of {list(mask.shape)} does not fit {list(x.shape)}")
    if torch.compiler.is_exporting():
        return _exported(net, x, mask.sum(1))
    if not x.is_cuda and not torch.compiler.is_compiling() and bool(mask.all()):
        return _run(net, x, None)
    # On a CPU, torch computes a packed LSTM of different lengths step by step, and takes twice as
    # long; a GRU is always computed step by step, and a packed one without the padding.
    pays = x.is_cuda or (x.is_cpu and isinstance(net, nn.LSTM))
    if pays and _is_plain(net):
        return layer_by_layer(net, x, None, mask)
    packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    outputs, final = _run(net, packed, None)
    return pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0], final


def run_recurrent(net: nn.LSTM | nn.GRU, x: Tensor, start: Final) -> tuple[Tensor, Final]:
    """Run torch's LSTM or GRU from a state.

    On a GPU, the dropout between layers draws from torch's generator, which is restored when a run
    is resumed, not from cuDNN's.

    Args:
        net: with `batch_first=True` and biases.
        x: (rows, n, inputs).
        start: a tuple of the initial hidden state and, for an LSTM, the initial cell,
            (layers × directions, rows, size) each.

    Returns:
        The last layer's states, (rows, n, directions × size), and the final state, as `start`.
    """
    draws = net.training and net.dropout > 0
    # torch puts weights in bf16 into no block of memory by itself, and warns of it.
    if x.is_cuda and (draws or x.dtype == torch.bfloat16) and _is_plain(net):
        return layer_by_layer(net, x, start, None)
    return _run(net, x, start)


def _is_plain(net: nn.LSTM | nn.GRU) -> bool:
    """Return whether `layer_by_layer` computes what a network does."""
    return (
        type(net) in (nn.LSTM, nn.GRU)
        and net.bias
        and net.proj_size == 0
        and not (net._forward_hooks or net._forward_pre_hooks or _has_any_global_hook())
        and "forward" not in vars(net)
        and not torch.compiler.is_compiling()
    )


def _run(net: nn.LSTM | nn.GRU, x: Any, start: Final | None) -> tuple[Any, Final]:
    """Run a network from a state or from zeros; return its outputs and its final state, a tuple.

    Under autocast, torch's LSTM raises an error on processors without AVX-512, as oneDNN has none
    in bfloat16 there. Where bfloat16 is emulated, it therefore runs in the type of its weights.

    x: a tensor, or a packed sequence.
    """
    is_lstm, weight = isinstance(net, nn.LSTM), next(net.parameters())
    is_cast = is_lstm and weight.is_cpu and torch.is_autocast_enabled("cpu") and emulates_bf16()
    if is_cast:
        x = x.to(weight.dtype)
        start = start and tuple(part.to(weight.dtype) for part in start)
    with torch.autocast("cpu", enabled=False) if is_cast else nullcontext():
        outputs, final = net(x, start if is_lstm or start is None else start[0])
    return outputs, final if isinstance(final, tuple) else (final,)


def layer_by_layer(
    net: nn.LSTM | nn.GRU, x: Tensor, start: Final | None, mask: Tensor | None
) -> tuple[Tensor, Final]:
    """Run torch's LSTM or GRU, as `run_padded` and `run_recurrent`, without a packed sequence.

    A packed sequence needs the lengths on the processor, which waits for the GPU, and what waits
    cannot be recorded as a CUDA graph. Here the input of every layer has features that mark
    padding. Their weights close the input gate of an LSTM and open its forget gate, or open the
    update gate of a GRU, so that padding leaves the state as it is: in the net that reads backward,
    which begins there, zero.
    """
    kind, precision = type(net).__name__, x.dtype
    if torch.is_autocast_enabled(x.device.type):
        precision = torch.get_autocast_dtype(x.device.type)
    run = cast("Callable[..., tuple[Tensor, ...]]", torch.lstm if kind == "LSTM" else torch.gru)
    directions = 2 if net.bidirectional else 1
    if start is None:
        zero = x.new_zeros(net.num_layers * directions, len(x), net.hidden_size)
        start = (zero, zero) if kind == "LSTM" else (zero,)
    settings = True, 1, 0.0, torch.is_grad_enabled(), net.bidirectional, True
    finals = []
    with torch.autocast(x.device.type, enabled=False):
        x, marks = x.to(precision), None
        if mask is not None:
            padding = ~mask[..., None]
            x, marks = x.masked_fill(padding, 0), padding.expand(-1, -1, MARKS).to(precision)
        for layer in range(net.num_layers):
            if layer:
                x = F.dropout(x, net.dropout, net.training)
            if marks is not None:
                x = torch.cat([x, marks], -1)
            first = layer * directions
            state = [part[first : first + directions].to(precision) for part in start]
            weights = _layer_weights(net, layer, kind, precision, marked=mask is not None)
            x, *final = run(x, state if kind == "LSTM" else state[0], weights, *settings)
            if mask is not None:
                x = x * mask[..., None]
                final[0] = _last_states(x, mask, net.hidden_size)
            finals.append(final)
    return x, tuple(torch.cat(parts) for parts in zip(*finals, strict=True))


def _last_states(x: Tensor, mask: Tensor, size: int) -> Tensor:
    """Return the state that each direction ends with, (directions, rows, size).

    An LSTM's output gate is not held at padding, and its hidden state therefore not either.
    """
    last = (mask.sum(1) - 1).clamp(min=0)
    forward = x[torch.arange(len(x), device=x.device), last, :size]
    return torch.stack([forward, x[:, 0, size:]] if x.shape[2] > size else [forward])


def _layer_weights(
    net: nn.LSTM | nn.GRU, layer: int, kind: str, precision: torch.dtype, *, marked: bool
) -> list[Tensor]:
    """Return a layer's weights; on a GPU in one block of memory, as cuDNN reads them.

    Args:
        net, layer, kind: an LSTM or a GRU, and which of its layers.
        precision: of the result.
        marked: whether the inputs have features that mark padding.
    """
    made: list[Tensor] = []
    for end in ("", "_reverse") if net.bidirectional else ("",):
        of_input = cast("Tensor", getattr(net, f"weight_ih_l{layer}{end}"))
        if marked:
            marks = of_input.new_zeros(len(of_input), MARKS)
            for gate, held in zip(marks.split(net.hidden_size), HELD[kind], strict=True):
                gate.fill_(held * MARK_WEIGHT)
            of_input = torch.cat([of_input, marks], 1)
        rest = (
            getattr(net, f"{name}_l{layer}{end}") for name in ("weight_hh", "bias_ih", "bias_hh")
        )
        made += [of_input, *rest]
    return one_block(made, precision) if made[0].is_cuda else [w.to(precision) for w in made]


def one_block(weights: Sequence[Tensor], precision: torch.dtype) -> list[Tensor]:
    """Return copies of weights in one block of memory: all matrices, then all biases."""
    order = sorted(range(len(weights)), key=lambda i: weights[i].dim() == 1)
    block = torch.cat([weights[i].flatten() for i in order]).to(precision)
    views = dict(zip(order, block.split([weights[i].numel() for i in order]), strict=True))
    return [views[i].view(weight.shape) for i, weight in enumerate(weights)]


def flatten_recurrent(model: nn.Module) -> None:
    """Put the weights of each of torch's recurrent networks into one block, as cuDNN reads them.

    Those that were loaded one by one are copied at every call otherwise. On a CPU this does
    nothing.
    """
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()


def _exported(
    net: nn.LSTM | nn.GRU, x: Tensor, lengths: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run the network by ONNX's operators, which take the lengths; torch cannot export packing."""
    kind = "LSTM" if isinstance(net, nn.LSTM) else "GRU"
    inputs = x.transpose(0, 1)
    layers = []
    for layer in range(net.num_layers):
        weights = _weights(net, layer, kind)
        states, *final = onnx_layer(kind, net.hidden_size, inputs, *weights, lengths.int())
        inputs = states.transpose(1, 2).flatten(2)  # (m, rows, directions × size)
        layers.append(final)
    finals = tuple(torch.cat(state) for state in zip(*layers, strict=True))
    return inputs.transpose(0, 1), finals


def onnx_layer(
    kind: str, size: int, x: Tensor, w: Tensor, r: Tensor, b: Tensor, lengths: Tensor
) -> tuple[Tensor, ...]:
    """Return what ONNX's operator returns: states, (m, directions, rows, size), and the last.

    x: (m, rows, inputs); w, r, b: as `_weights` returns them; lengths: (rows,) int32.
    """
    directions, (m, rows) = w.shape[0], x.shape[:2]
    attributes: dict[str, Any] = {
        "hidden_size": size,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    final = (directions, rows, size)
    count = 2 if kind == "LSTM" else 1
    return tuple(
        torch.onnx.ops.symbolic_multi_out(
            kind,
            (x, w, r, b, lengths),
            attrs=attributes,
            dtypes=[x.dtype] * (1 + count),
            shapes=[(m, directions, rows, size)] + [final] * count,
            version=18,
        )
    )


def _weights(net: nn.LSTM | nn.GRU, layer: int, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return W, R and [b; b′] in ONNX's layout: a matrix per direction, gates in its order."""
    ends = ("", "_reverse") if net.bidirectional else ("",)

    def reordered(name: str, end: str) -> Tensor:
        parts = getattr(net, f"{name}_l{layer}{end}").chunk(len(GATES[kind]))
        return torch.cat([parts[i] for i in GATES[kind]])

    w = torch.stack([reordered("weight_ih", end) for end in ends])
    r = torch.stack([reordered("weight_hh", end) for end in ends])
    biases = [torch.cat([reordered("bias_ih", end), reordered("bias_hh", end)]) for end in ends]
    return w, r, torch.stack(biases)
