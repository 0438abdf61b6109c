"""One's own data: CSV, compressed files and pairs from Python."""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
import pytest

import zoo
from tests.core.test_training import SMALL, same
from zoo.data import compressed
from zoo.data.csv import read_csv
from zoo.data.datasets import file_dataset, find_dataset
from zoo.data.pairs import write_pairs
from zoo.data.readers import bounded_lines, count_lines, read_lines
from zoo.errors import DataError, UnknownNameError
from zoo.registry.declarations import Pair
from zoo.registry.registry import default_registry
from zoo.training.request import TrainingRequest
from zoo.training.session import begin

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip
if sys.version_info >= (3, 14):
    from compression import zstd

    # Without a checksum, which the program `zstd` adds, damage may read as another text.
    WITH_CHECKSUM = {zstd.CompressionParameter.checksum_flag: 1}
    PACK[".zst"] = lambda content: zstd.compress(content, options=WITH_CHECKSUM)


def text(lines: int) -> bytes:
    draw = random.Random(lines)
    return b"".join(b"%d %d\n" % (i, draw.getrandbits(200)) for i in range(lines))


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("streams", [1, 2])
def test_compressed_files_read_like_plain_ones(suffix: str, streams: int, tmp_path: Path) -> None:
    """Also concatenated ones, and those larger than any buffer."""
    plain, packed = tmp_path / "text", tmp_path / f"text{suffix}"
    parts = [text(4000), text(3000)][:streams]
    plain.write_bytes(b"".join(parts))
    packed.write_bytes(b"".join(map(PACK[suffix], parts)))
    assert list(read_lines(packed)) == list(read_lines(plain))
    assert count_lines(packed) == count_lines(plain)


@pytest.mark.parametrize("suffix", PACK)
def test_damaged_and_short_files_are_refused(suffix: str, tmp_path: Path) -> None:
    """Whatever byte is changed or wherever the file ends: an error, or the whole text."""
    file, whole = tmp_path / f"text{suffix}", text(300)
    packed = PACK[suffix](whole)
    draw = random.Random(3)
    refused, reasons = 0, set[str]()
    for _ in range(60):
        at = draw.randrange(len(packed))
        damaged = bytearray(packed)
        damaged[at] ^= 1 << draw.randrange(8)
        for content in (bytes(damaged), packed[:at]):
            file.write_bytes(content)
            try:
                lines = list(read_lines(file))
            except DataError as error:
                reasons.add(error.what)
                refused += 1
            else:
                assert "\n".join(lines) + "\n" == whole.decode()
    assert refused > 100
    assert reasons <= {f"{file} is damaged", f"{file} is empty"}


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_that_unpacks_to_too_much_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "FREE_SIZE", 100_000)
    file = tmp_path / f"bomb{suffix}"
    file.write_bytes(PACK[suffix](b"0123456789\n" * 200_000))
    size = 100_000 + compressed.RATIO_LIMIT * file.stat().st_size
    with pytest.raises(DataError, match=f"unpacks to more than {size:,} bytes"):
        list(read_lines(file))


def test_the_page_states_to_how_much_a_file_may_unpack() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    size = f"{compressed.FREE_SIZE // 10**9} GB plus {compressed.RATIO_LIMIT} times its size"
    assert f"unpacks to more than {size}" in " ".join(page.split())


def test_xz_with_a_huge_dictionary_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**20}]
    content = bytearray(lzma.compress(b"a b\n", filters=filters))
    # The dictionary's size, in the header of the block, and that header's checksum.
    at = content.index(bytes([0x21, 0x01]), 12) + 2
    content[at] = 40
    length = (content[12] + 1) * 4
    content[12 + length - 4 : 12 + length] = zlib.crc32(content[12 : 12 + length - 4]).to_bytes(
        4, "little"
    )
    file.write_bytes(bytes(content))
    with pytest.raises(DataError, match="damaged: Memory usage limit exceeded"):
        list(read_lines(file))


def test_zstd_needs_a_python_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `compression` of somebody else does not stand in for Python's."""
    monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    (tmp_path / "text.zst").write_bytes(b"")
    with pytest.raises(DataError, match="this Python has no zstd; most have it from version 3"):
        list(read_lines(tmp_path / "text.zst"))


def test_what_zstd_calls_an_error_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class is related to no other error, and only some Pythons have it."""

    class ZstdError(Exception):
        pass

    class ZstdFile(io.RawIOBase):
        def __init__(self, raw: IO[bytes]) -> None:
            pass

        def readinto(self, buffer: Any) -> int:
            raise ZstdError("Unknown frame descriptor")

    module = ModuleType("compression.zstd")
    vars(module).update(ZstdError=ZstdError, ZstdFile=ZstdFile)
    monkeypatch.setitem(sys.modules, "compression.zstd", module)
    (tmp_path / "text.zst").write_bytes(b"?")
    with pytest.raises(DataError, match="is damaged: Unknown frame descriptor"):
        list(read_lines(tmp_path / "text.zst"))


def test_parallel_files_may_be_compressed(parallel: Path, tmp_path: Path) -> None:
    expected = file_dataset(f"{parallel}:en-de").load("all")
    for language, suffix in (("en", ".gz"), ("de", ".xz")):
        file = parallel.with_name(f"corpus.{language}")
        file.with_name(file.name + suffix).write_bytes(PACK[suffix](file.read_bytes()))
        file.unlink()
    assert file_dataset(f"{parallel}:en-de").load("all") == expected
    rows = "".join(f"{a}\t{b}\n" for a, b in expected).encode()
    (tmp_path / "all.tsv.bz2").write_bytes(bz2.compress(rows))
    assert file_dataset(str(tmp_path / "all.tsv.bz2")).load("all") == expected


@pytest.mark.parametrize(
    ("content", "columns", "expected"),
    [
        ("source,target\na,b\n", (), [("a", "b")]),
        ("Target;Source\r\nb;a\r\n", (), [("a", "b")]),
        ("English|German\na|b\n\nc|d", (), [("a", "b"), ("c", "d")]),
        ("id\ten\tde\n1\ta\tb\n", ("de", "en"), [("b", "a")]),
        ('source,target\n"one, two","he said ""no"""\n', (), [("one, two", 'he said "no"')]),
        ('source,target\n"one\ntwo",x\n', (), [("one two", "x")]),
        ("\ufeffsource,note,target\nä,,ß\n", (), [("ä", "ß")]),
        ("source,target\na;b,c;d\n", (), [("a;b", "c;d")]),
        ('source, target\n"one, two", "x, y"\n', (), [("one, two", "x, y")]),
    ],
)  # fmt: skip
def test_csv(
    content: str, columns: tuple[str, ...], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "pairs.csv"
    file.write_bytes(content.encode())
    assert list(read_csv(file, columns)) == [Pair(*pair) for pair in expected]
    spec = f"{file}:{'-'.join(columns)}" if columns else str(file)
    assert file_dataset(spec).load("all") == [Pair(*pair) for pair in expected]


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("", (), "is empty: it has no lines"),
        ("a,b,c\n", (), "no column 'source' or 'target': its columns are a, b, c. Name two"),
        ("id,English,French\n", (), "Name two of them after the file, such as .*:English-French$"),
        ("en,ger,x\n", ("en", "gre"), r"no column 'gre' \(did you mean ger\?\)"),
        ("source,target\na,b\na,b,c\n", (), "line 3, has 3 cells: the header has 2"),
        ('source,target\n"a,b\nc,d\n', (), "line 3, is not CSV: unexpected end of data"),
        ('source,target\n"a" b,c\n', (), "line 2, is not CSV"),
        ("source,\rtarget\n", (), "line 1, has a carriage return inside"),
        ('source,"x\ny",z\n', (), "its columns are source, x y, z"),
        ("source,target\n" + "x" * 140_000 + ",y\n", (), "field larger than field limit"),
        ("words\none\n", (), "no column 'source' or 'target'"),
        ("Go.,Va !\nHi.,Salut.\n", (), "has no header: its first record, 'Go.', looks like text"),
        ("source,target\na,\udcff\n", (), "line 2, is not UTF-8"),
    ],
)
def test_wrong_csv_is_refused(
    content: str, columns: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.csv"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=message):
        list(read_csv(file, columns))


@pytest.mark.parametrize("header", ["\tsource\ttarget\n", "id\ten\tfr\n", ""])
def test_tsv_whose_first_column_numbers_the_lines_is_refused(header: str, tmp_path: Path) -> None:
    """As pandas writes a table, with its index and the names of its columns, or without them."""
    file = tmp_path / "p.tsv"
    file.write_text(header + "".join(f"{n}\tone two\tun deux\n" for n in range(5)))
    command = "such as tail -n" if header else "such as cut -f2,3"
    with pytest.raises(DataError, match=f"only numbers in its first column.*{command}"):
        file_dataset(str(file)).load("all")


@pytest.mark.parametrize(
    ("first", "what", "command"),
    [("0.{n}", "numbers", "cut -f2,3"), ("1.5e-{n}", "numbers", "cut -f2,3"),
     ("en\tfr", "'en'", "cut -f3,4")],
)  # fmt: skip
def test_tsv_whose_first_column_has_scores_or_a_language_is_refused(
    first: str, what: str, command: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.tsv"
    file.write_text("".join(f"{first.format(n=n)}\tone two\tun deux {n}\n" for n in range(5)))
    with pytest.raises(DataError, match=f"only {what} in its first column: .* such as {command}"):
        file_dataset(str(file)).load("all")


def test_tsv_with_an_equal_first_column_of_text_is_read(tmp_path: Path) -> None:
    """Such as several references of one source, with their authors; or two columns of numbers."""
    file = tmp_path / "p.tsv"
    file.write_text("".join(f"one two\tun deux {n}\tann\n" for n in range(5)))
    assert file_dataset(str(file)).load("all")[4] == Pair("one two", "un deux 4")
    file.write_text("".join(f"{n}\t{n}.5\n" for n in range(5)))
    assert file_dataset(str(file)).load("all")[4] == Pair("4", "4.5")


@pytest.mark.parametrize("line", ['"a {n}"\t"b"', '"a ""{n}"""\tb'])
def test_tsv_with_quotes_around_its_texts_is_refused_and_read_as_csv(
    line: str, tmp_path: Path
) -> None:
    """The command that the message has makes a file that is read without the quotes."""
    file = tmp_path / "p.tsv"
    file.write_text("".join(line.format(n=n) + "\n" for n in range(5)))
    with pytest.raises(DataError, match="has quotes around its texts, such as ") as caught:
        file_dataset(str(file)).load("all")
    command = str(caught.value).partition("first line: ")[2]
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    read = file_dataset(str(tmp_path / "new.csv")).load("all")
    assert read[4] == Pair('a "4"' if '""' in line else "a 4", "b")


@pytest.mark.parametrize(
    "header",
    [
        "source\ttarget", "src_text\ttgt_text", "sourcesentence\ttargetsentence", "en\tfr",
        "English\tFrench", "eng_Latn\tfra_Latn", "en-US\tpt-BR", "Deutsch\tEnglisch",
        "Anglais\tFrançais", "Inglés\tEspañol", "中文\t英文", "original\ttranslation",
        "question\tanswer", "Source text\tTarget text", "SOURCE (en)\tTARGET (fr)",
        "Text\tLabel", "text_en\ttext_fr", "English text\tFrench translation",
        "source.en\ttarget.fr", "Original [eng_Latn]\tTranslation [deu_Latn]",
        "Source language\tTarget language",
    ],
)  # fmt: skip
def test_tsv_whose_first_line_names_the_columns_is_refused(header: str, tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    file.write_text(f"{header}\tid\n" + "one two\tun deux\t1\n" * 5, encoding="utf-8")
    with pytest.raises(DataError, match="has the names of columns in its first line, ") as caught:
        file_dataset(str(file)).load("all")
    assert " and ".join(header.split("\t")) in str(caught.value)


def test_runs_of_spaces_in_the_first_line_of_a_table_are_single_spaces(tmp_path: Path) -> None:
    """Of a thousand in a row, the search for a language in brackets had not ended in an hour."""
    file, spaces = tmp_path / "p.tsv", " " * 1_000
    file.write_text("Source   text\tTARGET  (fr)\n" + "one two\tun deux\n" * 5)
    with pytest.raises(DataError, match=r"first line, Source text and TARGET \(fr\)"):
        list(zoo.read_tsv(file))
    first = Pair(f"a{spaces}({spaces}b", f"c ({spaces}")
    file.write_text("\t".join(first) + "\n" + "one two\tun deux\n" * 5)
    assert next(iter(zoo.read_tsv(file))) == first


@pytest.mark.parametrize(
    "first",
    [
        "My question\tLa question", "The source\tLa source", "text\ttexte", "Question\tFrage",
        "German\tDeutsch", "English\tanglais", "Is no\tEs no", "source (old)\ttarget (new)",
        "no-go\tso-so", "Text me.\tSchreib mir.", "Source\tSource", "(\t)", "\t", "en\t",
        "Label the text\tAnswer the question", "French is\tGerman no",
    ],
)  # fmt: skip
def test_tsv_whose_first_line_is_a_pair_is_read(first: str, tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    file.write_text(f"{first}\n" + "one two\tun deux\n" * 5, encoding="utf-8")
    assert file_dataset(str(file)).load("all")[0] == Pair(*first.split("\t"))


def test_tsv_of_words_may_begin_with_names_of_languages(tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    file.write_text("English\tFrench\n" + "one\tun\n" * 5, encoding="utf-8")
    assert file_dataset(str(file)).load("all")[0] == Pair("English", "French")


@pytest.mark.parametrize(
    "content",
    ["source\ttarget\n", "source\ttarget\none\tun\n", "Input\tOutput\n" + "one\tun\n" * 5]
    + [f"{names}\none two\tun deux\n" for names in ("en\tfr", "english\tfrench", "src\ttgt")]
    + [f"en\tfr\nGo{mark}\tVa{mark}\nHi{mark}\tSalut{mark}\nYes\tOui\n" for mark in ".!。"],
)
def test_names_of_columns_are_refused_in_short_files_too(content: str, tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="has the names of columns in its first line, "):
        list(zoo.read_tsv(file))


@pytest.mark.parametrize("content", ["en\tfr\n", "no\tnon\nyes\toui\n"])
def test_short_files_of_words_are_read(content: str, tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    file.write_text(content, encoding="utf-8")
    assert len(list(zoo.read_tsv(file))) == content.count("\n")


def test_tsv_of_quotations_is_read(tmp_path: Path) -> None:
    file = tmp_path / "p.tsv"
    rows = ['"Go."\t« Va. »', '"Go" and "stay"\t"Va" et "reste"', 'an inch: 1"\tun pouce'] * 3
    file.write_text("\n".join(rows))
    assert file_dataset(str(file)).load("all")[0] == Pair('"Go."', "« Va. »")


@pytest.mark.parametrize(
    ("pack", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2"), (lzma.compress, ".xz")]
)
def test_a_packed_file_without_its_suffix_is_named_as_such(
    pack: Callable[[bytes], bytes], suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.tsv"
    file.write_bytes(pack(b"a\tb\n"))
    with pytest.raises(DataError, match=rf"Rename it: mv .*p\.tsv .*p\.tsv\{suffix}$"):
        file_dataset(str(file)).load("all")
    file.write_bytes(b"PK\x03\x04" + bytes(20))
    with pytest.raises(DataError, match=r"a table of a spreadsheet\. Unpack it, or save"):
        file_dataset(str(file)).load("all")


@pytest.mark.parametrize(("content", "message"), [
    ("a\tb\n".encode("utf-16-le"), "line 1, has a NUL byte: .* Convert it: iconv -f UTF-16LE"),
    ("a\tb\n".encode("utf-16-be"), "line 1, has a NUL byte: .* Convert it: iconv -f UTF-16BE"),
    (bytes(range(256)), "line 1, has a NUL byte: .* or text in UTF-16. Convert it to UTF-8$"),
    (b"\1\0\2\0" * 9, "line 1, has a NUL byte: .* or text in UTF-16. Convert it to UTF-8$"),
    ("\ufeff日本\t\n".encode("utf-16-le"), "is in UTF-16. Convert it: iconv -f UTF-16 -t UTF-8"),
    ("a、😀\té\r\n".encode("utf-16-le"), "line 1, has a NUL .* Convert it: iconv -f UTF-16LE"),
    (b"ab\0\tb\n", "line 1, has a NUL byte: .* or text in UTF-16. Convert it to UTF-8$"),
    ("a\tb\n".encode("utf-16"), "is in UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 .*p.* > NEW"),
    ("a\tb\n".encode("utf-32"), "is in UTF-32. Convert it: iconv -f UTF-32 -t UTF-8 .*p.* > NEW"),
    ("\ufeffa\tb\n".encode("utf-32-be"), "is in UTF-32. Convert it: iconv -f UTF-32 -t UTF-8"),
    ("é\tb\n".encode("utf-32-le"), "line 1, has a NUL byte: .* Convert it: iconv -f UTF-32LE"),
    ("a\tb\n".encode("utf-32-be"), "line 1, has a NUL byte: .* Convert it: iconv -f UTF-32BE"),
    (b"caf\xe9\tb\n", "byte 4 .* from Windows: iconv -f WINDOWS-1252 -t UTF-8 .*p.* > NEW"),
    (b"a\tb\rc\td\r", "line 1, has a carriage return inside: its lines may .* < .*p.* > NEW$"),
])  # fmt: skip
def test_text_of_other_systems_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    for name in ("p.tsv", "p.en", "p.fr"):
        (tmp_path / name).write_bytes(content)
    for spec in ("p.tsv", "p:en-fr"):
        with pytest.raises(DataError, match=message):
            file_dataset(str(tmp_path / spec)).load("all")


def test_commands_to_copy_quote_the_names_of_files(tmp_path: Path) -> None:
    file = tmp_path / "my $(pairs).tsv"
    file.write_bytes(b"caf\xe9\tb\n")
    with pytest.raises(DataError, match=r"-t UTF-8 '/.*my \$\(pairs\)\.tsv' > NEW"):
        file_dataset(str(file)).load("all")


@pytest.mark.parametrize(("line", "message"), [
    ('{"source": "a", "target": 5}', r"no text under .* Write target as strings, in quotes$"),
    ('{"id": "7", "en": "a", "fr": "b"}', r"name them after the file, such as .*:en-fr"),
    ('{"a-b": "a", "fr": "b"}', r"name them after the file, such as .*\.jsonl:en-de"),
    ('{"source": "a", "target": "\\u0000"}', "line 1, is not text: it has a NUL character$"),
    ('{"source": ', r"line 1, is not JSON: Expecting value: column 12 \(char 11\)$"),
])  # fmt: skip
def test_objects_of_another_form_are_answered_with_what_to_write(
    line: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        file_dataset(str(file)).load("all")


def test_files_may_be_named_by_text(tmp_path: Path) -> None:
    for name, content in (("p.tsv", "a\tb\n"), ("p.en", "a\n"), ("p.de", "b\n")):
        (tmp_path / name).write_text(content)
    assert list(zoo.read_tsv(f"{tmp_path}/p.tsv")) == [Pair("a", "b")]
    assert list(zoo.read_parallel(f"{tmp_path}/p.en", f"{tmp_path}/p.de")) == [Pair("a", "b")]


def test_what_is_no_regular_file_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "folder.tsv").mkdir()
    os.mkfifo(tmp_path / "pipe.tsv")
    for name, what in (("folder", "a folder"), ("pipe", "a pipe or a device")):
        with pytest.raises(DataError, match=rf"cannot be read: it is {what}\. Name a regular file"):
            file_dataset(str(tmp_path / f"{name}.tsv"))


def test_a_file_of_another_kind_is_answered_with_those_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "pairs.xlsx").write_text("a\tb\n")
    with pytest.raises(DataError, match=r"pairs.xlsx cannot be read: a file of pairs ends in .tsv"):
        find_dataset(default_registry(), str(tmp_path / "pairs.xlsx"))


@pytest.mark.parametrize(
    ("name", "advice"),
    [("pairs.tmx", "Save its pairs as CSV"), ("pairs.XLSX", "Save its pairs as CSV"),
     ("pairs.txt", "Rename it"), ("pairs", "Rename it"), ("pairs.json", "one object a line")],
)  # fmt: skip
def test_only_a_file_of_text_is_renamed(tmp_path: Path, name: str, advice: str) -> None:
    """Under the name pairs.tsv, a translation memory would be refused for its first line."""
    (tmp_path / name).write_text("a\tb\n")
    with pytest.raises(DataError, match=advice):
        find_dataset(default_registry(), str(tmp_path / name))


def test_two_files_of_one_language_each_are_answered_with_how_they_are_named(
    parallel: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus.log").touch()
    (tmp_path / "corpus.de").rename(tmp_path / "corpus.de.gz")
    hint = f"For these two files, write {parallel}:de-en or {parallel}:en-de"
    with pytest.raises(DataError, match=r"there is no file .*\.fr: ") as missing:
        find_dataset(default_registry(), f"{parallel}:en-fr")
    assert hint in str(missing.value)
    for name, kind in (("corpus", UnknownNameError), ("corpus.en", DataError),
                       ("corpus.de.gz", DataError)):  # fmt: skip
        with pytest.raises(kind) as refused:
            find_dataset(default_registry(), str(tmp_path / name))
        assert str(refused.value).endswith(hint)
    (tmp_path / "corpus.fr").touch()
    with pytest.raises(UnknownNameError, match="For files, write PREFIX:en-de"):
        find_dataset(default_registry(), str(parallel))
    with pytest.raises(DataError, match=r"cannot be read: it is a folder\. Name files in it"):
        find_dataset(default_registry(), str(tmp_path))


def test_a_first_line_of_csv_may_state_the_delimiter(tmp_path: Path) -> None:
    """As some programs write it for Excel; it is no header."""
    file = tmp_path / "a.csv"
    for stated, delimiter in (("sep=;", ";"), ('"sep=\t"', "\t"), ("sep=,", ",")):
        lines = [stated, delimiter.join(("English", "German")), delimiter.join(("a;b", "c"))]
        if delimiter == ";":
            lines[2] = '"a;b";c'
        file.write_text("\r\n".join([*lines, "", "x"]), encoding="utf-8")
        pairs = read_csv(file)
        assert next(pairs) == Pair("a;b", "c")
        with pytest.raises(DataError, match="line 5, has 1 cells"):
            next(pairs)


def test_names_of_columns_are_languages(tmp_path: Path) -> None:
    """A file is read alike whether they are in its header or after its name, codes or not."""
    file = tmp_path / "a.csv"
    for header, languages in {
        "fr,en": ("fr", "en"),
        "English;Français": ("en", "fr"),
        "Chinese\teng_Latn": ("zh", "eng_Latn"),
        "zho_Hant|pt-BR": ("zho_Hant", "pt-BR"),
        "source,target": ("", ""),
        "text,fr": ("", ""),
        "English,en": ("", ""),
        "fr,en,de": ("", ""),
        '"fr,en': ("", ""),
    }.items():
        file.write_text(f"{header}\n", encoding="utf-8")
        assert file_dataset(str(file)).languages == languages
        if all(languages):
            names = re.split("[,;|\t]", header)
            file.write_text(f"{header}\n{header}\n", encoding="utf-8")
            assert file_dataset(str(file)).load("all") == [Pair(*names)]
            if "pt-BR" not in names:
                assert file_dataset(f"{file}:{'-'.join(names)}").languages == languages


def test_json_that_has_no_line_for_each_object(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record = {"source": "a", "target": "b"}
    for content, command in (
        (json.dumps([record]), "jq -c '.[]'"),
        (json.dumps([record], indent=1), "jq -c '.[]'"),
        (json.dumps(record, indent=1), "jq -c . "),
    ):
        file.write_text(content)
        with pytest.raises(DataError) as raised:
            file_dataset(str(file)).load("all")
        assert f"It needs one object a line: {command}" in str(raised.value)


def test_suffixes_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "P.TSV").write_text("a\tb\n")
    assert file_dataset(str(tmp_path / "P.TSV")).load("all") == [Pair("a", "b")]


def test_pairs_from_python_train_like_a_file(parallel: Path, tmp_path: Path) -> None:
    """A generator that can be read once gives the same weights as the same pairs in a file."""
    expected = file_dataset(f"{parallel}:en-de").load("all")
    file = tmp_path / "pairs.jsonl"
    lines = [json.dumps({"source": a, "target": b}) + "\n" for a, b in expected]
    file.write_text("".join(lines))

    def generated() -> Iterator[tuple[str, str] | dict[str, str]]:
        for number, (source, target) in enumerate(expected):
            yield {"source": source, "target": target} if number % 2 else (source, target)

    zoo.train("rnnsearch-tiny", str(file), tmp_path / "a", settings=SMALL, steps=4)
    zoo.train("rnnsearch-tiny", generated(), tmp_path / "b", settings=SMALL, steps=4)
    assert same(tmp_path / "a", tmp_path / "b")
    held_out = json.loads((tmp_path / "b" / "training.json").read_text())
    assert held_out["data"] == "pairs.jsonl"


def test_a_run_keeps_the_pairs_from_python(
    parallel: Path, tmp_path: Path, generated_data: Path
) -> None:
    """It is resumed from its folder, without the cache; validation pairs are kept too."""
    pairs = file_dataset(f"{parallel}:en-de").load("all")
    validation = [{"source": p.source, "target": p.target} for p in pairs[:7]]
    settings = {**SMALL, "schedule": "constant"}
    zoo.train("rnnsearch-tiny", iter(pairs), tmp_path / "a", validation=validation,
              settings=settings, steps=3)  # fmt: skip
    for file in generated_data.glob("pairs/*/*.jsonl"):
        file.unlink()
    assert zoo.resume(tmp_path / "a", steps=5) == tmp_path / "a"
    description = json.loads((tmp_path / "a.run" / "run.json").read_text())
    assert description["data"] == str(tmp_path / "a.run" / "pairs.jsonl")
    kept = (tmp_path / "a.run" / "validation-pairs.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == validation


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "there are no pairs: the iterable is empty"),
        ([("a", "b"), ("a",)], r"item 2 is not a pair: it is \('a',\). Give \(source, target\)"),
        (["ab"], "item 1 is not a pair: it is 'ab'"),
        ([("a", None)], "item 1 has no target: a text is needed, not None"),
        ([{"source": "a", "traget": "b"}], "item 1 has no target"),
        ([("a", "\ud800")], "the target of item 1 is not text"),
        ([("a\0", "b")], "the source of item 1 is not text: it has a NUL character"),
        (b"ab", "no pairs: the data is of type bytes"),
        (3, "no pairs: the data is of type int"),
    ],
)  # fmt: skip
def test_what_is_not_pairs_is_refused(
    pairs: object, message: str, tmp_path: Path, generated_data: Path
) -> None:
    with pytest.raises(DataError, match=message):
        zoo.train("rnnsearch-tiny", pairs, tmp_path / "a", steps=1)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("a*"))
    assert not list(generated_data.glob("pairs/.*"))


def test_texts_with_any_character_survive(tmp_path: Path) -> None:
    pairs = [("a\tb", 'c\n"d"'), ("\u2028", "\x01"), ("  ä ", "\\n")]
    assert file_dataset(str(write_pairs(pairs))).load("all") == [Pair(*pair) for pair in pairs]


def test_rows_of_an_array_are_pairs() -> None:
    """As those of a table: `frame[["en", "de"]].to_numpy()`."""
    pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    for kind in (np.str_, object):
        file = write_pairs(np.array(pairs, dtype=kind))
        assert file_dataset(str(file)).load("all") == [Pair(*pair) for pair in pairs]
    with pytest.raises(DataError, match="item 1 is not a pair"):
        write_pairs(np.array([("a", "b", "c")]))


def test_a_session_reads_compressed_csv(parallel: Path, tmp_path: Path) -> None:
    rows = "".join(f'"{a}","{b}"\n' for a, b in file_dataset(f"{parallel}:en-de").load("all"))
    file = tmp_path / "pairs.csv.gz"
    file.write_bytes(gzip.compress(f"en,de\n{rows}".encode()))
    request = TrainingRequest("rnnsearch-tiny", f"{file}:en-de", tmp_path / "a", settings=SMALL,
                              steps=1)  # fmt: skip
    with begin(request) as session:
        assert len(session.trainer.data.corpus) == 57
        assert session.trainer.data.dataset.languages == ("en", "de")


def test_a_line_that_the_system_cannot_read_is_no_fault_of_a_dataset(tmp_path: Path) -> None:
    """Such as one of a failing disk, or of a server that has gone; the system names no file."""

    class Failing(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            if line := super().readline(size):
                return line
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    lines = bounded_lines(Failing(b"one\n"), "pairs.tsv")
    assert next(lines) == b"one\n"
    with pytest.raises(DataError) as raised:
        next(lines)
    assert str(raised.value) == f"pairs.tsv, line 2, cannot be read: {os.strerror(errno.EIO)}"
