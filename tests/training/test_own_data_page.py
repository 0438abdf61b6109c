"""The page about your own data: its commands run, and print what it shows."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from zoo.registry.recipe import Recipe

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
