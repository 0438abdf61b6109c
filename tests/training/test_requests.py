"""What a request may say about an end, held-out pairs, vocabularies, paths and teachers."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from tests.forked import python
from zoo.data.datasets import held_out_sources, text_hash
from zoo.data.pairs import write_pairs
from zoo.errors import ArgumentError, CheckpointError, ConfigError
from zoo.registry.events import Event, Report, Stopped
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo.training.plan import Plan, make_plan
from zoo.training.recipe_layers import read_recipe
from zoo.training.request import TrainingRequest
from zoo.training.session import begin, resume

Run = Callable[..., Result]
TINY = {"hidden_dim": 8, "embedding_dim": 8, "tokenizer": "word", "batch_tokens": 100}
PAIRS = [(f"{a} {b} {c}", f"{c} {b} {a}") for a in "abcde" for b in "fghi" for c in "jklmn"]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    """A file of 100 pairs with distinct sources."""
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return str(file)


@pytest.fixture
def parent(pairs: str, tmp_path: Path) -> Path:
    return zoo.train("seq2seq-tiny", pairs, tmp_path / "parent", settings=TINY, steps=1)


def rates(events: list[Event]) -> list[float]:
    return [event.learning_rate for event in events if isinstance(event, Report)]


def test_the_same_total_again_continues_a_cooldown(
    pairs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is resumed with the total that it has goes on as if it had never stopped."""
    from zoo.training import trainer as module
    from zoo.training.validation import ValidationResult

    monkeypatch.setattr(module, "validate", lambda *_: ValidationResult(1.0, {}, []))
    monkeypatch.setattr(module, "REPORT_EVERY", 1)
    settings = {**TINY, "select": "loss", "patience": 4, "cooldown": 0.5, "validate_every": 2}
    request = TrainingRequest("seq2seq-tiny", pairs, tmp_path / "a", settings=settings, steps=24)

    def until(session: Any, stop: int | None) -> list[Event]:
        events = []
        with session:
            for event in session.trainer.events():
                events.append(event)
                if isinstance(event, Report) and event.step == stop:
                    session.trainer.stop = True
                if isinstance(event, Stopped):
                    break
        return events

    whole = rates(until(begin(request), None))
    before = rates(until(begin(TrainingRequest(**{**vars(request), "out": tmp_path / "b"})), 13))
    after = rates(until(resume(tmp_path / "b", steps=24), None))
    assert 13 < len(whole) < 24, "it ends early, in a cooldown"
    assert whole[12] < whole[9] / 1.2, "which has begun"
    assert before + after == whole
    # One that has ended early goes on with a larger total, also after a kill.
    with resume(tmp_path / "b", steps=30) as session:
        next(session.trainer.events())
    assert rates(until(resume(tmp_path / "b"), None))


def test_a_total_of_zero_is_refused(parent: Path) -> None:
    with pytest.raises(ConfigError, match="steps = 0"):
        zoo.resume(parent, steps=0)


def test_one_frequent_source_is_not_held_out() -> None:
    frequent = min((source for source, _ in PAIRS), key=text_hash)
    plain = held_out_sources(source for source, _ in PAIRS)
    assert len(plain) == 5
    assert frequent in plain
    many = held_out_sources([source for source, _ in PAIRS] + [frequent] * 1_900)
    assert many == plain - {frequent} | (many - plain)
    assert len(many) == 5
    assert frequent not in many
    # In the bounded memory of a large corpus too.
    large = [f"{i}" for i in range(30_000)]
    first = min(large, key=text_hash)
    assert first in held_out_sources(large)
    assert held_out_sources(large) - held_out_sources(large + [first] * 50_000) == {first}


def test_two_threads_write_their_own_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    files: dict[str, Path] = {}

    def write(name: str) -> None:
        files[name] = write_pairs((f"{name} {i}", name) for i in range(3_000))

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, file in files.items():
        targets = [json.loads(line)["target"] for line in file.read_text().splitlines()]
        assert targets == [name] * 3_000


def test_a_new_vocabulary_of_one_side_ignores_words_that_are_none(
    parent: Path, tmp_path: Path
) -> None:
    data = [*PAIRS, ("x" * 60_000, "x")]
    tuned = zoo.train(None, data, tmp_path / "tuned", from_=parent, new_vocabulary="source",
                      settings={"tokenizer": "bpe", "vocab_size": 60}, steps=1)  # fmt: skip
    vocabulary = zoo.load(tuned).checkpoint.source_tokenizer
    assert max(len(vocabulary.token(i)) for i in range(vocabulary.size)) < 20


def test_accumulation_makes_an_update_of_several_batches(
    pairs: str, parent: Path, registry: Registry, tmp_path: Path, run: Run
) -> None:
    def lines(*more: str) -> str:
        given = ("train", "seq2seq-tiny", "--data", pairs, "--dry-run", "--set", "batch_tokens=100")
        return run(*given, "--set", "tokenizer=word", *more).stderr

    assert "(5 updates per epoch)" in lines()
    assert "(1 update per epoch)" in lines("--set", "accumulate=4")
    warmups = []
    for accumulate in (1, 8):
        settings = {"batch_tokens": 50, "accumulate": accumulate}
        out = tmp_path / f"t{accumulate}"
        request = TrainingRequest("", pairs, out, settings=settings, from_=parent, epochs=200)
        with begin(request) as session:
            warmups.append(session.trainer.plan.recipe.warmup)
    assert warmups[1] <= warmups[0] // 4


def test_pairs_that_cannot_be_validated_on_are_counted(
    pairs: str, tmp_path: Path, run: Run
) -> None:
    lines = [f"{source}\t{target}" for source, target in PAIRS[:20]]
    (tmp_path / "v.tsv").write_text("\n".join([*lines, *["x " * 300 + "\tx"] * 3, "\tx", ""]))
    command = ("train", "seq2seq-tiny", "--data", pairs, "--validation", tmp_path / "v.tsv",
               "--steps", 1, "--out", tmp_path / "out")  # fmt: skip
    given = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    assert "3 too long and 1 empty of the pairs to validate on are skipped: scores are of the " \
        "other 20 pairs" in run(*command, *given).stderr  # fmt: skip


def test_validation_data_in_the_other_direction_is_warned_about(tmp_path: Path, run: Run) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (tmp_path / f"a.{language}").write_text(text)
    given = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    command = ("train", "seq2seq-tiny", "--data", tmp_path / "a:en-de", "--steps", 1, *given)
    shown = run(*command, "--validation", tmp_path / "a:de-en", "--out", tmp_path / "x").stderr
    assert "the data to validate on is de to en, and the training data is en to de" in shown
    shown = run(*command, "--validation", tmp_path / "a:en-de", "--out", tmp_path / "y").stderr
    assert "to validate on is" not in shown


def test_validation_data_with_exchanged_sides_is_warned_about(tmp_path: Path, run: Run) -> None:
    """By their words, since such a file says nothing of its languages."""
    given = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    sides = [(f"one of {n} dogs", f"ein Hund von {n}") for n in range(50)]
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in sides))
    command = ("train", "seq2seq-tiny", "--data", tmp_path / "a.tsv", "--steps", 1, *given)
    warning = "the sources to validate on have the words of the targets to train on"
    for name, lines, expected in (
        ("exchanged", [f"{b}\t{a}\n" for a, b in sides], True),
        ("same", [f"{a}\t{b}\n" for a, b in sides], False),
        ("copies", [f"{a}\t{a}\n" for a, _ in sides], False),
        ("others", ["x yy zzz\tq rr sss\n"] * 20, False),
    ):
        file = tmp_path / f"{name}.tsv"
        file.write_text("".join(lines))
        shown = run(*command, "--validation", file, "--out", tmp_path / name).stderr
        assert (warning in shown) == expected, name


def test_a_recipe_file_keeps_values_that_are_none(pairs: str, registry: Registry) -> None:
    settings: dict[str, Any] = {
        "score": "sigmoid", "attention_dim": None, "share": "none", "clip": None,
    }  # fmt: skip
    request = TrainingRequest("rnnsearch-tiny", pairs, "out", settings=settings, steps=1)
    plan = make_plan(registry, request, {"vocab_size": 100})
    file = Path(pairs).with_name("recipe.toml")
    file.write_text(plan.to_toml())
    assert read_recipe(file)["config"]["attention_dim"] == "none"
    again = make_plan(registry, TrainingRequest("rnnsearch-tiny", pairs, "x", recipe=str(file)))
    assert (again.config, again.recipe) == (plan.config, plan.recipe)
    assert again.config.model_dump()["attention_dim"] is None


def test_a_teacher_in_a_folder_is_the_same_from_any_folder(
    pairs: str, parent: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(parent.parent)
    objective = ["cross_entropy", {"name": "distillation", "teacher": parent.name}]
    request = TrainingRequest("seq2seq-tiny", pairs, "x", settings={"objective": objective})
    plan: Plan = make_plan(registry, request, {"steps": 1})
    (_, teacher) = plan.recipe.objective
    assert teacher["teacher"] == str(parent)


def test_rows_of_new_tokens_cannot_be_frozen(parent: Path, tmp_path: Path) -> None:
    data = [(f"{source} new", target) for source, target in PAIRS]
    given: dict[str, Any] = {"from_": parent, "new_vocabulary": "source", "steps": 1}
    with pytest.raises(ConfigError, match=r"source_embedding\.weight cannot be frozen: the rows"):
        zoo.train(None, data, tmp_path / "a", freeze=["*source_embedding*"], **given)
    assert not list(tmp_path.glob("a*"))
    assert zoo.train(None, data, tmp_path / "b", freeze=["encoder*"], **given).is_dir()


@pytest.mark.parametrize(
    ("new", "key"),
    [("source", "target_tokenizer"), ("source", "shared_vocab"), ("target", "shared_vocab")],
)
def test_settings_of_a_tokenizer_that_is_kept_are_refused(
    parent: Path, pairs: str, tmp_path: Path, new: Any, key: str
) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set: --new-vocabulary {new} keeps"):
        zoo.train(None, pairs, tmp_path / "a", from_=parent, new_vocabulary=new, steps=1,
                  settings={key: "char"})  # fmt: skip


def test_a_limit_leaves_out_the_command_that_scores_other_pairs(
    pairs: str, tmp_path: Path, run: Run
) -> None:
    given = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    command = ("train", "seq2seq-tiny", "--data", pairs, "--steps", 1, *given)
    assert "zoo eval" in run(*command, "--out", tmp_path / "a").stderr
    assert "zoo eval" not in run(*command, "--limit", 60, "--out", tmp_path / "b").stderr


def test_training_pairs_are_not_scored_without_a_word(parent: Path, pairs: str, run: Run) -> None:
    warning = "pairs.tsv is what it was trained on, on most pairs"
    assert warning in run("eval", parent, "--data", pairs).stderr
    assert warning not in run("eval", parent, "--data", pairs, "--split", "validation").stderr
    scored = [zoo.load(parent).evaluate(pairs, split) for split in (None, "train", "validation")]
    assert [any(warning in note for note in of.problems) for of in scored] == [True, True, False]


@pytest.mark.parametrize(("pairs_of_it", "times"), [(5, 1), (1, 400)])
def test_a_split_without_pairs_is_not_recommended(
    pairs_of_it: int, times: int, pairs: str, tmp_path: Path, run: Run
) -> None:
    """Of 5 pairs, and of 400 of one source, none is held out."""
    chosen = Path(pairs).read_text(encoding="utf-8").splitlines(keepends=True)[:pairs_of_it]
    file = tmp_path / "few.tsv"
    file.write_text("".join(chosen * times), encoding="utf-8")
    zoo.train("seq2seq-tiny", file, tmp_path / "few", settings=TINY, steps=1)
    warned = run("eval", tmp_path / "few", "--data", file).stderr
    assert "Warning: few.tsv is what it was trained on, on all pairs\n" in warned
    assert "--split" not in warned


def test_paths_are_taken_wherever_names_are(pairs: str, parent: Path, tmp_path: Path) -> None:
    recipe = Path(f"{parent}.run") / "recipe.toml"
    tuned = zoo.train(None, Path(pairs), tmp_path / "a", from_=parent, also_score=[Path(pairs)],
                      steps=1)  # fmt: skip
    assert zoo.train("seq2seq-tiny", pairs, tmp_path / "b", recipe=recipe, also_score=None,
                     steps=1).is_dir()  # fmt: skip
    assert zoo.load(tuned).evaluate(Path(pairs)).sentences == len(PAIRS)


def test_few_held_out_pairs_say_when_to_stop_if_that_is_wanted(
    pairs: str, registry: Registry, tmp_path: Path
) -> None:
    cases: list[dict[str, Any]] = [{"patience": 5}, {"tolerance": 0.01}, {"cooldown": 0.2}]
    for number, wanted in enumerate(cases):
        out = tmp_path / str(number)
        request = TrainingRequest("seq2seq-tiny", pairs, out, settings={**TINY, **wanted}, steps=9)
        with begin(request) as session:
            recipe: Recipe = session.trainer.plan.recipe
            assert recipe.select == "loss"
            assert recipe.patience
            assert all(getattr(recipe, key) == value for key, value in wanted.items())


def test_auto_knows_the_tokenizer_of_each_side(pairs: str, tmp_path: Path) -> None:
    settings = {**TINY, "tokenizer": "char", "target_tokenizer": "byte"}
    request = TrainingRequest("seq2seq-tiny", pairs, tmp_path / "a", settings=settings, steps=1)
    with begin(request) as session:
        assert session.trainer.data.target_tokenizer.size == 260
        assert any("char and byte tokenizer" in line for line in session.chosen)


def test_a_loss_without_bounds_can_be_resumed(pairs: str, tmp_path: Path) -> None:
    settings = {**TINY, "learning_rate": 1e30, "schedule": "constant", "warmup": 1, "clip": None,
                "select": "loss"}  # fmt: skip
    try:
        zoo.train("seq2seq-tiny", pairs, tmp_path / "a", settings=settings, steps=3)
    except zoo.errors.TrainingError:
        pytest.skip("it is not finite on this machine")
    assert zoo.resume(tmp_path / "a", steps=4).is_dir()


def test_an_empty_folder_is_free(pairs: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    out = zoo.train("seq2seq-tiny", pairs, tmp_path / "a", settings=TINY, steps=1)
    assert (out / "config.json").is_file()


def test_a_dash_is_standard_output(parent: Path, tmp_path: Path, run: Run) -> None:
    command = [*python(), "-m", "zoo", "translate", str(parent), "a f j", "--out", "-"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout == run("translate", parent, "a f j").stdout
    assert not (tmp_path / "-").exists()


def test_arguments_of_other_kinds_are_refused_together(pairs: str, tmp_path: Path) -> None:
    wrong: Any = {"recipe": 3, "on_event": 4, "settings": [1], "shard": "no"}
    with pytest.raises(ArgumentError) as error:
        zoo.train(["a"], pairs, None, **wrong)  # type: ignore[arg-type]  # wrong
    assert error.value.why.split("; ") == [
        "model is ['a'], not a text",
        "out is None, not a text or a path",
        "recipe is 3, not a text or a path",
        "settings is [1], not a mapping",
        "shard is 'no', not True or False",
        "on_event is 4, not a function",
    ]
    with pytest.raises(ArgumentError, match="on_event is 4, not a function"):
        zoo.resume(tmp_path / "out", on_event=wrong["on_event"])
    lists: Any = {"also_score": 5, "freeze": [6]}
    with pytest.raises(ConfigError, match=r"also_score has 5.*; freeze has 6, not a name"):
        zoo.train("seq2seq-tiny", pairs, tmp_path / "out", **lists)


def test_a_name_that_the_system_refuses_is_answered(pairs: str, tmp_path: Path) -> None:
    out = tmp_path / ("a" * 300)
    with pytest.raises(CheckpointError, match=r"cannot be written.*Choose another place"):
        zoo.train("seq2seq-tiny", pairs, out)
    with pytest.raises(CheckpointError, match=r"cannot be written.*Choose another place"):
        zoo.resume(out)
