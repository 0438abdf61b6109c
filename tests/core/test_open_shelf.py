"""Open shelves: entries of plugins, their options, and broken ones."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.shelves import registry_with
from zoo.errors import ConfigError, PluginError, UnknownNameError
from zoo.registry.catalogue_check import catalogue_problems, entry_problems
from zoo.registry.discovery import discover
from zoo.registry.entries import Schedule
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.plan import unknown_names
from zoo.training.schedule import Progress, make_schedule

CODE = """
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal
from pydantic import Field
from zoo import Schedule
if TYPE_CHECKING:
    from zoo import Recipe

@hookimpl
def zoo_schedules():
    for name in ("waves", "absent", "number", "narrow", "untyped", "raises", "weird", "endless"):
        yield Schedule(name, "a test", f"zoo_visitor:{name}")
    yield Schedule("elsewhere", "a test", "no_such_module:Name")
    yield Schedule("quits", "a test", "zoo_quits:Name")
    yield Schedule("cosine", "another cosine", "zoo_visitor:waves")
    yield Schedule("pathless", "a test", "waves")
    yield Schedule(3, "a test", "zoo_visitor:waves")

@dataclass
class waves:
    recipe: Recipe
    period: int = 100
    low: Annotated[float, Field(ge=0)] = 0.0
    shape: Literal["cosine", "line"] = "line"
    steps: tuple[int, ...] = ()
    factor = 1.5

    def __call__(self, progress):
        return self.low + progress.step % self.period

number = 3

def narrow():
    return None

def untyped(recipe, period=None):
    return None

def raises(recipe):
    raise RuntimeError("no\\nluck")

def weird(recipe, name: str = ""):
    return None

def endless(recipe, *, limit: int):
    return lambda progress: limit / 0
"""


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return registry_with(monkeypatch, CODE)


def test_an_entry_is_made_with_its_options(visitor: Registry) -> None:
    assert visitor.schedules.owner("cosine").plugin.builtin  # type: ignore[union-attr]  # it has one
    named = {"name": "waves", "period": 7, "low": 2, "steps": [1, 2], "shape": "cosine"}
    made = visitor.schedules.make(named, Recipe())
    assert (made.period, made.low, made.steps, made.shape) == (7, 2.0, (1, 2), "cosine")
    assert made(Progress(9, 0.0, 1)) == 4
    assert visitor.schedules.make("waves", Recipe()).period == 100


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("wave", "schedule = 'wave' (did you mean waves?)"),
        ({"period": 3}, "schedule = {'period': 3} (a table needs a name)"),
        (
            {"name": "waves", "perod": 3, "low": -1, "shape": "flat", "period": "3"},
            "schedule: schedule 'waves': period = '3': input should be a valid integer; low = -1: "
            "input should be greater than or equal to 0; shape = 'flat': input should be 'cosine' "
            "or 'line'; unknown key 'perod' (did you mean period?)",
        ),
        ({"name": "cosine", "cycles": 3}, "schedule: schedule 'cosine': it has no options"),
        (
            "endless",
            "schedule: schedule 'endless': limit is missing (in a table: "
            '{"name": "endless", "limit": "…"}; see `zoo list schedules endless`)',
        ),
        ({"name": "endless"}, "schedule: schedule 'endless': limit is missing (see `zoo list "),
        (
            "waves:period=3",
            "schedule = 'waves:period=3' (options are in a table: "
            '{"name": "waves", "period": 3})',
        ),
        ("wave:period=3", "schedule = 'wave:period=3' (known: "),
        ("wav es:period=3", "schedule = 'wav es:period=3' (known: "),
    ],
)
def test_wrong_names_and_options_are_faults(visitor: Registry, named: Any, message: str) -> None:
    (fault,) = unknown_names(visitor, {"schedule": named})
    assert fault.startswith(message)


@pytest.mark.parametrize(
    ("key", "name", "option", "wrong"),
    [
        ("augmentations", "word_dropout", "probability", (-0.1, 1.0, 15.0)),
        ("augmentations", "bpe_dropout", "probability", (-0.1, 1.0, 15.0)),
        ("objective", "r_drop", "alpha", (-1.0,)),
    ],
)
def test_an_option_has_the_bounds_of_the_recipe_key_of_its_meaning(
    registry: Registry, key: str, name: str, option: str, wrong: tuple[float, ...]
) -> None:
    for value in (0.0, 0.99):
        assert not unknown_names(registry, {key: [{"name": name, option: value}]})
    for value in wrong:
        (fault,) = unknown_names(registry, {key: [{"name": name, option: value}]})
        assert f"{option} = {value}: input should be" in fault


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent", "zoo_visitor:absent gave AttributeError: module 'zoo_visitor' has no "),
        ("elsewhere", "no_such_module:Name gave ModuleNotFoundError: No module named"),
        ("number", "it is 3, which cannot be called"),
        ("narrow", "it is called with (recipe, option=…), and takes ()"),
        ("untyped", "option 'period' has neither a type nor a default"),
        ("weird", "'name' cannot be an option: it is called with (recipe, option=…)"),
        ("raises", "zoo_visitor:raises raised RuntimeError: no luck"),
    ],
)
def test_a_broken_entry_names_its_plugin_in_one_line(
    visitor: Registry, name: str, reason: str
) -> None:
    with pytest.raises(PluginError) as raised:
        visitor.schedules.make(name, Recipe())
    message = str(raised.value)
    assert message.startswith(f"schedule {name!r} of visitor (zoo-visitor 1.0) is broken: {reason}")
    assert message.endswith("Report this to its author, or name another")
    assert "\n" not in message
    assert visitor.schedules.make("waves", Recipe())  # the others still work


def test_what_a_made_entry_raises_or_returns_is_checked(visitor: Registry) -> None:
    recipe = Recipe(schedule={"name": "endless", "limit": 3})
    with pytest.raises(PluginError, match=r"'endless' of .* raised ZeroDivisionError"):
        make_schedule(visitor, recipe)(Progress(1, 0.0, 1))
    negative = make_schedule(visitor, Recipe(schedule={"name": "waves", "period": 1}))
    object.__setattr__(negative, "rate", lambda progress: -1.0)
    with pytest.raises(PluginError, match=r"is broken: its rate of update 7 is -1\.0"):
        negative(Progress(7, 0.0, 1))


def test_unusable_declarations_and_taken_names_are_reported(visitor: Registry) -> None:
    who = "visitor (zoo-visitor 1.0)"
    assert set(visitor.problems) == {
        f"a schedule of {who} is ignored: its path is 'waves', not 'package.module:Name'",
        f"a schedule of {who} is ignored: its name is 3, not a string",
        f"schedule 'cosine' of {who} is ignored: {visitor.schedules.owner('cosine')} brings one "
        "of the same name",
    }
    (plugin,) = (p for p in visitor.plugins.loaded.values() if p.name == "visitor")
    assert "waves" in visitor.brought_by(plugin)["schedules"]
    with pytest.raises(UnknownNameError, match=re.escape("did you mean cosine?")):
        visitor.schedules.make("cosin", Recipe())


def test_a_kind_of_another_type_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, "@hookimpl\ndef zoo_schedules():\n    yield 'cosine'")
    (problem,) = registry.problems
    assert problem.endswith("returned 'cosine', which is not of type Schedule")


def test_options_of_a_recipe_read_back_equal() -> None:
    import tomllib

    recipe = Recipe(schedule={"name": "waves", "steps": [1, 2], "low": 0.5, "on": True})
    assert Recipe.parse(tomllib.loads(recipe.to_toml()), "a test") == recipe
    with pytest.raises(ConfigError, match="schedule"):
        Recipe.parse({"schedule": 3}, "a test")


def test_the_declaration_is_plain(visitor: Registry) -> None:
    assert visitor.schedules["waves"] == Schedule("waves", "a test", "zoo_visitor:waves")


def test_broken_entries_are_problems_before_they_are_used(visitor: Registry) -> None:
    problems = entry_problems(visitor)
    assert all("visitor (zoo-visitor 1.0) is broken: " in problem for problem in problems)
    assert [problem.split("'")[1] for problem in problems] == [
        "absent", "number", "narrow", "untyped", "weird", "elsewhere", "quits"
    ]  # fmt: skip
    assert set(problems) <= set(catalogue_problems(visitor))


def test_an_architecture_without_a_model_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
        from zoo import Architecture

        @hookimpl
        def zoo_architectures():
            return [Architecture("odd", "a test", "", "no_such_module:C", "no_such_module:N")]

        @hookimpl
        def zoo_catalogues():
            return "a text"
    """
    registry = registry_with(monkeypatch, code)
    (problem,) = entry_problems(registry)
    assert problem.startswith("architecture 'odd' is broken: no_such_module:C gave ModuleNotFound")
    (other,) = (line for line in registry.problems if "zoo_catalogues" in line)
    assert "'a text'" in other


EVERY_KIND = """
import sys
from types import ModuleType
import zoo

KINDS = {"objectives": zoo.Objective, "schedules": zoo.Schedule, "optimizers": zoo.Optimizer,
         "initializations": zoo.Initialization, "augmentations": zoo.Augmentation,
         "logits_processors": zoo.Processor, "searches": zoo.SearchMethod,
         "splitters": zoo.Splitter, "tokenizers": zoo.TokenizerKind}

def brings(kind):
    def hook():
        for way in ("missing", "narrow", "untyped", "number"):
            yield KINDS[kind](f"{way}-{kind}", "a test", f"zoo_visitor:{way}")
        yield KINDS[kind](f"elsewhere-{kind}", "a test", "no_such_module:Name")
        yield KINDS[kind](f"quits-{kind}", "a test", "zoo_quits:Name")
        yield KINDS[kind](f"pathless-{kind}", "a test", "no path")
        yield 3
    hook.__name__ = f"zoo_{kind}"
    return hookimpl(hook)

for kind in KINDS:
    globals()[f"zoo_{kind}"] = brings(kind)

number = 3

def narrow():
    pass

def untyped(one, two, option=None, *rest, last=None):
    pass
"""


def test_each_kind_of_entry_may_be_broken_in_each_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "zoo_quits.py").write_text("raise SystemExit('no')")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = registry_with(monkeypatch, EVERY_KIND)
    shelves = [shelf for shelf in registry.shelves.values() if isinstance(shelf, OpenShelf)]
    assert len(shelves) == 9
    assert len(entry_problems(registry)) == 9 * len(WAYS)
    shown = "\n".join([*registry.problems, *entry_problems(registry)])
    for shelf in shelves:
        names = [name for name in shelf if shelf.owner(name).plugin.name == "visitor"]  # type: ignore[union-attr]  # each has one
        assert len(names) == len(WAYS)
        for name, reason in zip(names, WAYS, strict=True):
            problem = f"{shelf.kind} {name!r} of visitor (zoo-visitor 1.0) is broken: "
            (line,) = (line for line in shown.splitlines() if line.startswith(problem))
            assert reason in line
        assert (
            shown.count(f" {shelf.kind} of visitor (zoo-visitor 1.0) is ignored: its path is") == 1
        )
    assert shown.count("returned 3, which is not of type") == 9
    removed = Registry(discover(""))
    assert not [name for shelf in removed.shelves.values() for name in shelf if "narrow-" in name]


WAYS = (
    "has no attribute 'missing'",
    "it is called with (",
    "has neither a type nor a default",
    "it is 3, which cannot be called",
    "No module named 'no_such_module'",
    "SystemExit: no",
)
"""Why entries are broken, in the order in which the plugin brings them."""


def test_names_in_a_catalogue_s_recipes_are_checked(visitor: Registry, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text("""
format = 1
[recipes.shift]
objective = ["cross_entropy", {name = "cros_entropy", weight = 2}]
augmentations = [{name = "word_dropuot"}]
schedule = {name = "waves", perod = 3, low = -1}
optimizer = "adm"
target_tokenizer = "bytes"
""")
    visitor.recipes._values.clear()
    visitor.read_catalogue(file)
    (problem,) = (line for line in catalogue_problems(visitor) if "recipes.shift" in line)
    for part in (
        "objective = 'cros_entropy' is unknown (did you mean cross_entropy?)",
        "augmentations = 'word_dropuot' is unknown (did you mean word_dropout?)",
        "optimizer = 'adm' is unknown (did you mean adam?)",
        "target_tokenizer = 'bytes' is unknown (did you mean byte?)",
        "schedule 'waves'",
        "low = -1",
        "unknown key 'perod' (did you mean period?)",
    ):
        assert part in problem


def test_an_option_that_cannot_be_described_names_its_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = """
    from collections.abc import Callable
    from zoo import Schedule
    @hookimpl
    def zoo_schedules(): yield Schedule("shaped", "a test", "zoo_visitor:Shaped")
    class Shaped:
        def __init__(self, recipe, shape: Callable[[float], float] = abs): pass
    """
    registry = registry_with(monkeypatch, code)
    with pytest.raises(PluginError, match=r"schedule 'shaped' of visitor .* is broken"):
        registry.schedules.described("shaped")
