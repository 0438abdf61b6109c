"""NumPy functions that the oracles share, written from the equations."""

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.nn.contract import Seq2Seq

Array = NDArray[np.float64]


def weights_of(model: Seq2Seq) -> dict[str, Array]:
    """Return the weights as NumPy arrays."""
    return {name: weight.detach().numpy() for name, weight in model.named_parameters()}


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max())
    return np.asarray(powers / powers.sum())


def lstm(x: Array, h: Array, c: Array, w: dict[str, Array], end: str = "") -> tuple[Array, Array]:
    """One step: i, f, g, o of W x + b + U h + b′; c = σ(f) c + σ(i) tanh(g); h = σ(o) tanh(c)."""
    gates = w[f"weight_ih{end}"] @ x + w[f"bias_ih{end}"]
    gates = gates + w[f"weight_hh{end}"] @ h + w[f"bias_hh{end}"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(x: Array, h: Array, w: dict[str, Array], end: str = "") -> Array:
    """One step: r, z = σ(…);  n = tanh(W_n x + b + r (U_n h + b′));  h′ = (1 − z) n + z h."""
    r, z, n = np.split(w[f"weight_ih{end}"] @ x + w[f"bias_ih{end}"], 3)
    rh, zh, nh = np.split(w[f"weight_hh{end}"] @ h + w[f"bias_hh{end}"], 3)
    r, z = sigmoid(r + rh), sigmoid(z + zh)
    return np.asarray((1 - z) * np.tanh(n + r * nh) + z * h)


def part(w: dict[str, Array], prefix: str) -> dict[str, Array]:
    """Return the weights of a module, named relative to it."""
    return {k.removeprefix(f"{prefix}."): v for k, v in w.items() if k.startswith(f"{prefix}.")}


def random_batch(vocab: int, lengths: tuple[int, ...], seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    tokens = torch.randint(4, vocab, (len(lengths), max(lengths)))
    return tokens.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 0)
