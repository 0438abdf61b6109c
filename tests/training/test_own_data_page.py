"""The page about your own data: its commands run, and print what it shows."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from zoo.data.batches import Sequences
from zoo.data.statistics import corpus_statistics
from zoo.registry.declarations import Pair
from zoo.registry.recipe import Recipe
from zoo.registry.registry import default_registry
from zoo.training.advice import MUCH_SHARED, _few_distinct
from zoo.training.auto import Choice, _regularize

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")
PAIRS = [(f"I see {n} {thing}.", f"Je vois {n} {nom}.") for n in range(40)
         for thing, nom in (("dogs", "chiens"), ("cats", "chats"))]  # fmt: skip


def kinds_of_lines(text: str) -> set[str]:
    """What the lines of a run are about: their words without names, numbers and signs."""
    starts = ("auto", "Precision", "Held-out text", "Best validation", "Next", "  zoo translate",
              "  zoo eval", "  zoo serve", "      source", "   reference")  # fmt: skip
    return {start for start in starts if re.search(f"^{start}", text, re.MULTILINE)}


def test_the_page_s_commands_run_and_print_what_it_shows(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix, side in (("en", 0), ("fr", 1)):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        Path(f"pairs.{suffix}").write_text(text, encoding="utf-8")
    small = ["--set", "dim=16", "--set", "feedforward_dim=16"]
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        command, _, shown = block.removeprefix("$ zoo ").partition("\n")
        words = shlex.split(command.replace("--minutes 2", "--minutes 0.05"))
        if "--minutes" not in words:
            words += ["--steps", "3"]
        done = run(*words, *small)
        assert done.exit_code == 0, done.output
        assert kinds_of_lines(shown) <= kinds_of_lines(done.output)
    assert Path("mine/config.json").is_file()
    for snippet in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        exec(compile(snippet.replace("steps=20", "steps=2"), "page", "exec"), {})


def test_the_page_names_only_values_of_the_recipe() -> None:
    for name in ("cooldown", "max_length", "learning_rate"):
        assert name in Recipe.model_fields
    assert "`cooldown`" in PAGE


def test_the_page_states_the_thresholds_of_warnings_and_dropout() -> None:
    page = " ".join(PAGE.split())
    assert MUCH_SHARED == 0.1
    assert "if over a tenth of the sources to validate on are also trained on" in page
    for different, few in ((10, 10), (11, 0)):  # of 100 targets
        rows = [[n % different + 4, 2] for n in range(100)]
        assert _few_distinct(Sequences.of(rows)) == few
    assert "if the targets are few different texts, each ten times or more on average" in page
    for pairs, dropout in ((4_999, 0.1), (5_000, 0.0)):
        texts = [f"{n // 70} {n % 70}" for n in range(pairs)]
        choice = Choice(
            corpus_statistics([Pair(text, text) for text in texts]), {"tokenizer": "word"}
        )
        assert not choice.natural
        config = default_registry().config("transformer-tiny")
        assert f"dropout {dropout:g}" == _regularize(choice, config, epochs=1)
    assert "none for 5,000 or more different pairs of few different words" in page
