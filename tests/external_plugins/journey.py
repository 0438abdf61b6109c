"""An external plugin from installation to removal: trained, released, loaded by name.

The tests use an environment that shares the packages of the test environment;
`make verify-install` uses a new one with all packages installed.
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

from tests.forked import fork_in

TOP = Path(__file__).parents[2]
EXAMPLE = TOP / "docs" / "examples" / "zoo-statespace"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
NUMBERS = ("twenty-one", "four hundred and five")
SHOWN = 12
"""Lines of output of a line of a shell in the transcript."""
RELEASED = "statespace-tiny.numbers-en-fr"


@dataclass
class Environment:
    """A virtual environment with a transcript of the commands that ran in it."""

    folder: Path
    options: Sequence[str]
    transcript: list[str] = field(default_factory=list)

    @classmethod
    def borrowed(cls, folder: Path) -> Environment:
        """Create an environment that also imports the packages of this process's environment.

        Its programs are forked.
        """
        venv.create(folder, symlinks=True)
        environment = cls(folder, ("--no-index", "--no-deps", "--no-build-isolation"))
        packages = sysconfig.get_path("purelib")
        link = environment._site() / "borrowed.pth"
        link.write_text(f"import site; site.addsitedir({packages!r})\n", encoding="utf-8")
        fork_in(folder)
        return environment

    @classmethod
    def clean(cls, folder: Path, options: Sequence[str]) -> Environment:
        """Create an empty environment."""
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

    def install(self, *packages: Path | str) -> None:
        """Install wheels or source folders, perhaps with extras."""
        self.pip("install", *self.options, *packages)

    def _done(self, words: Sequence[str], where: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(
            words, cwd=self.folder / where, env=environment, capture_output=True, text=True
        )

    def shell(self, line: str, where: str = "") -> str:
        """Run a line of a shell, in a folder of this environment, and return its output."""
        done = self._done(["bash", "-c", line], where)
        assert done.returncode == 0, f"{line} exited with {done.returncode}\n{done.stderr}"
        shown = done.stdout.strip().splitlines()
        more = ["…"] * (len(shown) > SHOWN)
        self.transcript.append("\n".join([f"$ {line}", *shown[:SHOWN], *more]))
        return done.stdout

    def run(self, *command: object, code: int = 0) -> str:
        """Run a command of this environment in its folder and return its output."""
        words = [str(word) for word in command]
        done = self._done([str(self.folder / "bin" / words[0]), *words[1:]])
        assert done.returncode == code, f"{words} exited with {done.returncode}\n{done.stderr}"
        self.transcript.append(
            f"$ {' '.join(words)}\n{(done.stdout + done.stderr * bool(code)).strip()}"
        )
        return done.stdout if code == 0 else done.stderr


def build_wheel(folder: Path, source: Path = TOP) -> Path:
    """Build the wheel of a source folder, by default the zoo's, into `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def journey(
    environment: Environment, wheel: Path, train: Sequence[str] = (), scored: int = 200
) -> dict[str, float]:
    """Run every stage and return the output of `zoo eval`.

    `train` holds training options; `scored` is the number of sentences that are scored.
    """
    environment.install(f"{wheel}[train]")
    assert "statespace" not in environment.run("zoo", "list", "architectures")
    source = shutil.copytree(EXAMPLE, environment.folder / "zoo-statespace")
    environment.install(source)

    # It is listed with what it adds; Python and the command line see the same plugins.
    (row,) = json.loads(environment.run("zoo", "plugins", "statespace", "--json"))["plugins"]
    assert (row["package"], row["status"], row["api"]) == ("zoo-statespace", "loaded", 2)
    assert row["adds"]["architectures"] == ["statespace"]
    assert row["adds"]["commands"] == ["half-lives"]
    listed = json.loads(environment.run("zoo", "plugins", "--json"))["plugins"]
    names = environment.run("python", "-c", "import zoo; print(*zoo.list_plugins())").split()
    assert names == sorted(plugin["name"] for plugin in listed)
    assert len(names) == 8

    # It trains, scores and translates.
    arguments = ("--data", "numbers-en-fr", "--out", "trained")
    environment.run("zoo", "train", "statespace-tiny", *arguments, *train)
    score = (
        "zoo",
        "eval",
        "trained",
        "--data",
        "numbers-en-fr",
        "--limit",
        scored,
        "--beam",
        5,
        "--json",
    )
    scores: dict[str, float] = json.loads(environment.run(*score))
    translated = environment.run("zoo", "translate", "trained", "--beam", 5, *NUMBERS).splitlines()
    assert len(translated) == len(NUMBERS)
    assert len(environment.run("zoo", "half-lives", "trained").splitlines()) == 6
    card = environment.run("zoo", "card", "trained")
    assert "statespace" in card

    # Released with its package, the checkpoint is loaded by name in a new process.
    package = source / "src" / "zoo_statespace"
    shutil.copytree(environment.folder / "trained", package / "cards" / "checkpoints" / RELEASED)
    with (package / "models.toml").open("a", encoding="utf-8") as catalogue:
        catalogue.write(f'\n[checkpoints."{RELEASED}"]\nmodel = "statespace-tiny"\n'
                        'dataset = "numbers-en-fr"\nsummary = "numbers in words"\n')  # fmt: skip
    environment.pip("install", *environment.options, "--force-reinstall", "--no-deps", source)
    program = (
        f"import zoo; print(*zoo.load({RELEASED!r}).translate({list(NUMBERS)}, beam=5), sep='\\n')"
    )
    by_name = environment.run("python", "-c", program).splitlines()
    assert by_name == translated

    # After uninstallation it is not listed, and the error of its checkpoint names the package.
    environment.pip("uninstall", "--yes", "zoo-statespace")
    assert RELEASED not in environment.run("zoo", "list", "checkpoints")
    for command in (("translate", "trained", "one"), ("info", "trained")):
        error = environment.run("zoo", *command, code=1)
        assert "needs architecture 'statespace'" in error
        assert "zoo-statespace 0.1.0" in error
        assert "Install zoo-statespace" in error
    return scores


def captions_journey(environment: Environment, wheel: Path) -> None:
    """Install the wheel of the captions beside the zoo's; its checkpoints are there only then."""
    name = "transformer-tiny.multi30k-en-de"
    command = ("zoo", "translate", name, "Two dogs are playing in the snow.")
    assert "pip install seq2seq-zoo-captions" in environment.run(*command, code=1)
    environment.install(wheel)
    assert environment.run(*command) == "Zwei Hunde spielen im Schnee.\n"
    assert "non-commercial" in environment.run("zoo", "list", "checkpoints")
    environment.run("zoo", "info", name)


def remove_captions(environment: Environment) -> None:
    """Uninstall the caption checkpoints."""
    environment.pip("uninstall", "--yes", "seq2seq-zoo-captions")
