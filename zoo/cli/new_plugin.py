"""`zoo new-plugin`: a package with a small architecture that installs, trains and keeps the laws.

The package's files lie in `template/`, with `$name` and its like where names go.
"""

from __future__ import annotations

import keyword
import re
import shutil
import string
from pathlib import Path

import click

from zoo import __version__
from zoo.cli.output import names, say
from zoo.errors import CheckpointError, ConfigError
from zoo.registry.api import API

TEMPLATE = Path(__file__).with_name("template")
FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
    "src/$package/__init__.py": "__init__.py.txt",
    "src/$package/config.py": "config.py.txt",
    "src/$package/network.py": "network.py.txt",
    "src/$package/models.toml": "models.toml.txt",
    "src/$package/py.typed": "",
    "tests/test_$module.py": "test.py.txt",
}
LONGEST = 24


def files_for(name: str) -> dict[str, str]:
    """Return the path and the text of every file of a new plugin.

    Raises:
        ConfigError: `name` cannot name an architecture and a package.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > LONGEST:
        raise ConfigError(
            f"{name!r} cannot name a plugin",
            f"lower-case letters and digits, words joined by hyphens, {LONGEST} at most",
            "For instance: zoo new-plugin my-net",
        )
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "package": f"zoo_{module}",
        "distribution": f"zoo-{name}",
        "title": "".join(word.capitalize() for word in name.split("-")),
        "version": __version__,
        "api": str(API),
    }

    def filled(text: str) -> str:
        return string.Template(text).substitute(words)

    network = (TEMPLATE / FILES["src/$package/network.py"]).read_text(encoding="utf-8")
    if keyword.iskeyword(words["title"]) or words["title"] in re.findall(r"\w+", network):
        raise ConfigError(
            f"{name!r} cannot name a plugin",
            f"its network would be called {words['title']}, which means something else there",
        )
    return {
        filled(path): filled((TEMPLATE / file).read_text(encoding="utf-8")) if file else ""
        for path, file in FILES.items()
    }


@click.command("new-plugin")
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), help="Folder; by default zoo-NAME.")
def new_plugin(name: str, out: Path | None) -> None:
    """Write a package that adds the architecture NAME: it installs, trains and keeps the laws."""
    files = files_for(name)
    found = names()
    if name in found.architectures:
        raise ConfigError(
            f"there is an architecture {name!r}", f"{found.plugin_of(name)} brings it",
            "Take another name",
        )  # fmt: skip
    folder = out or Path(f"zoo-{name}")
    if folder.exists():
        raise CheckpointError(f"{folder} is in the way", "", "Say --out OTHER, or move it")
    try:
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    for path in files:
        click.echo(folder / path)
    say(f"Next: cd {folder} && pip install -e '.[test]' && pytest")
