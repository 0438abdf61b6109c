"""What cuts the text of foreign tokenizers: SentencePiece models, and pipelines of `tokenizers`."""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from tokenizers import Tokenizer as Pipeline

from zoo.data.charsmap import fault_of_map
from zoo.data.protobuf import read_fields
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer_check import FAULTS, faults_of_tokenizer
from zoo.data.tokenizer_failures import failing, panics_as_errors
from zoo.errors import CheckpointError
from zoo.nn.contract import UNKNOWN

Side = Literal["source", "target"]
"""Whose language a tag names."""

HIDDEN = re.compile("\0\\d+\0")
"""The texts of special tokens in a pipeline's model, so that no text is one."""

MOST_TAGS = 10_000
"""The most languages of a tokenizer."""


@dataclass(frozen=True)
class Vocabulary:
    """The entries of a vocabulary, and what precedes each text.

    Attributes:
        tokens: every entry's text, by its id; ids 0 to 3 are the special tokens.
        control: ids of entries that stand for no text, such as tags.
        prefix: ids that precede the tokens of each text.
        tags: the tag of each language, by its code: an entry of `control`.
        tags_of: whose language the tags name; a tag in the source may choose the target's.
        tags_last: whether the prefix does not precede a text, but follows it and an end token.
        leading_tag: whether a text may itself begin with `>>`, a code and `<<`, which is one tag.
        clean: whether spaces before punctuation are removed from a decoded text.
    """

    tokens: tuple[str, ...]
    control: frozenset[int] = frozenset()
    prefix: tuple[int, ...] = ()
    tags: Mapping[str, int] = field(default_factory=dict)
    tags_of: Side = "source"
    leading_tag: bool = False
    tags_last: bool = False
    clean: bool = False

    @property
    def text_ids(self) -> dict[str, int]:
        """The id of each token that is text, without special and control tokens."""
        tokens = enumerate(self.tokens)
        return {t: i for i, t in tokens if i > UNKNOWN and i not in self.control}

    def faults(self) -> Iterable[str]:
        """Yield everything that is wrong with it."""
        size = len(self.tokens)
        if list(self.tokens[: len(SPECIALS)]) != SPECIALS:
            yield f"ids 0 to 3 must be {SPECIALS}"
        if len(set(self.tokens)) < size:
            yield "a token occurs twice"
        used = {*self.control, *self.prefix, *self.tags.values()}
        if any(not UNKNOWN < i < size for i in used):
            yield f"control tokens, prefixes and tags must have ids from 4 to {size - 1:,}"
        elif not {*self.tags.values()} <= self.control:
            yield "a tag must be a control token"
        if len(self.tags) > MOST_TAGS:
            yield f"there are more than {MOST_TAGS:,} tags"


class Engine(ABC):
    """What cuts text into tokens and joins them."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, without prefixes."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids that are not control tokens."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what the constructor needs, for JSON."""


class SentencePiece(Engine):
    """A model of the `sentencepiece` library.

    An unknown piece whose text is a token of the vocabulary has the id of that token.

    Args:
        model: the content of the model's file.
        vocabulary: the ids.
        file: the model's file, for errors.

    Raises:
        CheckpointError: it is not such a model, or the library is not installed.
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary, file: str = "") -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise CheckpointError(
                "this tokenizer needs the library sentencepiece",
                "it is not installed",
                "pip install 'seq2seq-zoo[sentencepiece]'",
            ) from None
        if fault := _fault_of_model(model):
            raise unreadable_model(file, fault)
        self.model, self.vocabulary = model, vocabulary
        self.processor = SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(model)
        except (RuntimeError, TypeError) as error:
            raise unreadable_model(file, str(error)) from None
        self.ids = vocabulary.text_ids

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, by the texts of its pieces."""
        pieces = self.processor.encode(list(texts), out_type=str, num_threads=1)
        return [[self.ids.get(piece, UNKNOWN) for piece in text] for text in pieces]

    def missing(self, text: str) -> Iterator[str]:
        """Yield what the vocabulary lacks of a text: pieces of the model, or else characters."""
        for piece in self.processor.encode(text, out_type=str):
            if piece not in self.ids:
                yield from piece if self.processor.IsUnknown(self.processor[piece]) else [piece]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; ⁇ stands for an unknown token.

        The model keeps the ▁ of a piece that it lacks, as it lacks those of OPUS-MT's other side.
        """
        text: str = self.processor.decode([self.vocabulary.tokens[i] for i in ids])
        return text.replace("▁", " ").strip()

    def content(self) -> dict[str, Any]:
        """Return the model in base64."""
        return {"model": base64.b64encode(self.model).decode("ascii")}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """Return the engine whose `content` this is."""
        return cls(base64.b64decode(content["model"], validate=True), vocabulary)


def unreadable_model(file: str, why: str) -> CheckpointError:
    """Return the error for a SentencePiece model, by its file's name if that is known."""
    which = f"the SentencePiece model {file}" if file else "a SentencePiece model"
    return CheckpointError(f"{which} cannot be read", why)


def _fault_of_model(model: bytes) -> str:
    """Return why a SentencePiece model is refused before the library reads it; empty if it is not.

    The file is a message of protocol buffers: field 1 holds each piece, with its text in field 1;
    fields 3 and 5 hold normalizers, with a character map in field 2, of which the library checks
    the size only.
    """
    try:
        for number, part, _ in read_fields(model):
            for field in read_fields(part) if number in (1, 3, 5) and type(part) is bytes else ():
                if number == field.number == 1 and isinstance(field.value, bytes):
                    field.value.decode("utf-8")
                elif number != 1 and field.number == 2 and field.value:
                    fault = "it must be bytes"
                    if isinstance(field.value, bytes):
                        fault = fault_of_map(field.value)
                    if fault:
                        return f"its character map is refused: {fault}"
    except UnicodeDecodeError:
        return "a piece is not UTF-8"
    except ValueError as error:
        return f"it is no message of protocol buffers: {error}"
    return ""


class TokenizersPipeline(Engine):
    """A pipeline of the `tokenizers` library; its post-processing is not used.

    Args:
        pipeline: its JSON.
        ids: the id in the vocabulary for each id of the pipeline.
        vocabulary: the ids.

    Raises:
        CheckpointError: the library cannot read it, or the ids do not fit.
    """

    def __init__(
        self, pipeline: Mapping[str, Any], ids: Sequence[int], vocabulary: Vocabulary
    ) -> None:
        self.pipeline = {
            **pipeline, "post_processor": None, "padding": None, "truncation": None
        }  # fmt: skip
        self.ids, self.vocabulary = list(ids), vocabulary
        faults = faults_of_tokenizer(self.pipeline)
        if faults:
            raise CheckpointError(
                "a pipeline of tokenizers cannot be read", "; ".join(faults[:FAULTS])
            )
        try:
            with panics_as_errors():
                self.engine = Pipeline.from_str(json.dumps(self._read()))
        except Exception as error:  # the library raises bare Exceptions
            raise CheckpointError(
                "a pipeline of tokenizers cannot be read", str(error)[:300]
            ) from None
        self.engine.encode_special_tokens = True  # the text `</s>` is text
        size, entries = len(vocabulary.tokens), self.engine.get_vocab(with_added_tokens=True)
        largest = max(entries.values(), default=-1)
        if len(self.ids) <= largest or any(not 0 <= i < size for i in self.ids):
            raise CheckpointError(
                "a pipeline of tokenizers does not fit its vocabulary",
                f"{len(self.ids):,} ids for entries up to {largest:,}, from 0 to {size - 1:,}",
            )
        self.inverse = {outer: inner for inner, outer in enumerate(self.ids)}

    def _read(self) -> dict[str, Any]:
        """Return the pipeline as the library reads it.

        The texts of special tokens and of tags are text: no piece of the model matches the first,
        and special tokens are not looked for. `<mask>` and what users have added are tokens.
        """
        entries, model = self.vocabulary, self.pipeline.get("model")
        pieces = model.get("vocab") if isinstance(model, dict) else None
        special: set[int] = set()
        if isinstance(model, dict) and isinstance(pieces, list):
            ids = self.ids[: len(pieces)]
            special = {i for i, id in enumerate(ids) if id < len(SPECIALS)}
            pieces = [
                [f"\0{i}\0", *piece[1:]] if i in special else piece
                for i, piece in enumerate(pieces)
            ]
            model = {**model, "vocab": pieces}
        hidden = {*range(len(SPECIALS)), *entries.tags.values(), *entries.prefix}
        added = []
        for token in self.pipeline.get("added_tokens") or []:
            id = token["id"]
            if id in special:
                continue
            known = 0 <= id < len(self.ids) and self.ids[id] not in hidden
            is_token = known and token["content"] not in SPECIALS
            added.append({**token, "special": token["special"] and not is_token})
        return {**self.pipeline, "model": model, "added_tokens": added}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process makes it: the library does not pickle all of an engine."""
        return TokenizersPipeline, (self.pipeline, self.ids, self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids.

        Raises:
            DataError: the library fails, for example because an expression takes too long.
        """
        with failing("the tokenizer cannot read this text"):
            encodings = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[self.ids[i] for i in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text by the pipeline's decoder.

        Raises:
            DataError: the library fails.
        """
        inner = [self.inverse[i] for i in ids if i in self.inverse]
        with failing("the tokenizer cannot write this text"):
            text = self.engine.decode(inner, skip_special_tokens=False)
        return HIDDEN.sub("⁇", text).strip()

    def content(self) -> dict[str, Any]:
        """Return the pipeline and the ids."""
        return {"pipeline": self.pipeline, "ids": self.ids}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> TokenizersPipeline:
        """Return the engine whose `content` this is."""
        return cls(content["pipeline"], content["ids"], vocabulary)
