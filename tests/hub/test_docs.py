"""docs/hub.md and docs/checkpoint-format.md agree with the code."""

import re
from dataclasses import fields
from pathlib import Path

import click

from zoo import files
from zoo.checkpoint import format, tensors
from zoo.checkpoint.about import DECODING_LIMITS, LIST_LIMIT, About
from zoo.checkpoint.card import CARD_LIMIT
from zoo.checkpoint.card_text import BEGIN, END
from zoo.cli import cli
from zoo.hub.retry import RetryPolicy
from zoo.hub.settings import Settings
from zoo.registry.parameters import VOCABULARY_LIMIT

DOCS = Path(__file__).parents[2] / "docs"
HUB = (DOCS / "hub.md").read_text(encoding="utf-8")
FORMAT = (DOCS / "checkpoint-format.md").read_text(encoding="utf-8")


def test_commands_and_options_exist() -> None:
    commands = re.findall(r"(?:`|\| |^)zoo ((?:registry |cache )?[a-z]+)([^\n`|#]*)", HUB, re.M)
    assert len(commands) > 12
    for name, rest in commands:
        command: click.Command = cli
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.commands[word]
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, name


def test_settings_are_listed_with_their_defaults() -> None:
    listed = dict(re.findall(r"\| `(ZOO_HUB_\w+)` \| [^|]+ \| ([\d.]+) \|", HUB))
    defaults = {f"ZOO_HUB_{f.name.upper()}": f.default for f in fields(RetryPolicy)}
    defaults["ZOO_HUB_TIMEOUT"] = Settings.timeout
    assert {key: float(value) for key, value in listed.items()} == defaults


def keys_of(text: str) -> set[str]:
    """Return the names in the first column of a table."""
    return set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]+)\|", text, re.MULTILINE))))


def test_files_limits_and_keys_of_the_format() -> None:
    table = FORMAT.partition("## Reading")[0]
    assert set(re.findall(r"`([\w./-]+\.(?:json|md|yaml|png|safetensors|txt))`", table)) == set(
        format.FILES
    )
    for limit in (files.JSON_LIMIT, files.TEXT_LIMIT, tensors.HEADER_LIMIT, tensors.TENSOR_LIMIT,
                  CARD_LIMIT, VOCABULARY_LIMIT):  # fmt: skip
        assert f"{limit:,}" in FORMAT
    assert FORMAT.count(f"string of 1 to {format.NAME_LIMIT} characters") == 2
    assert FORMAT.count(f"object of at most {format.TABLE_LIMIT:,} strings") == 2
    section = FORMAT.partition("## config.json")[2].partition("## model.safetensors")[0]
    keys, _, about = section.partition("### about")
    assert keys_of(keys) == {"format", *format.KEYS, "about"}
    assert keys_of(about) == {field.name for field in fields(About)}
    assert BEGIN.strip() in FORMAT
    assert END.strip() in FORMAT


def test_the_bounds_of_recommended_options_are_listed() -> None:
    text = " ".join(FORMAT.partition("and is bounded:")[2].partition("A wrong value")[0].split())
    for option, most in {**DECODING_LIMITS, "banned": LIST_LIMIT}.items():
        word = option.split("_")[0] if option != "top_k" else option
        assert word in text, option
        assert f"{most:,}" in text, option
