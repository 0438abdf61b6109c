"""What a run is, at one moment: enough to go on as if it had never stopped."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from zoo.errors import CheckpointError
from zoo.nn.contract import Seq2Seq
from zoo.training.averaging import Released
from zoo.training.group import Group
from zoo.training.progress import Progress
from zoo.training.run import Run


def save(
    run: Run,
    group: Group,
    progress: Progress,
    model: Seq2Seq,
    optimiser: torch.optim.Optimizer,
    released: Released,
) -> None:
    """Write a state, its tensors whole even where they are in shards. All processes must call it.

    Raises:
        TrainingError: the disk refuses; what was saved before is whole.
    """
    names = {id(weight): name for name, weight in model.named_parameters()}
    tensors = {
        "model": {name: group.whole(weight) for name, weight in model.named_parameters()},
        "optimiser": {
            f"{names[id(weight)]}/{key}": group.whole(value)
            for weight, values in optimiser.state.items()
            for key, value in values.items()
        },
    }
    if released.average:
        shadows = zip(released.names, released.average, strict=True)
        tensors["average"] = {name: group.whole(weight) for name, weight in shadows}
    values = {
        **progress.as_json(),
        "generators": _generators(group),
        "environment": environment(group),
    }
    run.save_state(
        progress.step, tensors, values, lambda v: released.needed(Progress.parse(v, "a state"))
    )
    group.wait()


def load(
    run: Run,
    group: Group,
    model: Seq2Seq,
    optimiser: torch.optim.Optimizer,
    released: Released,
) -> tuple[Progress, list[str]]:
    """Put a run's newest whole state where it belongs; return its progress and what to tell.

    Raises:
        CheckpointError: there are states, but none is whole.
    """
    told: list[str] = []

    def take(tensors: Mapping[str, Mapping[str, Tensor]], values: Mapping[str, Any]) -> Progress:
        progress = Progress.parse(values, "a state")
        parameters = dict(model.named_parameters())
        shapes = {name: weight.shape for name, weight in parameters.items()}
        kinds = ["model", *(["average"] if released.average else [])]
        for kind in kinds:
            if {n: w.shape for n, w in tensors.get(kind, {}).items()} != shapes:
                raise CheckpointError("a state is of another network")
        moments = tensors.get("optimiser", {})
        if not {name.rpartition("/")[0] for name in moments} <= shapes.keys():
            raise CheckpointError("a state is of another network")
        with torch.no_grad():
            for name, weight in parameters.items():
                weight.copy_(group.like(tensors["model"][name], weight))
            for name, shadow in zip(released.names, released.average, strict=bool(kinds[1:])):
                shadow.copy_(group.like(tensors["average"][name], shadow))
        for name, value in moments.items():
            owner, _, key = name.rpartition("/")
            weight = parameters[owner]
            placed = group.like(value, weight) if value.dim() else value.to(group.device)
            optimiser.state.setdefault(weight, {})[key] = placed
        told.extend(_restore(values, group))
        return progress

    group.wait()  # a state that another process still writes is not read
    progress, damaged = run.newest_state(take)
    damaged = [f"a newer state is damaged and left out: {text}" for text in damaged]
    group.wait()
    return progress or Progress(), damaged + told


# --- what the weights do not tell --------------------------------------------------------------


def environment(group: Group) -> dict[str, Any]:
    """Return what bits depend on besides recipe, data and seed."""
    cuda = group.device.type == "cuda"
    device = torch.cuda.get_device_name() if cuda else torch.backends.cpu.get_cpu_capability()
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": f"{group.device.type}, {device}",
        "processes": group.size,
    }


def _restore(values: Mapping[str, Any], group: Group) -> list[str]:
    """Bring threads and generators back to what they were; tell of what is not as it was."""
    before = values.get("environment", {})
    threads = before.get("threads")
    if isinstance(threads, int) and 0 < threads <= (os.cpu_count() or 1):
        torch.set_num_threads(threads)
    states = values.get("generators", [])
    if len(states) == group.size:
        for device, encoded in dict(states[group.rank]).items():
            tensor = torch.frombuffer(bytearray(base64.b64decode(encoded)), dtype=torch.uint8)
            if device == "cpu":
                torch.set_rng_state(tensor)
            elif torch.cuda.is_available():
                torch.cuda.set_rng_state(tensor)
    else:
        # Other processes than before: generators of their own, which no earlier draw repeats.
        torch.manual_seed(torch.initial_seed() + 7919 * int(values["step"]) + group.rank)
    now = environment(group)
    changed = [f"{k} {before[k]} → {now[k]}" for k in now if before.get(k, now[k]) != now[k]]
    return [f"bits will differ from a run that was never stopped: {', '.join(changed)}"] * bool(
        changed
    )


def _generators(group: Group) -> list[dict[str, str]]:
    states = {"cpu": group.collect(torch.get_rng_state())}
    if group.device.type == "cuda":
        states["cuda"] = group.collect(torch.cuda.get_rng_state())
    return [
        {d: base64.b64encode(each[rank].numpy().tobytes()).decode() for d, each in states.items()}
        for rank in range(group.size)
    ]
