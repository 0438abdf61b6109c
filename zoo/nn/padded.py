"""Padded sources: without end tokens, and through recurrent networks that ignore padding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo.nn.contract import END

GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""ONNX's order of gates, as indices in torch's."""


def without_end(source: Tensor, mask: Tensor) -> Tensor:
    """Return the mask without the end token of each source, unless it is the only token.

    source: (rows, m); mask: (rows, m) bool, True at real tokens, which are on the left.
    """
    last = mask.sum(1, keepdim=True) - 1
    position = torch.arange(source.shape[1], device=source.device)
    return mask & ~((position == last) & (source == END) & (last > 0))


def run_padded(net: nn.LSTM | nn.GRU, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run torch's LSTM or GRU over right-padded sequences, from a state of zeros.

    Args:
        net: with `batch_first=True` and biases.
        x: (rows, m, inputs).
        mask: (rows, m) bool, True at real positions.

    Returns:
        The last layer's states, (rows, m, directions × size), zero at padding; and the final
        hidden state and, for an LSTM, the final cell, (layers × directions, rows, size) each.
    """
    lengths = mask.sum(1)
    if torch.compiler.is_exporting():
        return _exported(net, x, lengths)
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    outputs, final = net(packed)
    states = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0]
    return states, final if isinstance(final, tuple) else (final,)


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
