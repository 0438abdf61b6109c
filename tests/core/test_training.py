"""Objective, schedules, and runs that are stopped and resumed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from zoo.checkpoint.tensors import read_tensors
from zoo.data.batches import Batch
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError, PluginError, TrainingError, ZooError
from zoo.nn.build import create_model
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN, Output
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.events import Report, Stopped, Validation
from zoo.registry.parameters import LengthLimits
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.augmentation import Augmentations
from zoo.training.losses import cross_entropy, symmetric_kl
from zoo.training.objective import Loss, TrainingLoss, teacher_forcing
from zoo.training.request import TrainingRequest
from zoo.training.schedule import Progress, make_schedule
from zoo.training.session import Session, begin, resume
from zoo.training.setup import Setup

PLAIN: dict[str, Any] = {
    "shared_vocab": False, "share": "none", "schedule": "inverse_sqrt", "learning_rate": 1e-3,
    "label_smoothing": 0.1, "word_dropout": 0.0, "precision": "float32", "validate_every": None,
    "bleu_sentences": 0, "average_decay": None, "select": "last", "patience": None,
}  # fmt: skip
"""The recipe's defaults: nothing is left for the recipe `auto` to choose."""

SMALL: dict[str, Any] = {
    **PLAIN,
    "embedding_dim": 16, "encoder_dim": 16, "hidden_dim": 32, "attention_dim": 16,
    "readout_dim": 16, "tokenizer": "word", "batch_tokens": 100, "save_every": 7, "dropout": 0.2,
}  # fmt: skip


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_matches_its_definition(smoothing: float) -> None:
    torch.manual_seed(0)
    model = create_model("rnnsearch-tiny", source_vocab=12, target_vocab=9).double().eval()
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    target = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]])
    batch = Batch(source, source != 0, target, torch.arange(2))
    with torch.no_grad():
        loss = teacher_forcing(model, batch, smoothing)
        log_probs = model(source, source != 0, target[:, :-1]).logits.log_softmax(-1)
    total = 0.0
    for row, position in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)):
        for y in range(9):
            q = smoothing / 9 + (1 - smoothing) * int(y == target[row, position + 1])
            total -= float(q * log_probs[row, position, y])
    assert float(loss.tokens) == 6
    assert float(loss.total) == pytest.approx(total, abs=1e-10)


def loss_of(model: Any, batch: Batch, **recipe: Any) -> Loss:
    """Return the loss of a recipe without a run."""
    registry, chosen = default_registry(), Recipe.parse({"steps": 1, **recipe}, "a test")
    config = registry.config("rnnsearch-tiny")
    words = Tokenizer.train(["a b"], "word", 20)
    setup = Setup(registry, config, chosen, words, words, LengthLimits())
    loss: Loss = TrainingLoss(setup, model, Augmentations(setup))(batch)
    return loss


def test_r_drop_matches_its_definition_and_is_zero_without_dropout() -> None:
    torch.manual_seed(0)
    model = create_model("rnnsearch-tiny", source_vocab=12, target_vocab=9, dropout=0.3).double()
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    target = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]])
    batch = Batch(source, source != 0, target, torch.arange(2))
    model.eval()
    torch.testing.assert_close(loss_of(model, batch, r_drop=5.0), loss_of(model, batch))
    model.train()
    torch.manual_seed(3)
    total, tokens, _ = loss_of(model, batch, label_smoothing=0.1, r_drop=5.0)
    torch.manual_seed(3)
    sources, targets = torch.cat([source, source]), torch.cat([target, target])
    logits = model(sources, sources != 0, targets[:, :-1]).logits.flatten(0, 1)
    divergence = symmetric_kl(logits, target[:, 1:].flatten())
    expected = cross_entropy(logits, targets[:, 1:].flatten(), 0.1) / 2 + 5 * divergence
    assert float(divergence.detach()) > 0
    assert int(tokens) == 6
    torch.testing.assert_close(total, expected)


def small_batch() -> Batch:
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    target = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]])
    return Batch(source, source != 0, target, torch.arange(2))


def test_an_objective_that_is_named_twice_has_two_parts() -> None:
    model = create_model("rnnsearch-tiny", source_vocab=12, target_vocab=9).double().eval()
    half = {"name": "cross_entropy", "weight": 0.5}
    total, _, own = loss_of(model, small_batch(), objective=["cross_entropy", half])
    assert list(own) == ["cross_entropy", "cross_entropy/2"]
    torch.testing.assert_close(own["cross_entropy/2"], own["cross_entropy"] / 2)
    torch.testing.assert_close(total, own["cross_entropy"] * 1.5)


@pytest.mark.parametrize("more", [[], [{"name": "r_drop", "alpha": 1.0}]])
def test_a_loss_with_the_name_of_an_objective_is_refused(
    more: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = create_model("rnnsearch-tiny", source_vocab=12, target_vocab=9).double().eval()
    forward = model.forward

    def with_loss(*given: Any) -> Any:
        output = forward(*given)
        return output._replace(losses={"cross_entropy": output.logits.square().sum()})

    monkeypatch.setattr(model, "forward", with_loss)
    with pytest.raises(PluginError, match="a loss of its own is named 'cross_entropy', as an obj"):
        loss_of(model, small_batch(), objective=["cross_entropy", *more])


def test_word_dropout_changes_inputs_and_not_labels() -> None:
    inputs: list[torch.Tensor] = []

    class Uniform(torch.nn.Module):
        weight: torch.nn.Parameter

        def forward(self, source: torch.Tensor, _: torch.Tensor, target: torch.Tensor) -> Output:
            inputs[:] = source, target
            return Output(self.weight.expand(*target.shape, 9), {})

    model = Uniform()
    model.target_vocab = 9  # type: ignore[assignment]
    model.register_parameter("weight", torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)))
    torch.manual_seed(0)
    source = torch.randint(4, 9, (400, 50))
    target = torch.randint(4, 9, (400, 50))
    source[:, 40], source[:, 41:] = END, PADDING
    target[:, 0], target[:, 40], target[:, 41:] = BEGIN, END, PADDING
    batch = Batch(source, source != PADDING, target, torch.arange(400))
    loss = loss_of(model, batch, word_dropout=0.2)
    assert int(loss.tokens) == 400 * 40
    assert loss.total.item() == pytest.approx(400 * 40 * math.log(9))
    whole = source, target[:, :-1]
    changes = [given != ids for given, ids in zip(inputs, whole, strict=True)]
    for given, ids, changed in zip(inputs, whole, changes, strict=True):
        assert set(given[changed].tolist()) == {UNKNOWN}
        assert not bool(changed[ids <= UNKNOWN].any())
        assert float(changed[ids > UNKNOWN].double().mean()) == pytest.approx(0.2, abs=0.015)
    both = changes[0][:, 1:40] & changes[1][:, 1:40]
    assert float(both.double().mean()) == pytest.approx(0.04, abs=0.01)  # the sides are independent
    loss_of(model, batch)
    assert all(torch.equal(given, ids) for given, ids in zip(inputs, whole, strict=True))


def rate(recipe: Recipe, step: int, done: float, width: int) -> float:
    return make_schedule(default_registry(), recipe)(Progress(step, done, width))


def test_schedules_match_their_formulas() -> None:
    noam = Recipe(schedule="noam", factor=2.0, warmup=400)
    for step in (1, 399, 400, 401, 9000):
        expected = 2 * 512**-0.5 * min(step**-0.5, step * 400**-1.5)
        assert rate(noam, step, 0.3, 512) == pytest.approx(expected)
    root = Recipe(schedule="inverse_sqrt", learning_rate=3e-4, warmup=100)
    assert rate(root, 50, 0, 1) == pytest.approx(1.5e-4)
    assert rate(root, 100, 0, 1) == pytest.approx(3e-4)
    assert rate(root, 400, 0, 1) == pytest.approx(1.5e-4)
    cosine = Recipe(schedule="cosine", learning_rate=1.0, warmup=0)
    shares = [rate(cosine, 5, done, 1) for done in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([1.0, 0.5, 0.0])
    constant = Recipe(schedule="constant", learning_rate=1.0, warmup=10)
    assert [rate(constant, s, 0, 1) for s in (1, 10, 99)] == pytest.approx([0.1, 1, 1])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "model.safetensors")


def finished(session: Session) -> Path:
    """Train to the end, and write the checkpoint."""
    with session:
        list(session.trainer.events())
        return session.finish()


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_stopped_run_resumes_bit_for_bit(parallel: Path, tmp_path: Path) -> None:
    data, plain, cut = f"{parallel}:en-de", tmp_path / "plain", tmp_path / "cut"
    zoo.train("rnnsearch-tiny", data, plain, settings=SMALL, steps=23)
    session = begin(TrainingRequest("rnnsearch-tiny", data, cut, settings=SMALL, steps=23))
    for event in session.trainer.events():
        if isinstance(event, Report) and event.step >= 10:
            session.trainer.stop = True
        if isinstance(event, Stopped):
            assert event.step < 23
    session.close()
    assert not cut.exists()
    torch.manual_seed(99)
    again = resume(cut)
    assert 0 < again.trainer.state.step < 23
    assert finished(again) == cut
    assert same(plain, cut)


def test_a_killed_run_resumes_from_its_newest_state(parallel: Path, tmp_path: Path) -> None:
    data, plain, cut = f"{parallel}:en-de", tmp_path / "plain", tmp_path / "cut"
    zoo.train("rnnsearch-tiny", data, plain, settings=SMALL, steps=23)
    session = begin(TrainingRequest("rnnsearch-tiny", data, cut, settings=SMALL, steps=23))
    for event in session.trainer.events():
        if event.step >= 16:
            break  # as if killed: nothing more is saved
    session.close()
    (tmp_path / "cut.run" / "states" / ".000000021.1.part").mkdir()  # a half-written state
    with (tmp_path / "cut.run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 1')  # a half-written line
    again = resume(cut)
    assert again.trainer.state.step == 14
    assert again.notes == ["a half-written state 21 is removed"]
    finished(again)
    assert same(plain, cut)
    curves = [json.loads((f / "training.json").read_text())["curve"] for f in (plain, cut)]
    assert [(r["step"], r.get("loss")) for r in curves[0]] == [
        (r["step"], r.get("loss")) for r in curves[1]
    ]
    assert len(list((tmp_path / "cut.run" / "states").glob("[0-9]*"))) == 2


def test_a_damaged_state_falls_back_to_the_previous_one(parallel: Path, tmp_path: Path) -> None:
    data, plain, cut = f"{parallel}:en-de", tmp_path / "plain", tmp_path / "cut"
    for out in (plain, cut):
        session = begin(TrainingRequest("rnnsearch-tiny", data, out, settings=SMALL, steps=23))
        for event in session.trainer.events():
            if event.step >= 16:
                break
        session.close()
    states = sorted((tmp_path / "cut.run" / "states").iterdir())
    weights_file = states[-1] / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:50])
    again = resume(cut)
    assert again.trainer.state.step == 7
    (output,) = again.notes
    assert output.startswith("a newer state is damaged and not used: ")
    assert str(states[-1]) in output
    finished(again)
    finished(resume(plain))
    assert same(plain, cut)
    for state in (tmp_path / "cut.run" / "states").iterdir():
        (state / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no whole state"):
        resume(cut)


def test_only_a_checkpoint_of_the_same_run_is_replaced(parallel: Path, tmp_path: Path) -> None:
    data, out = f"{parallel}:en-de", tmp_path / "out"
    session = begin(TrainingRequest("rnnsearch-tiny", data, out, settings=SMALL, steps=3))
    list(session.trainer.events())
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    with pytest.raises(CheckpointError, match="already exists"), session:
        session.finish()
    with pytest.raises(CheckpointError, match="this run did not write it"):
        resume(out)
    assert (out / "thesis.txt").read_text() == "precious"


def test_totals_that_are_already_passed_are_rejected(parallel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", out, settings=SMALL, steps=9)
    with pytest.raises(ZooError, match="the run is past that already: it has made 9 updates"):
        resume(out, steps=5)
    assert json.loads((tmp_path / "out.run" / "run.json").read_text())["recipe"]["steps"] == 9


def test_a_run_can_be_resumed_from_another_working_directory(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zoo.train("rnnsearch-tiny", "corpus:en-de", "out", settings=SMALL, steps=3)
    monkeypatch.chdir("/")
    assert finished(resume(tmp_path / "out", steps=5)) == tmp_path / "out"
    assert "trained on `corpus:en-de`" in (tmp_path / "out" / "README.md").read_text()


def test_data_without_a_validation_split(tmp_path: Path, registry: Registry) -> None:
    pairs = [Pair(f"a {i}", f"b {i}") for i in range(9)]
    extended = Registry(registry.plugins)
    extended.datasets.add(
        "mine", Dataset("mine", "", lambda split, limit: pairs, splits=("train",))
    )
    session = begin(
        TrainingRequest("rnnsearch-tiny", "mine", tmp_path / "x", settings=SMALL, steps=2), extended
    )
    assert not any(isinstance(event, Validation) for event in session.trainer.events())


def test_the_last_weights_are_validated(parallel: Path, tmp_path: Path) -> None:
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "x", settings=SMALL, steps=3
        )
    )
    assert [e.step for e in session.trainer.events() if isinstance(e, Validation)] == [3]


def test_totals_include_the_updates_before_a_resume(parallel: Path, tmp_path: Path) -> None:
    data, out = f"{parallel}:en-de", tmp_path / "out"
    constant = {**SMALL, "schedule": "constant"}
    zoo.train("rnnsearch-tiny", data, out, settings=constant, steps=9)
    zoo.train("rnnsearch-tiny", data, tmp_path / "long", settings=constant, steps=15)
    session = resume(out, steps=15)
    assert session.trainer.state.step == 9
    finished(session)
    assert session.trainer.state.step == 15
    assert same(out, tmp_path / "long")
    done = resume(out)
    assert list(done.trainer.events()) == []


def test_epochs_and_minutes(parallel: Path, tmp_path: Path) -> None:
    data = f"{parallel}:en-de"
    session = begin(
        TrainingRequest("rnnsearch-tiny", data, tmp_path / "a", settings=SMALL, epochs=2)
    )
    events = list(session.trainer.events())
    assert session.trainer.state.step == 2 * len(session.trainer.batches)
    validations = [event for event in events if isinstance(event, Validation)]
    assert [v.epoch for v in validations] == [1, 2]
    assert validations[1].validation_loss < validations[0].validation_loss
    session = begin(
        TrainingRequest("rnnsearch-tiny", data, tmp_path / "b", settings=SMALL, minutes=0.01)
    )
    list(session.trainer.events())
    assert 0.01 <= session.trainer.state.seconds / 60 < 0.1


def test_the_validation_loss_is_the_mean_over_the_validation_pairs(
    parallel: Path, tmp_path: Path
) -> None:
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, epochs=1
        )
    )
    (output,) = [e.validation_loss for e in session.trainer.events() if isinstance(e, Validation)]
    trainer = session.trainer
    total = tokens = 0.0
    with torch.no_grad():
        for i in range(len(trainer.data.validation)):
            loss = teacher_forcing(
                trainer.model.eval(), trainer.data.validation.corpus.batch(torch.tensor([i]))
            )
            total, tokens = total + float(loss.total), tokens + float(loss.tokens)
    assert len(trainer.data.validation) == 3
    assert output == pytest.approx(total / tokens, rel=1e-4)


def test_existing_checkpoints_and_runs_are_not_overwritten(parallel: Path, tmp_path: Path) -> None:
    data, out = f"{parallel}:en-de", tmp_path / "out"
    zoo.train("rnnsearch-tiny", data, out, settings=SMALL, steps=3)
    before = {f: f.read_bytes() for f in out.iterdir()}
    with pytest.raises(CheckpointError, match=r"out exists already.*--resume"):
        zoo.train("rnnsearch-tiny", data, out, settings=SMALL, steps=3)
    for file in before:
        file.unlink()
    out.rmdir()
    with pytest.raises(CheckpointError, match=r"out.run exists already: it holds a run"):
        zoo.train("rnnsearch-tiny", data, out, settings=SMALL, steps=3)
    with pytest.raises(CheckpointError, match="no run to resume"):
        resume(tmp_path / "nothing")


def test_a_run_whose_data_has_changed_cannot_be_resumed(parallel: Path, tmp_path: Path) -> None:
    data, out = f"{parallel}:en-de", tmp_path / "out"
    zoo.train("rnnsearch-tiny", data, out, settings=SMALL, steps=3)
    file = parallel.with_suffix(".de")
    file.write_text(file.read_text().replace("Hund", "Katze"))
    with pytest.raises(CheckpointError, match="has changed since the run began"):
        resume(out)


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_state(
    parallel: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    session = begin(
        TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", out, settings=SMALL, steps=40)
    )
    events = session.trainer.events()
    while next(events).step < 10:
        pass
    with torch.no_grad():
        next(session.trainer.model.parameters()).fill_(math.nan)
    with pytest.raises(TrainingError, match=r"the loss is nan at update 1\d"):
        list(events)
    kept = read_tensors(
        sorted((tmp_path / "out.run" / "states").iterdir())[0] / "model.safetensors"
    )
    assert all(weight.isfinite().all() for weight in kept.values())
    assert not out.exists()


def test_the_seed_determines_the_weights(parallel: Path, tmp_path: Path) -> None:
    data = f"{parallel}:en-de"
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        zoo.train("rnnsearch-tiny", data, tmp_path / name, settings=SMALL, steps=4, seed=seed)
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


def test_a_run_keeps_its_recipe_and_metrics(parallel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", out, settings=SMALL, epochs=3)
    run = json.loads((tmp_path / "out.run" / "run.json").read_text())
    assert run["recipe"]["batch_tokens"] == 100
    assert run["config"]["hidden_dim"] == 32
    lines = (tmp_path / "out.run" / "metrics.jsonl").read_text().splitlines()
    assert sum("validation_loss" in line for line in lines) == 3
    training = json.loads((out / "training.json").read_text())
    records = [json.loads(line) for line in lines]
    assert all(len(record.pop("samples", "abc")) == 3 for record in records)
    shortened = [
        {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in record.items()}
        for record in records
    ]
    assert training["curve"] == shortened
    assert training["pairs"] == 57


def test_shared_vocabulary_and_weights(parallel: Path, tmp_path: Path) -> None:
    values = {"dim": 16, "heads": 2, "feedforward_dim": 16, "tokenizer": "bpe", "vocab_size": 80}
    data, out = f"{parallel}:en-de", tmp_path / "out"
    with pytest.raises(ZooError, match="Leave out shared_vocab"):
        zoo.train(
            "transformer-tiny", data, out, settings={**values, "shared_vocab": False}, steps=2
        )
    assert not out.with_name("out.run").exists()
    values |= {"share": "all", "shared_vocab": True}
    zoo.train("transformer-tiny", data, out, settings=values, steps=2)
    assert (out / "tokenizer.json").is_file()
    assert "source_embedding.weight" not in weights(out)
    assert isinstance(zoo.load(out).translate("the dog runs."), str)


def test_data_that_is_all_too_long_is_an_error(parallel: Path, tmp_path: Path) -> None:
    values = {**SMALL, "max_length": 3}
    with pytest.raises(ZooError, match="57 are over the length limit"):
        zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "x", settings=values, steps=2)
    assert not list(tmp_path.glob("x*"))
