"""Importers and exporters that a plugin brings: recognition, checks, refusals, the commands."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import zoo
import zoo.nn
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as run
from zoo import Format, Registry, hookimpl
from zoo.checkpoint.card import split_card
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, ConversionError, UnknownNameError
from zoo.files import write_json
from zoo.interop import Exporter, Imported, Importer, Reasons, Source
from zoo.interop.conversion import import_checkpoint
from zoo.interop.exporter import export_checkpoint
from zoo.interop.locate import locate
from zoo.registry.api import API
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins
from zoo.registry.registry import default_registry

TEXTS = ["a b c", "b c d"]


class Toy(Importer):
    """Reads `toy.json` and draws the weights from its seed."""

    options = {"keep": "which weights to return"}  # noqa: RUF012  # a class variable, as declared

    def recognizes(self, source: Source) -> bool:
        return source.has("toy.json")

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        described = source.json("toy.json")
        reasons = Reasons(f"{source} cannot be imported")
        reasons.check(described.get("layers") == 1, "it has not one layer")
        reasons.check("odd" not in described, "odd is not expressed")
        reasons.raise_if_any()
        tokenizer = Tokenizer.train(TEXTS, "word", 8)
        model = toy_network(described["seed"], tokenizer.size)
        weights: dict[str, Tensor] = dict(model.named_parameters())
        if options.get("keep") == "wrong":
            first, second, *_ = weights
            del weights[first]
            weights[second] = weights[second][:1]
            weights["more"] = torch.zeros(1)
        config = default_registry().config("seq2seq-tiny").model_dump(mode="json")
        return Imported("seq2seq", "seq2seq-tiny", config, weights, tokenizer, tokenizer)


class Words(Exporter):
    """Writes the vocabulary, if the model is small."""

    precisions = ("float32", "float16")

    def reasons(self, checkpoint: Checkpoint) -> list[str]:
        return ["its name has an x"] if "x" in checkpoint.name else []

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        write_json(folder / "words.json", {"size": checkpoint.model.source_vocab, "as": precision})


def toy_network(seed: int, vocab: int) -> zoo.nn.Seq2Seq:
    torch.manual_seed(seed)
    return zoo.create_model("seq2seq-tiny", source_vocab=vocab, target_vocab=vocab)


@pytest.fixture
def registry() -> Registry:
    @hookimpl
    def zoo_formats() -> Iterable[Format]:
        yield Format("toy", "a test", importer=f"{__name__}:Toy")
        yield Format("words", "a test", exporter=f"{__name__}:Words", architecture="seq2seq")

    plugins = Plugins()
    toy = Plugin("toy", "zoo-toy", "1.0")
    plugins.add(SimpleNamespace(ZOO_API=API, zoo_formats=zoo_formats), toy)
    for name in ("registry.builtin", "seq2seq"):
        module = importlib.import_module(f"zoo.{name}" if "." in name else f"zoo_{name}")
        plugins.add(module, Plugin(name, "zoo", "1.0"))
    return Registry(plugins)


def toy_folder(folder: Path, **values: object) -> Path:
    folder.mkdir()
    write_json(folder / "toy.json", {"layers": 1, "seed": 3, **values})
    return folder


@pytest.mark.filterwarnings("ignore:.* was written with:zoo.errors.PluginWarning")
def test_an_imported_checkpoint_is_the_network_that_the_importer_read(
    tmp_path: Path, registry: Registry
) -> None:
    out = tmp_path / "out"
    assert import_checkpoint(toy_folder(tmp_path / "toy"), out, registry) == "toy"
    checkpoint = read(out, registry)
    expected = toy_network(3, checkpoint.source_tokenizer.size).state_dict()
    weights = checkpoint.model.state_dict()
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert isinstance(zoo.load(out).translate("a b"), str)
    with pytest.raises(CheckpointError, match="already exists"):
        import_checkpoint(tmp_path / "toy", out, registry)


LICENSES = {
    "license: cc-by-nc-4.0": ("cc-by-nc-4.0", "cc-by-nc-4.0"),
    "license: [mit, cc-by-4.0]": (["mit", "cc-by-4.0"], "mit, cc-by-4.0"),
    "license: other\nlicense_name: theirs": ("other", "theirs"),
    "widget: []": ("unknown", "unknown"),
    "license: other\nlicense_name: [1]": ("other", "1"),
    "license: mit\nlicense_name: '[mit](x) `<b>`'": ("mit", "mit(x) b"),
    "license: [1]": ("unknown", "unknown (its README.md cannot be read)"),
}


@pytest.mark.parametrize("stated", LICENSES)
def test_an_import_keeps_the_license_and_the_metadata_of_its_origin(
    stated: str, tmp_path: Path, registry: Registry
) -> None:
    folder, out = toy_folder(tmp_path / "toy"), tmp_path / "out"
    card = f"---\nlibrary_name: toy\n{stated}\nlanguage: [no, de]\nauthors: [Ann]\n---\n# Toy\n"
    (folder / "README.md").write_text(card)
    import_checkpoint(folder, out, registry)
    metadata = split_card((out / "README.md").read_text(), "the card")[0]
    license, terms = LICENSES[stated]
    assert metadata["license"] == license
    assert metadata["library_name"] == "seq2seq-zoo"
    if "(" not in terms:  # the metadata is valid
        assert (metadata["language"], metadata["authors"]) == (["no", "de"], ["Ann"])
    about = read(out, registry).about
    assert about.terms == f"license of the imported weights: {terms}"


@pytest.mark.parametrize(
    ("file", "license", "terms"),
    [("toy.txt", "unknown", "unknown"), ("COPYING", "other", "see the file COPYING of toy")],
)
def test_an_import_without_a_card_has_no_license_of_its_own(
    file: str, license: str, terms: str, tmp_path: Path, registry: Registry
) -> None:
    folder, out = toy_folder(tmp_path / "toy"), tmp_path / "out"
    (folder / file).write_text("terms")
    import_checkpoint(folder, out, registry)
    assert f"\nlicense: {license}\n" in (out / "README.md").read_text()
    assert read(out, registry).about.terms == f"license of the imported weights: {terms}"


@pytest.mark.parametrize("link", ["LICENSE", "https://example.org/license"])
def test_a_link_to_a_license_that_is_not_copied_is_left_out(
    link: str, tmp_path: Path, registry: Registry
) -> None:
    folder = toy_folder(tmp_path / "toy")
    card = f"---\nlicense: other\nlicense_name: theirs\nlicense_link: {link}\n---\n"
    (folder / "README.md").write_text(card)
    import_checkpoint(folder, tmp_path / "in", registry)
    imported = (tmp_path / "in" / "README.md").read_text()
    (tmp_path / "in" / "README.md").write_text(card)
    export_checkpoint(read(tmp_path / "in", registry), "words", tmp_path / "out", registry)
    for text in (imported, (tmp_path / "out" / "README.md").read_text()):
        assert (f"\nlicense_link: {link}\n" in text) == ("://" in link)
        assert "\nlicense_name: theirs\n" in text


def test_a_file_has_no_license_of_what_lies_beside_it(tmp_path: Path, registry: Registry) -> None:
    folder = toy_folder(tmp_path / "toy")
    (folder / "README.md").write_text("---\nlicense: mit\nauthors: [Ann]\n---\n# A tool\n")
    import_checkpoint(folder / "toy.json", tmp_path / "out", registry)
    metadata = split_card((tmp_path / "out" / "README.md").read_text(), "the card")[0]
    assert metadata["license"] == "unknown"
    assert "authors" not in metadata
    terms = read(tmp_path / "out", registry).about.terms
    assert terms == "license of the imported weights: unknown"


def test_an_export_has_the_license_after_the_working_folder_changed(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_checkpoint(toy_folder(tmp_path / "toy"), tmp_path / "in", registry)
    (tmp_path / "in" / "README.md").write_text("---\nlicense: mit\n---\n")
    monkeypatch.chdir(tmp_path)
    made = read(Path("in"), registry)
    monkeypatch.chdir("/")
    export_checkpoint(made, "words", tmp_path / "out", registry)
    assert "\nlicense: mit\n" in (tmp_path / "out" / "README.md").read_text()


def test_a_card_that_is_changed_is_read_again(tmp_path: Path, registry: Registry) -> None:
    folder = toy_folder(tmp_path / "toy")
    assert "license: unknown" in (locate(folder, registry) / "README.md").read_text()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    assert "license: mit" in (locate(folder, registry) / "README.md").read_text()


def test_an_export_shows_the_license_of_the_checkpoint(tmp_path: Path, registry: Registry) -> None:
    import_checkpoint(toy_folder(tmp_path / "toy"), tmp_path / "in", registry)
    for number, line in enumerate(("license: mit", "license: [1]", "")):
        (tmp_path / "in" / "README.md").write_text(f"---\n{line}\nauthors: [Ann]\n---\n")
        out = tmp_path / str(number)
        export_checkpoint(read(tmp_path / "in", registry), "words", out, registry)
        card = (out / "README.md").read_text()
        assert ("\nlicense: mit\n" in card) == (line == "license: mit")
        assert ("- License: mit\n" if line == "license: mit" else "- License: unknown") in card
        assert ("\nauthors:\n- Ann\n" in card) == ("[1]" not in line)
        assert "- Terms: license of the imported weights: unknown\n" in card


def test_the_metadata_of_an_export_is_short_enough_to_be_read_again(
    tmp_path: Path, registry: Registry
) -> None:
    import_checkpoint(toy_folder(tmp_path / "toy"), tmp_path / "in", registry)
    (tmp_path / "in" / "README.md").write_text(f"---\nlicense: mit\nnotes: {'x' * 30_000}\n---\n")
    made = read(tmp_path / "in", registry)
    examples = tuple(f"{n} {'word ' * 300}" for n in range(100))
    made.about = replace(made.about, examples=examples, intended_use="tests")
    export_checkpoint(made, "words", tmp_path / "out", registry)
    metadata = split_card((tmp_path / "out" / "README.md").read_text(), "the card")[0]
    assert metadata["license"] == "mit"
    assert metadata["seq2seq-zoo"]["intended_use"] == "tests"
    assert "examples" not in metadata["seq2seq-zoo"]


COMPACT = {
    "many tags": f"tags: [{', '.join(f'a{n}' for n in range(7_000))}]",
    "a long line": f"note: {'x' * 49_950}",
    "pairs": "d: !!omap [a: 1]",
}


@pytest.mark.parametrize("name", COMPACT)
def test_metadata_that_a_new_card_cannot_hold_keeps_no_folder_from_being_read(
    name: str, tmp_path: Path, registry: Registry
) -> None:
    folder = toy_folder(tmp_path / "toy")
    card = f"---\nlicense: mit\n{COMPACT[name]}\n---\n# Toy\n"
    assert split_card(card, "the card")[0]["license"] == "mit"
    (folder / "README.md").write_text(card)
    import_checkpoint(folder, tmp_path / "in", registry)
    assert read(tmp_path / "in", registry).about.terms.endswith(": mit")
    (tmp_path / "in" / "README.md").write_text(card)
    export_checkpoint(read(tmp_path / "in", registry), "words", tmp_path / "out", registry)
    for made in ("in", "out"):
        metadata = split_card((tmp_path / made / "README.md").read_text(), made)[0]
        assert metadata["license"] == "mit"


def test_a_card_that_cannot_be_read_is_mentioned_without_its_path(
    tmp_path: Path, registry: Registry
) -> None:
    folder = toy_folder(tmp_path / "toy")
    (folder / "README.md").write_bytes(b"\xff")
    import_checkpoint(folder, tmp_path / "out", registry)
    terms = read(tmp_path / "out", registry).about.terms
    assert terms == "license of the imported weights: unknown (its README.md cannot be read)"


def test_a_device_is_no_checkpoint() -> None:
    with pytest.raises(ConversionError, match="cannot be read: it is a pipe or a device"):
        zoo.load(os.devnull)


def test_all_reasons_are_listed_at_once(tmp_path: Path, registry: Registry) -> None:
    folder = toy_folder(tmp_path / "toy", layers=2, odd=True)
    message = "cannot be imported: it has not one layer; odd is not expressed"
    with pytest.raises(ConversionError, match=message):
        import_checkpoint(folder, tmp_path / "out", registry)
    assert not (tmp_path / "out").exists()


def test_weights_that_do_not_fit_the_network_are_listed(tmp_path: Path, registry: Registry) -> None:
    folder = toy_folder(tmp_path / "toy")
    message = r"\S+ is missing; \S+ is \(1, .*\), not .*; more is not a weight of seq2seq"
    with pytest.raises(ConversionError, match=message):
        import_checkpoint(folder, tmp_path / "out", registry, "toy", {"keep": "wrong"})
    assert list(tmp_path.iterdir()) == [folder]


def test_unknown_names_and_files_are_answered_in_one_line(
    tmp_path: Path, registry: Registry
) -> None:
    folder = toy_folder(tmp_path / "toy")
    out = tmp_path / "out"
    with pytest.raises(UnknownNameError, match="unknown importer 'toi': did you mean toy"):
        import_checkpoint(folder, out, registry, "toi")
    with pytest.raises(UnknownNameError, match="unknown option of toy 'kep': did you mean keep"):
        import_checkpoint(folder, out, registry, "toy", {"kep": "all"})
    import_checkpoint(folder, out, registry)
    with pytest.raises(ConversionError, match="it is a checkpoint of the zoo already"):
        import_checkpoint(out, tmp_path / "again", registry)
    (tmp_path / "odd" / "config.json").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read: "):
        import_checkpoint(tmp_path / "odd", tmp_path / "again", registry)
    (folder / "toy.json").rename(folder / "other.json")
    out = tmp_path / "other"
    with pytest.raises(ConversionError, match="is of no known format: the formats are toy"):
        import_checkpoint(folder, out, registry)
    with pytest.raises(ConversionError, match=f"no file or folder '{tmp_path}/absent'"):
        import_checkpoint(tmp_path / "absent", out, registry)


def test_a_file_replaced_with_its_size_and_time_is_converted_anew(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder = toy_folder(tmp_path / "toy")
    first = locate(folder, registry)
    assert locate(folder, registry) == first
    file = folder / "toy.json"
    before = file.stat()
    file.write_text(file.read_text().replace("3", "4"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = locate(folder, registry)
    weights = [read(one, registry).model.state_dict() for one in (first, second)]
    assert not all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_source_reads_only_files_of_its_folder(tmp_path: Path) -> None:
    source = Source(toy_folder(tmp_path / "toy"))
    assert source.names == ("toy.json",)
    assert Source(tmp_path / "toy" / "toy.json").names == ("toy.json",)
    (tmp_path / "outside").write_text("{}")
    for name in ("../outside", str(tmp_path / "outside")):
        with pytest.raises(ConversionError, match="is outside its folder"):
            source.path(name)
    with pytest.raises(ConversionError, match="it has no absent"):
        source.text("absent")


def test_an_exporter_is_chosen_by_format_and_architecture(
    tmp_path: Path, registry: Registry
) -> None:
    import_checkpoint(toy_folder(tmp_path / "toy"), tmp_path / "small", registry)
    checkpoint = read(tmp_path / "small", registry)
    out = tmp_path / "exported"
    export_checkpoint(checkpoint, "words", out, registry)
    size = checkpoint.source_tokenizer.size
    assert json.loads((out / "words.json").read_text()) == {"size": size, "as": "float32"}
    with pytest.raises(CheckpointError, match="already exists"):
        export_checkpoint(checkpoint, "words", out, registry)
    checkpoint.name = "xs"
    message = "it has no precision 'int4': it has float32, float16; its name has an x"
    with pytest.raises(ConversionError, match=message):
        export_checkpoint(checkpoint, "words", tmp_path / "no", registry, "int4")
    checkpoint.architecture = "rnnsearch"
    message = "words has no exporter for rnnsearch: it has exporters for seq2seq"
    with pytest.raises(ConversionError, match=message):
        export_checkpoint(checkpoint, "words", tmp_path / "no", registry)
    with pytest.raises(UnknownNameError, match="unknown format 'wrods'"):
        export_checkpoint(checkpoint, "wrods", tmp_path / "no", registry)
    with pytest.raises(UnknownNameError, match="unknown format 'huggingface:t5'"):
        export_checkpoint(checkpoint, "huggingface:t5", tmp_path / "no", registry)
    assert not (tmp_path / "no").exists()


def test_an_error_lists_twenty_reasons(tmp_path: Path) -> None:
    reasons = Reasons("no")
    reasons.raise_if_any()
    for i in range(25):
        reasons.check(i < 0, f"r{i}.")
    with pytest.raises(ConversionError, match=re.escape("r19. and 5 more")):
        reasons.raise_if_any()


PLUGIN = f"""
from zoo import Format, hookimpl

ZOO_API = 2


@hookimpl
def zoo_formats():
    yield Format("toy", "a test", importer="{__name__}:Toy")
"""


def test_the_command_imports_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "toying", PLUGIN)
    folder, out = toy_folder(tmp_path / "toy"), tmp_path / "out"
    done = run(tmp_path, "import", str(folder), "--out", str(out))
    assert f"{out} is imported from {folder}, format toy" in done.stderr
    assert (out / "model.safetensors").is_file()
    wrong = run(tmp_path, "import", str(folder), "--out", str(out), "--option", "keep", code=2)
    assert "'keep' is not NAME=VALUE" in wrong.stderr
    listed = json.loads(run(tmp_path, "list", "importers", "--json").stdout)
    assert {"name": "toy", "summary": "a test"} in listed["importers"]
