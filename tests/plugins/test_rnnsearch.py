"""RNNSearch compared with NumPy, written from the equations."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.plugins.oracles import (
    Array,
    gru,
    lstm,
    part,
    random_batch,
    sigmoid,
    softmax,
    weights_of,
)
from zoo.nn.build import create_model

E, H, S, A, R = 5, 4, 6, 7, 8
"""Embedding, encoder, decoder, attention, readout."""


def gru_before(x: Array, h: Array, w: dict[str, Array], end: str = "") -> Array:
    """Appendix A.1.1: s̃ = tanh(W x + U [r ∘ s]), s′ = (1 − z) ∘ s + z ∘ s̃."""
    wr, wz, wn = np.split(w[f"weight_ih{end}"], 3)
    ur, uz, un = np.split(w[f"weight_hh{end}"], 3)
    br, bz, bn = np.split(w[f"bias_ih{end}"], 3)
    r = sigmoid(wr @ x + br + ur @ h)
    z = sigmoid(wz @ x + bz + uz @ h)
    new = np.tanh(wn @ x + bn + un @ (r * h))
    return np.asarray((1 - z) * h + z * new)


def advance(
    kind: str, x: Array, h: Array, c: Array, w: dict[str, Array], end: str = ""
) -> tuple[Array, Array]:
    if kind == "lstm":
        return lstm(x, h, c, w, end)
    return (gru if kind == "gru" else gru_before)(x, h, w, end), c


def score(kind: str, w: dict[str, Array], h: Array, s: Array) -> float:
    """The three scores of a source state h for a target state s."""
    if kind == "sigmoid":  # σ(wᵀ [s; h] + b), with w stored in two parts
        both = np.concatenate([w["query.weight"][0], w["keys.weight"][0]])
        return float(sigmoid(both @ np.concatenate([s, h]) + w["keys.bias"][0]))
    key, query = w["keys.weight"] @ h, w["query.weight"] @ s
    if kind == "dot":
        return float(key @ query / np.sqrt(A))
    return float(w["score"] @ np.tanh(key + query))


def readout(kind: str, w: dict[str, Array], s: Array, before: Array, y: Array, c: Array) -> Array:
    if kind == "tanh":
        return np.tanh(w["readout.weight"] @ np.concatenate([s, y, c]) + w["readout.bias"])
    if kind == "maxout":
        t = w["readout.weight"] @ np.concatenate([before, y, c]) + w["readout.bias"]
        return np.array([max(t[2 * j], t[2 * j + 1]) for j in range(R)])
    return s


def check(values: dict[str, Any], source: torch.Tensor, target: torch.Tensor) -> None:
    """Compare logits and attention with loops over NumPy vectors."""
    torch.manual_seed(1)
    defaults = {"cell": "lstm", "score": "additive", "embedding_dim": E,
                "encoder_dim": H, "hidden_dim": S, "attention_dim": A,
                "readout": "state", "readout_dim": None, "dropout": 0.0}  # fmt: skip
    given = {**defaults, **values}
    size = 15 if given.get("share") == "all" else 13
    model = create_model("rnnsearch-tiny", source_vocab=15, target_vocab=size, **given)
    model = model.double().eval()
    with torch.no_grad():
        logits, attention, _ = model(source, source != 0, target, attention=True)
    w, kind, layers = weights_of(model), given["cell"], given.get("layers", 1)

    def read(words: list[Array], end: str) -> tuple[list[Array], Array, Array]:
        h, c, states = np.zeros(given["encoder_dim"]), np.zeros(given["encoder_dim"]), []
        for x in words:
            h, c = advance(kind, x, h, c, part(w, "encoder"), end)
            states.append(h)
        return states, h, c

    for row in range(len(source)):
        tokens = source[row][source[row] != 0].tolist()
        embedding = w.get("source_embedding.weight", w["target_embedding.weight"])
        words = [embedding[token] for token in tokens]
        if given.get("start") != "final":
            forward, backward = read(words, "_l0")[0], read(words[::-1], "_l0_reverse")[0][::-1]
            states = [np.concatenate(both) for both in zip(forward, backward, strict=True)]
            s = [np.tanh(w["start.weight"] @ backward[0] + w["start.bias"])]
            c = [np.zeros(S)]
        else:
            s, c, states = [], [], words
            for layer in range(layers):
                states, hidden, cell = read(states, f"_l{layer}")
                s.append(hidden)
                c.append(cell)
        for position, token in enumerate(target[row].tolist()):
            y, before = w["target_embedding.weight"][token], s[-1]
            weights = softmax(np.array([score(given["score"], w, h, before) for h in states]))
            context = np.sum([a * h for a, h in zip(weights, states, strict=True)], axis=0)
            x = np.concatenate([y, context])
            for layer in range(layers):
                s[layer], c[layer] = advance(
                    kind, x, s[layer], c[layer], part(w, f"decoder.{layer}")
                )
                x = s[layer]
            top = readout(given["readout"], w, s[-1], before, y, context)
            output = w.get("output.weight", w["target_embedding.weight"])
            expected = output @ top + w["output.bias"]
            np.testing.assert_allclose(logits[row, position], expected, rtol=0, atol=1e-10)
            actual = attention["cross"][row, 0, 0, position, : len(tokens)]
            np.testing.assert_allclose(actual, weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", ["lstm", "gru", "gru-before"])
@pytest.mark.parametrize("kind", ["additive", "dot", "sigmoid"])
@pytest.mark.parametrize("out", ["state", "tanh", "maxout"])
def test_equations(cell: str, kind: str, out: str) -> None:
    values: dict[str, Any] = {"cell": cell, "score": kind, "readout": out}
    values["attention_dim"] = None if kind == "sigmoid" else A
    values["readout_dim"] = None if out == "state" else R
    check(values, random_batch(15, (4, 6, 3), 2), random_batch(13, (5, 5, 5), 3))


@pytest.mark.parametrize("share", ["target", "all"])
def test_shared_embeddings(share: str) -> None:
    values = {"readout": "tanh", "readout_dim": E, "share": share}
    check(values, random_batch(15, (4, 6, 3), 2), random_batch(13, (5, 5, 5), 3))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_deep_decoder_starts_from_the_encoders_final_states(cell: str) -> None:
    values = {"cell": cell, "score": "additive", "layers": 2,
              "start": "final", "encoder_dim": S}  # fmt: skip
    check(values, random_batch(15, (4, 6, 3), 2), random_batch(13, (5, 5, 5), 3))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_cells_equal_torchs(kind: str) -> None:
    from zoo_rnnsearch.cells import Recurrent

    torch.manual_seed(0)
    actual = Recurrent(kind, 5, 7).double()
    reference = (torch.nn.LSTMCell if kind == "lstm" else torch.nn.GRUCell)(5, 7).double()
    reference.load_state_dict(actual.state_dict())
    x, h, c = torch.randn(3, 5).double(), torch.randn(3, 7).double(), torch.randn(3, 7).double()
    inputs = torch.nn.functional.linear(x, actual.weight_ih, actual.bias_ih)
    result = actual(inputs, h, c, actual.products(3, 1))
    expected = reference(x, (h, c)) if kind == "lstm" else (reference(x, h),)
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_a_score_between_0_and_1_gives_nearly_uniform_attention() -> None:
    """The softmax of values in (0, 1) has no weight above e times another (the lesson's card)."""
    torch.manual_seed(1)
    model = create_model("rnnsearch-lesson", source_vocab=50, target_vocab=50, embedding_dim=8,
                         encoder_dim=8, hidden_dim=8)  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(30)
        source = torch.randint(4, 50, (16, 20))
        attention = model(source, source != 0, source[:, :6], attention=True).attention
    weights = attention["cross"]
    ratio = float((weights.amax(-1) / weights.amin(-1)).max())
    assert 2 < ratio <= np.e + 1e-5
    assert float(weights.max()) <= np.e / (np.e + 19) + 1e-6


@pytest.mark.parametrize("share", ["none", "target"])
@pytest.mark.parametrize("name", ["query", "readout", "output"])
def test_hooks_and_other_layers_apply(name: str, share: str) -> None:
    """A hook on a layer, or another layer in its place, changes what the network computes."""
    options: Any = {"share": share, "dropout": 0.0}
    options |= {"embedding_dim": 8, "readout_dim": 8}
    model = create_model("rnnsearch-tiny", source_vocab=9, target_vocab=9, **options).eval()
    source, target = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 6]])

    @torch.no_grad()
    def results() -> torch.Tensor:
        memory = model.encode(source, source > 0).memory
        step = model.step(target[:, 0], model.init_state(memory), memory, attention=True)
        whole = model(source, source > 0, target, attention=True)
        made = [(made.logits, made.attention["cross"]) for made in (step, whole)]
        return torch.cat([part.flatten() for pair in made for part in pair])

    plain, layer = results(), model.get_submodule(name)
    hook = layer.register_forward_hook(lambda module, inputs, made: made * 99)
    hooked = results()
    hook.remove()
    assert not torch.allclose(plain, hooked, atol=1e-5)
    assert torch.equal(results(), plain)
    if name == "output" and share == "target":
        return

    class Stronger(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 99 * torch.Tensor(layer(x))

    setattr(model, name, Stronger())
    assert torch.allclose(results(), hooked, atol=1e-5)
