"""Write a run's state, and read back the newest one that is undamaged.

A state is a folder `states/STEP/`: `model.safetensors`, `optimizer.safetensors`, with an
exponential average `average.safetensors`, with tensors of objectives or of the schedule
`parts.safetensors`, and `state.json` with counters, other values, generators, environment and a
checksum for each file.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.checkpoint.tensors import read_tensors, write_tensors
from zoo.errors import CheckpointError
from zoo.files import read_json, whole_folder, write_json
from zoo.training.averaging import AveragedWeights
from zoo.training.environment import describe_environment, generator_states, restore_environment
from zoo.training.parts import (
    check_optimizer_state,
    check_optimizer_values,
    load_optimizer_state,
    optimizer_state,
)
from zoo.training.sharding import distribute_like

KEPT_STATES = 2

PARTS = tuple(f"{part}.safetensors" for part in ("model", "optimizer", "average", "parts"))
"""The files of a state beside `state.json`."""

Tensors = Mapping[str, Mapping[str, Tensor]]


def save_state(averaged: AveragedWeights) -> None:
    """Write the current state, with whole tensors, and remove older ones.

    All processes must call it.

    Raises:
        TrainingError: the state cannot be written; the states saved before are unchanged.
    """
    state, folder, group = averaged.state, averaged.folder, averaged.group
    moments, optimizer = optimizer_state(state.optimizer, state.weights)
    tensors = {
        "model": {name: group.full_tensor(w) for name, w in state.model.named_parameters()},
        "optimizer": {name: group.full_tensor(value) for name, value in moments.items()},
    }
    own, parts = state.parts.state()
    if own:
        tensors["parts"] = own
    if state.average:
        pairs = zip(averaged.names, state.average, strict=True)
        tensors["average"] = {name: group.full_tensor(weight) for name, weight in pairs}
    values = {
        **state.counters(),
        "optimizer": optimizer,
        "parts": parts,
        "generators": generator_states(group),
        "environment": describe_environment(group),
    }
    if group.is_first:
        with folder.writing(f"the state of update {state.step:,}"):
            _write(folder.states / f"{state.step:09d}", tensors, values)
            _remove_older(averaged)
    group.barrier()


def _write(folder: Path, tensors: Tensors, values: Mapping[str, Any]) -> None:
    with whole_folder(folder, replace=True) as part:
        for name, content in tensors.items():
            write_tensors(part / f"{name}.safetensors", content)
        sums = {f.name: zlib.crc32(f.read_bytes()) for f in part.iterdir()}
        write_json(part / "state.json", {**values, "sums": sums})


def _remove_older(averaged: AveragedWeights) -> None:
    """Remove all but the newest states, and the kept weights that none of those needs."""
    folder = averaged.folder
    for old in folder.saved_states()[:-KEPT_STATES]:
        shutil.rmtree(old)
    needed = {
        step
        for state in folder.saved_states()
        for step in averaged.needed(read_json(state / "state.json"))
    }
    for file in folder.kept_weights(averaged.state.step):
        if int(file.stem) not in needed:
            file.unlink()


def load_state(averaged: AveragedWeights) -> tuple[int, list[str]]:
    """Restore the newest undamaged state of the run folder, if there is one.

    Newer states that are damaged are renamed to `STEP.damaged`, and the metrics and kept weights of
    later updates are removed: those updates are repeated. Returns the number of threads to train
    with, and notes for the user.

    Raises:
        CheckpointError: there are states, but all are damaged or belong to another network.
    """
    folder, group = averaged.folder, averaged.group
    group.barrier()  # do not read a state that another process is still writing
    damaged: dict[Path, str] = {}
    threads = torch.get_num_threads()
    notes: list[str] = []
    for path in reversed(folder.saved_states()):
        try:
            tensors, values = _read(path)
            _restore(tensors, values, averaged)
            threads, notes = restore_environment(values, group)
        except CheckpointError as error:
            damaged[path] = str(error)
            continue
        break
    else:
        if damaged:
            raise CheckpointError(f"{folder.path} has no whole state", "; ".join(damaged.values()))
    if group.is_first:
        for path in damaged:
            aside = path.with_name(f"{path.name}.damaged")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
        folder.remove_after(averaged.state.step)
    group.barrier()
    return threads, [
        f"a newer state is damaged and not used: {t}" for t in damaged.values()
    ] + notes


def _read(folder: Path) -> tuple[Tensors, dict[str, Any]]:
    values = read_json(folder / "state.json")
    sums = values.get("sums")
    if not isinstance(sums, dict):
        raise CheckpointError(f"{folder / 'state.json'} lacks the files' checksums")
    tensors = {}
    for name, expected in sums.items():
        if name not in PARTS:
            raise CheckpointError(f"{folder / 'state.json'} names {name[:100]!r}", "it is no part")
        tensors[name.removesuffix(".safetensors")] = read_tensors(folder / name)
        if zlib.crc32((folder / name).read_bytes()) != expected:
            raise CheckpointError(f"{folder / name} has changed since it was written")
    return tensors, values


def _restore(tensors: Tensors, values: Mapping[str, Any], averaged: AveragedWeights) -> None:
    """Put a state's tensors and counters where they belong, or raise before anything is changed."""
    state = averaged.state
    parameters = dict(state.model.named_parameters())
    shapes = {name: weight.shape for name, weight in parameters.items()}
    moments = tensors.get("optimizer", {})
    for kind in ("model", *(["average"] if state.average else [])):
        if {n: w.shape for n, w in tensors.get(kind, {}).items()} != shapes:
            raise CheckpointError("the state belongs to another network", f"{kind} differs")
    check_optimizer_state(moments, state.weights)
    state.set_counters(values)
    other = values.get("optimizer", {})
    check_optimizer_values(state.optimizer, state.weights, other)
    parts = values.get("parts", {})
    if not isinstance(parts, dict) or not all(isinstance(p, dict) for p in parts.values()):
        raise CheckpointError("the state of objectives is not a table of tables")
    state.parts.load(tensors.get("parts", {}), parts)
    with torch.no_grad():
        for name, weight in parameters.items():
            weight.copy_(distribute_like(tensors["model"][name], weight))
        if state.average:
            for name, average in zip(averaged.names, state.average, strict=True):
                average.copy_(distribute_like(tensors["average"][name], average))
    load_optimizer_state(state.optimizer, state.weights, moments, other)
