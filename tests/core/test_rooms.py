"""The rooms and their boundaries, derived from the folders and the imports."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import zoo
import zoo.interop
import zoo.nn

TOP = Path(__file__).parents[2]
ZOO = TOP / "zoo"
ROOMS = [line.split()[0] for line in str(zoo.__doc__).splitlines() if line.startswith("    ")]
"""From the top down, as the package's docstring lists them."""

ENTRANCES = {"__init__", "__main__", "pytest_plugin"}
"""Modules that Python and pytest look for by name; they may import from any room."""

MODULE_LINES = 360
FUNCTION_LINES = 50
LONG_FUNCTIONS: dict[str, str] = {}
"""Functions that may be longer than `FUNCTION_LINES`, each with the reason."""

core = sorted(ZOO.rglob("*.py"))
plugins = sorted((TOP / "plugins").rglob("*.py"))


def name_of(file: Path) -> str:
    return file.relative_to(TOP).with_suffix("").as_posix().replace("/", ".")


MODULES = {name_of(file).removesuffix(".__init__") for file in core}


@cache
def nodes(file: Path) -> list[ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every import and function of a module, which is parsed once."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef
    every = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node for node in every if isinstance(node, kinds)]


def imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for every import, including those in functions and for type checkers."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide what a module imports"
            yield from ((node.module or "", alias.name) for alias in node.names)


def imported_modules(file: Path) -> set[str]:
    """Return the modules of the core that a file imports."""
    modules = set()
    for module, name in imports(file):
        if module == "zoo" or module.startswith("zoo."):
            longer = f"{module}.{name}"
            modules.add(longer if longer in MODULES else module)
    return modules - {"zoo", name_of(file).removesuffix(".__init__")}


def room(module: str) -> str:
    return module.split(".")[1]


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return a function's lines, without its decorators and its docstring."""
    documented = ast.get_docstring(node) is not None
    text = node.body[0].end_lineno if documented else None
    start = node.body[0].lineno if documented else 0
    docstring = 0 if text is None else text - start + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def functions(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of lines of every function."""
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name_of(file)}.{node.name}", lines_of(node)


def test_every_room_is_listed() -> None:
    folders = {f.name for f in ZOO.iterdir() if f.is_dir() and (f / "__init__.py").is_file()}
    modules = {f.stem for f in ZOO.glob("*.py")} - ENTRANCES
    assert sorted(ROOMS) == sorted(folders | modules)


def test_every_room_has_a_docstring() -> None:
    for file in ZOO.rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert docstring is not None
        assert len(docstring) > 20, file


@pytest.mark.parametrize("name", ["cli", "training"])
def test_the_docstring_of_a_large_room_lists_its_modules(name: str) -> None:
    """Each module of a command is imported by `zoo.cli` instead."""
    file = ZOO / name / "__init__.py"
    docstring = str(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))))
    listed = {line.split()[0] for line in docstring.splitlines() if line.startswith("    ")}
    commands = {imported for module, imported in imports(file) if module == "zoo.cli"}
    modules = {each.stem for each in file.parent.glob("*.py")} - {"__init__"}
    assert modules - commands <= listed
    assert listed <= modules


@pytest.mark.parametrize("file", core, ids=name_of)
def test_a_room_imports_only_from_rooms_below_it(file: Path) -> None:
    external = {module.split(".")[0] for module, _ in imports(file)}
    assert not external & {f.name for f in (TOP / "plugins").iterdir()}
    if file.parent == ZOO and file.stem in ENTRANCES:
        return
    this = room(name_of(file))
    below = set(ROOMS[ROOMS.index(this) :])
    assert {room(module) for module in imported_modules(file)} <= below
    if this in ("registry", "files", "errors"):
        assert not external & {"torch", "tokenizers", "safetensors", "huggingface_hub"}
    if this != "hub":
        assert "huggingface_hub" not in external


def test_no_circles_between_modules() -> None:
    edges = {
        name_of(file).removesuffix(".__init__"): imported_modules(file)
        for file in core
        if file.parent != ZOO or file.stem not in ENTRANCES
    }
    # A package has the imports of its `__init__`, which runs before any of its modules.
    done: set[str] = set()
    while len(done) < len(edges):
        ready = {name for name in edges if name not in done and edges[name] <= done}
        assert ready, f"a circle among {sorted(set(edges) - done)}"
        done |= ready


@pytest.mark.parametrize("file", plugins, ids=lambda f: str(f.relative_to(TOP)))
def test_plugins_import_only_public_names(file: Path) -> None:
    package = file.relative_to(TOP / "plugins").parts[0]
    public = {"zoo": zoo.__all__, "zoo.nn": zoo.nn.__all__, "zoo.interop": zoo.interop.__all__}
    for module, name in imports(file):
        if module.split(".")[0] == "zoo":
            assert name in public.get(module, []), f"{module}.{name} is not public"
        if module.startswith("zoo_"):
            assert module.split(".")[0] == package


def test_public_names_are_in_their_declared_modules() -> None:
    source = (ZOO / "__init__.py").read_text(encoding="utf-8")
    for name in zoo.__all__:
        assert getattr(zoo, name) is not None
        module = zoo._HOMES[name]
        assert f"from zoo.{module} import {name} as {name}" in source
    with pytest.raises(AttributeError, match="no attribute 'tain'"):
        zoo.tain  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["torch", "pydantic", "huggingface_hub", "tokenizers"]),
        (["list"], ["torch", "pydantic", "huggingface_hub", "tokenizers"]),
        (["list", "--json"], ["torch", "pydantic", "huggingface_hub", "tokenizers", "rich"]),
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
        f"imported = [name for name in {absent!r} if name in sys.modules]\n"
        "sys.exit(f'imported {imported}' if imported else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_light_errors_of_wrong_names_import_no_torch() -> None:
    program = (
        "import sys\n"
        "from zoo.cli import cli\n"
        "try:\n"
        "    cli.main(['translate', 'nothing', 'one'])\n"
        "finally:\n"
        "    print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "no checkpoint 'nothing'" in done.stderr
    assert done.stdout == "False\n"


def test_light_training_imports_what_shards_weights_only_with_shard() -> None:
    program = (
        "import sys, zoo.training.trainer\n"
        "names = ('torch.distributed.tensor', 'torch.distributed.fsdp')\n"
        "sys.exit(f'imported {[n for n in names if n in sys.modules]}'\n"
        "         if any(n in sys.modules for n in names) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_modules_are_short() -> None:
    lines = {name_of(file): len(file.read_text().splitlines()) for file in [*core, *plugins]}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    long = {
        name: count
        for file in [*core, *plugins]
        for name, count in functions(file)
        if count > FUNCTION_LINES
    }
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_the_drawing_and_the_page_list_the_rooms_in_order() -> None:
    drawing = (TOP / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert re.findall(r'<text class="room"[^>]*>(\w+)</text>', drawing) == ROOMS
    page = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Rooms")[2].partition("## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == ROOMS


def test_every_path_on_the_page_exists() -> None:
    page = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:zoo|plugins)/[\w/]*(?:\.py)?)`", page)
    assert len(paths) > 10
    for path in paths:
        assert (TOP / path).exists(), path
    for module, name in re.findall(r"`(zoo(?:\.\w+)+)\.(\w+)\(\)`", page):
        assert callable(getattr(importlib.import_module(module), name))
