"""Marian's own archives: the same logits and ids, refusals, hostile files."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from tests.interop.huggingface import LINES, model_of
from tests.interop.marian_folder import logits, parameters, settings_bytes, write
from tests.interop.refused import require_refused
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.errors import ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.nn.contract import BEGIN
from zoo.registry.registry import default_registry

PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da",
       "transformer-postprocess-top": "n"}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": PRE,
    "after the sublayer": {"transformer-postprocess": "dna", "transformer-postprocess-emb": "nd",
                           "transformer-ffn-activation": "relu"},
    "two vocabularies": {"tied-embeddings-all": False, "dim-vocabs": [20, 17]},
    "tied target": {"tied-embeddings-all": False, "tied-embeddings": True, "dim-vocabs": [15, 20]},
    "one embedding": {"tied-embeddings-all": False, "tied-embeddings-src": True},
    "another size": {"dim-emb": 16, "transformer-heads": 2, "transformer-dim-ffn": 10,
                     "enc-depth": 1, "dec-depth": 3, "transformer-postprocess-top": "n"},
}  # fmt: skip


def imported(folder: Path, **options: str) -> Checkpoint:
    out = folder.with_name(f"{folder.name}-out")
    given = {name.replace("_", "-"): value for name, value in options.items()}
    assert import_checkpoint(folder, out, default_registry(), options=given) == "marian-npz"
    return read(out, default_registry())


@pytest.mark.parametrize("way", ["marian", "transformers"])
@pytest.mark.parametrize("case", CASES)
def test_logits_equal_the_reference(case: str, way: str, tmp_path: Path) -> None:
    settings, arrays = write(tmp_path / "a", **CASES[case])
    model = imported(tmp_path / "a", **{"as": way}).model.double()
    orders = [torch.tensor([2, 3, *range(4, size + 2)]) for size in settings["dim-vocabs"]]
    sources = [[4, 5, 6, 7, 0], [9, 0], [3, 2, 11, 12, 13, 14, 0]]
    targets = [[3, 1, 5, 6], [0, 8, 9, 2], [4, 4, 4, 4]]
    batch = torch.zeros(3, 7, dtype=torch.long)
    for row, source in zip(batch, sources, strict=True):
        row[: len(source)] = orders[0][source]
    inputs = torch.cat([torch.full((3, 1), BEGIN), orders[1][torch.tensor(targets)]], 1)
    with torch.inference_mode():
        output = model(batch, batch > 0, inputs).logits
    for row, source, target in zip(output, sources, targets, strict=True):
        expected = logits(arrays, settings, source, target, transformers=way == "transformers")
        torch.testing.assert_close(row[:, orders[1]], torch.from_numpy(expected), rtol=0, atol=1e-9)
    assert float(output[..., :2].max()) < -9000, "padding and begin have no probability"


def test_words_of_the_vocabulary_are_the_tokens(tmp_path: Path) -> None:
    write(tmp_path / "a")
    checkpoint = imported(tmp_path / "a")
    tokenizer = checkpoint.source_tokenizer
    tokens = [tokenizer.token(i) for i in tokenizer.encode(["  w3 w4\u00a0w5  x </s> w2"])[0]]
    assert tokens == ["w3", "<unk>", "<unk>", "<unk>", "w2"], "only U+0020 separates words"
    assert checkpoint.target_tokenizer.decode([5, 3, 6]) == "w3 ⁇ w4"
    assert checkpoint.about.decoding == {"beam": 6, "length_penalty": 0.6}


def test_pieces_are_looked_up_by_their_text(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model_of(LINES))
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    size = len(pieces) + 1
    write(tmp_path / "a", **{"dim-vocabs": [size, size]})
    for side in ("source", "target"):
        (tmp_path / "a" / f"{side}.spm").write_bytes(model_of(LINES))
    words = ["</s>", "<unk>", ">>fra<<", *sorted(pieces)[2:]]
    for side in ("src", "trg"):
        lines = "".join(f'"{w}": {i}\n' for i, w in enumerate(words))
        (tmp_path / "a" / f"vocab.{side}.yml").write_text(lines, encoding="utf-8")
    tokenizer = imported(tmp_path / "a").source_tokenizer
    for text in [*LINES, "  odd  ", "🙂"]:
        expected = [p if p in words else "<unk>" for p in processor.encode(text, out_type=str)]
        assert [tokenizer.token(i) for i in tokenizer.encode([text])[0]] == expected
    assert tokenizer.token(tokenizer.encode([">>fra<< A dog"])[0][0]) == ">>fra<<"


def test_a_model_of_sentencepiece_is_a_vocabulary(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    model = model_of(LINES)
    processor = SentencePieceProcessor(model_proto=model)
    size = processor.get_piece_size()
    write(tmp_path / "a", **{"dim-vocabs": [size, size]})
    (tmp_path / "a" / "decoder.yml").unlink()
    (tmp_path / "a" / "joint.spm").write_bytes(model)
    files = {"source_vocab": "joint.spm", "target_vocab": "joint.spm"}
    tokenizer = imported(tmp_path / "a", **files).source_tokenizer
    pieces = processor.encode(LINES[0], out_type=str)
    assert [tokenizer.token(i) for i in tokenizer.encode([LINES[0]])[0]] == pieces


def test_every_spelling_of_an_entry_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a")
    spelled = {
        "yes": "yes", "a: b": '"a: b"', 'a"b\\': '"a\\"b\\\\"', "it's": "'it''s'", "é": '"\\xe9"',
        "▁\u2028": '"▁\\L"', "x\u2028y": "x\u2028y", "🙂": '"\\U0001F642"', "1": "1", ":": '":"',
    }  # fmt: skip
    lines = ["---", "# entries", "</s>: 0", "<unk>:  1"]
    lines += [f"{text}: {i}" for i, text in enumerate(spelled.values(), 2)]
    lines += ['? "long"', f": {2 + len(spelled)}", ""]
    for side in ("src", "trg"):
        (tmp_path / "a" / f"vocab.{side}.yml").write_text("\r\n".join(lines), encoding="utf-8")
    vocabulary = imported(tmp_path / "a").source_tokenizer.vocabulary()
    assert vocabulary[4 : 5 + len(spelled)] == [*spelled, "long"]


Change = Callable[[Path], Any]


def settings(**values: Any) -> Change:
    def change(folder: Path) -> None:
        again = folder.with_name("other")
        changed = {name.replace("_", "-"): value for name, value in values.items()}
        given, _ = write(again)
        (folder / "model.npz").unlink()
        arrays = parameters(given)
        stored = settings_bytes({**given, **changed})
        np.savez(folder / "model.npz", **arrays, **{"special:model.yml": stored})  # type: ignore[arg-type]

    return change


def arrays(change: Callable[[dict[str, Any]], Any]) -> Change:
    def rewrite(folder: Path) -> None:
        with np.load(folder / "model.npz") as archive:
            content = {name: archive[name] for name in archive.files}
        change(content)
        np.savez(folder / "model.npz", **content)

    return rewrite


ALIASES = "a: &a0 [1, 1]\n" + "".join(
    f"b{i}: &a{i + 1} [*a{i}, *a{i}, *a{i}, *a{i}]\n" for i in range(20)
)


def stored(content: bytes) -> Change:
    return arrays(lambda w: w.update({"special:model.yml": np.frombuffer(content, np.int8)}))


def vocabulary(text: str) -> Change:
    return lambda folder: (folder / "vocab.src.yml").write_text(text, encoding="utf-8")


def bomb(folder: Path) -> None:
    """Add an array of zeros that is a thousand times larger than the file."""
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (25000000,), }"
    with zipfile.ZipFile(folder / "model.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more.npy", header + text.ljust(117).encode() + b"\n" + bytes(100_000_000))


def start(vocabulary: str) -> str:
    return f"</s>: 0\n<unk>: 1\n{vocabulary}"


FAULTS: dict[str, tuple[Change, str]] = {
    "recurrent": (settings(type="s2s"), "type is s2s, which the network lacks"),
    "averages": (settings(transformer_decoder_autoreg="average-attention"), "average-attention"),
    "simple units": (settings(transformer_decoder_autoreg="rnn"), "decoder-autoreg is rnn"),
    "learned positions": (
        settings(transformer_train_position_embeddings=True), "train-position-embeddings is True"),
    "gelu": (settings(transformer_ffn_activation="gelu"), r"σ\(1.702 x\)"),
    "highway": (settings(transformer_postprocess="dhn"), "has no counterpart in the network"),
    "top": (settings(transformer_postprocess_top="na"), "postprocess-top 'na' is more than a norm"),
    "factors": (settings(lemma_dim_emb=4), "lemma-dim-emb is 4"),
    "deep": (settings(transformer_ffn_depth=3), "transformer-ffn-depth is 3"),
    "backwards": (settings(right_left=True), "right-left is True"),
    "tied layers": (settings(transformer_tied_layers=[1, 1]), r"tied-layers is \[1, 1\]"),
    "a width as text": (settings(dim_emb="wide"), "dim-emb is 'wide', not of type int"),
    "absurd": (settings(enc_depth=10**9), "encoder_layers = 1000000000"),
    "one size": (settings(dim_vocabs=[20]), r"dim-vocabs is \[20\], not two sizes"),
    "a huge vocabulary": (settings(dim_vocabs=[10**9] * 2), "not two sizes"),
    "missing": (arrays(lambda w: w.pop("encoder_l2_ffn_b1")), "encoder_l2_ffn_b1 is missing"),
    "shape": (
        arrays(lambda w: w.update(Wemb=np.ones((3, 12)))), r"Wemb is \(3, 12\), not \(20, 12\)"),
    "integers": (arrays(lambda w: w.update(Wemb=np.ones((20, 12), np.int8))), "Wemb is of type"),
    "extra": (arrays(lambda w: w.update(Wpos=np.ones(3))), "Wpos is not a parameter"),
    "objects": (
        arrays(lambda w: w.update(Wemb=np.array([{}], dtype=object))), "not of numbers|cannot be"),
    "no settings": (
        arrays(lambda w: w.pop("special:model.yml")),
        "it has no archive with Marian's settings, such as model.npz"),
    "settings that are no YAML": (
        stored(b"a: [\0"),
        "special:model.yml is not YAML"),
    "aliases": (
        stored(ALIASES.encode()),
        "describes more than 100,000 values"),
    "settings that are a list": (
        stored(b"[1]"),
        "has no settings"),
    "a bomb": (bomb, "bytes claim to hold"),
    "truncated": (
        lambda f: (f / "model.npz").write_bytes((f / "model.npz").read_bytes()[:-300]),
        r"model\.npz: it is incomplete: its end is missing"),
    "an entry twice": (vocabulary(start("a: 2\nb: 2")), "gives 'b' the id 2"),
    "a token twice": (vocabulary(start("a: 2\na: 3")), "has two ids for one token"),
    "no entry": (vocabulary(start("*a : x")), "has no entry in line 3"),
    "an open quote": (vocabulary(start('"a: 2')), "has no entry in line 3"),
    "an unknown escape": (vocabulary(start('"\\q": 2')), "has no entry in line 3"),
    "no end": (vocabulary("a: 0\n<unk>: 1"), "vocab.src.yml has no </s>"),
    "no vocabulary": (lambda f: (f / "vocab.src.yml").unlink(),
                      "it has no vocab.src.yml, which decoder.yml names"),
    "three vocabularies": (
        lambda f: [(f / "decoder.yml").rename(f / "old"), (f / "vocab.x.yml").write_text("a: 1")],
        "it has 3 vocabularies: vocab.src.yml, vocab.trg.yml"),
    "two models": (
        lambda f: [(f / "b.npz").write_bytes((f / "model.npz").read_bytes()),
                   (f / "decoder.yml").rename(f / "old")],
        "it has 2 models: b.npz, model.npz"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    write(tmp_path / "a")
    change, message = FAULTS[fault]
    change(tmp_path / "a")
    require_refused(tmp_path / "a", message)


def test_the_settings_of_the_translator_may_be_named_after_the_model(tmp_path: Path) -> None:
    """As training writes them; a folder has one such file for each model."""
    folder = tmp_path / "a"
    write(folder)
    (folder / "best.npz").write_bytes((folder / "model.npz").read_bytes())
    (folder / "decoder.yml").rename(folder / "best.npz.decoder.yml")
    vocabularies = r"it has 2 vocabularies: vocab\.src\.yml, vocab\.trg\.yml; name two with"
    with pytest.raises(ZooError, match=vocabularies):
        import_checkpoint(
            folder, tmp_path / "out", default_registry(), options={"checkpoint": "model.npz"}
        )
    import_checkpoint(
        folder, tmp_path / "out", default_registry(), options={"checkpoint": "best.npz"}
    )
    assert read(tmp_path / "out", default_registry()).about.decoding["beam"] == 6


def test_all_reasons_are_given_at_once(tmp_path: Path) -> None:
    write(tmp_path / "a")
    settings(right_left=True, transformer_pool=True)(tmp_path / "a")
    with pytest.raises(ZooError, match=r"right-left is True.*transformer-pool|pool.*right-left"):
        import_checkpoint(tmp_path / "a", tmp_path / "out", default_registry())
    decoder = yaml.safe_dump({"models": ["x.npz"]})
    (tmp_path / "a" / "decoder.yml").write_text(decoder)
    with pytest.raises(ZooError, match="as is 'x': marian or transformers"):
        import_checkpoint(tmp_path / "a", tmp_path / "out", default_registry(), options={"as": "x"})
