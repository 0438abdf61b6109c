"""The rooms and their boundaries, read off the imports."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo

TOP = Path(__file__).parents[2]
FLOORS = [
    {"errors", "hookspecs", "plugins", "architecture", "address", "config", "recipe", "datasets",
     "events", "builtin", "catalogue", "found", "measure", "memory", "registry"},
    {"tree", "dropout", "normalise", "model", "files", "format", "text", "data", "product",
     "segments", "lanes"},
    {"decoding", "metrics", "checkpoint", "markdown", "scores", "cards", "heatmap", "hub"},
    {"training", "translation", "translator"},
    {"cli", "testing", "pytest_plugin", "__main__"},
]  # fmt: skip
WITHOUT_TORCH = FLOORS[0]


def imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for every import that is not for type checkers alone."""

    def walk(node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(ast.parse(file.read_text(encoding="utf-8")))


def room(file: Path) -> str:
    return file.relative_to(TOP / "zoo").with_suffix("").parts[0]


def core_imports(file: Path) -> set[str]:
    """Return the rooms of the core that a file imports."""
    rooms = set()
    for module, name in imports(file):
        if module == "zoo":
            rooms.add(name)
        elif module.startswith("zoo."):
            rooms.add(module.split(".")[1])
    return rooms - {"__version__"}


core = [f for f in sorted((TOP / "zoo").rglob("*.py")) if f != TOP / "zoo" / "__init__.py"]
plugins = sorted((TOP / "plugins").rglob("*.py"))


@pytest.mark.parametrize("file", core, ids=lambda f: str(f.relative_to(TOP)))
def test_each_floor_imports_from_floors_above_it(file: Path) -> None:
    floor = next(i for i, rooms in enumerate(FLOORS) if room(file) in rooms)
    allowed = set().union(*FLOORS[: floor + 1])
    assert core_imports(file) <= allowed
    external = {module.split(".")[0] for module, _ in imports(file)}
    assert not external & {f.name for f in (TOP / "plugins").iterdir()}
    if floor == 0:
        assert not external & {"torch", "tokenizers", "safetensors", "huggingface_hub"}
    if room(file) not in ("cards", "hub"):
        assert "huggingface_hub" not in external


def test_no_circles_within_a_floor() -> None:
    edges: dict[str, set[str]] = {}
    for file in core:
        edges.setdefault(room(file), set()).update(core_imports(file) - {room(file)})
    done: set[str] = set()
    while len(done) < len(edges):
        ready = {name for name in edges if name not in done and edges[name] <= done}
        assert ready, f"a circle among {sorted(set(edges) - done)}"
        done |= ready


@pytest.mark.parametrize("file", plugins, ids=lambda f: str(f.relative_to(TOP)))
def test_plugins_import_what_a_stranger_could(file: Path) -> None:
    own = file.relative_to(TOP / "plugins").parts[0]
    for module, name in imports(file):
        assert not module.startswith("zoo."), f"{module} is not public"
        if module == "zoo":
            assert name in zoo.__all__
        if module.startswith("zoo_"):
            assert module.split(".")[0] == own


def test_public_names_are_where_they_are_said_to_be() -> None:
    source = (TOP / "zoo" / "__init__.py").read_text(encoding="utf-8")
    for name in zoo.__all__:
        assert getattr(zoo, name) is not None
        module = zoo._HOMES[name]
        assert f"from zoo.{module} import {name} as {name}" in source
    with pytest.raises(AttributeError, match="no attribute 'tain'"):
        zoo.tain  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["torch", "pydantic", "huggingface_hub"]),
        (["list"], ["torch", "pydantic", "huggingface_hub"]),
        (["list", "--json"], ["torch", "pydantic", "huggingface_hub", "rich"]),
        (["info", "transformer-6x6"], ["torch", "huggingface_hub"]),
        (["info", "rnnsearch", "--parameters", "--json"], ["torch", "huggingface_hub"]),
        (["card", "convs2s-tiny"], ["torch", "huggingface_hub"]),
    ],
)
def test_light_commands_import_nothing_heavy(arguments: list[str], absent: list[str]) -> None:
    program = (
        "import sys\n"
        "from zoo.cli import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\n"
        f"found = [name for name in {absent!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_modules_are_small_enough_to_read_at_one_sitting() -> None:
    long = {str(f): n for f in [*core, *plugins] if (n := len(f.read_text().splitlines())) > 360}
    assert not long
