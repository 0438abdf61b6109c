"""A stranger's plugin from its package to a checkpoint loaded by name, and gone again.

The tests go this way in an environment that borrows the test environment's packages;
`make verify-install` goes it in one where everything is installed afresh.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "docs" / "examples" / "zoo-statespace"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
NUMBERS = ("twenty-one", "four hundred and five")
RELEASED = "statespace-tiny.numbers-en-fr"


@dataclass
class Environment:
    """A virtual environment, and what was run in it."""

    folder: Path
    options: Sequence[str]
    told: list[str] = field(default_factory=list)

    @classmethod
    def borrowed(cls, folder: Path) -> Environment:
        """Make one that sees the packages of this process's environment, its own before them."""
        venv.create(folder, symlinks=True)
        made = cls(folder, ("--no-index", "--no-deps", "--no-build-isolation"))
        ours = sysconfig.get_path("purelib")
        borrow = made._site() / "borrowed.pth"
        borrow.write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
        return made

    @classmethod
    def clean(cls, folder: Path, options: Sequence[str]) -> Environment:
        """Make one with nothing in it."""
        venv.create(folder, symlinks=True)
        return cls(folder, options)

    def _site(self) -> Path:
        where = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", where))

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def pip(self, *arguments: object) -> None:
        """Run pip on this environment."""
        command = [*PIP, "--python", self.python, *arguments]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)

    def install(self, *packages: Path) -> None:
        """Install wheels or source folders."""
        self.pip("install", *self.options, *packages)

    def run(self, *command: object, code: int = 0) -> str:
        """Run a command of this environment, in its own folder; return its standard output."""
        words = [str(word) for word in command]
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [str(self.folder / "bin" / words[0]), *words[1:]],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, f"{words} gave {done.returncode}\n{done.stderr}"
        self.told.append(f"$ {' '.join(words)}\n{(done.stdout + done.stderr * bool(code)).strip()}")
        return done.stdout if code == 0 else done.stderr


def build_wheel(folder: Path) -> Path:
    """Build the zoo's own wheel into `folder`."""
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, TOP]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def journey(there: Environment, wheel: Path, train: Sequence[str] = ()) -> dict[str, float]:
    """Go the whole way; return what `zoo eval` gave. `train` holds options for training."""
    there.install(wheel)
    assert "statespace" not in there.run("zoo", "list", "architectures")
    source = shutil.copytree(EXAMPLE, there.folder / "zoo-statespace")
    there.install(source)

    # It is listed, with what it adds, and Python sees what the command line does.
    (row,) = json.loads(there.run("zoo", "plugins", "statespace", "--json"))["plugins"]
    assert (row["package"], row["status"], row["api"]) == ("zoo-statespace", "loaded", 1)
    assert row["adds"]["architectures"] == ["statespace"]
    assert row["adds"]["commands"] == ["half-lives"]
    listed = json.loads(there.run("zoo", "plugins", "--json"))["plugins"]
    seen = there.run("python", "-c", "import zoo; print(*zoo.list_plugins())").split()
    assert seen == sorted(plugin["name"] for plugin in listed)
    assert len(seen) == 6

    # It trains, scores and translates.
    given = ("--data", "numbers-en-fr", "--out", "trained")
    there.run("zoo", "train", "statespace-tiny", *given, *train)
    score = (
        "zoo",
        "eval",
        "trained",
        "--data",
        "numbers-en-fr",
        "--limit",
        200,
        "--beam",
        5,
        "--json",
    )
    scores: dict[str, float] = json.loads(there.run(*score))
    translated = there.run("zoo", "translate", "trained", "--beam", 5, *NUMBERS).splitlines()
    assert len(translated) == len(NUMBERS)
    assert len(there.run("zoo", "half-lives", "trained").splitlines()) == 6
    card = there.run("zoo", "card", "trained")
    assert "statespace" in card

    # Released with its package, it is loaded by name in a process of its own.
    package = source / "src" / "zoo_statespace"
    shutil.copytree(there.folder / "trained", package / "cards" / "checkpoints" / RELEASED)
    with (package / "models.toml").open("a", encoding="utf-8") as catalogue:
        catalogue.write(f'\n[checkpoints."{RELEASED}"]\nmodel = "statespace-tiny"\n'
                        'dataset = "numbers-en-fr"\nsummary = "numbers in words"\n')  # fmt: skip
    there.pip("install", *there.options, "--force-reinstall", "--no-deps", source)
    program = (
        f"import zoo; print(*zoo.load({RELEASED!r}).translate({list(NUMBERS)}, beam=5), sep='\\n')"
    )
    by_name = there.run("python", "-c", program).splitlines()
    assert by_name == translated

    # Uninstalled, it is gone, and its checkpoint says what it needs.
    there.pip("uninstall", "--yes", "zoo-statespace")
    assert RELEASED not in there.run("zoo", "list", "checkpoints")
    for command in (("translate", "trained", "one"), ("info", "trained")):
        told = there.run("zoo", *command, code=1)
        assert "needs architecture 'statespace'" in told
        assert "zoo-statespace 0.1.0" in told
        assert "Install zoo-statespace" in told
    return scores
