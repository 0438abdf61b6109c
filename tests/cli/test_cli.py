"""The command line: JSON for programs, tables for people, one clear line for each error."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.core.test_training import SMALL
from zoo.cli.listing import COLUMNS
from zoo.registry.open_shelf import OpenShelf
from zoo.registry.registry import default_registry

Run = Callable[..., Result]
SETTINGS = [
    word for key, value in SMALL.items() for word in ("--set", f"{key}={json.dumps(value)}")
]


def failed(result: Result, *expected: str) -> None:
    """The command failed with one line that has these parts, and no traceback."""
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    for part in expected:
        assert part in lines[0]


def test_list_as_json(run: Run) -> None:
    listed = json.loads(run("list", "--json").stdout)
    kinds = ["architectures", "models", "checkpoints", "datasets", "importers", "exporters"]
    kinds += [
        "engines",
        "recipes",
        "tokenizers",
        "objectives",
        "schedules",
        "optimizers",
        "initializations",
    ]
    kinds += ["augmentations", "processors", "searches", "splitters"]
    assert list(listed) == kinds
    for model in listed["models"]:
        assert {"name", "architecture", "parameters", "summary"} <= set(model)
    by_name = {model["name"]: model for model in listed["models"]}
    assert by_name["transformer-6x6"]["parameters"] == 59_508_496
    assert list(by_name) == zoo.list_models()
    datasets = {dataset["name"] for dataset in listed["datasets"]}
    assert {"numbers-en-fr", "shift", "tatoeba-en-fr", "multi30k-de-en"} <= datasets
    assert json.loads(run("list", "models", "--json").stdout) == {"models": listed["models"]}


def test_list_as_tables(run: Run) -> None:
    shown = run("list", "models").stdout
    for name in (*zoo.list_models(), "59,508,496"):
        assert name in shown


def test_list_alone_counts_each_kind(run: Run) -> None:
    listed = json.loads(run("list", "--json").stdout)
    shown = run("list").stdout
    for kind, rows in listed.items():
        names = {row["name"] for row in rows}  # an exporter's name has a row per architecture
        assert re.search(rf"^{kind} +{len(names)} +{min(names)}", shown, re.MULTILINE)


def test_recipes_are_listed_and_shown(run: Run) -> None:
    (recipe,) = json.loads(run("list", "recipes", "shift", "--json").stdout)["recipes"]
    shown = run("list", "recipes", "shift").stdout
    for key, value in recipe["values"].items():
        assert f"{key} = {json.dumps(value)}" in shown
    assert "transformer-tiny.multi30k" in run("list", "recipes").stdout


def test_help_shows_the_first_sentence_of_each_command_in_full(run: Run) -> None:
    shown = run("--help").stdout
    assert "..." not in shown.partition("Commands:")[2]
    for name, command in zoo.cli.cli.commands.items():
        first = " ".join((command.help or "").split("\n\n")[0].split()).partition(". ")[0]
        assert first.rstrip(".") in " ".join(shown.split()), name


@pytest.mark.parametrize("group", ["bench", "cache", "data", "registry"])
def test_help_of_a_group_is_not_cut(run: Run, group: str) -> None:
    assert "..." not in run(group, "--help").stdout.partition("Commands:")[2]


def test_list_shows_the_options_of_an_entry(run: Run) -> None:
    (entry,) = json.loads(run("list", "objectives", "minimum_risk", "--json").stdout)["objectives"]
    options = {option["name"]: option for option in entry["options"]}
    assert options["samples"] == {
        "name": "samples", "type": "int, ≥ 1, ≤ 1000", "required": False, "default": 8
    }  # fmt: skip
    assert options["metric"]["type"] == "'chrf' or 'bleu'"
    assert options["longest"]["type"] == "int, ≥ 1 or null"
    shown = run("list", "augmentations", "bpe_dropout").stdout
    assert re.search(r"probability +float +required", shown)
    assert "no options of its own" in run("list", "schedules", "cosine").stdout
    assert "transformer-6x6" not in run("list", "models", "transformer-tiny").stdout
    failed(run("list", "schedules", "noma"), "unknown schedule 'noma': did you mean noam?")
    failed(run("list", "schedule"), "unknown kind 'schedule': did you mean schedules?")


def test_every_shelf_of_entries_can_be_listed() -> None:
    shelves = default_registry().shelves
    assert {kind for kind, shelf in shelves.items() if isinstance(shelf, OpenShelf)} <= set(COLUMNS)


def test_info_as_json(run: Run) -> None:
    sizes = ("--source-vocab", 10_000, "--target-vocab", 10_000)
    printed = json.loads(run("info", "transformer-6x6", "--json", *sizes).stdout)
    assert printed["parameters"] == 59_508_496 == sum(row["count"] for row in printed["table"])
    row = next(r for r in printed["table"] if r["symbol"] == "W^(1)_{E,k}")
    assert row == {
        "block": "encoder layer 1", "path": "encoder.0.attention.project.weight",
        "slice": [512, 1024], "symbol": "W^(1)_{E,k}", "formula": "d × d", "shape": [512, 512],
        "count": 262_144,
    }  # fmt: skip
    assert printed["config"]["dim"] == 512
    shared = json.loads(run("info", "transformer-6x6", "--json", "--set", "share=all").stdout)
    assert shared["parameters"] == 59_508_496 - 2 * 10_000 * 512
    failed(run("info", "transformer-6x6", "--set", "dimm=3"), "did you mean dim?")
    smaller = json.loads(run("info", "transformer-6x6", "--json", "--source-vocab", 9_000).stdout)
    assert smaller["parameters"] == 59_508_496 - 1_000 * 512


def test_info_as_tables(run: Run, checkpoint: Path) -> None:
    shown = run("info", "transformer-6x6", "--parameters").stdout
    for part in ("W^(6)_{D,v}", "b^(1)_{E,h}", "59,508,496", "[512:1024]", "V_t × d"):
        assert part in shown
    assert "total" in run("info", "rnnsearch").stdout
    assert "feedforward_dim" in run("info", "transformer").stdout
    fields = json.loads(run("info", "transformer", "--json").stdout)["fields"]
    assert fields["heads"] == "attention heads, of width d / heads"
    parameters = sum(w.numel() for w in zoo.load(checkpoint).checkpoint.model.parameters())
    printed = json.loads(run("info", checkpoint, "--json").stdout)
    assert printed["parameters"] == parameters


def test_train_eval_translate(run: Run, tmp_path: Path, data: str) -> None:
    out = tmp_path / "out"
    trained = run("train", "rnnsearch-tiny", "--data", data, "--out", out, "--steps", 20, *SETTINGS)
    assert trained.exit_code == 0, trained.output
    assert trained.stdout == ""
    assert "25 training pairs" in trained.stderr
    assert "% padding" in trained.stderr
    scores = json.loads(run("eval", out, "--data", data, "--json").stdout)
    assert {"bleu", "bleu_signature", "chrf", "exact_match", "sentences"} <= set(scores)
    assert scores["sentences"] == 26
    assert scores["split"] == "all"
    assert scores["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    shown = run("eval", out, "--data", data, "--split", "train")
    printed = json.loads(run("eval", out, "--data", data, "--split", "train", "--json").stdout)
    assert (
        f"BLEU              {printed['bleu']:6.2f}  {printed['bleu_signature']}\n" in shown.stdout
    )
    assert (
        f"exact match       {printed['exact_match']:6.2f}% {printed['exact_match_signature']}\n"
        in shown.stdout
    )
    more = run("train", "--resume", "--out", out, "--steps", 25, "--json")
    events = [json.loads(line) for line in more.stdout.splitlines()]
    assert events[-1] == {"checkpoint": str(out), "step": 25}
    assert {"step", "loss", "tokens_per_second", "done"} <= set(events[0])


def test_scores_are_those_of_the_printed_translations(run: Run, checkpoint: Path) -> None:
    from sacrebleu import corpus_bleu, corpus_chrf

    data = checkpoint.parent / "a.tsv"
    pairs = [line.split("\t") for line in data.read_text().splitlines()]
    out = run("translate", checkpoint, input="".join(f"{source}\n" for source, _ in pairs)).stdout
    texts, references = out.splitlines(), [target for _, target in pairs]
    scores = json.loads(run("eval", checkpoint, "--data", data, "--json").stdout)
    assert scores["bleu"] == pytest.approx(corpus_bleu(texts, [references]).score)
    assert scores["chrf"] == pytest.approx(corpus_chrf(texts, [references]).score)
    same = sum(a == b for a, b in zip(texts, references, strict=True))
    assert scores["exact_match"] == pytest.approx(100 * same / 26)
    assert scores["exact_match"] > 20, "the test would prove nothing otherwise"


def test_translate_prints_one_line_for_each_line(run: Run, checkpoint: Path) -> None:
    given = "the dog a runs\n\n  \nthe dog b runs\r\nthe dog"
    lines = run("translate", checkpoint, input=given).stdout.split("\n")
    assert len(lines) == 6
    assert lines[1] == lines[2] == lines[5] == ""
    assert lines[0] == run("translate", checkpoint, "the dog a runs").stdout.rstrip("\n")
    records = run("translate", checkpoint, "--json", "the dog a runs", "").stdout.splitlines()
    first, second = (json.loads(record) for record in records)
    assert first["source"] == "the dog a runs"
    assert first["text"] == lines[0]
    assert first["score"] < 0
    assert second == {"source": "", "text": "", "score": 0.0, "finished": True, "tokens": []}
    assert run("translate", checkpoint, input="").stdout == ""


def test_unusual_text_is_translated(run: Run, checkpoint: Path) -> None:
    unusual = ["漢字", "\x01", "</s>", "🙂" * 50, "a\u2028b", "\u202b"]
    result = run("translate", checkpoint, input="\n".join(unusual) + "\n")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == len(unusual)


def test_unknown_names(run: Run, tmp_path: Path, checkpoint: Path) -> None:
    out = ("--out", tmp_path / "x")
    failed(run("train", "rnnsearch-tinny", "--data", "shift", *out), "rnnsearch-tiny")
    failed(run("train", "rnnsearch-tiny", "--data", "shifty", *out), "did you mean shift?")
    failed(run("train", "rnnsearch-tiny", "--data", "shift", "--recipe", "shfit", *out), "shift?")
    failed(run("info", "transformer-6x7"), "did you mean transformer-6x6")
    failed(run("list", "model"), "unknown kind 'model': did you mean models?")
    failed(run("card", "transformer-6x7"), "did you mean transformer-6x6")
    failed(run("translate", "nowhere", "hello"), "no checkpoint 'nowhere'")
    near = "did you mean rnnsearch-tiny.numbers-en-fr"
    failed(run("translate", "rnnsearch-tiny.numbers-en-de", "one"), near)
    own = ("its checkpoints are rnnsearch-tiny.", ", rnnsearch-tiny.numbers-en-fr")
    failed(run("translate", "rnnsearch-tiny", "one"), "it is the name of a model", *own)
    failed(run("eval", "t5-small", "--data", "shift"), "Train one: zoo train t5-small")
    failed(run("eval", checkpoint, "--data", "shift", "--split", "tets"), "no split 'tets'")


def test_all_invalid_settings_are_listed(run: Run, tmp_path: Path, data: str) -> None:
    wrong = ["hiden_dim=3", "dropout=often", "learning_rate=fast", "batch_token=5"]
    settings = [word for setting in wrong for word in ("--set", setting)]
    result = run("train", "rnnsearch-tiny", "--data", data, "--out", tmp_path / "x", *settings)
    failed(result, "hidden_dim", "dropout = 'often'", "learning_rate = 'fast'", "batch_tokens")
    assert not list(tmp_path.iterdir())


def test_invalid_data(run: Run, tmp_path: Path, checkpoint: Path) -> None:
    def train_on(english: bytes, german: bytes) -> Result:
        (tmp_path / "c.en").write_bytes(english)
        (tmp_path / "c.de").write_bytes(german)
        arguments = ("--data", f"{tmp_path}/c:en-de", "--out", tmp_path / "x", "--steps", 1)
        return run("train", "rnnsearch-tiny", *arguments)

    failed(train_on(b"a\nb\n", b"a\n"), "2 and 1 lines")
    failed(train_on(b"", b""), "c.en is empty")
    failed(train_on(b"a\nb\n", b"a\n\xff\n"), "c.de, line 2, is not UTF-8")
    failed(train_on(b"\n \n", b"a\nb\n"), "2 pairs have an empty side")
    failed(run("translate", checkpoint, input=b"a\n\xff\n"), "standard input, line 2")
    assert not list(tmp_path.glob("x*"))


def test_existing_folders_and_incomplete_checkpoints(
    run: Run, tmp_path: Path, checkpoint: Path, data: str
) -> None:
    arguments = ("train", "rnnsearch-tiny", "--data", data, "--steps", 1, "--out")
    failed(run(*arguments, checkpoint), "exists already")
    copied = Path(shutil.copytree(checkpoint, tmp_path / "c"))
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    failed(run("translate", copied, "hello"), "model.safetensors cannot be read")
    (copied / "source.tokenizer.json").unlink()
    failed(run("eval", copied, "--data", data), "it has no source.tokenizer.json")
    failed(run("train", "--resume", "--out", tmp_path / "none"), "no run to resume")
    (tmp_path / "file").write_text("")
    failed(run(*arguments, tmp_path / "file" / "x"), "file")
    failed(run("translate", checkpoint, "hello", "--device", "gpu9"), "no device 'gpu9' here")


def test_other_invalid_input(run: Run, tmp_path: Path, checkpoint: Path, data: str) -> None:
    def attempt(*more: object) -> Result:
        out = () if "--out" in more else ("--out", tmp_path / "x")
        return run("train", "rnnsearch-tiny", "--data", data, "--steps", 1, *out, *more)

    failed(attempt("--out", "."), "no checkpoint can be written at '.'")
    failed(attempt("--out", tmp_path / ("n" * 300)), "too long")
    failed(attempt("--set", "learning_rate=Infinity"), "finite")
    failed(attempt("--set", f"seed={10**20}"), "seed")
    failed(attempt("--set", "tokenizer=unigram", "--set", "vocab_size=6"), "Raise vocab_size")
    failed(attempt("--validation", "nothing.tsv"), "no file nothing.tsv")
    failed(run("translate", checkpoint, "a\udcff"), "is not UTF-8: give arguments")
    failed(run("info", "n" * 300), "too long")
    (tmp_path / "[/x]").mkdir(parents=True)
    failed(run("info", tmp_path / "[/x]"), "is not a complete checkpoint")
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"source": "\\ud800", "target": "b"}\n')
    failed(run("eval", checkpoint, "--data", lines), "half of a surrogate pair")
    assert not list(tmp_path.glob("x*"))


@pytest.mark.parametrize(
    "values", [{"architecture": ["x"]}, {"source_vocab": -5}, {"config": 3}, {"config": {"a": 1}}]
)
def test_info_of_a_damaged_checkpoint(
    run: Run, checkpoint: Path, tmp_path: Path, values: dict[str, object]
) -> None:
    copied = Path(shutil.copytree(checkpoint, tmp_path / "c"))
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, **values}))
    failed(run("info", copied))


def test_usage(run: Run, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "x")
    for arguments, expected in (
        (("train", *out), "Give a MODEL, or --from, and --data; or --resume"),
        (("train", "rnnsearch-tiny", "--resume", "--data", "shift", *out), "MODEL, --data"),
        (("train", "rnnsearch-tiny", "--data", "shift", "--steps", 0, *out), "0 is not in"),
        (("card",), "name a model or a checkpoint"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert expected in result.output


def test_cards_are_current(run: Run, tmp_path: Path) -> None:
    assert run("card", "--all", "--out", tmp_path).exit_code == 0
    committed = Path(__file__).parents[2] / "cards" / "models"
    fresh = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert fresh == {file.name: file.read_text() for file in committed.iterdir()}, (
        "run `make cards`"
    )
    assert set(fresh) == {f"{name}.md" for name in zoo.list_models()}
    assert run("card", "convs2s").stdout == fresh["convs2s.md"]


def test_a_checkpoint_s_card_is_shown(run: Run, checkpoint: Path) -> None:
    shown = run("card", checkpoint).stdout
    assert shown == (checkpoint / "README.md").read_text()
    assert shown.startswith("---\n")
    assert "library_name: seq2seq-zoo" in shown


def test_problems_are_warnings_on_stderr(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = default_registry()
    monkeypatch.setattr(type(registry), "problems", ["something odd"])
    result = run("list", "--json")
    assert result.exit_code == 0
    assert result.stderr == "Warning: something odd\n"
    assert json.loads(result.stdout)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_run_and_ends_it(
    number: signal.Signals, code: int, tmp_path: Path, data: str
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "zoo", "train", "rnnsearch-tiny", "--data", data, "--out",
               str(out), "--steps", "100000", "--json", *SETTINGS]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()  # training has started
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"zoo train --resume --out {out}" in " ".join(message.decode().split())
    assert not out.exists()
    states = list((tmp_path / "out.run" / "states").glob("[0-9]*"))
    assert states
    assert not list(tmp_path.glob(".*"))


def test_a_closed_pipe_is_not_an_error(checkpoint: Path) -> None:
    command = f"yes 'the dog a runs' | head -5000 | {sys.executable} -m zoo translate {checkpoint}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -1"], capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("zoo")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, env=os.environ)
    assert zoo.__version__ in done.stdout
