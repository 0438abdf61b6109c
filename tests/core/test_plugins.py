"""Plugins: discovery, isolation of broken ones, and their catalogues."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zoo import Architecture, Dataset, Engine, Format, Pair, Scheme, hookimpl
from zoo.errors import ArgumentError, PluginError, UnknownNameError
from zoo.registry.api import API
from zoo.registry.imports import import_object
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry


def plugin(name: str) -> Plugin:
    return Plugin(name, f"zoo-{name}", "1.0")


def module(**hooks: Any) -> SimpleNamespace:
    return SimpleNamespace(ZOO_API=API, **hooks)


def architecture(name: str) -> Architecture:
    return Architecture(name, "a test", "none", "nowhere:Config", "nowhere:Network")


def module_with_architectures(*names: str) -> SimpleNamespace:
    @hookimpl
    def zoo_architectures() -> Iterable[Architecture]:
        for name in names:
            yield architecture(name)

    return module(zoo_architectures=zoo_architectures)


def test_a_plugin_s_architectures_are_registered() -> None:
    plugins = Plugins()
    plugins.add(module_with_architectures("one", "two"), plugin("a"))
    registry = Registry(plugins)
    assert set(registry.architectures) == {"one", "two"}
    assert registry.plugin_of("two").distribution == "zoo-a"


def test_a_hook_that_raises_does_not_block_other_plugins() -> None:
    @hookimpl
    def zoo_architectures() -> Iterable[Architecture]:
        yield architecture("half")
        raise RuntimeError("no luck\ntoday")

    plugins = Plugins()
    plugins.add(module_with_architectures("good"), plugin("a"))
    plugins.add(module(zoo_architectures=zoo_architectures), plugin("b"))
    registry = Registry(plugins)
    assert set(registry.architectures) == {"good"}
    assert [p.problem for p in plugins.broken] == [
        "zoo_architectures raised RuntimeError: no luck today"
    ]


def test_values_of_the_wrong_type_are_ignored() -> None:
    @hookimpl
    def zoo_architectures() -> list[Any]:
        return ["a", architecture("good")]

    @hookimpl
    def zoo_datasets() -> list[Any]:
        return [None]

    plugins = Plugins()
    hooks = module(zoo_architectures=zoo_architectures, zoo_datasets=zoo_datasets)
    plugins.add(hooks, plugin("a"))
    registry = Registry(plugins)
    assert set(registry.architectures) == {"good"}
    assert registry.problems == [
        "zoo_architectures of a (zoo-a 1.0) returned 'a', which is not of type Architecture",
        "zoo_datasets of a (zoo-a 1.0) returned None, which is not of type Dataset",
    ]


def test_a_hook_that_forgets_return_and_a_path_without_a_colon_are_problems() -> None:
    @hookimpl
    def zoo_architectures() -> list[Architecture]:
        return [replace(architecture("a"), network="nets.Net"), architecture("good")]

    @hookimpl
    def zoo_datasets() -> Any:
        _ = [Dataset("d", "summary", lambda split, limit: [], ("en", "de"))]

    @hookimpl
    def zoo_engines() -> list[Engine]:
        return [Engine("e", "summary", "onnx", "engines"), Engine("f", "summary", "onnx", "a:B")]

    @hookimpl
    def zoo_formats() -> list[Format]:
        return [Format("x", "summary", importer="a:B"), Format("y", "summary", exporter="a.B")]

    hooks = (zoo_architectures, zoo_datasets, zoo_engines, zoo_formats)
    plugins = Plugins()
    plugins.add(module(**{hook.__name__: hook for hook in hooks}), plugin("a"))
    registry = Registry(plugins)
    assert plugins.problems == [
        "zoo_datasets of a (zoo-a 1.0) returned None: it needs `return` or `yield`, [] for nothing"
    ]
    of = "of a (zoo-a 1.0) is ignored: its"
    assert registry.problems == [
        f"an architecture {of} network is 'nets.Net', not 'package.module:Name'",
        f"a format {of} exporter is 'a.B', not 'package.module:Name'",
        f"an engine {of} runner is 'engines', not 'package.module:Name'",
    ]
    assert [*registry.architectures, *registry.engines, *registry.importers] == ["good", "f", "x"]


def test_a_registry_needs_plugins() -> None:
    with pytest.raises(ArgumentError, match="Registry: plugins is 3, not a value of type Plugins"):
        Registry(3)  # type: ignore[arg-type]  # wrong


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_declarations_with_odd_values_are_ignored() -> None:
    @hookimpl
    def zoo_architectures() -> list[Any]:
        return [Odd(), replace(architecture("a"), config=Odd), architecture("good")]  # type: ignore[arg-type]  # odd

    @hookimpl
    def zoo_datasets() -> list[Any]:
        def read(split: str, limit: int | None) -> list[Pair]:
            return []

        good: dict[str, Any] = {"name": "good", "summary": "a test", "read": read}
        odd: list[dict[str, Any]] = [{"languages": None}, {"splits": ()}, {"read": 3},
                                     {"terms": None}, {"files": ("a.txt",)},
                                     {"downloads": None}, {"tasks": {" ": ("", "")}},
                                     {"tasks": {"a:": "en"}}]  # fmt: skip
        return [Dataset(**{**good, **values}) for values in [*odd, {}]]

    plugins = Plugins()
    hooks = module(zoo_architectures=zoo_architectures, zoo_datasets=zoo_datasets)
    plugins.add(hooks, plugin("a"))
    registry = Registry(plugins)
    assert set(registry.architectures) == set(registry.datasets) == {"good"}
    first, second, *others = registry.problems
    assert first.startswith("zoo_architectures of a (zoo-a 1.0) returned <Odd instance at")
    assert second.startswith("an architecture of a (zoo-a 1.0) is ignored: its config is <class")
    assert others == [
        f"a dataset of a (zoo-a 1.0) is ignored: {fault}"
        for fault in (
            "its languages are None, not strings",
            "it needs two languages and at least one split",
            "its read is 3, which cannot be called",
            "its terms is None, not a string",
            "its files are ('a.txt',): each must be a Path",
            "its downloads are None: each must be a Download",
            "its tasks are {' ': ('', '')}, not tags, each with two languages, which may be empty",
            "its tasks are {'a:': 'en'}, not tags, each with two languages, which may be empty",
        )
    ]


def test_a_hub_whose_scheme_no_address_can_have_is_ignored() -> None:
    @hookimpl
    def zoo_hubs() -> list[Scheme]:
        return [Scheme(name, "a test", "nowhere:Hub") for name in ("S3", "my_hub", "s3+x")]

    plugins = Plugins()
    plugins.add(module(zoo_hubs=zoo_hubs), plugin("a"))
    registry = Registry(plugins)
    assert list(registry.hubs) == ["s3+x"]
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in registry.problems] == [
        "addresses cannot begin with S3://", "addresses cannot begin with my_hub://"
    ]  # fmt: skip


@pytest.mark.parametrize("equations", ["zoo:gone.md", "nowhere:equations.md"])
def test_equations_that_cannot_be_read_are_an_error_in_one_line(equations: str) -> None:
    with pytest.raises(PluginError, match=r"architecture 'one' is broken: its equations '.* gave"):
        replace(architecture("one"), equations=equations).equations_text()


@pytest.mark.parametrize("path", [Odd, "nowhere", "", ":Name", None])
def test_a_path_that_is_none_is_an_error_in_one_line(path: Any) -> None:
    with pytest.raises(PluginError, match=r"a test is broken: its path is .*, not 'package"):
        import_object(path, "a test")


@pytest.mark.parametrize("mark", [hookimpl(trylast=True), hookimpl(tryfirst=True)])
def test_no_plugin_comes_before_an_earlier_one(mark: Callable[[Any], Any]) -> None:
    later = module_with_architectures("one")
    later.zoo_architectures = mark(later.zoo_architectures)
    plugins = Plugins()
    plugins.add(module_with_architectures("one"), plugin("a"))
    plugins.add(later, plugin("b"))
    plugins.add(module_with_architectures("one"), plugin("c"))
    registry = Registry(plugins)
    assert registry.plugin_of("one").distribution == "zoo-a"
    assert [problem.partition(" is ")[0] for problem in registry.problems] == [
        f"architecture 'one' of {each} (zoo-{each} 1.0)" for each in "bc"
    ]


def test_a_hook_that_prints_or_panics_does_not_block(capsys: pytest.CaptureFixture[str]) -> None:
    class Panic(BaseException):
        pass

    @hookimpl
    def zoo_architectures() -> Iterable[Architecture]:
        print("hello")
        yield architecture("one")

    @hookimpl
    def zoo_datasets() -> list[Any]:
        raise Panic("no luck")

    plugins = Plugins()
    hooks = module(zoo_architectures=zoo_architectures, zoo_datasets=zoo_datasets)
    plugins.add(hooks, plugin("a"))
    assert set(Registry(plugins).architectures) == {"one"}
    assert capsys.readouterr() == ("", "hello\n")
    assert [each.problem for each in plugins.broken] == ["zoo_datasets raised Panic: no luck"]


def no_arguments() -> None:
    return None


def surprised(surprise: int) -> None:
    return None


@pytest.mark.parametrize(
    ("hook", "function", "problem"),
    [
        ("zoo_architectures", surprised,
         "wrong signature zoo_architectures(surprise): the hook is zoo_architectures()"),
        ("zoo_commands", surprised,
         "wrong signature zoo_commands(surprise): the hook is zoo_commands(cli)"),
        ("zoo_commands", no_arguments,
         "wrong signature zoo_commands(): the hook is zoo_commands(cli)"),
    ],
)  # fmt: skip
def test_a_hook_with_another_signature_is_broken(hook: str, function: Any, problem: str) -> None:
    plugins = Plugins()
    plugins.add(module(**{hook: hookimpl(function)}), plugin("a"))
    plugins.add(module_with_architectures("good"), plugin("b"))
    assert set(Registry(plugins).architectures) == {"good"}
    assert [each.problem for each in plugins.broken] == [problem]


def test_the_first_plugin_keeps_a_name_and_the_warning_names_both() -> None:
    plugins = Plugins()
    for name in ("a", "b"):
        plugins.add(module_with_architectures("same"), plugin(name))
    registry = Registry(plugins)
    first = registry.plugin_of("same")
    assert len(registry.architectures) == 1
    (problem,) = registry.problems
    assert str(first) == "a (zoo-a 1.0)"
    assert problem == (
        "architecture 'same' of b (zoo-b 1.0) is ignored: a (zoo-a 1.0) brings one of the same name"
    )


def test_an_architecture_that_cannot_be_imported_is_an_error() -> None:
    with pytest.raises(PluginError, match="nowhere:Config gave ModuleNotFoundError"):
        architecture("one").config_type()


def test_an_architecture_that_is_not_installed_is_an_error() -> None:
    plugins = Plugins()
    plugins.reject(plugin("a"), ImportError("no module named numba"))
    with pytest.raises(PluginError, match=r"a \(zoo-a 1.0\) did not load: ImportError"):
        Registry(plugins).architecture("gone")


ABSENT = "import this_is_not_installed\n"
OUR_OWN = "class Odd(Exception):\n    def __str__(self):\n        return self.gone\n"


@pytest.mark.parametrize(
    ("package", "module", "problem"),
    [
        ("", f"{ABSENT}ZOO_API = 2\n", "ModuleNotFoundError: No module named 'this_is_not_in"),
        ("", f"{ABSENT}ZOO_API: int = 2\n", "ModuleNotFoundError"),
        ("", f"{ABSENT}from zoo.registry.api import API as ZOO_API\n", "ModuleNotFoundError"),
        ("", f"{ABSENT}ZOO_API: int = 1\n", "it was written for version 1 of the plugin API"),
        ("", ABSENT, "it was written for version 1 of the plugin API or states no ZOO_API"),
        (f"print('hello')\n{ABSENT}", "ZOO_API = 2\n", "ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\n", "ZOO_API = 2\n", "SystemExit: 3"),
        ("", f"{OUR_OWN}raise Odd\nZOO_API = 2\n", "Odd: its text raised AttributeError"),
    ],
)
def test_a_broken_installed_plugin_does_not_block_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: str,
    module: str,
    problem: str,
) -> None:
    from zoo.registry.discovery import discover

    info = tmp_path / "zoo_broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nbroken = zoo_broken.plugin\n")
    (tmp_path / "zoo_broken").mkdir()
    (tmp_path / "zoo_broken" / "__init__.py").write_text(package)
    (tmp_path / "zoo_broken" / "plugin.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("zoo_broken", "zoo_broken.plugin"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    plugins = discover()
    assert [p.distribution for p in plugins.broken] == ["zoo-broken"]
    assert plugins.broken[0].problem.startswith(problem)
    assert capsys.readouterr().out == "", "standard output belongs to the command"
    assert set(Registry(plugins).architectures) >= {"rnnsearch", "transformer"}


def test_a_plugin_that_changes_the_working_directory_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.registry.discovery import discover

    info = tmp_path / "zoo_moves-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-moves\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[zoo]\nmoves = zoo_moves\n")
    (tmp_path / "zoo_moves.py").write_text(
        "import os, zoo\nZOO_API = 2\nos.chdir('/')\n"
        "@zoo.hookimpl\ndef zoo_datasets():\n    os.chdir('/')\n    return []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "zoo_moves", raising=False)
    before = Path.cwd()
    plugins = discover()
    assert Path.cwd() == before
    problem = "moves (zoo-moves 2.0) changes the working directory, which was restored"
    assert plugins.problems == [problem]
    assert not plugins.broken
    list(plugins.call("zoo_datasets"))
    assert Path.cwd() == before
    assert plugins.problems == [problem]


CATALOGUE = """
format = 1
[models.good]
architecture = "one"
summary = "fine"
parameters = 1
source_vocab = 5
target_vocab = 5
[models.bad]
architecture = 3
sumary = "misspelled"
[models.odd]
architecture = "one"
summary = "a bool is not a number"
parameters = true
source_vocab = 5
target_vocab = 5
[surprise]
"""


def test_all_errors_of_a_catalogue_are_listed_and_the_rest_is_usable(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(CATALOGUE)
    registry = Registry(Plugins())
    registry.read_catalogue(file)
    assert list(registry.models) == ["good"]
    problems = "\n".join(registry.problems)
    assert "unknown section [surprise]" in problems
    assert "unknown key 'sumary' (did you mean summary?)" in problems
    assert "'architecture' must be a string" in problems
    assert "'source_vocab' is missing" in problems
    assert "'parameters' must be an integer" in problems


@pytest.mark.parametrize(
    "content",
    [
        "not = [toml",
        "format = 2",
        "x = 1",
        "format = 1\nmodels = 3",
        "format = 1\nrecipes = [1]",
        "format = 1\n[[models]]",
        "format = 1\n[recipes.r]\nconfig = 3",
    ],
)
def test_a_file_that_is_not_a_catalogue_is_ignored(tmp_path: Path, content: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(content)
    registry = Registry(Plugins())
    registry.read_catalogue(file)
    assert len(registry.problems) == 1
    assert str(file) in registry.problems[0]


def test_a_plugin_s_catalogue_is_read(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(CATALOGUE)

    @hookimpl
    def zoo_catalogues() -> Iterable[Path]:
        return [file]

    plugins = Plugins()
    plugins.add(module(zoo_catalogues=zoo_catalogues), plugin("a"))
    registry = Registry(plugins)
    assert list(registry.models) == ["good"]
    assert registry.brought_by(plugins.loaded["a"]) == {"models": ["good"]}
    assert all("a (zoo-a 1.0), models.toml" in problem for problem in registry.problems)


def test_a_catalogue_with_the_mark_of_windows_editors_is_read(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f"\ufeff{CATALOGUE.strip()}")
    registry = Registry(Plugins())
    registry.read_catalogue(file)
    assert list(registry.models) == ["good"]


def test_near_names_are_suggested(registry: Registry) -> None:
    with pytest.raises(UnknownNameError, match="did you mean transformer-tiny"):
        registry.models.find("transformer-tinny")
    with pytest.raises(UnknownNameError, match=r"known are byt5-base, byt5-small, convs2s"):
        registry.models.find("zzz")
