"""What an architecture declares of itself. Neither pydantic nor torch is imported here."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from zoo.found import imported

if TYPE_CHECKING:
    from zoo.config import Config
    from zoo.model import Seq2Seq


@dataclass(frozen=True)
class Architecture:
    """A family of networks.

    `config` and `network` say where the two classes are found, as `"package.module:Class"`; each
    is imported on first use, so that a list of architectures costs nothing. `equations` is a
    Markdown file for the models' cards, as `"package:file"`.
    """

    name: str
    summary: str
    paper: str
    config: str
    network: str
    equations: str = ""

    def config_type(self) -> type[Config]:
        """Import and return the config class.

        Raises:
            PluginError: it cannot be imported.
        """
        return cast("type[Config]", imported(self.config, f"architecture {self.name!r}"))

    def network_type(self) -> type[Seq2Seq]:
        """Import and return the network class; this brings torch.

        Raises:
            PluginError: it cannot be imported.
        """
        return cast("type[Seq2Seq]", imported(self.network, f"architecture {self.name!r}"))

    def equations_text(self) -> str:
        """Return the Markdown of the equations, empty if there is none."""
        package, _, file = self.equations.partition(":")
        if not file:
            return ""
        return (importlib.resources.files(package) / file).read_text(encoding="utf-8").strip()
