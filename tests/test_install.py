"""The wheel contains the files of an editable install, and works in any folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import zoo
from zoo.registry.builtin import top
from zoo.registry.catalogue import read

TOP = Path(__file__).parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*command, str(TOP)], check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_packages_catalogue_and_cards(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = [*TOP.glob("zoo/**/*.py"), *TOP.glob("plugins/**/*.py"), *TOP.glob("zoo/**/*.html")]
    sources += [*TOP.glob("plugins/*/equations.md"), TOP / "zoo" / "py.typed"]
    sources += TOP.glob("zoo/cli/template/*.txt")
    sources += [file for file in TOP.glob("zoo/*/page/*") if file.is_file()]
    expected = {str(f.relative_to(TOP)).removeprefix("plugins/") for f in sources}
    expected |= {"zoo/registry.toml", "zoo/docs/api-2.md"}
    expected |= {f"zoo/cards/models/{model}.md" for model in zoo.list_models()}
    expected |= {
        f"zoo/cards/checkpoints/{name}/{path}"
        for name, released in read(TOP / "registry.toml").checkpoints.items()
        for path in released.files
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert wheel.name.startswith(f"seq2seq_zoo-{zoo.__version__}-")


def test_an_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    command = [*PIP, "install", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = "import zoo; from zoo.registry.builtin import top; print(zoo.__file__, top())"
    assert run("-c", where).split() == [str(target / "zoo/__init__.py"), str(target / "zoo")]
    listed = json.loads(run("-m", "zoo", "list", "models", "--json"))["models"]
    assert [model["name"] for model in listed] == zoo.list_models()
    assert "total" in run("-m", "zoo", "info", "convs2s-tiny")


def test_an_editable_install_reads_the_repository_s_own_files() -> None:
    assert top() == TOP
    assert (top() / "registry.toml").is_file()
