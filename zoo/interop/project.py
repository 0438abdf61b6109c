"""The importer that the checkpoints of one project share: parse, configuration, weights.

A project has several networks, and each of them an importer. They differ only in what they take
from the parsed checkpoint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from torch import Tensor

from zoo.checkpoint.about import LANGUAGE, About
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConversionError
from zoo.interop.importer import Imported, Importer
from zoo.interop.lazy_weights import Weights
from zoo.interop.pickle_scan import strings
from zoo.interop.reasons import Reasons
from zoo.interop.source import Source
from zoo.interop.state_dict import StateDict
from zoo.registry.config import Config

Weight = Tensor | Callable[[], Tensor]
"""A tensor, or a function that makes it when it is written, so that few copies are in memory."""


class Parsed(Protocol):
    """What every parsed checkpoint has: tensors, the faults so far, and both tokenizers."""

    @property
    def state(self) -> StateDict:
        """The tensors."""
        ...

    @property
    def reasons(self) -> Reasons:
        """Every fault so far."""
        ...

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of both sides."""
        ...


P = TypeVar("P", bound=Parsed)


class ProjectImporter(Importer, Generic[P]):
    """Reads one network of a project."""

    project: ClassVar[str]
    """The project's name, which becomes the model's."""

    architecture: ClassVar[str]
    """The architecture that the network becomes."""

    config_type: ClassVar[type[Config]]
    """The configuration of that architecture."""

    tensors: ClassVar[tuple[str, ...]]
    """Names of tensors of which a checkpoint of this network has at least one."""

    own_penalty: ClassVar[bool] = False
    """Whether a recommended length penalty has the formula of the zoo, not that of transformers."""

    @abstractmethod
    def parse(self, source: Source, options: Mapping[str, str]) -> P:
        """Read the settings, the tensors and the vocabularies.

        Raises:
            ConversionError: a file is missing, or is not what it should be.
        """

    @abstractmethod
    def config(self, checkpoint: P) -> dict[str, Any]:
        """Return the values of the architecture's configuration; faults go to `reasons`."""

    @abstractmethod
    def weights(self, checkpoint: P, config: Mapping[str, Any]) -> dict[str, Weight]:
        """Return the weights by the network's parameter names; faults go to `reasons`."""

    def languages(self, checkpoint: P) -> tuple[str, str]:
        """Return the codes of the languages of source and target; empty if they are not known."""
        return "", ""

    def decoding(self, checkpoint: P) -> dict[str, Any]:
        """Return the recommended search options."""
        return {}

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read the checkpoint."""
        checkpoint = self.parse(source, options)
        config = self.config(checkpoint)
        checkpoint.reasons.raise_if_any()
        self.config_type.parse(config, f"configuration of {source}")  # its sizes are within limits
        weights = self.weights(checkpoint, config)
        checkpoint.state.finish()
        checkpoint.reasons.raise_if_any()
        made = Weights({name: _maker(weight) for name, weight in weights.items()})
        known = [(code,) if LANGUAGE.fullmatch(code) else () for code in self.languages(checkpoint)]
        decoding = self.decoding(checkpoint)
        about = About(
            known[0], known[1], decoding=decoding, origin="imported", own_penalty=self.own_penalty
        )
        tokenizers = checkpoint.tokenizers
        return Imported(self.architecture, self.project, config, made, *tokenizers, about)


def _maker(weight: Weight) -> Callable[[], Tensor]:
    return weight if callable(weight) else lambda: weight


def named_in_pickle(source: Source, name: str | None) -> frozenset[str]:
    """Return the names of files in the settings of a checkpoint file, and its other strings."""
    texts = strings(source.path(name)) if name is not None and source.has(name) else frozenset()
    return frozenset(text.rpartition("/")[2] for text in texts)


def checkpoint_file(
    source: Source, options: Mapping[str, str], ending: str, preferred: tuple[str, ...]
) -> str | None:
    """Return the name of the checkpoint file in a folder, or None if it is not clear.

    It is the file that was named, the option's, the first of the `preferred` ones, or the only one
    with this ending.
    """
    if source.file is not None:
        return source.file.name
    if "checkpoint" in options:
        return options["checkpoint"]
    matches = [name for name in source.names if name.endswith(ending)]
    only = matches[0] if len(matches) == 1 else None
    return next((name for name in preferred if name in matches), only)


def chosen_file(
    source: Source, options: Mapping[str, str], ending: str, preferred: tuple[str, ...]
) -> str:
    """Return the name of the checkpoint file in a folder, as `checkpoint_file` does.

    Raises:
        ConversionError: it is not clear.
    """
    name = checkpoint_file(source, options, ending, preferred)
    if name is not None:
        return name
    matches = [each for each in source.names if each.endswith(ending)]
    if not matches:
        raise ConversionError(f"{source} cannot be imported", f"it has no file *{ending}")
    raise several(source, matches)


def several(source: Source, names: Sequence[str]) -> ConversionError:
    """Return the error of a folder with several checkpoints of which none was chosen."""
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    next = f"Choose one, such as --option checkpoint={names[0]}"
    return ConversionError(f"{source} cannot be imported", f"it has checkpoints {shown}", next)
