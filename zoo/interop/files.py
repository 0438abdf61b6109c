"""Files that several exporters write."""

from __future__ import annotations

from pathlib import Path

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.format import SHARED, SOURCE, TARGET

TOKENIZER_FILES = (SHARED, SOURCE, TARGET)
"""The names under which tokenizers are written."""


def write_tokenizers(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a checkpoint's tokenizers under their names in a checkpoint folder.

    They are JSON of the `tokenizers` library: one file if both sides share a vocabulary, else two.
    """
    source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    files = {SHARED: source} if source is target else {SOURCE: source, TARGET: target}
    for name, tokenizer in files.items():
        (folder / name).write_text(tokenizer.to_json(), encoding="utf-8")
