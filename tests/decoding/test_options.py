"""Search options on the command line and in the docs; their module does not import torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from zoo.cli.search import search_options as add_options
from zoo.decoding import options
from zoo.decoding.option import Option
from zoo.decoding.options import Search, combine, without_effect
from zoo.errors import DecodingError

DOCS = Path(__file__).parents[2] / "docs"


def parsed(*arguments: str) -> dict[str, Any]:
    """Return the search options that a command receives for these arguments."""
    received: dict[str, Any] = {}

    @click.command()
    @add_options
    def command(search: dict[str, Any], recommended: bool) -> None:
        received.update(search)

    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return received


def test_only_given_options_reach_a_command() -> None:
    assert parsed() == {}
    given = parsed("--beam", "3", "--seed", "0", "--length-penalty", "0", "--stop", "first",
                   "--allow-empty", "--banned", "▁a", "--banned", "b", "--top-p", ".5")  # fmt: skip
    assert given == {"beam": 3, "seed": 0, "length_penalty": 0.0, "stop": "first",
                     "allow_empty": True, "banned": ("▁a", "b"), "top_p": 0.5}  # fmt: skip
    Search(**parsed("--beam", "3", "--max-length", "4", "--no-repeat-ngram-size", "2"))


def test_every_field_of_a_search_is_an_option_with_help() -> None:
    command = click.command()(add_options(lambda search: None))
    shown = {option.name: option for option in command.params if isinstance(option, click.Option)}
    assert [*shown] == [*(option.name for option in options.search_options()), "recommended"]
    for option in options.search_options():
        assert shown[option.name].help == option.help
        assert option.help.endswith(".")


def test_the_page_names_every_option() -> None:
    page = (DOCS / "decoding.md").read_text(encoding="utf-8")
    for option in options.search_options():
        assert option.flag in page, option.flag


@pytest.mark.parametrize("option", options.search_options(), ids=lambda option: option.name)
def test_every_default_is_valid_and_a_wrong_type_is_not(option: Option) -> None:
    assert option.error(option.default) is None
    wrong: dict[str, Any] = {option.name: object()}
    with pytest.raises(DecodingError, match=f"`{option.flag}` must be "):
        Search(**wrong)


def test_options_import_no_torch() -> None:
    program = "import sys, zoo.decoding.options, zoo.cli.search; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_numbers_of_numpy_and_lists_are_values() -> None:
    given: dict[str, Any] = {
        "beam": np.int64(3), "length_penalty": np.float32(0.5), "allow_empty": np.True_,
        "banned": [np.int32(7), "a"], "processors": [], "max_length": np.uint8(9),
    }  # fmt: skip
    search = Search(**given)
    assert search == Search(3, length_penalty=0.5, allow_empty=True, banned=(7, "a"), max_length=9)
    for option in options.search_options():
        assert type(getattr(search, option.name)).__module__ == "builtins", option.name
    assert hash(search)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam": np.float32(3)}, "--beam` must be an integer"),
        ({"beam": np.True_}, "not True"),
        ({"banned": (True,)}, "--banned` must be a tuple of token ids and tokens"),
        ({"beam": 10**9999}, "10,000, not an integer of hundreds of digits"),
        ({"seed": -(10**9999)}, "not an integer of hundreds of digits"),
    ],
)
def test_other_values_are_refused_in_a_short_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodingError) as refused:
        Search(**given)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


RECOMMENDED = {"beam": 5, "length_penalty": 1.5}


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({"beam": 1}, []),
        ({"length_penalty": 1.0}, []),
        ({"beam": 1, "length_penalty": 0.0}, []),
        ({"beam": 1, "length_penalty": 1.0}, ["`--length-penalty 1.0` needs a beam of at least 2"]),
        ({"beam": 1, "stop": "first"}, ["`--stop first` needs a beam of at least 2"]),
        ({"sample": True, "stop": "first"}, ["`--stop first` needs beam search"]),
        ({"sample": True, "length_penalty": 1.0},
         ["`--length-penalty 1.0` needs `--n-best` of at least 2"]),
        ({"sample": True, "n_best": 2, "length_penalty": 1.0}, []),
        ({"exhaustive": True, "length_penalty": 1.0}, []),
    ],
)  # fmt: skip
def test_given_options_that_change_nothing(given: dict[str, Any], faults: list[str]) -> None:
    assert without_effect(given, Search(**combine(given, RECOMMENDED))) == faults
