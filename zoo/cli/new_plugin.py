"""`zoo new-plugin`: write a package with a small architecture that installs, trains and is tested.

The package's files are in `template/`, with `$name` and similar placeholders for its names.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import shlex
import string
from pathlib import Path

import click

from zoo import __version__
from zoo.cli.options import NewPath
from zoo.cli.output import loaded_registry, say
from zoo.errors import CheckpointError, ConfigError
from zoo.files import whole_folder
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
MAX_LENGTH = 24
"""Characters in the name of a new plugin."""


def files_for(name: str) -> dict[str, str]:
    """Return the text of every file of a new plugin, by path.

    Raises:
        ConfigError: `name` cannot name an architecture and a package.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > MAX_LENGTH:
        raise ConfigError(
            f"{name!r} cannot name a plugin",
            f"a name has at most {MAX_LENGTH} lower-case letters, digits and single hyphens, and "
            "starts with a letter",
            "For instance: zoo new-plugin my-net",
        )
    module = name.replace("-", "_")
    placeholders = {
        "name": name,
        "module": module,
        "package": f"zoo_{module}",
        "distribution": f"zoo-{name}",
        "title": "".join(word.capitalize() for word in name.split("-")),
        "version": __version__,
        "api": str(API),
    }

    def fill(text: str) -> str:
        return string.Template(text).substitute(placeholders)

    network = (TEMPLATE / FILES["src/$package/network.py"]).read_text(encoding="utf-8")
    title = placeholders["title"]
    if keyword.iskeyword(title) or title in re.findall(r"\w+", network):
        raise ConfigError(
            f"{name!r} cannot name a plugin",
            f"its network class would be {title}, a name that the template already uses",
            "Choose another name",
        )
    return {
        fill(path): fill((TEMPLATE / file).read_text(encoding="utf-8")) if file else ""
        for path, file in FILES.items()
    }


@click.command("new-plugin")
@click.argument("name")
@click.option("--out", type=NewPath(), help="Folder to write; default: zoo-NAME.")
def new_plugin(name: str, out: Path | None) -> None:
    """Write the package zoo-NAME, a plugin with the architecture NAME, its models and its tests.

    NAME may be the name of the package, such as zoo-gated, or of the architecture.
    """
    name = name.removeprefix("zoo-")
    files = files_for(name)
    registry = loaded_registry()
    if name in registry.architectures:
        raise ConfigError(
            f"there is already an architecture {name!r}",
            f"{registry.plugin_of(name)} brings it",
            "Choose another name",
        )
    package, distribution = f"zoo_{name.replace('-', '_')}", f"zoo-{name}"
    if importlib.util.find_spec(package) or _is_installed(distribution):
        raise ConfigError(
            f"{name!r} cannot name a plugin",
            f"the package {package} is already installed",
            "Choose another name",
        )
    folder = out or Path(f"zoo-{name}")
    if folder.exists():
        raise CheckpointError(
            f"{folder} already exists", "", "Use --out OTHER, or move the existing folder"
        )
    with whole_folder(folder) as part:
        for path, text in files.items():
            file = part / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for path in files:
        click.echo(folder / path)
    say(f"Next: cd {shlex.quote(str(folder))} && pip install -e '.[test]' && pytest")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
