"""Who brings a name: a plugin, a catalogue file, or the zoo itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DISTRIBUTION = "seq2seq-zoo"
"""The distribution of the zoo itself, which contains the built-in plugins."""


@dataclass(frozen=True)
class Plugin:
    """One entry point of the group `zoo`.

    `module` is the module that the entry point names, `api` the version of the plugin API it was
    written for. If the plugin is broken, `problem` is the reason in one line and `traceback` shows
    where it was raised.
    """

    name: str
    distribution: str
    version: str
    problem: str = ""
    module: str = ""
    api: int = 1
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"

    @property
    def builtin(self) -> bool:
        """Whether the plugin is part of the zoo's own distribution."""
        return self.distribution == DISTRIBUTION


@dataclass(frozen=True)
class Owner:
    """The plugin and the file that bring a name; without both, the zoo itself."""

    plugin: Plugin | None = None
    file: Path | None = None

    @property
    def builtin(self) -> bool:
        """Whether it is the zoo itself, or one of its own plugins."""
        return self.plugin is None or self.plugin.builtin

    def __str__(self) -> str:
        if self.plugin is None:
            return str(self.file or DISTRIBUTION)
        return f"{self.plugin}, {self.file.name}" if self.file else str(self.plugin)


BUILTIN = Owner()
"""The owner of everything that is built in and not brought by a plugin."""
