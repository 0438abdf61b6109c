"""The basic sequence-to-sequence network compared with NumPy, written from the equations."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.plugins.oracles import gru, lstm, part, random_batch, weights_of
from zoo.nn.build import create_model


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("start", "context", "reverse"),
    [(True, False, False), (False, True, False), (True, True, False), (True, True, True)],
)
def test_equations(cell: str, start: bool, context: bool, reverse: bool) -> None:
    values: dict[str, Any] = {
        "cell": cell,
        "start": start,
        "context": context,
        "reverse": reverse,
        "dropout": 0.0,
        "layers": 3,
    }
    torch.manual_seed(1)
    model = create_model("seq2seq-tiny", source_vocab=15, target_vocab=13, hidden_dim=7,
                         embedding_dim=5, **values).double().eval()  # fmt: skip
    source, target = random_batch(15, (4, 6), 2), random_batch(13, (5, 5), 3)
    with torch.no_grad():
        logits = model(source, source != 0, target).logits.numpy()
    w = weights_of(model)
    for row in range(2):
        h, c = [np.zeros(7)] * 3, [np.zeros(7)] * 3

        def read(x: np.ndarray, name: str, h: list, c: list) -> np.ndarray:  # type: ignore[type-arg]
            for layer in range(3):
                if cell == "lstm":
                    h[layer], c[layer] = lstm(x, h[layer], c[layer], part(w, name), f"_l{layer}")
                else:
                    h[layer] = gru(x, h[layer], part(w, name), f"_l{layer}")
                x = h[layer]
            return x

        tokens = source[row][source[row] != 0].tolist()
        for token in tokens[::-1] if reverse else tokens:
            read(w["source_embedding.weight"][token], "encoder", h, c)
        top = h[-1]
        if not start:
            h, c = [np.zeros(7)] * 3, [np.zeros(7)] * 3
        for position, token in enumerate(target[row].tolist()):
            x = w["target_embedding.weight"][token]
            y = read(np.concatenate([x, top]) if context else x, "decoder", h, c)
            expected = w["output.weight"] @ y + w["output.bias"]
            np.testing.assert_allclose(logits[row, position], expected, rtol=0, atol=1e-10)
