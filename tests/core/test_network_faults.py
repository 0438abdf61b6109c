"""What a plugin's network raises or returns wrongly is blamed on its plugin, nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import zoo
from tests.shelves import registry_with
from zoo.data.batches import Batch
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.forced import align, forced_log_probs
from zoo.decoding.greedy import greedy
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import ConfigError, PluginError
from zoo.nn import faults
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.registry.config import Config
from zoo.registry.registry import Registry, default_registry
from zoo.training.training_batch import TrainingBatch

OWNER = "visitor (zoo-visitor 1.0)"
VISITOR = """
import torch
from zoo import Architecture
from zoo.nn import Decoded, Encoded, NonAutoregressive
from zoo_seq2seq.config import Seq2SeqConfig
from zoo_seq2seq.network import RecurrentSeq2Seq

number = 3

@hookimpl
def zoo_architectures():
    for name, network in (("visiting", "Raising"), ("number", "number")):
        yield Architecture(
            name=name, summary=name, paper="", config="zoo_visitor:Seq2SeqConfig",
            network=f"zoo_visitor:{network}",
        )
    for name in ("number", "Raising"):
        yield Architecture(
            name=f"configured-by-{name}", summary=name, paper="", config=f"zoo_visitor:{name}",
            network="zoo_visitor:Raising",
        )

class Raising(RecurrentSeq2Seq):
    def forward(self, source, source_mask, target, attention=False):
        raise KeyError("no key")
    def step(self, token, state, memory, attention=False):
        raise MemoryError if self.full else KeyError("no key")

class Lacking(RecurrentSeq2Seq):
    def forward(self, source, source_mask, target, attention=False):
        return None
    def step(self, token, state, memory, attention=False):
        return (1, 2)

class Narrow(RecurrentSeq2Seq):
    def forward(self, *given):
        output = super().forward(*given)
        return output._replace(logits=output.logits[..., :-1])

class LayersFirst(RecurrentSeq2Seq):
    def init_state(self, memory):
        return [torch.zeros(7, 2)]

class NarrowStep(RecurrentSeq2Seq):
    def step(self, *given):
        step = super().step(*given)
        return step._replace(logits=step.logits[:, :-1])

class Deaf(RecurrentSeq2Seq):
    def encode(self, source, source_mask, attention=False):
        raise KeyError("no ear")

class Plain(RecurrentSeq2Seq):
    def encode(self, source, source_mask, attention=False):
        return super().encode(source, source_mask, attention).memory

class Endless(NonAutoregressive):
    def encode(self, source, source_mask, attention=False):
        return Encoded(source)
    def forward(self, *given):
        raise NotImplementedError
    def decode(self, memory, limits, banned):
        return Decoded(memory.clamp(min=4), torch.zeros(memory.shape))

class Stateless(RecurrentSeq2Seq):
    def init_state(self, memory):
        raise KeyError("no state")

class Short(RecurrentSeq2Seq):
    def forward(self, *given):
        output = super().forward(*given)
        return output._replace(logits=output.logits[:, :-1])

class PlainLoss(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(losses={"balance": 3})

class LossList(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(losses=[torch.tensor(1.0)])

class LossOfEach(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(losses={"balance": torch.ones(2)})

class SpacedName(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(losses={"a b\\n": torch.tensor(1.0)})

class NoName(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(losses={3: torch.tensor(1.0)})

class Swapped(RecurrentSeq2Seq):
    def forward(self, *given):
        return super().forward(*given)._replace(logits={})
    def step(self, *given):
        step = super().step(*given)
        return step._replace(logits=step.state, state=step.logits)

class Attentive(RecurrentSeq2Seq):
    attention = None
    def forward(self, *given):
        return super().forward(*given)._replace(attention=self.attention)
    def step(self, *given):
        return super().step(*given)._replace(attention=self.attention)

class Odd(RecurrentSeq2Seq):
    def init_state(self, memory):
        return {"state": super().init_state(memory)}
    def step(self, token, state, memory, attention=False):
        step = super().step(token, state["state"], memory, attention)
        return step._replace(state={"state": step.state})
"""
SOURCE = torch.tensor([[4, 5, 2], [4, 2, 0]])


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = registry_with(monkeypatch, VISITOR)
    monkeypatch.setattr(faults, "default_registry", lambda: registry)
    return registry


def network_of(name: str) -> Seq2Seq[Any, Any]:
    module = sys.modules["zoo_visitor"]
    config: Config = module.Seq2SeqConfig.example()
    network: Seq2Seq[Any, Any] = build(getattr(module, name), config, 9, 9)
    network.full = False  # type: ignore[assignment]
    return network.eval()


@pytest.mark.parametrize("name", ["number", "Raising"])
def test_a_config_that_is_no_config_class_is_named(name: str, visitor: Registry) -> None:
    reason = f"'configured-by-{name}' is broken: zoo_visitor:{name} is .*, not a subclass of zoo.C"
    with pytest.raises(PluginError, match=reason):
        visitor.architecture(f"configured-by-{name}").config_type()


def output_of(name: str) -> object:
    batch = Batch(SOURCE, SOURCE > 0, torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.arange(2))
    return TrainingBatch(network_of(name), batch).output


def losses_of(name: str) -> object:
    batch = Batch(SOURCE, SOURCE > 0, torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.arange(2))
    training = TrainingBatch(network_of(name), batch)
    assert training.output
    return training.own_losses()


def task_of(name: str) -> Task[Any, Any]:
    network = network_of(name)
    return Task(network, network.encode(SOURCE, SOURCE > 0).memory, SOURCE > 0)


def beam_of(name: str) -> object:
    return search(task_of(name), Search(beam=2))


def exhaustive_of(name: str) -> object:
    return search(task_of(name), Search(exhaustive=True, max_length=2))


def greedy_of(name: str) -> object:
    return greedy(network_of(name), SOURCE, SOURCE > 0)


def ensemble_of(name: str) -> object:
    network = network_of(name)
    ensemble = Ensemble([network, network])
    memory = ensemble.encode([(SOURCE, SOURCE > 0)] * 2)
    return search(Task(ensemble, memory, SOURCE > 0), Search(beam=2))


@pytest.mark.parametrize(
    ("use", "name", "reason"),
    [
        (
            output_of,
            "Raising",
            f"the network Raising of {OWNER} is broken: it raised KeyE",
        ),
        (output_of, "Lacking", f"the network Lacking of {OWNER} is broken: forward returned a "),
        (output_of, "Narrow", f"the network Narrow of {OWNER} is broken: forward returned l"),
        (output_of, "Short", f"the network Short of {OWNER} is broken: forward returned l"),
        *(
            (use, "Stateless", f"the network Stateless of {OWNER} is broken: it raised KeyError: ")
            for use in (beam_of, greedy_of, exhaustive_of, ensemble_of)
        ),
        (beam_of, "Raising", f"the network Raising of {OWNER} is broken: it raised KeyE"),
        (beam_of, "Lacking", f"the network Lacking of {OWNER} is broken: step returned a v"),
        (greedy_of, "Deaf", f"the network Deaf of {OWNER} is broken: it raised KeyError: 'no ear'"),
        (greedy_of, "Plain", f"the network Plain of {OWNER} is broken: encode returned a "),
        (
            greedy_of,
            "Endless",
            f"the network Endless of {OWNER} is broken: decode returned a target ",
        ),
        (ensemble_of, "Deaf", f"the network Deaf of {OWNER} is broken: it raised KeyE"),
        (ensemble_of, "Raising", f"the network Raising of {OWNER} is broken: it raised KeyE"),
        (ensemble_of, "Lacking", f"the network Lacking of {OWNER} is broken: step returned a v"),
        *(
            (use, "LayersFirst", f"the network LayersFirst of {OWNER} is broken: tensors of its ")
            for use in (beam_of, greedy_of, ensemble_of)
        ),
        (greedy_of, "NarrowStep", f"the network NarrowStep of {OWNER} is broken: step returned l"),
        (
            output_of,
            "Swapped",
            f"the network Swapped of {OWNER} is broken: forward returned logits ",
        ),
        (beam_of, "Swapped", f"the network Swapped of {OWNER} is broken: step returned logits of "),
        *(
            (losses_of, name, f"the network {name} of {OWNER} is broken: forward returned the los")
            for name in ("PlainLoss", "LossList", "LossOfEach")
        ),
        *(
            (losses_of, name, f"the network {name} of {OWNER} is broken: a loss has the name {it}")
            for name, it in (("SpacedName", r"'a b\n': letters"), ("NoName", "3: letters"))
        ),
        (beam_of, "Odd", "cannot gather rows of a dict: memory and state are nested"),
    ],
)
def test_the_plugin_of_a_network_is_named(
    visitor: Registry, use: Callable[[str], object], name: str, reason: str
) -> None:
    with pytest.raises(PluginError) as caught:
        use(name)
    assert str(caught.value).startswith(reason)


def align_of(network: Any) -> object:
    return align(network, SOURCE, SOURCE > 0, [[4], [5]])


def scores_of(network: Any) -> object:
    return forced_log_probs(network, SOURCE, SOURCE > 0, [[4], [5]])


def step_of(network: Any) -> object:
    memory = network.encode(SOURCE, SOURCE > 0).memory
    return faults.step(network, SOURCE[:, 0], network.init_state(memory), memory, attention=True)


@pytest.mark.parametrize(
    ("use", "attention", "reason"),
    [
        (align_of, None, "forward returned attention of type NoneType, not a mapping of kinds to"),
        (align_of, torch.zeros(2), "forward returned attention of type Tensor, not a mapping"),
        (align_of, {"cross": 3}, "forward returned 'cross' attention of 3, not (rows, layers, he"),
        (
            align_of,
            {"cross": torch.zeros(2, 1, 3, 3)},
            "forward returned 'cross' attention of shape (2, 1, 3, 3), not (rows, layers, heads, "
            "queries, keys) of 2 rows and 2 queries",
        ),
        (align_of, {"cross": torch.zeros(2, 1, 1, 3, 3)}, "forward returned 'cross' attention"),
        (align_of, {"encoder": torch.zeros(1, 1, 1, 3, 3)}, "forward returned 'encoder' attentio"),
        (step_of, {"cross": torch.zeros(2, 1, 1, 3)}, "step returned 'cross' attention of shape"),
        (step_of, {"cross": torch.zeros(2, 1, 1, 1, 3)}, ""),
        (
            align_of,
            {"cross": torch.zeros(2, 1, 1, 2, 3), "encoder": torch.zeros(2, 1, 1, 3, 3)},
            "",
        ),
    ],
)
def test_attention_of_another_shape_is_the_networks_fault(
    visitor: Registry, use: Callable[[Any], object], attention: object, reason: str
) -> None:
    network: Any = network_of("Attentive")
    network.attention = attention
    if not reason:
        use(network)
        return
    with pytest.raises(PluginError) as caught:
        use(network)
    assert str(caught.value).startswith(f"the network Attentive of {OWNER} is broken: {reason}")


@pytest.mark.parametrize("use", [align_of, scores_of])
def test_what_a_network_raises_for_given_targets_is_its_fault(
    visitor: Registry, use: Callable[[Any], object]
) -> None:
    with pytest.raises(PluginError, match=r"the network Raising of .* is broken: it raised KeyE"):
        use(network_of("Raising"))


@pytest.mark.parametrize("name", ["Raising", "Lacking", "Narrow"])
def test_objectives_are_not_blamed_for_the_network(visitor: Registry, name: str) -> None:
    with pytest.raises(PluginError, match="the network"), visitor.objectives.blaming("r_drop"):
        output_of(name)


def test_memory_that_runs_out_is_nobody_s_fault(visitor: Registry) -> None:
    task = task_of("Raising")
    task.model.full = True  # type: ignore[attr-defined]
    with pytest.raises(MemoryError):
        task.step(SOURCE[:, 0], task.model.init_state(task.memory), task.memory)


def test_a_network_that_is_no_class_is_refused(visitor: Registry) -> None:
    with pytest.raises(PluginError, match="'number' is broken: zoo_visitor:number is 3, not a cl"):
        network_type(visitor.architecture("number"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"device": "cuda:77"}, "no device 'cuda:77' here: this machine has"),
        ({"device": "nonsense"}, "no device 'nonsense' here"),
        (
            {"source_vocab": 10**30},
            "source_vocab cannot be 1000000000000000000000000000000: it",
        ),
        ({"target_vocab": 3}, "target_vocab cannot be 3: it is an integer from 4"),
        ({"target_vocab": True}, "target_vocab cannot be True"),
        ({"target_vocab": 5.5}, "target_vocab cannot be 5.5"),
    ],
)
def test_wrong_devices_and_vocabularies_are_the_user_s(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        zoo.create_model("seq2seq-d2l", **values)
    assert str(caught.value).startswith(message)


def test_a_device_and_numbers_of_numpy() -> None:
    sizes: dict[str, Any] = {"source_vocab": np.int64(9), "target_vocab": np.int32(8)}
    network = zoo.create_model("seq2seq-d2l", **sizes, device="auto")
    assert (network.source_vocab, network.target_vocab) == (9, 8)
    with pytest.raises(ConfigError, match=r"dim"):
        zoo.create_model("transformer-tiny", dim=np.array([1, 2]))
    weights: list[Tensor] = [*zoo.create_model("seq2seq-d2l", device="meta").parameters()]
    assert {weight.device.type for weight in weights} == {"meta"}


def test_a_constructor_that_does_not_call_its_base_class_is_named() -> None:
    class Bare(Seq2Seq):
        def __init__(self, config: Config, source_vocab: int, target_vocab: int) -> None:
            torch.nn.Module.__init__(self)

        encode = init_state = step = forward = torch.nn.Module.forward

    config = default_registry().config("seq2seq-tiny")
    with pytest.raises(PluginError, match=r"it has to call super\(\).__init__\(config, source_v"):
        build(Bare, config, 9, 9)
