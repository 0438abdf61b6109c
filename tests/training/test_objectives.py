"""The built-in objectives: their definitions, their laws, resumed runs and several processes."""

from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import SMALL, finished, same
from tests.shelves import registry_with
from zoo.errors import CheckpointError, ConfigError
from zoo.testing import OBJECTIVE_LAWS, objective_case, objective_conformance
from zoo.testing.law import BrokenLawError
from zoo.training.minimum_risk import MinimumRisk
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume
from zoo.training.training_batch import TrainingBatch

MODEL = "rnnsearch-tiny"
RISK = {"name": "minimum_risk", "samples": 3, "alpha": 0.5, "longest": 12}

test_laws_of_cross_entropy = objective_conformance("cross_entropy")
test_laws_of_r_drop = objective_conformance({"name": "r_drop", "alpha": 2.0})
test_laws_of_minimum_risk = objective_conformance({**RISK, "weight": 0.5}, "seq2seq")

WRONG = """
import torch
from zoo import Objective

@hookimpl
def zoo_objectives():
    for name in ("mean", "padded", "detached", "narrow", "Anneals"):
        yield Objective(name, "a test", f"zoo_visitor:{name}")

def mean(setup, network):
    return lambda batch: batch.output.logits.square().mean()

def padded(setup, network):
    return lambda batch: batch.output.logits.square().sum()

def detached(setup, network):
    return lambda batch: batch.output.logits.detach().sum()

def narrow(setup, network):
    def compute(batch):
        logits = batch.output.logits * (batch.labels != 0)[..., None]
        return logits.square().sum() * (logits.dtype != torch.bfloat16)
    return compute

class Anneals(torch.nn.Module):
    def __init__(self, setup, network):
        super().__init__()
        self.updates = 0

    def forward(self, batch):
        self.updates += self.training
        logits = batch.output.logits * (batch.labels != 0)[..., None]
        return logits.square().sum() / (1 + self.updates)
"""


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("mean", "is_a_sum_over_rows"),
        ("padded", "ignores_padding"),
        ("detached", "is_one_finite_number"),
        ("narrow", "bf16_has_the_same_gradients"),
        ("Anneals", "state_round_trips"),
    ],
)
def test_each_mistake_breaks_a_law(name: str, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(monkeypatch, WRONG)
    check = next(each for each in OBJECTIVE_LAWS if each.name == law)
    with pytest.raises(BrokenLawError, match=f"law {law}: .*\nobserved: .*\nusual causes: "):
        check(objective_case(name, registry=registry))


def test_minimum_risk_matches_its_definition() -> None:
    """Candidate by candidate, each scored by the network alone."""
    case = objective_case(RISK, "seq2seq")
    compute = case.loss.parts[0].compute
    assert isinstance(compute, MinimumRisk)
    torch.manual_seed(5)
    network = case.loss.network
    candidates = compute._candidates(TrainingBatch(network, case.batch))
    assert max(map(len, candidates)) > 1
    total = 0.0
    for row, targets in enumerate(candidates):
        source = case.batch.source[row][case.batch.source_mask[row]][None]
        log_probs, risks = [], []
        for ids in targets:
            target = torch.tensor([ids])
            rows = network(source, source != 0, target[:, :-1]).logits[0].detach().log_softmax(-1)
            log_probs.append(sum(float(rows[i, y]) for i, y in enumerate(ids[1:])))
            text, reference = (compute.tokenizer.decode(t[1:-1]) for t in (ids, targets[-1]))
            risks.append(1 - compute.metric.sentence_score(text, [reference]).score / 100)
        q = (0.5 * torch.tensor(log_probs, dtype=torch.float64)).softmax(0)
        total += float((q * torch.tensor(risks)).sum()) * (len(targets[-1]) - 1)
    assert float(case.total().detach()) == pytest.approx(total, rel=1e-6)


@pytest.fixture(scope="module")
def teacher(parallel_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("teacher") / "teacher"
    return zoo.train(MODEL, f"{parallel_data}:en-de", out, settings=SMALL, steps=4)


@pytest.fixture(scope="module")
def parallel_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for language, words in (("en", "a b c d e"), ("de", "f g h i j")):
        lines = [" ".join(words.split()[: i % 4 + 2]) + f" {words[0]}" * (i % 3) for i in range(80)]
        (folder / f"pairs.{language}").write_text("\n".join(lines) + "\n")
    return folder / "pairs"


def test_distillation_matches_its_definition(teacher: Path, parallel_data: Path,
                                             tmp_path: Path) -> None:  # fmt: skip
    settings = {**SMALL, "objective": {"name": "distillation", "teacher": str(teacher),
                                       "temperature": 2.0}}  # fmt: skip
    request = TrainingRequest(MODEL, f"{parallel_data}:en-de", tmp_path / "a", settings=settings,
                              steps=2)  # fmt: skip
    with begin(request) as session:
        trainer = session.trainer
        loss = trainer.loss.eval()
        batch = trainer.corpus.batch(trainer.batches[0])
        network = zoo.load(teacher).checkpoint.model
        with torch.no_grad():
            for weight in trainer.model.parameters():
                weight.add_(torch.randn_like(weight), alpha=0.1)
        total = float(loss(batch).total.detach())
        one, other = (
            (model(batch.source, batch.source_mask, batch.target[:, :-1]).logits.double() / 2)
            .log_softmax(-1)
            .tolist()
            for model in (network, trainer.model)
        )
        expected = 0.0
        for row, labels in enumerate(batch.target[:, 1:].tolist()):
            for i, label in enumerate(labels):
                if label:
                    both = zip(one[row][i], other[row][i], strict=True)
                    expected += 4 * sum(float(torch.tensor(q).exp()) * (q - p) for q, p in both)
        assert total == pytest.approx(expected, rel=1e-4)
        with torch.no_grad():
            for weight, taught in zip(trainer.model.parameters(), network.parameters(),
                                      strict=True):  # fmt: skip
                weight.copy_(taught)
        assert float(loss(batch).total.detach()) == pytest.approx(0, abs=1e-4)


def test_a_teacher_of_other_vocabularies_is_refused(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("x y\tz w\n" * 30)
    settings = {**SMALL, "objective": {"name": "distillation", "teacher": str(teacher)}}
    with pytest.raises(ConfigError, match="its source and target vocabulary is not that of the"):
        zoo.train(MODEL, str(tmp_path / "p.tsv"), tmp_path / "a", settings=settings, steps=2)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_runs_that_sample_and_distill_resume_bit_for_bit(
    precision: str, teacher: Path, parallel_data: Path, tmp_path: Path
) -> None:
    distill = {"name": "distillation", "teacher": str(teacher), "weight": 0.5}
    settings: dict[str, Any] = {**SMALL, "objective": ["cross_entropy", RISK, distill],
                                "recipe.precision": precision}  # fmt: skip
    data = f"{parallel_data}:en-de"
    zoo.train(MODEL, data, tmp_path / "plain", settings=settings, steps=12)
    request = TrainingRequest(MODEL, data, tmp_path / "cut", settings=settings, steps=12)
    with begin(request) as session:
        for event in session.trainer.events():
            if event.step >= 7:
                break
    finished(resume(tmp_path / "cut"))
    assert same(tmp_path / "plain", tmp_path / "cut")


def test_a_changed_teacher_stops_a_resumed_run(
    teacher: Path, parallel_data: Path, tmp_path: Path
) -> None:
    data = f"{parallel_data}:en-de"
    other = zoo.train(MODEL, data, tmp_path / "teacher", settings=SMALL, steps=2)
    settings = {**SMALL, "objective": {"name": "distillation", "teacher": str(other)}}
    out = zoo.train(MODEL, data, tmp_path / "a", settings=settings, steps=2)
    zoo.resume(other, steps=3)
    with pytest.raises(CheckpointError, match=r"the teacher .* has changed since the run began"):
        zoo.resume(out, steps=4)
