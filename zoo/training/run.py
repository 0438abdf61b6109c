"""The run folder `OUT.run/`: what is trained and how, its states and its metrics.

run.json          model, data, full config and recipe
*.tokenizer.json  the vocabularies
metrics.jsonl     a line for each report and validation
states/STEP/      weights, optimiser and counters after that update, written whole; the newest
                  two are kept
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from zoo.checkpoint import (
    flush,
    read_json,
    read_tensors,
    whole_folder,
    write_json,
    write_tensors,
)
from zoo.errors import CheckpointError
from zoo.model import Seq2Seq
from zoo.text import Tokenizer

KEPT_STATES = 2
KEYS = ("model", "architecture", "config", "recipe", "data", "limit", "validation", "fingerprint")
COUNTERS = ("step", "epoch", "position", "seconds")


class Run:
    """A run folder on disk."""

    def __init__(self, out: Path) -> None:
        self.out = Path(os.path.abspath(out))
        if not self.out.name or str(out) in ("", "."):
            raise CheckpointError(f"no checkpoint can be at {str(out)!r}", "name a new folder")
        self.folder = self.out.with_name(f"{self.out.name}.run")

    def check_free(self) -> None:
        """Make sure that neither the checkpoint nor the run is there.

        Raises:
            CheckpointError: one is.
        """
        for folder, holds in ((self.out, "a checkpoint or other files"), (self.folder, "a run")):
            if folder.exists():
                raise CheckpointError(
                    f"{folder} is there already",
                    f"it holds {holds}",
                    "Go on with that run by --resume, give another --out, or remove it",
                )

    def create(self, description: dict[str, Any], source: Tokenizer, target: Tokenizer) -> None:
        """Make the folder, whole."""
        with whole_folder(self.folder) as part:
            (part / "source.tokenizer.json").write_text(source.to_json(), encoding="utf-8")
            if target is not source:
                (part / "target.tokenizer.json").write_text(target.to_json(), encoding="utf-8")
            write_json(part / "run.json", description)

    def describe(self) -> dict[str, Any]:
        """Return what `create` was given.

        Raises:
            CheckpointError: there is no run.
        """
        if not (self.folder / "run.json").is_file():
            raise CheckpointError(
                f"no run to resume at {self.folder}", "it has no run.json", "Leave out --resume"
            )
        description = read_json(self.folder / "run.json")
        missing = [key for key in KEYS if key not in description]
        if missing:
            raise CheckpointError(f"{self.folder / 'run.json'} lacks {', '.join(missing)}")
        return description

    def check_replaceable(self) -> None:
        """Make sure that what stands in the checkpoint's place, if anything, is this run's own.

        Raises:
            CheckpointError: it is not.
        """
        if os.path.lexists(self.out) and not self.may_replace():
            raise CheckpointError(
                f"{self.out} is in the way", "this run did not write it", "Move it elsewhere"
            )

    def may_replace(self) -> bool:
        """Tell whether the checkpoint's place holds what this run wrote there."""
        return (self.folder / "finished").is_file() and (self.out / "config.json").is_file()

    def finished(self) -> None:
        """Note that this run has written its checkpoint."""
        (self.folder / "finished").touch()

    def check_same(self, description: dict[str, Any]) -> None:
        """Make sure that the data is as it was.

        Raises:
            CheckpointError: it has changed since the run began.
        """
        if self.describe()["fingerprint"] != description["fingerprint"]:
            raise CheckpointError(
                f"{self.folder} cannot go on",
                f"{description['data']} is not what it was trained on so far",
                "Bring the data back as it was, or begin a new run",
            )

    def describe_as(self, description: dict[str, Any]) -> None:
        """Replace the description, whole."""
        part = self.folder / "run.json.part"
        write_json(part, description)
        flush(part)
        part.replace(self.folder / "run.json")

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Return the source's and the target's tokenizer; one and the same if they are shared."""
        source = Tokenizer.load(self.folder / "source.tokenizer.json")
        file = self.folder / "target.tokenizer.json"
        return source, Tokenizer.load(file) if file.is_file() else source

    def note(self, record: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics so far; a last line cut short by a crash is left out."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").split("\n") if file.is_file() else []
        return [json.loads(line) for line in lines[:-1]]

    def _forget_after(self, step: int) -> None:
        """Drop the metrics of updates after `step`."""
        kept = [json.dumps(record) + "\n" for record in self.metrics() if record["step"] <= step]
        part = self.folder / "metrics.jsonl.part"
        part.write_text("".join(kept), encoding="utf-8")
        part.replace(self.folder / "metrics.jsonl")

    # --- states ---------------------------------------------------------------------------------

    def save_state(
        self, model: Seq2Seq, optimiser: torch.optim.Optimizer, counters: dict[str, Any]
    ) -> None:
        """Write the state after update `counters["step"]`, whole, and drop the oldest."""
        names = {id(weight): name for name, weight in model.named_parameters()}
        moments = {
            f"{names[id(weight)]}/{key}": value
            for weight, values in optimiser.state.items()
            for key, value in values.items()
        }
        folder = self.folder / "states" / f"{counters['step']:09d}"
        with whole_folder(folder, replace=True) as part:
            write_tensors(part / "model.safetensors", dict(model.named_parameters()))
            write_tensors(part / "optimiser.safetensors", moments)
            write_json(part / "state.json", {**counters, "generators": _generators()})
        for old in self.states()[:-KEPT_STATES]:
            shutil.rmtree(old)

    def states(self) -> list[Path]:
        """Return the folders of whole states, oldest first."""
        return sorted(folder for folder in self.folder.glob("states/*") if folder.name.isdigit())

    def load_state(
        self, model: Seq2Seq, optimiser: torch.optim.Optimizer
    ) -> tuple[dict[str, Any], str]:
        """Put the newest whole state into model, optimiser and generators.

        Returns its counters, and what to tell of newer states that are damaged. Without a saved
        state nothing changes, and the counters are empty. What the metrics tell of later updates is
        forgotten: they will be made again.

        Raises:
            CheckpointError: there are states, but none is whole.
        """
        damaged: list[str] = []
        for folder in reversed(self.states()):
            try:
                counters = self._load(folder, model, optimiser)
            except CheckpointError as error:
                damaged.append(str(error))
                continue
            self._forget_after(counters["step"])
            return counters, "; ".join(damaged)
        if damaged:
            raise CheckpointError(f"{self.folder} has no whole state", "; ".join(damaged))
        self._forget_after(0)
        return {}, ""

    @staticmethod
    def _load(folder: Path, model: Seq2Seq, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        weights = read_tensors(folder / "model.safetensors")
        moments = read_tensors(folder / "optimiser.safetensors")
        state = read_json(folder / "state.json")
        parameters = dict(model.named_parameters())
        shapes = {name: weight.shape for name, weight in parameters.items()}
        owners = {name.rpartition("/")[0] for name in moments}
        if {n: w.shape for n, w in weights.items()} != shapes or not owners <= shapes.keys():
            raise CheckpointError(f"{folder} is of another network")
        if not all(type(state.get(key)) in (int, float) for key in COUNTERS):
            raise CheckpointError(f"{folder / 'state.json'} lacks a counter")
        with torch.no_grad():
            for name, weight in parameters.items():
                weight.copy_(weights[name])
        for name, value in moments.items():
            owner, _, key = name.rpartition("/")
            weight = parameters[owner]
            optimiser.state.setdefault(weight, {})[key] = value.to(weight.device)
        for device, encoded in dict(state.get("generators", {})).items():
            tensor = torch.frombuffer(bytearray(base64.b64decode(encoded)), dtype=torch.uint8)
            if device == "cpu":
                torch.set_rng_state(tensor)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(tensor)
        return {key: state[key] for key in COUNTERS}


def _generators() -> dict[str, str]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return {
        device: base64.b64encode(state.numpy().tobytes()).decode()
        for device, state in states.items()
    }
