"""The run folder `OUT.run/`: what is trained and how, its states and its metrics.

run.json                  model, data, complete configuration and recipe
recipe.toml               recipe and configuration again, to read and for `--recipe`
*.tokenizer.json          the tokenizers
initial.safetensors       the first weights of a run that tunes a checkpoint
parent.json               what such a run knows of that checkpoint
*pairs.jsonl              the pairs of a run that was given them from Python
metrics.jsonl             one line for each report and validation
curve.png                 a plot of the metrics
states/STEP/              weights, optimizer and counters after that update; the newest two are kept
weights/STEP.safetensors  weights at a validation, if the recipe averages or selects
lock                      held by the process that trains
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from filelock import FileLock, Timeout
from torch import Tensor

from zoo.checkpoint.format import RUN, TRAINING
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, PluginError, TrainingError, unexpanded, writing
from zoo.files import (
    TEXT_LIMIT,
    mend_folder,
    read_json,
    replace_file,
    whole_folder,
    write_json,
)
from zoo.registry.records import read_metrics
from zoo.registry.registry import Registry

FORMAT, RECIPE = 2, "recipe.toml"
KEYS: Mapping[str, Any] = {
    "id": str, "model": str, "architecture": str, "data": str, "fingerprint": str, "config": dict,
    "recipe": dict, "limit": int | None, "validation": str | None,
}  # fmt: skip
"""What a run's description holds, and of which types."""

ADVICE = {
    errno.ENOSPC: "Free some space", errno.EDQUOT: "Free some space",
    errno.EFBIG: "Raise the limit of a file's size (`ulimit -f`)",
}  # fmt: skip
"""What helps against an error of the system."""

OWN_PAIRS = {"data": "pairs", "validation": "validation-pairs"}
"""The names of the copies of pairs that were given from Python."""


class RunFolder:
    """The files of a run, at `path`. Only the process with `writes` changes anything."""

    def __init__(self, out: str | os.PathLike[str], *, writes: bool = True) -> None:
        self.writes = writes
        self.lock: FileLock | None = None
        self.out = Path(os.path.abspath(out))
        if not self.out.name or os.fspath(out) in ("", "."):
            raise CheckpointError(
                f"no checkpoint can be written at {str(out)!r}",
                "that is not a new folder",
                "Give --out the name of one",
            )
        if reason := unexpanded(out):
            raise CheckpointError(
                f"no checkpoint can be written at {str(out)!r}",
                reason,
                "Give the whole path",
            )
        self.path = self.out.with_name(f"{self.out.name}.run")
        self.states = self.path / "states"

    # --- begin and resume -----------------------------------------------------------------------

    def exists(self) -> bool:
        """Return whether there is a run.

        Raises:
            CheckpointError: the system refuses the path, for example because its name is too long.
        """
        with writing(self.path):
            return (self.path / RUN).is_file()

    def check_free(self) -> None:
        """Make sure that neither the checkpoint nor the run exists.

        Raises:
            CheckpointError: one of them exists.
        """
        hint = "Continue that run with --resume, give" if self.exists() else "Give"
        for path, holds in ((self.out, "a checkpoint or other files"), (self.path, "a run")):
            if os.path.lexists(path) and not (path == self.out and is_empty_folder(path)):
                raise CheckpointError(
                    f"{path} exists already",
                    f"it holds {holds}",
                    f"{hint} another --out, or remove it",
                )

    def create(
        self,
        description: dict[str, Any],
        recipe: str,
        source: Tokenizer,
        target: Tokenizer,
        more: Mapping[str, bytes | Path] | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Write the folder, whole, and lock it; `recipe` is TOML, `more` are further files.

        Raises:
            PluginError: the file of a plugin's tokenizer cannot be read again.
            CheckpointError: it cannot be written, or another process holds the lock.
        """
        with writing(self.path), whole_folder(self.path) as part:
            for name, content in (more or {}).items():
                if isinstance(content, Path):
                    shutil.copyfile(content, part / name)
                else:
                    (part / name).write_bytes(content)
            _write_tokenizer(part / "source.tokenizer.json", source, registry)
            if target is not source:
                _write_tokenizer(part / "target.tokenizer.json", target, registry)
            (part / RECIPE).write_text(recipe, encoding="utf-8")
            write_json(part / RUN, {"format": FORMAT, "id": uuid.uuid4().hex, **description})
        self.acquire()

    def acquire(self) -> None:
        """Lock the run for this process, until `release` or the end of the process.

        Raises:
            CheckpointError: another process holds the lock.
        """
        if not self.writes or self.lock is not None:
            return
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise CheckpointError(
                f"{self.path} is in use",
                "another process trains this run",
                "Wait for it, or stop it",
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"{self.path} cannot be written",
                error.strerror or str(error),
                "Make it writable, or copy the run to another folder",
            ) from None
        self.lock = lock

    def release(self) -> None:
        """Unlock the run."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def repair(self) -> list[str]:
        """Remove or restore what a killed process left; return notes. The run must be locked."""
        notes = []
        if self.writes:
            mend_folder(self.path)
            notes += mend_folder(self.out)
            for name in {f.name.split(".")[1] for f in self.states.glob(".*.*.*")}:
                state = f"state {int(name):,}" if name.isdecimal() else name
                notes += [text.replace(name, state) for text in mend_folder(self.states / name)]
            for part in [*self.path.glob("*.part"), *self.path.glob("weights/*.part")]:
                part.unlink()
        return notes

    def describe(self) -> dict[str, Any]:
        """Return the description that was given to `create`.

        Raises:
            CheckpointError: there is no run, or another version of the zoo wrote it.
        """
        if not self.exists():
            remedy = "Leave out --resume"
            if (self.out / RUN).is_file():
                remedy = f"Give --out {self.out.with_suffix('')}, without .run"
            raise CheckpointError(f"no run to resume at {self.path}", f"it has no {RUN}", remedy)
        description = read_json(self.path / RUN)
        if description.get("format") != FORMAT:
            raise CheckpointError(
                f"{self.path} cannot be resumed",
                "another version of seq2seq-zoo wrote it (0.1 calls `optimizer` and "
                "`initialization` `optimiser` and `initialisation`)",
                "Resume it with that version, or begin a new run with `zoo train MODEL --data …`",
            )
        missing = [key for key in KEYS if key not in description]
        if missing:
            raise CheckpointError(f"{self.path / 'run.json'} lacks {', '.join(missing)}")
        wrong = [key for key, kind in KEYS.items() if not isinstance(description.get(key), kind)]
        if wrong:
            raise CheckpointError(
                f"{self.path / 'run.json'} is damaged", f"wrong type of {', '.join(wrong)}"
            )
        for key, name in OWN_PAIRS.items():
            if (self.path / f"{name}.jsonl").is_file():  # the folder may have been moved
                description[key] = str(self.path / f"{name}.jsonl")
        return description

    def update_description(self, description: dict[str, Any], recipe: str) -> None:
        """Replace description and recipe, each whole."""
        if self.writes:
            values = {"format": FORMAT, "id": self.id, **description}
            text = json.dumps(values, indent=2, ensure_ascii=False)
            replace_file(self.path / RUN, text + "\n")
            replace_file(self.path / RECIPE, recipe)

    def tokenizers(self, registry: Registry) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of source and target, which may be one and the same."""
        source = load_tokenizer(self.path / "source.tokenizer.json", registry)
        file = self.path / "target.tokenizer.json"
        return source, load_tokenizer(file, registry) if file.is_file() else source

    # --- the checkpoint -------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's identifier, which its checkpoint records."""
        return str(self.describe()["id"])

    def may_replace(self) -> bool:
        """Return whether the checkpoint folder is one that this run wrote, or an empty one."""
        if is_empty_folder(self.out):
            return True
        with contextlib.suppress(CheckpointError):
            return bool(read_json(self.out / TRAINING, TEXT_LIMIT).get("run") == self.id)
        return False

    def check_replaceable(self) -> None:
        """Make sure that a checkpoint folder, if there is one, is this run's.

        Raises:
            CheckpointError: it is not.
        """
        if os.path.lexists(self.out) and not self.may_replace():
            raise CheckpointError(
                f"{self.out} is in the way", "this run did not write it", "Move it elsewhere"
            )

    # --- metrics, states, weights ---------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """Turn a failure to write into an error that says which state is safe.

        Raises:
            TrainingError: `what` could not be written.
        """
        try:
            yield
        except OSError as error:
            states = self.saved_states()
            safe = f"the state of update {int(states[-1].name):,} is whole" if states else ""
            first = ADVICE.get(error.errno or 0, "Mend that")
            raise TrainingError(
                f"cannot write {what}",
                "; ".join(filter(None, [error.strerror or str(error), safe])),
                f"{first}, then run `zoo train --resume --out {self.out}`",
            ) from error

    def add_metrics(self, record: dict[str, Any]) -> None:
        """Append a line to the metrics, without empty `losses` and `scores`."""
        record = {
            key: value for key, value in record.items() if key not in ("losses", "scores") or value
        }
        if self.writes:
            with (
                self.writing("metrics"),
                (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file,
            ):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics so far, as `read_metrics` does."""
        return read_metrics(self.path / "metrics.jsonl")

    def remove_after(self, step: int) -> None:
        """Remove the metrics and the kept weights of updates after `step`, which are made again.

        With other totals, they will not be the same.
        """
        for file in {*self.kept_weights()} - {*self.kept_weights(step)}:
            file.unlink()
        records = [record for record in self.metrics() if record["step"] <= step]
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        replace_file(self.path / "metrics.jsonl", "".join(lines))

    def saved_states(self) -> list[Path]:
        """Return the folders of whole states, oldest first."""
        return sorted(folder for folder in self.states.glob("*") if folder.name.isdecimal())

    def keep_weights(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Write the weights after update `step`."""
        if self.writes:
            with self.writing(f"the weights of update {step:,}"):
                (self.path / "weights").mkdir(exist_ok=True)
                content = safetensors.torch.save(dict(weights))
                replace_file(self.path / "weights" / f"{step:09d}.safetensors", content)

    def kept_weights(self, step: float = math.inf) -> list[Path]:
        """Return the files of weights up to update `step`, oldest first."""
        files = [f for f in self.path.glob("weights/*.safetensors") if f.stem.isdecimal()]
        return sorted(f for f in files if int(f.stem) <= step)


def is_empty_folder(path: Path) -> bool:
    """Return whether there is a folder, and nothing in it."""
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _write_tokenizer(file: Path, tokenizer: Tokenizer, registry: Registry | None) -> None:
    """Write a tokenizer; one that a plugin brings must be the same when it is read again.

    Raises:
        PluginError: it is not: the checkpoint could not be loaded.
    """
    text = tokenizer.to_json()
    file.write_text(text, encoding="utf-8")
    if tokenizer.portable:
        return
    what, next = "the tokenizer cannot be used", "Report this to its author"
    try:
        again = load_tokenizer(file, registry).to_json()
    except CheckpointError as error:
        raise PluginError(what, f"its file cannot be read again: {error.why}", next) from error
    if again != text:
        raise PluginError(what, "its file is read as another tokenizer", next)
