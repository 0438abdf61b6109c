"""More tokens for a vocabulary: what new texts need and it lacks; every token keeps its id."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tokenizers import Tokenizer as _Tokenizer

from zoo.data.foreign_engines import SentencePiece
from zoo.data.foreign_tokenizer import ForeignTokenizer
from zoo.data.moses import Moses
from zoo.data.pieces import has_whole_words, with_pieces
from zoo.data.readers import chunks, without_long_words
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.sources import split_text
from zoo.data.tokenizer import EntryTokenizer, Tokenizer
from zoo.data.words import Words
from zoo.errors import ConfigError
from zoo.nn.contract import UNKNOWN

FEWEST = 2
"""How often a token must occur to be added."""

MOST = 1_000
"""The most tokens that are added to a vocabulary."""

READ_AT_ONCE = 1_000

Texts = Callable[[], Iterable[str]]
"""Reads the texts of one side from the first on."""


def extend(tokenizer: Tokenizer, texts: Texts) -> Tokenizer:
    """Return a tokenizer with the frequent tokens that texts need and it lacks.

    Raises:
        ConfigError: tokens are missing, and its kind cannot have more.
    """
    if isinstance(tokenizer, SourceTokenizer):
        return _extend_members(tokenizer, texts)
    return with_tokens(tokenizer, frequent(missing_tokens(tokenizer, texts())))


def extend_both(sides: Sequence[Tokenizer], texts: Sequence[Texts]) -> list[Tokenizer]:
    """Return the tokenizers of one vocabulary of two sides, with what the texts of both need.

    Raises:
        ConfigError: as `extend`.
    """
    missing = Counter[str]()
    for side, read in zip(sides, texts, strict=True):
        missing += missing_tokens(side, read())
    tokens = frequent(missing)
    extended = {id(side): with_tokens(side, tokens) for side in sides}
    return [extended[id(side)] for side in sides]


def _extend_members(tokenizer: SourceTokenizer, texts: Texts) -> SourceTokenizer:
    """Return the tokenizer of several sources, each extended by its own texts."""
    names = list(tokenizer.members)

    def of_source(index: int) -> Texts:
        return lambda: (split_text(text, names)[index] for text in texts())

    members = enumerate(tokenizer.members.items())
    return SourceTokenizer({name: extend(one, of_source(i)) for i, (name, one) in members})


def missing_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[str]:
    """Return how often texts need each token that a vocabulary lacks.

    Tokens are words where the vocabulary has whole words, and characters where it has their pieces.

    Raises:
        ConfigError: there are some, and the tokenizer's kind cannot have more.
    """
    missing = Counter[str]()
    unknown = _lacking(tokenizer)
    for some in chunks(map(without_long_words, texts), READ_AT_ONCE, len):
        encoded = tokenizer.encode(some)
        missing.update(
            token
            for text, ids in zip(some, encoded, strict=True)
            if UNKNOWN in ids
            for token in unknown(text)
        )
    return missing


def frequent(missing: Counter[str]) -> list[str]:
    """Return the tokens that are worth a row: at most `MOST`, each `FEWEST` times or more."""
    by_count = sorted(missing.items(), key=lambda item: (-item[1], item[0]))
    return [token for token, count in by_count[:MOST] if count >= FEWEST]


def with_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """Return the same tokenizer with further tokens, whose ids follow; it may have some already."""
    known = set(tokenizer.vocabulary())
    tokens = [token for token in tokens if token not in known]
    if not tokens:
        return tokenizer
    if isinstance(tokenizer, ForeignTokenizer):
        entries = replace(tokenizer.entries, tokens=(*tokenizer.entries.tokens, *tokens))
        content = tokenizer.engine.content()
        if isinstance(tokenizer.engine, SentencePiece):
            model = with_pieces(tokenizer.engine.model, tokens)
            content["model"] = base64.b64encode(model).decode("ascii")
        kind: Any = type(tokenizer.engine)
        return ForeignTokenizer(kind.parse(content, entries), entries)
    description = json.loads(tokenizer.to_json())
    model, size = description["model"], tokenizer.size
    if model["type"] == "Unigram":
        lowest = min(score for _, score in model["vocab"][UNKNOWN + 1 :])
        model["vocab"] += [[token, lowest] for token in tokens]
    else:
        model["vocab"] |= {token: size + i for i, token in enumerate(tokens)}
    text = json.dumps(description, ensure_ascii=False)
    return Tokenizer.of_json(text, "an extended tokenizer")


def can_extend(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer's kind can have more tokens."""
    if isinstance(tokenizer, SourceTokenizer):
        return all(map(can_extend, tokenizer.members.values()))
    if isinstance(tokenizer, ForeignTokenizer):
        engine = tokenizer.engine
        of_pieces = isinstance(engine, SentencePiece) and not has_whole_words(engine.model)
        return of_pieces or isinstance(engine, Words | Moses)
    return not isinstance(tokenizer, EntryTokenizer)


def added_tokens(old: Tokenizer, new: Tokenizer) -> list[str]:
    """Return the tokens that an extended tokenizer has and the one before it lacks."""
    if isinstance(old, SourceTokenizer) and isinstance(new, SourceTokenizer):
        sources = zip(old.members.values(), new.members.values(), strict=True)
        return [token for pair in sources for token in added_tokens(*pair)]
    return new.vocabulary()[old.size :]


def _lacking(tokenizer: Tokenizer) -> Callable[[str], Iterator[str]]:
    """Return what gives the missing tokens of a text.

    Calling it raises ConfigError if the tokenizer's kind cannot have more tokens.
    """
    if not can_extend(tokenizer):
        return _refuse
    if isinstance(tokenizer, ForeignTokenizer):
        engine = tokenizer.engine
        assert isinstance(engine, SentencePiece | Words | Moses)
        return lambda text: engine.missing(text[len(tokenizer.leading_tag(text)) :])
    return _of_library(tokenizer)


def _refuse(text: str) -> Iterator[str]:
    raise ConfigError(
        f"this vocabulary cannot be extended, and lacks a token of {text[:60]!r}",
        "its tokenizer is a pipeline of another project or of a plugin",
        "Learn another one with --new-vocabulary",
    )


def _of_library(tokenizer: Tokenizer) -> Callable[[str], Iterator[str]]:
    """Return what gives the missing words or characters of a text, as the library cuts it."""
    text = tokenizer.to_json()
    whole_words = json.loads(text)["model"]["type"] == "WordLevel"
    library, known = _Tokenizer.from_str(text), set(tokenizer.vocabulary())

    def missing(text: str) -> Iterator[str]:
        normal = library.normalizer.normalize_str(text)
        for word, _ in library.pre_tokenizer.pre_tokenize_str(normal):
            yield from (token for token in ([word] if whole_words else word) if token not in known)

    return missing
