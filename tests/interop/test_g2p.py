"""Import of the pronunciation model: an archive of random weights against NumPy, and refusals."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from tests.plugins.oracles import Array, gru
from zoo.errors import ZooError
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry
from zoo_seq2seq.formats.g2p import GRAPHEMES, MEMBER, PHONEMES

Arrays = dict[str, Array]


def random_arrays(seed: int = 1, embedding: int = 6, hidden: int = 5) -> Arrays:
    draw = np.random.default_rng(seed).normal
    shapes: dict[str, tuple[int, ...]] = {"fc_w": (74, hidden), "fc_b": (74,)}
    for name, size in (("enc", 29), ("dec", 74)):
        shapes |= {f"{name}_emb": (size, embedding), f"{name}_w_ih": (3 * hidden, embedding),
                   f"{name}_w_hh": (3 * hidden, hidden), f"{name}_b_ih": (3 * hidden,),
                   f"{name}_b_hh": (3 * hidden,)}  # fmt: skip
    return {name: draw(size=shape) for name, shape in shapes.items()}


def npz(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{name: array.astype(np.float32) for name, array in arrays.items()})  # type: ignore[arg-type]  # its keywords are arrays
    return stream.getvalue()


def pronounce(arrays: Arrays, word: str) -> str:
    """Return what the package's network writes, at most 20 phones, never a special one."""
    w = {name: array.astype(np.float32).astype(np.float64) for name, array in arrays.items()}

    def step(side: str, x: Array, h: Array) -> Array:
        parts = (
            ("w_ih", "weight_ih"),
            ("w_hh", "weight_hh"),
            ("b_ih", "bias_ih"),
            ("b_hh", "bias_hh"),
        )
        return gru(x, h, {kind: w[f"{side}_{name}"] for name, kind in parts})

    h = np.zeros(w["enc_w_hh"].shape[1])
    for letter in [*word, "</s>"]:
        index = GRAPHEMES.index(letter) if letter in GRAPHEMES else GRAPHEMES.index("<unk>")
        h = step("enc", w["enc_emb"][index], h)
    phones: list[str] = []
    token = PHONEMES.index("<s>")
    for position in range(20):
        h = step("dec", w["dec_emb"][token], h)
        logits = w["fc_w"] @ h + w["fc_b"]
        logits[[0, 2]] = -np.inf  # padding and begin are never written here
        if position == 0:
            logits[3] = -np.inf  # nor is an empty pronunciation
        token = int(logits.argmax())
        if token == PHONEMES.index("</s>"):
            break
        phones.append("⁇" if token == 1 else PHONEMES[token])
    return " ".join(phones)


def write_wheel(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("g2p_en/__init__.py", "raise SystemExit")
        wheel.writestr(MEMBER, content)
    return path


@pytest.mark.parametrize("packed", [True, False])
def test_pronunciations_equal_the_recurrence(tmp_path: Path, packed: bool) -> None:
    arrays = random_arrays()
    if packed:
        source = write_wheel(tmp_path / "g2p_en-9-py3-none-any.whl", npz(arrays))
    else:
        source = tmp_path / "weights"
        source.mkdir()
        (source / "checkpoint20.npz").write_bytes(npz(arrays))
    assert import_checkpoint(source, tmp_path / "out", default_registry()) == "g2p"
    translator = zoo.load(tmp_path / "out")
    words = ["zoo", "activationist", "o'clock", "a", "xxxxxxxxxxxxxxxxxxxxxxxxx"]
    given = translator.translate(words, beam=1, max_length=20)
    assert [text.replace("<unk>", "⁇") for text in given] == [pronounce(arrays, w) for w in words]
    assert translator.translate(["Café"]) == translator.translate(["cafe"])


def object_array() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, enc_emb=np.array([{}], dtype=object))
    return stream.getvalue()


def hostile_header() -> bytes:
    """An array whose header claims 10^15 numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**15,)}
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("enc_emb.npy", header.getvalue())
    return stream.getvalue()


def changed(change: Callable[[Arrays], object]) -> bytes:
    arrays = random_arrays()
    change(arrays)
    return npz(arrays)


REFUSED: dict[str, tuple[bytes, list[str]]] = {
    "arrays missing and unknown": (
        changed(lambda a: (a.pop("fc_w"), a.update(more=a["fc_b"]))),
        ["fc_w is missing", "more is not an array of this model"],
    ),
    "other shapes": (
        changed(lambda a: a.update(dec_emb=a["dec_emb"][:70], enc_b_hh=a["enc_b_hh"][None])),
        ["dec_emb is (70, 6), not (74, 6)", "enc_b_hh is (1, 15), not (15,)"],
    ),
    "no widths": (
        changed(lambda a: a.update(enc_emb=a["fc_b"][0])), ["enc_emb is (1,), not (29, 1)"]),
    "objects": (object_array(), ["enc_emb.npy is of type object, not of numbers"]),
    "a header that lies": (hostile_header(), ["enc_emb.npy is not (<a large number>,)"]),
    "cut off": (npz(random_arrays())[:-30], ["neither checkpoint20.npz nor a wheel"]),
    "no archive": (b"no", ["neither checkpoint20.npz nor a wheel"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_damaged_archives_are_refused_in_one_line(tmp_path: Path, case: str) -> None:
    content, expected = REFUSED[case]
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "checkpoint20.npz").write_bytes(content)
    with pytest.raises(ZooError) as refused:
        import_checkpoint(folder, tmp_path / "out", default_registry(), format="g2p")
    for part in expected:
        assert part in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_wheel_without_the_weights_is_not_of_this_format(tmp_path: Path) -> None:
    path = tmp_path / "other.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("other/a.npz", b"")
    with pytest.raises(ZooError, match="of no known format"):
        import_checkpoint(path, tmp_path / "out", default_registry())


def test_weights_are_those_of_the_archive(tmp_path: Path) -> None:
    arrays = random_arrays(2)
    wheel = write_wheel(tmp_path / "a.whl", npz(arrays))
    import_checkpoint(wheel, tmp_path / "out", default_registry())
    model = zoo.load(tmp_path / "out").model
    expected = torch.from_numpy(arrays["fc_w"].astype(np.float32))
    rows = [0, 2, 3, 1, *range(4, 74)]
    assert torch.equal(model.get_parameter("output.weight"), expected[rows])  # type: ignore[union-attr]  # no ensemble


@pytest.mark.parametrize("name", ["model.npz", "g2p_en-1-py3-none-any.whl"])
def test_archives_with_a_damaged_directory_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("g2p_en/checkpoint20.npz", b"a" * 1000)
    content = bytearray(file.read_bytes())
    start = content.index(b"PK\x01\x02")
    content[start : start + 4] = b"XXXX"  # the central directory
    file.write_bytes(content)
    with pytest.raises(ZooError) as caught:
        import_checkpoint(file, tmp_path / "out", default_registry())
    assert "\n" not in str(caught.value)
