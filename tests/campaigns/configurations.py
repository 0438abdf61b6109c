"""Draw configurations that the architectures accept, and check that their networks work.

    python -m tests.campaigns.configurations --count 1000 --seed 1 --write configurations.md

From an architecture's example, a few values are replaced by others that its schema permits. A
configuration is then refused in the project's own words, or its network keeps the laws of the kit,
and a checkpoint of it is written, read again, and translates, scores and shows its attention.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.interop.checkpoints import SOURCES, TARGETS, checkpoint, write
from zoo.errors import ConfigError
from zoo.registry.registry import default_registry
from zoo.testing.case import case
from zoo.testing.law import BrokenLawError
from zoo.testing.laws import LAWS
from zoo.translation.loading import load
from zoo.translation.options import Options

ARCHITECTURES = ("convs2s", "rnnsearch", "seq2seq", "t5", "transformer")
SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 24)
NUMBERS = (0.0, 1e-6, 0.1, 0.5)
DEEPEST = 6
"""Most layers. The logits of a recurrent network of 24 depend on no token, even in float64, until
it has been trained."""
SLOW = ("learns_a_copy_task", "exports_to_onnx")
"""Laws that take seconds; the suite checks them on each example configuration."""
ABOUT_EXAMPLES = (
    "every_parameter_gets_a_gradient", "every_source_token_matters", "every_precision_works",
)  # fmt: skip
"""Laws about the example's sizes: with a width or a kernel of 1, a network may break them, or lose
more in bfloat16, and work all the same."""
KEPT = ("dropout", "max_positions", "max_source_positions", "max_target_positions")
"""Keys that stay as in the example: its laws are checked without dropout, on a fixed batch."""


def draw_value(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], draw: random.Random
) -> Any:
    """Return a value that a JSON schema permits, or nearly so."""
    if "$ref" in schema:
        return draw_value(definitions[schema["$ref"].rpartition("/")[2]], definitions, draw)
    if "anyOf" in schema:
        return draw_value(draw.choice(schema["anyOf"]), definitions, draw)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return [draw_value(item, definitions, draw) for item in schema["prefixItems"]]
        items = schema.get("items", {"type": "integer"})
        return [draw_value(items, definitions, draw) for _ in range(draw.randint(1, 3))]
    values: dict[str | None, Any] = {
        "boolean": (False, True), "integer": SIZES, "number": NUMBERS, "null": (None,),
    }  # fmt: skip
    return draw.choice(values[kind])


def drawn(architecture: str, draw: random.Random) -> dict[str, Any]:
    """Return an architecture's example values with one to six others."""
    config_type = default_registry().architecture(architecture).config_type()
    schema = config_type.model_json_schema()
    values: dict[str, Any] = config_type.example().model_dump(mode="json")
    for name in draw.sample(sorted(schema["properties"]), draw.randint(1, 6)):
        if name not in KEPT:
            value = draw_value(schema["properties"][name], schema.get("$defs", {}), draw)
            is_depth = name.endswith("layers") and isinstance(value, int)
            values[name] = min(value, DEEPEST) if is_depth else value
    return values


def faults(architecture: str, values: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yield what is wrong with the network of a configuration, in a line each.

    Raises:
        ConfigError: the configuration is refused.
    """
    made = case(architecture, **values)
    for law in LAWS:
        if law.name in (*SLOW, *ABOUT_EXAMPLES) or law.skipped(made) is not None:
            continue
        try:
            law(case(architecture, **values))
        except BrokenLawError as error:
            yield f"{law.name}: {str(error).splitlines()[0]}"
    try:
        use(architecture, values, folder)
    except Exception as error:
        yield f"use: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def use(architecture: str, values: dict[str, Any], folder: Path) -> None:
    """Write a checkpoint, read it, and translate, score and attend with it."""
    made = checkpoint(architecture, **values)
    kinds = made.model.attention_kinds
    translator = load(write(made, folder), device="cpu")
    texts = [*SOURCES, "", " ".join(SOURCES * 3)]
    searches: list[Options] = [{"beam": 1}, {"beam": 5, "n_best": 3}, {"sample": True, "seed": 1}]
    if "cross" in kinds:
        searches.append({"beam": 2, "coverage_penalty": 0.2})
    for search in searches:
        options: Options = {**search, "max_length": 12, "split": False, "long_texts": "split"}
        list(translator.stream(texts, **options))
    scores = translator.score(SOURCES[:2], TARGETS[:2])
    if not all(math.isfinite(score) for row in scores for score in row):
        raise ValueError("a score is not finite")
    if kinds:
        translator.attention(SOURCES[0])


def campaign(
    architectures: Sequence[str], count: int, seed: int
) -> Iterator[tuple[list[str], list[str]]]:
    """Check `count` configurations of each architecture; yield its table row, and its faults."""
    for architecture in architectures:
        began, outcomes, listed = time.process_time(), Counter[str](), list[str]()
        for index in range(count):
            draw = random.Random(f"{architecture} {seed} {index}")
            values = drawn(architecture, draw)
            with tempfile.TemporaryDirectory() as name:
                try:
                    problems = list(faults(architecture, values, Path(name) / "checkpoint"))
                except ConfigError:
                    outcomes["refused"] += 1
                    continue
            outcomes["wrong" if problems else "work"] += 1
            listed += [f"{architecture} {values}: {fault}" for fault in problems]
        seconds = f"{time.process_time() - began:.0f} s"
        yield [architecture, str(count), *(str(outcomes[n]) for n in OUTCOMES), seconds], listed


OUTCOMES = ("work", "refused", "wrong")


def main() -> None:
    """Run the campaign and print its record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="configurations per architecture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="written again after each row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from zoo.checkpoint.markdown import markdown_table

    head = ["architecture", "configurations", *OUTCOMES, "processor time"]
    rows, listed = [], []
    for row, faults_of_one in campaign(ARCHITECTURES, options.count, options.seed):
        rows.append(row)
        listed += faults_of_one
        record = (
            "# Configurations\n\nPrinted by `python -m tests.campaigns.configurations "
            f"--count {options.count} --seed {options.seed}`:\nPython "
            f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} shared cores.\n\n"
            f"{markdown_table(head, rows)}\n"
        )
        if options.write:
            options.write.write_text(record, encoding="utf-8")
    print(record)
    print("\n".join(listed))
    if listed:
        raise SystemExit(f"{len(listed)} faults")


if __name__ == "__main__":
    main()
