"""Draw the attention of the README, from a released checkpoint.

python docs/pictures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import zoo

HERE = Path(__file__).parent
NAME, TEXT = "rnnsearch-tiny.multi30k-en-de", "Two young men play football outside."


def words(tokens: list[str]) -> list[tuple[str, list[int]]]:
    """Return the words that tokens spell, each with the indices of its tokens."""
    joined: list[tuple[str, list[int]]] = []
    for index, token in enumerate(tokens):
        if token.startswith("▁") or not joined:
            joined.append((token.lstrip("▁"), [index]))
        else:
            joined[-1] = (joined[-1][0] + token, [*joined[-1][1], index])
    return [(word, indices) for word, indices in joined if word]


def main() -> None:
    """Translate, average the attention over heads, and draw it by words."""
    translator = zoo.load(NAME, device="cpu")
    attention = translator.attention(TEXT)
    weights = attention.weights["cross"].mean((0, 1))
    source = words([*attention.source, "▁(end)"])
    target = words([*attention.target, "▁(end)"])
    cells = [
        [float(weights[rows][:, columns].sum(1).mean()) for _, columns in source]
        for _, rows in target
    ]
    sys.path.insert(0, str(HERE.parent))
    from docs.charts import heatmap

    text = heatmap(
        "Where RNNSearch looks while it translates",
        "For each German word, the English words that it reads. “outside” comes before “football”.",
        [word for word, _ in target],
        [word for word, _ in source],
        cells,
    )
    (HERE / "attention.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
