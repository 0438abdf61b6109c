"""Tokenizers of other projects, which encode every text exactly as those do.

Either the `sentencepiece` library or a pipeline of the `tokenizers` library cuts the text; a table
gives the ids of this zoo's vocabulary. A tokenizer can put a tag before each text, such as that of
its language.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from zoo.data.features import FeatureReader
from zoo.data.foreign_engines import Engine, SentencePiece, Side, TokenizersPipeline, Vocabulary
from zoo.data.moses import Moses
from zoo.data.pieces import PreparedPieces
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.sources import check_several
from zoo.data.text_tokenizer import written_ids
from zoo.data.tokenizer import Tokenizer, parse_entry
from zoo.data.tokenizer_check import check_tokenizer
from zoo.data.words import Words
from zoo.errors import CheckpointError, DecodingError, did_you_mean
from zoo.files import parse_json, read_text
from zoo.nn.contract import END, UNKNOWN
from zoo.registry.registry import Registry

ENGINES: dict[str, type[SentencePiece | TokenizersPipeline | Words | Moses]] = {
    "prepared-sentencepiece": PreparedPieces,  # before the class that it extends
    "sentencepiece": SentencePiece,
    "tokenizers": TokenizersPipeline,
    "words": Words,
    "moses": Moses,
}


CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip
"""What the library transformers replaces in this order (`clean_up_tokenization_spaces`)."""


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
            raise DecodingError(
                f"no {self.tags_of} language {code!r}",
                f"there are {', '.join(list(self.tags)[:10]) or 'no tags of languages'}"
                + (f" and {len(self.tags) - 10} more" if len(self.tags) > 10 else ""),
                did_you_mean(code, self.tags, begin="Did"),
            )
        prefix = (self.tags[code], *self.entries.prefix[1 if self.language else 0 :])
        return ForeignTokenizer(self.engine, replace(self.entries, prefix=prefix))

    def with_clean_texts(self) -> ForeignTokenizer:
        """Return a tokenizer that removes spaces before punctuation from what it decodes."""
        return ForeignTokenizer(self.engine, replace(self.entries, clean=True))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, with the prefix, without the begin token and the end token."""
        check_several(texts)
        tags = [self.leading_tag(text) for text in texts]
        prefix = list(self.entries.prefix)
        rest = (text[len(tag) :] for tag, text in zip(tags, texts, strict=True))
        encoded = self.engine.encode([*rest])
        if self.entries.tags_last:
            return [[*ids, END, *prefix] for ids in encoded]
        return [
            ([self._tags.get(tag, UNKNOWN)] if tag else prefix) + ids
            for tag, ids in zip(tags, encoded, strict=True)
        ]

    def leading_tag(self, text: str) -> str:
        """Return the tag with which a text begins, which replaces the prefix, or nothing."""
        end = text.find("<<") if self.entries.leading_tag and text.startswith(">>") else -1
        return text[: end + 2] if end >= 0 else ""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ⁇ stands for an unknown token, control tokens vanish."""
        control = self.entries.control
        written = written_ids(ids, self.size)
        text = self.engine.decode([i for i in written if i not in control])
        for old, new in CLEANED if self.entries.clean else ():
            text = text.replace(old, new)
        return text

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
                "tags_last": vocabulary.tags_last,
                "clean": vocabulary.clean,
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


def load_tokenizer(file: Path, registry: Registry | None = None) -> Tokenizer:
    """Read a tokenizer of a checkpoint, of this zoo, of a plugin or of another project.

    Raises:
        CheckpointError: it is not one.
        PluginError: no plugin that loaded brings its kind; names the package.
    """
    text = read_text(file)
    head = text[:100]
    of_plugin = head.lstrip("{ \t\r\n").startswith('"kind"')
    of_zoo = head.startswith(('{"sources"', '{"features"'))
    if not of_plugin and '"engine"' not in head and not of_zoo:
        return Tokenizer.load(file)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{file} is not a tokenizer", f"{error}"[:200]) from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{file} is not a tokenizer", "it is not a JSON object")
    if of_plugin:
        return parse_entry(content, str(file), registry)
    if "features" in content:
        return FeatureReader.of_content(content, str(file))
    if "sources" in content:
        return _parse_sources(content, str(file), registry)
    return ForeignTokenizer.parse(content, str(file))


def _parse_sources(
    content: Mapping[str, Any], file: str, registry: Registry | None
) -> SourceTokenizer:
    """Return the tokenizers of several sources; each is checked as one of its own would be.

    Raises:
        CheckpointError: it has other keys, or one of them is not a tokenizer.
        PluginError: no plugin that loaded brings the kind of one.
    """
    members = content["sources"]
    if set(content) != {"sources"} or not isinstance(members, dict) or not members:
        raise CheckpointError(f"{file} is not a tokenizer", "`sources` must be an object by name")
    tokenizers: dict[str, Tokenizer] = {}
    for name, member in members.items():
        where = f"{file}, source {name[:50]!r},"
        if isinstance(member, dict) and "kind" in member:
            tokenizers[name] = parse_entry(member, where, registry)
            continue
        text = json.dumps(member, ensure_ascii=False)
        check_tokenizer(text, where)
        tokenizers[name] = Tokenizer.of_json(text, where)
    return SourceTokenizer(tokenizers)


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
    if not isinstance(content["tags"], dict):
        raise TypeError("tags must be an object")
    numbers = [*content["control"], *content["prefix"], *content["tags"].values()]
    if not all(type(number) is int for number in numbers):
        raise TypeError("ids must be integers")
    if not all(type(text) is str for text in (*content["tokens"], *content["tags"])):
        raise TypeError("tokens and codes must be strings")
    flags = content["leading_tag"], content.get("tags_last", False), content.get("clean", False)
    if content["tags_of"] not in get_args(Side) or not all(type(flag) is bool for flag in flags):
        raise TypeError("tags_of, leading_tag, tags_last or clean is invalid")
    return Vocabulary(
        tuple(content["tokens"]),
        frozenset(content["control"]),
        tuple(content["prefix"]),
        dict(content["tags"]),
        content["tags_of"],
        *flags,
    )
