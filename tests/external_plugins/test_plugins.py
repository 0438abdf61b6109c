"""`zoo plugins`, and commands when plugins are broken, misspelled or duplicate."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

import zoo as package
from tests.external_plugins.packages import BROKEN, COMMAND, GOOD, put
from tests.forked import python
from zoo import Architecture, hookimpl, nn
from zoo.cli import cli
from zoo.cli.plugins import commands_of
from zoo.registry.api import API, CHANGES
from zoo.registry.discovery import discover
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry

TOP = Path(__file__).parents[2]


def in_process(
    folder: Path,
    *arguments: str,
    code: int = 0,
    variables: Mapping[str, str] | None = None,
    start: Sequence[str] = (sys.executable,),
) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process with the plugins that are installed in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder), **(variables or {})}
    done = subprocess.run([*start, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def zoo(folder: Path, *arguments: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return in_process(folder, "-m", "zoo", *arguments, start=python(), **given)


GOOD_ONES = 24
BUILTIN_ONES = 7


@pytest.fixture(scope="module")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty plugins, six of them broken."""
    folder = tmp_path_factory.mktemp("thirty")
    for number in range(GOOD_ONES):
        put(folder, f"good{number}", GOOD.format(name=f"good{number}"))
    for name, (code, _) in BROKEN.items():
        put(folder, name, code)
    return folder


WITHOUT_TORCH = """
import sys
from zoo.cli import cli
cli.main(sys.argv[1:], standalone_mode=False)
sys.exit("imported torch" if "torch" in sys.modules else 0)
"""


@pytest.mark.parametrize(
    "command", ["--help", "list --json", "plugins", "info transformer-tiny", "card rnnsearch"]
)
def test_commands_work_with_six_broken_plugins_of_thirty(thirty: Path, command: str) -> None:
    done = in_process(thirty, "-c", WITHOUT_TORCH, *command.split())
    assert done.stdout
    if command == "--help":
        assert "Broken plugins: 6. See `zoo plugins`." in done.stdout
        assert "train" in done.stdout
    elif command == "plugins":
        assert done.stdout.count("loaded") == GOOD_ONES + BUILTIN_ONES
        for _, problem in BROKEN.values():
            assert problem in done.stdout
    elif command == "list --json":
        listed = json.loads(done.stdout)["architectures"]
        assert {f"good{n}" for n in range(GOOD_ONES)} <= {row["name"] for row in listed}
        assert len(done.stderr.splitlines()) == len(BROKEN)


def test_each_broken_plugin_has_a_line_and_a_traceback(thirty: Path) -> None:
    rows = json.loads(zoo(thirty, "plugins", "--json").stdout)["plugins"]
    broken = {row["name"]: row for row in rows if row["status"] == "broken"}
    assert set(broken) == set(BROKEN)
    for name, (_, problem) in BROKEN.items():
        assert problem in broken[name]["problem"]
        assert "\n" not in broken[name]["problem"]
        assert broken[name]["package"] == f"zoo-{name}"
        assert "traceback" not in broken[name]
    assert broken["later"]["api"] == 99
    shown = zoo(thirty, "plugins", "missing", "--traceback").stdout
    assert "Traceback (most recent call last)" in shown
    assert "import this_is_not_installed" in shown
    assert "misspelled" not in shown
    unknown = zoo(thirty, "plugins", "mising", code=1).stderr
    assert "unknown plugin 'mising': did you mean missing" in unknown


PYTHON = "import zoo; print(*zoo.list_plugins())"


@pytest.mark.parametrize("choice", [None, "", "good3", "zoo-good3, good4", "good3,goood4"])
def test_python_and_the_command_line_agree_on_plugins(thirty: Path, choice: str | None) -> None:
    variables = {} if choice is None else {"ZOO_PLUGINS": choice}
    rows = json.loads(zoo(thirty, "plugins", "--json", variables=variables).stdout)["plugins"]
    loaded = sorted(row["name"] for row in rows if row["status"] == "loaded")
    assert in_process(thirty, "-c", PYTHON, variables=variables).stdout.split() == loaded
    from_folder = [name for name in loaded if name.startswith("good")]
    wanted = {None: GOOD_ONES, "": 0, "good3": 1, "zoo-good3, good4": 2, "good3,goood4": 1}
    assert len(from_folder) == wanted[choice]
    assert len(rows) == 30 + BUILTIN_ONES
    assert {"core", "transformer"} <= set(loaded)


def test_a_choice_that_is_not_installed_is_a_warning(thirty: Path) -> None:
    done = zoo(thirty, "list", "models", variables={"ZOO_PLUGINS": "good3,goood4"})
    assert "ZOO_PLUGINS names 'goood4', which is not installed: did you mean good" in done.stderr


def test_no_plugins_loads_only_the_built_in_ones(thirty: Path) -> None:
    for options in (("--no-plugins", "--help"), ("--help", "--no-plugins")):
        assert "is broken" not in zoo(thirty, *options).stdout
    done = zoo(thirty, "--no-plugins", "list", "--json")
    assert not done.stderr
    names = {row["name"] for row in json.loads(done.stdout)["architectures"]}
    assert names == {"convs2s", "rnnsearch", "seq2seq", "t5", "transformer"}
    rows = json.loads(zoo(thirty, "--no-plugins", "plugins", "--json").stdout)["plugins"]
    skipped = {row["name"] for row in rows if row["status"] == "skipped"}
    assert len(skipped) == 30
    assert "missing" in skipped  # not even imported


def test_output_of_a_plugin_s_import_goes_to_standard_error(
    tmp_path: Path,
) -> None:
    put(tmp_path, "chatty", "print('hello')\n" + GOOD.format(name="chatty"))
    done = zoo(tmp_path, "list", "--json")
    assert "chatty" in {row["name"] for row in json.loads(done.stdout)["architectures"]}
    assert "hello" in done.stderr


@pytest.mark.parametrize(
    ("entry", "problem"),
    [("not a module!", "its entry point 'not a module!' does not name a module"),
     ("zoo_odd:absent", "AttributeError: module 'zoo_odd' has no attribute 'absent'"),
     ("zoo_oddly", "ModuleNotFoundError: No module named 'zoo_oddly'")],
)  # fmt: skip
def test_a_plugin_with_an_invalid_entry_point_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, problem: str
) -> None:
    put(tmp_path, "odd", "ZOO_API = 2", entry=entry)
    monkeypatch.syspath_prepend(tmp_path)
    (broken,) = discover().broken
    assert broken.problem == problem


def test_entry_points_that_cannot_be_read_do_not_block_other_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "good", GOOD.format(name="good"))
    put(tmp_path, "garbled", "")
    (tmp_path / "zoo_garbled-1.0.dist-info" / "entry_points.txt").write_bytes(b"[zoo]\n\xff = x\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = discover()
    assert "good" in plugins.loaded
    assert "transformer" in plugins.loaded
    assert any("zoo-garbled" in problem for problem in plugins.problems)


def test_metadata_without_a_name_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "nameless", GOOD.format(name="nameless"))
    (tmp_path / "zoo_nameless-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = discover()
    assert "transformer" in plugins.loaded
    assert plugins.loaded["nameless"].version == "?"


def add(plugins: Plugins, name: str, **parts: Any) -> None:
    plugins.add(SimpleNamespace(**{"ZOO_API": API, **parts}), Plugin(name, f"zoo-{name}", "1.0"))


@hookimpl
def no_architectures() -> Iterable[Architecture]:
    return []


def test_two_packages_with_one_plugin_name_both_load(tmp_path: Path) -> None:
    put(tmp_path, "same", GOOD.format(name="one"), package="zoo-one")
    put(tmp_path, "same", GOOD.format(name="two"), package="zoo-two")
    rows = json.loads(zoo(tmp_path, "plugins", "same", "--json").stdout)["plugins"]
    brought = {row["package"]: row["adds"]["architectures"] for row in rows}
    assert brought == {"zoo-one": ["one"], "zoo-two": ["two"]}
    assert "zoo-two:same" in in_process(tmp_path, "-c", PYTHON).stdout.split()


def test_one_package_brings_a_plugin_name_and_a_module_once() -> None:
    plugins = Plugins()
    module = SimpleNamespace(ZOO_API=API, zoo_architectures=no_architectures)
    plugins.add(module, Plugin("same", "zoo-same", "1.0"))
    add(plugins, "same", zoo_architectures=no_architectures)
    plugins.add(module, Plugin("same", "zoo-other", "2.0"))
    assert [p.problem for p in plugins.broken] == [
        "zoo-same brings two plugins 'same'",
        "its module is another's: same (zoo-same 1.0) has it too",
    ]
    assert list(plugins.loaded) == ["same"]


def unmarked() -> None:
    """A hook without `@hookimpl`."""


@hookimpl
def unknown() -> None:
    """A hook that does not exist."""


@hookimpl(optionalhook=True)
def of_a_later_zoo() -> None:
    """A hook that may be unknown."""


@hookimpl(wrapper=True)
def around() -> Any:
    return (yield)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({}, "it implements no hook: the hooks are zoo_architectures,"),
        ({"zoo_datasets": unmarked}, "zoo_datasets: not marked as a hook. Put @zoo.hookimpl above"),
        ({"zoo_dataset": unknown}, "no such hook: zoo_dataset (did you mean zoo_datasets?)"),
        ({"zoo_xylophone": unknown, "zoo_comands": unknown},
         "no such hook: zoo_comands (did you mean zoo_commands?), zoo_xylophone; the hooks"),
        ({"zoo_architectures": around},
         "it wraps a hook: a hook returns only what its own plugin brings"),
        ({"ZOO_API": API + 1}, f"it was written for version {API + 1} of the plugin API: this zoo "
         f"loads version {API}. Install a newer seq2seq-zoo"),
        ({"ZOO_API": 0}, f"this zoo loads version {API}. Install a newer zoo-a;"),
        ({"ZOO_API": "1"}, "ZOO_API is '1': it must be an integer. Write ZOO_API = 2"),
    ],
)  # fmt: skip
def test_an_incompatible_plugin_is_broken(parts: dict[str, Any], problem: str) -> None:
    plugins = Plugins()
    add(plugins, "a", **parts)
    assert not plugins.loaded
    assert problem in plugins.broken[0].problem


def test_an_optional_hook_may_be_unknown() -> None:
    plugins = Plugins()
    add(plugins, "a", zoo_architectures=no_architectures, zoo_of_a_later_zoo=of_a_later_zoo)
    assert not plugins.broken
    assert plugins.hooks_of(plugins.loaded["a"]) == ["zoo_architectures"]


def commanding(name: str, *, then: Exception | None = None) -> Any:
    @hookimpl
    def zoo_commands(cli: click.Group) -> None:
        cli.add_command(click.Command(name, help=f"The command {name}."))
        if then is not None:
            raise then

    return zoo_commands


def test_no_command_of_a_plugin_replaces_another() -> None:
    plugins = Plugins()
    add(plugins, "a", zoo_commands=commanding("train"))
    add(plugins, "b", zoo_commands=commanding("mine"))
    add(plugins, "c", zoo_commands=commanding("mine"))
    add(plugins, "d", zoo_commands=commanding("half", then=RuntimeError("no")))
    commands = commands_of(plugins, frozenset(cli.commands.items()))
    assert set(commands) == {*cli.commands, "mine"}
    assert commands["train"] is cli.commands["train"]
    assert commands.owner("mine").plugin == plugins.loaded["b"]
    assert commands.problems == [
        "command 'train' of a (zoo-a 1.0) is ignored: seq2seq-zoo brings one of the same name",
        "command 'mine' of c (zoo-c 1.0) is ignored: b (zoo-b 1.0) brings one of the same name",
    ]
    assert [p.problem for p in plugins.broken] == ["zoo_commands raised RuntimeError: no"]


def test_a_plugin_s_command_runs_and_no_built_in_one_is_replaced(tmp_path: Path) -> None:
    put(tmp_path, "talker", COMMAND.format(name="talk", package="zoo-talker"))
    put(tmp_path, "thief", COMMAND.format(name="list", package="zoo-thief"))
    assert zoo(tmp_path, "talk").stdout == "from zoo-talker\n"
    assert "from zoo-thief" not in zoo(tmp_path, "list").stdout
    done = zoo(tmp_path, "plugins")
    assert "command talk" in done.stdout
    assert "command 'list' of thief (zoo-thief 1.0) is ignored: seq2seq-zoo brings" in done.stderr
    assert "Say where this comes from." in zoo(tmp_path, "--help").stdout
    zoo(tmp_path, "--no-plugins", "talk", code=2)


def test_the_names_that_a_plugin_brings(registry: Registry) -> None:
    core = registry.plugins.loaded["core"]
    brought = registry.brought_by(core)
    assert {"models", "recipes"} <= set(brought)
    assert sorted(brought["models"]) == sorted(registry.models)
    assert registry.brought_by(Plugin("core", "another", "1.0")) == {}


def test_zoo_plugins_as_a_table_and_as_json() -> None:
    shown = CliRunner().invoke(cli, ["plugins"]).stdout
    assert "architecture transformer" in shown
    rows = json.loads(CliRunner().invoke(cli, ["plugins", "rnnsearch", "--json"]).stdout)
    (row,) = rows["plugins"]
    assert row["adds"]["architectures"] == ["rnnsearch"]
    assert "zoo_architectures" in row["adds"]["hooks"]
    assert (row["status"], row["api"], row["problem"]) == ("loaded", API, "")


EXPORTED_BY_0_1 = [
    "Address", "Architecture", "Cache", "Callback", "Config", "Dataset", "Depth", "Dim", "Dropout",
    "Hub", "HubWarning", "Hypothesis", "LengthLimits", "Linear", "Metric", "Pair", "Past",
    "Recipe", "Registry", "Report", "Row", "Scheme", "Search", "Seq2Seq", "Table", "Translation",
    "Translator", "Validation", "Width", "ZooError", "create_model", "gather", "hookimpl",
    "linear", "list_checkpoints", "list_models", "list_plugins", "load", "pull", "push",
    "repeated", "softmax", "softmax_gradient", "train",
]  # fmt: skip


def test_every_name_that_version_0_1_exported_is_kept_or_listed() -> None:
    changes = (TOP / CHANGES).read_text(encoding="utf-8")
    for name in EXPORTED_BY_0_1:
        assert name in package.__all__ or f"| `zoo.{name}` | `zoo.nn." in changes, name
    # zoo.nn exports the names that the page lists.
    for name in re.findall(r"`zoo\.nn\.(\w+)", changes):
        assert name in nn.__all__, name
    assert set(package.__dir__()) == set(package.__all__)


def test_a_plugin_for_api_1_is_reported_in_one_line_with_the_page_of_changes(
    tmp_path: Path,
) -> None:
    code, problem = BROKEN["earlier"]
    put(tmp_path, "earlier", code)
    put(tmp_path, "silent", GOOD.format(name="silent").replace(f"ZOO_API = {API}", ""))
    done = zoo(tmp_path, "list", "models")
    first, second = done.stderr.splitlines()
    assert first == f"Warning: plugin earlier (zoo-earlier 1.0) is broken: {problem}"
    assert second == (
        "Warning: plugin silent (zoo-silent 1.0) is broken: "
        + problem.replace("zoo-earlier", "zoo-silent")
    )
    assert CHANGES in problem
    assert "`zoo plugins --api-changes`" in problem
    page = (TOP / CHANGES).read_text(encoding="utf-8").rstrip()
    assert zoo(tmp_path, "plugins", "--api-changes").stdout.rstrip() == page


RAISING = """
import click
from zoo import hookimpl

ZOO_API = 2

@click.command()
def explode():
    raise KeyError("no such thing")

@hookimpl
def zoo_commands(cli):
    cli.add_command(explode)
    cli.commands["odd"] = 3
    cli.commands[5] = click.Command("five")
    cli.commands["a b"] = click.Command("spaced")
    cli.add_command(click.Command("unhelpful", help=5))
"""


def test_a_command_that_raises_is_reported_in_one_line(tmp_path: Path) -> None:
    put(tmp_path, "raising", RAISING)
    done = zoo(tmp_path, "explode", code=1)
    assert done.stderr == (
        "Error: command 'explode' of raising (zoo-raising 1.0) is broken: it raised KeyError: "
        "'no such thing'. Report this to its author; ZOO_TRACEBACK=1 shows where\n"
    )
    shown = zoo(tmp_path, "explode", code=1, variables={"ZOO_TRACEBACK": "1"}).stderr
    assert 'raise KeyError("no such' in shown
    listed = zoo(tmp_path, "plugins")
    assert "command 'odd' of raising (zoo-raising 1.0) is ignored: 3 is no click.Command" in (
        listed.stderr
    )
    for ignored in (
        "command 5 of raising (zoo-raising 1.0) is ignored: its name needs letters",
        "command 'a b' of raising (zoo-raising 1.0) is ignored: its name needs letters",
        "command 'unhelpful' of raising (zoo-raising 1.0) is ignored: its help gave AttributeError",
    ):
        assert ignored in listed.stderr
    helped = zoo(tmp_path, "--help").stdout
    assert "explode" in helped
    assert "unhelpful" not in helped
