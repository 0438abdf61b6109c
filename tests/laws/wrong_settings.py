"""Faults in what a network leaves behind in its process."""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tests.laws.networks import Made, Memory, Network, Right, State, wrong
from zoo.nn import Encoded, Output, Step

CHANGES: dict[str, Callable[[], object]] = {
    "torch's default type (from torch.float32 to torch.float64)": lambda: torch.set_default_dtype(
        torch.float64
    ),
    "torch's default device (from 'cpu' to 'cpu:0')": lambda: torch.set_default_device("cpu:0"),
    "whether torch computes gradients (from True to False)": lambda: torch.set_grad_enabled(False),
    "torch's number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "whether torch's algorithms are deterministic": lambda: torch.use_deterministic_algorithms(
        True
    ),
    "torch's precision of products": lambda: torch.set_float32_matmul_precision("medium"),
    "whether torch looks for anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "torch's backends (cudnn.benchmark)": lambda: setattr(
        torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark
    ),
    "the environment (ZOO_CHANGED)": lambda: os.environ.update(ZOO_CHANGED="1"),
    "the working directory": lambda: os.chdir(tempfile.gettempdir()),
    "Python's random numbers": lambda: random.seed(0),
    "NumPy's random numbers": lambda: np.random.seed(0),
    "the filters of warnings": lambda: warnings.simplefilter("ignore"),
}
"""By what the law reports, functions that change a setting."""


def changing(change: Callable[[], object], method: str) -> type[Network]:
    """Return a network that changes a setting in a method."""

    class Changes(Network):
        def __init__(self, config: Right, source_vocab: int, target_vocab: int) -> None:
            super().__init__(config, source_vocab, target_vocab)
            if method == "the constructor":
                change()

        def encode(
            self, source: Tensor, source_mask: Tensor, attention: bool = False
        ) -> Encoded[Memory]:
            if method == "encode":
                change()
            return super().encode(source, source_mask, attention)

        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            if method == "step":
                change()
            return super().step(token, state, memory, attention)

        def forward(
            self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
        ) -> Output:
            if method == "forward in training mode" and self.training:
                change()
            return super().forward(source, source_mask, target, attention)

    return Changes


@wrong("process_settings_stay", "step changes whether torch computes gradients (from True to False)")  # fmt: skip  # noqa: E501
def a_step_that_turns_gradients_off() -> Made:
    return changing(lambda: torch.set_grad_enabled(False), "step")


@wrong("process_settings_stay", "step prints '(5, 32)\\n'")
def a_step_that_prints() -> Made:
    class Prints(Network):
        def step(
            self, token: Tensor, state: State, memory: Memory, attention: bool = False
        ) -> Step[State]:
            print(tuple(state[0].shape))
            return super().step(token, state, memory, attention)

    return Prints
