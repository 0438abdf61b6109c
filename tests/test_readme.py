"""The commands, outputs and names in the README are correct."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.external_plugins.pasted import PAGES, SKIPPED, pasted
from zoo.cli import cli

TOP = Path(__file__).parents[1]
README = (TOP / "README.md").read_text(encoding="utf-8")
blocks = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_every_command_and_option_named_exists() -> None:
    shell = "\n".join(text for kind, text in blocks if kind in ("sh", "console"))
    commands = re.findall(r"^(?:\$ )?zoo ([\w-]+)(.*)$", shell, re.MULTILINE)
    assert len(commands) > 5
    for name, rest in commands:
        options = {o for p in cli.commands[name].params for o in p.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, name
    makefile = (TOP / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([\w-]+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize(
    "command", ["list models 'transformer*'", "info transformer-6x6 --parameters"]
)
def test_the_shown_output_equals_the_printed_one(command: str, run: Callable[..., Result]) -> None:
    shown = next(t for kind, t in blocks if kind == "console" and t.startswith(f"$ zoo {command}"))
    printed = [line.rstrip() for line in run(*shlex.split(command)).stdout.splitlines()]
    for line in shown.splitlines()[1:]:
        if line.strip() != "…":
            assert line.rstrip() in printed


def test_the_first_commands_print_what_the_readme_says(run: Callable[..., Result]) -> None:
    first = next(text for kind, text in blocks if kind == "sh" and "zoo translate" in text)
    commands = [line for line in first.splitlines() if line.startswith("zoo ")]
    assert len(commands) == 2
    after = README[README.index(first) + len(first) :]
    for command in commands:
        printed = run(*shlex.split(command)[1:]).stdout.strip()
        assert f"`{printed}`" in after[:300]


def test_the_repository_layout_lists_every_room() -> None:
    layout = README.partition("## Repository layout")[2]
    rooms = {file.parent.name for file in (TOP / "zoo").glob("*/__init__.py")}
    listed = set(re.findall(r"^\| `zoo/(\w+)/`", layout, re.MULTILINE))
    assert listed == rooms
    for path in re.findall(r"^\| `([\w./]+)`", layout, re.MULTILINE):
        assert (TOP / path).exists(), path


def results_of(file: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of a table of a page of results, those of the README's machine, by column."""
    page = (TOP / "benchmarks" / file).read_text(encoding="utf-8")
    of_machine = page.partition("\n## 2 cores of AMD EPYC")[2] or page  # one page has no others
    text = of_machine.partition(f"\n### {heading}")[2]
    lines = [line for line in text.partition("\n###")[0].splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert rows, (file, heading)
    return [dict(reversed(list(zip(head, row, strict=True)))) for row in rows]


def test_the_numbers_of_the_comparison_are_those_of_the_newest_results() -> None:
    """Those of the zoo are of this version. Decoding is each project's fastest in float32."""
    table, _, text = README.partition("| | trains | decodes |")[2].partition("\n\n")
    shown = {}
    for line in table.splitlines()[2:]:
        project, *speeds = (cell.strip() for cell in line.strip("|").split("|")[:3])
        numbers = [speed.partition(" ")[0] for speed in speeds]
        shown[project.removeprefix("the ").lower()] = numbers
    trains = {
        row["project"]: row
        for row in results_of("RESULTS-train.md", "Transformer 3+3×256, 1")
        if row["precision"] == "float32"
    }
    assert trains["zoo"]["version"] == zoo.__version__
    for project, row in trains.items():
        assert shown[project][0] == row["target tokens per processor second"], project
    decodes = results_of("RESULTS-decode.md", "Transformer 3+3×256, feed-forward 1024")
    fastest = dict[str, dict[str, str]]()
    for row in sorted(decodes, key=lambda row: float(row["beam 5, sentences/s"].split()[0])):
        if row["precision"] == "float32":
            fastest[row["project"]] = row
    assert fastest["zoo"]["version"] == zoo.__version__
    for project, row in fastest.items():
        assert shown[project][1] == row["beam 5, sentences/s"], project
    compared = results_of("RESULTS-decode.md", "The zoo compared with the fastest other project")
    ratios = [
        float(row["beam 5"])
        for row in compared
        if row["network"].startswith(("lstm", "convs2s"))
        if row["precision"] == "float32" and row["batches at once"].endswith("for each")
    ]
    shown_ratios = f"{min(ratios):.1f} to {max(ratios):.1f} times"
    assert f"LSTMs and ConvS2S decode {shown_ratios}" in " ".join(text.split())
    beside = {
        row["search"]: (row["processor ms per sentence"], row["ctranslate2"])
        for row in results_of("RESULTS-in-turn.md", "Transformer 3+3×256")
        if (row["precision"], row["workers"]) == ("float32", "1")
    }
    words = " ".join(text.split())
    for search, sentence in (("beam 5, forced", "of a batch"), ("beam 5, one by one", "alone")):
        zoo_time, other = beside[search]
        pattern = f"sentence {sentence} takes {zoo_time} ms[a-z ]*, in CTranslate2 {other}"
        assert re.search(pattern, words), search


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (TOP / target).is_file(), target


def test_python_names_exist() -> None:
    python = "\n".join(text for kind, text in blocks if kind == "python")
    for name in re.findall(r"zoo\.(\w+)\(", python):
        assert name in zoo.__all__
    for text in (text for kind, text in blocks if kind == "python"):
        compile(text, "README.md", "exec")


def test_the_constraints_pin_all_dependencies() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    extras = [name for name in project["optional-dependencies"] if name != "test"]
    texts = [*project["dependencies"]]
    texts += [text for name in extras for text in project["optional-dependencies"][name]]
    ranges = {re.split(r"[><=]", text)[0] for text in texts if not text.startswith("seq2seq-zoo")}
    lines = (TOP / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lines if line and not line.startswith("#")}
    assert ranges <= pinned
    assert project["version"] == zoo.__version__


def test_each_reason_to_skip_a_pasted_command_has_one() -> None:
    lines = [command.line for page in PAGES for command in pasted(page)]
    for start in SKIPPED:
        assert any(re.match(start, line) for line in lines), start


def test_most_pasted_commands_are_run() -> None:
    commands = [command for page in PAGES for command in pasted(page)]
    run = [command.line for command in commands if not re.match("|".join(SKIPPED), command.line)]
    assert len(run) > len(commands) / 2
    assert all(line.startswith(("zoo ", "ZOO_PLUGINS")) for line in run), run


def test_the_numbers_of_the_server_were_measured() -> None:
    results = (TOP / "benchmarks" / "serving" / "RESULTS.md").read_text(encoding="utf-8")
    (factor,) = re.findall(r"translates ([\d.]+) times as many", README)
    assert f"has {factor} times the sentences/s of zoo" in results
    page = (TOP / "docs" / "serving.md").read_text(encoding="utf-8").partition("## Measured")[2]
    table, _, text = page.partition("These are")
    numbers = re.findall(r"\| (\d+\.\d)", table)
    assert len(numbers) == 6
    for number in numbers:
        assert f"| {number} |" in results
    for factor in re.findall(r"\d+\.\d", text):
        assert f"has {factor} times" in results


def test_the_shortest_training_of_numbers_takes_what_the_readme_says() -> None:
    records = TOP.glob("cards/checkpoints/*.numbers-en-fr/training.json")
    minutes = min(json.loads(record.read_text(encoding="utf-8"))["minutes"] for record in records)
    words = {2: "two", 3: "three", 4: "four"}
    assert f"from {words[int(minutes)]} minutes for numbers" in " ".join(README.split())
