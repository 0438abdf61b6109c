"""Shelves: one class for every kind of named thing."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import hookimpl
from zoo.errors import UnknownNameError, did_you_mean
from zoo.registry.api import API
from zoo.registry.owners import Owner, Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry
from zoo.registry.shelf import Shelf

FIRST = Owner(Plugin("a", "package-a", "1.0"))
SECOND = Owner(Plugin("b", "package-b", "2.0"), Path("/somewhere/models.toml"))


def test_a_shelf_is_a_mapping_whose_names_have_owners() -> None:
    shelf: Shelf[int] = Shelf("recipe")
    shelf.add("x", 1, FIRST)
    shelf.add("y", 2, SECOND)
    shelf.add("z", 3)
    assert dict(shelf) == {"x": 1, "y": 2, "z": 3}
    assert shelf.find("y") == 2
    assert [str(shelf.owner(name)) for name in shelf] == [
        "a (package-a 1.0)",
        "b (package-b 2.0), models.toml",
        "seq2seq-zoo",
    ]
    assert shelf.plural == "recipes"
    assert FIRST.plugin is not None
    assert shelf.brought_by(FIRST.plugin) == ["x"]
    assert shelf.brought_by(Plugin("a", "another", "1.0")) == []


def test_a_clash_names_kind_owner_and_winner() -> None:
    shelf: Shelf[int] = Shelf("recipe")
    shelf.add("x", 1, FIRST)
    shelf.add("x", 2, SECOND)
    shelf.add("x", 3)
    assert shelf["x"] == 1
    assert shelf.problems == [
        "recipe 'x' of b (package-b 2.0), models.toml is ignored: a (package-a 1.0) brings one of "
        "the same name",
        "recipe 'x' of seq2seq-zoo is ignored: a (package-a 1.0) brings one of the same name",
    ]


def test_the_error_for_an_unknown_name_suggests_near_names() -> None:
    shelf: Shelf[int] = Shelf("metric", hint="See `zoo eval --help`")
    with pytest.raises(UnknownNameError, match="unknown metric 'x': none is known"):
        shelf.find("x")
    shelf.add("chrf", 1)
    message = "unknown metric 'chrff': did you mean chrf? See `zoo eval --help`"
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        shelf.find("chrff")


@pytest.mark.parametrize(("name", "meant"), [
    ("Transformer_Tiny", "transformer-tiny"),  # it differs in what people forget
    ("en-fr", "tiny.en-fr or tiny.numbers-en-fr or large.numbers-en-fr"),  # parts of names
    ("numbers-en-fx", "tiny.numbers-en-fr or large.numbers-en-fr"),
    ("embeding_dim", "embedding_dim"),
    ("en", ""),  # it is a part of too many
    ("y" * 101, ""),
])  # fmt: skip
def test_near_names_have_a_name_as_a_part_or_look_like_it(name: str, meant: str) -> None:
    known = ["large.numbers-en-fr", "tiny.numbers-en-fr", "tiny.en-fr", "transformer-tiny",
             "transformer-tiny-2", "embedding_dim"]  # fmt: skip
    assert did_you_mean(name, known) == (meant and f"did you mean {meant}?")


def test_what_is_no_text_is_an_unknown_name() -> None:
    shelf: Shelf[int] = Shelf("model")
    for name in (["tiny"], Path("seq2seq-tiny"), 3, None):
        with pytest.raises(UnknownNameError, match="unknown model") as error:
            shelf.find(name)  # type: ignore[arg-type]  # wrong
        assert type(name).__name__ in str(error.value) or str(name) in str(error.value)


def test_names_belong_to_a_plugin_not_to_a_prefix(tmp_path: Path) -> None:
    """A plugin whose name is the beginning of another's does not own the other's names."""
    file = tmp_path / "models.toml"
    file.write_text("format = 1\n[recipes.mine]\nsteps = 1\n")

    @hookimpl
    def zoo_catalogues() -> list[Path]:
        return [file]

    plugins = Plugins()
    module = SimpleNamespace(ZOO_API=API, zoo_catalogues=zoo_catalogues)
    plugins.add(module, Plugin("a, b", "zoo-a", "1.0"))
    registry = Registry(plugins)
    assert registry.brought_by(plugins.loaded["a, b"]) == {"recipes": ["mine"]}
    assert registry.brought_by(Plugin("a", "zoo-a", "1.0", api=API)) == {}
    assert registry.recipes.owner("mine") == Owner(plugins.loaded["a, b"], file)
    assert registry.shelves["recipes"] is registry.recipes


def test_a_checkpoint_of_a_repository_and_of_its_package_is_one(tmp_path: Path) -> None:
    """Two entries of the same name with the same files need no warning; others do."""
    entry = (
        'format = 1\n[checkpoints."m.d"]\nmodel = "m"\ndataset = "d"\nsummary = "s"\n'
        'location = "hf://a/b@{commit}"\n[checkpoints."m.d".files]\n'
        '"model.safetensors" = {{size = 1, sha256 = "{digest}"}}\n'
    )
    registry = Registry(Plugins())
    files = [tmp_path / name for name in ("first.toml", "same.toml", "other.toml")]
    for file, digest in zip(files, ("a", "a", "b"), strict=True):
        file.write_text(entry.format(commit="0" * 40, digest=digest * 64))
        registry.read_catalogue(file)
    assert registry.checkpoints.owner("m.d") == Owner(None, files[0])
    assert registry.problems == [
        f"checkpoint 'm.d' of {files[2]} is ignored: {files[0]} brings one of the same name"
    ]
