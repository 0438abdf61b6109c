"""What `zoo plugins` and the kit say about the entries of catalogues, and whose recipes count."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.core.test_plugins import module
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as zoo_command
from tests.shelves import registry_with
from zoo import Dataset, hookimpl
from zoo.registry.api import API
from zoo.registry.catalogue import CHECKPOINT_KEYS, MODEL_KEYS, PACKAGE_KEYS
from zoo.registry.catalogue_check import catalogue_problems
from zoo.registry.discovery import discover
from zoo.registry.owners import Plugin
from zoo.registry.registry import Registry

MODEL = """
[models.mine]
architecture = "transformer"
summary = "a model"
parameters = 716_264
source_vocab = 1000
target_vocab = 1000
config = { encoder_layers = 1, decoder_layers = 1, dim = 128, heads = 4, feedforward_dim = 256 }
"""
TIED = MODEL.replace("dim = 128", 'share = "all", dim = 128')


def registry_of(folder: Path, text: str, **packages: str) -> Registry:
    """Return a registry of the built-in plugins and of packages with these catalogues."""
    plugins = discover("")
    for name, catalogue in {"visitor": text, **packages}.items():
        file = folder / f"{name}.toml"
        file.write_text(f"format = 1\n{catalogue}", encoding="utf-8")

        @hookimpl
        def zoo_catalogues(file: Path = file) -> Iterable[Path]:
            return [file]

        plugins.add(module(zoo_catalogues=zoo_catalogues), Plugin(name, f"zoo-{name}", "1.0"))
    assert not plugins.broken
    return Registry(plugins)


def own(registry: Registry) -> list[str]:
    problems = [*registry.problems, *catalogue_problems(registry)]
    assert all("zoo-visitor" in problem for problem in problems)
    return problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[recipes."mine.multi30k"]\nlabel_smooting = 0.1',
         "recipes.mine.multi30k: unknown key 'label_smooting' (did you mean label_smoothing?)"),
        ('[recipes."mine.multi30k"]\nsteps = "many"', "steps = 'many': "),
        ('[recipes."mine.multi30k"]\nselect = "bleu"\nbleu_sentences = 0',
         "select = bleu needs sentences to score"),
        ('[recipes."mine.multi30k"]\nconfig = { heads = 3 }', "recipes.mine.multi30k: "),
        ('[recipes."mine.multi30k"]\nconfig = { head = 3 }', "unknown key 'head' (did you mean"),
        ('[recipes."mine.multi30k"]\nschedule = "cosin"',
         "schedule = 'cosin' is unknown (did you mean cosine?)"),
        ('[recipes."mine.multi30"]\nsteps = 1',
         "recipes.mine.multi30: there is no dataset 'multi30' (did you mean multi30k?)"),
        ('[recipes."mne.multi30k"]\nsteps = 1',
         "recipes.mne.multi30k: there is no model 'mne' (did you mean mine?)"),
        ("[recipes.nothing]\nsteps = 1", "recipes.nothing: there is no dataset 'nothing'"),
        ("[recipes.mine]\nsteps = 1",
         'write [recipes."mine.DATASET"], in quotes, for a dataset, or `recipe` in [models.mine]'),
        ("[recipes.mine.multi30k]\nsteps = 1", 'write [recipes."mine.multi30k"], in quotes'),
        (MODEL.replace("heads", "heds").replace("mine", "other"),
         "models.other: heads is missing; unknown key 'heds' (did you mean heads?)"),
        (MODEL.replace("716_264", "17").replace("mine", "other"),
         "models.other: it has 716,264 parameters, not 17"),
        (MODEL.replace("source_vocab = 1000", "source_vocab = 9999999999").replace("mine", "other"),
         "models.other: source_vocab = 9,999,999,999 is not from 1 to 10,000,000"),
        (MODEL.replace("mine", "other") + 'recipe = { shared_vocb = true }',
         "models.other: unknown key 'shared_vocb' (did you mean shared_vocab?)"),
        (MODEL.replace("mine", "other").replace('"transformer"', '"gone"'),
         "models.other: architecture 'gone' is not installed"),
        (MODEL.replace("mine", "other") + 'sumary = "x"', "unknown key 'sumary'"),
        ('[checkpoints."mine.multi30k"]\nmodel = "mine"\ndataset = "multi30k-en-de"\n'
         'summary = "s"', "checkpoints.mine.multi30k: there is no folder "),
        ('[recipes."mine.multi30k"]\nconfig = { heads = [2020-01-01] }',
         "recipes.mine.multi30k: 'config' has a date, a time, inf or nan"),
        ('[recipes."mine.multi30k"]\nwarmup = inf', "'warmup' has a date, a time, inf or nan"),
        ('[recipes."mine.multi30k"]\n' + "a." * 3000 + "a = 1", "'a' has over 20 levels"),
        (MODEL.replace("716_264", "0x" + "f" * 5000).replace("mine", "other"),
         "models.other: 'parameters' has an integer of over 64 bits"),
        (MODEL.replace("mine", "other") + "paper_parameters = 0",
         "models.other: 'paper_parameters' must be at least 1"),
        ("[surprise]\n", "unknown section [surprise]"),
    ],
)  # fmt: skip
def test_each_fault_is_reported_in_one_line_with_its_owner(
    tmp_path: Path, text: str, problem: str
) -> None:
    (reported,) = own(registry_of(tmp_path, MODEL + text))
    assert reported.startswith("visitor (zoo-visitor 1.0), visitor.toml")
    assert problem in reported
    assert "\n" not in reported


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (MODEL.replace("mine", '"a b"').replace("716_264", '"x"'),
         ["'a b' is not a valid name", "'parameters' must be an integer"]),
        (MODEL.replace("mine", "other").replace('"transformer"', '"gone"')
         .replace("= 1000", "= 0") + "recipe = { shared_vocb = true }",
         ["architecture 'gone' is not installed", "unknown key 'shared_vocb'",
          "source_vocab = 0 is not from 1", "target_vocab = 0 is not from 1"]),
        ('[checkpoints."a/b"]\nmodel = 3\nsummary = "s"\nlocation = "hf://a/b@main"\n'
         'files = { "../x" = { size = "1" } }',
         ["'a/b' is not a valid name", "'dataset' is missing", "'model' must be a string",
          "files.'../x' leads out of its folder", "files.'../x' 'size' must be an integer",
          "files.'../x' 'sha256' is missing", "must name a commit"]),
        ('[checkpoints.a]\nmodel = "m"\nlocation = "nowhere"',
         ["'dataset' is missing", "'summary' is missing", "is not an address",
          "'files' is missing"]),
        ("[packages.a]\nsummary = 3\ncheckpoints = [1]",
         ["'summary' must be a string", "'terms' is missing", "must be an array of strings"]),
        ("[recipes.numbers-en-fr]\nwarmup = inf\nconfig = { heads = nan }",
         ["'warmup' has a date", "'config' 'heads' has a date"]),
        ('[recipes."mine.multi30"]\nlabel_smooting = 0.1\nconfig = { head = 3 }',
         ["there is no dataset 'multi30'", "unknown key 'label_smooting'", "unknown key 'head'"]),
    ],
)  # fmt: skip
def test_all_faults_of_an_entry_are_reported_in_one_line(
    tmp_path: Path, text: str, faults: list[str]
) -> None:
    (reported,) = own(registry_of(tmp_path, MODEL + text))
    for fault in faults:
        assert reported.count(fault) == 1


def test_of_very_many_faults_the_first_are_reported_and_their_number(tmp_path: Path) -> None:
    files = "".join(f'"../{n}" = {{ }}\n' for n in range(50))
    text = '[checkpoints.a]\nmodel = "m"\ndataset = "d"\nsummary = "s"\n[checkpoints.a.files]\n'
    (reported,) = own(registry_of(tmp_path, text + files))
    assert reported.endswith("; and 100 more")


def test_the_catalogue_of_the_zoo_and_a_correct_one_have_no_faults(tmp_path: Path) -> None:
    text = f"""{MODEL}
[recipes."mine.multi30k"]
select = "bleu"
bleu_sentences = 10
config = {{ dropout = 0.2 }}
[recipes."mine.auto"]
steps = 2
"""
    assert own(registry_of(tmp_path, text)) == []


def test_a_model_that_needs_one_vocabulary_gets_it_without_a_recipe(tmp_path: Path) -> None:
    from zoo.training.plan import make_plan
    from zoo.training.request import TrainingRequest

    tied = TIED.replace("716_264", "460_264")
    registry = registry_of(tmp_path, tied)
    assert own(registry) == []
    request = TrainingRequest("mine", "shift", str(tmp_path / "run"))
    assert make_plan(registry, request).recipe.shared_vocab
    contradicting = registry_of(tmp_path, tied + "recipe = { shared_vocab = false }")
    assert any("shared_vocab must be true" in problem for problem in own(contradicting))
    two = registry_of(tmp_path, tied.replace("target_vocab = 1000", "target_vocab = 999"))
    assert "source_vocab and target_vocab must be equal" in own(two)[0]


def test_only_the_package_of_a_model_or_dataset_brings_its_recipes(tmp_path: Path) -> None:
    earlier = (
        '[recipes."mine.multi30k"]\nsteps = 1\n[recipes."transformer-tiny.shift"]\nsteps = 1\n'
    )
    registry = registry_of(
        tmp_path, MODEL + '[recipes."mine.multi30k"]\nsteps = 2\n', aardvark=earlier
    )
    assert registry.recipes["mine.multi30k"]["steps"] == 2
    assert "transformer-tiny.shift" not in registry.recipes
    assert registry.problems == [
        "recipe 'mine.multi30k' of aardvark (zoo-aardvark 1.0), aardvark.toml is ignored: only "
        "zoo-visitor may bring it, with model mine",
        "recipe 'transformer-tiny.shift' of aardvark (zoo-aardvark 1.0), aardvark.toml is ignored: "
        "only seq2seq-zoo may bring it, with model transformer-tiny",
    ]
    mine = tmp_path / "mine.toml"
    mine.write_text('format = 1\n[recipes."transformer-tiny.shift"]\nsteps = 3\n')
    registry.read_catalogue(mine)  # the user's own
    assert registry.recipes["transformer-tiny.shift"]["steps"] == 3


def test_the_recipe_of_a_dataset_belongs_to_its_package(tmp_path: Path) -> None:
    plugins = discover("")
    files = {}
    for name in ("a", "b"):
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(f"format = 1\n[recipes.words]\nsteps = {len(files)}\n")

    @hookimpl
    def zoo_datasets() -> Iterable[Dataset]:
        yield Dataset("words", "words", lambda split, limit: [])

    for name, more in (("a", {}), ("b", {"zoo_datasets": zoo_datasets})):

        @hookimpl
        def zoo_catalogues(file: Path = files[name]) -> Iterable[Path]:
            return [file]

        plugins.add(module(zoo_catalogues=zoo_catalogues, **more), Plugin(name, f"zoo-{name}", "1"))
    registry = Registry(plugins)
    assert registry.recipes["words"]["steps"] == 2
    assert "only zoo-b may bring it, with dataset words" in registry.problems[0]


CATALOGUED = f"""
from pathlib import Path
from zoo import hookimpl

ZOO_API = {API}

@hookimpl
def zoo_catalogues():
    yield Path(__file__).with_name("models.toml")
"""


def test_zoo_plugins_shows_the_faults_of_catalogues(tmp_path: Path) -> None:
    put(tmp_path, "wrong", CATALOGUED)
    (tmp_path / "models.toml").write_text('format = 1\n[recipes."mine.multi30k"]\nstep = 1\n')
    shown = json.loads(zoo_command(tmp_path, "plugins", "wrong", "--json").stdout)
    (problem,) = shown["problems"]
    assert "there is no model 'mine'" in problem
    assert "unknown key 'step' (did you mean steps?)" in problem


PAGE = Path(__file__).parents[2] / "docs" / "catalogue.md"


def test_the_page_of_the_catalogue_has_every_key_and_its_example_is_correct(
    tmp_path: Path,
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition('```toml title="models.toml"\n')
    example, _, _ = rest.partition("\n```\n")
    registry = registry_of(tmp_path, example.removeprefix("format = 1\n"))
    assert own(registry) == []
    entries = tomllib.loads(example)
    sections = {"models": MODEL_KEYS, "checkpoints": CHECKPOINT_KEYS, "packages": PACKAGE_KEYS}
    for section, keys in sections.items():
        (entry,) = entries[section].values()
        assert set(entry) == set(keys), section
        assert all(f"| `{key}` |" in page for key in keys)


DATASETS = """
from zoo import Dataset, Metric

def read(split, limit):
    yield "a", "b"

@hookimpl
def zoo_datasets():
    yield Dataset("own", "one", read, metrics=("bleu", "bleu_2", "exact_match", "capitals"))
    yield Dataset("wrong", "one", read, metrics=("capital",))

@hookimpl
def zoo_metrics():
    yield Metric("capitals", "one", "zoo.evaluation.segment_metrics:ExactMatch")
"""


def test_a_metric_of_a_dataset_that_is_unknown_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`zoo eval` refuses it, after training."""
    registry = registry_with(monkeypatch, DATASETS)
    problem = (
        "dataset 'wrong' of visitor (zoo-visitor 1.0) names the metric 'capital', which is unknown "
        "(did you mean capitals?)"
    )
    assert [p for p in catalogue_problems(registry) if "zoo-visitor" in p] == [problem]
