"""Give changed files to every reader of untrusted bytes, each in a process with limits.

    python tests/campaigns/fuzz.py --inputs 1000000 --seed 1 --write tests/campaigns/fuzz.md

An input is a valid file with random changes, drawn from the seed, the reader and its number. A
reader must return or raise one of the project's errors on one line, within `SECONDS` and `MEMORY`
beyond its start, without writing files outside of its folder, starting programs or connecting. An
input that does not is kept in --keep. `--first N` goes on after N inputs of each reader.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

from zoo.checkpoint.about import About
from zoo.checkpoint.card import split_card
from zoo.checkpoint.format import describe
from zoo.checkpoint.scores import read_scores
from zoo.checkpoint.tensors import read_tensors
from zoo.data import corpus
from zoo.data.readers import read_jsonl, read_tsv
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ZooError
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.hub import folder as folder_hub
from zoo.registry import catalogue
from zoo.registry.address import Address
from zoo.registry.recipe import Recipe
from zoo.registry.registry import default_registry

TOP = Path(__file__).parents[2]
RELEASED = TOP / "cards" / "checkpoints" / "rnnsearch-tiny.multi30k-en-de"
SECONDS, MEMORY = 5, 1_000_000_000
STEP = 200
"""Inputs of one process."""


class Reader(NamedTuple):
    """A function that reads a file, the valid files that are changed, and the modules it is in."""

    name: str
    read: Callable[[Path], object]
    valid: list[bytes]
    modules: tuple[str, ...]


def _describe(file: Path) -> object:
    beside = file.parent / "checkpoint"
    beside.mkdir(exist_ok=True)
    for name in ("model.safetensors", "tokenizer.json"):
        (beside / name).touch()
    (beside / "config.json").write_bytes(file.read_bytes())
    description = describe(beside)
    architecture = default_registry().architecture(description["architecture"])
    config = architecture.config_type().parse(description["config"], "config")
    return config.parameters(description["source_vocab"], description["target_vocab"]).total


def _scores(file: Path) -> object:
    (file.parent / "scores.json").write_bytes(file.read_bytes())
    return read_scores(file.parent)


def _token_files(file: Path) -> object:
    (file.parent / "corpus.json").write_bytes(file.read_bytes())
    for name in ("source", "target"):
        for kind in corpus.KINDS:
            (file.parent / f"{name}.{kind}").write_bytes(b"\0" * 16)
    return corpus._map(file.parent)


def _address(file: Path) -> object:
    address = Address.parse(file.read_bytes().decode("utf-8", "surrogateescape"))
    assert Address.parse(str(address)) == address
    return address


def _recipe(file: Path) -> object:
    return Recipe.parse(read_json(file), "recipe")


def readers() -> list[Reader]:
    """Return all readers."""

    def of(name: str) -> bytes:
        return (RELEASED / name).read_bytes()

    def text(value: object) -> bytes:
        return json.dumps(value).encode()

    kinds = [Tokenizer.train(["the dog runs"] * 9 + ["der Hund"], kind, 40).to_json().encode()
             for kind in ("word", "char", "bpe", "unigram")]  # fmt: skip
    header = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    score = {"data": "a", "split": "test", "bleu": 1.5, "bleu_signature": "s", "beam": 5}
    map_of = {"sequences": 1, "tokens": 8, "type": "<u2"}
    tokens = {"source": map_of, "target": map_of, "left_out": {"empty": 0, "long": 0},
              "fingerprint": "a"}  # fmt: skip
    about = {"source_languages": ["en"], "decoding": {"beam": 5}, "origin": "trained"}
    sha = "0" * 64
    manifest = f"{sha} 5 config.json\n{sha} 9 model.safetensors\n".encode()
    pinned = f"hf://ann/small@{'0' * 40}".encode()
    listed = f'''format = 1
[checkpoints.a]
model = "m"
dataset = "d"
summary = "s"
location = "{pinned.decode()}"
files."config.json" = {{ size = 1, sha256 = "{sha}" }}
'''.encode()
    return [
        Reader("config.json", _describe, [of("config.json")], ("checkpoint.format",)),
        Reader("about", lambda f: About.parse(read_json(f)), [text(about)], ("checkpoint.about",)),
        Reader("training.json", lambda f: read_json(f, TEXT_LIMIT), [of("training.json")],
               ("files",)),
        Reader("tokenizer.json", lambda f: Tokenizer.load(f).encode(["the dog ﬁ", "\U0001f600"]),
               kinds, ("data.tokenizer_check", "data.tokenizer_models", "data.tokenizer_regex")),
        Reader("safetensors", read_tensors,
               [len(header).to_bytes(8, "little") + header + b"\0" * 16], ("checkpoint.tensors",)),
        Reader("card", lambda f: split_card(read_text(f, 1_000_000), "card"), [of("README.md")],
               ("checkpoint.card",)),
        Reader("scores.json", _scores, [text({"scores": [score]})], ("checkpoint.scores",)),
        Reader("catalogue", lambda f: catalogue.read(f).problems, [listed],
               ("registry.catalogue",)),
        Reader("address", _address, [pinned, b"file:///a/b@main"], ("registry.address",)),
        Reader("recipe", _recipe, [Recipe().model_dump_json().encode()], ("registry.recipe",)),
        Reader("TSV", lambda f: list(read_tsv(f)), [b"the dog\tder Hund\n" * 5],
               ("data.readers",)),
        Reader("JSON lines", lambda f: list(read_jsonl(f, ("a", "b"))),
               [text({"a": "the dog", "b": "der Hund"}) + b"\n"], ("data.readers",)),
        Reader("token files", _token_files, [text(tokens)], ("data.corpus",)),
        Reader("manifest", lambda f: folder_hub._read_manifest(
            f, folder_hub.commit_name(f.read_bytes().decode("utf-8", "replace"))), [manifest],
            ("hub.folder",)),
    ]  # fmt: skip


WORDS = [
    b"null", b"true", b"-1", b"0", b"1e999", b"9" * 30, b"NaN", b'""', b"[]", b"{}", b"[" * 50,
    b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\t", b'"type":"Sequence"', b"..", b"/",
    b"&a *a", b"<<:", b"!!python/object/apply:os.system [ls]", b"(a+)+$", b"65536", b"4294967296",
    "ﷺ".encode(), b'{"Regex":"x*"}', b"file:///", b"@", b"://",
]  # fmt: skip
"""What is inserted, beside random bytes."""

FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
"""Audit events of programs that are started, and of connections."""


def changed(valid: bytes, draw: random.Random) -> bytes:
    """Return a file with one to eight random changes."""
    content = bytearray(valid)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(content) + 1)
        end = min(len(content), at + draw.choice((0, 1, 4, 30)))
        kind = draw.randrange(6)
        if kind == 0:
            content[at:end] = draw.choice(WORDS)
        elif kind == 1:
            content[at:end] = draw.randbytes(draw.choice((1, 2, 8)))
        elif kind == 2:
            content[at:end] = b""
        elif kind == 3 and end > at:
            content[at:end] = content[at:end] * draw.choice((2, 3, 100))
        elif kind == 4:
            other = draw.randrange(len(content) + 1)
            content[at:end] = content[other : other + draw.choice((1, 10, 100))]
        elif content:
            content[at % len(content)] ^= 1 << draw.randrange(8)
    return bytes(content)


def watch(allowed: Path, events: list[str]) -> None:
    """Record, from now on, what a reader must not do: this cannot be undone in a process."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in (
            "socket.connect",
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
        ):
            events.append(event)
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            path = os.path.abspath(os.fsdecode(arguments[0]))
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path != os.devnull
            if writes and not path.startswith(str(allowed)):
                events.append(f"writes {path}")

    sys.addaudithook(hook)


def outcome_of(reader: Reader, file: Path, events: list[str]) -> str:
    """Read one file; return `read`, `refused`, or what was wrong."""
    before = len(events)
    began = time.process_time()  # other programs may share the cores
    try:
        reader.read(file)
        outcome = "read"
    except ZooError as error:
        message = str(error)
        outcome = "refused"
        if "\n" in message or len(message) > 13_000:
            outcome = "a message that is not one short line"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {str(error)[:80]}"
    if len(events) > before:
        return f"{events[-1][:100]}"
    return outcome if time.process_time() - began < SECONDS else f"over {SECONDS} s"


def run_step(reader: Reader, first: int, count: int, seed: int, keep: Path) -> Counter[str]:
    """Read `count` inputs in a process of its own; return how often each outcome was."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _child(reader, folder, range(first, first + count), seed, send)
            finally:
                os._exit(0)
        os.close(send)
        outcomes: Counter[str] = Counter()
        done, buffer = 0, b""
        deadline = time.monotonic() + SECONDS * 2 + 60
        while True:
            ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(receive, 65_536) if ready else b""
            if not part:
                break
            buffer += part
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                outcome = line.decode("utf-8", "replace")
                outcomes[outcome] += 1
                if outcome not in ("read", "refused"):
                    _keep(reader, first + done, seed, keep)
                done += 1
            deadline = time.monotonic() + SECONDS * 2 + 60
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receive)
        if done < count:  # this input ended the process, or it hangs
            outcomes["the process ended, or hangs"] += 1
            _keep(reader, first + done, seed, keep)
            if done + 1 < count:
                outcomes += run_step(reader, first + done + 1, count - done - 1, seed, keep)
        return outcomes


def _keep(reader: Reader, number: int, seed: int, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    name = f"{reader.name.replace(' ', '-')}.{seed}.{number}"
    (keep / name).write_bytes(input_of(reader, number, seed))


def input_of(reader: Reader, number: int, seed: int) -> bytes:
    """Return the input of this number."""
    draw = random.Random(f"{seed} {reader.name} {number}")
    return changed(draw.choice(reader.valid), draw)


def _child(reader: Reader, folder: Path, numbers: range, seed: int, send: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics are printed
    events: list[str] = []
    watch(folder, events)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    file = folder / "input"
    for number in numbers:
        file.write_bytes(input_of(reader, number, seed))
        outcome = " ".join(outcome_of(reader, file, events).split())
        os.write(send, f"{outcome}\n".encode("utf-8", "replace"))


def coverage(reader: Reader, seed: int, count: int) -> str:
    """Return which share of the lines of a reader's modules `count` inputs execute."""
    files = {str(TOP / "zoo" / f"{module.replace('.', '/')}.py") for module in reader.modules}
    executed: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            executed.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "input"
        sys.settrace(trace)
        try:
            for number in range(count):
                file.write_bytes(input_of(reader, number, seed))
                outcome_of(reader, file, [])
        finally:
            sys.settrace(None)
    lines = {(f, line) for f in files for line in _lines(Path(f))}
    return f"{100 * len(executed & lines) // max(len(lines), 1)}%"


def _lines(file: Path) -> Iterator[int]:
    """Yield the lines of all functions of a module."""
    pending = [compile(file.read_text(encoding="utf-8"), str(file), "exec")]
    while pending:
        code = pending.pop()
        inner = [c for c in code.co_consts if hasattr(c, "co_code")]
        if code.co_name != "<module>":
            yield from (line for _, _, line in code.co_lines() if line)
        pending += inner


def campaign(inputs: int, seed: int, first: int, keep: Path, chosen: str) -> list[list[str]]:
    """Share the inputs between the readers; return a row for each."""
    every = [reader for reader in readers() if chosen in ("", reader.name)]
    rows = []
    for reader in every:
        began, outcomes = time.monotonic(), Counter[str]()
        share = max(inputs // len(every), 1)
        for start in range(first, first + share, STEP):
            outcomes += run_step(reader, start, min(STEP, first + share - start), seed, keep)
            print(f"\r{reader.name}: {sum(outcomes.values()):,} ", end="", file=sys.stderr)
        wrong = {k: n for k, n in outcomes.items() if k not in ("read", "refused")}
        rows.append([
            reader.name, f"{share:,}", f"{outcomes['read']:,}", f"{outcomes['refused']:,}",
            "; ".join(f"{n} × {k}" for k, n in wrong.items()) or "none",
            coverage(reader, seed, min(share, 100)), f"{time.monotonic() - began:.0f} s",
        ])  # fmt: skip
    print(file=sys.stderr)
    return rows


def main() -> None:
    """Run the campaign and print its table; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="go on after this many of each reader")
    parser.add_argument("--reader", default="", help="only this reader")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    rows = campaign(given.inputs, given.seed, given.first, given.keep, given.reader)
    head = ["reader", "inputs", "read", "refused", "wrong", "lines of the reader executed", "time"]
    table = "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])
    options = f"--inputs {given.inputs} --seed {given.seed} --first {given.first}"
    text = (
        f"Printed by `python tests/campaigns/fuzz.py {options}`:\nPython "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} shared cores. Limits "
        f"of an input: {SECONDS} s of the processor, {MEMORY:,} bytes.\nCoverage is that of the "
        f"first 100 inputs of each reader.\n\n{table}\n"
    )
    print(text)
    if given.write:
        given.write.write_text(f"# Fuzzing\n\n{text}", encoding="utf-8")
    sys.exit(any(row[4] != "none" for row in rows))


if __name__ == "__main__":
    main()
