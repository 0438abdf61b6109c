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
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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


class Run:
    """A run folder on disk."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(f"{out.name}.run")

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
        return read_json(self.folder / "run.json")

    def go_on(self, description: dict[str, Any]) -> None:
        """Replace the description, whole.

        Raises:
            CheckpointError: the data has changed since the run began.
        """
        if self.describe().get("fingerprint") != description["fingerprint"]:
            raise CheckpointError(
                f"{self.folder} cannot go on",
                f"{description['data']} is not what it was trained on so far",
                "Bring the data back as it was, or begin a new run",
            )
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

    def load_state(self, model: Seq2Seq, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """Put the newest state into model, optimiser and generators; return its counters.

        Without a saved state nothing changes, and the counters are empty. What the metrics tell of
        later updates is forgotten: they will be made again.
        """
        states = self.states()
        self._forget_after(int(states[-1].name) if states else 0)
        if not states:
            return {}
        newest = states[-1]
        weights = read_tensors(newest / "model.safetensors")
        moments = read_tensors(newest / "optimiser.safetensors")
        counters = read_json(newest / "state.json")
        of_weight: dict[str, dict[str, Tensor]] = {}
        for name, value in moments.items():
            owner, _, key = name.rpartition("/")
            of_weight.setdefault(owner, {})[key] = value
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(weights[name])
                optimiser.state[weight] = {
                    key: value.to(weight.device) for key, value in of_weight[name].items()
                }
        for device, state in counters.pop("generators").items():
            tensor = torch.frombuffer(bytearray(base64.b64decode(state)), dtype=torch.uint8)
            if device == "cpu":
                torch.set_rng_state(tensor)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(tensor)
        return counters


def _generators() -> dict[str, str]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return {
        device: base64.b64encode(state.numpy().tobytes()).decode()
        for device, state in states.items()
    }
