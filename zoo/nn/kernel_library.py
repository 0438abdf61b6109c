"""The shared library of the kernels: where it is, and how it is compiled."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path

from zoo.errors import ZooError
from zoo.files import whole_file
from zoo.nn.processor import processor
from zoo.registry.cache_folder import cache_folder

SOURCE = Path(__file__).with_name("kernels.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")


def library_file() -> Path:
    """Return where the library for this source and processor is."""
    described = (*FLAGS, platform.machine(), processor("flags"))
    parts = (SOURCE.read_bytes(), *(part.encode() for part in described))
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    return cache_folder() / "kernels" / f"{name}.so"


def is_outdated() -> bool:
    """Return whether kernels were compiled, but of other source code or for another processor."""
    library = library_file()
    try:
        return not library.is_file() and any(library.parent.glob("*.so"))
    except OSError:  # a folder that cannot be read has none
        return False


def compile_library() -> Path:
    """Compile the kernels for this processor with `CC` or `cc`; return the library.

    Later processes load it. It lies in the folder `kernels` below `ZOO_CACHE`, under a name that
    depends on the source and the processor.

    Raises:
        ZooError: there is no compiler, or it fails.
    """
    library = library_file()
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    what, after = "the kernels cannot be compiled", "Install GCC or Clang, or name one in CC"
    # A linker may replace its output by another file, which has no lock of this process.
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / library.name
        try:
            command = [*compiler, *FLAGS, str(SOURCE), "-o", str(made), "-lm"]
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace",
                env={**os.environ, "TMPDIR": folder},  # of a compiler that is interrupted
            )  # fmt: skip
        except OSError as error:
            raise ZooError(what, f"{shlex.join(compiler)}: {error.strerror}", after) from error
        if done.returncode:
            raise ZooError(what, done.stderr.strip()[:500] or f"exit code {done.returncode}", after)
        with whole_file(library) as part:
            part.write_bytes(made.read_bytes())  # a copy names the wrong file of a full disk
            part.chmod(0o700)
    return library


def is_own(path: Path) -> bool:
    """Return whether only this user can write to a file or folder; what is loaded is executed."""
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
