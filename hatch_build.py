"""What goes into each wheel: the checkpoints whose terms permit it, and a catalogue of them.

`registry.toml` lists all checkpoints. Those that a table `[packages.NAME]` of it claims by name or
pattern are left out of the zoo's wheel and become the content of the wheel `NAME`.
"""

from __future__ import annotations

import tempfile
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import tomlkit
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOP = Path(__file__).parent
CATALOGUE = TOP / "registry.toml"


def checkpoints_of(package: str = "") -> list[str]:
    """Return the checkpoints of a package; without a name, those of the zoo's own."""
    content = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    claims = {
        name: [
            n for n in content["checkpoints"] if any(fnmatchcase(n, p) for p in e["checkpoints"])
        ]
        for name, e in content["packages"].items()
    }
    if package:
        return claims[package]
    claimed = {name for names in claims.values() for name in names}
    return [name for name in content["checkpoints"] if name not in claimed]


def catalogue_of(package: str = "") -> str:
    """Return the catalogue for a package's wheel; without a name, the zoo's own."""
    document = tomlkit.parse(CATALOGUE.read_text(encoding="utf-8"))
    kept = checkpoints_of(package)
    for name in list(document["checkpoints"]):
        if name not in kept:
            del document["checkpoints"][name]
    if package:
        for section in set(document) - {"format", "checkpoints"}:
            del document[section]
    return tomlkit.dumps(document)


class Checkpoints(BuildHookInterface):  # type: ignore[type-arg]  # as hatchling's documentation has it
    """Adds a catalogue and the checkpoints in it to a wheel, in the folder `into`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Choose the files; an editable install reads those of the repository."""
        if version == "editable":
            return
        into, package = Path(self.config.get("into", "")), self.config.get("package", "")
        self.folder = tempfile.TemporaryDirectory()
        catalogue = Path(self.folder.name) / "registry.toml"
        catalogue.write_text(catalogue_of(package), encoding="utf-8")
        files = build_data["force_include"]
        files[str(catalogue)] = str(into / "registry.toml")
        for name in checkpoints_of(package):
            place = Path("cards") / "checkpoints" / name
            files[str(TOP / place)] = str(into / place)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the catalogue's temporary folder."""
        if version != "editable":
            self.folder.cleanup()
