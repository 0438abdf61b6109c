"""Training follows its recipe."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.core.test_training import SMALL, finished, weights
from zoo.checkpoint.tensors import read_tensors
from zoo.cli.training import train
from zoo.errors import ConfigError, ZooError
from zoo.evaluation.metrics import score
from zoo.nn.build import create_model
from zoo.registry.events import Callback, Note, Validation
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.initialization import xavier_uniform
from zoo.training.optimizer import clip_gradients, make_optimizer
from zoo.training.parts import Parts
from zoo.training.plan import Plan, make_plan
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume
from zoo.training.state import TrainingState

DETERMINISTIC = {**SMALL, "dropout": 0.0, "samples": 0}


def largest_difference(one: Path, other: Path) -> float:
    """Return the largest absolute difference between the weights of two checkpoints."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_accumulated_batches_are_one_large_batch(parallel: Path, tmp_path: Path) -> None:
    """An update accumulated over all batches equals one update on the whole corpus."""
    data = f"{parallel}:en-de"
    for name, batch, parts in (("whole", 100_000, 1), ("parts", 100, 100)):
        settings = {**DETERMINISTIC, "batch_tokens": batch, "accumulate": parts, "clip": 0.01}
        zoo.train("rnnsearch-tiny", data, tmp_path / name, settings=settings, epochs=3)
    assert json.loads((tmp_path / "parts" / "training.json").read_text())["steps"] == 3
    assert largest_difference(tmp_path / "whole", tmp_path / "parts") < 2e-6


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_optimizers_match_their_papers(name: str) -> None:
    """Two updates of a matrix and a bias equal those of the papers' algorithms, in float64."""
    torch.manual_seed(0)
    decay, rate, b1, b2, epsilon = 0.1, 0.01, 0.9, 0.98, 1e-9
    model = create_model("rnnsearch-tiny", source_vocab=9, target_vocab=9).double()
    recipe = Recipe.parse({"optimizer": name, "weight_decay": decay, "learning_rate": rate}, "t")
    optimizer = make_optimizer(default_registry(), recipe, model.parameters())
    parameters = dict(model.named_parameters())
    picked = [next(n for n, p in parameters.items() if p.dim() == dims) for dims in (2, 1)]
    expected = {n: parameters[n].detach().clone() for n in picked}
    moments = {n: [torch.zeros_like(w), torch.zeros_like(w)] for n, w in expected.items()}
    for step in (1, 2):
        for weight in parameters.values():
            weight.grad = torch.randn_like(weight)
        for n in picked:
            gradient, w = parameters[n].grad, expected[n]
            assert gradient is not None
            w_decay = decay * (w.dim() > 1)
            if name == "adam":
                gradient = gradient + w_decay * w
            m, v = moments[n]
            m = moments[n][0] = b1 * m + (1 - b1) * gradient
            v = moments[n][1] = b2 * v + (1 - b2) * gradient**2
            new = w - rate * (m / (1 - b1**step)) / ((v / (1 - b2**step)).sqrt() + epsilon)
            expected[n] = new - rate * w_decay * w if name == "adamw" else new
        optimizer.step()
    for n in picked:
        torch.testing.assert_close(parameters[n].detach(), expected[n], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9999999, 1.0, 1.0000001, 1.5, math.nan, math.inf])
def test_gradients_are_clipped_as_torch_clips_them(share: float) -> None:
    """With norms about the largest; those within it are not written to, and no multiple of 1."""
    gradients = [torch.randn(40, 30), torch.randn(7), torch.randn(1, 2, 3)]
    norm = torch.nn.utils.get_total_norm(gradients)
    weights = [[torch.nn.Parameter(torch.zeros_like(g)) for g in gradients] for _ in range(2)]
    for each in weights:
        for weight, gradient in zip(each, gradients, strict=True):
            weight.grad = gradient / norm * share
        each.append(torch.nn.Parameter(torch.zeros(2)))  # without a gradient
    own, other = weights
    made = [clip_gradients(iter(own), 1.0), torch.nn.utils.clip_grad_norm_(other, 1.0)]
    assert torch.equal(made[0].nan_to_num(-1), made[1].nan_to_num(-1))
    for one, expected in zip(own[:-1], other[:-1], strict=True):
        assert one.grad is not None
        assert expected.grad is not None
        assert torch.equal(one.grad.nan_to_num(-1), expected.grad.nan_to_num(-1))
        assert bool(one.grad._version) == (not share < 0.999)


def test_training_does_not_import_the_compiler() -> None:
    """It would take a second or two at the start of every run, and memory."""
    program = (
        "import sys, torch\n"
        "from zoo.nn.build import create_model\n"
        "from zoo.registry.recipe import Recipe\n"
        "from zoo.training.optimizer import adamw\n"
        "model = create_model('transformer-tiny', source_vocab=9, target_vocab=9)\n"
        "recipe = Recipe.parse({}, 'a test')\n"
        "optimizer = adamw([{'params': list(model.parameters())}], recipe)\n"
        "optimizer.zero_grad()\n"
        "text = torch.ones(1, 3, dtype=torch.long)\n"
        "model(text, text > 0, text).logits.sum().backward()\n"
        "optimizer.step()\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


def test_xavier_draws_each_matrix_by_its_own_shape(registry: Registry) -> None:
    model = create_model("rnnsearch-tiny", source_vocab=50, target_vocab=40)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    table = registry.config("rnnsearch-tiny").parameters(50, 40)
    xavier_uniform(model, table)
    for row in table:
        weight = model.get_parameter(row.path).detach()
        part = weight[slice(*row.slice)] if row.slice else weight
        if len(row.shape) == 1:
            assert torch.equal(part, before[row.path][slice(*(row.slice or (None,)))])
            continue
        bound = math.sqrt(6 / (row.shape[0] + row.shape[1]))
        assert float(part.abs().max()) <= bound
        if part.numel() > 1000:  # a uniform's deviation is its bound over √3
            assert float(part.std()) == pytest.approx(bound / 3**0.5, rel=0.1)


def test_the_exponential_average_matches_its_recursion(parallel: Path, tmp_path: Path) -> None:
    settings = {**DETERMINISTIC, "average_decay": 0.7}
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=20
        )
    )
    trainer = session.trainer
    expected = {n: p.detach().clone().double() for n, p in trainer.model.named_parameters()}
    update, steps = trainer.state.optimizer.step, iter(range(1, 100))

    def step() -> None:
        update()
        now = next(steps)
        decay = min(0.7, (1 + now) / (10 + now))
        for n, p in trainer.model.named_parameters():
            expected[n] = decay * expected[n] + (1 - decay) * p.detach().double()

    trainer.state.optimizer.step = step  # type: ignore[method-assign, assignment]
    finished(session)
    for n, weight in weights(tmp_path / "a").items():
        torch.testing.assert_close(weight.double(), expected[n], rtol=0, atol=1e-6)
    trained = dict(trainer.model.named_parameters())
    assert any(not torch.equal(w, trained[n]) for n, w in weights(tmp_path / "a").items())


def test_the_last_weights_are_averaged_and_validated(parallel: Path, tmp_path: Path) -> None:
    settings = {**DETERMINISTIC, "average_last": 3, "validate_every": 4}
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=22
        )
    )
    kept: list[dict[str, torch.Tensor]] = []
    with session:
        for event in session.trainer.events():
            if isinstance(event, Validation):
                kept.append({n: p.detach().clone() for n, p in
                             session.trainer.model.named_parameters()})  # fmt: skip
                last = event
        session.finish()
    assert len(kept) == 6, "five, and one at the end"
    for n, weight in weights(tmp_path / "a").items():
        mean = sum((k[n] for k in kept[-3:]), torch.zeros_like(weight)) / 3
        torch.testing.assert_close(weight, mean, rtol=0, atol=1e-7)
    # The released weights are the validated ones.
    fresh = zoo.load(tmp_path / "a").checkpoint.model
    from zoo.training.objective import teacher_forcing

    batch = session.trainer.data.validation.corpus.batch(torch.arange(3))
    with torch.no_grad():
        loss = teacher_forcing(fresh, batch)
    assert last.validation_loss == pytest.approx(float(loss.total / loss.tokens), rel=1e-5)


@pytest.mark.parametrize("average", [{}, {"average_last": 2}, {"average_decay": 0.8}])
def test_averages_survive_a_kill(parallel: Path, tmp_path: Path, average: dict[str, float]) -> None:
    settings = {**SMALL, **average, "select": "loss", "validate_every": 3}
    data = f"{parallel}:en-de"
    zoo.train("rnnsearch-tiny", data, tmp_path / "plain", settings=settings, steps=20)
    session = begin(
        TrainingRequest("rnnsearch-tiny", data, tmp_path / "cut", settings=settings, steps=20)
    )
    with session:
        for event in session.trainer.events():
            if event.step >= 13:
                break
    finished(resume(tmp_path / "cut"))
    assert largest_difference(tmp_path / "plain", tmp_path / "cut") == 0


def test_weights_that_a_killed_run_kept_are_not_averaged_after_a_longer_total(
    parallel: Path, tmp_path: Path
) -> None:
    """The last update is always validated; with another total, it is not the last."""
    settings = {**SMALL, "average_last": 3, "validate_every": 4, "schedule": "constant"}
    data = f"{parallel}:en-de"
    zoo.train("rnnsearch-tiny", data, tmp_path / "plain", settings=settings, steps=12)
    request = TrainingRequest("rnnsearch-tiny", data, tmp_path / "cut", settings=settings, steps=10)
    with begin(request) as session:
        for event in session.trainer.events():
            if isinstance(event, Validation) and event.step == 10:
                break  # its weights are kept, and no state is saved
        assert [file.stem for file in session.trainer.folder.kept_weights()][-1] == "000000010"
    finished(resume(tmp_path / "cut", steps=12))
    assert largest_difference(tmp_path / "plain", tmp_path / "cut") == 0


def test_the_best_validation_is_released_and_patience_ends_the_run(
    parallel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.training import trainer as module
    from zoo.training.validation import ValidationResult

    losses = iter([3.0, 2.0, 2.5, 2.0, 2.1, 1.0])
    monkeypatch.setattr(module, "validate", lambda *_: ValidationResult(next(losses), {}, []))
    settings = {**DETERMINISTIC, "select": "loss", "patience": 3, "validate_every": 2}
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=100
        )
    )
    at_best: dict[str, torch.Tensor] = {}
    events = []
    with session:
        for event in session.trainer.events():
            events.append(event)
            if isinstance(event, Validation) and event.step == 8:  # the last of two equal ones
                at_best = {n: p.detach().clone() for n, p in
                           session.trainer.model.named_parameters()}  # fmt: skip
        session.finish()
    validations = [event for event in events if isinstance(event, Validation)]
    assert [v.best for v in validations] == [True, True, False, True, False]
    assert [e.text for e in events if isinstance(e, Note)] == [
        "no improvement in 3 validations: stopping early"
    ]
    released = weights(tmp_path / "a")
    assert all(torch.equal(released[n], at_best[n]) for n in released)
    assert json.loads((tmp_path / "a" / "training.json").read_text())["released"] == 8
    # With more steps the run continues; without them it is finished.
    with resume(tmp_path / "a") as over:
        assert list(over.trainer.events()) == []
    with resume(tmp_path / "a", steps=102) as more:
        assert more.trainer.fraction_done() < 1


def test_higher_bleu_is_better() -> None:
    recipe = Recipe.parse({"select": "bleu", "bleu_sentences": 10}, "t")
    model = create_model("rnnsearch-tiny", source_vocab=9, target_vocab=9)
    optimizer = make_optimizer(default_registry(), recipe, model.parameters())
    state = TrainingState(model, optimizer, dict(model.named_parameters()), Parts({}))
    improved = []
    for step, bleu in enumerate([1.0, 5.0, 4.0, 6.0, 6.0], 1):
        state.step = step
        improved.append(state.record_validation(recipe, bleu, lower_is_better=False))
    assert improved == [True, True, False, True, True]
    assert (state.best, state.best_step, state.not_improved) == (6.0, 5, 1)


def test_bleu_and_samples_are_of_greedy_translations(parallel: Path, tmp_path: Path) -> None:
    settings = {**DETERMINISTIC, "learning_rate": 5e-3, "warmup": 20, "bleu_sentences": 100,
                "samples": 2, "save_every": 1000}  # fmt: skip
    session = begin(
        TrainingRequest(
            "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, epochs=25
        )
    )
    with session:
        *_, last = [e for e in session.trainer.events() if isinstance(e, Validation)]
        session.finish()
    translator = zoo.load(tmp_path / "a")
    pairs = session.trainer.data.validation.pairs
    texts = translator.translate([pair.source for pair in pairs])
    assert last.bleu == pytest.approx(score(texts, [pair.target for pair in pairs]).bleu)
    assert last.bleu is not None
    assert last.bleu > 10, "the test would prove nothing otherwise"
    for sample in last.samples:
        assert sample.translation == translator.translate(sample.source)
        assert (sample.source, sample.reference) in pairs
    assert len(last.samples) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"select": "bleu", "bleu_sentences": 0}, "set bleu_sentences"),
        ({"patience": 3, "select": "last"}, "set select = loss, or bleu"),
        ({"average_last": 2, "average_decay": 0.9}, "set one of them"),
        ({"optimizer": "sgd"}, "optimizer = 'sgd'"),
    ],
)
def test_contradictory_values_are_rejected(
    settings: dict[str, Any], message: str, parallel: Path, tmp_path: Path
) -> None:
    with pytest.raises(ZooError, match=message):
        begin(
            TrainingRequest(
                "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=1
            )
        )
    assert not list(tmp_path.glob("a*"))


@pytest.mark.parametrize(
    "key", ["epochs", "batch_tokens", "batch_sentences", "accumulate", "warmup"]
)
def test_numbers_that_no_float_holds_are_refused(key: str) -> None:
    """They ended in tracebacks, where a rate or a fraction is computed from them."""
    assert getattr(Recipe.parse({key: 2**53}, "r"), key) == 2**53
    with pytest.raises(ConfigError, match=f"{key} = 1000.*: input should be less than or equal to"):
        Recipe.parse({key: 10**400}, "r")


@pytest.mark.parametrize("recipe", [None, "auto"])
def test_only_a_tuned_checkpoint_has_a_parent_to_share(
    recipe: str | None, parallel: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"^parent_share = 0\.2 has no effect: .*with --from"):
        zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", recipe=recipe,
                  settings={"parent_share": 0.2}, steps=1)  # fmt: skip
    assert not list(tmp_path.glob("a*"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "noam", "learning_rate": 0.1}, "learning_rate has no effect .* set factor"),
        ({"schedule": "cosine", "factor": 2.0}, "factor has no effect .* set learning_rate"),
        ({"schedule": "one_cycle", "warmup": 10}, "warmup has no effect"),
        ({"cooldown": 0.2, "tolerance": 0.1}, "cooldown has .* patience; tolerance has no effect"),
        ({"shared_vocab": True, "target_tokenizer": "word"}, "target_tokenizer has no effect"),
        ({"objective": "minimum_risk", "label_smoothing": 0.2}, "label_smoothing .* cross_entropy"),
    ],
)
def test_settings_without_effect_are_rejected(
    registry: Registry, settings: dict[str, Any], message: str
) -> None:
    def plan(**settings: Any) -> Plan:
        request = TrainingRequest("rnnsearch-tiny", "numbers-en-fr", "unused", settings=settings)
        return make_plan(registry, request)

    with pytest.raises(ConfigError, match=message):
        plan(**settings)
    # The dataset's own recipe sets a learning rate, which is no fault.
    assert plan(schedule="noam", factor=2.0).recipe.learning_rate == 2e-3


def test_a_tokenizer_of_the_target_has_no_effect_on_the_one_vocabulary_of_a_network(
    registry: Registry,
) -> None:
    """The network needs one vocabulary, and no setting says so."""
    settings = {"share": "all", "target_tokenizer": "word"}
    request = TrainingRequest("transformer-tiny", "numbers-en-fr", "unused", settings=settings)
    with pytest.raises(ConfigError, match="target_tokenizer has no effect with one vocabulary"):
        make_plan(registry, request)


def test_tokens_of_a_batch_have_no_effect_where_a_recipe_counts_sentences(
    registry: Registry,
) -> None:
    def plan(**settings: Any) -> Recipe:
        request = TrainingRequest("transformer-d2l", "shift", "unused", settings=settings)
        return make_plan(registry, request).recipe

    with pytest.raises(ConfigError, match=r"batch_tokens has no effect .*batch_sentences = 32"):
        plan(batch_tokens=64)
    assert plan(batch_tokens=64, batch_sentences="none").batch_sentences is None
    assert plan(batch_tokens=64, batch_sentences=8).batch_tokens == 64  # of validation


def test_selection_needs_validation_data(tmp_path: Path) -> None:
    file = tmp_path / "few.tsv"
    file.write_text("a\tb\nc\td\n")
    with pytest.raises(ZooError, match="there are no validation pairs"):
        begin(
            TrainingRequest(
                "rnnsearch-tiny", str(file), tmp_path / "x", settings={"select": "loss"}, steps=1
            )
        )


def test_a_complete_recipe_reads_back_equal(registry: Registry, tmp_path: Path) -> None:
    settings = {"clip": None, "batch_sentences": None, "epsilon": 1e-8, "dropout": 0.25}
    plan = make_plan(registry, TrainingRequest("transformer-tiny", "shift", "x", settings=settings))
    assert plan.recipe.clip is None
    file = tmp_path / "r.toml"
    file.write_text(plan.to_toml())
    again = make_plan(registry, TrainingRequest("transformer-tiny", "shift", "x", recipe=str(file)))
    assert again == plan
    assert file.read_text().count("\n# ") == len(Recipe.model_fields)


def test_the_recipe_of_a_run_trains_equal_weights(parallel: Path, tmp_path: Path) -> None:
    data = f"{parallel}:en-de"
    zoo.train("rnnsearch-tiny", data, tmp_path / "a", settings=SMALL, steps=5)
    file = str(tmp_path / "a.run" / "recipe.toml")
    zoo.train("rnnsearch-tiny", data, tmp_path / "b", recipe=file)
    assert largest_difference(tmp_path / "a", tmp_path / "b") == 0


def test_recipes_in_files_are_checked(parallel: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"

    def attempt(text: str) -> None:
        file.write_text(text)
        begin(
            TrainingRequest(
                "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "x", recipe=str(file), steps=1
            )
        )

    for text, message in (
        ("steps = ", "mine.toml is not TOML"),
        ("batch_token = 5", "did you mean batch_tokens"),
        ("config = 3", "config must be a table"),
        ("[config]\nhiden_dim = 3", "hidden_dim"),
    ):
        with pytest.raises(ZooError, match=message):
            attempt(text)
    file.unlink()
    with pytest.raises(ZooError, match=r"no recipe .*mine.toml"):
        begin(
            TrainingRequest(
                "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "x", recipe=str(file), steps=1
            )
        )
    assert not list(tmp_path.glob("x*"))


def test_weights_no_longer_needed_are_removed(parallel: Path, tmp_path: Path) -> None:
    settings = {**DETERMINISTIC, "average_last": 2, "validate_every": 2, "save_every": 4}
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=30)
    kept = sorted((tmp_path / "a.run" / "weights").iterdir())
    assert [int(file.stem) for file in kept][-2:] == [28, 30]
    assert len(kept) <= 5
    assert read_tensors(kept[-1])


def test_the_examples_of_the_training_page_work(registry: Registry, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL)
    (recipe,) = (text for kind, text in blocks if kind == "toml")
    file = tmp_path / "r.toml"
    file.write_text(recipe)
    plan = make_plan(registry, TrainingRequest("transformer-tiny", "shift", "x", recipe=str(file)))
    assert (plan.recipe.accumulate, plan.config.model_dump()["dropout"]) == (4, 0.3)
    made: dict[str, Any] = {}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "training.md", "exec"), made)
    (callback,) = made["zoo_callbacks"]()
    assert isinstance(callback, Callback)
    options = {option for parameter in train.params for option in parameter.opts}
    shell = " ".join(text for kind, text in blocks if kind == "sh")
    used = set(re.findall(r"--[a-z-]+", shell.replace("\\\n", " ")))
    assert used - {"--nproc-per-node", "--max-restarts"} <= options
