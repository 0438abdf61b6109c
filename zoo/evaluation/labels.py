"""The names of metrics as people write them. No torch."""

LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
BUILT_IN = {
    "bleu": "n-grams of up to 4 words that references have too (Papineni et al. 2002)",
    "chrf": "n-grams of characters that references have too (Popović 2015)",
    "ter": "edits of words to the nearest reference, per word (Snover et al. 2006)",
    "exact_match": "percentage of translations that are equal to a reference",
    "token_error_rate": "edits of target tokens per token of a reference",
}
"""The metrics that need no plugin, and what they measure."""

RECORDED = frozenset(
    ("checkpoint", "data", "split", "sentences", "by_sentences", "limit", "lowercase", "metric",
     "with", "against")
)  # fmt: skip
"""Keys of a record of scores that are no metric's."""


def reserved(name: str) -> bool:
    """Return whether a plugin's metric of this name would be taken for something else."""
    plain = "_".join(name.lower().replace("-", " ").split())
    ends = ("_signature", "_mean", "_confidence", "_p_value")
    return plain in {*BUILT_IN, *RECORDED} or plain.startswith("bleu_") or plain.endswith(ends)


def metric_label(name: str) -> str:
    """Return how a metric is shown: `BLEU-2` for `bleu_2`, `word error rate`, `tokenized BLEU`."""
    name = name.replace("bleu_", "BLEU-")
    return " ".join(LABELS.get(word, word) for word in name.split("_"))
