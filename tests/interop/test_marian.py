"""Marian's folders: the same logits, the same ids, refusals, and loading by path and address."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from sentencepiece import SentencePieceProcessor
from torch import Tensor

import zoo
from tests.interop.changes import Change, Touch, content, json_content, json_file, tensors
from tests.interop.families import reference
from tests.interop.huggingface import LINES, MARIAN, marian
from tests.interop.refused import require_refused
from zoo.checkpoint.checkpoint import read
from zoo.cli import cli
from zoo.errors import ConversionError, DecodingError, HubError, ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.nn.contract import BEGIN
from zoo.registry.registry import Registry, default_registry

TAGS = (">>deu<<", ">>fra<<")


def imported(folder: Path) -> Path:
    out = folder.with_name(f"{folder.name}-out")
    assert import_checkpoint(folder, out, default_registry()) == "marian"
    return out


def inner(folder: Path, out: Path) -> list[int]:
    """Return the zoo's id of each id of Marian, matched by the texts of the entries."""
    names = json.loads((folder / "vocab.json").read_text())
    vocabulary = read(out, default_registry()).source_tokenizer.vocabulary()
    return [vocabulary.index(name) for name in sorted(names, key=names.get)]


@pytest.mark.parametrize("values", [
    {}, {"activation_function": "gelu", "scale_embedding": False},
    {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 2},
])  # fmt: skip
def test_logits_equal_the_reference(values: dict[str, Any], tmp_path: Path) -> None:
    weights = {n: w.double() for n, w in marian(tmp_path / "a", **values).items()}
    out = imported(tmp_path / "a")
    checkpoint, order = read(out, default_registry()), torch.tensor(inner(tmp_path / "a", out))
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    torch.manual_seed(1)
    sources = [torch.randint(2, len(order) - 1, (n,)) for n in (5, 2, 7)]
    target = torch.randint(2, len(order) - 1, (3, 6))
    target[:, 0] = config["pad_token_id"]
    batch = torch.zeros(3, 7, dtype=torch.long)
    for row, source in zip(batch, sources, strict=True):
        row[: len(source)] = order[source]
    inputs = order[target]
    inputs[:, 0] = BEGIN
    with torch.inference_mode():
        logits = checkpoint.model.double()(batch, batch > 0, inputs).logits
    for row, source, given in zip(logits, sources, target, strict=True):
        expected = reference(weights, config, MARIAN, source, given)
        torch.testing.assert_close(row[:, order], expected, rtol=0, atol=1e-10)
    assert float(logits[..., BEGIN].max()) < -9000, "begin has no probability"


def test_ids_of_both_sides_are_those_of_the_models(tmp_path: Path) -> None:
    marian(tmp_path / "a")
    checkpoint = read(imported(tmp_path / "a"), default_registry())
    for side in ("source", "target"):
        processor = SentencePieceProcessor(str(tmp_path / "a" / f"{side}.spm"))
        tokenizer = getattr(checkpoint, f"{side}_tokenizer")
        known = {*tokenizer.vocabulary()[4:]}
        for text in [*LINES, "", "  u\u0308ber 🙂 ", "сорок", "</s>"]:
            pieces = processor.encode(text, out_type=str)
            expected = [piece if piece in known else "<unk>" for piece in pieces]
            assert [tokenizer.token(i) for i in tokenizer.encode([text])[0]] == expected
    about = checkpoint.about
    assert (about.source_languages, about.target_languages) == (("eng",), ("deu",))
    assert (about.origin, about.parent) == ("imported", "a")
    assert about.decoding == {"beam": 6, "length_penalty": 1.0, "max_length": 511}


def test_the_shortest_length_does_not_count_their_end_token(tmp_path: Path) -> None:
    """Their end token is allowed from `min_length` tokens on, of which one precedes the target."""
    marian(tmp_path / "a", min_length=5, max_length=20)
    about = read(imported(tmp_path / "a"), default_registry()).about
    assert (about.decoding["min_length"], about.decoding.get("max_length")) == (5, None)


def test_pieces_that_the_target_model_lacks_are_written_with_spaces(tmp_path: Path) -> None:
    marian(tmp_path / "a")
    tokenizer = zoo.load(imported(tmp_path / "a")).checkpoint.target_tokenizer
    model = SentencePieceProcessor(str(tmp_path / "a" / "target.spm"))
    tokens = tokenizer.vocabulary()
    lacked = [i for i, t in enumerate(tokens) if len(t) > 1 and t[0] == "▁" and not model[t]]
    assert lacked
    assert tokenizer.decode(lacked) == " ".join(tokens[i][1:] for i in lacked)


def test_a_target_language_is_chosen_by_name_or_code(tmp_path: Path) -> None:
    marian(tmp_path / "a", TAGS)
    translator = zoo.load(imported(tmp_path / "a"))
    options: dict[str, Any] = {"max_length": 8, "recommended": False}
    tagged = translator.translate(">>fra<<A dog", **options)
    for name in ("fra", "French", "fr"):
        assert translator.translate("A dog", target_lang=name, **options) == tagged
    with pytest.raises(DecodingError, match="no target language 'xx': there are deu, fra"):
        translator.translate("A dog", target_lang="xx")
    assert translator.translate("A dog", source_lang="English", **options)
    with pytest.raises(DecodingError, match="no language 'Czech' can be chosen"):
        translator.translate("A dog", source_lang="Czech")
    out = tmp_path / "b"
    import_checkpoint(tmp_path / "a", out, default_registry(), options={"target-lang": "fra"})
    assert zoo.load(out).translate("A dog", **options) == tagged


def test_score_and_attention_choose_a_target_language(tmp_path: Path) -> None:
    marian(tmp_path / "a", TAGS)
    path = str(imported(tmp_path / "a"))
    pair = "A dog runs.", "Ein Hund läuft."
    translator = zoo.load(path).for_languages(target_lang="fra")
    printed = CliRunner().invoke(cli, ["score", path, *pair, "--target-lang", "French"]).output
    assert float(printed) == pytest.approx(sum(translator.score([pair[0]], [pair[1]])[0]), abs=1e-3)
    options = ["--target", pair[1], "--json", "--target-lang", "fra"]
    read = json.loads(CliRunner().invoke(cli, ["attention", path, pair[0], *options]).output)
    assert read["source"][0] == ">>fra<<"


def test_a_checkpoint_of_two_tokenizers_over_one_vocabulary_is_tuned(tmp_path: Path) -> None:
    marian(tmp_path / "a", TAGS)
    parent = imported(tmp_path / "a")
    lines = [f"{LINES[0]}\t{LINES[2]}", f"{LINES[1]}\t{LINES[3]}"]
    (tmp_path / "data.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    zoo.train(None, str(tmp_path / "data.tsv"), tmp_path / "b", from_=parent, steps=2)
    before, after = zoo.load(parent).checkpoint, zoo.load(tmp_path / "b").checkpoint
    assert after.source_tokenizer.vocabulary() == after.target_tokenizer.vocabulary()
    for side in ("source_tokenizer", "target_tokenizer"):
        tokenizers = getattr(before, side), getattr(after, side)
        assert tokenizers[0].encode([*LINES]) == tokenizers[1].encode([*LINES])
    assert before.config == after.config


def test_the_commands_read_a_foreign_folder_and_convert_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    marian(tmp_path / "a")
    runner = CliRunner()
    arguments = ["translate", str(tmp_path / "a"), "A dog", "--max-length", "6"]
    first = runner.invoke(cli, arguments)
    assert first.exit_code == 0, first.output
    (converted,) = [p for p in (tmp_path / "cache" / "imported").iterdir() if p.is_dir()]
    written = (converted / "config.json").stat().st_mtime_ns
    assert runner.invoke(cli, arguments).output == first.output
    assert (converted / "config.json").stat().st_mtime_ns == written
    done = runner.invoke(cli, ["import", str(tmp_path / "a"), "--out", str(tmp_path / "b")])
    assert "format marian" in done.output
    again = runner.invoke(cli, ["translate", str(tmp_path / "b"), *arguments[2:]])
    assert again.output == first.output


config = functools.partial(json_file, "config.json")
vocabulary = functools.partial(json_content, "vocab.json")
TABLE = "model.encoder.embed_positions.weight"


def sinusoids(rows: int, width: int) -> Tensor:
    angles = torch.arange(rows)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], 1)


FAULTS: dict[str, tuple[Change, str]] = {
    "missing": (tensors(lambda w: w.pop("model.encoder.layers.1.fc1.bias")),
                "model.encoder.layers.1.fc1.bias is missing"),
    "shape": (tensors(lambda w: w.update({"model.decoder.layers.0.fc2.weight": torch.ones(3)})),
              r"fc2.weight is \(3,\), not \(12, 20\)"),
    "extra": (tensors(lambda w: w.update(more=torch.ones(3))), "more is not a weight"),
    "untied": (tensors(lambda w: w.update({"lm_head.weight": w["model.shared.weight"] + 1})),
               "lm_head.weight is not model.shared.weight, to which the config ties it"),
    "nan": (tensors(lambda w: w["model.shared.weight"].fill_(torch.nan)), "not finite"),
    "activation": (config(activation_function="mish"), "'mish' is not one of the network's"),
    "heads": (config(decoder_attention_heads=2), "attention_heads 3 is not decoder"),
    "a huge number": (config(dropout=10**400), "dropout is 1000.*, not of type float"),
    "eight bits": (tensors(lambda w: w.update({
        "lm_head.weight": w["model.shared.weight"].to(torch.float8_e5m2)})),
        "lm_head.weight' is of type 'F8_E5M2', which is not read. Use weights of 16 or 32 bits$"),
    "type": (config(d_model="wide"), "d_model is 'wide', not of type int"),
    "absurd": (config(encoder_layers=10**9), "encoder_layers = 1000000000"),
    "negative": (config(d_model=-3), "dim = -3"),
    "special": (config(pad_token_id=10**6), "the padding token has id 1000000"),
    "vocabulary": (config(vocab_size=10**9), "its vocabulary has 1,000,000,000 entries"),
    "long vocabulary": (vocabulary(lambda v: v.update(more=10**6)), "the embedding has"),
    "twice": (vocabulary(lambda v: v.update(more=5)), "gives 'more' the id 5"),
    "no unknown": (vocabulary(lambda v: v.pop("<unk>")), "vocab.json has no <unk>"),
    "model": (content("source.spm", b"x"), "SentencePiece model source.spm "),
    "the other model": (content("target.spm", b"x"),
                        "SentencePiece model target.spm cannot be read"),
    "no model": (lambda folder: (folder / "target.spm").unlink(), "it has no target.spm"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "has neither"),
    "a number for positions": (
        tensors(lambda w: w.update({TABLE: torch.zeros(())})),
        r"embed_positions.weight is \(\), not \(1, 12\)"),
    "positions without columns": (
        tensors(lambda w: w.update({TABLE: torch.zeros(7, 0)})),
        r"embed_positions.weight is \(7, 0\), not \(7, 12\)"),
    "narrow sinusoids": (tensors(lambda w: w.update({TABLE: sinusoids(9, 10)})),
                         r"embed_positions.weight is \(9, 10\), not \(9, 12\)"),
}  # fmt: skip


def test_a_stored_table_of_sinusoids_is_read(tmp_path: Path) -> None:
    marian(tmp_path / "a")
    tensors(lambda w: w.update({TABLE: sinusoids(9, 12)}))(tmp_path / "a")
    assert zoo.load(tmp_path / "a").checkpoint.config.model_dump()["positions"] == "interleaved"


@pytest.mark.parametrize("value", [[], ["deu"], {"deu": 1}])
def test_a_target_language_of_another_type_is_no_default(value: object, tmp_path: Path) -> None:
    marian(tmp_path / "a", tags=(">>deu<<",))
    settings = {"source_lang": "eng", "target_lang": value}
    (tmp_path / "a" / "tokenizer_config.json").write_text(json.dumps(settings))
    assert zoo.load(tmp_path / "a").checkpoint.about.target_languages == ("deu",)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    marian(tmp_path / "a")
    change, message = FAULTS[fault]
    change(tmp_path / "a")
    require_refused(tmp_path / "a", message, "marian")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("separate", [False, True])
def test_the_tokenizer_says_which_vocabulary_targets_have(
    shared: bool, separate: bool, tmp_path: Path
) -> None:
    marian(tmp_path / "a", share_encoder_decoder_embeddings=shared)
    names = json.loads((tmp_path / "a" / "vocab.json").read_text())
    first, second = (name for name, i in names.items() if i in (2, 3))
    swapped = {**names, first: names[second], second: names[first]}
    (tmp_path / "a" / "target_vocab.json").write_text(json.dumps(swapped))
    if not shared:
        file = tmp_path / "a" / "model.safetensors"
        weights = safetensors.torch.load_file(file)
        matrix = weights.pop("model.shared.weight")
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_tokens.weight"] = matrix.clone()
        safetensors.torch.save_file(weights, file)
    file = tmp_path / "a" / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"separate_vocabs": separate}))
    if shared and separate:
        require_refused(tmp_path / "a", "needs one vocabulary: target_vocab.json differs")
        return
    made = read(imported(tmp_path / "a"), default_registry())
    assert [made.source_tokenizer.token(i) for i in (4, 5)] == [first, second]
    expected = [second, first] if separate else [first, second]
    assert [made.target_tokenizer.token(i) for i in (4, 5)] == expected


def test_a_target_language_that_is_no_text_is_ignored(tmp_path: Path) -> None:
    marian(tmp_path / "a")
    (tmp_path / "a" / "tokenizer_config.json").write_text('{"target_lang": [0]}')
    import_checkpoint(tmp_path / "a", tmp_path / "out", default_registry())
    assert read(tmp_path / "out", default_registry()).about.target_languages == ()


def test_all_reasons_are_given_at_once(tmp_path: Path) -> None:
    marian(tmp_path / "a")
    config(activation_function="mish", decoder_ffn_dim=7)(tmp_path / "a")
    with pytest.raises(ConversionError, match=r"'mish' is not .*; encoder_ffn_dim 20 is not"):
        import_checkpoint(tmp_path / "a", tmp_path / "out", default_registry())


def test_a_pickle_of_weights_is_read_and_one_with_code_is_not_run(tmp_path: Path) -> None:
    tensors = marian(tmp_path / "a")
    expected = read(imported(tmp_path / "a"), default_registry()).model.state_dict()
    (tmp_path / "a" / "model.safetensors").unlink()
    torch.save(tensors, tmp_path / "a" / "pytorch_model.bin")
    import_checkpoint(tmp_path / "a", tmp_path / "b", default_registry())
    matched = read(tmp_path / "b", default_registry()).model.state_dict()
    assert all(torch.equal(matched[name], weight) for name, weight in expected.items())
    attack = {**tensors, "x": Touch(tmp_path / "executed")}
    torch.save(attack, tmp_path / "a" / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="could run code"):
        import_checkpoint(tmp_path / "a", tmp_path / "c", default_registry())
    assert not (tmp_path / "executed").exists()


def test_parts_of_weights_are_joined(tmp_path: Path) -> None:
    tensors = marian(tmp_path / "a")
    out = imported(tmp_path / "a")
    folder = tmp_path / "a"
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-1-of-2.safetensors": names[:20], "model-2-of-2.safetensors": names[20:]}
    for file, part in parts.items():
        safetensors.torch.save_file({n: tensors[n] for n in part}, folder / file)
    index = {name: file for file, part in parts.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    import_checkpoint(folder, tmp_path / "b", default_registry())
    assert (tmp_path / "b" / "model.safetensors").read_bytes() == (
        out / "model.safetensors"
    ).read_bytes()
    (folder / "model-2-of-2.safetensors").unlink()
    with pytest.raises(ConversionError, match=r"it has no model-2-of-2.safetensors"):
        import_checkpoint(folder, tmp_path / "c", default_registry())
    long = dict.fromkeys(index, "x" * 5000)  # no file system has such a name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": long}))
    with pytest.raises(ConversionError, match=r"it has no x{200}$"):
        import_checkpoint(folder, tmp_path / "c", default_registry())


def test_a_folder_of_no_format_is_named_by_its_type(tmp_path: Path, registry: Registry) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text('{"model_type": "gpt2"}')
    what = "is not a checkpoint of the zoo: its config.json is of a model of type 'gpt2'"
    with pytest.raises(ZooError, match=what):
        zoo.load(tmp_path / "a")
    what = "is of no known format: its config.json is of a model of type 'gpt2', and the formats"
    with pytest.raises(ConversionError, match=what):
        import_checkpoint(tmp_path / "a", tmp_path / "b", registry)
    with pytest.raises((HubError, ZooError)):
        zoo.load(tmp_path / "absent")


def test_a_leading_tag_is_for_the_whole_text_and_no_word(tmp_path: Path) -> None:
    marian(tmp_path / "a", TAGS)
    translator = zoo.load(imported(tmp_path / "a"))
    french = translator.for_languages(target_lang="fra")
    text = "A dog runs. Two men are cooking."
    options: dict[str, Any] = {"max_length": 8, "recommended": False, "details": True}
    wanted = french.translate(text, **options).text
    for tagged in (f">>fra<< {text}", f">>fra<<{text}"):
        assert translator.translate(tagged, **options).text == wanted
    long = " ".join(["A dog runs"] * 200)
    options |= {"long_texts": "split", "max_source_length": 40, "split": False}
    cut = translator.translate(f">>fra<< {long}", **options)
    assert cut.source_ids == french.translate(long, **options).source_ids
    assert all(len(ids) > 30 for ids in cut.source_ids[:-1])


def test_tags_are_in_no_word(tmp_path: Path) -> None:
    marian(tmp_path / "a", TAGS)
    translator = zoo.load(imported(tmp_path / "a"))
    options: dict[str, Any] = {"max_length": 8, "recommended": False, "details": True}
    one = translator.translate("A dog runs.", alignment=True, **options)
    assert {source for source, _ in one.alignment or ()} <= {0, 1, 2}
    tagged = translator.translate(">>fra<< A dog runs.", alignment=True, **options)
    of_text = translator.for_languages(target_lang="fra").translate(
        "A dog runs.", alignment=True, **options
    )
    assert tagged.alignment == tuple((s + 1, t) for s, t in of_text.alignment or ())
    assert translator.translate("日本", **options).unknown
    assert not one.unknown


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_a_file_of_weights_that_is_named_is_the_one_that_is_read(
    ending: str, tmp_path: Path
) -> None:
    """Those of the folder were read, whichever file was named."""
    folder = tmp_path / "a"
    weights = marian(folder)
    averaged = {name: 2 * weight for name, weight in weights.items()}
    file = folder / f"averaged.{ending}"
    if ending == "bin":
        torch.save(averaged, file)
    else:
        safetensors.torch.save_file(averaged, file)
    biases = []
    for number, path in enumerate((folder, folder / "config.json", file)):
        import_checkpoint(path, tmp_path / f"out{number}", default_registry())
        model = read(tmp_path / f"out{number}", default_registry()).model
        biases.append(model.get_parameter("output.bias")[BEGIN + 1 :])
    assert torch.equal(biases[0], biases[1])
    assert torch.equal(2 * biases[0], biases[2])


def test_a_part_that_is_named_is_read_with_its_index(tmp_path: Path) -> None:
    folder, part = tmp_path / "a", "averaged-00001-of-00001.safetensors"
    weights = marian(folder)
    safetensors.torch.save_file(weights, folder / part)
    index = {"weight_map": dict.fromkeys(weights, part)}
    (folder / "averaged.safetensors.index.json").write_text(json.dumps(index))
    for number, name in enumerate((part, "averaged.safetensors.index.json")):
        import_checkpoint(folder / name, tmp_path / f"out{number}", default_registry())
    (folder / part).unlink()
    message = f"cannot be imported: it has no {part}"
    require_refused(folder / "averaged.safetensors.index.json", message)


def test_a_file_without_tensors_is_not_read_as_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    marian(folder)
    torch.save({"state": {}}, folder / "optimizer.pt")
    require_refused(folder / "optimizer.pt", "it is not a dictionary of tensors")


def test_tensors_that_are_stored_as_negated_views_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    weights = marian(folder)
    before = read(imported(folder), default_registry()).model.state_dict()
    (folder / "model.safetensors").unlink()
    negated = {name: torch._neg_view(-weight) for name, weight in weights.items()}
    torch.save(negated, folder / "pytorch_model.bin")
    import_checkpoint(folder, tmp_path / "negated", default_registry())
    after = read(tmp_path / "negated", default_registry()).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
