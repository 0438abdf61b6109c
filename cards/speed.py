"""The speeds of the released checkpoints on one core, in sentences/s: `speeds.json`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from released import data_of, search_of

RECORD = Path(__file__).with_name("speeds.json")
PAIRS = 400
TRIES = 3


def measure(name: str, folder: Path) -> None:
    """Time translations of validation sources, greedy and as recommended, and record the speeds."""
    import torch

    import zoo
    from zoo.data.datasets import find_dataset, read_items
    from zoo.nn.kernels import kernels
    from zoo.registry.registry import default_registry

    torch.set_num_threads(1)
    dataset = find_dataset(default_registry(), data_of(name))
    _, items = read_items(dataset, "validation", PAIRS)
    sources = [item.source for item in items]
    translator = zoo.load(folder, device="cpu")
    speeds = {}
    for search, options in (("greedy", {"beam": 1}), ("recommended", search_of(name))):
        seconds = []
        for _ in range(TRIES):
            before = time.perf_counter()
            translator.translate(sources, recommended=False, split=False, **options)
            seconds.append(time.perf_counter() - before)
        speeds[search] = round(len(sources) / min(seconds))
    record = speeds_of_all()
    record[name] = {
        **speeds,
        "sentences": len(sources),
        "processor": processor(),
        "kernels": kernels() is not None,
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def processor() -> str:
    """Return the processor's name, with the family and the model, which are its generation."""
    said: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        said.setdefault(key.strip(), value.strip())
    return f"{said['model name']} (family {said['cpu family']}, model {said['model']})"


def speeds_of_all() -> dict[str, dict[str, Any]]:
    """Return what has been recorded, by checkpoint."""
    if not RECORD.is_file():
        return {}
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def section(name: str) -> list[str]:
    """Return the section of a card about its speed, if that has been measured."""
    of = speeds_of_all().get(name)
    if of is None:
        return []
    compiled = "with" if of["kernels"] else "without"
    return [
        f"## Speed\n\n{of['greedy']:,} sentences/s by greedy search, {of['recommended']:,} with "
        f"the recommended search: {of['sentences']} validation sources in batches, in float32, on "
        f"one core of an {of['processor']}, {compiled} compiled kernels, {of['measured']}."
    ]
