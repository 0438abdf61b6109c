"""What an importer is, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from zoo.checkpoint.about import About
from zoo.data.tokenizer import Tokenizer
from zoo.interop.source import Source


@dataclass(frozen=True)
class Imported:
    """A foreign checkpoint in the terms of the zoo.

    `config` are the values of the architecture's configuration. `weights` are by the network's
    parameter names, each stored once; a mapping that reads a tensor when it is looked up keeps
    memory small. The tokenizers' ids 0 to 3 are padding, begin, end and unknown, so that an
    importer permutes the rows of the embeddings. One tokenizer object for both sides is one shared
    vocabulary. `about` is what the checkpoint says about itself; its origin becomes `imported`, its
    parent the name of the source, where the importer names none.
    """

    architecture: str
    model_name: str
    config: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    about: About = field(default_factory=About)


class Importer(ABC):
    """Reads the checkpoints of one foreign format.

    An importer runs no code of the files, opens no pickle freely, and refuses what the architecture
    cannot express exactly, with all reasons at once (`Reasons`).
    """

    files: ClassVar[tuple[str, ...]] = ("*",)
    """Glob patterns of the files that it reads: only these are downloaded from a hub."""

    options: ClassVar[Mapping[str, str]] = {}
    """The options of `zoo import --option NAME=VALUE`, each with its help."""

    version: ClassVar[int] = 1
    """Raise it when the result changes, so that cached conversions are made again."""

    @abstractmethod
    def recognizes(self, source: Source) -> bool:
        """Return whether the files are of this format; read little, and no weights."""

    def named(self, source: Source) -> Iterable[str]:
        """Return the names of files that the settings name, besides those of `files`.

        Names that the folder lacks may be among them. These files are downloaded from a hub too,
        and if one of them changes, a cached conversion is made again.
        """
        return ()

    @abstractmethod
    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read the files; `options` has names of `options` only.

        Raises:
            ConversionError: the files cannot be expressed exactly; lists all reasons.
            ZooError: a file is missing or damaged.
        """
