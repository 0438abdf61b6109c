"""A loaded checkpoint: text in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import NamedTuple, overload

import torch

from zoo import checkpoint as folder_format
from zoo import hub
from zoo.checkpoint import Checkpoint
from zoo.data import batch_sources, too_long
from zoo.decoding import Hypothesis, greedy
from zoo.errors import ConfigError, DecodingError
from zoo.registry import Registry, registry
from zoo.text import chunks

WINDOW = 2048
"""Texts read ahead, to put those of like lengths into one batch."""

BATCH_TOKENS = 4096
"""Most source tokens in a batch, padding included."""


class Translation(NamedTuple):
    """A source text, its translation, and the hypothesis behind that (None for an empty text)."""

    source: str
    text: str
    hypothesis: Hypothesis | None

    @property
    def score(self) -> float:
        """The natural log of the translation's probability; 0 for an empty text."""
        return self.hypothesis.score if self.hypothesis else 0.0


class Translator:
    """Translates with a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    # A str is a sequence of str too: mypy sees the overlap, and the first overload is meant to win.
    @overload
    def translate(self, texts: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def translate(self, texts: Sequence[str]) -> list[str]: ...

    def translate(self, texts: str | Sequence[str]) -> str | list[str]:
        """Translate a text, or each of a list.

        Raises:
            DecodingError: a text is longer than the model can read.
        """
        if isinstance(texts, str):
            return next(self.stream([texts])).text
        return [translation.text for translation in self.stream(texts)]

    def stream(self, texts: Iterable[str], *, window: int | None = None) -> Iterator[Translation]:
        """Translate any number of texts, in order, holding at most `window` of them at a time.

        An empty text, or one of white space alone, gives an empty text.
        """
        done = 0
        for chunk in chunks(texts, window or WINDOW):
            yield from self._window(chunk, done)
            done += len(chunk)

    def _window(self, texts: list[str], before: int) -> list[Translation]:
        tokenizer = self.checkpoint.source_tokenizer
        limits = self.checkpoint.config.length_limits
        sources = tokenizer.encode(texts)
        for place, source in enumerate(sources):
            if texts[place].strip() and too_long(len(source) + 1, limits.source):
                raise DecodingError(
                    f"text {before + place + 1} is too long",
                    f"{len(source) + 1:,} tokens with the end token, and "
                    f"{self.checkpoint.model_name} reads {limits.source:,} at most",
                    "Split it into sentences",
                )
        found: list[Hypothesis | None] = [None] * len(texts)
        filled = [i for i, text in enumerate(texts) if text.strip()]
        for batch in self._batches(sorted(filled, key=lambda i: len(sources[i])), sources):
            padded, mask = batch_sources([sources[i] for i in batch])
            device = next(self.checkpoint.model.parameters()).device
            best = greedy(self.checkpoint.model, padded.to(device), mask.to(device), limits.target)
            for i, hypothesis in zip(batch, best, strict=True):
                found[i] = hypothesis
        decode = self.checkpoint.target_tokenizer.decode
        return [
            Translation(text, decode(hypothesis.tokens) if hypothesis else "", hypothesis)
            for text, hypothesis in zip(texts, found, strict=True)
        ]

    @staticmethod
    def _batches(order: list[int], sources: list[list[int]]) -> Iterator[list[int]]:
        batch: list[int] = []
        for i in order:
            if batch and (len(batch) + 1) * (len(sources[i]) + 1) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch


def pick_device(device: str = "auto") -> torch.device:
    """Return the device of that name; `auto` is a GPU where there is one.

    Raises:
        ConfigError: there is no such device here.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"no device {device!r} here", reason, "Say cpu, cuda or auto") from None


def load(
    name_or_path: str | PathLike[str], *, device: str = "auto", names: Registry | None = None
) -> Translator:
    """Load a checkpoint by its released name, by its address, or from a folder.

    What is named or addressed is pulled if it is not here, and checked.

    Raises:
        CheckpointError, PluginError: as `zoo.checkpoint.read` does.
        HubError: as `zoo.hub.locate` does.
    """
    names = names or registry()
    folder = hub.locate(name_or_path, names)
    made = folder_format.read(folder, names, pick_device(device))
    if str(folder) != str(name_or_path):  # a place in a cache tells nobody anything
        made.name = str(name_or_path)
    return Translator(made)
