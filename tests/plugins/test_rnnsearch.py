"""RNNSearch against NumPy, written from the equations alone."""

import numpy as np
import pytest
import torch

from tests.plugins.oracles import Array, gru, lstm, part, random_batch, softmax, weights_of
from zoo.model import create_model

E, H, S, A = 5, 4, 6, 7
"""Embedding, encoder, decoder, attention."""


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("readout", [None, 8])
def test_equations(cell: str, readout: int | None) -> None:
    torch.manual_seed(1)
    model = create_model("rnnsearch-tiny", source_vocab=15, target_vocab=13, cell=cell, dropout=0.0,
                         embedding_dim=E, encoder_dim=H, hidden_dim=S, attention_dim=A,
                         readout_dim=readout).double().eval()  # fmt: skip
    source, target = random_batch(15, (4, 6, 3), 2), random_batch(13, (5, 5, 5), 3)
    with torch.no_grad():
        logits, kinds = model(source, source != 0, target, attention=True)
    w = weights_of(model)

    def read(words: list[Array], end: str) -> list[Array]:
        h, c, states = np.zeros(H), np.zeros(H), []
        for x in words:
            if cell == "lstm":
                h, c = lstm(x, h, c, part(w, "encoder"), end)
            else:
                h = gru(x, h, part(w, "encoder"), end)
            states.append(h)
        return states

    for row in range(3):
        tokens = source[row][source[row] != 0].tolist()
        words = [w["source_embedding.weight"][token] for token in tokens]
        forward, backward = read(words, "_l0"), read(words[::-1], "_l0_reverse")[::-1]
        states = [np.concatenate(both) for both in zip(forward, backward, strict=True)]
        s, c = np.tanh(w["start.weight"] @ backward[0] + w["start.bias"]), np.zeros(S)
        for place, token in enumerate(target[row].tolist()):
            y = w["target_embedding.weight"][token]
            query = w["query.weight"] @ s
            scores = [w["score"] @ np.tanh(w["keys.weight"] @ h + query) for h in states]
            weights = softmax(np.array(scores))
            context = np.sum([a * h for a, h in zip(weights, states, strict=True)], axis=0)
            x = np.concatenate([y, context])
            if cell == "lstm":
                s, c = lstm(x, s, c, part(w, "decoder"))
            else:
                s = gru(x, s, part(w, "decoder"))
            top = s
            if readout:
                joined = np.concatenate([s, y, context])
                top = np.tanh(w["readout.weight"] @ joined + w["readout.bias"])
            wanted = w["output.weight"] @ top + w["output.bias"]
            np.testing.assert_allclose(logits[row, place], wanted, rtol=0, atol=1e-10)
            looked = kinds["cross"][row, 0, 0, place, : len(tokens)]
            np.testing.assert_allclose(looked, weights, rtol=0, atol=1e-10)
