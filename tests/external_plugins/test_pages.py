"""The documentation's shell and Python snippets run, and print the output that it shows."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import zoo
from tests.external_plugins.journey import EXAMPLE, TOP, Environment
from tests.test_docs import build
from zoo.cli.plugins import commands_of
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins, known_hooks, specification
from zoo.registry.registry import Registry

DOCS = TOP / "docs"
EXECUTED = {"sh", "console", "python", "toml"}
NOT_EXECUTED = {"text"}
FENCE = re.compile(r"^```(\w+)(?: title=\"(.*?)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
IN_ORDER = (
    "index",
    "install",
    "tutorial",
    "testing",
    "publishing",
    "troubleshooting",
    "architecture",
)
"""Pages whose snippets run in this order: later ones use the tutorial's package."""


@dataclass(frozen=True)
class Snippet:
    """A code block: its language, the file that it shows, if any, and its text."""

    kind: str
    title: str
    text: str


def snippets(page: str) -> Iterator[Snippet]:
    for kind, title, text in FENCE.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        yield Snippet(kind, title, text)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Environment:
    """An environment with the zoo's wheel; pip finds the zoo and the example plugin by name."""
    wheel = wheels["seq2seq_zoo"]
    environment = Environment.borrowed(tmp_path_factory.mktemp("pages") / "environment")
    environment.install(wheel)
    packages = environment.folder.parent / "packages"
    environment.pip("wheel", *environment.options, "--wheel-dir", packages, EXAMPLE)
    shutil.copy(wheel, packages)
    for command, module in (("pip", "pip"), ("pytest", "pytest")):
        script = environment.folder / "bin" / command
        script.write_text(f'#!/bin/sh\nexec "{environment.python}" -m {module} "$@"\n')
        script.chmod(0o755)
    return environment


def variables(environment: Environment) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return inherited | {
        "PATH": f"{environment.folder / 'bin'}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads 0 as "no isolation"
        "PIP_FIND_LINKS": str(environment.folder.parent / "packages"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Of packages that this environment shares; a reader's has none of them.
        "PYTEST_ADDOPTS": "-p no:anyio -p no:faker -p no:hypothesispytest -p no:xdist",
    }


def shortened(text: str) -> str:
    """Return a shell script with less training and one law: the test ignores scores."""
    text = re.sub(r"^zoo train .*$", r"\g<0> --steps 3 --limit 100", text, flags=re.MULTILINE)
    text = re.sub(r"^zoo eval .*$", r"\g<0> --limit 20", text, flags=re.MULTILINE)
    # `pytest` has run every law before.
    text = re.sub(r"^pytest --pyargs .*$", r"\g<0> -k padding", text, flags=re.MULTILINE)
    # By name, from wheels of the clone in which a reader is.
    text = text.replace("'.[train]' ./plugins/zoo_captions", "'seq2seq-zoo[train]'")
    text = text.replace("./docs/examples/zoo-statespace", "zoo-statespace")
    # Without a new environment: it would lack the packages that this one shares.
    return text.replace("python3 -m venv .venv", "python3 -m venv --without-pip .venv").replace(
        ". .venv/bin/activate\n", ""
    )


def script_of(page: str, folder: Path) -> tuple[str, dict[int, str]]:
    """Return a shell script of all snippets of a page, and the output that the page shows."""
    lines, shown = ["set -euo pipefail"], dict[int, str]()
    for number, snippet in enumerate(snippets(page)):
        assert snippet.kind in EXECUTED | NOT_EXECUTED, snippet
        file = folder / f"{page}.{number}"
        file.write_text(snippet.text, encoding="utf-8")
        lines.append(f"echo; echo @@{number}")
        if snippet.title and page == "tutorial":
            lines.append(f"diff {file} {snippet.title}")  # created by `zoo new-plugin`
        elif snippet.title:
            lines.append(f"cp {file} {snippet.title}")
        elif snippet.kind == "sh":
            lines.append(shortened(snippet.text))
        elif snippet.kind == "python":
            lines.append(f"python {file}")
        elif snippet.kind == "console":
            lines += re.findall(r"^\$ (.*)$", snippet.text, re.MULTILINE)
            shown[number] = snippet.text
    return "\n".join(lines), shown


@pytest.mark.parametrize("page", IN_ORDER)
def test_every_snippet_of_a_page_runs(page: str, environment: Environment, tmp_path: Path) -> None:
    script, shown = script_of(page, tmp_path)
    plugin = environment.folder / "zoo-gated"
    cwd = plugin if page in ("testing", "publishing", "troubleshooting") else environment.folder
    if cwd == plugin and not plugin.is_dir():
        pytest.skip("the tutorial did not run")
    done = subprocess.run(["bash", "-c", script], cwd=cwd, env=variables(environment),
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    printed = dict(re.findall(r"^@@(\d+)\n(.*?)(?=^@@|\Z)", done.stdout, re.DOTALL | re.MULTILINE))
    for number, text in shown.items():
        # Columns are as wide as their longest cell, which the page may omit.
        output = [line.split() for line in printed[str(number)].splitlines()]
        for line in text.splitlines():
            if line != "…" and not line.startswith("$ "):
                assert line.split() in output


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_page_with_snippets_is_executed(page: Path) -> None:
    """A test runs the snippets of every page that shows commands or code."""
    # Run by the tests below, by the command that writes the page, and by the tests of training, the
    # hub, decoding, scores, the server and the released checkpoints.
    elsewhere = {"hooks", "verified", "training", "hub", "evaluating", "decoding", "serving", "zoo",
                 "own-data", "fine-tuning", "export", "contract", "training-parts",
                 "catalogue"}  # fmt: skip
    kinds = {snippet.kind for snippet in snippets(page.stem)}
    assert not kinds & EXECUTED or page.stem in {*IN_ORDER, *elsewhere}


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_is_documented_with_its_signature_and_an_example(name: str) -> None:
    signature, description, example = build.hook_parts(name)
    assert description
    assert f"def {name}(" in example
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")
    for part in (f"## {name}\n", signature, description, example):
        assert part in page
    for argument in inspect.signature(specification(name)).parameters:
        assert f"{argument}:" in signature


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_s_example_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, example = build.hook_parts(name)
    module = types.ModuleType("zoo_example")
    module.__file__ = str(EXAMPLE / "src" / "zoo_statespace" / "__init__.py")
    exec(compile(example, f"{name}'s example", "exec"), module.__dict__)
    plugins = Plugins()
    plugins.add(module, Plugin("example", "zoo-example", "1.0"))
    assert not plugins.broken
    registry = Registry(plugins)
    commands = commands_of(plugins, frozenset())
    assert not plugins.broken
    assert not registry.problems
    plugin = plugins.loaded["example"]
    assert plugins.hooks_of(plugin) == [name]
    if name in ("zoo_architectures", "zoo_catalogues", "zoo_datasets"):
        assert registry.brought_by(plugin)
    assert bool(commands) == (name == "zoo_commands")
    for command in commands.values():
        assert CliRunner().invoke(command, ["rnnsearch-tiny"]).output == "4,182,336\n"
    for dataset in registry.datasets.values():
        assert all(dataset.load(split, 3) for split in dataset.splits)
    for shelf in registry.shelves.values():
        if isinstance(shelf, OpenShelf):
            for entry in shelf.values():
                monkeypatch.setitem(sys.modules, entry.path.partition(":")[0], module)
                assert shelf.options(entry.name) == {}


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_is_named_in_a_test(name: str) -> None:
    files = [file for file in (TOP / "tests").rglob("*.py") if file != Path(__file__)]
    assert any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


def test_the_example_agrees_with_its_readme() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"^\| `(\S+)` \|", readme, re.MULTILINE):
        assert (EXAMPLE / path).is_file()
    assert zoo.__version__ in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
