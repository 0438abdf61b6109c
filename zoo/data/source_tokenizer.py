"""The tokenizers of several sources as one: sources follow each other, each with ids of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from zoo.data.readers import without_long_words
from zoo.data.sources import check_several, split_text
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.errors import DataError
from zoo.nn.contract import END, UNKNOWN
from zoo.registry.open_shelf import Named
from zoo.registry.registry import Registry


class SourceTokenizer(Tokenizer):
    """The tokenizers of several sources, as one whose ids are those of all.

    The first source keeps its ids. Those of the next follow, without its special tokens, which all
    sources share, and so on.

    Args:
        members: a tokenizer for each source, by name, that of the main source first.
    """

    def __init__(self, members: Mapping[str, Tokenizer]) -> None:
        self.members = dict(members)
        self.starts, end = [], len(SPECIALS)
        for member in self.members.values():
            self.starts.append(end - len(SPECIALS))  # added to each id of its own
            end += member.size - len(SPECIALS)
        self._size = end

    @classmethod
    def learn(
        cls,
        texts: Callable[[], Iterator[str]],
        names: Sequence[str],
        kind: Named,
        vocab_size: int,
        registry: Registry | None = None,
    ) -> SourceTokenizer:
        """Learn a tokenizer for each source; `texts` gives all texts from the first on.

        Raises:
            DataError: a source is empty in every text.
            ConfigError: as `Tokenizer.train`.
        """
        members = {}
        for index, name in enumerate(names):
            if not any(split_text(text, names)[index] for text in texts()):
                raise DataError(
                    f"no text has the source {name!r}",
                    f"the model reads {', '.join(names)}",
                    f"Name its file in PREFIX:en+{name}-de, or its key in FILE.jsonl:en+{name}-de",
                )
            of_one = (without_long_words(split_text(text, names)[index]) for text in texts())
            members[name] = Tokenizer.train(of_one, kind, vocab_size, registry)
        return cls(members)

    @property
    def size(self) -> int:
        """The number of entries of all sources, special tokens counted once."""
        return self._size

    @property
    def portable(self) -> bool:
        """Whether the library `tokenizers` can read it."""
        return False

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's ids: sources follow each other, the end token between them.

        Raises:
            DataError: a text has another source.
        """
        check_several(texts)
        split = [split_text(text, list(self.members)) for text in texts]
        columns = [
            member.encode([sources[index] for sources in split])
            for index, member in enumerate(self.members.values())
        ]
        encoded: list[list[int]] = []
        for row in zip(*columns, strict=True):
            ids: list[int] = []
            for start, part in zip(self.starts, row, strict=True):
                ids += [i + start if i > UNKNOWN else i for i in part]
                ids.append(END)
            encoded.append(ids[:-1])
        return encoded

    def merges(self) -> list[tuple[str, str]]:
        """Raise ValueError: each source has merges of its own."""
        raise ValueError("several sources have no common merges")

    def token(self, id: int) -> str:
        """Return the token with this id, in the tokenizer of its source.

        Raises:
            ValueError: there is no such id.
        """
        for start, member in zip(
            reversed(self.starts), reversed(self.members.values()), strict=True
        ):
            if id - start > UNKNOWN or start == 0:
                return member.token(id - start)
        raise ValueError(f"no token has id {id}: there are {self.size}")

    def to_json(self) -> str:
        """Return the tokenizers as one JSON object, by name."""
        members = {name: json.loads(member.to_json()) for name, member in self.members.items()}
        return json.dumps({"sources": members}, ensure_ascii=False)
