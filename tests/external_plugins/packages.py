"""Plugins for tests, installed by writing their metadata and module to a folder."""

from pathlib import Path

GOOD = """
from zoo import Architecture, hookimpl

ZOO_API = 2

@hookimpl
def zoo_architectures():
    yield Architecture("{name}", "a test", "none", "nowhere:Config", "nowhere:Network")
"""

COMMAND = """
import click
from zoo import hookimpl

ZOO_API = 2

@click.command()
def {name}():
    "Say where this comes from."
    click.echo("from {package}")

@hookimpl
def zoo_commands(cli):
    cli.add_command({name})
"""


def put(folder: Path, name: str, code: str, *, package: str = "", entry: str = "") -> None:
    """Install the plugin `name` with this code, as the distribution `package`."""
    package = package or f"zoo-{name}"
    module = package.replace("-", "_")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[zoo]\n{name} = {entry or module}\n")
    (folder / f"{module}.py").write_text(code)


BROKEN = {
    "missing": (
        "import this_is_not_installed\nZOO_API = 2",
        "No module named 'this_is_not_installed'",
    ),
    "garbled": ("def zoo_architectures(:", "SyntaxError"),
    "misspelled": (
        "from zoo import hookimpl\nZOO_API = 2\n@hookimpl\ndef zoo_architecture():\n    return []",
        "no such hook: zoo_architecture (did you mean zoo_architectures?)",
    ),
    "leaver": ("import sys\nZOO_API = 2\nsys.exit('no')", "SystemExit: no"),
    "earlier": (
        # As `zoo new-plugin` of version 0.1 wrote it; `Linear` has moved since.
        "from zoo import Linear, hookimpl\nZOO_API = 1",
        "it was written for version 1 of the plugin API or states no ZOO_API: this zoo loads "
        "version 2. Install a newer zoo-earlier; its author changes what docs/api-2.md lists (`zoo "
        "plugins --api-changes` prints it) and writes ZOO_API = 2",
    ),
    "later": (
        "from zoo import NotThereYet\nZOO_API = 99",
        "it was written for version 99 of the plugin API: this zoo loads version 2. "
        "Install a newer seq2seq-zoo",
    ),
}
"""The code of six broken plugins, and the problem reported for each."""
