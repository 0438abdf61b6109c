"""Text to token ids and back, through the `tokenizers` library.

Every kind keeps spaces as part of the tokens: a word that follows a space begins with ▁. So
decoding restores the text, including spaces before punctuation, with three exceptions: the text is
normalized to Unicode's form NFC, loses a leading space, and has a space for each character ▁.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer as _Tokenizer

from zoo.data.tokenizer_check import read_tokenizer
from zoo.data.tokenizer_kinds import SPECIALS, TOKENIZER_KINDS
from zoo.errors import CheckpointError, ConfigError, DataError, DecodingError, ZooError
from zoo.nn.contract import UNKNOWN


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of the library, which is no subclass of Exception, into a RuntimeError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"the library has failed: {error}") from None


class Tokenizer:
    """A vocabulary, and how text is cut into it; ids 0 to 3 are the special tokens."""

    def __init__(self, tokenizer: _Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The text `</s>` is text, not the special token.
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @classmethod
    def train(cls, texts: Iterable[str], kind: str, vocab_size: int) -> Tokenizer:
        """Learn a vocabulary of at most `vocab_size` entries, special tokens included.

        The same texts give the same vocabulary for every `kind` but `unigram`.

        Raises:
            UnknownNameError: `kind` is not on the shelf `TOKENIZER_KINDS`.
            ConfigError: no vocabulary of that size can be learned from these texts.
        """
        train = TOKENIZER_KINDS.find(kind)
        try:
            return cls(train(texts, vocab_size))
        except ZooError:  # from the iterator of texts
            raise
        except Exception as error:  # the library raises bare Exceptions
            raise ConfigError(
                f"no {kind} vocabulary of {vocab_size:,} entries", f"{error}", "Raise vocab_size"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, with the vocabulary as JSON."""
        return {**self.__dict__, "_tokenizer": self._tokenizer.to_str()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _tokenizer=_Tokenizer.from_str(state["_tokenizer"]))
        self._tokenizer.encode_special_tokens = True

    @property
    def size(self) -> int:
        """The number of entries, special tokens included."""
        return self._tokenizer.get_vocab_size()

    @property
    def control(self) -> Collection[int]:
        """Ids of entries that stand for no text, beside the special tokens: none."""
        return ()

    @property
    def tags(self) -> Mapping[str, int]:
        """The tag of each language, by its code: none, unless it is a foreign tokenizer."""
        return {}

    @property
    def tags_of(self) -> Literal["source", "target"]:
        """Whose language the tags name."""
        return "source"

    @property
    def language(self) -> str | None:
        """The language whose tag precedes each text, if any."""
        return None

    def for_language(self, code: str) -> Tokenizer:
        """Return a tokenizer that puts the tag of another language before each text.

        Raises:
            DecodingError: there are no tags.
        """
        raise DecodingError(
            f"no language {code!r} can be chosen", "this checkpoint has one language on each side"
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, without begin and end tokens.

        Raises:
            DataError: the library fails, for example because an expression takes too long.
        """
        try:
            with panics_as_errors():
                encodings = self._tokenizer.encode_batch_fast(list(texts))
        except Exception as error:  # the library raises bare Exceptions
            reason = " ".join(str(error).split())[:300]
            raise DataError("the tokenizer cannot read this text", reason) from None
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ⁇ stands for an unknown token, other special tokens vanish."""
        pieces = ["▁⁇" if i == UNKNOWN else self.token(i) for i in ids if i >= UNKNOWN]
        return "".join(pieces).replace("▁", " ").removeprefix(" ")

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the words that ids make up; each is tokenized independently of the others."""
        text = "".join(self.token(i) for i in ids)
        pre_tokenizer = self._tokenizer.pre_tokenizer
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]

    def merges(self) -> list[tuple[str, str]]:
        """Return the merges of byte-pair encoding, in the order in which they apply.

        Raises:
            ValueError: the tokenizer is not of the kind `bpe`.
        """
        model = json.loads(self._tokenizer.to_str())["model"]
        if model["type"] != "BPE":
            raise ValueError(f"a {model['type']} tokenizer has no merges")
        return [(one, other) for one, other in model["merges"]]

    def token(self, id: int) -> str:
        """Return the token with this id; ▁ stands for a space.

        Raises:
            ValueError: there is no such id.
        """
        token = self._tokenizer.id_to_token(id)
        if token is None:
            raise ValueError(f"no token has id {id}: there are {self.size}")
        return token

    def vocabulary(self) -> list[str]:
        """Return every token, by its id."""
        return [self.token(i) for i in range(self.size)]

    def to_json(self) -> str:
        """Return the tokenizer as JSON of the `tokenizers` library."""
        return self._tokenizer.to_str(pretty=True)

    @classmethod
    def load(cls, file: Path) -> Tokenizer:
        """Read a tokenizer's JSON.

        Raises:
            CheckpointError: it is not one, or its first four ids are not the special tokens.
        """
        return cls.of_json(read_tokenizer(file), str(file))

    @classmethod
    def of_json(cls, text: str, file: str) -> Tokenizer:
        """Return the tokenizer of JSON that was checked; `file` is where it is from.

        Raises:
            CheckpointError: it is not one, or its first four ids are not the special tokens.
        """
        try:
            with panics_as_errors():
                tokenizer = _Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exceptions
            raise CheckpointError(
                f"{file} is not a tokenizer", " ".join(str(error).split())[:300]
            ) from None
        specials = [tokenizer.id_to_token(i) for i in range(len(SPECIALS))]
        if specials != SPECIALS:
            raise CheckpointError(
                f"{file} has other special tokens", f"ids 0 to 3 are {specials}, not {SPECIALS}"
            )
        return cls(tokenizer)
