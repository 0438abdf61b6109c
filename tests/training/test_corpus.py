"""Token files: written once in chunks, then memory-mapped."""

import errno
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from zoo.data import corpus as module
from zoo.data.batches import Corpus
from zoo.data.corpus import open_corpus
from zoo.data.datasets import file_dataset, hash_split, held_out_sources
from zoo.data.tokenizer import Tokenizer
from zoo.errors import CheckpointError
from zoo.files import read_json
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.parameters import LengthLimits

LIMITS = LengthLimits(8, 9)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


def drawn(count: int) -> Iterator[Pair]:
    for i in range(count):
        words = [f"w{(i * 7 + k * k) % 50}" for k in range(i % 11)]
        yield Pair(" ".join(words), " ".join(reversed(words[1:])))


def dataset(count: int) -> Dataset:
    def read(split: str, limit: int | None) -> Iterable[Pair]:
        return islice(drawn(count), limit)

    return Dataset("drawn", "", read, splits=("train",))


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    words = [f"w{i}" for i in range(50)]
    return Tokenizer.train(words, "word", 100), Tokenizer.train(words, "word", 90)


TokenizerPair = tuple[Tokenizer, Tokenizer]


def test_mapped_files_equal_a_corpus_in_memory(
    cache: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)
    mapped = open_corpus(dataset(200), None, tokenizers, LIMITS)
    in_memory = Corpus.encode(list(drawn(200)), *tokenizers, LIMITS)
    assert len(mapped) == len(in_memory)
    assert mapped.left_out == in_memory.left_out
    assert in_memory.left_out.long > 0
    assert in_memory.left_out.empty > 0
    for expected, actual in ((in_memory.source, mapped.source), (in_memory.target, mapped.target)):
        assert np.array_equal(expected.tokens, actual.tokens)
        assert np.array_equal(expected.starts, actual.starts)
    for one, other in zip(in_memory.batches(60), mapped.batches(60), strict=True):
        for a, b in zip(in_memory.batch(one), mapped.batch(other), strict=True):
            assert torch.equal(a, b)
    assert isinstance(mapped.source.tokens, np.memmap)
    assert mapped.source.tokens.dtype.itemsize == 2


def test_files_are_written_once(cache: Path, tokenizers: TokenizerPair, parallel: Path) -> None:
    mine = file_dataset(f"{parallel}:en-de")
    first = open_corpus(mine, None, tokenizers, LIMITS)
    (folder,) = (f for f in cache.iterdir() if f.is_dir())
    before = {f: f.stat().st_mtime_ns for f in folder.iterdir()}
    again = open_corpus(mine, None, tokenizers, LIMITS)
    assert {f: f.stat().st_mtime_ns for f in folder.iterdir()} == before
    assert again.fingerprint() == first.fingerprint()
    # The name of the folder depends on everything that determines the files' content.
    for limit, limits in ((30, LIMITS), (None, LengthLimits(5, 5))):
        open_corpus(mine, limit, tokenizers, limits)
    file = parallel.with_suffix(".en")
    file.write_text(file.read_text().replace("dog", "cat"))
    open_corpus(file_dataset(f"{parallel}:en-de"), None, tokenizers, LIMITS)
    assert len([f for f in cache.iterdir() if f.is_dir()]) == 4


def test_a_plugin_s_changed_reader_is_not_hidden_by_old_files(
    cache: Path, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    """Such as one whose author has mended how the lines of two files are paired."""
    file = tmp_path / "words.txt"
    file.write_text("".join(f"w{n}\n" for n in range(20)), encoding="utf-8")

    def reader(shift: int) -> Dataset:
        def read(split: str, limit: int | None) -> Iterable[Pair]:
            lines = file.read_text(encoding="utf-8").split()
            return islice(map(Pair, lines, lines[shift:] + lines[:shift]), limit)

        return Dataset("mine", "", read, splits=("train",), files=(file,))

    wrong, right = (open_corpus(reader(shift), None, tokenizers, LIMITS) for shift in (1, 0))
    assert wrong.target.tokens[1] != right.target.tokens[1]
    assert torch.equal(right.batch(torch.tensor([3])).source[:, 0],
                       right.batch(torch.tensor([3])).target[:, 1])  # fmt: skip


@pytest.mark.parametrize("name", ["source.tokens", "target.starts", "corpus.json"])
def test_damaged_files_are_written_again(cache: Path, tokenizers: TokenizerPair, name: str) -> None:
    expected = open_corpus(dataset(50), None, tokenizers, LIMITS).fingerprint()
    (file,) = cache.glob(f"*/{name}")
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    corpus = open_corpus(dataset(50), None, tokenizers, LIMITS)
    assert corpus.fingerprint() == expected
    assert file.read_bytes() == whole
    assert not list(cache.glob(".*"))


def test_a_full_disk_names_the_cache(
    cache: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's error of a write names no file."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module._Writer, "write", fail)
    with pytest.raises(OSError, match="No space left") as raised:
        open_corpus(dataset(50), None, tokenizers, LIMITS)
    assert Path(raised.value.filename).parent == cache
    assert [file.suffix for file in cache.iterdir()] == [".lock"]


def test_a_cache_without_locks_is_named(
    cache: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network share; the system names no file."""
    refused = OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    monkeypatch.setattr("filelock.FileLock.acquire", mock.Mock(side_effect=refused))
    with pytest.raises(OSError, match="No locks available") as caught:
        open_corpus(dataset(3), None, tokenizers, LIMITS)
    assert Path(caught.value.filename).parent == cache


def test_a_corpus_of_another_user_s_cache_needs_no_lock(
    cache: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a teacher, or in an image of a container: its files were read, but not its lock."""
    written = open_corpus(dataset(3), None, tokenizers, LIMITS)
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr("filelock.FileLock.acquire", mock.Mock(side_effect=refused))
    again = open_corpus(dataset(3), None, tokenizers, LIMITS)
    assert again.fingerprint() == written.fingerprint()


def test_changed_text_has_another_fingerprint(cache: Path, tokenizers: TokenizerPair) -> None:
    one = open_corpus(dataset(50), None, tokenizers, LIMITS)
    other = open_corpus(dataset(51), None, tokenizers, LIMITS)
    assert one.fingerprint() != other.fingerprint()


def test_concurrent_processes_write_one_corpus(cache: Path, parallel: Path) -> None:
    program = (
        "import sys; from zoo.data.datasets import file_dataset\n"
        "from zoo.registry.parameters import LengthLimits\n"
        "from zoo.data.tokenizer import Tokenizer; from zoo.data.corpus import open_corpus\n"
        "t = Tokenizer.train(['the dog runs'], 'word', 50)\n"
        "print(open_corpus(file_dataset(sys.argv[1]), None, (t, t), LengthLimits()).fingerprint())"
    )
    command = [sys.executable, "-c", program, f"{parallel}:en-de"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1]
    assert len([f for f in cache.iterdir() if f.is_dir()]) == 1


def test_building_holds_one_chunk_at_a_time(
    cache: Path, tokenizers: TokenizerPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen times the text needs only a few more bytes per pair, for an index."""
    monkeypatch.setattr(module, "CHUNK", 500)

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            open_corpus(dataset(count), None, tokenizers, LIMITS)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    small, large = peak(1_000), peak(16_000)
    text = sum(len(a) + len(b) for a, b in drawn(16_000))
    assert large - small < 15_000 * 24
    assert large - small < text / 2


def test_batches_of_a_corpus_larger_than_memory(cache: Path, tmp_path: Path) -> None:
    """400 MB of tokens, in a process that may take no more than 150 MB."""
    folder = tmp_path / "large"
    folder.mkdir()
    count, length = 1_000_000, 100
    for side in ("source", "target"):
        with (folder / f"{side}.tokens").open("wb") as file:
            file.truncate(2 * count * length)  # 200 MB, all of them padding
            file.seek(2 * length * (count - 1))
            file.write(np.full(length, 7, dtype="<u2").tobytes())
        np.arange(0, (count + 1) * length, length, dtype="<i8").tofile(folder / f"{side}.starts")
    program = f"""
import resource, json, torch
from pathlib import Path
from typing import Any
from zoo.data import corpus as module
from zoo.data.batches import shuffled_batches
from zoo.files import write_json
side = {{"sequences": {count}, "tokens": {count * length}, "type": "<u2"}}
folder = Path({str(folder)!r})
description = {{"left_out": {{}}, "fingerprint": "x", "source": side, "target": side}}
write_json(folder / "corpus.json", description)
now = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + 150 * 2**20,) * 2)
try:
    held = bytearray(200 * 2**20)
    raise SystemExit("the limit has no effect")
except MemoryError:
    pass
corpus = module._map(folder)
batches = shuffled_batches(corpus, 4000, None, 1, 0)
assert len(batches) == {count * length // 4000}, len(batches)
last = torch.tensor([{count - 1}, 0])
assert corpus.batch(last).source.sum() == 7 * {length}
for index in range(0, len(batches), 100):
    assert corpus.batch(batches[index]).target.shape == (40, {length})
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory limits are tested on Linux only")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", [5, 39, 40, 400, 3000])
def test_a_streamed_split_is_the_split(count: int) -> None:
    pairs = [Pair(f"s{i * i % (count * 2 // 3 + 1)}", str(i)) for i in range(count)]
    expected = {pair.source for pair in hash_split(pairs, {"validation": 20})["validation"]}
    assert held_out_sources(pair.source for pair in pairs) == expected
    # With a small bound, which is reached: the smallest hashes of all are kept.
    sources = {pair.source for pair in pairs}
    if len(sources) >= 20 * 3:
        from zoo.data.datasets import text_hash

        smallest = set(sorted(sources, key=text_hash)[:3])
        assert held_out_sources((pair.source for pair in pairs), most=3) == smallest


def test_counts_of_skipped_pairs_are_in_the_file(cache: Path, tokenizers: TokenizerPair) -> None:
    corpus = open_corpus(dataset(60), None, tokenizers, LIMITS)
    (file,) = cache.glob("*/corpus.json")
    written = read_json(file)
    assert written["left_out"] == {"empty": corpus.left_out.empty, "long": corpus.left_out.long}
    assert written["source"]["sequences"] == len(corpus)


@pytest.mark.parametrize(
    ("key", "value"), [("left_out", {"empty": 0, "a\nb": 0}), ("source", {"type": ",u2"})]
)
def test_a_damaged_description_is_refused_in_one_line(
    key: str, value: dict[str, Any], tmp_path: Path
) -> None:
    """numpy reads some types as Python's syntax, and an error may repeat a key."""
    side = {"sequences": 1, "tokens": 8, "type": "<u2"}
    description = {"source": side, "target": side, "left_out": {}, "fingerprint": "x"}
    if key == "source":
        value = {**side, **value}
    (tmp_path / "corpus.json").write_text(json.dumps({**description, key: value}))
    for part in ("source", "target"):
        (tmp_path / f"{part}.tokens").write_bytes(bytes(16))
        (tmp_path / f"{part}.starts").write_bytes(bytes(16))
    with pytest.raises(CheckpointError, match="is incomplete") as raised:
        module._map(tmp_path)
    assert "\n" not in str(raised.value)
