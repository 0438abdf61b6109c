"""Generate parts of the documentation: `make docs`.

A generated part is the text between `<!-- generated: NAME -->` and `<!-- end -->`. All other text
is written by hand.
"""

import functools
import inspect
import json
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from zoo import testing
from zoo.checkpoint.markdown import markdown_table
from zoo.checkpoint.scores import read_scores
from zoo.cli.new_plugin import files_for
from zoo.registry.catalogue import (
    CHECKPOINT_KEYS,
    FILE_KEYS,
    MODEL_KEYS,
    PACKAGE_KEYS,
    TOML_NAMES,
    Released,
)
from zoo.registry.discovery import discover
from zoo.registry.parameters import Row, Table
from zoo.registry.plugins import known_hooks, specification
from zoo.registry.recipe import OPEN, Recipe, toml_value
from zoo.registry.registry import Registry, default_registry
from zoo.testing import LAWS, OBJECTIVE_LAWS, SEARCH_LAWS
from zoo.testing.law import LawOf

FOLDER = Path(__file__).parent
VOCABULARY = 10_000
RELEASED = (
    "multi30k-en-fr", "multi30k-de-en", "dates-en-iso", "dates-iso", "g2p-en",
    "tatoeba-en-fr-76k", "tatoeba-fr-en-76k",
)  # fmt: skip
"""Tasks with a table of their released checkpoints."""

PROCESSORS = {
    "family 26, model 2": "AMD EPYC, Zen 5 (AVX-512 BF16)",
    "family 25, model 17": "AMD EPYC, Zen 4 (AVX-512 BF16)",
    "family 25, model 1": "AMD EPYC, Zen 3 (AVX2 alone)",
    "family 6, model 167": "Intel Xeon with AMX",
    "family 6, model 207": "Intel Xeon with AVX-512 BF16, without AMX",
    "family 6, model 85": "Intel Xeon with AVX-512, without bfloat16",
}
"""The measured processors, by what `benchmarks/report.py` calls them."""

RECURRENT = ("seq2seq-lstm4", "rnnsearch")


def tables() -> list[Table]:
    """Return the parameter tables of both recurrent families with the same vocabulary sizes."""
    return [
        default_registry().config(name).parameters(VOCABULARY, VOCABULARY) for name in RECURRENT
    ]


def role(row: Row) -> str:
    """Return the part of the network that a row belongs to, by a name common to both families."""
    for word in ("source embedding", "encoder", "target embedding", "decoder", "output"):
        if row.block.startswith(word):
            return word
    return row.block


def side_by_side() -> str:
    """Return both parameter tables side by side, grouped by role."""
    both = tables()
    roles = ["source embedding", "encoder", "first state", "attention", "target embedding"]
    lines = []
    for name in [*roles, "decoder", "output"]:
        columns = [[row for row in table if role(row) == name] for table in both]
        sums = [sum(row.count for row in rows) for rows in columns]
        lines.append([f"**{name}**", "", f"**{sums[0]:,}**", "", "", f"**{sums[1]:,}**"])
        for rows in zip_longest(*columns):
            lines.append([cell for row in rows for cell in _cells(row)])
    totals = [f"**{table.total:,}**" for table in both]
    lines.append(["**total**", "", totals[0], "", "", totals[1]])
    first, second = RECURRENT
    head = [first, "shape", "parameters", second, "shape", "parameters"]
    return markdown_table(head, lines)


def _cells(row: Row | None) -> tuple[str, str, str]:
    return (f"`{row.symbol}`", row.formula, f"{row.count:,}") if row else ("", "", "")


def recipe() -> str:
    """Return a table of all recipe keys."""
    rows = [
        [f"`{name}`", f"`{toml_value(field.default)}`", field.description or ""]
        for name, field in Recipe.model_fields.items()
    ]
    return markdown_table(["value", "default", "meaning"], rows)


def hook_parts(name: str) -> tuple[str, str, str]:
    """Return a hook's signature, and the description and the example in its docstring."""
    function = specification(name)
    signature = f"def {name}{inspect.signature(function)}".replace("'", "")
    text, _, example = inspect.getdoc(function).partition("\nExample:\n")  # type: ignore[union-attr]  # a test checks that it exists
    return signature, text.strip(), textwrap.dedent(example).strip()


def hooks() -> str:
    """Return the reference of all hooks."""
    sections = []
    for name in known_hooks():
        signature, description, example = hook_parts(name)
        sections.append(f"## {name}\n\n```text\n{signature}\n```\n\n{description}\n\n"
                        f"```python\n{example}\n```\n")  # fmt: skip
    return "\n".join(sections)


def training_parts() -> str:
    """Return a table of the built-in entries of the open shelves of training."""
    registry = Registry(discover(""))
    rows = [
        [kind if number == 0 else "", f"`{name}`", entry.summary]
        for kind in dict.fromkeys(OPEN.values())
        for number, (name, entry) in enumerate(registry.shelves[kind].items())
    ]
    return markdown_table(["", "name", "what it is"], rows)


def laws(all_laws: Sequence[LawOf[Any]]) -> str:
    """Return a table of laws with the usual causes of failures."""
    rows = [[f"`{law.name}`", law.statement, law.causes] for law in all_laws]
    return markdown_table(["law", "statement", "usual causes of a failure"], rows)


def shelf_laws() -> str:
    """Return a table of laws for each kind of entry that has no table elsewhere."""
    kinds: dict[str, Sequence[LawOf[Any]]] = {
        "schedule": testing.SCHEDULE_LAWS,
        "optimizer": testing.OPTIMIZER_LAWS,
        "initialization": testing.INITIALIZATION_LAWS,
        "augmentation": testing.AUGMENTATION_LAWS,
        "tokenizer": testing.TOKENIZER_LAWS,
        "processor": testing.PROCESSOR_LAWS,
        "splitter": testing.SPLITTER_LAWS,
        "dataset": testing.DATASET_LAWS,
    }
    return "\n\n".join(
        f"### {kind}_conformance\n\n{laws(all_laws)}" for kind, all_laws in kinds.items()
    )


def catalogue() -> str:
    """Return a table of the keys of each section of a catalogue."""
    sections = {
        "[models.NAME]": MODEL_KEYS,
        "[checkpoints.NAME]": CHECKPOINT_KEYS,
        "[checkpoints.NAME.files]": FILE_KEYS,
        "[packages.NAME]": PACKAGE_KEYS,
    }
    tables = []
    for section, keys in sections.items():
        rows = [
            [f"`{name}`", TOML_NAMES[key.kind], "yes" if key.required else "", key.meaning]
            for name, key in keys.items()
        ]
        table = markdown_table(["key", "value", "required", "meaning"], rows)
        tables.append(f"## {section}\n\n{table}")
    return "\n\n".join(tables)


COMPARISON = FOLDER.parent / "cards" / "comparison.json"
LABELS = {
    "exact_match": "exact match, %",
    "bleu": "BLEU",
    "chrf": "chrF",
    "tokenized_bleu": "tokenized BLEU",
    "word_error_rate": "word error rate, %",
    "phone_error_rate": "phone error rate, %",
    "word_error_rate_without_stress": "words, without stress",
    "phone_error_rate_without_stress": "phones, without stress",
}
"""Of the metrics that tables of checkpoints show, in this order."""


def updates_and_minutes(released: Released) -> list[str]:
    """Return how long a checkpoint was trained, as two cells of a table."""
    training = json.loads((released.folder / "training.json").read_text(encoding="utf-8"))
    minutes = training["minutes"]
    return [f"{training['steps']:,}", f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.1f}"]


def metrics_of(entries: Sequence[Released]) -> list[str]:
    """Return the metrics that all of some checkpoints have."""
    return [metric for metric in LABELS if all(metric in entry.scores for entry in entries)]


def compared(task: str) -> str:
    """Return the tables of a task, from the catalogue and the results of `cards/compare.py`."""
    results = json.loads(COMPARISON.read_text(encoding="utf-8"))
    models = {name.partition(".")[0]: v for name, v in results.items() if name.endswith(f".{task}")}
    entries = [default_registry().checkpoints[f"{model}.{task}"] for model in models]
    metrics = metrics_of(entries)
    rows = []
    for (model, v), entry in zip(models.items(), entries, strict=True):
        rows.append(
            [
                f"`{model}`",
                f"{v['parameters']:,}",
                *updates_and_minutes(entry),
                *(f"{entry.scores[metric]:.2f}" for metric in metrics),
                f"{v['greedy']:,.0f}",
                f"{v['beam']:,.0f}",
            ]
        )
    head = ["model", "parameters", "updates", "minutes to train", *(LABELS[m] for m in metrics)]
    families = markdown_table(
        [*head, "greedy, sentences/s", "beam 5, sentences/s"], rows, numbers=True
    )
    lengths = next(iter(models.values()))["by_length"]
    head = ["model", *(f"{label} ({count:,})" for label, (count, _) in lengths.items())]
    rows = [
        [f"`{model}`", *(f"{score:.1f}" for _, score in v["by_length"].values())]
        for model, v in models.items()
    ]
    return f"{families}\n\n{markdown_table(head, rows, numbers=True)}\n"


def released(task: str) -> str:
    """Return the table of the checkpoints that are released for a task."""
    entries = [e for e in default_registry().checkpoints.values() if e.dataset == task]
    metrics = metrics_of(entries)
    rows = []
    for entry in entries:
        scores = [f"{entry.scores[metric]:.2f}" for metric in metrics]
        size = f"{entry.files['model.safetensors'].size / 1e6:.1f}"
        rows.append([f"`{entry.model}`", size, *updates_and_minutes(entry), *scores])
    head = ["model", "MB of weights", "updates", "minutes to train", *(LABELS[m] for m in metrics)]
    return f"{markdown_table(head, rows, numbers=True)}\n"


def shared() -> str:
    """Return the table of the network for many tasks beside the networks for one."""
    checkpoints = default_registry().checkpoints
    rows = []
    for record in read_scores(checkpoints["transformer-tiny.tasks"].folder):
        if tag := record.get("source_prefix", "").strip():  # else all tasks together
            own = checkpoints[f"transformer-tiny.{record['data']}"]
            metric = metrics_of([own])[0]
            scores = [f"{score:.2f}" for score in (record[metric], own.scores[metric])]
            rows.append([f"`{tag}`", f"`{record['data']}`", LABELS[metric], *scores])
    head = ["tag", "test data", "metric", "one network for all", "a network of its own"]
    return f"{markdown_table(head, rows)}\n"


def speed() -> str:
    """Return the table of all measured processors, from the smallest to the largest ratio."""
    trained, decoded = _measured("train.jsonl"), _measured("in_turn.jsonl")
    rows = []
    for generation, name in PROCESSORS.items():
        updates = [row for row in trained if f"({generation})" in row["machine"]]
        steps = [row for row in decoded if f"({generation})" in row["machine"]]
        others = [row for row in steps if not row["shape"].startswith("transformer")]
        batches = [row for row in steps if row["rows"] > 1 and row not in others]
        single = [row for row in steps if row["rows"] == 1]
        cells = [
            training_speed(updates, "float32"),
            training_speed(updates, "float32", "bf16"),
            decoding_speed(batches, "float32"),
            decoding_speed(batches, "int8"),
            decoding_speed(single, "float32"),
            decoding_speed(single, "int8"),
            decoding_speed(others, "float32"),
        ]
        spans = [f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "" for ratios in cells]
        rows.append([name, *spans])
    head = ["processor", "training, float32", "training, best precision", "batches, float32",
            "batches, int8", "one by one, float32", "one by one, int8",
            "LSTMs and ConvS2S, float32"]  # fmt: skip
    return markdown_table(head, rows, numbers=True)


def _measured(name: str) -> list[dict[str, Any]]:
    text = (FOLDER.parent / "benchmarks" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def training_speed(rows: list[dict[str, Any]], *precisions: str) -> list[float]:
    """Return a ratio for each network and number of threads: each side in its fastest precision."""
    times: dict[tuple[str, int], dict[bool, list[float]]] = {}
    for row in rows:
        if row["precision"] in precisions:
            sides = times.setdefault((row["shape"], row["threads"]), {True: [], False: []})
            sides[row["project"] == "zoo"].append(row["processor"])
    return [min(sides[False]) / min(sides[True]) for sides in times.values()]


def decoding_speed(rows: list[dict[str, Any]], precision: str) -> list[float]:
    """Return a ratio for each case in which both sides write the same number of tokens."""
    return [
        row["peer_processor"] / row["zoo_processor"]
        for row in rows
        if row["precision"] == precision and row["length"] == "forced" and row["kernels"]
    ]


def plugin_file(path: str) -> str:
    """Return a file of the plugin that `zoo new-plugin gated` creates."""
    kind = {"py": "python"}.get(path.rpartition(".")[2], path.rpartition(".")[2])
    return f'```{kind} title="{path}"\n{files_for("gated")[path].rstrip()}\n```'


PARTS: dict[str, Callable[[], str]] = {
    "side by side": side_by_side,
    "recipe": recipe,
    "hooks": hooks,
    "training parts": training_parts,
    "laws": lambda: laws(LAWS),
    "objective laws": lambda: laws(OBJECTIVE_LAWS),
    "shelf laws": shelf_laws,
    "catalogue": catalogue,
    "search laws": lambda: laws(SEARCH_LAWS),
    "compared: numbers-en-fr": functools.partial(compared, "numbers-en-fr"),
    "compared: multi30k-en-de": functools.partial(compared, "multi30k-en-de"),
    **{f"released: {task}": functools.partial(released, task) for task in RELEASED},
    "shared: tasks": shared,
    "speed": speed,
    **{path: functools.partial(plugin_file, path) for path in files_for("gated")},
}


def built(text: str) -> str:
    """Return a page with its generated parts up to date."""
    for name, make in PARTS.items():
        before, marker, rest = text.partition(f"<!-- generated: {name} -->\n")
        if marker:
            old, end, after = rest.partition("<!-- end -->")
            if not end or "<!-- generated: " in old:
                raise SystemExit(f"the generated part {name!r} has no end")
            text = f"{before}{marker}{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    for page in FOLDER.rglob("*.md"):
        page.write_text(built(page.read_text(encoding="utf-8")), encoding="utf-8")
