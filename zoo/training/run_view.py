"""What callbacks see of a run: copies of its weights, and a way to end it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor

from zoo.errors import ConfigError
from zoo.nn.contract import Seq2Seq
from zoo.training.parts import optimizer_state
from zoo.training.process_group import ProcessGroup
from zoo.training.sharding import is_sharded_model
from zoo.training.state import TrainingState


class RunView:
    """A run as callbacks see it. With weights in shards, tensors are this process's shards."""

    def __init__(
        self, state: TrainingState, group: ProcessGroup, stop: Callable[[str], None]
    ) -> None:
        self._state, self._group, self._stop = state, group, stop

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """Copies of the network's weights by name, each made when it is read."""
        return _Copies(dict(self._state.model.named_parameters()), self._group)

    @property
    def optimizer_state(self) -> Mapping[str, Tensor]:
        """Copies of the optimizer's tensors as WEIGHT/KEY, each made when it is read."""
        return _Copies(optimizer_state(self._state.optimizer, self._state.weights)[0], self._group)

    def model(self) -> Seq2Seq:
        """Return a copy of the network in evaluation mode.

        Raises:
            ConfigError: its weights are in shards.
        """
        if is_sharded_model(self._state.model):
            raise ConfigError("a callback cannot copy a network in shards", "", "Leave out --shard")
        return copy.deepcopy(self._state.model).eval()

    def stop(self, reason: str) -> None:
        """End the run after the next update: it is validated, saved and released.

        Several processes end it after the next report.
        """
        self._stop(reason)


class _Copies(Mapping[str, Tensor]):
    """Tensors by name; what is read is a copy on the CPU."""

    def __init__(self, tensors: Mapping[str, Tensor], group: ProcessGroup) -> None:
        self._tensors, self._group = tensors, group

    def __getitem__(self, name: str) -> Tensor:
        return self._group.to_local(self._tensors[name]).clone().cpu()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
