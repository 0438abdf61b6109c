"""The files of the released checkpoints agree with the catalogue and their cards."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.conftest import ImportScript
from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.scores import command, metrics, read_scores
from zoo.hub.user_catalogue import check_released
from zoo.registry.builtin import top
from zoo.registry.catalogue import Released, read
from zoo.registry.config import parse_settings
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, _fits
from zoo.training.plan import make_plan
from zoo.training.request import TrainingRequest
from zoo_corpora.generated import STYLES, spelled

Run = Callable[..., Result]
RELEASED = read(top() / "registry.toml").checkpoints
FAMILIES = ("seq2seq", "rnnsearch", "convs2s", "transformer")
MAX_PARAMETERS = {
    "numbers-en-fr": 500_000,
    "dates-en-iso": 600_000,
    "dates-iso": 600_000,
    "g2p-en": 2_000_000,
    "tatoeba-en-fr-76k": 12_000_000,
    "tatoeba-fr-en-76k": 12_000_000,
    "multi30k-en-de": 4_000_000,
    "multi30k-de-en": 4_000_000,
    "multi30k-en-fr": 4_000_000,
    "tasks": 12_000_000,
}
PACKED = {".safetensors": 0.95, ".png": 0.95}
"""What is left of files in a wheel, which is a ZIP archive, at most."""
PACKED_TEXT = 0.6
"""The same of texts."""
TOLERANCE = 0.1
"""In points of a score: see `cards/release.py`."""

each = pytest.mark.parametrize("released", RELEASED.values(), ids=RELEASED)


def test_every_family_has_numbers_and_captions() -> None:
    names = {f"{family}-tiny.{task}" for family in FAMILIES for task in MAX_PARAMETERS}
    tasks = ("numbers-en-fr", "multi30k-en-de")
    assert {f"{family}-tiny.{task}" for family in FAMILIES for task in tasks} <= set(RELEASED)
    assert set(RELEASED) <= names


def test_the_first_ones_translate_everyday_sentences_and_captions_from_english() -> None:
    """`zoo serve` without names offers the first, and the first of several for two languages."""
    first: dict[str, str] = {}
    for released in RELEASED.values():
        first.setdefault(released.dataset, released.model)
    assert list(first)[:3] == ["tatoeba-en-fr-76k", "tatoeba-fr-en-76k", "multi30k-en-de"]
    assert set(first.values()) == {"transformer-tiny"}


@each
def test_its_files_have_the_recorded_size_and_hash(released: Released, registry: Registry) -> None:
    check_released(released, registry)
    assert released.folder.is_dir()
    assert set(released.files) == {
        str(file.relative_to(released.folder)) for file in released.folder.rglob("*.*")
    }, "every file is recorded, and there are no others"


def test_the_size_of_a_wheel_is_small() -> None:
    packages = read(top() / "registry.toml").packages.values()
    own, packed = 0, dict.fromkeys((package.name for package in packages), 0.0)
    for name, released in RELEASED.items():
        sizes = [(Path(path).suffix, file.size) for path, file in released.files.items()]
        in_package = [package.name for package in packages if _fits(name, package)]
        for package in in_package:
            packed[package] += sum(PACKED.get(kind, PACKED_TEXT) * size for kind, size in sizes)
        own += 0 if in_package else sum(file.size for file in released.files.values())
    # A package index takes files of up to 100 MB; the zoo's own wheel is smaller by choice.
    assert 0 < own < 40_000_000
    assert all(0 < size < 100_000_000 for size in packed.values())


@pytest.mark.parametrize("name", ["transformer-tiny.multi30k-en-de", "seq2seq-tiny.multi30k-en-fr"])
def test_files_are_smaller_in_a_wheel(name: str) -> None:
    for path in RELEASED[name].files:
        content = (RELEASED[name].folder / path).read_bytes()
        bound = PACKED.get(Path(path).suffix, PACKED_TEXT) * len(content)
        assert len(zlib.compress(content)) < bound, path


@each
def test_it_is_small_and_in_float16(released: Released) -> None:
    from safetensors import safe_open

    checkpoint = zoo.load(released.name).checkpoint
    count = sum(weight.numel() for weight in checkpoint.model.parameters())
    task = released.name.partition(".")[2]
    assert count <= MAX_PARAMETERS[task]
    assert count >= 2_000_000 or task != "multi30k-en-de"
    with safe_open(released.folder / "model.safetensors", "pt") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert kinds == {"F16"}


@each
def test_its_recipe_is_the_one_in_the_catalogue(
    released: Released, registry: Registry, import_script: ImportScript
) -> None:
    training = json.loads((released.folder / "training.json").read_text())
    plan = make_plan(registry, TrainingRequest(released.model, released.dataset, "unused"))
    # They were trained with version 0.1, which spelled two keys differently. Options that were
    # added later have their defaults.
    renamed = {"optimiser": "optimizer", "initialisation": "initialization"}
    recipe = {renamed.get(key, key): value for key, value in training["recipe"].items()}
    if plan.recipe.precision == "auto":  # what was fastest where they were trained
        recipe["precision"] = "auto"
    larger: Mapping[str, float] = {}
    if "parent" in training:  # a teacher, from whose weights it is tuned
        scripts = import_script("training")
        _, *options = scripts.TUNED[released.folder.name]
        larger = scripts.LARGER if released.folder.name in scripts.TUNED_TWICE else {}
        settings = parse_settings([option for option in options if "=" in option])
        assert recipe.items() >= settings.items()
    else:
        assert Recipe.parse(recipe, "training.json") == plan.recipe
    assert training["limit"] is None
    config = json.loads((released.folder / "config.json").read_text())["config"]
    expected = plan.config.model_copy(update=dict(larger))
    assert type(plan.config).parse(config, "config.json") == expected


@each
def test_its_languages_are_those_of_its_data(released: Released, registry: Registry) -> None:
    """`zoo serve` offers each pair of languages to LibreTranslate's clients."""
    config = json.loads((released.folder / "config.json").read_text())
    about = About.parse(config["about"])
    of_data = About.of_dataset(registry.datasets[released.dataset])
    assert about.source_languages == of_data.source_languages
    assert about.target_languages == of_data.target_languages
    training = json.loads((released.folder / "training.json").read_text())
    assert about.origin == ("fine-tuned" if "parent" in training else "trained")


@each
def test_its_card_is_complete(released: Released) -> None:
    metadata, text = split_card((released.folder / "README.md").read_text(), "")
    assert metadata["license"]
    content = json.loads((released.folder / "config.json").read_text())
    assert f"\nIntended use: {content['about']['intended_use']}\n" in text
    for heading in (
        "Scores",
        "Recipe",
        "Training curve",
        "Parameters",
        "Terms",
        "Examples",
        "Failures",
        "Reproduce",
    ):
        assert f"\n## {heading}\n" in text
    assert ("\n## Attention\n" in text) == (not released.name.startswith("seq2seq"))
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (released.folder / picture).is_file()
    scores = read_scores(released.folder)
    assert {record["split"] for record in scores} >= {"test"}
    for record in scores:
        assert record.get("command", command(record, released.name)) in text
        for metric in metrics(record):
            assert f"{record[metric]:.2f}" in text
    assert released.terms
    for name, value in released.scores.items():
        assert any(round(record.get(name, -1), 2) == value for record in scores)
    of_seeds = json.loads((top() / "cards" / "seeds.json").read_text()).get(released.name)
    assert ("\n## Seeds\n" in text) == (of_seeds is not None)
    for split, values in of_seeds["1"].items() if of_seeds else ():
        for name, value in values.items():
            own = [record[name] for record in scores if record["split"] == split and name in record]
            assert not own or value in [round(score, 3) for score in own], "of another network"


@pytest.mark.parametrize("family", FAMILIES)
def test_its_scores_are_reproducible(family: str, run: Run) -> None:
    """One checkpoint per family; `make verify-release` verifies all."""
    released = RELEASED[f"{family}-tiny.numbers-en-fr"]
    (recorded,) = read_scores(released.folder)
    words = shlex.split(command(recorded, released.name))
    measured = json.loads(run(*words[1:], "--json").stdout)
    for metric in metrics(recorded):
        assert abs(measured[metric] - recorded[metric]) <= TOLERANCE
    assert family == "seq2seq" or measured["exact_match"] >= 99.9


def test_the_commands_of_the_page_run(run: Run) -> None:
    page = (Path(__file__).parents[1] / "docs" / "zoo.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    listed, translated = (
        run(*shlex.split(line)[1:]) for line in block[1].splitlines() if line.startswith("zoo ")
    )
    assert listed.exit_code == translated.exit_code == 0
    assert all(name in listed.stdout for name in RELEASED)
    assert "chaussures" in translated.stdout


def test_the_corpora_are_not_in_the_repository() -> None:
    """No file contains a line of a corpus, except for the examples in the cards."""
    data, here = os.environ.get("ZOO_DATA"), Path(__file__).parents[1]
    if not data or not (here / ".git").exists():
        pytest.skip("ZOO_DATA is not set, or this is not a clone")
    lines = {
        line.strip()
        for file in Path(data, "multi30k").iterdir()
        for line in file.read_text(encoding="utf-8").splitlines()
    }
    listed = subprocess.run(["git", "ls-files"], cwd=here, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (here / name).suffix in (".png", ".safetensors") or not (here / name).is_file():
            continue
        text = (here / name).read_text(encoding="utf-8")
        quoted = {part.strip(" \"'`,") for part in re.split(r"[\n|]", text)} & lines
        card = name.startswith("cards/checkpoints/") and name.endswith("README.md")
        # Sources and references at six percentiles, and of four kinds of failures.
        assert not quoted or (card and len(quoted) <= 2 * (6 + 4)), (name, quoted)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            "tatoeba-en-fr-76k",
            {
                "Hello.": "Bonjour.", "hello": "Bonjour !", "Hello!": "Bonjour !",
                "Good evening.": "Bonsoir.", "Goodbye.": "Au revoir.", "Yes.": "Oui.",
                "No.": "Non.", "Please.": "S'il vous plaît.", "Thank you.": "Merci.",
                "Merry Christmas!": "Joyeux Noël !", "My name is Anna.": "Je m'appelle Anna.",
                "I have 25 books.": "J'ai 25 livres.", "It costs 15 euros.": "Ça coûte 15 euros.",
                "The train leaves at 8:30.": "Le train part à 8 h 30.",
                "Sarah Connor lives in Paris.": "Sarah Connor habite à Paris.",
                "My name is Anna Berger.": "Je m'appelle Anna Berger.",
                "I'm from Germany.": "Je viens d'Allemagne.",
                "We are going to the beach on Saturday.": "Nous allons à la plage samedi.",
            },
        ),
        (
            "tatoeba-fr-en-76k",
            {
                "Bonjour.": "Hello.", "Bonjour !": "Hello!", "Bonsoir.": "Good evening.",
                "Au revoir.": "Goodbye.", "Oui.": "Yes.", "Merci.": "Thank you.",
                "S'il vous plaît.": "Please.", "Joyeux Noël !": "Merry Christmas!",
                "Je m'appelle Anna.": "My name is Anna.", "J'ai 25 livres.": "I have 25 books.",
                "Elle a 42 ans.": "She is 42 years old.", "De rien !": "You're welcome.",
                "Le train part à 8 h 30.": "The train leaves at 8:30.",
                "Je m'appelle Anna Berger.": "My name is Anna Berger.",
                "Je viens d'Allemagne.": "I'm from Germany.",
            },
        ),
    ],
)  # fmt: skip
def test_greetings_and_numbers_are_right(task: str, expected: dict[str, str]) -> None:
    """A visitor types them first."""
    translator = zoo.load(f"transformer-tiny.{task}")
    texts = translator.translate(list(expected))
    assert dict(zip(expected, texts, strict=True)) == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_short_and_round_numbers_are_right(family: str) -> None:
    """A visitor tries "ten". The test set has hardly any such number; training has most."""
    thousands = [1_000 * n for n in range(1, 1_000)]
    others = [1_000 * n + rest for n in range(1, 900, 37) for rest in (1, 7, 10, 21, 100)]
    numbers = [*range(1_000), *thousands, *others]
    translator = zoo.load(f"{family}-tiny.numbers-en-fr")
    for index, style in enumerate(STYLES.values()):
        half = numbers[index % 2 :: 2]
        texts = translator.translate([style(spelled(number, "en")) for number in half])
        pairs = zip(half, texts, strict=True)
        assert [number for number, text in pairs if text != spelled(number, "fr")] == []
