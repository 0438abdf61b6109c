"""A network's own losses: added, logged by name, resumed exactly, and absent in decoding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from tests.core.test_training import same
from tests.examples.data import SETTINGS, correct, phrases, train
from zoo import Config, Table
from zoo.errors import TrainingError
from zoo.nn import Output
from zoo.registry.events import Event, Report
from zoo.registry.registry import Registry
from zoo.testing import LAWS, BrokenLawError, Law, case
from zoo.training.progress import _losses

LAW = {law.name: law for law in LAWS}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(law: Law, networks: Registry) -> None:
    law(case("experts", networks))


Forward = Callable[[Tensor, Tensor, Tensor], dict[str, Tensor]]
FAULTS: dict[str, tuple[bool, Forward, str]] = {
    "a mean": (True, lambda a, b, x: {"own": x.mean()}, "is not twice the batch's"),
    "in evaluation": (False, lambda a, b, x: {"own": x.sum()}, "gives losses in evaluation mode"),
    "without a gradient": (True, lambda a, b, x: {"own": x.detach().sum()}, "has no gradient"),
    "one per sentence": (True, lambda a, b, x: {"own": x.sum((1, 2))}, "not one finite number"),
    "not finite": (True, lambda a, b, x: {"own": x.sum() / 0}, "not one finite number"),
    "an objective's name": (True, lambda a, b, x: {"r_drop": x.sum()}, "a built-in objective"),
    "a name with a space": (True, lambda a, b, x: {"a b\n": x.sum()}, "a loss is named 'a b"),
    "other names": (True, lambda a, b, x: {str(len(a)): x.sum()}, "the names of the losses differ"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_detected(
    name: str, networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_training, losses, message = FAULTS[name]
    tried = case("pooled", networks)
    forward = tried.model.forward

    def faulty(source: Tensor, mask: Tensor, target: Tensor, attention: bool = False) -> Output:
        output = forward(source, mask, target, attention)
        if in_training and not tried.model.training:
            return output
        return output._replace(losses=losses(source, target, output.logits))

    monkeypatch.setattr(tried.model, "forward", faulty)
    with pytest.raises(BrokenLawError, match=message):
        LAW["losses_are_sums_of_training"](tried)


def reports(out: Path) -> list[dict[str, Any]]:
    lines = out.with_name(f"{out.name}.run").joinpath("metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "loss" in record]


def test_it_learns_and_its_losses_are_logged_by_name(tmp_path: Path) -> None:
    out = train("experts-small", tmp_path)
    assert correct(out) == 1
    logged = [record["losses"] for record in reports(out)]
    assert all(list(losses) == ["ctc", "balance"] for losses in logged)
    assert logged[-1]["ctc"] < logged[0]["ctc"] / 5
    plain = train("pooled-small", tmp_path, steps=4)
    assert all("losses" not in record for record in reports(plain))
    shown = Report(1, 0, 2.5, 0.1, None, 1.0, 0.5, 1.0, {"ctc": 0.75, "balance": 0.5})
    assert _losses(shown) == "2.500 (ctc 0.750, balance 0.500)"


def test_a_parameter_table_of_another_size_than_the_network_is_reported(
    tmp_path: Path, networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.training.request import TrainingRequest
    from zoo.training.session import begin

    (tmp_path / "p.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in phrases()))

    def notes(out: str) -> list[str]:
        request = TrainingRequest("experts-small", str(tmp_path / "p.tsv"), tmp_path / out,
                                  settings=SETTINGS, steps=1)  # fmt: skip
        with begin(request, networks) as session:
            return session.notes

    assert notes("right") == []
    config = type(networks.config("experts-small"))
    table = config.parameters

    def without_last(self: Config, source_vocab: int, target_vocab: int) -> Table:
        return Table(list(table(self, source_vocab, target_vocab))[:-1])

    monkeypatch.setattr(config, "parameters", without_last)
    (note,) = notes("wrong")
    assert note.startswith("the parameter table of experts has ")
    assert "--zoo-architecture experts" in note


def test_the_loss_is_the_sum_of_its_parts(tmp_path: Path, networks: Registry) -> None:
    """The first report, of one update, against the network itself."""
    from zoo.training.losses import cross_entropy
    from zoo.training.request import TrainingRequest
    from zoo.training.session import begin

    (tmp_path / "p.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in phrases()))
    request = TrainingRequest("experts-small", str(tmp_path / "p.tsv"), tmp_path / "a",
                              settings=SETTINGS, steps=1)  # fmt: skip
    with begin(request, networks) as session:
        trainer = session.trainer
        batch = trainer.corpus.batch(trainer.batches[0])
        network = trainer.model.train()
        output = network(batch.source, batch.source_mask, batch.target[:, :-1])
        labels = batch.target[:, 1:].flatten()
        plain = cross_entropy(output.logits.flatten(0, 1), labels)
        total, tokens, own = trainer.loss.train()(batch)
        total, own = total.detach(), {name: loss.detach() for name, loss in own.items()}
        torch.testing.assert_close(total, plain + output.losses["ctc"] + output.losses["balance"])
        (report,) = [event for event in trainer.events() if isinstance(event, Report)]
    assert report.loss == pytest.approx(float(total / tokens), rel=1e-5)
    assert report.losses == pytest.approx({n: float(v / tokens) for n, v in own.items()}, rel=1e-4)


def test_a_part_of_the_loss_that_is_not_finite_is_named(
    tmp_path: Path, networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of update 3, while the other part and the updates before it are finite."""
    from zoo.training.request import TrainingRequest
    from zoo.training.session import begin

    (tmp_path / "p.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in phrases()))
    request = TrainingRequest("experts-small", str(tmp_path / "p.tsv"), tmp_path / "a",
                              settings=SETTINGS, steps=8)  # fmt: skip
    with begin(request, networks) as session:
        trainer = session.trainer
        forward = trainer.model.forward

        def faulty(*given: Any) -> Output:
            output = forward(*given)
            if trainer.model.training and trainer.state.step == 2:
                losses = {**output.losses, "balance": output.losses["balance"] / 0}
                return output._replace(losses=losses)
            return output

        monkeypatch.setattr(trainer.model, "forward", faulty)
        with pytest.raises(TrainingError, match=r"loss is (nan|inf) at update 3: ") as caught:
            list(trainer.events())
    name = type(trainer.model).__name__
    assert f"its part 'balance' of the network {name}" in str(caught.value)
    assert "'ctc'" not in str(caught.value)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_stopped_run_resumes_bit_for_bit(precision: str, tmp_path: Path) -> None:
    settings: dict[str, object] = {"schedule": "constant", "precision": precision, "r_drop": 1.0}
    train("experts-small", tmp_path, steps=12, **settings)
    (tmp_path / "cut").mkdir()
    cut = train("experts-small", tmp_path / "cut", steps=7, **settings)
    events: list[Event] = []
    zoo.resume(cut, steps=12, on_event=events.append)
    assert same(tmp_path / "experts-small", cut)
    last = [event for event in events if isinstance(event, Report)][-1]
    assert dict(last.losses) == reports(cut)[-1]["losses"] != {}


def test_decoding_does_not_use_the_ctc_head(tmp_path: Path) -> None:
    translator = zoo.load(train("experts-small", tmp_path, steps=2))
    before = translator.translate("the red cat runs", details=True)
    network = translator.checkpoint.model
    with torch.no_grad():
        network.get_parameter("spell.weight").fill_(torch.nan)
    assert translator.translate("the red cat runs", details=True) == before
