"""Formats and engines of plugins that raise or return something else: one line, and isolated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.checkpoints import SOURCES, checkpoint
from tests.shelves import registry_with
from zoo.errors import ConversionError, PluginError, PluginWarning
from zoo.interop import Source
from zoo.interop.conversion import formats_of, import_checkpoint
from zoo.interop.exporter import export_checkpoint
from zoo.registry.catalogue_check import entry_problems
from zoo.translation.translator import Translator

IMPORTERS = """
from zoo import Format
from zoo.interop import Importer

class Attic(Importer):
    def recognizes(self, source):
        return True

    def read(self, source, options):
        return {read}

class Raises(Attic):
    def recognizes(self, source):
        raise ValueError("no\\nluck")

class Wrong(Attic):
    files = 5

    def recognizes(self, source):
        return "yes"

@hookimpl
def zoo_formats():
    yield Format("attic", "a format", importer="zoo_visitor:Attic")
    for name in ("Raises", "Wrong", "Nowhere"):
        yield Format(name.lower(), "a broken one", importer=f"zoo_visitor:{{name}}")
"""

EXPORTER = """
import zoo.interop
from zoo import Engine, Format

class Attic(zoo.interop.Exporter):
    def reasons(self, checkpoint):
        return {reasons}

    def write(self, checkpoint, folder, precision):
        {write}

class Loom(zoo.interop.Runner):
    @classmethod
    def load(cls, folder, checkpoint, threads):
        return {load}

    def reasons(self, options):
        return []

    def search(self, sources, options):
        return {search}

@hookimpl
def zoo_formats():
    yield Format("attic", "a format", exporter="zoo_visitor:Attic")

@hookimpl
def zoo_engines():
    yield Engine("loom", "an engine", format="attic", runner="zoo_visitor:Loom")
"""
GOOD = {"reasons": "[]", "write": "pass", "load": "cls()", "search": "[None] * len(sources)"}
WHO = "of visitor \\(zoo-visitor 1.0\\) is broken"


def test_broken_importers_are_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    registry = registry_with(monkeypatch, IMPORTERS.format(read="None"))
    with pytest.warns(PluginWarning) as warned:
        assert formats_of(Source(tmp_path), registry) == ["attic"]
    messages = [str(one.message) for one in warned]
    assert len(messages) == 3
    for message, part in zip(
        messages, ("recognizes raised ValueError: no luck.", "returned 'yes', not bool", "gave"),
        strict=True,
    ):  # fmt: skip
        assert "of visitor (zoo-visitor 1.0) is broken: " in message
        assert part in message


@pytest.mark.parametrize(
    ("read", "reason"),
    [("None", "read returned None, not Imported"), ("1 / 0", "read raised ZeroDivisionError: ")],
)
def test_an_importer_that_cannot_read_is_named(
    read: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    registry = registry_with(monkeypatch, IMPORTERS.format(read=read))
    with pytest.raises(PluginError, match=f"format 'attic' {WHO}: {reason}"):
        import_checkpoint(tmp_path, tmp_path / "out", registry, "attic")
    assert not (tmp_path / "out").exists()


IMPORTED = """
from zoo import Format
from zoo.interop import Imported, Importer
from tests.interop.checkpoints import checkpoint

class Attic(Importer):
    def recognizes(self, source):
        return True

    def read(self, source, options):
        made = checkpoint("seq2seq")
        weights = {{name: weight.detach() for name, weight in made.model.named_parameters()}}
        config, tokenizer = made.config.model_dump(mode="json"), made.source_tokenizer
        given = {{"weights": weights, "config": config, "source_tokenizer": tokenizer,
                 "target_tokenizer": tokenizer}}
        return Imported(**{{"architecture": "seq2seq", "model_name": "x", **given, **{parts}}})

@hookimpl
def zoo_formats():
    yield Format("attic", "a format", importer="zoo_visitor:Attic")
"""


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ('{"config": None}', f"format 'attic' {WHO}: read returned config=None, not Mapping"),
        (
            '{"source_tokenizer": None}',
            f"{WHO}: read returned source_tokenizer=None, not T",
        ),
        ('{"about": {"data": "x"}}', f"{WHO}: read returned about={{'data': 'x'}}, not About"),
        ('{"weights": [weights]}', rf"{WHO}: read returned weights=\[.*, not Mapping"),
        ('{"weights": {n: w.numpy() for n, w in weights.items()}}', "weight is not a tensor"),
    ],
)
def test_an_importer_that_returns_wrong_parts_is_named(
    parts: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    registry = registry_with(monkeypatch, IMPORTED.format(parts=parts))
    with pytest.raises((PluginError, ConversionError), match=reason):
        import_checkpoint(tmp_path, tmp_path / "out", registry, "attic")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"reasons": "1 / 0"}, "reasons raised ZeroDivisionError: "),
        ({"reasons": "5"}, "reasons returned 5, not list or tuple"),
        ({"write": "raise KeyError('a')"}, "write raised KeyError: 'a'"),
    ],
    ids=str,
)
def test_an_exporter_that_raises_is_named_and_leaves_nothing(
    broken: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry = registry_with(monkeypatch, EXPORTER.format(**{**GOOD, **broken}))
    with pytest.raises(PluginError, match=f"format 'attic' {WHO}: {reason}"):
        export_checkpoint(checkpoint("rnnsearch"), "attic", tmp_path / "out", registry)
    assert [*tmp_path.iterdir()] == []


def test_a_reason_that_is_no_text_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {**GOOD, "reasons": "[ValueError('no looms'), 5]"}
    registry = registry_with(monkeypatch, EXPORTER.format(**given))
    with pytest.raises(ConversionError, match=r"cannot be exported to attic: no looms; 5$"):
        export_checkpoint(checkpoint("rnnsearch"), "attic", tmp_path / "out", registry)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"load": "None"}, "load returned None, not Runner"),
        ({"load": "1 / 0"}, "load raised ZeroDivisionError: "),
        ({"search": "1 / 0"}, "search raised ZeroDivisionError: "),
        ({"search": "[]"}, "search returned 0 results for 3 sentences"),
        ({"search": "['x'] * len(sources)"}, "search returned 'x' for a sentence, not hypotheses"),
    ],
    ids=str,
)
def test_an_engine_that_fails_is_named(
    broken: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    registry = registry_with(monkeypatch, EXPORTER.format(**{**GOOD, **broken}))
    with pytest.raises(PluginError, match=f"engine 'loom' {WHO}: {reason}"):
        Translator(checkpoint("rnnsearch"), engine="loom", registry=registry).translate(
            SOURCES[:3], split=False
        )


def test_an_engine_without_an_exporter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    code = EXPORTER.format(**GOOD).replace('format="attic"', 'format="atic"')
    registry = registry_with(monkeypatch, code)
    with pytest.raises(
        PluginError, match=f"engine 'loom' {WHO}: no package exports its format 'atic'"
    ):
        Translator(checkpoint("rnnsearch"), engine="loom", registry=registry)


def test_an_engine_of_a_plugin_works_as_a_builtin_one_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    registry = registry_with(monkeypatch, EXPORTER.format(**GOOD))
    made = checkpoint("rnnsearch")
    assert Translator(made, engine="loom", registry=registry).translate(SOURCES) == Translator(
        made
    ).translate(SOURCES)


NAMES = """
from zoo import Engine, Format, Metric, Scheme

@hookimpl
def zoo_formats():
    yield Format("a format", "one", importer="zoo_visitor:Attic")
    yield Format("attic", "one", importer="zoo_visitor:Attic", exporter="zoo_visitor:Attic")

@hookimpl
def zoo_engines():
    yield Engine(3, "one", format="attic", runner="zoo_visitor:Loom")
    yield Engine("loom", "one", format="atic", runner="zoo_visitor:Loom")

@hookimpl
def zoo_metrics():
    yield Metric("", "one", "zoo_visitor:Count")
    yield Metric("count", "one", "zoo_nowhere:Count")

@hookimpl
def zoo_hubs():
    yield Scheme("my hub", "one", "zoo_visitor:Hub")
    yield Scheme("hub", "one", "zoo_visitor.Hub")
"""


def test_names_and_paths_of_all_kinds_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, NAMES)
    who = "of visitor (zoo-visitor 1.0)"
    rule = "letters, digits, _, -, + and . are allowed"
    assert sorted(registry.problems) == [
        f"a format {who} is ignored: its name is 'a format': {rule}",
        f"a hub {who} is ignored: its hub is 'zoo_visitor.Hub', not 'package.module:Name'",
        f"a hub {who} is ignored: its name is 'my hub': {rule}",
        f"a metric {who} is ignored: its name is '': {rule}",
        f"an engine {who} is ignored: its name is 3: {rule}",
    ]
    problems = entry_problems(registry)
    for entry in ("metric 'count'", "importer 'attic'", "exporter 'attic'"):
        (problem,) = (one for one in problems if one.startswith(f"{entry} {who} is broken: zoo_"))
        assert " gave " in problem
    assert problems[-2].startswith(f"engine 'loom' {who} is broken: zoo_visitor:Loom gave ")
    assert problems[-1] == (f"engine 'loom' {who} is broken: no package exports its format 'atic'")
