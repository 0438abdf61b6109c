"""Training sessions: begin, resume, names on shelves, and the settings of the process."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result

import zoo
from tests.core.test_training import SMALL, same
from zoo.errors import CheckpointError, ConfigError
from zoo.registry.events import Event, Report
from zoo.training.request import TrainingRequest
from zoo.training.session import begin


def test_a_request_cannot_be_changed() -> None:
    request = TrainingRequest("rnnsearch-tiny", "corpus:en-de", "out", seed=3, steps=5)
    with pytest.raises(AttributeError):
        request.steps = 6  # type: ignore[misc]
    assert request.overrides == {"recipe.seed": 3, "recipe.steps": 5}


def test_zoo_resume_continues_to_new_totals(parallel: Path, tmp_path: Path) -> None:
    data, settings = f"{parallel}:en-de", {**SMALL, "schedule": "constant"}
    zoo.train("rnnsearch-tiny", data, tmp_path / "whole", settings=settings, steps=15)
    zoo.train("rnnsearch-tiny", data, tmp_path / "parts", settings=settings, steps=9)
    events: list[Event] = []
    assert zoo.resume(tmp_path / "parts", steps=15, on_event=events.append) == tmp_path / "parts"
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert [e.step for e in events if isinstance(e, Report)][-1] == 15


def test_a_run_whose_files_were_moved_is_resumed_with_their_new_names(
    parallel: Path, tmp_path: Path, run: Callable[..., Result]
) -> None:
    """It equals a run that was never stopped, remembers the names, and refuses other text."""
    settings = {**SMALL, "schedule": "constant"}
    other, new = tmp_path / "other.tsv", tmp_path / "new"
    other.write_text("a dog runs\tein Hund rennt\n" * 3)
    for out, steps in (("whole", 9), ("parts", 5)):
        zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / out, validation=str(other),
                  settings=settings, steps=steps)  # fmt: skip
    new.mkdir()
    for file in (parallel.with_suffix(".en"), parallel.with_suffix(".de")):
        file.rename(new / f"text{file.suffix}")
    again = ("train", "--resume", "--out", tmp_path / "parts", "--steps", 9)
    assert "the files were moved, resume with --data and the new name" in run(*again).stderr
    other.rename(new / "other.tsv")
    moved = (*again, "--data", f"{new}/text:en-de")
    assert "resume with --validation and the new name" in run(*moved).stderr
    swapped = run(*again, "--data", new / "other.tsv", "--validation", new / "other.tsv")
    assert (
        f"{new}/other.tsv is not the text of this run. Name that of {parallel}:en-de, or begin"
    ) in swapped.stderr
    wrong = run(*moved, "--validation", f"{new}/text:en-de")
    assert f"{new}/text:en-de is not the text of this run. Name that of {other}, or" in (
        wrong.stderr
    )
    done = run(*moved, "--validation", new / "other.tsv")
    assert done.exit_code == 0, done.output
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert zoo.resume(tmp_path / "parts", steps=12) == tmp_path / "parts"


def test_a_run_that_validates_on_its_own_data_is_not_resumed_with_other_data_to_validate_on(
    parallel: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("a dog runs\tein Hund rennt\n" * 3)
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "out", settings=SMALL, steps=2)
    with pytest.raises(CheckpointError, match="Leave out --validation, or begin a new run"):
        zoo.resume(tmp_path / "out", validation=str(other), steps=4)


def test_data_may_be_a_path(parallel: Path, tmp_path: Path) -> None:
    pairs = zip(*((parallel.with_suffix(s)).read_text().splitlines() for s in (".en", ".de")),
                strict=True)  # fmt: skip
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    for data, out in ((file, "a"), (str(file), "b")):
        zoo.train("rnnsearch-tiny", data, tmp_path / out, settings=SMALL, steps=3)
    assert same(tmp_path / "a", tmp_path / "b")


def test_training_leaves_the_process_unchanged(parallel: Path, tmp_path: Path) -> None:
    """Generators, threads, warning filters and environment variables."""
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads, filters = torch.get_num_threads(), list(warnings.filters)
    environment = dict(os.environ)
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, steps=9)
    for state in (tmp_path / "a.run" / "states").iterdir():
        values = json.loads((state / "state.json").read_text())
        values["environment"]["threads"] = 2
        (state / "state.json").write_text(json.dumps(values))
    zoo.resume(tmp_path / "a", steps=12)
    with pytest.raises(ConfigError, match="is past that already"):
        zoo.resume(tmp_path / "a", steps=3)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    assert list(warnings.filters) == filters
    assert dict(os.environ) == environment


def test_a_run_of_version_0_1_is_not_resumed(parallel: Path, tmp_path: Path) -> None:
    zoo.train("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=SMALL, steps=2)
    file = tmp_path / "a.run" / "run.json"
    values = json.loads(file.read_text())
    del values["format"]
    values["recipe"]["optimiser"] = values["recipe"].pop("optimizer")
    file.write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match="another version of seq2seq-zoo") as raised:
        zoo.resume(tmp_path / "a")
    assert "`optimizer`" in str(raised.value)
    assert "zoo train MODEL --data" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_description_of_wrong_types_is_refused(tmp_path: Path) -> None:
    right = {"format": 2, "id": "x", "model": "m", "architecture": "a", "data": "d",
             "fingerprint": "f", "config": {}, "recipe": {}, "limit": None,
             "validation": None}  # fmt: skip
    (tmp_path / "a.run").mkdir()
    for key, wrong in (("architecture", []), ("recipe", ""), ("data", True), ("limit", "5")):
        (tmp_path / "a.run" / "run.json").write_text(json.dumps({**right, key: wrong}))
        with pytest.raises(CheckpointError, match=f"damaged.*wrong type of {key}"):
            zoo.resume(tmp_path / "a")


def test_the_error_for_keys_of_version_0_1_suggests_the_new_names(
    parallel: Path, tmp_path: Path
) -> None:
    file = tmp_path / "old.toml"
    file.write_text('optimiser = "adam"\ninitialisation = "own"\n')
    request = TrainingRequest(
        "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", recipe=str(file), steps=1
    )
    with pytest.raises(ConfigError) as raised:
        begin(request)
    assert "'optimiser' (did you mean optimizer?)" in str(raised.value)
    assert "'initialisation' (did you mean initialization?)" in str(raised.value)


def test_all_unknown_names_are_reported_at_once(parallel: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "optimizer": "adaw", "schedule": "cosin", "tokenizer": "unigrams"}
    request = TrainingRequest(
        "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=1
    )
    with pytest.raises(ConfigError) as raised:
        begin(request)
    for part in (
        "optimizer = 'adaw' (did you mean adamw or adam?)",
        "schedule = 'cosin' (did you mean cosine?)",
        "tokenizer = 'unigrams' (did you mean unigram?)",
    ):
        assert part in str(raised.value)
    assert not list(tmp_path.glob("a*"))
