"""Source texts split into parts that fit into one model input, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources
from zoo.errors import DecodingError
from zoo.translation.sentences import split

BATCH_TOKENS = 4096
"""Most source tokens in a batch, padding included, each counted once per hypothesis of the beam."""

MAX_SOURCE_LENGTH = 1024
"""Default maximum length of a part in tokens, with its end token."""

LongTexts = Literal["refuse", "split"]
"""Whether a text that is too long raises an error or is split into parts."""

Tokens = tuple[list[int], ...]
"""A text's token ids by each checkpoint's source tokenizer, without the end token."""


class Part(NamedTuple):
    """A text, or a part of a long one, that is encoded as one source.

    text_index: the index of its text among all; part_index: its index within the text.
    """

    text_index: int
    part_index: int
    text: str
    tokens: Tokens

    @property
    def random_index(self) -> int:
        """A number that no other part has, from which its random numbers are drawn."""
        return self.text_index + (self.part_index << 40)


class SourceReader:
    """Reads texts with the source tokenizers of one checkpoint, or of all members of an ensemble.

    Args:
        checkpoints: the members; their length limits all hold.
    """

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        self.checkpoints = checkpoints
        self.device = next(checkpoints[0].model.parameters()).device

    def parts(
        self, texts: Iterable[tuple[int, str]], long_texts: LongTexts, max_length: int
    ) -> list[Part]:
        """Return the parts of texts, each given with its index.

        Args:
            texts: (index, text) pairs.
            long_texts: whether a longer text is refused or split.
            max_length: tokens of a part, with its end token; the models' limits hold as well.

        Raises:
            DecodingError: a text is too long, and `long_texts` is `refuse`.
        """
        given = list(texts)
        tokenized = self._tokenize([text for _, text in given])
        limits = [member.config.length_limits.source for member in self.checkpoints]
        limit = min([max_length, *(limit for limit in limits if limit is not None)])
        parts: list[Part] = []
        for (index, text), tokens in zip(given, tokenized, strict=True):
            if _length(tokens) <= limit:
                parts.append(Part(index, 0, text, tokens))
            elif long_texts == "split":
                parts += self._split(index, text, limit)
            else:
                raise DecodingError(
                    f"text {index + 1} is too long",
                    f"{_length(tokens):,} tokens with the end token, and "
                    f"{self.checkpoints[0].model_name} reads {limit:,} at most",
                    "Split it into sentences, or use `--long-texts split`",
                )
        return parts

    def tensors(self, parts: Sequence[Part]) -> list[tuple[Tensor, Tensor]]:
        """Return each checkpoint's source tokens and mask, (parts, length), on its device."""
        members = range(len(self.checkpoints))
        batches = [batch_sources([part.tokens[member] for part in parts]) for member in members]
        return [(source.to(self.device), mask.to(self.device)) for source, mask in batches]

    def _split(self, index: int, text: str, limit: int) -> list[Part]:
        def count_tokens(text: str) -> int:
            return _length(self._tokenize([text])[0]) - 1

        texts = split(text, limit - 1, count_tokens)
        tokenized = self._tokenize(texts)
        return [
            Part(index, i, text, tokens)
            for i, (text, tokens) in enumerate(zip(texts, tokenized, strict=True))
        ]

    def _tokenize(self, texts: list[str]) -> list[Tokens]:
        by_member = (member.source_tokenizer.encode(texts) for member in self.checkpoints)
        return list(zip(*by_member, strict=True))


def _length(tokens: Tokens) -> int:
    """Return the number of tokens, with the end token, for the tokenizer that cuts the most."""
    return max(map(len, tokens)) + 1


def batches(parts: Iterable[Part], width: int) -> Iterator[list[Part]]:
    """Yield parts in batches of at most `BATCH_TOKENS` for `width` hypotheses a part."""
    batch: list[Part] = []
    for part in parts:
        if batch and (len(batch) + 1) * (len(part.tokens[0]) + 1) * width > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch
