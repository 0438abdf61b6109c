"""The spellings in which checkpoints read texts."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from zoo.checkpoint.about import About
from zoo.data.tokenizer import Tokenizer
from zoo.nn.contract import UNKNOWN
from zoo.translation.parts import Tokens
from zoo.translation.scripts import ACCENTED
from zoo.translation.sentences import language_code
from zoo.translation.spelling import (
    OPEN,
    Cost,
    Spelling,
    accented_words,
    may_be_respelled,
    spelled,
    stays,
)


class Respeller:
    """Reads texts in the spelling of training.

    Args:
        tokenizer: of the source, of the first checkpoint of an ensemble.
        about: what that checkpoint says about itself.
        tokenize: returns the tokens of texts by the tokenizers of all checkpoints.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        about: About,
        tokenize: Callable[[Sequence[str]], list[Tokens]],
    ) -> None:
        self._tokenizer, self._about = tokenizer, about
        self._tokenize = tokenize
        self._language = language_code(self._about.source_languages)

    def composed(self, text: str) -> str:
        """Return a text with letters in one character, é and not e and ´, if tokens have them so.

        Names, dates and words of training are known in this form.
        """
        if unicodedata.is_normalized("NFC", text):
            return text
        new = unicodedata.normalize("NFC", text)
        same = self._tokenize([new]) == self._tokenize([text])
        return new if same else text

    def spellings(self, texts: Sequence[str], tokenized: Sequence[Tokens]) -> dict[int, Spelling]:
        """Return the spellings of the texts that are not read as they are, by their indices."""
        translates = bool(self._about.target_languages)
        may_change = [
            i
            for i, (text, tokens) in enumerate(zip(texts, tokenized, strict=True))
            if may_be_respelled(text, self._language)
            or any(UNKNOWN in ids for ids in tokens)
            or (self._about.lower_case and text != text.lower())
            if not (translates and stays(text))
        ]
        if not may_change:
            return {}
        accented = self._accented if self._language in ACCENTED else {}
        closed = [OPEN.sub("", texts[i]) for i in may_change]
        lower_case = self._about.lower_case
        read = spelled(closed, self._costs, self._language, accented, lower_case)
        return {
            i: new._replace(text=new.text + texts[i][len(old) :])
            for i, old, new in zip(may_change, closed, read, strict=True)
            if new.text != old
        }

    @functools.cached_property
    def _accented(self) -> Mapping[str, str]:
        return accented_words(self._tokenizer)

    def _costs(self, texts: Sequence[str]) -> list[Cost]:
        """Return the unknown tokens and all tokens of texts, of all checkpoints together."""
        return [
            (sum(ids.count(UNKNOWN) for ids in tokens), sum(map(len, tokens)))
            for tokens in self._tokenize(texts)
        ]
