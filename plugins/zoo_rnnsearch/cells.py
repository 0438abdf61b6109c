"""Recurrent cells with torch's weight layout and gate order, for nets that torch cannot run."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn import Linear, linear, recurrent_linear, tanh

Product = Callable[[Tensor], Tensor]
"""A map from (rows, inputs) to (rows, outputs), called once per step of a recurrence."""


class State(NamedTuple):
    """The hidden state of each layer and, for an LSTM, its cell: (rows, width) each.

    With input feeding, `feed` holds the previous readout, (rows, r).
    """

    hidden: tuple[Tensor, ...]
    cell: tuple[Tensor, ...]
    feed: tuple[Tensor, ...] = ()


class Projection(Linear):
    """The output layer, whose matrix may be that of an embedding."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Map (…, inputs) to (…, outputs), with the given matrix if there is one."""
        return linear(x, self.weight if weight is None else weight, self.bias)


def product(layer: nn.Module, rows: int, steps: int) -> Product:
    """Return what a layer computes, prepared for at most this many steps.

    A layer with hooks, or that has been replaced by another one, is called itself.
    """
    hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks
    if type(layer) is not Linear or any(hooks) or "forward" in vars(layer):
        return layer
    return recurrent_linear(layer.weight, layer.bias, rows, steps)


def cell_shapes(gates: int, inputs: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a cell's weights by name, in torch's layout."""
    rows = gates * hidden
    return {
        "weight_ih": (rows, inputs),
        "weight_hh": (rows, hidden),
        "bias_ih": (rows,),
        "bias_hh": (rows,),
    }


class Recurrent(nn.Module):
    """One cell: `lstm`, `gru`, or `gru-before`, whose reset gate comes before the matrix."""

    def __init__(self, kind: str, inputs: int, hidden: int) -> None:
        super().__init__()
        self.kind = kind
        gates = 4 if kind == "lstm" else 3
        self.weight_ih = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(gates * hidden))
        if kind == "gru-before":
            self.bias_hh = None
        else:
            self.bias_hh = nn.Parameter(torch.empty(gates * hidden))
        for weight in self.parameters():
            nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def products(self, rows: int, steps: int) -> tuple[Product, ...]:
        """Return the products with U that `forward` needs, for at most this many steps."""
        if self.kind == "gru-before":
            return _products_before(self.weight_hh, rows, steps)
        return (recurrent_linear(self.weight_hh, self.bias_hh, rows, steps),)

    def forward(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor | None, products: tuple[Product, ...]
    ) -> tuple[Tensor, ...]:
        """Return the new hidden state and, for an LSTM, the new cell.

        `inputs` is W x + b of all gates, (rows, gates × width), computed by the caller.
        """
        if self.kind == "gru-before":
            return (_gru_before(inputs, hidden, *products),)
        recurrent = products[0](hidden)
        if self.kind == "lstm":
            assert cell is not None
            return _lstm(inputs + recurrent, cell)
        return (_gru(inputs, recurrent, hidden),)


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """c′ = σ(f) c + σ(i) tanh(g), h′ = σ(o) tanh(c′) (Hochreiter and Schmidhuber; Gers et al.)."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * tanh(g)
    return o.sigmoid() * tanh(cell), cell


def _gru(inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """h′ = (1 − z) tanh(W_n x + b + r ∘ (U_n h + b′)) + z h, as in torch and cuDNN."""
    r, z, n = inputs.chunk(3, -1)
    from_r, from_z, from_n = recurrent.chunk(3, -1)
    update = (z + from_z).sigmoid()
    new = tanh(n + (r + from_r).sigmoid() * from_n)
    return new + update * (hidden - new)


def _products_before(weight: Tensor, rows: int, steps: int) -> tuple[Product, Product]:
    """Return the product with U of the gates r and z, and that of the candidate state."""
    of_gates, of_candidate = weight.tensor_split((2 * weight.shape[1],))
    return recurrent_linear(of_gates, None, rows, steps), recurrent_linear(
        of_candidate, None, rows, steps
    )


def _gru_before(inputs: Tensor, hidden: Tensor, gates: Product, candidate: Product) -> Tensor:
    """h′ = (1 − z) h + z tanh(W x + U (r ∘ h)): Bahdanau et al. 2015, appendix A.1.1.

    Here z weights the new state; in torch's GRU it weights the old one.
    """
    width = hidden.shape[-1]
    r, z = (inputs[..., : 2 * width] + gates(hidden)).sigmoid().chunk(2, -1)
    new = tanh(inputs[..., 2 * width :] + candidate(r * hidden))
    return hidden + z * (new - hidden)


class Bidirectional(nn.Module):
    """A bidirectional layer of `gru-before`, with the parameter names of torch's recurrent nets."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        for end in ("_l0", "_l0_reverse"):
            for name, weight in Recurrent("gru-before", inputs, hidden).named_parameters():
                self.register_parameter(f"{name}{end}", weight)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Read x, (rows, m, inputs); return the states, (rows, m, 2 × hidden), zero at padding."""
        return torch.cat([self._read(x, mask, "_l0"), self._read(x, mask, "_l0_reverse")], -1)

    def _read(self, x: Tensor, mask: Tensor, end: str) -> Tensor:
        weights = [self.get_parameter(f"{name}{end}") for name in ("weight_ih", "bias_ih")]
        products = _products_before(self.get_parameter(f"weight_hh{end}"), *mask.shape)
        inputs, real = linear(x, *weights).unbind(1), mask[..., None].unbind(1)
        hidden, states = x.new_zeros(len(x), self.hidden), []
        positions = range(len(inputs)) if end == "_l0" else range(len(inputs) - 1, -1, -1)
        for position in positions:
            new = _gru_before(inputs[position], hidden, *products)
            hidden = torch.where(real[position], new, hidden)  # padding does not change the state
            states.append(hidden)
        if end != "_l0":
            states.reverse()
        return torch.stack(states, 1) * mask[..., None]
