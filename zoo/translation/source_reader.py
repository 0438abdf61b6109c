"""Source texts split into parts that fit into one model input, and batches of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.batches import batch_sources, rounded, with_end
from zoo.data.features import Features
from zoo.data.sources import Sources
from zoo.data.tokenizer import Tokenizer
from zoo.errors import DecodingError
from zoo.nn.contract import END, UNKNOWN
from zoo.nn.cuda_graphs import can_record
from zoo.registry.registry import Registry
from zoo.translation.long_sentences import divide, divide_word
from zoo.translation.long_texts import split_long
from zoo.translation.parts import LongTexts, Part, Tokens
from zoo.translation.respelling import Respeller
from zoo.translation.scripts import OTHER_COMMAS
from zoo.translation.sentences import (
    Piece,
    Split,
    language_code,
    make_splitter,
    split_sentences,
    usual_splitter,
)
from zoo.translation.spelling import Spelling
from zoo.translation.tasks import leading_task, without_tags
from zoo.translation.translation import Prefix
from zoo.translation.white_space import SEVERAL_SPACES, SPACES, as_read, lines_of

_LedPiece = tuple[int, str, Piece]
"""The index of a text, what every part of it begins with, and a piece of it."""


class SourceReader:
    """Reads texts with the source tokenizers of one checkpoint, or of all members of an ensemble.

    Args:
        checkpoints: the members; their length limits all hold.
        task: the tag of the task with which all texts begin, if the members have several.
    """

    def __init__(self, checkpoints: Sequence[Checkpoint], task: str = "") -> None:
        self.checkpoints, self.task = checkpoints, task
        self.device = next(checkpoints[0].model.parameters()).device
        self._respeller = Respeller(
            checkpoints[0].source_tokenizer, checkpoints[0].about, self.tokenize
        )

    def splitter(self, named: str, registry: Registry) -> Split | None:
        """Return a splitter; None if none is named and the language is not known.

        There is none either by default for a checkpoint that reads its texts whole.

        Raises:
            UnknownNameError, ConfigError, PluginError: there is none, or it is broken.
        """
        about = self.checkpoints[0].about
        languages, whole = about.source_languages, self.read_whole
        named = named or usual_splitter(
            languages, single_words=about.single_words, reads_whole=whole
        )
        return make_splitter(named, languages[0] if languages else "", registry) if named else None

    def parts(
        self,
        texts: Iterable[tuple[int, str]],
        long_texts: LongTexts,
        max_length: int,
        split: Split | None = None,
        prefix: str = "",
        respell: bool = False,
    ) -> list[Part]:
        """Return the parts of texts, each given with its index.

        Args:
            texts: (index, text) pairs.
            long_texts: whether a longer text or sentence is refused or split.
            max_length: tokens of a part, with its end token; the models' limits hold as well.
            split: splits lines into sentences, of which those that are longer than the sources of
                training are split too; None leaves texts whole.
            prefix: a text that the models read before every part, such as a task's tag.
            respell: reads what is written in capitals, or with marks that a vocabulary hardly
                knows, in the spelling of training, if the checkpoints know their training.

        Raises:
            PluginError: the splitter is broken.
            DecodingError: a text is too long, and `long_texts` is `refuse`.
        """
        several, limit = self.several, self.limit(max_length)
        split = None if several else split
        usual = limit if split is None else min(limit, self._trained_length or limit)
        pieces = self._leads_and_pieces(texts, split, prefix, respell)
        as_plain = respell and not several and self.know_training
        spaces = SEVERAL_SPACES if split is None else SPACES
        is_read = split is not None or as_plain
        read = functools.partial(self._as_read, spaces=spaces) if is_read else None
        tokenized = self.tokenize(_texts(pieces, read))
        spellings: dict[int, Spelling] = {}
        if as_plain:
            spellings = self._respeller.spellings([piece.text for *_, piece in pieces], tokenized)
        if spellings:
            for i, spelling in spellings.items():
                index, lead, piece = pieces[i]
                pieces[i] = index, lead, piece._replace(text=spelling.text)
            again = self.tokenize(_texts([pieces[i] for i in spellings], read))
            for i, tokens in zip(spellings, again, strict=True):
                tokenized[i] = tokens
        parts: list[Part] = []
        for i, ((index, lead, piece), tokens) in enumerate(zip(pieces, tokenized, strict=True)):
            first, length = len(parts), _length(tokens)
            number = parts[-1].part_index + 1 if parts and parts[-1].text_index == index else 0
            if length > limit and (several or long_texts == "refuse"):
                raise self.too_long(index, tokens, limit)
            long = usual < limit and length > usual
            if long and (of_piece := self._divided(piece, usual, limit, lead)):
                last = len(of_piece) - 1
                parts += [
                    Part(index, number + n, *part, ids, n == 0, n == last)
                    for n, (part, ids) in enumerate(of_piece)
                ]
            elif length > limit:
                parts += self._split(index, number, piece, limit, lead)
            else:
                parts.append(Part(index, number, *piece, tokens))
            if lead or i in spellings:
                capitals = i in spellings and spellings[i].capitals
                for n, part in enumerate(parts[first:], first):
                    parts[n] = part._replace(respelled=i in spellings, capitals=capitals, lead=lead)
        return parts

    def read_again(
        self, parts: Sequence[Part], texts: Sequence[str], max_length: int
    ) -> list[Part]:
        """Return parts with other texts, without those of more than `max_length` tokens."""
        read = [part.lead + self._as_read(text) for part, text in zip(parts, texts, strict=True)]
        tokenized, limit = self.tokenize(read), self.limit(max_length)
        return [
            part._replace(text=text, tokens=tokens)
            for part, text, tokens in zip(parts, texts, tokenized, strict=True)
            if _length(tokens) <= limit
        ]

    def limit(self, max_length: int) -> int:
        """Return how many tokens a part may have, with its end token, for all models."""
        limits = [member.config.length_limits.source for member in self.checkpoints]
        return min([max_length, *(limit for limit in limits if limit is not None)])

    def _leads_and_pieces(
        self, texts: Iterable[tuple[int, str]], split: Split | None, prefix: str, by_line: bool
    ) -> list[_LedPiece]:
        """Return each text's pieces with its index, and the prefix or tag that they begin with.

        `by_line`: whether texts that are not split are read by lines, if training had single ones.
        """
        pieces, several = [], self.several
        by_line = by_line and split is None and not several and self._know_one_line
        for index, text in texts:
            typed, tag = ("", "") if prefix or several else self.leading_tag(text)
            own = without_tags(text[len(typed) :], tag, self.leading_tag) if typed else text
            of_text = self._pieces(own, split, prefix, by_line)
            pieces += [(index, prefix or tag, piece) for piece in of_text]
        return pieces

    def leading_tag(self, text: str) -> tuple[str, str]:
        """Return the tag that a text begins with, as typed, and as it is read."""
        if self.task:
            return leading_task(text, [self.task])
        return (self._source_tokenizer.leading_tag(text),) * 2

    @property
    def several(self) -> bool:
        """Whether sources are several texts, or features, which are never read in parts."""
        configs = (member.config for member in self.checkpoints)
        return any(len(config.sources) > 1 or config.features for config in configs)

    @property
    def read_whole(self) -> bool:
        """Whether a checkpoint reads its texts whole and as they are."""
        return any(member.about.reads_whole for member in self.checkpoints)

    @property
    def know_training(self) -> bool:
        """Whether all checkpoints were trained by the zoo, on texts as people type them."""
        known = all(member.about.trained_length for member in self.checkpoints)
        return known and not self.read_whole

    @functools.cached_property
    def _know_one_line(self) -> bool:
        """Whether no source of training had a line break: the vocabulary has none."""
        return self.know_training and all(UNKNOWN in ids for ids in self.tokenize(["\n"])[0])

    @functools.cached_property
    def closes_lines(self) -> bool:
        """Whether a text that ends with a comma, and goes on in the next line, is read without it.

        Networks that are trained on whole sentences write words for it.
        """
        about = self.checkpoints[0].about
        codes = {language_code(each) for each in (about.source_languages, about.target_languages)}
        return self.know_training and codes.isdisjoint(OTHER_COMMAS)

    def _as_read(self, text: str, spaces: re.Pattern[str] = SPACES) -> str:
        """Return a text as it is read: runs of white space are no words."""
        return as_read(text, spaces, self.closes_lines)

    @property
    def _trained_length(self) -> int | None:
        """The length of nearly all training sources, if all translate and one knows it."""
        abouts = [member.about for member in self.checkpoints]
        known = [about.trained_length for about in abouts if about.trained_length]
        are_divided = all(about.target_languages or about.single_words for about in abouts)
        return min(known, default=None) if are_divided else None

    def too_long(self, index: int, tokens: Tokens, limit: int) -> DecodingError:
        """Return the error for a text of more tokens than the limit."""
        config = self.checkpoints[0].config
        bound = f"max_source_length is {limit:,}"
        if limit in [member.config.length_limits.source for member in self.checkpoints]:
            bound = f"{self.checkpoints[0].model_name} reads {limit:,} at most"
        advice = "Split it into sentences, as `zoo translate --long-texts split` does"
        trained = min(member.about.trained_length for member in self.checkpoints)
        if trained > limit and bound.startswith("max"):
            advice = f"Raise it: sources of training have up to {trained:,} tokens"
        if len(config.sources) > 1 or config.features:
            advice = "Shorten it: texts of several sources, and features, are not split"
        return DecodingError(
            f"text {index + 1} is too long",
            f"{_length(tokens):,} tokens with the end token, and {bound}",
            advice,
        )

    def _pieces(self, text: str, split: Split | None, prefix: str, by_line: bool) -> list[Piece]:
        if isinstance(text, Features) and not self.checkpoints[0].config.features:
            raise DecodingError("these are feature vectors", "the model reads text", "Give a text")
        if isinstance(text, Sources) and len(self.checkpoints[0].config.sources) == 1:
            raise DecodingError(
                "these are several sources", f"{self.checkpoints[0].name} reads one", "Give a text"
            )
        if prefix and isinstance(text, Features | Sources):
            raise DecodingError("a source prefix needs texts", "these are other sources")
        text = text if self.several else self._respeller.composed(text)
        if split is not None:
            return split_sentences(text, split)
        return lines_of(text) if by_line and "\n" in text.strip() else [Piece("", text)]

    def tensors(self, parts: Sequence[Part]) -> list[tuple[Tensor, Tensor]]:
        """Return each checkpoint's source tokens and mask, (parts, length), on its device.

        Raises:
            DecodingError: a network was moved to another device.
        """
        pairs = []
        for member, checkpoint in enumerate(self.checkpoints):
            if (now := next(checkpoint.model.parameters()).device) != self.device:
                raise DecodingError(
                    f"the network of {checkpoint.name} was moved from {self.device} to {now}",
                    "",
                    "Move it back, or load it there: zoo.load(NAME, device=DEVICE)",
                )
            pair = batch_sources([part.tokens[member] for part in parts])
            if can_record(self.device):  # what is recorded of a batch is repeated for others
                limit = checkpoint.config.length_limits.source
                pair = rounded(pair[0], limit), rounded(pair[1], limit)
            pairs.append((pair[0].to(self.device), pair[1].to(self.device)))
        return pairs

    def _divided(
        self, piece: Piece, usual: int, limit: int, lead: str
    ) -> list[tuple[Piece, Tokens]]:
        """Return the parts of a sentence that is longer than those of training, with their tokens.

        Args:
            piece: the sentence.
            usual, limit: the usual tokens of a source, and the most.
            lead: what every part begins with, such as a tag.

        Returns:
            The parts; none if it is not long, or if a part is longer than the limit.
        """
        (same,) = self.tokenize([lead])
        fixed = _length(same)
        if 2 * fixed > usual:
            return []  # a prefix that is none of training's
        into_parts = divide_word if self.checkpoints[0].about.single_words else divide
        pieces = into_parts(piece.text, usual - fixed, self._count)
        if len(pieces) < 2:
            return []
        pieces[0] = Piece(piece.space, pieces[0].text)
        tokenized = self.tokenize([lead + self._as_read(part.text) for part in pieces])
        if max(map(_length, tokenized)) > limit:
            return []
        return list(zip(pieces, tokenized, strict=True))

    def _count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of texts, without those that a tokenizer adds to any text.

        The white space at the end of what precedes a text is no token of its own before a word.
        """
        none, *tokenized = self.tokenize(["", *texts])
        return [_length(tokens) - _length(none) for tokens in tokenized]

    def _split(self, index: int, number: int, piece: Piece, limit: int, lead: str) -> list[Part]:
        """Return the parts of a long piece, the first of which has a number within its text.

        Raises:
            DecodingError: what each part begins with leaves no room for a token of the text.
        """
        # The end token, and what every part begins with, such as a tag.
        (same,) = self.tokenize([lead])
        if (fixed := _length(same)) >= limit:
            raise DecodingError(
                "the source prefix leaves no room for text",
                f"it has {fixed:,} tokens with the end token, and a source may have {limit:,}",
                "Shorten it, or raise max_source_length",
            )
        first, *rest = split_long(piece.text, limit - fixed, self._count)
        pieces = [Piece(piece.space, first.text), *rest]
        tokenized = self.tokenize([lead + part.text for part in pieces])
        return [
            Part(index, number + i, *part, tokens)
            for i, (part, tokens) in enumerate(zip(pieces, tokenized, strict=True))
        ]

    @property
    def _source_tokenizer(self) -> Tokenizer:
        return self.checkpoints[0].source_tokenizer

    def prefix(self, text: str) -> Prefix:
        """Return a source prefix with the number of its tokens."""
        if not text:
            return Prefix()
        tokenizer = self._source_tokenizer
        (ids,) = tokenizer.encode([text.rstrip()])
        return Prefix(text, sum(i != END and i not in tokenizer.control for i in ids))

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, for each checkpoint."""
        by_member = (member.source_tokenizer.encode(texts) for member in self.checkpoints)
        return list(zip(*by_member, strict=True))


def _texts(pieces: Iterable[_LedPiece], read: Callable[[str], str] | None) -> list[str]:
    """Return what is read of pieces, as they are or by a function."""
    if read is not None:
        return [lead + read(piece.text) for _, lead, piece in pieces]
    # A sum would be plain text.
    return [lead + piece.text if lead else piece.text for _, lead, piece in pieces]


def _length(tokens: Tokens) -> int:
    """Return the number of tokens, with the end token, for the tokenizer that cuts the most."""
    return max(len(with_end(each)) for each in tokens)
