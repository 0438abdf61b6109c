"""The names of metrics as people write them. No torch."""

from zoo.registry.declarations import METRICS

LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
RECORDED = frozenset(
    ("checkpoint", "data", "split", "sentences", "by_sentences", "limit", "lowercase", "metric",
     "with", "against")
)  # fmt: skip
"""Keys of a record of scores that are no metric's."""


def reserved(name: str) -> bool:
    """Return whether a plugin's metric of this name would be taken for something else."""
    plain = "_".join(name.lower().replace("-", " ").split())
    ends = ("_signature", "_mean", "_confidence", "_p_value")
    return plain in {*METRICS, *RECORDED} or plain.startswith("bleu_") or plain.endswith(ends)


def metric_label(name: str) -> str:
    """Return how a metric is shown: `BLEU-2` for `bleu_2`, `word error rate`, `tokenized BLEU`."""
    name = name.replace("bleu_", "BLEU-")
    return " ".join(LABELS.get(word, word) for word in name.split("_"))
