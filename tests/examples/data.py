"""What the example networks are trained on: 60 pairs that a small network learns in seconds."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import zoo

WORDS = {"red": "rouge", "green": "vert", "blue": "bleu", "cat": "chat", "dog": "chien",
         "cow": "vache", "runs": "court", "eats": "mange", "sleeps": "dort"}  # fmt: skip
COLORS, ANIMALS, VERBS = (list(WORDS)[i : i + 3] for i in (0, 3, 6))
SETTINGS = {"tokenizer": "word", "vocab_size": 60, "learning_rate": 0.01, "warmup": 10,
            "schedule": "cosine", "batch_tokens": 120, "label_smoothing": 0.0}  # fmt: skip


REPEATED = 20
"""How often a file has all pairs: a run saves and validates after each epoch, which takes time."""


def phrases() -> list[tuple[str, str]]:
    """Return English phrases and French ones, whose noun comes before its color."""
    return [
        (f"the {color} {animal} {verb}", f"{WORDS[animal]} {WORDS[color]} {WORDS[verb]}")
        for color, animal, verb in product(COLORS, ANIMALS, VERBS)
    ]


def train(model: str, folder: Path, steps: int = 120, **settings: object) -> Path:
    """Train a model on the phrases, and return its checkpoint."""
    file = folder / "phrases.tsv"
    lines = [f"{source}\t{target}\n" for source, target in phrases()]
    file.write_text("".join(lines * REPEATED))
    merged = {**SETTINGS, **settings}
    return zoo.train(model, str(file), folder / model, settings=merged, steps=steps)


def correct(checkpoint: Path, **options: object) -> float:
    """Return the share of the phrases that a checkpoint translates right."""
    sources, targets = zip(*phrases(), strict=True)
    texts = zoo.load(checkpoint).translate(list(sources), **options)  # type: ignore[call-overload]
    return sum(a == b for a, b in zip(texts, targets, strict=True)) / len(targets)
