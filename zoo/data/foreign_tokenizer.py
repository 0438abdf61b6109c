"""Tokenizers of other projects, which encode every text exactly as those do.

Either the `sentencepiece` library or a pipeline of the `tokenizers` library cuts the text; a table
gives the ids of this zoo's vocabulary. A tokenizer can put a tag before each text, such as that of
its language.
"""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizers import Tokenizer as Pipeline

from zoo.data.tokenizer import Tokenizer, panics_as_errors
from zoo.data.tokenizer_check import FAULTS, faults_of_tokenizer
from zoo.data.tokenizer_kinds import SPECIALS
from zoo.errors import CheckpointError, DecodingError, near
from zoo.files import parse_json, read_text
from zoo.nn.contract import UNKNOWN

Side = Literal["source", "target"]
"""Whose language a tag names."""

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
        leading_tag: whether a text may itself begin with `>>`, a code and `<<`, which is one tag.
    """

    tokens: tuple[str, ...]
    control: frozenset[int] = frozenset()
    prefix: tuple[int, ...] = ()
    tags: Mapping[str, int] = field(default_factory=dict)
    tags_of: Side = "source"
    leading_tag: bool = False

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
    def words(self, text: str) -> list[str]:
        """Return the parts of a text of tokens that are tokenized independently."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what the constructor needs, for JSON."""


class SentencePiece(Engine):
    """A model of the `sentencepiece` library.

    An unknown piece whose text is a token of the vocabulary has the id of that token.

    Args:
        model: the content of the model's file.
        vocabulary: the ids.

    Raises:
        CheckpointError: it is not such a model, or the library is not installed.
    """

    def __init__(self, model: bytes, vocabulary: Vocabulary) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            raise CheckpointError(
                "this tokenizer needs the library sentencepiece",
                "it is not installed",
                "pip install 'seq2seq-zoo[sentencepiece]'",
            ) from None
        self.model, self.vocabulary = model, vocabulary
        self.processor = SentencePieceProcessor()
        try:
            self.processor.LoadFromSerializedProto(model)
        except (RuntimeError, TypeError) as error:
            raise CheckpointError(
                "a SentencePiece model cannot be read", " ".join(str(error).split())
            ) from None
        tokens = enumerate(vocabulary.tokens)
        self.ids = {t: i for i, t in tokens if i > UNKNOWN and i not in vocabulary.control}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, by the texts of its pieces."""
        pieces = self.processor.encode(list(texts), out_type=str, num_threads=1)
        return [[self.ids.get(piece, UNKNOWN) for piece in text] for text in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; ⁇ stands for an unknown token."""
        text: str = self.processor.decode([self.vocabulary.tokens[i] for i in ids])
        return text.strip()

    def words(self, text: str) -> list[str]:
        """Return the text: a model may look at all of it."""
        return [text]

    def content(self) -> dict[str, Any]:
        """Return the model in base64."""
        return {"model": base64.b64encode(self.model).decode("ascii")}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> SentencePiece:
        """Return the engine whose `content` this is."""
        return cls(base64.b64decode(content["model"], validate=True), vocabulary)


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
            self.engine = Pipeline.from_str(json.dumps(self.pipeline))
        except Exception as error:  # the library raises bare Exceptions
            raise CheckpointError(
                "a pipeline of tokenizers cannot be read", " ".join(str(error).split())[:300]
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

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids."""
        with panics_as_errors():
            encodings = self.engine.encode_batch_fast(list(texts), add_special_tokens=False)
        return [[self.ids[i] for i in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text by the pipeline's decoder."""
        inner = [self.inverse[i] for i in ids if i in self.inverse]
        return self.engine.decode(inner, skip_special_tokens=False).strip()

    def words(self, text: str) -> list[str]:
        """Return the parts by the pipeline's pre-tokenizer."""
        if self.engine.pre_tokenizer is None:
            return [text]
        return [word for word, _ in self.engine.pre_tokenizer.pre_tokenize_str(text)]

    def content(self) -> dict[str, Any]:
        """Return the pipeline and the ids."""
        return {"pipeline": self.pipeline, "ids": self.ids}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> TokenizersPipeline:
        """Return the engine whose `content` this is."""
        return cls(content["pipeline"], content["ids"], vocabulary)


ENGINES: dict[str, type[SentencePiece] | type[TokenizersPipeline]] = {
    "sentencepiece": SentencePiece,
    "tokenizers": TokenizersPipeline,
}


class ForeignTokenizer(Tokenizer):
    """A tokenizer of another project.

    Args:
        engine: what cuts and joins text, made with the same vocabulary.
        vocabulary: the entries.

    Raises:
        CheckpointError: the vocabulary is invalid; all faults at once.
    """

    def __init__(self, engine: Engine, vocabulary: Vocabulary) -> None:
        check(vocabulary)
        self.engine, self.entries = engine, vocabulary
        self._tags = {vocabulary.tokens[i]: i for i in vocabulary.control}

    @property
    def size(self) -> int:
        """The number of entries, special tokens included."""
        return len(self.entries.tokens)

    @property
    def control(self) -> Collection[int]:
        """Ids of entries that stand for no text."""
        return self.entries.control

    @property
    def tags(self) -> Mapping[str, int]:
        """The tag of each language, by its code."""
        return self.entries.tags

    @property
    def tags_of(self) -> Side:
        """Whose language the tags name."""
        return self.entries.tags_of

    @property
    def language(self) -> str | None:
        """The language whose tag precedes each text."""
        codes = (code for code, tag in self.tags.items() if self.entries.prefix[:1] == (tag,))
        return next(codes, None)

    def for_language(self, code: str) -> ForeignTokenizer:
        """Return a tokenizer that puts the tag of another language before each text.

        Raises:
            DecodingError: there is no such language; near ones are suggested.
        """
        if code not in self.tags:
            nearest = near(code, self.tags)
            raise DecodingError(
                f"no {self.tags_of} language {code!r}",
                f"there are {', '.join(list(self.tags)[:10])}"
                + (f" and {len(self.tags) - 10} more" if len(self.tags) > 10 else ""),
                f"Did you mean {' or '.join(nearest)}?" if nearest else "",
            )
        prefix = (self.tags[code], *self.entries.prefix[1 if self.language else 0 :])
        return ForeignTokenizer(self.engine, replace(self.entries, prefix=prefix))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, without begin and end tokens, with the prefix."""
        tagged = [self._leading_tag(text) for text in texts]
        prefix = list(self.entries.prefix)
        encoded = self.engine.encode([text for _, text in tagged])
        return [
            (prefix if tag is None else tag) + ids
            for (tag, _), ids in zip(tagged, encoded, strict=True)
        ]

    def _leading_tag(self, text: str) -> tuple[list[int] | None, str]:
        """Return the tag with which a text begins, which replaces the prefix, and the rest."""
        end = text.find("<<") if text.startswith(">>") else -1
        if not self.entries.leading_tag or end < 0:
            return None, text
        return [self._tags.get(text[: end + 2], UNKNOWN)], text[end + 2 :]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ⁇ stands for an unknown token, control tokens vanish."""
        control = self.entries.control
        return self.engine.decode([i for i in ids if i >= UNKNOWN and i not in control])

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the words that ids make up, as far as the tokenizer separates them."""
        return self.engine.words("".join(self.token(i) for i in ids))

    def merges(self) -> list[tuple[str, str]]:
        """Raise: the merges of a foreign tokenizer are not known by these ids."""
        raise ValueError("a foreign tokenizer has no merges")

    def token(self, id: int) -> str:
        """Return the token with this id; ▁ stands for a space.

        Raises:
            ValueError: there is no such id.
        """
        if not 0 <= id < self.size:
            raise ValueError(f"no token has id {id}: there are {self.size}")
        return self.entries.tokens[id]

    def vocabulary(self) -> list[str]:
        """Return every token, by its id."""
        return list(self.entries.tokens)

    def to_json(self) -> str:
        """Return the tokenizer as JSON."""
        vocabulary = self.entries
        return json.dumps(
            {
                "engine": next(n for n, kind in ENGINES.items() if isinstance(self.engine, kind)),
                "prefix": vocabulary.prefix,
                "tags": vocabulary.tags,
                "tags_of": vocabulary.tags_of,
                "leading_tag": vocabulary.leading_tag,
                "control": sorted(vocabulary.control),
                "tokens": vocabulary.tokens,
                **self.engine.content(),
            },
            ensure_ascii=False,
        )

    @classmethod
    def parse(cls, content: Mapping[str, Any], where: str) -> ForeignTokenizer:
        """Return the tokenizer that JSON describes.

        Raises:
            CheckpointError: it describes none.
        """
        try:
            vocabulary = _parse_vocabulary(content)
            check(vocabulary)
            return cls(ENGINES[content["engine"]].parse(content, vocabulary), vocabulary)
        except CheckpointError as error:
            raise CheckpointError(
                f"{where}: {error.what[:1].lower()}{error.what[1:]}", error.why, error.next
            ) from None
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise CheckpointError(f"{where} is not a tokenizer", repr(error)[:200]) from None


def load_tokenizer(file: Path) -> Tokenizer:
    """Read a tokenizer of a checkpoint, of this zoo or of another project.

    Raises:
        CheckpointError: it is not one.
    """
    text = read_text(file)
    if '"engine"' not in text[:100]:
        return Tokenizer.load(file)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{file} is not a tokenizer", f"{error}"[:200]) from None
    return ForeignTokenizer.parse(content, str(file))


def check(vocabulary: Vocabulary) -> None:
    """Raise CheckpointError with all faults of a vocabulary."""
    faults = list(vocabulary.faults())
    if faults:
        raise CheckpointError("the vocabulary of a tokenizer is invalid", "; ".join(faults))


def _parse_vocabulary(content: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary in a tokenizer's JSON.

    Raises:
        TypeError: a value has a wrong type.
    """
    numbers = [*content["control"], *content["prefix"], *content["tags"].values()]
    if not all(type(number) is int for number in numbers):
        raise TypeError("ids must be integers")
    if not all(type(text) is str for text in (*content["tokens"], *content["tags"])):
        raise TypeError("tokens and codes must be strings")
    if content["tags_of"] not in get_args(Side) or type(content["leading_tag"]) is not bool:
        raise TypeError("tags_of or leading_tag is invalid")
    return Vocabulary(
        tuple(content["tokens"]),
        frozenset(content["control"]),
        tuple(content["prefix"]),
        dict(content["tags"]),
        content["tags_of"],
        content["leading_tag"],
    )
