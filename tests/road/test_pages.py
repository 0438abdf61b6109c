"""What the documentation's pages show is run: shell, Python and what a command prints."""

import inspect
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import zoo
from tests.road.journey import EXAMPLE, TOP, Environment, build_wheel
from tests.test_docs import build
from zoo.cli.plugins import commands_of
from zoo.registry import hookspecs
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins, known_hooks
from zoo.registry.registry import Registry

DOCS = TOP / "docs"
RUN = {"sh", "console", "python", "toml"}
SHOWN = {"text"}
FENCE = re.compile(r"^```(\w+)(?: title=\"(.*?)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROAD = ("index", "install", "tutorial", "testing", "publishing", "troubleshooting", "architecture")
"""The pages whose snippets are run, in this order: the tutorial's package serves the later ones."""


@dataclass(frozen=True)
class Snippet:
    """A block of a page: its kind, the file it is, if any, and its text."""

    kind: str
    title: str
    text: str


def snippets(page: str) -> Iterator[Snippet]:
    for kind, title, text in FENCE.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        yield Snippet(kind, title, text)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the zoo's wheel, in which pip finds that and the example's by name."""
    wheels = tmp_path_factory.mktemp("wheels")
    wheel = build_wheel(wheels)
    made = Environment.borrowed(tmp_path_factory.mktemp("pages") / "there")
    made.install(wheel)
    made.pip("wheel", *made.options, "--wheel-dir", wheels, EXAMPLE)
    for command, module in (("pip", "pip"), ("pytest", "pytest")):
        script = made.folder / "bin" / command
        script.write_text(f'#!/bin/sh\nexec "{made.python}" -m {module} "$@"\n')
        script.chmod(0o755)
    return made


def variables(there: Environment) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return kept | {
        "PATH": f"{there.folder / 'bin'}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for «no isolation»
        "PIP_FIND_LINKS": str(next(there.folder.parent.parent.glob("wheels*"))),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def shortened(text: str) -> str:
    """Return a shell text with little training: what it does is tried, not how well."""
    text = re.sub(r"^zoo train .*$", r"\g<0> --steps 20 --limit 500", text, flags=re.MULTILINE)
    text = re.sub(r"^zoo eval .*$", r"\g<0> --limit 20", text, flags=re.MULTILINE)
    # The page's own environment would be without the packages that this one borrows.
    return text.replace("python3 -m venv .venv", "python3 -m venv --without-pip .venv").replace(
        ". .venv/bin/activate\n", ""
    )


def script_of(page: str, folder: Path) -> tuple[str, dict[int, str]]:
    """Return one shell script of all of a page's snippets, and what each console one shows."""
    lines, shown = ["set -euo pipefail"], dict[int, str]()
    for number, snippet in enumerate(snippets(page)):
        assert snippet.kind in RUN | SHOWN, snippet
        file = folder / f"{page}.{number}"
        file.write_text(snippet.text, encoding="utf-8")
        lines.append(f"echo; echo @@{number}")
        if snippet.title and page == "tutorial":
            lines.append(f"diff {file} {snippet.title}")  # what `zoo new-plugin` wrote
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


@pytest.mark.parametrize("page", ROAD)
def test_every_snippet_of_a_page_runs(page: str, there: Environment, tmp_path: Path) -> None:
    script, shown = script_of(page, tmp_path)
    made = there.folder / "zoo-gated"
    cwd = made if page in ("testing", "publishing", "troubleshooting") else there.folder
    if cwd == made and not made.is_dir():
        pytest.skip("the tutorial did not run")
    done = subprocess.run(["bash", "-c", script], cwd=cwd, env=variables(there),
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    printed = dict(re.findall(r"^@@(\d+)\n(.*?)(?=^@@|\Z)", done.stdout, re.DOTALL | re.MULTILINE))
    for number, text in shown.items():
        # Columns are as wide as their longest cell, which need not be shown.
        said = [line.split() for line in printed[str(number)].splitlines()]
        for line in text.splitlines():
            if line != "…" and not line.startswith("$ "):
                assert line.split() in said


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_page_with_snippets_is_run(page: Path) -> None:
    """A page that shows commands or code is among those whose snippets some test runs."""
    # By the tests below, the command that writes it, and the tests of training, hub, scores and of
    # what is released.
    elsewhere = {"hooks", "verified", "training", "hub", "evaluating", "decoding", "zoo"}
    kinds = {snippet.kind for snippet in snippets(page.stem)}
    assert not kinds & RUN or page.stem in {*ROAD, *elsewhere}


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_is_documented_with_its_signature_and_an_example(name: str) -> None:
    signature, says, example = build.hook_parts(name)
    assert says
    assert f"def {name}(" in example
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")
    for part in (f"## {name}\n", signature, says, example):
        assert part in page
    for argument in inspect.signature(getattr(hookspecs, name)).parameters:
        assert f"{argument}:" in signature


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_s_example_works(name: str) -> None:
    *_, example = build.hook_parts(name)
    module = types.ModuleType("zoo_example")
    module.__file__ = str(EXAMPLE / "src" / "zoo_statespace" / "__init__.py")
    exec(compile(example, f"{name}'s example", "exec"), module.__dict__)
    plugins = Plugins()
    plugins.add(module, Plugin("example", "zoo-example", "1.0"))
    assert not plugins.broken
    registry = Registry(plugins)
    joined = commands_of(plugins, frozenset())
    assert not plugins.broken
    assert not registry.problems
    plugin = plugins.loaded["example"]
    assert plugins.hooks_of(plugin) == [name]
    if name in ("zoo_architectures", "zoo_catalogues", "zoo_datasets"):
        assert registry.brought_by(plugin)
    assert bool(joined) == (name == "zoo_commands")
    for command in joined.values():
        assert CliRunner().invoke(command, ["rnnsearch-tiny"]).output == "4,182,336\n"
    for dataset in registry.datasets.values():
        assert all(dataset.load(split, 3) for split in dataset.splits)


@pytest.mark.parametrize("name", known_hooks())
def test_every_hook_has_a_test_that_names_it(name: str) -> None:
    files = [file for file in (TOP / "tests").rglob("*.py") if file != Path(__file__)]
    assert any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


def test_the_documentation_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True,
                          env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(ROAD)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?([^\" >]+)", text)
        outside = [address for address in fetched if re.match(r"(https?:)?//", address)]
        assert not outside, page
        assert 'class="arithmatex"' not in text, "a formula was left as it was"
    derivation = (tmp_path / "derivations" / "attention" / "index.html").read_text("utf-8")
    assert derivation.count("<math") > 20


def test_the_example_is_what_its_page_says() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"^\| `(\S+)` \|", readme, re.MULTILINE):
        assert (EXAMPLE / path).is_file()
    assert zoo.__version__ in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
