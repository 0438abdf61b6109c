"""Fetch the public files that datasets declare: resumed, bounded, and checked by SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from filelock import FileLock

from zoo.data.compressed import SUFFIXES, open_text
from zoo.errors import (
    DataError,
    HubError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
    naming_full_disk,
    wrong_network,
)
from zoo.files import whole_file
from zoo.registry.declarations import Download

if TYPE_CHECKING:
    import httpx2

MIRROR = "ZOO_DATA_MIRROR"
"""A variable whose value replaces scheme and host of every address, for a mirror of the files."""

UNKNOWN_LIMIT = 100_000_000
"""The most bytes of a download of unknown size."""

CHUNK = 2**16
TRIES = 5

Progress = Callable[[str, int, int], None]
"""It is called with a file's name, the bytes that are there, and the size of the download."""


def is_present(download: Download, folder: Path) -> bool:
    """Return whether a file is in the folder, with its digest."""
    file = folder / download.file
    if not file.is_file() or file.stat().st_size != download.bytes:
        return False
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == download.sha256


def fetch(
    download: Download,
    folder: Path,
    progress: Progress,
    *,
    accept_changed: bool = False,
    wait: float = 1.0,
) -> bool:
    """Download a file, unless it is there already; return whether its digest is the declared one.

    What an interrupted download left is continued. A lost connection is tried again, after `wait`
    seconds, which double each time.

    Raises:
        NotFoundError: the server does not have the file.
        UnavailableError: there is no connection, or the server is not available.
        IntegrityError: the content is another one, and `accept_changed` is not set; nothing of it
            is kept.
        DataError: the declared path is not one below the folder.
    """
    file = folder / download.file
    if not file.resolve().is_relative_to(folder.resolve()) or file == folder:
        raise DataError(f"cannot download {download.file!r}", "it is not below the folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    packed = file.with_name(f".{file.name}.download{_suffix(download.url)}")
    with FileLock(file.with_name(f".{file.name}.lock")), naming_full_disk(file):
        if is_present(download, folder):
            return True
        if accept_changed:  # what was left may be the beginning of another file
            packed.unlink(missing_ok=True)
        for attempt in range(TRIES):
            try:
                _receive(download, packed, progress, accept_changed)
                break
            except UnavailableError as error:
                if attempt + 1 == TRIES or error.wait == math.inf:
                    raise
                time.sleep(wait * 2**attempt)
        try:
            return _unpack(download, packed, file, accept_changed)
        finally:
            packed.unlink(missing_ok=True)


def address(download: Download) -> str:
    """Return a file's address, at the mirror if one is set.

    Raises:
        DataError: it is not an https address, or the mirror's is not http.
    """
    mirror = os.environ.get(MIRROR)
    parts = urlsplit(download.url)
    if parts.scheme != "https":
        raise DataError(f"cannot download {download.url}", "its address must begin with https://")
    if not mirror:
        return download.url
    if urlsplit(mirror).scheme not in ("http", "https"):
        raise DataError(f"{MIRROR} is {mirror!r}", "it must begin with https:// or http://")
    return f"{mirror.rstrip('/')}{parts.path}"


def _receive(download: Download, packed: Path, progress: Progress, accept_changed: bool) -> None:
    """Write the rest of a download to a file that may have its beginning."""
    import httpx2

    url, name = address(download), Path(download.file).name
    there = packed.stat().st_size if packed.is_file() else 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={there}-"} if there else {})}
    declared = 0 if accept_changed else download.size
    most = declared or UNKNOWN_LIMIT
    try:
        with (
            _client(url) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code == 416:  # nothing is left to send, or the file has changed
                packed.unlink(missing_ok=True)
                raise UnavailableError(f"cannot continue {url}", "the server refuses the range")
            _check_status(response, url)
            start, total = _start(response, there), _total(response)
            if declared and total and total != declared:
                packed.unlink(missing_ok=True)
                raise _changed(download, f"it has {total:,} bytes, not {declared:,}")
            with packed.open("r+b" if start else "wb") as out:
                out.seek(start)
                out.truncate()
                for block in response.iter_raw():
                    start += len(block)
                    if start > most:
                        packed.unlink(missing_ok=True)
                        raise _changed(download, f"it has more than {most:,} bytes")
                    out.write(block)
                    progress(name, start, download.size)
            expected = declared or total
            if expected and start < expected:
                raise UnavailableError(
                    f"the connection to {url} was lost", f"after {start:,} bytes"
                )
    except httpx2.HTTPError as error:
        raise UnavailableError(
            f"cannot download {url}", str(error) or type(error).__name__, "Try again: it continues"
        ) from None


def _client(url: str) -> httpx2.Client:
    """Return a client of HTTP, which reads the settings of the network.

    Raises:
        UnavailableError: one of them is wrong.
    """
    import httpx2

    try:
        return httpx2.Client(follow_redirects=True, timeout=30.0)
    except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
        raise wrong_network(url, error) from None


def _check_status(response: Any, url: str) -> None:
    status = response.status_code
    if status in (404, 410):
        raise NotFoundError(f"{url} does not exist", f"the server answered {status}")
    if status in (408, 429) or status >= 500:
        raise UnavailableError(f"cannot download {url}", f"the server answered {status}")
    if status not in (200, 206):
        raise HubError(f"cannot download {url}", f"the server answered {status}")


def _start(response: Any, there: int) -> int:
    """Return the position of the first byte that is sent: 0 if the server ignores ranges."""
    if response.status_code == 200:
        return 0
    match = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    if match is None or int(match[1]) != there:
        raise HubError("the server sends another range", f"not from byte {there:,}")
    return there


def _total(response: Any) -> int:
    """Return the size of the whole file as the server says, or 0; a part may be of any file."""
    if response.status_code == 206:
        text = response.headers.get("content-range", "").rpartition("/")[2]
    else:
        text = response.headers.get("content-length", "")
    return int(text) if text.isdecimal() else 0


def _unpack(download: Download, packed: Path, file: Path, accept_changed: bool) -> bool:
    """Write the declared content to its file, whole; return whether it has the declared digest."""
    digest, size = hashlib.sha256(), 0
    most = download.bytes if not accept_changed else max(download.bytes * 4, UNKNOWN_LIMIT)
    with _opened(download, packed) as stream, whole_file(file) as part:
        with part.open("wb") as out:
            for block in _content(stream, download.lines):
                size += len(block)
                if size > most:
                    raise _changed(download, f"it has more than {most:,} bytes")
                digest.update(block)
                out.write(block)
        same = digest.hexdigest() == download.sha256
        if not same and not accept_changed:
            raise _changed(download, f"its SHA-256 is {digest.hexdigest()}")
    return same


def _content(stream: IO[bytes], lines: int | None) -> Iterable[bytes]:
    """Return the blocks of a stream, or its first lines."""
    if lines is not None:
        return _first_lines(stream, lines)
    return iter(lambda: stream.read(CHUNK), b"")


def _first_lines(stream: IO[bytes], lines: int) -> Iterator[bytes]:
    """Yield the first lines of a stream; of a long one, several blocks."""
    while lines and (block := stream.readline(CHUNK)):
        yield block
        lines -= block.endswith(b"\n")


@contextlib.contextmanager
def _opened(download: Download, packed: Path) -> Iterator[IO[bytes]]:
    """Open what was downloaded. Of an archive, only the declared member is read."""
    if packed.suffix != ".zip":
        with open_text(packed) as stream:
            yield stream
        return
    # An OSError may also come from a full disk, to which the content is written.
    damage = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError)
    try:
        with zipfile.ZipFile(packed) as archive, archive.open(download.member) as member:
            yield member
    except KeyError:
        raise _changed(download, f"the archive has no {download.member}") from None
    except damage as error:
        raise _changed(download, f"the archive cannot be read: {error}") from None


def _changed(download: Download, why: str) -> IntegrityError:
    return IntegrityError(
        f"{download.url} is not the file that this version knows",
        why,
        "If it was published anew, add --accept-changed: scores are then not comparable",
    )


def _suffix(url: str) -> str:
    suffix = Path(urlsplit(url).path).suffix
    return suffix if suffix in (*SUFFIXES, ".zip") else ""
