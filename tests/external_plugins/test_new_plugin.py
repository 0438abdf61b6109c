"""`zoo new-plugin`: its package passes the linters and is short; names that exist are refused."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
import zoo.interop
import zoo.nn
from tests.external_plugins.journey import EXAMPLE, TOP
from zoo.cli.new_plugin import FILES, TEMPLATE, files_for
from zoo.errors import ConfigError
from zoo.registry.api import API

Run = Callable[..., Result]


def test_every_template_is_used() -> None:
    assert {file for file in FILES.values() if file} == {f.name for f in TEMPLATE.iterdir()}


@pytest.mark.parametrize("name", ["gated", "my-second-net2"])
def test_the_package_passes_linters_and_type_checks(run: Run, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "made"
    result = run("new-plugin", name, "--out", folder)
    assert result.exit_code == 0, result.output
    assert "$" not in "".join(files_for(name).values()).replace("pip install", "")
    commands = [["ruff", "check", "."], ["ruff", "format", "--check", "."]]
    if "-" in name:  # once: mypy takes seconds, and names change nothing but names
        settings = ("--config-file", str(TOP / "pyproject.toml"))
        commands.append(["mypy", *settings, "--cache-dir", str(TOP / ".mypy_cache"), "src"])
    for command in commands:
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True,
                              text=True, env={"MYPYPATH": "src", "PATH": ""})  # fmt: skip
        assert done.returncode == 0, done.stdout


def test_network_and_declaration_are_short() -> None:
    code = [text for path, text in files_for("gated").items() if path.endswith("network.py")]
    declared = [text for path, text in files_for("gated").items() if path.endswith("__init__.py")]
    lines = [line for text in code + declared for line in text.splitlines() if line.strip()]
    assert len(lines) <= 120


PUBLIC = {
    "zoo": {*zoo.__all__, "nn", "interop"},
    "zoo.nn": set(zoo.nn.__all__),
    "zoo.interop": set(zoo.interop.__all__),
}


def require_public_imports(text: str) -> None:
    """Raise unless a module uses only what `zoo`, `zoo.nn` and `zoo.interop` export."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = {name.name for name in node.names if name.name.startswith("zoo.")}
            assert modules <= PUBLIC.keys(), modules
        elif isinstance(node, ast.ImportFrom) and str(node.module) in PUBLIC:
            assert {name.name for name in node.names} <= PUBLIC[str(node.module)]
        elif isinstance(node, ast.ImportFrom):
            assert not str(node.module).startswith("zoo."), node.module
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in PUBLIC:
            assert node.attr in PUBLIC[ast.unparse(node.value)]


def test_built_in_and_third_party_plugins_use_only_public_names() -> None:
    files = [*(TOP / "plugins").rglob("*.py"), *(EXAMPLE / "src").rglob("*.py")]
    texts = {str(file): file.read_text(encoding="utf-8") for file in files}
    texts |= {path: text for path, text in files_for("gated").items() if path.startswith("src")}
    modules = {path: text for path, text in texts.items() if path.endswith(".py")}
    assert len(modules) > 15
    for text in modules.values():
        require_public_imports(text)
    packages = [path for path in modules if path.endswith("__init__.py")]
    declared = [path for path in packages if Path(path).parent.name.startswith("zoo_")]
    assert len(declared) == len([*(TOP / "plugins").glob("zoo_*")]) + 2
    assert all(f"\nZOO_API = {API}\n" in modules[path] for path in declared)
    for wrong in (
        "import zoo.nn.tree",
        "from zoo.nn.contract import END",
        "from zoo.nn import onednn",
        "from zoo import Linear",
        "import zoo\nzoo.registry.API",
        "import zoo.nn\nzoo.nn.contract.END",
    ):
        with pytest.raises(AssertionError):
            require_public_imports(wrong)


def test_existing_and_invalid_names_are_refused(run: Run, tmp_path: Path) -> None:
    result = run("new-plugin", "transformer", "--out", tmp_path / "t")
    assert result.exit_code == 1
    assert "there is already an architecture 'transformer'" in result.stderr
    assert "seq2seq-zoo" in result.stderr
    result = run("new-plugin", "corpora", "--out", tmp_path / "c")
    assert result.exit_code == 1
    assert "the package zoo_corpora is already installed" in result.stderr
    (tmp_path / "existing").mkdir()
    result = run("new-plugin", "gated", "--out", tmp_path / "existing")
    assert result.exit_code == 1
    assert "already exists" in result.stderr
    assert not list((tmp_path / "existing").iterdir())
    for name in (
        "Gated",
        "my_net",
        "9th",
        "a--b",
        "-a",
        "../x",
        "",
        "a" * 25,
        "memory",
        "none",
        "true",
    ):
        with pytest.raises(ConfigError, match="cannot name a plugin"):
            files_for(name)


def test_the_name_of_the_package_names_the_architecture(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new-plugin", "zoo-gated")
    assert result.exit_code == 0, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["zoo-gated"]
    made = {str(f.relative_to("zoo-gated")): f for f in Path("zoo-gated").rglob("*") if f.is_file()}
    assert {name: file.read_text() for name, file in made.items()} == files_for("gated")


def test_the_test_extra_has_what_the_tutorial_uses() -> None:
    extra = tomllib.loads(files_for("gated")["pyproject.toml"])["project"]["optional-dependencies"]
    required = {re.split("[^a-z-]", package)[0] for package in extra["test"]}
    tutorial = (TOP / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^python -m ([a-z]+)", tutorial, re.MULTILINE)) <= required
    # Without build isolation, the build backend must be there too.
    assert "--no-isolation" in tutorial
    assert required >= {"pytest", "hatchling"}


def test_a_failed_write_leaves_no_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def full(self: Path, *given: str, **more: str) -> int:
        if self.name == "network.py":
            raise OSError(28, "No space left on device")
        return write(self, *given, **more)

    monkeypatch.setattr(Path, "write_text", full)
    result = run("new-plugin", "gated", "--out", tmp_path / "made")
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert not (tmp_path / "made").exists()
