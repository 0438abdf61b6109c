"""The names of metrics as people write them. No torch."""

LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def metric_label(name: str) -> str:
    """Return how a metric is shown: `BLEU-2` for `bleu_2`, `word error rate`, `tokenized BLEU`."""
    name = name.replace("bleu_", "BLEU-")
    return " ".join(LABELS.get(word, word) for word in name.split("_"))
