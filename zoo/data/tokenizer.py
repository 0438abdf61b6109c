"""Text to token ids and back, through the `tokenizers` library.

Every kind keeps spaces as part of the tokens: a word that follows a space begins with ▁. So
decoding restores the text, including spaces before punctuation, with three exceptions: the text is
normalized to Unicode's form NFC, loses a leading space, and has a space for each character ▁.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer as _Tokenizer

from zoo.data.sources import check_several
from zoo.data.text_tokenizer import SPECIALS, TextTokenizer, fault_of_tokens, written_ids
from zoo.data.tokenizer_check import faults_of_library, read_tokenizer
from zoo.data.tokenizer_failures import failing, panics_as_errors
from zoo.errors import CheckpointError, ConfigError, DecodingError, PluginError, ZooError
from zoo.nn.contract import UNKNOWN
from zoo.registry.open_shelf import Named, OpenShelf, name_of
from zoo.registry.owners import DISTRIBUTION
from zoo.registry.registry import Registry, default_registry
from zoo.registry.text_entries import TokenizerKind


class Tokenizer:
    """A vocabulary, and how text is cut into it; ids 0 to 3 are the special tokens."""

    def __init__(self, tokenizer: _Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The text `</s>` is text, not the special token.
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._known: dict[int, str] = {}  # the library makes a new string at every call

    @classmethod
    def train(
        cls, texts: Iterable[str], kind: Named, vocab_size: int, registry: Registry | None = None
    ) -> Tokenizer:
        """Learn a vocabulary of at most `vocab_size` entries, special tokens included.

        The same texts give the same vocabulary for every built-in kind but `unigram`.

        Raises:
            UnknownNameError: there is no such kind.
            ConfigError: no vocabulary of that size can be learned from these texts, or the kind's
                options are not valid.
            PluginError: a plugin's kind is broken.
        """
        shelf = (registry or default_registry()).tokenizers
        options, name = shelf.options(kind), name_of(kind)
        is_builtin = shelf.owner(name).builtin
        try:
            made: object = shelf[name].load()(texts, vocab_size, **options)
        except ZooError:  # also from the iterator of texts
            raise
        except Exception as error:  # the library raises bare Exceptions
            reason = f"{type(error).__name__}: {error}"
            if is_builtin:
                raise ConfigError(
                    f"no {name} vocabulary of {vocab_size:,} entries",
                    f"{error}",
                    "Raise vocab_size",
                ) from None
            raise shelf.broken(name, f"training raised {reason}") from error
        with shelf.blaming(name):
            if isinstance(made, TextTokenizer):
                return EntryTokenizer(name, made, shelf, vocab_size)
            if not isinstance(made, _Tokenizer):
                raise TypeError(f"it made {made!r}, which is no tokenizer")
            # What a checkpoint could not be loaded with is refused before training.
            faults = faults_of_library(made, vocab_size)
            if faults and is_builtin:
                raise ConfigError(
                    f"no {name} vocabulary of {vocab_size:,} entries",
                    "; ".join(faults),
                    "Take another tokenizer or other texts",
                )
            if faults:
                raise ValueError("; ".join(faults))
            return cls(made)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_tokenizer" in state:  # other tokenizers have no library
            self._tokenizer.encode_special_tokens = True  # which does not pickle this

    @property
    def size(self) -> int:
        """The number of entries, special tokens included."""
        return self._tokenizer.get_vocab_size()

    @property
    def portable(self) -> bool:
        """Whether the library `tokenizers` can read it."""
        return True

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
        why = "this checkpoint has one language on each side"
        raise DecodingError(f"no language {code!r} can be chosen", why)

    def leading_tag(self, text: str) -> str:
        """Return the tag of a language with which a text begins, or nothing."""
        return ""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, without begin and end tokens.

        Raises:
            DataError: the library fails, for example because an expression takes too long.
        """
        check_several(texts)
        with failing("the tokenizer cannot read this text"):
            encodings = self._tokenizer.encode_batch_fast(list(texts))
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ⁇ is an unknown token, other special ones vanish."""
        written = written_ids(ids, self.size)
        pieces = ["▁⁇" if i == UNKNOWN else self.token(i) for i in written]
        return "".join(pieces).replace("▁", " ").removeprefix(" ")

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the words that ids make up, each cut by itself, of a tokenizer with `merges`."""
        text = "".join(self.token(i) for i in ids)
        pre_tokenizer = self._tokenizer.pre_tokenizer
        with failing("the tokenizer cannot read this text"):
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
        token = self._known.get(id)
        if token is None:
            token = self._tokenizer.id_to_token(id) if 0 <= id < self.size else None
            if token is None:
                raise ValueError(f"no token has id {id}: there are {self.size}")
            self._known[id] = token
        return token

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return a label for each position of a text, for pictures and alignments: its token."""
        return [self.token(i) for i in ids]

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
            raise CheckpointError(f"{file} is not a tokenizer", str(error)[:300]) from None
        specials = [tokenizer.id_to_token(i) for i in range(len(SPECIALS))]
        if specials != SPECIALS:
            why = f"ids 0 to 3 are {specials}, not {SPECIALS}"
            raise CheckpointError(f"{file} has other special tokens", why)
        return cls(tokenizer)


class EntryTokenizer(Tokenizer):
    """A `zoo.TextTokenizer`, whose results are checked, and whose errors name its plugin.

    Args:
        name: the entry on the shelf.
        tokenizer: what the entry trained, or read.
        shelf: the shelf.
        vocab_size: the most tokens that it may have, if it is new.

    Raises:
        ValueError: its tokens are not valid.
    """

    def __init__(
        self,
        name: str,
        tokenizer: TextTokenizer,
        shelf: OpenShelf[TokenizerKind],
        vocab_size: int | None = None,
    ) -> None:
        self.name, self.tokenizer, self.shelf = name, tokenizer, shelf
        self.tokens = tuple(tokenizer.tokens)
        fault = fault_of_tokens(self.tokens)
        if not fault and vocab_size is not None and len(self.tokens) > vocab_size:
            fault = f"there are {len(self.tokens):,}, and vocab_size is {vocab_size:,}"
        if fault:
            raise ValueError(f"its tokens are not valid: {fault}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process, with the same plugins, makes the tokenizer."""
        return parse_entry, (json.loads(self.to_json()), "a tokenizer of another process")

    @property
    def size(self) -> int:
        """The number of entries, special tokens included."""
        return len(self.tokens)

    @property
    def portable(self) -> bool:
        """Whether the library `tokenizers` can read it."""
        return False

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids, without begin and end tokens."""
        check_several(texts)
        encoded = []
        with self.shelf.blaming(self.name):
            for text in texts:
                ids = self.tokenizer.encode(text)
                if not isinstance(ids, list) or not all(
                    type(i) is int and UNKNOWN <= i < self.size for i in ids
                ):
                    raise ValueError(f"encode returned {reprlib.repr(ids)}, not a list of ids")
                encoded.append(ids)
        return encoded

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; ⁇ stands for an unknown token, other special tokens vanish."""
        runs: list[list[int]] = [[]]
        for id in written_ids(ids, self.size):
            if id == UNKNOWN:
                runs.append([])
            else:
                runs[-1].append(id)
        with self.shelf.blaming(self.name):
            texts = [self.tokenizer.decode(run) if run else "" for run in runs]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"decode returned {reprlib.repr(texts)}, not text")
            return "⁇".join(texts)

    def merges(self) -> list[tuple[str, str]]:
        """Raise: only the kind `bpe` has merges."""
        raise ValueError(f"a {self.name} tokenizer has no merges")

    def token(self, id: int) -> str:
        """Return the token with this id.

        Raises:
            ValueError: there is no such id.
        """
        if not 0 <= id < self.size:
            raise ValueError(f"no token has id {id}: there are {self.size}")
        return self.tokens[id]

    def to_json(self) -> str:
        """Return the tokenizer as JSON, with the package that brings its kind."""
        plugin = self.shelf.owner(self.name).plugin
        with self.shelf.blaming(self.name):
            return json.dumps(
                {
                    "kind": self.name,
                    "package": plugin.distribution if plugin else DISTRIBUTION,
                    "version": plugin.version if plugin else "",
                    "tokens": self.tokens,
                    "content": dict(self.tokenizer.content()),
                },
                ensure_ascii=False,
                allow_nan=False,
            )


def parse_entry(
    content: Mapping[str, Any], where: str, registry: Registry | None = None
) -> EntryTokenizer:
    """Return the tokenizer that JSON of `EntryTokenizer.to_json` describes.

    Its values are checked before the code of a plugin sees them.

    Raises:
        CheckpointError: it describes none.
        PluginError: no plugin that loaded brings its kind; names the package.
    """
    what = f"{where} is not a tokenizer"
    kind, package, version = (content.get(key) for key in ("kind", "package", "version"))
    tokens, values = content.get("tokens"), content.get("content")
    texts = all(type(text) is str and len(text) <= 200 for text in (kind, package, version))
    if not texts or type(tokens) is not list or type(values) is not dict:
        raise CheckpointError(what, "a value is missing or of a wrong type")
    if fault := fault_of_tokens(tokens):
        raise CheckpointError(what, f"its tokens: {fault}")
    shelf, name = (registry or default_registry()).tokenizers, str(kind)
    plugin = shelf.owner(name).plugin if name in shelf else None
    reader = shelf[name].reader() if plugin and plugin.distribution == package else None
    if reader is None:
        raise PluginError(
            f"{where} needs the tokenizer {name!r}",
            f"it was written with {package} {version}, which is not installed or did not load",
            f"Install {package} if you trust it",
        )
    try:
        return EntryTokenizer(name, reader(tuple(tokens), values), shelf)
    except ZooError:
        raise
    except Exception as error:
        reason = f"{name} of {plugin}: {type(error).__name__}: {error}"
        raise CheckpointError(what, reason) from error
