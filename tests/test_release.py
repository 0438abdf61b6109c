"""The released checkpoints: what is promised of each is so, from the shipped files alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from zoo.checkpoint.card import split_card
from zoo.checkpoint.scores import command, metrics, read_scores
from zoo.hub.user_catalogue import check_released
from zoo.registry.builtin import top
from zoo.registry.catalogue import Released, read
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.plan import make_plan
from zoo.training.request import TrainingRequest

Run = Callable[..., Result]
RELEASED = read(top() / "registry.toml").checkpoints
FAMILIES = ("seq2seq", "rnnsearch", "convs2s", "transformer")
MOST = {"numbers-en-fr": 500_000, "multi30k-en-de": 4_000_000}
"""Parameters."""
NEAR = 0.1
"""Points of a score: see `cards/release.py`."""

each = pytest.mark.parametrize("released", RELEASED.values(), ids=RELEASED)


def test_every_family_has_both_tasks() -> None:
    assert set(RELEASED) == {f"{family}-tiny.{task}" for family in FAMILIES for task in MOST}


@each
def test_its_bytes_are_the_promised_ones(released: Released, registry: Registry) -> None:
    check_released(released, registry)
    assert released.folder.is_dir()
    assert set(released.files) == {
        str(file.relative_to(released.folder)) for file in released.folder.rglob("*.*")
    }, "every file is promised, and no other stands there"


def test_all_together_are_small() -> None:
    sizes = [promise.size for released in RELEASED.values() for promise in released.files.values()]
    assert sum(sizes) < 40_000_000


@each
def test_it_is_small_and_half_as_wide(released: Released) -> None:
    from safetensors import safe_open

    checkpoint = zoo.load(released.name).checkpoint
    count = sum(weight.numel() for weight in checkpoint.model.parameters())
    task = released.name.partition(".")[2]
    assert count <= MOST[task]
    assert count >= 2_000_000 or task != "multi30k-en-de"
    with safe_open(released.folder / "model.safetensors", "pt") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert kinds == {"F16"}


@each
def test_its_recipe_is_the_catalogue_s(released: Released, registry: Registry) -> None:
    training = json.loads((released.folder / "training.json").read_text())
    plan = make_plan(registry, TrainingRequest(released.model, released.dataset, "unused"))
    # Version 0.1, which trained them, spelled two keys in another way. Options that it did not have
    # yet are at their defaults.
    renamed = {"optimiser": "optimizer", "initialisation": "initialization"}
    recipe = {renamed.get(key, key): value for key, value in training["recipe"].items()}
    assert Recipe.parse(recipe, "training.json") == plan.recipe
    assert training["limit"] is None
    config = json.loads((released.folder / "config.json").read_text())["config"]
    assert type(plan.config).parse(config, "config.json") == plan.config


@each
def test_its_card_tells_everything(released: Released) -> None:
    metadata, text = split_card((released.folder / "README.md").read_text(), "")
    assert metadata["license"]
    for heading in ("Scores", "Recipe", "Curve", "Parameters", "Terms", "Examples", "Made by"):
        assert f"\n## {heading}\n" in text
    assert ("\n## Attention\n" in text) == (not released.name.startswith("seq2seq"))
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (released.folder / picture).is_file()
    scores = read_scores(released.folder)
    assert {told["split"] for told in scores} >= {"test"}
    for told in scores:
        assert told.get("command", command(told, released.name)) in text
        for metric in metrics(told):
            assert f"{told[metric]:.2f}" in text
    assert released.terms
    for name, value in released.scores.items():
        assert any(round(told.get(name, -1), 2) == value for told in scores)


@pytest.mark.parametrize("family", FAMILIES)
def test_its_scores_come_again(family: str, run: Run) -> None:
    """One checkpoint of each family; `make verify-release` does it for all."""
    released = RELEASED[f"{family}-tiny.numbers-en-fr"]
    (told,) = read_scores(released.folder)
    words = shlex.split(command(told, released.name))
    found = json.loads(run(*words[1:], "--json").stdout)
    for metric in metrics(told):
        assert abs(found[metric] - told[metric]) <= NEAR
    assert family == "seq2seq" or found["exact_match"] >= 99.9


def test_the_page_s_commands_run(run: Run) -> None:
    page = (Path(__file__).parents[1] / "docs" / "zoo.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block is not None
    listed, translated = (
        run(*shlex.split(line)[1:]) for line in block[1].splitlines() if line.startswith("zoo ")
    )
    assert listed.exit_code == translated.exit_code == 0
    assert all(name in listed.stdout for name in RELEASED)
    assert "Hunde" in translated.stdout


def test_the_corpora_are_not_in_the_repository() -> None:
    """But for the cards' examples, no line of them is."""
    data, here = os.environ.get("ZOO_DATA"), Path(__file__).parents[1]
    if not data or not (here / ".git").exists():
        pytest.skip("ZOO_DATA names no corpora, or this is no clone")
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
        found = {part.strip(" \"'`,") for part in re.split(r"[\n|]", text)} & lines
        card = name.startswith("cards/checkpoints/") and name.endswith("README.md")
        assert not found or (card and len(found) <= 15), (name, found)
