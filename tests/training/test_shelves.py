"""Objectives, schedules, optimizers, initializations and augmentations that plugins bring."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import SMALL, finished, same
from tests.shelves import registry_with
from zoo.errors import ConfigError, PluginError
from zoo.registry.events import Report
from zoo.registry.registry import Registry
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume

CODE = """
import torch
from torch import nn
import zoo.training
from zoo import Augmentation, Initialization, Objective, Optimizer, Schedule

@hookimpl
def zoo_objectives():
    yield Objective("length", "predicts the target's length", "zoo_visitor:Length")
    for name in ("raises", "vector", "constant", "nothing"):
        yield Objective(name, "a test", f"zoo_visitor:{name}")

@hookimpl
def zoo_schedules():
    yield Schedule("falling", "falls at each update", "zoo_visitor:Falling")

@hookimpl
def zoo_optimizers():
    yield Optimizer("lion", "signs of a momentum", "zoo_visitor:Lion")
    yield Optimizer("empty", "a test", "zoo_visitor:nothing")
    yield Optimizer("stray", "a test", "zoo_visitor:stray")

@hookimpl
def zoo_initializations():
    yield Initialization("normal", "normal matrices", "zoo_visitor:normal")
    yield Initialization("endless", "a test", "zoo_visitor:endless")
    yield Initialization("frozen", "a test", "zoo_visitor:frozen")
    yield Initialization("replaced", "a test", "zoo_visitor:replaced")

@hookimpl
def zoo_augmentations():
    yield Augmentation("turned", "some sources are reversed", "zoo_visitor:Turned")
    yield Augmentation("shorter", "a test", "zoo_visitor:Shorter")
    yield Augmentation("fewer", "a test", "zoo_visitor:Fewer")
    yield Augmentation("strange", "a test", "zoo_visitor:Strange")
    yield Augmentation("silent", "a test", "zoo_visitor:Silent")

class Length(nn.Module):
    def __init__(self, setup, network, layers: int = 1):
        super().__init__()
        self.head = nn.Linear(setup.target_tokenizer.size, layers)
        self.batches = 0

    def forward(self, batch):
        self.batches += 1
        logits = batch.output.logits.float().masked_fill((batch.labels == 0)[..., None], 0)
        return (self.head(logits.mean(1)).mean(1) - batch.tokens).square().sum() / 100

    def get_extra_state(self):
        return {"batches": self.batches}

    def set_extra_state(self, state):
        self.batches = state["batches"]

def raises(setup, network):
    def fail(batch):
        raise RuntimeError("no luck today")
    return fail

def vector(setup, network):
    return lambda batch: batch.tokens.float()

def constant(setup, network):
    return lambda batch: torch.ones(())

def replaced(network, table):
    row = next(iter(table))
    owner, _, name = row.path.rpartition(".")
    setattr(network.get_submodule(owner), name, torch.nn.Parameter(torch.zeros(2, 2)))

def stray(groups, recipe):
    made = torch.optim.SGD(groups, lr=0.1)
    made.state["here"] = {"x": 1}
    return made

def nothing(*given):
    return None

class Falling:
    def __init__(self, recipe, factor: float = 0.9):
        self.rate, self.factor = recipe.learning_rate, factor

    def __call__(self, progress):
        self.rate *= self.factor
        return self.rate

    def state_dict(self):
        return {"rate": self.rate, "history": [1, "two", None]}

    def load_state_dict(self, state):
        self.rate = state["rate"]
        assert state["history"] == [1, "two", None]

class Lion(torch.optim.Optimizer):
    def __init__(self, groups, recipe, beta: float = 0.9):
        super().__init__(groups, {"lr": recipe.learning_rate, "beta": beta, "calls": 0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["calls"] += 1
            for weight in group["params"]:
                state = self.state[weight]
                mean = state.setdefault("mean", torch.zeros_like(weight))
                state["count"] = state.get("count", 0) + 1
                mean.lerp_(weight.grad, 1 - group["beta"])
                size = group["lr"] / (group["calls"] + state["count"]) ** 0.5
                weight.sub_(mean.sign(), alpha=size)

def normal(network, table, deviation: float = 0.1):
    for row in table:
        if len(row.shape) > 1:
            network.get_parameter(row.path).normal_(0, deviation)

def endless(network, table):
    next(network.parameters()).fill_(float("inf"))

def frozen(network, table):
    network.requires_grad_(False)

class Turned(zoo.training.Augmentation):
    def __init__(self, setup, probability: float = 0.5):
        self.seed, self.probability = setup.recipe.seed, probability

    def corpus(self, corpus, epoch):
        generator = torch.Generator().manual_seed(self.seed + epoch)
        turned = torch.rand(len(corpus), generator=generator) < self.probability
        rows = [corpus.source.pad(torch.tensor([i]))[0].tolist() for i in range(len(corpus))]
        rows = [[*r[-2::-1], r[-1]] if t else r for r, t in zip(rows, turned.tolist())]
        sides = zoo.training.Sequences.of(rows), corpus.target
        return zoo.training.Corpus(*sides, corpus.left_out)

    def batch(self, source, inputs):
        drawn = torch.rand(source.shape) < 0.05
        return source.masked_fill(drawn & (source > 3), 3), inputs

class Fewer(zoo.training.Augmentation):
    def __init__(self, setup):
        pass

    def corpus(self, corpus, epoch):
        sides = (zoo.training.Sequences.of([[4, 2]]) for _ in range(2))
        return zoo.training.Corpus(*sides, corpus.left_out)

class Strange(zoo.training.Augmentation):
    def __init__(self, setup):
        pass

    def batch(self, source, inputs):
        return source.masked_fill(source > 3, 99_999), inputs

class Silent(zoo.training.Augmentation):
    def __init__(self, setup):
        pass

    def batch(self, source, inputs):
        return None

class Shorter(zoo.training.Augmentation):
    def __init__(self, setup):
        pass

    def batch(self, source, inputs):
        return source[:, 1:], inputs
"""
MODEL = "rnnsearch-tiny"
EVERYTHING: dict[str, Any] = {
    **SMALL,
    "objective": ["cross_entropy", {"name": "length", "weight": 0.5, "layers": 2}],
    "schedule": {"name": "falling", "factor": 0.95},
    "optimizer": {"name": "lion", "beta": 0.8},
    "initialization": {"name": "normal", "deviation": 0.2},
    "augmentations": [{"name": "turned", "probability": 0.3}],
}


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return registry_with(monkeypatch, CODE)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_stopped_run_with_parts_of_a_plugin_resumes_bit_for_bit(
    precision: str, parallel: Path, tmp_path: Path, visitor: Registry
) -> None:
    data, settings = f"{parallel}:en-de", {**EVERYTHING, "recipe.precision": precision}
    reports: list[Report] = []
    zoo.train(MODEL, data, tmp_path / "plain", settings=settings, steps=14, registry=visitor,
              on_event=lambda e: reports.append(e) if isinstance(e, Report) else None)  # fmt: skip
    assert set(reports[-1].losses) == {"cross_entropy", "length"}
    assert reports[-1].loss == pytest.approx(sum(reports[-1].losses.values()), rel=1e-4)
    request = TrainingRequest(MODEL, data, tmp_path / "cut", settings=settings, steps=14)
    with begin(request, visitor) as session:
        trainer = session.trainer
        assert trainer.state.optimizer.param_groups[0]["beta"] == 0.8
        head = trainer.loss.weights()["objectives.0.head.weight"]
        before = head.detach().clone()
        for event in trainer.events():
            if event.step >= 8:
                break
        assert trainer.state.epoch > 0
        assert not torch.equal(head, before)  # an objective's own weights are trained
        assert not torch.equal(trainer.corpus.source.pad(torch.arange(9)),
                               trainer.data.corpus.source.pad(torch.arange(9)))  # fmt: skip
    finished(resume(tmp_path / "cut", registry=visitor))
    assert same(tmp_path / "plain", tmp_path / "cut")


def test_resuming_without_the_plugin_names_its_package(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry
) -> None:
    near = """
    from zoo import Dataset, Pair

    @hookimpl
    def zoo_datasets():
        yield Dataset("near", "a test", lambda split, limit: [Pair("a b", "c d")] * 40)
    """
    both = registry_with(monkeypatch, near, "near", registry_with(monkeypatch, CODE))
    for number, (data, settings, package) in enumerate((
        (f"{parallel}:en-de", EVERYTHING, "zoo-visitor 1.0"), ("near", SMALL, "zoo-near 1.0"),
    )):  # fmt: skip
        out = tmp_path / str(number)
        begin(TrainingRequest(MODEL, data, out, settings=settings, steps=2), both).close()
        with pytest.raises(PluginError, match=f"the run began with .*{package}, .*did not load"):
            resume(out, registry=registry)
        resume(out, registry=both).close()
        with pytest.raises(PluginError, match=f"{package}, .*did not load. Install "):
            resume(out, registry=registry)  # also a run that was resumed


def test_resuming_with_another_version_of_the_plugin_names_both(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visitor: Registry
) -> None:
    request = TrainingRequest(
        MODEL, f"{parallel}:en-de", tmp_path / "out", settings=EVERYTHING, steps=2
    )
    begin(request, visitor).close()
    changed = registry_with(monkeypatch, CODE.replace("beta: float", "rate: float"))
    with pytest.raises(ConfigError, match="unknown key 'beta'") as same_version:
        resume(tmp_path / "out", registry=changed)
    assert "the run began with" not in str(same_version.value)
    loaded = changed.plugins.loaded
    loaded["visitor"] = replace(loaded["visitor"], version="1.1")
    both = "'beta'.*; the run began with zoo-visitor 1.0, and 1.1 is installed"
    with pytest.raises(ConfigError, match=both):
        resume(tmp_path / "out", registry=changed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "raises"}, "objective 'raises' of visitor .* RuntimeError: no luck today"),
        ({"objective": "vector"}, "it returned a tensor of shape .*, not a sum over the batch"),
        ({"objective": "constant"}, "objective 'constant' .* it returned has no gradient"),
        ({"objective": "nothing"}, "objective 'nothing' .* it made None, which cannot be called"),
        ({"optimizer": "empty"}, "optimizer 'empty' .* which is no torch.optim.Optimizer"),
        ({"initialization": "endless"}, "initialization 'endless' .* weights are not finite: "),
        ({"initialization": "frozen"}, "initialization 'frozen' .* weights are frozen: "),
        ({"initialization": "replaced"}, "initialization 'replaced' .* weights are replaced"),
        ({"augmentations": ["strange"]}, "augmentation 'strange' .* ids . to 99999 are not all of"),
        ({"augmentations": ["fewer"]}, "augmentation 'fewer' .* it made 1 pairs of "),
        (
            {"augmentations": ["silent"]},
            "augmentation 'silent' .* batch returned a .* NoneType, not",
        ),
        ({"augmentations": ["shorter"]}, "augmentation 'shorter' .* changed the shape or the type"),
    ],
)
def test_broken_parts_are_reported_in_one_line(
    settings: dict[str, Any], message: str, parallel: Path, tmp_path: Path, visitor: Registry
) -> None:
    with pytest.raises(PluginError, match=message) as raised:
        zoo.train(MODEL, f"{parallel}:en-de", tmp_path / "a", settings={**SMALL, **settings},
                  steps=2, registry=visitor)  # fmt: skip
    assert "\n" not in str(raised.value)
    assert "visitor (zoo-visitor 1.0) is broken" in str(raised.value)


def test_state_of_what_is_no_weight_is_refused(
    parallel: Path, tmp_path: Path, visitor: Registry
) -> None:
    with pytest.raises(PluginError, match="the optimizer's state is of 'here', which is no weight"):
        zoo.train(MODEL, f"{parallel}:en-de", tmp_path / "a", steps=2, registry=visitor,
                  settings={**SMALL, "optimizer": "stray"})  # fmt: skip


def test_all_wrong_options_are_reported_before_anything_is_written(
    parallel: Path, tmp_path: Path, visitor: Registry
) -> None:
    settings = {
        **SMALL,
        "objective": ["cross_entropy", {"name": "length", "layer": 2, "weight": "x"}],
        "schedule": {"name": "falling", "factor": "much"},
        "optimizer": "loin",
        "augmentations": [{"name": "turned", "chance": 1}],
    }
    with pytest.raises(ConfigError) as raised:
        zoo.train(MODEL, f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=2,
                  registry=visitor)  # fmt: skip
    for part in (
        "objective 'length': weight = 'x'",
        "unknown key 'layer' (did you mean layers?)",
        "schedule 'falling': factor = 'much'",
        "optimizer = 'loin' (did you mean lion?)",
        "augmentation 'turned': unknown key 'chance' (known: probability)",
    ):
        assert part in str(raised.value)
    assert not list(tmp_path.glob("a*"))


def test_r_drop_belongs_to_the_objective_cross_entropy() -> None:
    with pytest.raises(ConfigError, match="r_drop is for the objective cross_entropy"):
        zoo.Recipe(r_drop=1.0, objective=["other"])
