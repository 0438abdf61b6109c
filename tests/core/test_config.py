"""Configurations, recipes, and the plan of a run, which combines them."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from pydantic import Field

import zoo
from zoo.errors import (
    MESSAGE_LIMIT,
    CheckpointError,
    ConfigError,
    PluginError,
    ZooError,
)
from zoo.registry.config import Config, parse_settings
from zoo.registry.parameters import Dim, Table
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.plan import Plan
from zoo.training.plan import make_plan as resolve
from zoo.training.request import TrainingRequest


def test_a_dimension_has_a_formula_and_a_size() -> None:
    d, h = Dim("d", 5), Dim("h", 3)
    assert d + 2 * h == Dim("d + 2h", 11)
    assert 3 * (d + h) == Dim("3(d + h)", 24)


def test_table_rows() -> None:
    table = Table()
    table.block("one")
    table.split("w", ("W_q", "W_k"), (Dim("d", 2), Dim("d", 2) + Dim("e", 1)))
    table.block("two")
    table.add("b", "b", (Dim("d", 2),), zero_gradient="a reason")
    assert [row.slice for row in table] == [(0, 2), (2, 4), None]
    assert table.rows[0].formula == "d × (d + e)"
    assert table.blocks() == {"one": 12, "two": 2}
    assert table.total == 14
    assert table.rows[2].as_json() == {
        "block": "two", "path": "b", "symbol": "b", "formula": "d", "shape": [2], "count": 2,
        "zero_gradient": "a reason",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "given"), [((3,), r"\(3,\)"), (Dim("d", 3), "Dim"), ((Dim("d", 3), "d"), r"\(Dim")]
)
def test_a_shape_of_other_things_than_dimensions_is_named(shape: Any, given: str) -> None:
    message = f"the shape of w is {given}.*: a tuple of zoo.Dim is needed, such as"
    with pytest.raises(TypeError, match=message):
        Table().add("w", "W", shape)
    with pytest.raises(TypeError, match=message):
        Table().split("w", ("W", "V"), shape)
    with pytest.raises(TypeError, match=r"the symbols of w are one text: write \('W_q',\)"):
        Table().split("w", ("W_q"), (Dim("d", 3),))  # type: ignore[arg-type]  # wrong


def test_all_wrong_keys_and_values_are_listed_at_once(registry: Registry) -> None:
    wrong = {"dmi": 3, "heads": "four", "dropout": 2.0, "norm": "sideways"}
    with pytest.raises(ConfigError) as error:
        registry.config("transformer-tiny", wrong)
    message = str(error.value)
    assert "unknown key 'dmi' (did you mean dim?)" in message
    assert "heads = 'four'" in message
    assert "dropout = 2.0" in message
    assert "norm = 'sideways'" in message
    assert "\n" not in message


def test_every_message_is_on_one_line_without_control_characters() -> None:
    error = ZooError("a\nb  c", "d\r\n\x1b[31me\u2028f", "g\th\n")
    assert str(error) == "a b  c: d [31me f. g h"
    long = ZooError("\n" * 10_000 + "a" * 10_000)
    assert len(str(long)) <= MESSAGE_LIMIT + 1


def test_a_message_about_options_says_what_they_are_in_python(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError) as error:
        zoo.train("seq2seq-tiny", "numbers-en-fr", tmp_path)
    assert "--out" in str(error.value)
    shown = "".join(traceback.format_exception_only(error.value))
    assert 'is an argument here: new_vocabulary="both"' in shown
    with pytest.raises(CheckpointError) as error:
        zoo.resume(tmp_path / "none")
    assert "--resume" in str(error.value)
    notes = "".join(error.value.__notes__)
    assert "`--resume` is the function zoo.resume" in notes
    assert "split=False" not in notes
    for message in ("no options", "from a--b", "a -- b"):
        assert not hasattr(ZooError(message), "__notes__")
    result = run("train", "seq2seq-tiny", "--data", "numbers-en-fr", "--out", tmp_path)
    assert "--out" in result.stderr
    assert "an argument here" not in result.stderr


def test_a_value_of_several_lines_is_refused_on_one_line() -> None:
    for value in ("bleu\n", "a" * 100_000):
        with pytest.raises(ConfigError, match="select = ") as error:
            Recipe.parse({"select": value}, "recipe")
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 1200


def test_a_config_that_contradicts_itself(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="dim 128 must be even and a multiple of heads 5"):
        registry.config("transformer-tiny", {"heads": 5})
    with pytest.raises(ConfigError, match="or the decoder never sees the source"):
        registry.config("seq2seq-tiny", {"start": False, "context": False})
    with pytest.raises(ConfigError, match="kernels must be odd"):
        registry.config("convs2s-tiny", {"encoder": [[8, 4]]})


class Reading(Config):
    names: tuple[str, ...] = Field(("text",), strict=False)
    vectors: bool = False
    one: bool = False

    @property
    def width(self) -> int:
        return 1

    @property
    def one_vocabulary(self) -> bool:
        return self.one

    @property
    def features(self) -> bool:
        return self.vectors

    @property
    def sources(self) -> tuple[str, ...]:
        return self.names

    @classmethod
    def example(cls) -> "Reading":
        return cls()

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        return Table()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"names": ["text", "context"], "vectors": True}, "several texts, or feature vectors"),
        ({"names": ["context", "text"]}, "the first 'text', and no two alike"),
        ({"names": ["text", "text"]}, "the first 'text', and no two alike"),
        ({"names": []}, "the first 'text', and no two alike"),
        (
            {"names": ["text", "context"], "one": True},
            "needs one vocabulary, and reads the sources text, context",
        ),
        ({"vectors": True, "one": True}, "needs one vocabulary, and reads feature vectors"),
    ],
)
def test_a_config_whose_sources_do_not_fit_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(PluginError, match=f"the config Reading of .* is broken: .*{why}"):
        Reading.parse(values, "a test")
    assert Reading.parse({"vectors": True}, "a test").features
    assert Reading.parse({"names": ["text", "context"]}, "a test").sources == ("text", "context")
    assert Reading.parse({"one": True}, "a test").one_vocabulary


def test_a_config_whose_vocabularies_raise_is_broken() -> None:
    class Sharing(Reading):
        @property
        def one_vocabulary(self) -> bool:
            raise RuntimeError("no luck")

    with pytest.raises(PluginError, match=r"the config Sharing of .* is broken: RuntimeError"):
        Sharing.parse({}, "here")


@pytest.mark.parametrize("value", ["3", 3.5, True, None, [3]])
def test_only_integers_are_accepted_as_integers(registry: Registry, value: Any) -> None:
    with pytest.raises(ConfigError, match="heads"):
        registry.config("transformer-tiny", {"heads": value})


def test_numbers_of_numpy_are_numbers(registry: Registry) -> None:
    values = {"dim": np.int64(64), "dropout": np.float64(0.25)}
    config = registry.config("transformer-tiny", values)
    assert config == registry.config("transformer-tiny", {"dim": 64, "dropout": 0.25})
    with pytest.raises(ConfigError, match="heads"):
        registry.config("transformer-tiny", {"heads": object()})


@pytest.mark.parametrize("values", [{"dim": 10**9}, {"encoder_layers": 10**9}, {"heads": 0}])
def test_sizes_are_bounded(registry: Registry, values: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"should be (less|greater) than or equal to"):
        registry.config("transformer-tiny", values)


def test_configs_are_frozen(registry: Registry) -> None:
    config = registry.config("rnnsearch-tiny")
    with pytest.raises(ValueError, match="frozen"):
        config.dropout = 0.5  # type: ignore[attr-defined]


def test_settings_are_key_value() -> None:
    given = ["a=1", "b=0.5", "c=word", "d=[[8, 3]]", "e=true", "f=x=y", 'g="7"']
    assert parse_settings(given) == {
        "a": 1, "b": 0.5, "c": "word", "d": [[8, 3]], "e": True, "f": "x=y", "g": "7"
    }  # fmt: skip
    with pytest.raises(ConfigError, match="no equals sign in 'dim', '7'"):
        parse_settings(["dim", "7", "a=1"])


def make_plan(registry: Registry, model: str, data: str, **options: Any) -> Plan:
    return resolve(registry, TrainingRequest(model, data, "unused", **options))


def test_a_plan_layers_recipes(registry: Registry) -> None:
    plan = make_plan(registry, "transformer-tiny", "numbers-en-fr")
    assert plan.recipe.tokenizer == "word", "the data's recipe"
    assert plan.config.model_dump()["encoder_layers"] == 2, "the recipe of this model and data"
    other = make_plan(registry, "transformer-tiny", "multi30k-en-de", steps=5)
    assert other.config.model_dump()["encoder_layers"] == 4, "the model's recipe"
    settings = {"dim": 64, "learning_rate": 0.5, "recipe.seed": 7, "config.dropout": 0.3}
    plan = make_plan(registry, "transformer-tiny", "numbers-en-fr", settings=settings)
    assert plan.config.width == 64
    assert plan.recipe.learning_rate == 0.5
    assert plan.recipe.seed == 7
    assert plan.config.model_dump()["dropout"] == 0.3


@pytest.mark.parametrize(
    ("model", "data"),
    [("convs2s-tiny", "multi30k-en-fr"), ("transformer-tiny", "multi30k-en-de")],
)
def test_a_recipe_of_a_model_and_data_applies_in_full_to_other_data(
    registry: Registry, model: str, data: str
) -> None:
    """The recipe of the data, on which it is layered, is applied too."""
    expected = make_plan(registry, model, data)
    plan = make_plan(registry, model, "corpus:en-de", recipe=f"{model}.multi30k")
    assert (plan.config, plan.recipe) == (expected.config, expected.recipe)


def test_a_dataset_s_own_recipe_overrides_the_one_that_several_share(registry: Registry) -> None:
    shared = make_plan(registry, "transformer-tiny", "multi30k-en-de")
    plan = make_plan(registry, "transformer-tiny", "multi30k-de-en")
    own = registry.recipes["transformer-tiny.multi30k-de-en"]
    assert plan.config == shared.config
    assert plan.recipe == shared.recipe.model_copy(update=own)
    assert plan.recipe != shared.recipe
    named = "transformer-tiny.multi30k-de-en"
    elsewhere = make_plan(registry, "transformer-tiny", "corpus:en-de", recipe=named)
    assert (elsewhere.config, elsewhere.recipe) == (plan.config, plan.recipe)


def test_a_new_stop_replaces_the_recipe_s(registry: Registry) -> None:
    plan = make_plan(registry, "rnnsearch-tiny", "numbers-en-fr", minutes=2.0)
    assert (plan.recipe.steps, plan.recipe.epochs, plan.recipe.minutes) == (None, None, 2.0)
    plan = make_plan(registry, "rnnsearch-tiny", "numbers-en-fr", settings={"epochs": 3})
    assert (plan.recipe.steps, plan.recipe.epochs, plan.recipe.minutes) == (None, 3, None)


def test_errors_of_config_and_recipe_are_listed_together(registry: Registry) -> None:
    settings = {"dimm": 3, "heads": "x", "learning_rate": -1, "schedule": "steep", "steps": 1}
    with pytest.raises(ConfigError) as error:
        make_plan(registry, "transformer-tiny", "numbers-en-fr", settings=settings)
    message = str(error.value)
    for part in ("'dimm' (did you mean dim?)", "heads = 'x'", "learning_rate = -1", "'steep'"):
        assert part in message


def test_a_run_must_end(registry: Registry) -> None:
    with pytest.raises(ConfigError, match="nothing says when to stop"):
        make_plan(registry, "rnnsearch-tiny", "corpus:en-de", settings={"steps": None})


def test_every_recipe_value_is_described() -> None:
    assert all(field.description for field in Recipe.model_fields.values())


@pytest.mark.parametrize("size", [-1, 3, "x", 100.0, True])
def test_a_vocabulary_of_no_size_is_refused(size: Any) -> None:
    message = re.escape(f"target_vocab cannot be {size!r}: it is an integer from 4")
    with pytest.raises(ConfigError, match=message):
        zoo.create_model("rnnsearch-tiny", source_vocab=12, target_vocab=size)


def test_constructors_answer_wrong_values_as_settings_do() -> None:
    message = "invalid Recipe: steps = 0: .*; unknown key 'batch_token' .did you mean batch_tokens"
    with pytest.raises(ConfigError, match=message):
        zoo.Recipe(steps=0, batch_token=3)  # type: ignore[call-arg]  # wrong
    assert zoo.Recipe.parse({"freeze": ["encoder.*"]}, "x").freeze == ("encoder.*",)
    with pytest.raises(ConfigError, match="invalid Reading: one = 3"):
        Reading(one=3)  # type: ignore[arg-type]  # wrong
