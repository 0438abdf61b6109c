"""Cards: generated sections and metadata, and the author's text, which is kept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from huggingface_hub import ModelCard, ModelCardData, parse_eval_result_entries

import zoo
from tests.hub.helpers import fingerprint, refused
from zoo.checkpoint.card import card_of, render_front_matter, split_card
from zoo.checkpoint.card_text import BEGIN, END, published, resized, size_in_words
from zoo.checkpoint.checkpoint import convert
from zoo.checkpoint.scores import is_score
from zoo.checkpoint.tensors import read_tensors
from zoo.errors import CheckpointError
from zoo.hub.metadata import evaluation_results
from zoo.hub.pull import pull
from zoo.hub.push import push
from zoo.registry.registry import Registry

Run = Callable[..., Result]


@pytest.fixture
def mine(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / "mine"))


def test_a_new_card_describes_the_model_and_its_training(checkpoint: Path) -> None:
    text = (checkpoint / "README.md").read_text()
    data = ModelCard(text).data.to_dict()  # type: ignore[no-untyped-call]  # it has no types
    assert data["library_name"] == "seq2seq-zoo"
    assert data["pipeline_tag"] == "translation"
    assert {"seq2seq", "rnnsearch"} <= set(data["tags"])
    model = zoo.load(checkpoint).checkpoint.model
    total = sum(weight.numel() for weight in model.parameters())
    assert f"**{total:,}**" in text
    training = json.loads((checkpoint / "training.json").read_text())
    assert f"{training['steps']:,} updates" in text
    curve = [row for row in training["curve"] if "validation_loss" in row]
    assert f"| {curve[-1]['step']:,} | {curve[-1]['validation_loss']:.4f} |" in text
    for key in training["recipe"]:
        assert f"`{key}`" in text


def test_a_regenerated_card_keeps_what_its_author_wrote(
    mine: Path, registry: Registry, run: Run
) -> None:
    file = mine / "README.md"
    generated = file.read_text()
    assert card_of(mine, registry) == generated, "nothing has changed"
    front, text = generated.split("---\n", 2)[1:]
    edited = front.replace("tags:\n", "tags:\n- dogs\n")
    edited = f"license: cc-by-4.0\n{edited}mood: fine\n"
    written = f"---\n{edited}---\n\nMy preface.\n{text}\n## Limits\n\nDogs only. ---\n"
    file.write_text(written.replace("# small", "# My dogs"))
    assert run("card", mine, "--write").exit_code == 0
    again = file.read_text()
    metadata, body = split_card(again, "")
    assert next(iter(metadata)) == "license"
    assert (metadata["license"], metadata["mood"]) == ("cc-by-4.0", "fine")
    assert metadata["tags"] == ["dogs", "seq2seq", "rnnsearch"]
    assert body.strip().startswith(f"My preface.\n\n{BEGIN}# My dogs\n")
    assert again.endswith(f"{END}\n## Limits\n\nDogs only. ---\n")
    assert card_of(mine, registry) == again, "a third generation changes nothing"


SHIPPED = sorted((Path(__file__).parents[2] / "cards" / "checkpoints").glob("*/README.md"))
AUTHORS = (
    "license: mit\nlanguage: [en, 'no']\ntags: [a, b]\n",
    "mood: null\nliste: {b: 1, a: [1, 2.5, true]}\ntitle: 'a: b # c'\nlanguage: en\n",
    f"summary: {'a long line, wrapped by YAML ' * 9}\nemoji: ключ 🐶\ndate: 2026-01-02\n",
)


@pytest.mark.parametrize(
    "card",
    [*(file.read_text(encoding="utf-8") for file in SHIPPED), *(f"---\n{a}---\n" for a in AUTHORS)],
)
def test_front_matter_is_what_the_client_writes(card: str) -> None:
    metadata, _ = split_card(card, "a card")
    assert metadata
    expected = ModelCardData(**metadata).to_yaml(original_order=list(metadata))
    assert render_front_matter(metadata) == f"---\n{expected}\n---\n"


def test_front_matter_of_shipped_cards_is_unchanged() -> None:
    assert SHIPPED
    for file in SHIPPED:
        card = file.read_text(encoding="utf-8")
        assert card.startswith(render_front_matter(split_card(card, "a card")[0]))


def test_the_generated_section_is_added_to_a_card_without_it(
    mine: Path, registry: Registry
) -> None:
    (mine / "README.md").write_text("# Dogs\n\nAll mine.\n")
    text = card_of(mine, registry)
    assert text.endswith(f"{END}\n# Dogs\n\nAll mine.\n")
    (mine / "README.md").write_text(text.replace(END, ""))
    with refused(CheckpointError, "lacks the mark"):
        card_of(mine, registry)
    (mine / "README.md").unlink()
    assert "# mine" in card_of(mine, registry)


def test_scores_are_added_to_the_card_with_their_signatures(
    mine: Path, run: Run, checkpoint: Path
) -> None:
    data = str(checkpoint.parent / "a.tsv")
    printed = run("eval", mine, "--data", data, "--json").stdout
    scores = json.loads(printed)
    added = run("card", mine, "--write", "--scores", "-", "--benchmark", "ann/dogs:en-de",
                input=printed)  # fmt: skip
    assert added.exit_code == 0, added.output
    text = (mine / "README.md").read_text()
    for metric, label in (("bleu", "BLEU"), ("chrf", "chrF")):
        signature = scores[f"{metric}_signature"].replace("|", r"\|")
        assert f"| {label} | {scores[metric]:.2f} | `{signature}` |" in text
    run("card", mine, "--write", "--scores", "-", input=printed)
    (record,) = json.loads((mine / "scores.json").read_text())["scores"]
    assert record["bleu"] == scores["bleu"]
    assert "checkpoint" not in record
    run("card", mine, "--write", "--scores", "-", "--benchmark", "ann/dogs:en-de", input=printed)
    results = yaml.safe_load((mine / ".eval_results" / "zoo.yaml").read_text())
    (entry,) = parse_eval_result_entries(results)
    assert (entry.dataset_id, entry.task_id) == ("ann/dogs", "en-de")
    assert entry.value == round(scores["bleu"], 2)
    assert scores["bleu_signature"] in str(entry.notes)
    for wrong in (
        "{}",
        "[]",
        "x",
        '{"data": 3, "split": "a"}',
        '{"data": "a", "split": "b", "c": {}}',
        '{"data": "a", "split": "b", "c": [[]]}',
    ):
        result = run("card", mine, "--write", "--scores", "-", input=wrong)
        assert result.exit_code == 1
        assert "has no scores" in result.stderr


@pytest.mark.parametrize("text", ['{"pairs": "many"}', '{"curve": [3]}', '{"recipe": 3}', "[]"])
def test_an_invalid_training_record(mine: Path, registry: Registry, text: str) -> None:
    (mine / "training.json").write_text(text)
    with refused(CheckpointError, "training.json"):
        card_of(mine, registry)


def test_a_card_is_shown(mine: Path, run: Run) -> None:
    assert run("card", mine).stdout == (mine / "README.md").read_text()
    assert run("card", mine, "--scores", "-").exit_code == 2
    assert "needs a checkpoint folder" in run("card", "nowhere", "--write").stderr


@pytest.mark.parametrize("name", ["README.md", "config.json", "scores.json", ".eval_results"])
def test_a_link_out_of_the_folder_is_not_written_through(
    mine: Path, tmp_path: Path, run: Run, name: str
) -> None:
    """A folder of somebody else must not lead `--write` to other files of the user."""
    outside = tmp_path / "outside"
    if (mine / name).exists():
        (mine / name).rename(outside)
    (mine / name).symlink_to(outside)
    before = outside.read_bytes() if outside.exists() else b""
    result = run("card", mine, "--write", "--about", "terms=free")
    assert result.exit_code == 1
    assert "cannot be written: it is a link to a file elsewhere, which may not change" in (
        result.stderr
    )
    assert (outside.read_bytes() if outside.exists() else b"") == before


def test_a_card_with_the_mark_of_windows_editors_keeps_its_metadata(
    mine: Path, registry: Registry
) -> None:
    generated = (mine / "README.md").read_text()
    (mine / "README.md").write_text(f"\ufeff{generated}")
    assert card_of(mine, registry) == generated


def test_a_score_that_is_no_number_is_not_one_of_a_benchmark() -> None:
    record = {"data": "d", "split": "test", "benchmark": "a/b", "bleu": "high", "chrf": 1.0}
    assert is_score(record)
    assert evaluation_results([record]) == ""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_weights_of_another_type(mine: Path, tmp_path: Path, run: Run, dtype: str) -> None:
    result = run("convert", mine, tmp_path / "out", "--dtype", dtype)
    assert result.exit_code == 0, result.output
    after = read_tensors(tmp_path / "out" / "model.safetensors")
    assert {str(weight.dtype) for weight in after.values()} == {f"torch.{dtype}"}
    before = read_tensors(mine / "model.safetensors")
    assert all((after[n].float() - before[n]).abs().max() < 0.02 for n in before)
    assert zoo.load(tmp_path / "out").translate("the dog a runs")
    with refused(CheckpointError, "already exists"):
        convert(mine, tmp_path / "out", dtype)


def test_a_converted_checkpoint_s_card_states_the_new_size(tmp_path: Path) -> None:
    released = pull("seq2seq-tiny.numbers-en-fr")
    convert(released, tmp_path / "out", "float32")
    before, after = (f.joinpath("README.md").read_text() for f in (released, tmp_path / "out"))
    assert "\nSize: 437,367 parameters in 0.9 MB.\n" in before
    size = (tmp_path / "out" / "model.safetensors").stat().st_size
    assert after == before.replace(" in 0.9 MB.", f" in {size / 1e6:.1f} MB.")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (7_885_760, "7.9 MB"),
        (100_000, "0.1 MB"),
        (49_940, "49.9 kB"),
        (999, "999 bytes"),
        (999_960_000, "1.0 GB"),
        (1_234_567_890, "1.2 GB"),
    ],
)
def test_a_small_checkpoint_has_a_size_too(size: int, text: str) -> None:
    assert size_in_words(size) == text
    card = f"{BEGIN}Size: 12 parameters in {{}}.\n{END}"
    assert resized(card.format(text), 7_885_760) == card.format("7.9 MB")


def test_a_weight_beyond_the_range_of_float16_is_an_error(mine: Path, tmp_path: Path) -> None:
    from zoo.checkpoint.tensors import write_tensors

    weights = read_tensors(mine / "model.safetensors")
    name = next(iter(weights))
    weights[name] = weights[name] * 0 + 1e6
    write_tensors(mine / "model.safetensors", weights)
    with refused(CheckpointError, f"{name} would not be finite", "Use bfloat16"):
        convert(mine, tmp_path / "out", "float16")
    assert not (tmp_path / "out").exists()
    convert(mine, tmp_path / "out", "bfloat16")
    weights[name] = weights[name] * float("nan")
    write_tensors(mine / "model.safetensors", weights)
    with refused(CheckpointError, f"{name} has values that are not finite", "has diverged"):
        convert(mine, tmp_path / "again", "float32")


def test_a_published_card_installs_the_packages_of_tokenizers_too(
    checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"architecture": "gated", "plugin": {"package": "zoo-gated", "version": "1.0"}}
    (folder / "config.json").write_text(json.dumps(config))
    kinds = {"source": "zoo-syllables", "target": "zoo-gated"}
    for side, package in kinds.items():
        (folder / "tokenizer.json").unlink(missing_ok=True)
        values = {"kind": "syllables", "package": package, "version": "1", "tokens": []}
        (folder / f"{side}.tokenizer.json").write_text(json.dumps(values))
    address = f"file://{tmp_path}/hub"
    push(folder, address)
    assert "\npip install zoo-gated zoo-syllables\n" in (pull(address) / "README.md").read_text()
    of_sources = {"text": {}, "context": {**values, "package": "zoo-other"}}
    (folder / "source.tokenizer.json").write_text(json.dumps({"sources": of_sources}))
    push(folder, address)
    assert "\npip install zoo-gated zoo-other\n" in (pull(address) / "README.md").read_text()


@pytest.mark.filterwarnings("ignore:.* was written with:zoo.errors.PluginWarning")
def test_a_published_card_installs_the_package_and_loads_from_its_address(
    checkpoint: Path, tmp_path: Path
) -> None:
    before = fingerprint(checkpoint)
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    config["plugin"] = {"package": "zoo-gated", "version": "1.0"}
    (folder / "config.json").write_text(json.dumps(config))
    address = f"file://{tmp_path}/hub@demo"
    push(folder, address)
    card = (pull(address) / "README.md").read_text()
    install = "```sh\npip install zoo-gated\n```\n\n"
    load = f'translator = zoo.load("{address}")'
    assert f"{install}```python\nimport zoo\n\n{load}\n" in card
    assert published(card, address, "zoo-gated") == card
    other = published(card, 'hf://ann/"b"', "zoo-gated")
    assert 'zoo.load("hf://ann/\\"b\\"")' in other
    assert card.count("pip install") == other.count("pip install") == 1
    assert fingerprint(checkpoint) == before, "the local folder does not change"
    by_hand = '# Mine\n\nzoo.load("x")\n'
    assert published(by_hand, address, "zoo-gated") == by_hand


def sections(card: str) -> int:
    return card.count("\n## Parameters")


def test_marks_are_seen_however_lines_end(mine: Path, run: Run) -> None:
    file = mine / "README.md"
    text = file.read_text()
    for changed in (text.replace("\n", "\r\n"), text[: text.index(END) + len(END) - 1]):
        file.write_bytes(changed.encode())
        assert run("card", mine, "--write").exit_code == 0
        text = file.read_bytes().decode()
        assert (text.count(BEGIN), text.count(END), sections(text)) == (1, 1, 1)


def test_text_with_a_mark_ends_no_section(mine: Path, run: Run) -> None:
    about = "--about=intended_use=Numbers. <!-- end --> More."
    assert run("card", mine, "--write", about).exit_code == 0
    size = len((mine / "README.md").read_text())
    for _ in range(2):
        assert run("card", mine, "--write").exit_code == 0
    text = (mine / "README.md").read_text()
    assert (text.count(END), sections(text), len(text)) == (1, 1, size)


def test_the_title_is_that_of_the_generated_section(mine: Path, run: Run) -> None:
    file = mine / "README.md"
    text = file.read_text()
    front, begin, rest = text.partition(BEGIN)
    front = front.replace("---\n", "---\n# my license\n", 1)
    file.write_text(f"{front}# About this model\n\nMine.\n\n{begin}{rest}")
    assert run("card", mine, "--write").exit_code == 0
    assert 'zoo.load("small")' in file.read_text()
    assert "# About this model" in file.read_text()


def test_what_cannot_be_written_changes_nothing(mine: Path, run: Run) -> None:
    (mine / "README.md").write_text(f"---\na: b\n---\n{BEGIN}no end")
    before = fingerprint(mine)
    refused_ = run("card", mine, "--write", "--about", "terms=changed")
    assert refused_.exit_code == 1
    assert "lacks the mark" in refused_.stderr
    assert fingerprint(mine) == before


def test_names_and_licenses_control_no_terminal(mine: Path, run: Run) -> None:
    file = mine / "README.md"
    escape = json.dumps("x\x1b[2J\nspoofed")
    file.write_text(file.read_text().replace("---\n", f"---\nlicense: {escape}\n", 1))
    shown = run("info", mine).stdout
    assert "\x1b" not in shown
    assert "license" in shown
    config = json.loads((mine / "config.json").read_text())
    for name in ("a\x1b[31m", "a\nb", "a`b", "<b>"):
        (mine / "config.json").write_text(json.dumps({**config, "model": name}))
        assert "'model' must be a name" in run("info", mine).stderr
