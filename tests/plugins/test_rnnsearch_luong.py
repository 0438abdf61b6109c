"""RNNSearch with attention after the cell (Luong et al. 2015), compared with torch's own cells.

The reference reads one sentence and one token at a time, and is written from sections 3.1 (the
scores dot, general and concat) and 3.3 (input feeding) of the paper.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from tests.plugins.oracles import random_batch
from zoo import ZooError
from zoo.nn.build import create_model

E, H, S, A, R = 5, 4, 8, 7, 6
"""Embedding, encoder, decoder, attention, readout."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": gelu,
    "silu": silu,
    "identity": lambda x: x,
}


class Reference:
    """The equations, for one sentence."""

    def __init__(self, given: dict[str, Any], w: dict[str, Tensor]) -> None:
        self.given, self.w = given, w
        self.kind = given["cell"]
        self.layers, self.depth = given["layers"], given["decoder_layers"] or given["layers"]

    def cell(self, prefix: str, end: str = "") -> nn.LSTMCell | nn.GRUCell:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = {name: self.w[f"{prefix}.{name}{end}"] for name in names}
        hidden, inputs = weights["weight_hh"].shape[1], weights["weight_ih"].shape[1]
        made = nn.LSTMCell if self.kind == "lstm" else nn.GRUCell
        cell = made(inputs, hidden).double()
        cell.load_state_dict(weights)
        return cell

    def run(self, cell: nn.Module, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        if self.kind == "lstm":
            h, c = cell(x[None], (h[None], c[None]))
            return h[0], c[0]
        return cell(x[None], h[None])[0], c

    def read(self, words: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return h_j, and each layer's final states and cells, both directions joined."""
        finals, cells = [], []
        for layer in range(self.layers):
            both, last, last_cells = [], [], []
            for end in ["", "_reverse"][: self.given["directions"]]:
                cell = self.cell("encoder", f"_l{layer}{end}")
                h = c = torch.zeros(H).double()
                states = []
                for x in words[::-1] if end else words:
                    h, c = self.run(cell, x, h, c)
                    states.append(h)
                both.append(states[::-1] if end else states)
                last.append(h)
                last_cells.append(c)
            words = [torch.cat(parts) for parts in zip(*both, strict=True)]
            finals.append(torch.cat(last))
            cells.append(torch.cat(last_cells))
        return words, finals, cells

    def start(self, finals: list[Tensor], cells: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        w, kind = self.w, self.given["start"]

        def affine(name: str, x: Tensor) -> Tensor:
            return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

        if kind == "backward":
            return [affine("start", finals[0][H:]).tanh()], [torch.zeros(S).double()]
        if kind == "final":
            return list(finals), list(cells)
        if kind in ("projected", "joint"):
            made = []
            for name, parts in (("start", finals), ("start_cell", cells)):
                if f"{name}.weight" not in w:
                    made.append(list(parts))  # a GRU has no cell
                elif kind == "projected":
                    made.append([affine(name, part) for part in parts])
                else:
                    made.append(list(affine(name, torch.cat(parts)).relu().split(S)))
            return made[0], made[1]
        if kind == "top":
            h = ACTIVATIONS[self.given["activation"]](affine("start", finals[-1]))
        else:
            h = finals[-1][:S] if kind == "last" else torch.zeros(S).double()
        return [h] * self.depth, [h] * self.depth

    def score(self, h: Tensor, s: Tensor) -> Tensor:
        w, kind = self.w, self.given["score"]
        if kind == "luong-dot":
            return h @ s
        if kind == "general":
            return s @ w["keys.weight"] @ h
        # v · tanh(W [s; h]) with W in two parts: the paper's concat
        joined = torch.cat([w["query.weight"], w["keys.weight"]], 1)
        bias = w.get("keys.bias", torch.zeros(()).double())
        return w["score"] @ torch.tanh(joined @ torch.cat([s, h]) + bias)

    def logits(self, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
        w, given = self.w, self.given
        embed = w.get("source_embedding.weight", w["target_embedding.weight"])
        states, finals, final_cells = self.read([embed[token] for token in source])
        hidden, cells = self.start(finals, final_cells)
        feed = torch.zeros(R).double()
        logits, weights = [], []
        decoder = [self.cell(f"decoder.{layer}") for layer in range(self.depth)]
        for token in target:
            x = w["target_embedding.weight"][token]
            x = torch.cat([x, feed]) if given["input_feeding"] else x
            for layer, cell in enumerate(decoder):
                hidden[layer], cells[layer] = self.run(cell, x, hidden[layer], cells[layer])
                x = hidden[layer]
            alpha = torch.stack([self.score(h, x) for h in states]).softmax(0)
            context = sum(a * h for a, h in zip(alpha, states, strict=True))
            assert isinstance(context, Tensor)
            feed = w["readout.weight"] @ torch.cat([x, context]) + w["readout.bias"]
            feed = ACTIVATIONS[given["activation"]](feed)
            top = feed
            if given["projection_dim"]:
                top = w["projection.weight"] @ feed + w["projection.bias"]
            output = w.get("output.weight", w["target_embedding.weight"])
            logits.append(output @ top + w["output.bias"])
            weights.append(alpha)
        return torch.stack(logits), torch.stack(weights)


def check(**values: Any) -> None:
    """Compare logits and attention of a padded batch, by `forward` and by `step`."""
    given: dict[str, Any] = {
        "cell": "lstm", "layers": 1, "decoder_layers": None, "directions": 2, "start": "top",
        "score": "general", "attention_dim": None, "readout": "attentional", "readout_dim": R,
        "input_feeding": True, "activation": "tanh", "projection_dim": None, "embedding_dim": E,
        "encoder_dim": H, "hidden_dim": S, "dropout": 0.0, **values}  # fmt: skip
    torch.manual_seed(1)
    size = 15 if given.get("share") in ("all", "embeddings") else 13
    model = create_model("rnnsearch-tiny", source_vocab=15, target_vocab=size, **given)
    model = model.double().eval()
    source, target = random_batch(15, (4, 6, 3), 2), random_batch(13, (5, 5, 5), 3)
    reference = Reference(given, {n: w.detach() for n, w in model.named_parameters()})
    with torch.no_grad():
        logits, attention, _ = model(source, source != 0, target, attention=True)
        memory = model.encode(source, source != 0).memory
        state = model.init_state(memory)
        for position in range(target.shape[1]):
            step = model.step(target[:, position], state, memory)
            state = step.state
            torch.testing.assert_close(step.logits, logits[:, position], rtol=0, atol=1e-10)
        for row in range(len(source)):
            tokens = source[row][source[row] != 0].tolist()
            expected, weights = reference.logits(tokens, target[row].tolist())
            torch.testing.assert_close(logits[row], expected, rtol=0, atol=1e-10)
            actual = attention["cross"][row, 0, 0, :, : len(tokens)]
            torch.testing.assert_close(actual, weights, rtol=0, atol=1e-10)


SCORES: dict[str, dict[str, Any]] = {
    "general": {"score": "general"},
    "dot": {"score": "luong-dot"},
    "concat": {"score": "additive", "attention_dim": A},
    "concat with a bias": {"score": "additive", "attention_dim": A, "attention_bias": True},
}


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("feeding", [True, False])
def test_equations(cell: str, score: str, feeding: bool) -> None:
    check(cell=cell, input_feeding=feeding, **SCORES[score])


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_backward_start_with_attention_after_the_cell(cell: str, feeding: bool) -> None:
    check(start="backward", cell=cell, input_feeding=feeding)


@pytest.mark.parametrize("start", ["final", "projected", "joint", "top", "last", "zero"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_initial_states_of_two_layers(start: str, cell: str) -> None:
    check(start=start, cell=cell, layers=2)


@pytest.mark.parametrize("start", ["top", "zero"])
def test_more_layers_in_the_decoder(start: str) -> None:
    check(start=start, layers=1, decoder_layers=3)


def test_one_direction_and_a_projection_of_the_states() -> None:
    check(start="projected", directions=1, layers=2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    check(activation=activation)


def test_projection_before_the_output() -> None:
    check(projection_dim=9)


@pytest.mark.parametrize(
    "values",
    [
        {"share": "embeddings"},
        {"share": "target", "readout_dim": R, "projection_dim": E},
        {"share": "all", "projection_dim": E},
        {"target_embedding_dim": 9},
        {"target_embedding_dim": R, "share": "target"},
    ],
    ids=str,
)
def test_embeddings(values: dict[str, Any]) -> None:
    check(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"input_feeding": True}, "input_feeding needs readout = 'attentional'"),
        ({"score": "luong-dot", "attention_dim": None, "encoder_dim": 9},
         "score = 'luong-dot' needs encoder_dim"),
        ({"score": "dot", "attention_bias": True}, "attention_bias needs score = 'additive'"),
        ({"start": "joint", "decoder_layers": 2}, "start = 'joint' needs as many decoder_layers"),
        ({"share": "all", "target_embedding_dim": 128, "embedding_dim": 64},
         "one matrix for both embeddings needs one width"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        create_model("rnnsearch-tiny", **values)
