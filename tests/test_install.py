"""The wheel contains the files of an editable install, and works in any folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import zoo
from zoo.checkpoint.card import split_card
from zoo.registry.builtin import top
from zoo.registry.catalogue import read

TOP = Path(__file__).parents[1]
PACKAGES = [project.parent.name for project in TOP.glob("plugins/*/pyproject.toml")]
"""Those of checkpoints that are not in the zoo's wheel."""
FREE = ("apache-2.0", "mit", "cc0-1.0", "cc-by-2.0", "cc-by-4.0")
"""Licenses of weights that may be used for anything."""
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def shipped_in(wheel: Path) -> set[str]:
    parts = [Path(name).parts for name in zipfile.ZipFile(wheel).namelist()]
    return {part[3] for part in parts if part[1:3] == ("cards", "checkpoints")}


def files_of(names: set[str], package: str) -> set[str]:
    released = read(TOP / "registry.toml").checkpoints
    return {
        f"{package}/cards/checkpoints/{name}/{path}"
        for name in names
        for path in released[name].files
    }


def test_the_wheel_holds_packages_catalogue_and_cards(wheels: dict[str, Path]) -> None:
    wheel = wheels["seq2seq_zoo"]
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = [*TOP.glob("zoo/**/*.py"), *TOP.glob("plugins/**/*.py"), *TOP.glob("zoo/**/*.html")]
    sources = [file for file in sources if file.parent.name not in PACKAGES]
    sources += [*TOP.glob("plugins/*/equations.md"), TOP / "zoo" / "py.typed"]
    sources.append(TOP / "zoo" / "nn" / "kernels.c")
    sources += TOP.glob("zoo/cli/template/*.txt")
    sources += [file for file in TOP.glob("zoo/*/page/*") if file.is_file()]
    expected = {str(f.relative_to(TOP)).removeprefix("plugins/") for f in sources}
    expected |= {"zoo/registry.toml", "zoo/docs/api-2.md"}
    expected |= {f"zoo/cards/models/{model}.md" for model in zoo.list_models()}
    expected |= files_of(shipped_in(wheel), "zoo")
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert wheel.name.startswith(f"seq2seq_zoo-{zoo.__version__}-")


def test_each_checkpoint_is_in_the_wheel_that_its_license_permits(wheels: dict[str, Path]) -> None:
    released = read(TOP / "registry.toml").checkpoints
    free = {
        name
        for name, each in released.items()
        if split_card((each.folder / "README.md").read_text(), "")[0]["license"] in FREE
    }
    shipped = {package: shipped_in(wheels[f"seq2seq_{package}"]) for package in ("zoo", *PACKAGES)}
    assert shipped["zoo_captions"] | shipped["zoo_tasks"] == set(released) - free
    assert shipped["zoo"] | shipped["zoo_everyday"] == free
    assert sum(map(len, shipped.values())) == len(released), "each is in one wheel"
    for package in PACKAGES:
        names = zipfile.ZipFile(wheels[f"seq2seq_{package}"]).namelist()
        expected = files_of(shipped[package], package)
        expected |= {f"{package}/__init__.py", f"{package}/registry.toml"}
        assert {name for name in names if ".dist-info/" not in name} == expected
    for package in ("zoo_captions", "zoo_tasks"):
        wheel = zipfile.ZipFile(wheels[f"seq2seq_{package}"])
        info = f"seq2seq_{package}-{zoo.__version__}.dist-info"
        assert "non-commercial" in wheel.read(f"{info}/METADATA").decode()
        terms = wheel.read(f"{info}/licenses/LICENSE-weights.txt").decode()
        assert "not for commercial use" in " ".join(terms.split())


def test_installed_wheels_work(wheels: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def install(*wheels: Path) -> None:
        command = [*PIP, "install", "--no-index", "--no-deps", "--target", target, *wheels]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    install(wheels["seq2seq_zoo"])
    where = "import zoo; from zoo.registry.builtin import top; print(zoo.__file__, top())"
    assert run("-c", where).split() == [str(target / "zoo/__init__.py"), str(target / "zoo")]
    listed = json.loads(run("-m", "zoo", "list", "models", "--json"))["models"]
    assert [model["name"] for model in listed] == zoo.list_models()
    assert "total" in run("-m", "zoo", "info", "convs2s-tiny")
    name = "transformer-tiny.multi30k-en-de"
    error = run("-m", "zoo", "info", name, code=1)
    assert "it is in the package seq2seq-zoo-captions (research and education, non-" in error
    assert error.strip().endswith("pip install seq2seq-zoo-captions")
    assert "pip install seq2seq-zoo-captions" in run("-m", "zoo", "list", "checkpoints")
    install(*(wheels[f"seq2seq_{package}"] for package in PACKAGES))
    assert "pip install" not in run("-m", "zoo", "list", "checkpoints")
    assert "not for commercial use" in run("-m", "zoo", "card", name)


def test_an_editable_install_reads_the_repository_s_own_files() -> None:
    assert top() == TOP
    assert (top() / "registry.toml").is_file()
