"""Names of released checkpoints, and the user's catalogue."""

import errno
import json
import multiprocessing
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from tests.hub.helpers import ADDRESS, NAME, fingerprint, refused
from tests.hub.server import Server
from tests.interop.huggingface import marian
from zoo.errors import (
    CatalogueError,
    CheckpointError,
    HubError,
    IntegrityError,
    UnknownNameError,
)
from zoo.hub import user_catalogue
from zoo.hub.pull import expected_files, pull, verify_files
from zoo.hub.user_catalogue import SECTIONS
from zoo.registry import catalogue
from zoo.registry.cache_folder import cache_folder
from zoo.registry.plugins import Plugins
from zoo.registry.registry import Registry, _registry_of, default_registry

Run = Callable[..., Result]


@pytest.fixture
def fresh(server: Server) -> Iterator[Callable[[], Registry]]:
    """A function that reads the catalogues again."""

    def make() -> Registry:
        _registry_of.cache_clear()
        return default_registry()

    yield make
    _registry_of.cache_clear()


def test_a_name_of_no_checkpoint_is_answered_with_near_ones(tmp_path: Path) -> None:
    with refused(CheckpointError, "did you mean rnnsearch-tiny.numbers-en-fr"):
        zoo.pull("rnnsearch-tiny.numbers-en-ft")
    for folder in (tmp_path, str(tmp_path)):
        with refused(HubError, f"'{tmp_path}' is not an address"):
            zoo.pull(folder)


def test_other_forms_of_a_checkpoint_are_answered_with_the_right_one(checkpoint: Path) -> None:
    with refused(CheckpointError, "a repository of the Hugging Face Hub is hf://ann/captions"):
        zoo.load("ann/captions")
    with refused(HubError, "is a page", "Write hf://ann/captions"):
        zoo.load("https://huggingface.co/ann/captions/tree/main")
    with refused(UnknownNameError, "unknown hub 'https'"):
        zoo.load("https://example.com/ann/captions")
    with refused(CheckpointError, "it is a file of one. Give the folder"):
        zoo.load(checkpoint / "model.safetensors")
    with refused(CheckpointError, "~ is your home folder only where a shell replaces it"):
        zoo.load("~/captions")


def test_a_name_always_gives_the_same_bytes(
    served: Server, checkpoint: Path, cache: Path, fresh: Callable[[], Registry], tmp_path: Path
) -> None:
    pinned = user_catalogue.add("mine", ADDRESS, fresh(), summary="a dog", terms="free")
    assert pinned.commit == served.repositories[NAME].branches["main"][-1].name
    other = Path(shutil.copytree(checkpoint, tmp_path / "other"))
    (other / "training.json").write_text("{}")
    served.put(NAME, other)
    registry = fresh()
    released = registry.checkpoints["mine"]
    assert (released.summary, released.terms, released.model) == ("a dog", "free", "rnnsearch-tiny")
    assert fingerprint(pull("mine", registry)) == fingerprint(checkpoint)
    requests = len(served.log)
    expected = zoo.load(checkpoint).translate(["the dog a runs", "dog q"])
    assert zoo.load("mine", registry=registry).translate(["the dog a runs", "dog q"]) == expected
    assert len(served.log) == requests, "the local copy is checked without a request"
    shutil.rmtree(cache)
    assert fingerprint(pull("mine", registry)) == fingerprint(checkpoint)


def test_a_hub_that_serves_other_bytes_for_the_same_commit(
    served: Server, checkpoint: Path, cache: Path, fresh: Callable[[], Registry]
) -> None:
    user_catalogue.add("mine", ADDRESS, fresh())
    shutil.rmtree(cache)
    files = served.repositories[NAME].branches["main"][-1].files
    files["config.json"] = files["config.json"]._replace(content=b"{}")
    with refused(IntegrityError, "config.json of", "does not match the catalogue", cache=cache):
        pull("mine", fresh())
    same_size = b"x" * (checkpoint / "config.json").stat().st_size
    files["config.json"] = files["config.json"]._replace(content=same_size)
    with refused(IntegrityError, "config.json of", "does not match its digest", cache=cache):
        pull("mine", fresh())


def test_a_folder_gets_a_name(
    fresh: Callable[[], Registry], checkpoint: Path, tmp_path: Path, run: Run
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "captions"))
    result = run("registry", "add", "dogs", folder)
    assert result.exit_code == 0, result.output
    registry = fresh()
    assert registry.checkpoints["dogs"].location.startswith(f"file://{folder}@")
    assert pull("dogs", registry) == folder
    assert run("pull", "dogs").stdout == f"{folder}\n"
    listed = json.loads(run("list", "checkpoints", "--json").stdout)["checkpoints"]
    assert "dogs" in [row["name"] for row in listed]
    (row,) = json.loads(run("registry", "list", "--json").stdout)
    assert (row["name"], row["location"]) == ("dogs", registry.checkpoints["dogs"].location)
    assert row["summary"] in run("registry", "list").stdout
    (folder / "config.json").write_text("{}")
    with refused(IntegrityError, "has changed"):
        zoo.load("dogs", registry=registry)
    assert run("registry", "remove", "dogs").exit_code == 0
    assert "dogs" not in fresh().checkpoints
    assert "lists no checkpoints" in run("registry", "list").stdout


def test_a_folder_whose_name_is_not_utf_8_gets_no_name(
    checkpoint: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """It ended in a traceback; a run names its data so, too."""
    folder = tmp_path / os.fsdecode(b"a\xffb")
    try:
        shutil.copytree(checkpoint, folder / "small")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    monkeypatch.chdir(folder)
    result = run("registry", "add", "mine", "small")
    reason = "it would name a file or a folder whose name is not UTF-8"
    assert result.exit_code == 1
    assert f"registry.toml cannot be written: {reason}. Rename it" in result.output
    assert not (tmp_path / "registry.toml").exists()
    Path("a.tsv").write_text("a b\tc d\n" * 9)
    with pytest.raises(CheckpointError, match=f"out.run cannot be written: {reason}"):
        zoo.train("rnnsearch-tiny", "a.tsv", "out", steps=1)


def test_a_released_name_and_an_alias_get_another_name(
    fresh: Callable[[], Registry], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = "seq2seq-tiny.numbers-en-fr"
    (tmp_path / "settings.toml").write_text(f'[aliases]\nnumbers = "{released}"\n')
    monkeypatch.setenv("ZOO_SETTINGS", str(tmp_path / "settings.toml"))
    fresh()
    for name, where in (("a", released), ("b", "numbers"), ("c", "a")):
        result = run("registry", "add", name, where)
        assert result.exit_code == 0, result.output
        registry = fresh()
        given = registry.checkpoints[name]
        assert given.terms == registry.checkpoints[released].terms != ""
        assert given.summary == registry.checkpoints["a"].summary
        assert pull(name, registry) == registry.checkpoints[released].folder
    unknown = run("registry", "add", "d", "seq2seq-tiny.numbers-en-fx").stderr
    assert "no checkpoint 'seq2seq-tiny.numbers-en-fx': did you mean" in unknown


def test_a_checkpoint_of_another_project_is_converted_before_it_gets_a_name(
    server: Server, fresh: Callable[[], Registry], tmp_path: Path, run: Run
) -> None:
    fresh()
    marian(tmp_path / "opus")
    server.put("them/opus", tmp_path / "opus")
    folder = tmp_path / "opus"
    for name, where in (("a", "hf://them/opus"), ("b", f"{folder}"), ("c", f"file://{folder}")):
        refused = run("registry", "add", name, where).stderr
        assert len(refused.splitlines()) == 1
        advice = f"`zoo convert {where} CHECKPOINT --dtype float32`; or write an alias"
        assert advice in refused
        out = tmp_path / name
        assert run("convert", where, out, "--dtype", "float32").exit_code == 0
        assert run("registry", "add", name, out).exit_code == 0
        terms = fresh().checkpoints[name].terms
        assert terms == "license of the imported weights: unknown"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_no_complete_checkpoint_gets_no_name(
    scheme: str, checkpoint: Path, fresh: Callable[[], Registry], tmp_path: Path
) -> None:
    for name, file in (("toy", "model.npz"), ("begun.run", "run.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    shutil.copytree(checkpoint, tmp_path / "part")
    (tmp_path / "part" / "model.safetensors").unlink()
    toy = f"{scheme}{tmp_path}/toy"
    for name, message in {
        "begun.run": f"Go on with `zoo train --resume --out {tmp_path}/begun`",
        "part": f"{tmp_path}/part is not a complete checkpoint: it has no model.safetensors",
        "toy": f"{toy} is not a checkpoint of the zoo. If another project wrote it, convert it and "
        f"name the result: `zoo convert {toy} CHECKPOINT --dtype float32`",
    }.items():
        with refused(CheckpointError, message):
            user_catalogue.add("mine", f"{scheme}{tmp_path / name}", fresh())


def test_a_repository_in_a_folder_gets_a_name(
    checkpoint: Path, fresh: Callable[[], Registry], tmp_path: Path
) -> None:
    zoo.push(checkpoint, f"file://{tmp_path}/shared")
    pinned = user_catalogue.add("mine", f"file://{tmp_path}/shared", fresh())
    assert pull("mine", fresh()) == tmp_path / "shared" / str(pinned.commit)


def test_a_file_that_may_not_be_read_is_a_fault_of_its_entry_alone(
    server: Server, fresh: Callable[[], Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "seq2seq-tiny.numbers-en-fr"

    def closed(folder: Path, expected: Any, of: str) -> None:
        if of == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        verify_files(folder, expected, of)

    monkeypatch.setattr(user_catalogue, "verify_files", closed)
    faults = {each.name: each.fault for each in user_catalogue.check(fresh())}
    assert "Permission denied" in faults.pop(name)
    assert not any(faults.values())


def test_a_missing_file_is_a_fault_of_its_entry_alone(
    checkpoint: Path, fresh: Callable[[], Registry], tmp_path: Path
) -> None:
    zoo.push(checkpoint, f"file://{tmp_path}/shared")
    for name in ("first", "second"):
        pinned = user_catalogue.add(name, f"file://{tmp_path}/shared", fresh())
    (tmp_path / "shared" / str(pinned.commit) / "README.md").unlink()
    faults = {each.name: each.fault for each in user_catalogue.check(fresh())}
    for name in ("first", "second"):
        assert "README.md of " in faults[name]
        assert "it is missing" in faults[name]
    assert faults["seq2seq-tiny.numbers-en-fr"] == ""


CATALOGUE = """# My names.
format = 1

[models.wide]            # a comment at the end of a line
architecture = "rnnsearch"
summary = "wide"
parameters = 1
source_vocab = 5
target_vocab = 5

# The one that I like.
[checkpoints.first]
model = "m"
dataset = "d"
summary = "s"
"""


def test_comments_and_order_are_kept(served: Server, fresh: Callable[[], Registry]) -> None:
    file = catalogue.user_catalogue()
    file.write_text(CATALOGUE)
    user_catalogue.add("second.one", ADDRESS, fresh())
    text = file.read_text()
    assert text.startswith(CATALOGUE)
    assert set(fresh().checkpoints) >= {"first", "second.one"}
    user_catalogue.remove("second.one")
    assert file.read_text().strip() == CATALOGUE.strip()
    with refused(CatalogueError, "'second.one' is not in"):
        user_catalogue.remove("second.one")


def test_invalid_and_taken_names(served: Server, fresh: Callable[[], Registry]) -> None:
    user_catalogue.add("mine", ADDRESS, fresh())
    with refused(CatalogueError, "'mine' is taken", "--replace"):
        user_catalogue.add("mine", ADDRESS, fresh())
    user_catalogue.add("mine", ADDRESS, fresh(), replace=True)
    for name in ("../x", "a/b", "", ".hidden", "a b", "rnnsearch", "rnnsearch-tiny", "a" * 300):
        with refused(CatalogueError, "is not a valid name for a checkpoint"):
            user_catalogue.add(name, ADDRESS, fresh())
    assert fresh().problems == []


def test_an_invalid_catalogue_is_not_overwritten(
    served: Server, fresh: Callable[[], Registry]
) -> None:
    file = catalogue.user_catalogue()
    for text in ("not = [toml", "format = 2", *(f"format = 1\n{s} = 3" for s in SECTIONS)):
        file.write_text(text)
        with refused(CatalogueError, "cannot be changed", "Correct it by hand first"):
            user_catalogue.add("mine", ADDRESS, fresh())
        with refused(CatalogueError, "cannot be changed", "Correct it by hand first"):
            user_catalogue.remove("mine")
        assert file.read_text() == text


MODEL = """[models.m]
architecture = "rnnsearch"
summary = "s"
parameters = 1
source_vocab = 5
target_vocab = 5
"""
ENTRY = 'model = "m"\ndataset = "d"\nsummary = "s"\n'
TABLES = f'[checkpoints.a]\n{ENTRY}{MODEL}[checkpoints."b.c"]\n{ENTRY}'
LAYOUTS = {
    "tables": f"format = 1\n{TABLES}",
    "sections": f"format = 1\n[checkpoints]\n[models]\n{TABLES}",
    "lines of Windows": f"format = 1\n{TABLES}".replace("\n", "\r\n"),
    "mark of Windows": f"\ufeffformat = 1\n{TABLES}",
    "short keys with dots":
        'format = 1\n[checkpoints]\na.model = "m"\na.dataset = "d"\na.summary = "s"\n',
    "inline": 'format = 1\ncheckpoints = { a = { model = "m", dataset = "d", summary = "s" } }\n',
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_added_name_changes_no_other_entry(
    fresh: Callable[[], Registry], checkpoint: Path, tmp_path: Path, layout: str
) -> None:
    file = tmp_path / "registry.toml"
    text = LAYOUTS[layout]
    file.write_bytes(text.encode())
    before = tomllib.loads(text.removeprefix("\ufeff"))
    user_catalogue.add("new.one", str(checkpoint), fresh())
    after = tomllib.loads(file.read_text())
    assert after["checkpoints"].pop("new.one")["model"] == "rnnsearch-tiny"
    assert after == before
    user_catalogue.remove("new.one")
    assert tomllib.loads(file.read_text()) == before
    user_catalogue.remove("a")
    del before["checkpoints"]["a"]
    after = tomllib.loads(file.read_text())
    assert after.pop("checkpoints", {}) == before.pop("checkpoints")
    assert after == before


def test_no_name_is_added_between_keys_with_dots(
    fresh: Callable[[], Registry], checkpoint: Path, tmp_path: Path
) -> None:
    """The library would write the new table after the first key: the others would be its own."""
    file = tmp_path / "registry.toml"
    keys = "".join(f"checkpoints.a.{line}" for line in ENTRY.splitlines(keepends=True))
    file.write_text(f"format = 1\n{keys}{MODEL}")
    before = file.read_text()
    with refused(CatalogueError, "cannot be changed", "Write them as tables first, such as ["):
        user_catalogue.add("new", str(checkpoint), fresh())
    assert file.read_text() == before
    user_catalogue.remove("a")
    assert not tomllib.loads(file.read_text()).get("checkpoints")


DIGEST = f'{{ size = 1, sha256 = "{"0" * 64}" }}'
ENTRIES = {
    "types": ('model = 3\ndataset = "d"\nsummary = "s"', "'model' must be a string"),
    "keys": ('model = "m"\ndataset = "d"\nsumary = "s"',
             "unknown key 'sumary' (did you mean summary?); 'summary' is missing"),
    "unpinned": (f'model = "m"\ndataset = "d"\nsummary = "s"\nlocation = "hf://a/b"\n'
                 f'files = {{ "config.json" = {DIGEST} }}', "must name a commit"),
    "undescribed": (f'model = "m"\ndataset = "d"\nsummary = "s"\nlocation = "hf://a/b@{"1" * 40}"',
                   "'files' is missing"),
    "nowhere": ('model = "m"\ndataset = "d"\nsummary = "s"\nlocation = "somewhere"',
                "'somewhere' is not an address"),
    "climber": (f'model = "m"\ndataset = "d"\nsummary = "s"\nfiles = {{ "../x" = {DIGEST} }}',
                "'../x' leads out of its folder"),
    "undigested": ('model = "m"\ndataset = "d"\nsummary = "s"\n'
                   'files = { "x" = { size = -1, sha256 = "0" } }', "64 hexadecimal digits"),
}  # fmt: skip


def test_27_all_faults_of_a_catalogue_are_reported(
    served: Server, checkpoint: Path, fresh: Callable[[], Registry], run: Run
) -> None:
    user_catalogue.add("good", ADDRESS, fresh())
    file = catalogue.user_catalogue()
    more = "".join(f"\n[checkpoints.{name}]\n{entry}\n" for name, (entry, _) in ENTRIES.items())
    more += '\n[checkpoints."../../up"]\nmodel = "m"\ndataset = "d"\nsummary = "s"\n'
    more += "\n[models.transformer-tiny]\narchitecture = 'x'\nsummary = 's'\nparameters = 1\n"
    more += "source_vocab = 5\ntarget_vocab = 5\n[surprise]\n"
    file.write_text(file.read_text() + more)
    registry = fresh()
    problems = registry.problems
    assert len(problems) == len(ENTRIES) + 3
    for name, (_, fault) in ENTRIES.items():
        assert any(f"{file}, checkpoints.{name}: " in line and fault in line for line in problems)
    assert any("checkpoints.../../up: '../../up' is not a valid name" in line for line in problems)
    assert any(
        "model 'transformer-tiny' of" in line and "ignored: core" in line for line in problems
    )
    assert any("unknown section [surprise]" in line for line in problems)
    assert fingerprint(pull("good", registry)) == fingerprint(checkpoint)
    result = run("pull", "good")
    assert result.exit_code == 0
    assert result.stderr.count("Warning: ") == len(problems)
    assert registry.checkpoints.keys() == {"good", *Registry(registry.plugins).checkpoints}


def test_27_only_the_catalogue_that_is_not_toml_is_ignored(
    server: Server, fresh: Callable[[], Registry], run: Run
) -> None:
    file = catalogue.user_catalogue()
    file.write_text("format = 1\n[checkpoints.x]\nmodel = = 3\n")
    registry = fresh()
    (problem,) = registry.problems
    assert str(file) in problem
    assert "line 3" in problem
    assert "the catalogue is ignored" in problem
    assert "rnnsearch-tiny" in registry.models
    assert run("list", "models").exit_code == 0


@pytest.mark.parametrize(
    "content", [b"\xff", b"x = " + b"[" * 100_000, b"format = 1\n" + b"#" * 10_000_001, b""]
)
def test_27_an_invalid_catalogue_is_never_fatal(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)
    registry = Registry(Plugins())
    registry.read_catalogue(file)
    (problem,) = registry.problems
    assert str(file) in problem
    assert len(problem) < 500


def test_check_reports_every_entry(served: Server, fresh: Callable[[], Registry], run: Run) -> None:
    user_catalogue.add("mine", ADDRESS, fresh())
    fresh()
    result = run("registry", "check")
    assert result.exit_code == 0, result.output
    assert "checkpoint mine" in result.stdout
    assert "good" in result.stdout
    commit = served.repositories[NAME].branches["main"][-1]
    commit.files["training.json"] = commit.files["training.json"]._replace(content=b"{}")
    checked = json.loads(run("registry", "check", "--json").stdout)
    (mine,) = [row for row in checked if row["name"] == "mine"]
    assert "training.json" in mine["fault"]
    del served.repositories[NAME]
    result = run("registry", "check")
    assert result.exit_code == 1
    assert "it does not exist, or it is private" in result.stdout


def test_a_released_checkpoint_of_a_package_is_verified(checkpoint: Path, tmp_path: Path) -> None:
    """Its folder is beside the catalogue, which has the digests of its files."""
    folder = tmp_path / "cards" / "checkpoints" / "small.dogs"
    shutil.copytree(checkpoint, folder)
    sums = fingerprint(folder)
    files = "".join(
        f'"{path}" = {{ size = {(folder / path).stat().st_size}, sha256 = "{sha256}" }}\n'
        for path, sha256 in sums.items()
    )
    (tmp_path / "registry.toml").write_text(
        'format = 1\n[checkpoints."small.dogs"]\nmodel = "rnnsearch-tiny"\ndataset = "dogs"\n'
        'summary = "dogs"\nterms = "free"\nscores = { bleu = 1.5, bleu_signature = "x" }\n'
        f'[checkpoints."small.dogs".files]\n{files}'
    )
    registry = Registry(default_registry().plugins)
    registry.read_catalogue(tmp_path / "registry.toml")
    assert registry.problems == []
    released = registry.checkpoints["small.dogs"]
    assert released.scores == {"bleu": 1.5, "bleu_signature": "x"}
    assert expected_files(released)["config.json"].sha256 == sums["config.json"]
    assert zoo.load("small.dogs", registry=registry).translate("the dog a runs")
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with refused(IntegrityError, "model.safetensors of small.dogs does not match its digest"):
        zoo.load("small.dogs", registry=registry)
    weights.unlink()
    with refused(IntegrityError, "it has no model.safetensors"):
        zoo.load("small.dogs", registry=registry)


def test_names_that_are_added_at_once_are_all_there(
    served: Server, checkpoint: Path, fresh: Callable[[], Registry]
) -> None:
    registry = fresh()
    begin = multiprocessing.get_context("fork").Event()

    def add(number: int) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            begin.wait()
            user_catalogue.add(f"name{number}", str(checkpoint), registry)
            code = 0
        finally:
            os._exit(code)

    children = [add(number) for number in range(8)]
    begin.set()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    contents = catalogue.read(catalogue.user_catalogue())
    assert sorted(contents.checkpoints) == [f"name{number}" for number in range(8)]


def test_a_name_that_was_taken_meanwhile_is_not_replaced(
    served: Server, checkpoint: Path, fresh: Callable[[], Registry]
) -> None:
    before = fresh()
    user_catalogue.add("mine", str(checkpoint), before, summary="first")
    with refused(CatalogueError, "'mine' is taken", "Replace it with --replace"):
        user_catalogue.add("mine", str(checkpoint), before, summary="second")
    assert fresh().checkpoints["mine"].summary == "first"


def test_a_broken_catalogue_is_named_once(
    fresh: Callable[[], Registry], checkpoint: Path, run: Run
) -> None:
    file = catalogue.user_catalogue()
    file.write_text("format = ")
    fresh()
    done = run("registry", "add", "mine", checkpoint)
    (error,) = [line for line in done.output.splitlines() if line.startswith("Error")]
    assert error.count(str(file)) == 1


def test_a_package_of_further_checkpoints(tmp_path: Path) -> None:
    file = tmp_path / "registry.toml"
    file.write_text(
        'format = 1\n[packages.zoo-attic]\nsummary = "attic"\nterms = "none"\n'
        'checkpoints = ["*.a"]\n'
        '[packages.wrong]\nsummary = "attic"\nterms = "none"\ncheckpoints = [3]\n'
    )
    registry = Registry(Plugins())
    registry.read_catalogue(file)
    assert registry.problems == [
        f"{file}, packages.wrong: 'checkpoints' must be an array of strings"
    ]
    assert [package.name for package in registry.absent_packages()] == ["zoo-attic"]
    assert not registry.absent_packages("small.b")
    error = str(registry.no_checkpoint("small.a"))
    assert error == (
        "no checkpoint 'small.a': it is in the package zoo-attic (none). pip install zoo-attic"
    )


def test_a_user_without_a_home_has_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for name in ("ZOO_CACHE", "ZOO_REGISTRY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert not catalogue.user_catalogue().exists()
    assert not cache_folder().exists()
    with pytest.raises(OSError, match="Not a directory"):
        cache_folder().mkdir(parents=True)
    assert "transformer-tiny.numbers-en-fr" in default_registry().checkpoints


def test_a_name_is_added_to_an_inline_table(
    fresh: Callable[[], Registry], checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "registry.toml"
    file.write_text("format = 1\ncheckpoints = {}\n")
    user_catalogue.add("dogs", str(checkpoint), fresh())
    assert "dogs" in tomllib.loads(file.read_text())["checkpoints"]


def test_a_catalogue_that_cannot_be_looked_for_is_a_warning(
    server: Server,
    fresh: Callable[[], Registry],
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container that runs as another user than the one of its HOME."""
    monkeypatch.setenv("ZOO_REGISTRY", str(tmp_path / ("x" * 300) / "registry.toml"))
    monkeypatch.delenv("ZOO_SETTINGS")
    (problem,) = fresh().problems
    assert problem.endswith("the catalogue is ignored")
    listed = run("list", "models")
    assert listed.exit_code == 0, listed.output
    assert listed.stderr == f"Warning: {problem}\n"
    for command in (("add", "mine", "seq2seq-tiny.numbers-en-fr"), ("remove", "mine")):
        *_, error = run("registry", *command).stderr.splitlines()
        assert error.startswith("Error: ")
        assert error.endswith("ZOO_REGISTRY can name another file")


def test_a_catalogue_that_is_a_pipe_does_not_wait(
    server: Server, fresh: Callable[[], Registry]
) -> None:
    os.mkfifo(catalogue.user_catalogue())
    with refused(CatalogueError, "cannot be changed: it is not a regular file", "ZOO_REGISTRY"):
        user_catalogue.add("mine", "seq2seq-tiny.numbers-en-fr", fresh())


@pytest.mark.parametrize("kind", ["model", "recipe"])
def test_a_config_that_raises_is_a_fault_of_its_entries(
    server: Server,
    fresh: Callable[[], Registry],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    fresh()

    def broken(*_: Any) -> None:
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(Registry, "config", broken)
    rows = json.loads(run("registry", "check", "--json").stdout)
    faults = {row["fault"] for row in rows if row["kind"] == kind}
    assert "RuntimeError: no luck" in faults


def test_names_of_files_may_begin_with_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell replaces ~ in quotes, or in the file of a service or a container."""
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("ZOO_REGISTRY", "~/names.toml")
    monkeypatch.setenv("ZOO_CACHE", "~/cache")
    assert catalogue.user_catalogue() == Path("/home/ann/names.toml")
    assert cache_folder() == Path("/home/ann/cache")
