"""Files without their content: broken links, pointers of Git LFS, incomplete copies, archives."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from zoo.checkpoint.tensors import LFS_NEXT, LFS_POINTER, LFS_WHY
from zoo.errors import ConversionError

ZIP = b"PK\3\4"
"""How torch's files and NumPy's archives begin."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz")
PACKED = (".zip", ".tar", ".tgz", ".tbz2", ".gz", ".bz2", ".xz", ".zst")
UNPACK = "Unpack it, and name the folder with the checkpoint"
LINK = "a link to a file that is not there"
FOLLOW = "Copy the files themselves, such as by `cp -rL`"


def fault_of(file: Path) -> tuple[str, str]:
    """Return why a file lacks its content, and what to do; two empty texts if it does not."""
    try:
        with file.open("rb") as stream:
            start = stream.read(len(LFS_POINTER))
        if start == LFS_POINTER:
            return LFS_WHY, LFS_NEXT
        if start.startswith(ZIP) and not zipfile.is_zipfile(file):
            return "it is incomplete: its end is missing", "Download or copy it again"
    except OSError:  # its reader reports this
        pass
    return "", ""


def check_content(file: Path) -> None:
    """Make sure that a file has its content.

    Raises:
        ConversionError: it is a pointer of Git LFS, or incomplete.
    """
    why, following = fault_of(file)
    if why:
        raise ConversionError(f"{file} cannot be imported", why, following)


def fault_in(folder: Path, names: Sequence[str], file: Path | None) -> tuple[str, str]:
    """Return why files of no known format may be a checkpoint nevertheless, and what to do.

    Both texts are empty if nothing is known. `names` are those of the folder's files; if a `file`
    is given, it alone is the checkpoint.
    """
    if file is not None:
        return ("it is an archive", UNPACK) if file.name.endswith(PACKED) else fault_of(file)
    broken = sorted(p.name for p in folder.iterdir() if p.is_symlink() and not p.exists())
    if broken:
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        return f"{broken[0][:100]}{more}: {LINK}", FOLLOW
    for name in names:
        why, following = fault_of(folder / name) if name.endswith(WEIGHTS) else ("", "")
        if why:
            return f"{name[:100]}: {why}", following
    packed = [name for name in names if name.endswith(PACKED)]
    if packed and len(packed) == len(names):
        return f"it has only the archive {packed[0][:100]}", UNPACK
    return "", ""
