"""`zoo data get` and `zoo data show`; downloads come from a server on loopback."""

import errno
import gzip
import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import Result

from zoo.data.compressed import without_suffix
from zoo.data.downloads import MIRROR, address, fetch, is_present
from zoo.errors import DataError, IntegrityError, NotFoundError, UnavailableError, ZooError
from zoo.registry.declarations import Download
from zoo.registry.registry import Registry, default_registry

TEXT = b"".join(b"line %d of the text\n" % i for i in range(5_000))


def archive(member: str, content: bytes) -> bytes:
    """Return a zip archive, with another member that leads out of its folder."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("../../outside", "never written")
        out.writestr(member, content)
    return packed.getvalue()


@dataclass
class Server:
    """What the server sends, and what it was asked for."""

    files: dict[str, bytes]
    address: str = ""
    cut: list[int] = field(default_factory=list)
    """For each of the next requests, the bytes after which the connection is lost."""
    statuses: list[int] = field(default_factory=list)
    """The answers to the next requests."""
    ranges: bool = True
    says_size: bool = True
    """Whether an answer with a part of a file says how long the whole is."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server({
        "/plain.txt": TEXT,
        "/text.en.gz": gzip.compress(TEXT),
        "/pairs.zip": archive("fra.txt", TEXT),
    })  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if state.statuses:
                self.send_error(state.statuses.pop(0))
                return
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                size, last = len(content), len(content) - 1
                whole = size if state.says_size else "*"
                self.send_header("Content-Range", f"bytes {start}-{last}/{whole}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + state.cut.pop(0) if state.cut else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    state.address = f"http://127.0.0.1:{http.server_port}"
    monkeypatch.setenv(MIRROR, state.address)
    yield state
    http.shutdown()
    thread.join()
    http.server_close()


def declared(server: Server, path: str, text: bytes = TEXT, **more: object) -> Download:
    digest = hashlib.sha256(text).hexdigest()
    size = len(server.files[path])
    name = without_suffix(path[1:])
    download = Download(f"corpus/{name}", f"https://example.org{path}", size, digest, len(text))
    return replace(download, **more)  # type: ignore[arg-type]


def quiet(file: str, done: int, size: int) -> None:
    pass


@pytest.mark.parametrize("path", ["/plain.txt", "/text.en.gz"])
def test_a_file_is_downloaded_unpacked_and_checked(
    path: str, server: Server, tmp_path: Path
) -> None:
    download = declared(server, path)
    shown: list[tuple[str, int, int]] = []
    assert not is_present(download, tmp_path)
    assert fetch(download, tmp_path, lambda *progress: shown.append(progress))
    assert (tmp_path / download.file).read_bytes() == TEXT
    assert shown[-1] == (Path(download.file).name, download.size, download.size)
    assert fetch(download, tmp_path, quiet)
    assert server.asked == [(path, None)]
    assert {f.name for f in (tmp_path / "corpus").iterdir() if f.suffix != ".lock"} == {
        Path(download.file).name
    }


def test_the_first_lines_of_a_member_of_an_archive(server: Server, tmp_path: Path) -> None:
    """Nothing else of the archive is unpacked."""
    head = b"".join(TEXT.splitlines(keepends=True)[:7])
    download = declared(server, "/pairs.zip", head, file="a/b.txt", member="fra.txt", lines=7)
    fetch(download, tmp_path / "folder", quiet)
    assert (tmp_path / "folder" / "a" / "b.txt").read_bytes() == head
    assert not list(tmp_path.rglob("outside"))
    with pytest.raises(IntegrityError, match=r"the archive has no other\.txt"):
        fetch(replace(download, file="c", member="other.txt"), tmp_path, quiet)


def test_a_long_line_is_one_of_the_first_lines(server: Server, tmp_path: Path) -> None:
    head = b"a" * 200_000 + b"\nb\n"
    server.files["/long.txt"] = head + b"c\n"
    download = declared(server, "/long.txt", head, lines=2)
    assert fetch(download, tmp_path, quiet)
    assert (tmp_path / download.file).read_bytes() == head


def test_a_lost_connection_is_continued(server: Server, tmp_path: Path) -> None:
    """At the byte after the last one that arrived; also if the server ignores ranges."""
    download = declared(server, "/plain.txt")
    server.cut = [1000, 500]
    assert fetch(download, tmp_path, quiet, wait=0)
    assert [asked for _, asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
    server.cut, server.says_size = [1000], False
    assert fetch(replace(download, file="third"), tmp_path, quiet, wait=0)
    assert server.asked[-1] == ("/plain.txt", "bytes=1000-")
    server.cut, server.ranges = [1000], False
    assert fetch(replace(download, file="other"), tmp_path, quiet, wait=0)
    assert (tmp_path / "other").read_bytes() == TEXT


def test_an_interrupted_download_is_continued_by_the_next_call(
    server: Server, tmp_path: Path
) -> None:
    download = declared(server, "/plain.txt")
    server.cut = [100] * 5
    with pytest.raises(UnavailableError):
        fetch(download, tmp_path, quiet, wait=0)
    assert not (tmp_path / download.file).exists()
    assert fetch(download, tmp_path, quiet)
    assert server.asked[-1] == ("/plain.txt", "bytes=500-")


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [503, 429]
    assert fetch(declared(server, "/plain.txt"), tmp_path, quiet, wait=0)
    assert len(server.asked) == 3
    server.statuses = [500] * 5
    with pytest.raises(UnavailableError, match="the server answered 500"):
        fetch(declared(server, "/plain.txt", file="b"), tmp_path, quiet, wait=0)


def test_wrong_content_is_refused_and_not_kept(server: Server, tmp_path: Path) -> None:
    """Another text, a longer one, one that unpacks to more, an archive that is none."""
    plain, packed = declared(server, "/plain.txt"), declared(server, "/text.en.gz")
    zipped = declared(server, "/pairs.zip", member="fra.txt")
    wrong: list[tuple[Download, bytes, str]] = [
        (plain, TEXT.replace(b"7", b"8"), "its SHA-256 is"),
        (plain, TEXT + b"x", f"it has {len(TEXT) + 1:,} bytes, not {len(TEXT):,}"),
        (replace(plain, size=0), TEXT + b"x", f"it has more than {len(TEXT):,} bytes"),
        (replace(packed, size=0), gzip.compress(bytes(10_000_000)), "more than"),
        (packed, b"no gzip" + bytes(packed.size - 7), "damaged"),
        (zipped, b"no zip" + bytes(zipped.size - 6), "the archive cannot be read"),
    ]
    for download, content, message in wrong:
        path = download.url.removeprefix("https://example.org")
        before, server.files[path] = server.files[path], content
        with pytest.raises(ZooError, match=message):
            fetch(download, tmp_path, quiet, wait=0)
        server.files[path] = before
        assert not [f for f in tmp_path.rglob("*") if f.is_file() and f.suffix != ".lock"]


def test_a_new_edition_is_kept_only_if_it_is_accepted(server: Server, tmp_path: Path) -> None:
    download = declared(server, "/text.en.gz")
    server.files["/text.en.gz"] = gzip.compress(TEXT + b"more\n")
    with pytest.raises(IntegrityError, match="add --accept-changed"):
        fetch(download, tmp_path, quiet)
    file = tmp_path / download.file
    left = file.with_name(f".{file.name}.download.gz")
    left.write_bytes(gzip.compress(TEXT)[:100])  # the beginning of the other edition
    assert not fetch(download, tmp_path, quiet, accept_changed=True)
    assert not left.exists()
    assert (tmp_path / download.file).read_bytes() == TEXT + b"more\n"


def test_addresses_and_paths_are_checked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    download = declared(server, "/plain.txt")
    for file in ("../outside", "/outside", "."):
        with pytest.raises(DataError, match="it is not below the folder"):
            fetch(replace(download, file=file), tmp_path / "a", quiet)
    for url in ("http://example.org/a", "file:///etc/passwd", "example.org"):
        with pytest.raises(DataError, match="must begin with https://"):
            address(replace(download, url=url))
    with pytest.raises(NotFoundError, match="the server answered 404"):
        fetch(replace(download, url="https://example.org/none"), tmp_path, quiet)
    monkeypatch.setenv(MIRROR, "ftp://example.org")
    with pytest.raises(DataError, match="must begin with https:// or http://"):
        address(download)
    monkeypatch.delenv(MIRROR)
    assert address(download) == "https://example.org/plain.txt"


def test_a_full_disk_is_named(server: Server, tmp_path: Path) -> None:
    """The system names no file in the error of writing to an open one."""

    def full(file: str, done: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as raised:
        fetch(declared(server, "/plain.txt"), tmp_path, full)
    assert raised.value.filename == str(tmp_path / "corpus" / "plain.txt")


def test_an_unreachable_server_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    download = Download("a", "https://example.org/a", 1, "", 1)
    with pytest.raises(UnavailableError, match="cannot download http://127") as raised:
        fetch(download, tmp_path, quiet, wait=0)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["ftp://ann:secret@proxy", "http://ann:secret@proxy:x"])
def test_a_wrong_proxy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    download = Download("a", "https://example.org/a", 1, "", 1)
    with pytest.raises(UnavailableError, match="no request can be made for https://ex") as raised:
        fetch(download, tmp_path, quiet)
    assert "Check HTTPS_PROXY" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["multi30k-en-de", "tatoeba-fr-en", "tatoeba-en-fr-76k", "g2p-en"])
def test_declared_digests_are_those_of_the_corpora(
    name: str, registry: Registry, corpora: Path
) -> None:
    assert registry.datasets[name].downloads
    for download in registry.datasets[name].downloads:
        assert is_present(download, corpora), download.file
        assert download.url.startswith("https://")


def test_data_get_shows_terms_and_size_and_asks(
    server: Server, run: Callable[..., Result], corpora: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The dataset is then read without ZOO_DATA."""
    registry = default_registry()  # the one that the command reads
    downloads = registry.datasets["multi30k-en-de"].downloads
    for download in downloads:
        content = gzip.compress((corpora / download.file).read_bytes(), mtime=0)
        server.files[download.url.removeprefix("https://raw.githubusercontent.com")] = content
    known = replace(registry.datasets["multi30k-en-de"], downloads=tuple(
        replace(download, size=0) for download in downloads
    ))  # fmt: skip
    monkeypatch.setitem(registry.datasets._values, "multi30k-en-de", known)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.delenv("ZOO_DATA")
    result = run("data", "show", "multi30k-en-de")
    assert "Download it: zoo data get multi30k-en-de" in result.output
    result = run("data", "get", "multi30k-en-de", input="n\n")
    assert "Terms: research and education, non-commercial" in result.output
    assert "files of unknown size" in result.output
    assert result.exit_code == 1
    assert not server.asked
    result = run("data", "get", "multi30k-en-de", input="y\n")
    assert "multi30k-en-de: 6 files downloaded" in result.output
    result = run("data", "get", "multi30k-en-de", "--json")
    assert json.loads(result.stdout)["downloaded"] == []
    assert len(registry.datasets["multi30k-en-de"].load("train")) == 29_000
    assert (
        "Download it: zoo data get multi30k-en-fr" in run("data", "show", "multi30k-en-fr").output
    )


def test_data_get_names_what_it_can_download(run: Callable[..., Result]) -> None:
    result = run("data", "get", "shift")
    assert "shift has no files to download" in result.output
    assert "multi30k-en-de" in result.output
    assert "did you mean tatoeba-en-fr" in run("data", "get", "tatoeba-en-f").output


def test_data_show_counts(tmp_path: Path, run: Callable[..., Result]) -> None:
    """The counts are those of a direct computation over the pairs."""
    rows = [("a b", "c"), ("a b", "c"), ("a b", "dd"), ("x", "x"), ("", "y"), ("ä ä ä", "z")]
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    shown = json.loads(run("data", "show", file, "--json", "--pairs", 2).stdout)
    train = shown["splits"]["train"]
    expected = {"pairs": 6, "distinct_sources": 4, "duplicates": 1, "empty": 1, "copies": 1}
    assert expected.items() <= train.items()
    assert train["examples"] == [["a b", "c"], ["a b", "c"]]
    assert train["source"] == {
        "characters": round(sum(len(a) for a, _ in rows) / 6, 1),
        "words": round(sum(len(a.split()) for a, _ in rows) / 6, 1),
        "longest": 5,
        "distinct_characters": len(set("".join(a for a, _ in rows))),
    }
    assert shown["splits"]["validation"]["pairs"] == 0
    text = run("data", "show", file).output
    for name, count in (("pairs", 6), ("distinct sources", 4), ("duplicates", 1), ("empty", 1)):
        assert re.search(rf"^{name} +{count} +0$", text, re.MULTILINE)
    assert "train 1  a b" in text


def test_data_show_counts_sources_that_splits_share(run: Callable[..., Result]) -> None:
    shown = json.loads(run("data", "show", "shift", "--limit", 300, "--json").stdout)
    assert shown["overlap"] == {"train, validation": 0, "train, test": 0, "validation, test": 0}
    assert shown["splits"]["test"]["pairs"] == 300
