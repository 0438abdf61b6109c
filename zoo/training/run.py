"""The run folder `OUT.run/`: what is trained and how, its states and its metrics.

run.json          model, data, full config and recipe
recipe.toml       recipe and config once more, to read and for `--recipe`
*.tokenizer.json  the vocabularies
metrics.jsonl     a line for each report and validation
curve.png         the same to look at
states/STEP/      weights, optimiser and counters after that update, written whole; the newest
                  two are kept
weights/STEP.safetensors  weights at a validation, where the recipe averages or selects
lock              held by the process that trains
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
from filelock import FileLock, Timeout
from torch import Tensor

from zoo.checkpoint.format import TRAINING
from zoo.checkpoint.tensors import read_tensors, write_tensors
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, TrainingError
from zoo.files import mend_folder, read_json, replace_file, whole_folder, write_json

T = TypeVar("T")
KEPT_STATES = 2
KEYS = (
    "id", "model", "architecture", "config", "recipe", "data", "limit", "validation", "fingerprint"
)  # fmt: skip


class Run:
    """A run folder on disk. With `writes` false, for all processes but one, nothing is written."""

    def __init__(self, out: Path, *, writes: bool = True) -> None:
        self.writes = writes
        self.lock: FileLock | None = None
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

    def create(
        self, description: dict[str, Any], recipe: str, source: Tokenizer, target: Tokenizer
    ) -> None:
        """Make the folder, whole, and hold it; `recipe` is TOML."""
        if not self.writes:
            return
        with whole_folder(self.folder) as part:
            (part / "source.tokenizer.json").write_text(source.to_json(), encoding="utf-8")
            if target is not source:
                (part / "target.tokenizer.json").write_text(target.to_json(), encoding="utf-8")
            (part / "recipe.toml").write_text(recipe, encoding="utf-8")
            write_json(part / "run.json", {"id": uuid.uuid4().hex, **description})
        self.hold()

    def hold(self) -> None:
        """Keep every other process from this run, until `release` or the end of this one.

        Raises:
            CheckpointError: another process holds it.
        """
        if not self.writes or self.lock is not None:
            return
        lock = FileLock(self.folder / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise CheckpointError(
                f"{self.folder} is in use",
                "another process trains this run",
                "Wait for it, or stop it",
            ) from None
        self.lock = lock

    def release(self) -> None:
        """Let others have the run."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def mend(self) -> list[str]:
        """Put right what a killed process left; return what was done. The run must be held."""
        done = []
        if self.writes:
            mend_folder(self.folder)
            done += mend_folder(self.out)
            for folder in {f.name.split(".")[1] for f in self.folder.glob("states/.*.*.*")}:
                done += [
                    text.replace(folder, f"state {int(folder):,}")
                    for text in mend_folder(self.folder / "states" / folder)
                ]
            for part in [*self.folder.glob("*.part"), *self.folder.glob("weights/*.part")]:
                part.unlink()
        return done

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
        with contextlib.suppress(CheckpointError):
            return bool(read_json(self.out / TRAINING).get("run") == self.id)
        return False

    @property
    def id(self) -> str:
        """The run's own mark, by which it knows its checkpoint."""
        return str(self.describe()["id"])

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

    def describe_as(self, description: dict[str, Any], recipe: str) -> None:
        """Replace description and recipe, each whole."""
        if self.writes:
            text = json.dumps({"id": self.id, **description}, indent=2, ensure_ascii=False)
            replace_file(self.folder / "run.json", text + "\n")
            replace_file(self.folder / "recipe.toml", recipe)

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Return the source's and the target's tokenizer; one and the same if they are shared."""
        source = Tokenizer.load(self.folder / "source.tokenizer.json")
        file = self.folder / "target.tokenizer.json"
        return source, Tokenizer.load(file) if file.is_file() else source

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Turn what the disk refuses into an error that says what is safe.

        Raises:
            TrainingError: `what` could not be written.
        """
        try:
            yield
        except OSError as error:
            states = self.states()
            safe = f"the state of update {int(states[-1].name):,} is whole" if states else ""
            raise TrainingError(
                f"cannot write {what}",
                "; ".join(filter(None, [error.strerror or str(error), safe])),
                f"Make room, then go on by `zoo train --resume --out {self.out}`",
            ) from error

    def note(self, record: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        if self.writes:
            with (
                self.writing("metrics"),
                (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file,
            ):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics so far; a last line cut short by a crash is left out."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").split("\n") if file.is_file() else []
        return [json.loads(line) for line in lines[:-1]]

    def _forget_after(self, step: int) -> None:
        """Drop the metrics of updates after `step`."""
        records = [record for record in self.metrics() if record["step"] <= step]
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        replace_file(self.folder / "metrics.jsonl", "".join(lines))

    # --- states ---------------------------------------------------------------------------------

    def save_state(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        values: Mapping[str, Any],
        needed: Callable[[Mapping[str, Any]], Iterable[int]],
    ) -> None:
        """Write the state after update `step`, whole, and drop what is no longer needed.

        `tensors` become a file for each name; `needed` tells of a state's values which updates'
        weights it may still ask for.
        """
        if not self.writes:
            return
        folder = self.folder / "states" / f"{step:09d}"
        with self.writing(f"the state of update {step:,}"):
            with whole_folder(folder, replace=True) as part:
                for name, content in tensors.items():
                    write_tensors(part / f"{name}.safetensors", content)
                sums = {f.name: zlib.crc32(f.read_bytes()) for f in part.iterdir()}
                write_json(part / "state.json", {**values, "sums": sums})
            for old in self.states()[:-KEPT_STATES]:
                shutil.rmtree(old)
            kept = {s for f in self.states() for s in needed(read_json(f / "state.json"))}
            for file in self.folder.glob("weights/*.safetensors"):
                if int(file.stem) <= step and int(file.stem) not in kept:
                    file.unlink()

    def states(self) -> list[Path]:
        """Return the folders of whole states, oldest first."""
        return sorted(folder for folder in self.folder.glob("states/*") if folder.name.isdigit())

    def newest_state(
        self, take: Callable[[Mapping[str, Mapping[str, Tensor]], Mapping[str, Any]], T]
    ) -> tuple[T | None, list[str]]:
        """Give the newest whole state's tensors and values to `take`.

        Returns what that returns, and what to tell of newer states that are damaged, which are set
        aside. What the metrics tell of later updates is forgotten: they will be made again. Without
        a saved state nothing is called.

        Raises:
            CheckpointError: there are states, but none is whole, or `take` raised it for each.
        """
        damaged: list[str] = []
        newer: list[Path] = []
        for folder in reversed(self.states()):
            try:
                tensors, values = self._read_state(folder)
                taken = take(tensors, values)
            except CheckpointError as error:
                damaged.append(str(error))
                newer.append(folder)
                continue
            if self.writes:
                for state in newer:
                    aside = state.with_name(f"{state.name}.damaged")
                    shutil.rmtree(aside, ignore_errors=True)
                    state.rename(aside)
                self._forget_after(int(folder.name))
            return taken, damaged
        if damaged:
            raise CheckpointError(f"{self.folder} has no whole state", "; ".join(damaged))
        if self.writes:
            self._forget_after(0)
        return None, []

    @staticmethod
    def _read_state(folder: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        values = read_json(folder / "state.json")
        sums = values.get("sums")
        if not isinstance(sums, dict):
            raise CheckpointError(f"{folder / 'state.json'} lacks its sums")
        tensors = {}
        for name, wanted in sums.items():
            tensors[name.removesuffix(".safetensors")] = read_tensors(folder / name)
            if zlib.crc32((folder / name).read_bytes()) != wanted:
                raise CheckpointError(f"{folder / name} has changed since it was written")
        return tensors, values

    # --- weights at validations -----------------------------------------------------------------

    def keep_weights(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Keep the weights after update `step`."""
        if self.writes:
            with self.writing(f"the weights of update {step:,}"):
                (self.folder / "weights").mkdir(exist_ok=True)
                content = safetensors.torch.save(dict(weights))
                replace_file(self.folder / "weights" / f"{step:09d}.safetensors", content)

    def kept_weights(self, step: int) -> list[Path]:
        """Return the files of weights up to update `step`, oldest first."""
        return sorted(f for f in self.folder.glob("weights/*.safetensors") if int(f.stem) <= step)
