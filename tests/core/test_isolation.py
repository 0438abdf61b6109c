"""What a dataset, a hub, a config or a network of a plugin raises is reported in one clear line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import torch

import zoo
from tests.core.test_plugins import module
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as zoo_command
from zoo import Config, Dataset, Pair, Scheme, Table, hookimpl
from zoo.checkpoint import checkpoint as folder_format
from zoo.errors import CheckpointError, DataError, HubError, PluginError, PluginWarning
from zoo.hub.contract import Hub
from zoo.hub.hubs import hub_of
from zoo.nn.build import build
from zoo.registry.address import Address
from zoo.registry.config import parameters_of
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry, default_registry


def raising(split: str, limit: int | None) -> Iterator[Pair]:
    yield Pair("a", "b")
    raise ZeroDivisionError("by zero")


def failing(split: str, limit: int | None) -> Iterator[Pair]:
    raise OSError("no disk")


def reading(*values: Any) -> Callable[[str, int | None], Iterable[Any]]:
    return lambda split, limit: values


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (failing, "split train gave OSError: no disk"),
        (raising, "split train gave ZeroDivisionError: by zero"),
        (reading("ab"), "'ab' is not a pair of texts"),
        (reading(("a",)), "('a',) is not a pair of texts"),
        (reading({"en": "a", "de": "b"}), "{'de': 'b', 'en': 'a'} is not a pair of texts"),
        (reading({"a", "b"}), "is not a pair of texts"),
        (reading(("a", "\ud800")), "UnicodeEncodeError: 'utf-8' codec can't encode"),
        (reading(("a", 1)), "('a', 1) is not a pair of texts"),
        (reading(None), "None is not a pair of texts"),
        (lambda split, limit: None, "'NoneType' object is not iterable"),
        (lambda split: [], "takes 1 positional argument but 2 were given"),
    ],
)
def test_a_dataset_that_raises_is_reported_in_one_line(read: Any, reason: str) -> None:
    with pytest.raises(PluginError, match=re.escape(reason)) as caught:
        Dataset("odd", "a test", read).load("train")
    assert str(caught.value).startswith("dataset 'odd' is broken: split train gave ")
    with pytest.raises(DataError, match="odd has no split 'test2'"):
        Dataset("odd", "a test", read).load("test2")


def test_a_dataset_may_yield_mappings() -> None:
    rows = {"source": "a", "target": "b", "id": 3}, ["c", "d"], ("e", "f")
    pairs = Dataset("x", "a test", reading(*rows)).load("train")
    assert pairs == [Pair("a", "b"), Pair("c", "d"), Pair("e", "f")]


DATASET = """
from zoo import Dataset, hookimpl

ZOO_API = 2

@hookimpl
def zoo_datasets():
    yield Dataset("odd", "a test", lambda split, limit: 1 / 0)
"""


def test_commands_report_a_dataset_that_raises_and_list_it(tmp_path: Path) -> None:
    put(tmp_path, "odd", DATASET)
    for command in ("data show odd", "train seq2seq-tiny --data odd --out x --steps 1"):
        done = zoo_command(tmp_path, *command.split(), code=1)
        line = done.stderr.splitlines()[-1]
        assert line.startswith("Error: dataset 'odd' of odd (zoo-odd 1.0) is broken: split "), line
    listed = json.loads(zoo_command(tmp_path, "list", "datasets", "--json").stdout)
    assert "odd" in {row["name"] for row in listed["datasets"]}


class Wrong(Hub):
    """A hub whose methods raise or return something else than the contract says."""

    def check(self, address: Address) -> None:
        if address.path == "refused":
            raise HubError("no such address")

    def listing(self, address: Address) -> Any:
        raise LookupError("lost")

    def local(self, address: Address) -> Any:
        return 3

    fetch = discard = record = create = commit = listing  # type: ignore[assignment]


class Unmade(Wrong):
    def __init__(self) -> None:
        raise ValueError("never")


def hub_registry(where: str) -> Registry:
    @hookimpl
    def zoo_hubs() -> Iterable[Scheme]:
        yield Scheme("wrong", "a test", where)

    plugins = Plugins()
    plugins.add(module(zoo_hubs=zoo_hubs), Plugin("wrong", "zoo-wrong", "1.0"))
    return Registry(plugins)


def test_a_hub_that_raises_is_reported_in_one_line() -> None:
    address = Address.parse("wrong://somewhere")
    what = r"hub wrong:// of wrong \(zoo-wrong 1.0\) is broken: "
    with pytest.raises(HubError, match=f"{what}local returned 3, not LocalCommit or NoneType"):
        zoo.pull("wrong://somewhere", registry=hub_registry(f"{__name__}:Wrong"))
    hub = hub_of(address, hub_registry(f"{__name__}:Wrong"))
    with pytest.raises(HubError, match=f"{what}listing raised LookupError: lost"):
        hub.listing(address)
    with pytest.raises(HubError, match=r"^no such address$"):
        hub_of(Address.parse("wrong://refused"), hub_registry(f"{__name__}:Wrong"))
    with pytest.raises(HubError, match=f"{what}its class raised ValueError: never"):
        hub_of(address, hub_registry(f"{__name__}:Unmade"))
    with pytest.raises(PluginError, match=f"{what}.*is no subclass of Hub"):
        hub_of(address, hub_registry(f"{__name__}:Registry"))
    with pytest.raises(PluginError, match="hub wrong:// is broken: nowhere:Hub gave"):
        hub_of(address, hub_registry("nowhere:Hub"))


class Plain(Config):
    """A config whose parts are replaced below."""

    @classmethod
    def example(cls) -> Self:
        return cls()

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        raise KeyError("dim")

    @property
    def width(self) -> int:
        return 1


class WithoutTable(Plain):
    def parameters(self, source_vocab: int, target_vocab: int) -> Any:
        return 3


class WithoutExample(Config):
    @property
    def width(self) -> int:
        return 1


def test_a_wrong_config_is_reported_in_one_line() -> None:
    with pytest.raises(PluginError, match=r"the config Plain of .*: parameters\(\) raised KeyErr"):
        parameters_of(Plain(), 5, 5)
    with pytest.raises(PluginError, match=r"parameters\(\) returned 3, not a Table"):
        parameters_of(WithoutTable(), 5, 5)
    with pytest.raises(PluginError, match="WithoutExample is not complete: it does not define exa"):
        WithoutExample.parse({}, "here")


class Raises(torch.nn.Module):
    """A network that cannot be made."""

    def __init__(self, *_: Any) -> None:
        raise TypeError("a wrong argument")


def test_a_network_that_raises_is_reported_in_one_line() -> None:
    reason = "the network Raises is broken: its constructor raised TypeError: a wrong argument"
    with pytest.raises(PluginError, match=reason):
        build(Raises, Plain(), 5, 5)  # type: ignore[arg-type]  # it is no network


def copied(parent: Path) -> Path:
    """Return a copy of a released checkpoint."""
    released = default_registry().checkpoints["seq2seq-tiny.numbers-en-fr"]
    folder = parent / "copy"
    folder.mkdir()
    for file in released.folder.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_an_architecture_of_another_package_is_warned_of(tmp_path: Path) -> None:
    """A package may bring another network under the same name, with weights of the same shapes."""
    folder = copied(tmp_path)
    folder_format.read(folder, default_registry())
    config = json.loads((folder / "config.json").read_text())
    config["plugin"] = {"package": "zoo-gone", "version": "3.1"}
    (folder / "config.json").write_text(json.dumps(config))
    now = "written with zoo-gone 3.1, and its architecture 'seq2seq' is now that of seq2seq-zoo: if"
    with pytest.warns(PluginWarning, match=now):
        folder_format.read(folder, default_registry())


def test_loading_names_the_writing_and_the_installed_version(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["plugin"] = {"package": "seq2seq-zoo", "version": "0.0.7"}
    config["config"]["hidden_dim"] += 1
    (folder / "config.json").write_text(json.dumps(config))
    both = f"it was written with seq2seq-zoo 0.0.7, and seq2seq-zoo {zoo.__version__} is installed"
    with pytest.raises(CheckpointError, match=re.escape(both)):
        folder_format.read(folder, default_registry())
    config["config"]["hiden"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(zoo.ZooError, match=re.escape(both)):
        folder_format.read(folder, default_registry())
    config |= {"architecture": "gone", "plugin": {"package": "zoo-gone", "version": "3.1"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(PluginError, match=r"with zoo-gone 3.1, which is not installed. Install zo"):
        folder_format.read(folder, default_registry())
    plugins = Plugins()
    plugins.reject(Plugin("gone", "zoo-gone", "4.0"), ImportError("no numba"))
    with pytest.raises(PluginError, match=r"gone \(zoo-gone 4.0\) did not load: ImportError"):
        folder_format.read(folder, Registry(plugins))
    plugins = Plugins(skipped=[Plugin("gone", "zoo-gone", "4.0")])
    reason = r"is installed, but --no-plugins or ZOO_PLUGINS leaves it out. Leave out --no-plugins"
    with pytest.raises(PluginError, match=rf"gone \(zoo-gone 4.0\) {reason}"):
        folder_format.read(folder, Registry(plugins))
