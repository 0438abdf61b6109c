"""The laws of kinds of tokenizer, for the tests of a plugin that brings one.

test_law = zoo.testing.tokenizer_conformance({"name": "syllables", "vowels": "aeiou"})
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import EntryTokenizer, Tokenizer, parse_entry
from zoo.nn.contract import UNKNOWN
from zoo.registry.open_shelf import Named
from zoo.registry.registry import Registry, default_registry
from zoo.testing.law import BrokenLawError, LawOf, law_of
from zoo.testing.outcomes import conformance_test

TEXTS = (
    "A man in an orange hat.", "Two dogs run over the grass, and a boy looks at them.",
    "A girl in a red coat plays the guitar.", "Three people sit at a table.",
    "The man looks at a dog.", "A boy and a girl sit on the grass.", "An old man plays cards.",
    "Ein Mann mit einem Hut.", "Zwei Hunde laufen über das Gras.", "It's half-past nine.",
)  # fmt: skip
"""Texts that a tokenizer learns from."""

OTHERS = (
    "", " ", "a", "</s>", "<unk> <pad>", "über", "Straße", "naïve café", "три слова", "漢字",
    "👩‍🔬 e\u0301", "a\tb\nc", "\x00\x7f", "a  b   c", "x" * 300, "\ufffd▁\u00a0",
)  # fmt: skip
"""Texts that it has not seen."""

KNOWN = 0.5
"""The part of the learned texts that must have no unknown token."""


@dataclass(frozen=True)
class TokenizerCase:
    """A kind of tokenizer, by name and options, and the size of its vocabulary."""

    named: Named
    registry: Registry
    vocab_size: int

    def train(self, fewer: int = 0) -> Tokenizer:
        """Return a tokenizer that has learned from the texts."""
        return Tokenizer.train(TEXTS, self.named, self.vocab_size - fewer, self.registry)


def tokenizer_case(
    named: Named, registry: Registry | None = None, vocab_size: int = 300
) -> TokenizerCase:
    """Return the case of a kind of tokenizer."""
    return TokenizerCase(named, registry or default_registry(), vocab_size)


@law_of(
    causes="special tokens that are missing, or not the first four; a size that counts without "
    "them; two tokens of one text"
)
def vocabulary_has_its_size(case: TokenizerCase) -> None:
    """The vocabulary has at most the size asked for; its first tokens are the special ones."""
    for fewer in (0, 20):
        tokenizer, most = case.train(fewer), case.vocab_size - fewer
        tokens = tokenizer.vocabulary()
        if len(tokens) > most or tokenizer.size != len(tokens):
            raise BrokenLawError(f"it has {len(tokens)} tokens; the threshold is {most}")
        if tokens[: len(SPECIALS)] != SPECIALS:
            raise BrokenLawError(f"its first tokens are {tokens[: len(SPECIALS)]}, not {SPECIALS}")
        if len(set(tokens)) != len(tokens):
            raise BrokenLawError("two tokens have one text")


@law_of(
    causes="an exception for a character that was not seen; ids of special tokens for text like "
    "</s>; begin and end tokens, which the zoo adds",
    requires="vocabulary_has_its_size",
)
def every_text_has_ids(case: TokenizerCase) -> None:
    """Every text, also empty or of unknown characters, has ids of tokens that are no special ones.

    The unknown token is allowed.
    """
    tokenizer = case.train()
    for text, ids in zip((*TEXTS, *OTHERS), tokenizer.encode([*TEXTS, *OTHERS]), strict=True):
        if not all(UNKNOWN <= id < tokenizer.size for id in ids):
            raise BrokenLawError(
                f"{text!r:.40} has the ids {ids}; they must be {UNKNOWN} to {tokenizer.size - 1}"
            )


@law_of(
    causes="something kept from the text before; random numbers; dropout of merges that is always "
    "on",
    requires="every_text_has_ids",
)
def texts_are_encoded_alone(case: TokenizerCase) -> None:
    """A text has the same ids alone, among others, and each time."""
    tokenizer = case.train()
    texts = [*TEXTS, *OTHERS]
    together = tokenizer.encode(texts)
    for text, expected in reversed([*zip(texts, together, strict=True)]):
        (ids,) = tokenizer.encode([text])
        if ids != expected:
            raise BrokenLawError(f"{text!r:.40} has the ids {ids} alone, and {expected} in a batch")


@law_of(
    causes="spaces that are lost or added; a mark of the beginning of words that is not undone; a "
    "vocabulary in which nothing was learned",
    requires="texts_are_encoded_alone",
)
def decoded_texts_have_the_same_ids(case: TokenizerCase) -> None:
    """The text of a learned text's ids has these ids; most have no unknown token."""
    tokenizer = case.train()
    encoded = [ids for ids in tokenizer.encode(TEXTS) if ids and UNKNOWN not in ids]
    if len(encoded) < KNOWN * len(TEXTS):
        raise BrokenLawError(
            f"{len(encoded)} of {len(TEXTS)} learned texts have ids without unknown tokens, the "
            f"threshold is {KNOWN * len(TEXTS):.0f}"
        )
    for ids in encoded:
        text = tokenizer.decode(ids)
        (again,) = tokenizer.encode([text])
        if again != ids:
            raise BrokenLawError(f"the ids {ids} decode to {text!r}, which has the ids {again}")


@law_of(
    causes="an exception for bytes or parts that are no text; an id that decode does not know; "
    "random numbers",
    requires="vocabulary_has_its_size",
)
def any_ids_have_a_text(case: TokenizerCase) -> None:
    """Any ids of the vocabulary, as a network may write them, decode to one text."""
    tokenizer, draw = case.train(), random.Random(7)
    rows = [draw.choices(range(UNKNOWN, tokenizer.size), k=draw.randint(1, 9)) for _ in range(200)]
    for ids in [[], *rows]:
        text = tokenizer.decode(ids)
        if not isinstance(text, str) or tokenizer.decode(ids) != text:
            raise BrokenLawError(f"the ids {ids} decode to {text!r}, and then to something else")


@law_of(
    causes="an option that `content` leaves out, or that `parse` does not read; values that JSON "
    "lacks",
    requires="texts_are_encoded_alone any_ids_have_a_text",
)
def file_gives_the_same_tokenizer(case: TokenizerCase) -> None:
    """A tokenizer that is written to a file and read back encodes and decodes alike."""
    tokenizer = case.train()
    text = tokenizer.to_json()
    if isinstance(tokenizer, EntryTokenizer):
        read: Tokenizer = parse_entry(json.loads(text), "the file", case.registry)
    else:
        read = Tokenizer.of_json(text, "the file")
    texts = [*TEXTS, *OTHERS]
    if read.vocabulary() != tokenizer.vocabulary():
        raise BrokenLawError("the tokenizer that is read has other tokens")
    for given, one, other in zip(texts, read.encode(texts), tokenizer.encode(texts), strict=True):
        if one != other:
            raise BrokenLawError(f"{given!r:.40} has the ids {one}, before it was saved {other}")
        if read.decode(one) != tokenizer.decode(one):
            raise BrokenLawError(f"the ids {one} have another text than before it was saved")


TOKENIZER_LAWS = [
    vocabulary_has_its_size,
    every_text_has_ids,
    texts_are_encoded_alone,
    decoded_texts_have_the_same_ids,
    any_ids_have_a_text,
    file_gives_the_same_tokenizer,
]
"""All laws of tokenizers, the most basic first."""


def tokenizer_conformance(
    named: Named, registry: Registry | None = None, vocab_size: int = 300
) -> Callable[[LawOf[TokenizerCase]], None]:
    """Return a test of every law of tokenizers, for a kind that an installed plugin brings.

    `named` is its name, or a table with its options, as in a recipe; it learns from ten sentences.
    """
    return conformance_test(TOKENIZER_LAWS, lambda: tokenizer_case(named, registry, vocab_size))
