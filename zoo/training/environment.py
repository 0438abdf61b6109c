"""What bits depend on besides recipe, data and seed, and what training changes of the process."""

from __future__ import annotations

import base64
import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from zoo.errors import CheckpointError
from zoo.nn.kernels import kernels
from zoo.training.process_group import ProcessGroup


@contextlib.contextmanager
def training_environment(threads: int, sharded: bool) -> Iterator[None]:
    """Use that many threads, and ignore a warning about sharded weights, until the block ends."""
    before = torch.get_num_threads()
    if threads != before:
        torch.set_num_threads(threads)
    try:
        with warnings.catch_warnings() if sharded else contextlib.nullcontext():
            if sharded:
                # It is about changing a returned view in place. No network of the contract changes
                # its inputs, and the tests compare gradients.
                warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
            yield
    finally:
        if threads != before:
            torch.set_num_threads(before)


def describe_environment(group: ProcessGroup) -> dict[str, Any]:
    """Return what bits depend on besides recipe, data and seed."""
    cuda = group.device.type == "cuda"
    capability = torch.backends.cpu.get_cpu_capability()
    device = torch.cuda.get_device_name(group.device) if cuda else capability
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": f"{group.device.type}, {device}",
        "processes": group.size,
        "compiled kernels": "yes" if kernels() else "no",
    }


def generator_states(group: ProcessGroup) -> list[dict[str, str]]:
    """Return the states of every process's default random generators, by device."""
    states = {"cpu": group.all_gather(torch.get_rng_state())}
    if group.device.type == "cuda":
        states["cuda"] = group.all_gather(torch.cuda.get_rng_state(group.device))
    return [
        {d: base64.b64encode(each[rank].numpy().tobytes()).decode() for d, each in states.items()}
        for rank in range(group.size)
    ]


def restore_environment(values: Mapping[str, Any], group: ProcessGroup) -> tuple[int, list[str]]:
    """Restore the generators that a saved state holds.

    Returns the number of threads to train with, and a note if the environment is not the same.

    Raises:
        CheckpointError: the state's values are not what `describe_environment` and
            `generator_states` return.
    """
    saved, states = values.get("environment", {}), values.get("generators", [])
    if not isinstance(saved, dict) or not isinstance(states, list):
        raise CheckpointError("a state lacks its environment", "it is not a table and a list")
    now = describe_environment(group)
    threads = saved.get("threads")
    if isinstance(threads, int) and 0 < threads <= (os.cpu_count() or 1):
        now["threads"] = threads
    if len(states) == group.size:
        _set_generators(states[group.rank], group.device)
    else:
        # Another number of processes: seeds that no earlier part of the run has used.
        torch.manual_seed(torch.initial_seed() + 7919 * int(values["step"]) + group.rank)
    changed = [f"{k} {saved[k]} → {now[k]}" for k in now if saved.get(k, now[k]) != now[k]]
    notes = []
    if changed:
        notes.append(
            "the weights will differ in the last bits from those of an uninterrupted run: "
            f"{', '.join(changed)}"
        )
    return now["threads"], notes


def _set_generators(encoded: Mapping[str, str], picked: torch.device) -> None:
    try:
        for device, text in dict(encoded).items():
            content = bytearray(base64.b64decode(text, validate=True))
            state = torch.frombuffer(content, dtype=torch.uint8)
            if device == "cpu":
                torch.set_rng_state(state)
            elif picked.type == "cuda":
                torch.cuda.set_rng_state(state, picked)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error)
        raise CheckpointError("a state's random generators cannot be restored", reason) from None
