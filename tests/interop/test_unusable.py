"""Files without their content: one line says which one, why and what to do."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from tests.interop.checkpoints import checkpoint, write
from tests.interop.huggingface import marian
from tests.interop.refused import require_refused
from tests.interop.t5_folder import write_folder
from zoo.checkpoint.checkpoint import read
from zoo.errors import CheckpointError, ConversionError
from zoo.interop.locate import locate
from zoo.interop.pickles import read_pickle
from zoo.registry.registry import default_registry

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'7' * 64}\nsize 1234567\n"
PULL = r"is a pointer of Git LFS, without the content\. Run `git lfs pull` in its folder"


def foreign(folder: Path) -> Path:
    write_folder(folder)
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_clone_without_lfs_is_refused_by_name(name: str, tmp_path: Path) -> None:
    folder = foreign(tmp_path / "t5")
    (folder / name).write_text(POINTER)
    require_refused(folder, f"{name} cannot be (read|imported): it {PULL}")


@pytest.mark.parametrize("name", ["checkpoint_best.pt", "best.ckpt", "model.npz"])
def test_a_pointer_of_no_known_format_is_refused_by_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / name).write_text(POINTER)
    require_refused(folder, f"{name}: it {PULL}")
    require_refused(folder / name, f"cannot be imported: it {PULL}")
    with pytest.raises(ConversionError, match=PULL):
        locate(folder, default_registry())


def test_a_checkpoint_of_the_zoo_in_such_a_clone_is_refused(tmp_path: Path) -> None:
    folder = write(checkpoint("seq2seq"), tmp_path / "own")
    (folder / "model.safetensors").write_text(POINTER)
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read: it is a"):
        read(folder, default_registry())


def test_a_part_of_a_file_of_torch_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    file = folder / "model.pt"
    torch.save({"model": {"a": torch.zeros(99)}}, file)
    read_pickle(file)
    file.write_bytes(file.read_bytes()[:-50])
    what = "it is incomplete: its end is missing. Download or copy it again"
    with pytest.raises(ConversionError, match=what):
        read_pickle(file)
    require_refused(folder, f"model.pt: {what}")


def test_links_without_their_files_are_refused(tmp_path: Path) -> None:
    """As in a snapshot of the Hub's cache that was copied without its blobs."""
    folder, blobs = foreign(tmp_path / "t5"), tmp_path / "blobs"
    blobs.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / str(number))
        file.symlink_to(Path("..") / "blobs" / str(number))
    count = len([*folder.iterdir()])
    weights = (folder / "model.safetensors").resolve()
    weights.rename(tmp_path / "weights")
    follow = r"a link to a file that is not there\. Copy the files themselves, such as by `cp -rL`"
    require_refused(folder, f"it has no weights: model.safetensors: {follow}")
    (tmp_path / "weights").rename(weights)
    shutil.rmtree(blobs)
    require_refused(folder, rf"config\.json and {count - 1} more: {follow}")


def test_a_part_that_an_index_names_may_be_a_broken_link(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "t5")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}')
    (folder / "b.safetensors").symlink_to("gone")
    require_refused(folder, r"b\.safetensors is a link to a file that is not there")


def test_an_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "t5")
    (tmp_path / "downloads").mkdir()
    packed = tmp_path / "downloads" / "t5.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder, "t5")
    unpack = r"Unpack it, and name the folder with the checkpoint"
    require_refused(packed, rf"it is an archive\. {unpack}")
    require_refused(packed.parent, rf"it has only the archive t5\.tar\.gz\. {unpack}")


def test_weights_of_other_libraries_alone_are_named(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "t5")
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    require_refused(folder, r"it has no weights: its tf_model\.h5 is a model of TensorFlow")


def test_a_damaged_config_is_named_instead_of_files_of_the_zoo(tmp_path: Path) -> None:
    """Such as the tokenizer, which a folder of Marian lacks."""
    folder = tmp_path / "marian"
    marian(folder)
    (folder / "config.json").write_text('{"model_type": "marian", "dropout": NaN}')
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read: NaN is not a JSON"):
        read(locate(folder, default_registry()), default_registry())
