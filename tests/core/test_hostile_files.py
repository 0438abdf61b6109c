"""Files that were made to hurt: refused with one line, in bounded time and memory."""

import json
import os
import random
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result

from zoo.checkpoint.card import split_card
from zoo.checkpoint.format import describe
from zoo.checkpoint.scores import read_scores
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import CheckpointError, ConfigError, UnknownNameError, ZooError
from zoo.files import read_json
from zoo.hub.pull import locate
from zoo.nn.build import build, network_type
from zoo.nn.device import pick_device
from zoo.registry.catalogue import read as read_catalogue
from zoo.registry.registry import Registry
from zoo.serving.descriptions import curve

Run = Callable[..., Result]
TOP = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of a checkpoint's small files; its weights are empty."""
    released = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
    folder = tmp_path / "copied"
    shutil.copytree(released, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.png"))
    (folder / "model.safetensors").touch()
    return folder


def change(folder: Path, **values: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_config_of_many_unknown_keys(copied: Path, registry: Registry, run: Run) -> None:
    config = {f"embedding_din{n}": n for n in range(100_000)}
    change(copied, config=config)
    done = run("info", copied)
    assert "it has 100,000 keys; the limit is 1,000" in done.output
    config_type = registry.architecture("rnnsearch").config_type()
    with pytest.raises(ConfigError, match="unknown key 'k0'") as caught:
        config_type.parse({f"k{n}": n for n in range(900)}, "config")
    assert len(str(caught.value)) < 5000
    with pytest.raises(ConfigError) as caught:
        config_type.parse({"k" * 3_000_000: 1}, "config")
    assert len(str(caught.value)) < 5000


def test_a_name_of_three_megabytes(copied: Path, run: Run) -> None:
    change(copied, model="n" * 3_000_000)
    done = run("info", copied)
    assert "'model' must have 1 to 200 characters" in done.output
    assert len(done.output) < 1000
    change(copied, format="9" * 3_000_000)
    with pytest.raises(CheckpointError) as caught:
        describe(copied)
    assert len(str(caught.value)) < 500
    assert len(str(UnknownNameError("name", "n" * 3_000_000, ["name"]))) < 500
    assert len(str(ZooError("what" * 10**6, "why" * 10**6, "next" * 10**6))) < 13_000


def test_tables_of_many_entries(copied: Path) -> None:
    change(copied, tied={f"a{n}": "b" for n in range(20_000)})
    with pytest.raises(CheckpointError, match="'tied' has over 10,000 entries"):
        describe(copied)


MEMORY = """
import resource, sys
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from pathlib import Path
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, read_json
try:
    read_json(Path(sys.argv[1]), TEXT_LIMIT)
except CheckpointError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def test_a_training_record_of_empty_lists_takes_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "training.json"
    file.write_text('{"a": [' + ",".join(["[]"] * 15_000_000) + "]}")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, file], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    kilobytes, _, message = done.stdout.partition(" ")
    assert "it has over 5,000,000 values" in message
    assert int(kilobytes) * 1024 < file.stat().st_size * 1.5


YAML = {
    "a bomb of merge keys": (
        "a: &a {x: 1}\n" + "".join(f"k{n}: &k{n}\n  <<: [*a, *a]\n" for n in range(20)),
        "it has an anchor or an alias",
    ),
    "a bomb of aliases": ("a: &a [1]\nb: [*a, *a]", "it has an anchor or an alias"),
    "an anchor alone": ("a: &a [1]", "it has an anchor or an alias"),
    "a megabyte of lists": ("a: " + "[" * 500_000 + "]" * 500_000, "over 50,000 characters"),
    "a megabyte of items": ("a:\n" + "- b\n" * 250_000, "over 50,000 characters"),
}


@pytest.mark.parametrize("name", YAML)
def test_cards_that_multiply(name: str) -> None:
    text, message = YAML[name]
    with pytest.raises(CheckpointError, match=message):
        split_card(f"---\n{text}\n---\nbody", "a card")


def test_the_largest_metadata_is_read() -> None:
    metadata, body = split_card("---\na:\n" + "- b\n" * 3_000 + "---\nbody", "a card")
    assert metadata == {"a": ["b"] * 3_000}
    assert body == "body"


SCORE = {"data": "a", "split": "test", "bleu": 1.0, "bleu_signature": "s"}


@pytest.mark.parametrize(
    "wrong",
    [{"bleu": 10**400}, {"bleu_signature": 1}, {"benchmark": 3}, {"benchmark": ["a"]},
     {"command": []}, {"bleu_confidence": "wide"}, {"bleu_confidence": [1]}, {"data": 1},
     {"note": "n" * 20_000}, {"beam": list(range(2000))}, {"x": {}},
     {f"k{n}": n for n in range(2000)}],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_scores_of_odd_types(copied: Path, wrong: dict[str, Any]) -> None:
    (copied / "scores.json").write_text(json.dumps({"scores": [{**SCORE, **wrong}]}))
    with pytest.raises(CheckpointError, match="must be a list of score records"):
        read_scores(copied)
    (copied / "scores.json").write_text(json.dumps({"scores": [SCORE]}))
    assert read_scores(copied) == [SCORE]


def test_a_score_that_is_infinite(copied: Path) -> None:
    (copied / "scores.json").write_text('{"scores": [{"bleu": 1e999}]}')
    with pytest.raises(CheckpointError, match="1e999 is too large for a number"):
        read_json(copied / "scores.json")


def test_a_table_of_many_parameters_is_printed(run: Run) -> None:
    done = run("info", "transformer-tiny", "--parameters", "--set", "encoder_layers=512",
               "--set", "decoder_layers=512")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) > 20_000


def test_a_device_without_values() -> None:
    with pytest.raises(ConfigError, match=r"no device 'meta' here: this machine has cpu"):
        pick_device("meta")


def random_config(config_type: Any, draw: random.Random) -> dict[str, Any]:
    """Return the example's values with some of them changed, within the bounds of the zoo."""
    values: dict[str, Any] = config_type.example().model_dump(mode="json")
    small = (1, 2, 3, 4, 6, 8)
    for key in draw.sample(list(values), draw.randint(1, min(4, len(values)))):
        value = values[key]
        names = [a for a in typing.get_args(config_type.model_fields[key].annotation) if a]
        if isinstance(value, bool):
            values[key] = not value
        elif isinstance(value, int):
            values[key] = draw.choice(small)
        elif isinstance(value, list):
            values[key] = [[draw.choice(small) for _ in inner] for inner in value]
        elif not isinstance(value, float):
            values[key] = draw.choice([*(a for a in names if isinstance(a, str)), None, 4])
    return values


@pytest.mark.parametrize("name", ["convs2s", "rnnsearch", "seq2seq", "t5", "transformer"])
def test_every_config_that_is_accepted_translates(registry: Registry, name: str) -> None:
    """A shape that the network cannot run is refused as configuration, not in the search."""
    architecture = registry.architecture(name)
    config_type, draw, ran = architecture.config_type(), random.Random(name), 0
    for _ in range(30):
        sizes = draw.choice([5, 6, 20]), draw.choice([5, 6, 20])
        try:
            config = config_type.parse(random_config(config_type, draw), name)
            sizes = (sizes[0], sizes[0]) if config.one_vocabulary else sizes
            network = build(network_type(architecture), config, *sizes).eval()
        except ConfigError:
            continue
        source = torch.tensor([[3, 3, 2], [3, 2, 0]])
        limits = config.length_limits
        if any(limit is not None and limit < 4 for limit in limits):
            continue
        mask = source != 0
        with torch.inference_mode():
            memory = network.encode(source, mask).memory
            blank = torch.tensor([], dtype=torch.long)
            task: Any = Task(network, memory, mask, limits.target, None, [0, 1], blank)
            search(task, Search(beam=3, max_length=2))
        ran += 1
    assert ran > 8


@pytest.mark.parametrize(
    "content", [b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'{"a": "\xed\xa0\x80"}']
)
def test_half_of_a_surrogate_pair_is_refused(content: bytes, tmp_path: Path) -> None:
    """It could not be written again."""
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"half of a surrogate pair|can't decode byte"):
        read_json(file)
    file.write_bytes(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}')
    assert read_json(file) == {"a": "\U0001f600", "b": "\\ud800"}


RECORDS: dict[str, dict[str, Any]] = {
    "a huge loss": {"curve": [{"step": 1, "validation_loss": 10**400}]},
    "a curve of numbers": {"curve": [1]},
    "deep values": {"recipe": {"a": json.loads("[" * 900 + "]" * 900)}},
    "a long recipe": {"recipe": {f"k{n}": n for n in range(2000)}},
    "pairs in a list": {"pairs": []},
}


@pytest.mark.parametrize("name", RECORDS)
def test_training_records_of_odd_values(name: str, copied: Path, run: Run) -> None:
    (copied / "training.json").write_text(json.dumps(RECORDS[name]))
    done = run("card", copied, "--write")
    assert done.exit_code == 1 or name == "deep values"  # which a deep stack can write
    assert not done.exception or isinstance(done.exception, SystemExit)
    assert len(done.output.splitlines()) == 1
    (copied / "training.json").write_text('{"data": ["a"]}')
    assert run("info", copied).exit_code == 0


def test_a_huge_update_is_not_drawn() -> None:
    rows = [{"step": 10**400, "loss": 1.0}, {"step": 1, "loss": 10**400}, {"step": 2, "loss": 3}]
    assert curve(rows)["loss"] == [[2.0, 3.0]]


def test_many_unknown_keys_of_a_catalogue_and_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Near names were looked up for each of them."""
    file = tmp_path / "a.toml"
    keys = "".join(f"unknown{n} = 1\n" for n in range(5_000))
    file.write_text(f"format = 1\n[models.a]\n{keys}")
    (problem,) = read_catalogue(file).problems
    assert "4,980 more unknown keys" in problem
    file.write_text(f"[defaults.translate]\n{keys}")
    monkeypatch.setenv("ZOO_SETTINGS", str(file))
    done = run("list", "models")
    assert "unknown option of translate 'unknown0'" in done.output
    assert "and more" in done.output
    assert len(done.output) < 3000


def test_pipes_in_the_place_of_files_do_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.toml")
    (problem,) = read_catalogue(tmp_path / "a.toml").problems
    assert "it is not a regular file" in problem
    (tmp_path / "hub" / "refs").mkdir(parents=True)
    os.mkfifo(tmp_path / "hub" / "refs" / "main")
    for address in (f"file://{tmp_path}/hub", f"file://{'a/' * 9}{'b' * 5000}", "c" * 5000):
        with pytest.raises(ZooError) as caught:
            locate(address)
        assert "\n" not in str(caught.value)
