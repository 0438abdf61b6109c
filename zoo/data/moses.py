"""Moses' tokens cut by byte-pair codes, as fairseq's models for WMT 2019 read and write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from zoo.data.foreign_engines import Engine, Vocabulary
from zoo.data.words import END, Codes, Merges, pair_of
from zoo.errors import CheckpointError
from zoo.nn.contract import UNKNOWN

PUNCTUATION = str.maketrans(
    {
        "，": ",", "、": ",", "”": '"', "“": '"', "∶": ":", "：": ":", "？": "?", "《": '"',
        "》": '"', "）": ")", "！": "!", "（": "(", "；": ";", "」": '"', "「": '"', "～": "~",
        "’": "'", "…": "...", "━": "-", "〈": "<", "〉": ">", "【": "[", "】": "]", "％": "%",
        **{chr(ord("０") + digit): str(digit) for digit in range(10)},
    }
)  # fmt: skip
"""What Moses writes for full-width and typographic characters."""

FULL_STOP = re.compile(r"[。．]\s*")


class Parts(Codes):
    """Byte-pair codes whose last part of a word ends with `</w>`; the others have no mark."""

    def __init__(self, merges: Merges) -> None:
        super().__init__(merges, old=False, known=None, separator="")

    def _cut(self, word: str) -> list[str]:
        return self._merge([*word[:-1], word[-1] + END])


class Moses(Engine):
    """The normalizer and tokenizer of Moses, by the library sacremoses, then byte-pair codes.

    Args:
        vocabulary: the ids; the last part of a word ends with `</w>`.
        language: a code; Moses' rules for it apply, or those for English.
        merges: byte-pair codes.
        lowercase: whether text is lowercased first.

    Raises:
        CheckpointError: the library is not installed.
    """

    LANGUAGE: ClassVar[re.Pattern[str]] = re.compile(r"[a-z]{2,8}(?:[_-][A-Za-z]{2,8})?")
    """What a code looks like."""

    def __init__(
        self, vocabulary: Vocabulary, language: str, merges: Merges, lowercase: bool = False
    ) -> None:
        try:
            import sacremoses
        except ImportError:
            raise CheckpointError(
                "this tokenizer needs the library sacremoses",
                "it is not installed",
                "pip install 'seq2seq-zoo[moses]'",
            ) from None
        self.vocabulary, self.language = vocabulary, language
        self.merges, self.lowercase = merges, lowercase
        self.normalizer = sacremoses.MosesPunctNormalizer(lang=language)
        self.tokenizer = sacremoses.MosesTokenizer(lang=language)
        self.detokenizer = sacremoses.MosesDetokenizer(lang=language)
        self.codes = Parts(merges)
        self.ids = vocabulary.text_ids

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids."""
        return [[self.ids.get(part, UNKNOWN) for part in self.cut(text)] for text in texts]

    def missing(self, text: str) -> Iterator[str]:
        """Yield the parts of a text that the vocabulary lacks."""
        return (part for part in self.cut(text) if part not in self.ids)

    def cut(self, text: str) -> list[str]:
        """Return the parts of a text."""
        if self.lowercase:
            text = text.lower()
        text = FULL_STOP.sub(". ", text.translate(PUNCTUATION))
        text = self.normalizer.normalize(text)
        text = "".join(c for c in text if not unicodedata.category(c).startswith("C"))
        words = self.tokenizer.tokenize(
            text, aggressive_dash_splits=True, return_str=False, escape=True
        )
        return [part for word in words if word for part in self.codes.cut(word)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text, without the spaces that Moses put in; ⁇ stands for an unknown token."""
        parts = ("⁇" if i == UNKNOWN else self.vocabulary.tokens[i] for i in ids)
        words = "".join(part.replace(END, " ") for part in parts).split()
        text: str = self.detokenizer.detokenize(words)
        return text

    def content(self) -> dict[str, Any]:
        """Return what the constructor needs, for JSON."""
        merges = [" ".join(pair) for pair in self.merges]
        return {"language": self.language, "merges": merges, "lowercase": self.lowercase}

    @classmethod
    def parse(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """Return the engine whose `content` this is.

        Raises:
            CheckpointError: it is invalid.
        """
        language, lines, lowercase = (content[x] for x in ("language", "merges", "lowercase"))
        fine = (
            type(language) is str
            and cls.LANGUAGE.fullmatch(language)
            and all(type(line) is str for line in lines)
            and type(lowercase) is bool
        )
        if not fine:
            raise CheckpointError("a tokenizer of Moses is invalid", "a value is of another type")
        return cls(vocabulary, language, [pair_of(line) for line in lines], lowercase)
