"""Datasets by name, and parallel text from files."""

import itertools
import json
from pathlib import Path
from typing import NoReturn

import pytest
from num2words import num2words

from zoo.data.corpus import learn_tokenizers
from zoo.data.datasets import file_dataset, find_dataset, hash_split
from zoo.data.languages import split_pair
from zoo.data.readers import without_long_words
from zoo.data.tokenizer import Tokenizer
from zoo.errors import DataError, UnknownNameError
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry
from zoo_corpora.generated import SPLIT_SIZES, STYLES, draw, permute


def test_permute_is_a_permutation() -> None:
    for below in (1, 2, 7, 100, 1000, 4097):
        assert sorted(permute(index, below) for index in range(below)) == list(range(below))


def test_splits_of_numbers_are_disjoint_and_reproducible(registry: Registry) -> None:
    drawn = {split: list(draw(split, 1_000_000)) for split in SPLIT_SIZES}
    assert {split: len(set(n)) for split, n in drawn.items()} == SPLIT_SIZES
    assert len(set().union(*drawn.values())) == sum(SPLIT_SIZES.values())
    assert drawn["train"][:3] == [32717, 504048, drawn["train"][2]]
    pairs = find_dataset(registry, "numbers-en-fr").load("test")
    assert pairs == [Pair(num2words(n), num2words(n, lang="fr")) for n in drawn["test"]]


def test_numbers_are_written_as_people_type_them() -> None:
    words = "one hundred and one thousand, one hundred and twenty-one"
    assert [style(words) for style in STYLES.values()] == [
        words,
        "one hundred and one thousand one hundred and twenty-one",
        "one hundred one thousand one hundred twenty-one",
        "one hundred and one thousand one hundred and twenty one",
        "one hundred one thousand one hundred twenty one",
        "a hundred and one thousand one hundred and twenty-one",
    ]
    assert [STYLES["with “a” for “one”"](words) for words in ("one", "one thousand")] == [
        "one",
        "a thousand",
    ]


def test_numbers_are_generated_once(generated_data: Path, registry: Registry) -> None:
    dataset = find_dataset(registry, "numbers-en-fr")
    dataset.load("validation", 5)
    (file,) = generated_data.glob("datasets/numbers-en-fr-*/validation.tsv")
    before = file.stat().st_mtime_ns
    assert len(dataset.load("validation", 5)) == 5
    assert file.stat().st_mtime_ns == before
    assert not list(file.parent.glob("*.part"))


def test_shift(registry: Registry) -> None:
    dataset = find_dataset(registry, "shift")
    train = dataset.load("train", 2000)
    for source, target in train:
        items = source.split()
        assert len(items) == 10
        assert set(items) <= {str(n) for n in range(1, 11)}
        assert target == " ".join(items[1:])
    assert not {p.source for p in train} & {p.source for p in dataset.load("test")}
    assert {i for p in train for i in p.source.split()} == {str(n) for n in range(1, 11)}


def test_parallel_files(parallel: Path) -> None:
    dataset = file_dataset(f"{parallel}:en-de")
    everything = dataset.load("all")
    assert everything[0] == Pair("the dog runs.", "das Hund rennt.")
    assert len(everything) == 60
    parts = [dataset.load("train"), dataset.load("validation")]
    assert [len(part) for part in parts] == [57, 3]
    assert sorted(parts[0] + parts[1]) == sorted(everything)
    assert dataset.load("all", 7) == everything[:7]
    assert dataset.load("all", 10**30) == everything
    assert dataset.scored_split == "all"
    with pytest.raises(DataError, match="no split 'test': it has all, train and validation"):
        dataset.load("test")


def test_a_source_is_never_in_two_splits() -> None:
    pairs = [Pair(f"s{i % 40}", str(i)) for i in range(200)]
    parts = hash_split(pairs, {"validation": 10, "test": 20}, kept={"s3"})
    sources = {split: {p.source for p in part} for split, part in parts.items()}
    assert len(sources["validation"]) == 3
    assert len(sources["test"]) == 1
    assert "s3" in sources["train"]
    assert sum(len(s) for s in sources.values()) == 40


def test_words_that_are_also_names_of_languages_are_a_pair(tmp_path: Path) -> None:
    tsv = tmp_path / "words.tsv"
    tsv.write_text("es\tis\nno\tso\nda\tda\n")
    assert len(file_dataset(str(tsv)).load("all")) == 3
    tsv.write_text("text\ttext\na b\tc\nd e\tf\n")
    assert len(file_dataset(str(tsv)).load("all")) == 3


@pytest.mark.parametrize(("pair", "languages"), [
    ("zh-CN-en", ("zh-CN", "en")), ("en-zh-Hans", ("en", "zh-Hans")),
    ("es-419-en", ("es-419", "en")),
    ("sr-Latn-RS-en-GB", ("sr-Latn-RS", "en-GB")), ("zh_CN-en", ("zh_CN", "en")),
])  # fmt: skip
def test_codes_of_languages_may_have_hyphens(
    pair: str, languages: tuple[str, str], registry: Registry, tmp_path: Path
) -> None:
    for name in languages:
        (tmp_path / f"a.{name}").write_text(f"{name}\n", encoding="utf-8")
    dataset = file_dataset(f"{tmp_path}/a:{pair}")
    assert dataset.languages == languages
    if "419" not in pair and len(pair) < len("sr-Latn-RS-en"):
        with pytest.raises(UnknownNameError, match=f"(write|or) .*:{pair}"):
            find_dataset(registry, f"{tmp_path}/a")
    assert dataset.load("all") == [Pair(*languages)]


@pytest.mark.parametrize(("pair", "names"), [
    ("a-b-c", ()), ("zh-CN", ("zh", "CN")), ("12:30-final", ("12:30", "final")), ("en-", ()),
    ("zh-cn-en", ()),
])  # fmt: skip
def test_other_hyphens_are_in_names(pair: str, names: tuple[str, ...]) -> None:
    assert split_pair(pair) == names


def test_a_name_that_ends_like_two_languages_is_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "notes 12:30-final.tsv"
    file.write_text("a dog\tein Hund\n", encoding="utf-8")
    assert file_dataset(str(file)).load("all") == [Pair("a dog", "ein Hund")]


def test_tsv_and_json_lines(tmp_path: Path) -> None:
    tsv = tmp_path / "a.tsv"
    tsv.write_bytes("\ufeffGo.\tVa !\tCC\r\n\nHi\u2028there\tSalut\r\n\n".encode())
    assert file_dataset(str(tsv)).load("all") == [
        Pair("Go.", "Va !"),
        Pair("Hi\u2028there", "Salut"),
    ]
    lines = tmp_path / "a.jsonl"
    lines.write_text(json.dumps({"source": "a", "target": "b", "en": "c", "fr": "d"}) + "\n \n\n")
    assert file_dataset(str(lines)).load("all") == [Pair("a", "b")]
    assert file_dataset(f"{lines}:en-fr").load("all") == [Pair("c", "d")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"", "a.tsv is empty"),
        ("a.tsv", b"x\ty\nno tab\n", "line 2, has no tab"),
        ("a.tsv", b"1\ta\t7\tb\n2\tc\t8\td\n3\te\t9\tf\n", "such as cut -f2,4; or cut -f1,2"),
        ("a.tsv", b"EN\tGerman\na b\tc\nd e\tf\n", "first line, EN and German: each .* tail -n .2"),
        ("a.tsv", b"source\ttarget\tid\na b\tc\t1\nd e\tf\t2\n", "first line, source and tar"),
        ("a.tsv", b"x\ty\n\xff\tz\n", "line 2, is not UTF-8: byte 1 is 0xff"),
        ("a.jsonl", b'{"source": "x"}\n', "line 1, has no text under source and target"),
        ("a.jsonl", b'["x", "y"]\n', "line 1, has no text under"),
        ("a.jsonl", b"{\n", "line 1, is not JSON"),
        ("a.jsonl", b'{"to": {"en": "x"}}\n', "under 'to' may have them: jq -c "),
    ],
)
def test_files_that_are_not_well_formed(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        file_dataset(str(tmp_path / name)).load("all")


def test_the_error_about_files_of_unequal_length_has_both_counts(parallel: Path) -> None:
    with parallel.with_suffix(".de").open("a") as file:
        file.write("eins\nzwei\n")
    with pytest.raises(DataError, match="60 and 62 lines"):
        file_dataset(f"{parallel}:en-de").load("all")
    with pytest.raises(DataError, match="62 and 60 lines"):
        file_dataset(f"{parallel}:de-en").load("all")


def test_unknown_data(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean .*numbers-en-fr"):
        find_dataset(registry, "number-en-fr")
    with pytest.raises(DataError, match=r"no file .*corpus.en"):
        find_dataset(registry, f"{tmp_path}/corpus:en-de")


def test_a_dataset_is_not_blamed_for_memory_that_ran_out() -> None:
    def read(split: str, limit: int | None) -> NoReturn:
        raise MemoryError

    with pytest.raises(MemoryError):
        Dataset("large", "", read).load("test")


def test_corpora_need_a_folder(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_DATA", raising=False)
    with pytest.raises(DataError, match="ZOO_DATA is not set"):
        find_dataset(registry, "multi30k-en-de").load("train")


def test_multi30k(registry: Registry, corpora: Path) -> None:
    sizes = {"train": 29_000, "validation": 1_014, "test": 1_000}
    for pair in ("en-de", "de-en", "en-fr", "fr-en"):
        dataset = find_dataset(registry, f"multi30k-{pair}")
        assert {split: len(dataset.load(split)) for split in dataset.splits} == sizes
    forward, backward = (
        find_dataset(registry, f"multi30k-{p}").load("test", 3) for p in ("en-de", "de-en")
    )
    assert [Pair(b, a) for a, b in forward] == backward


def test_tatoeba(registry: Registry, corpora: Path) -> None:
    dataset = find_dataset(registry, "tatoeba-en-fr")
    parts = {split: dataset.load(split, 650) for split in dataset.splits}
    assert sum(len(part) for part in parts.values()) == 650
    assert min(len(part) for part in parts.values()) > 10
    assert {"Go.", "I lost.", "I'm calm.", "I'm home."} <= {pair.source for pair in parts["train"]}
    backward = find_dataset(registry, "tatoeba-fr-en")
    assert {Pair(b, a) for split in parts for a, b in backward.load(split, 650)} == {
        pair for part in parts.values() for pair in part
    }
    for each in (dataset, backward):
        sources = [{pair.source for pair in each.load(split)} for split in each.splits]
        for one, other in itertools.combinations(sources, 2):
            assert not one & other


def test_a_word_of_a_million_characters_is_not_learned(tmp_path: Path) -> None:
    lines = [f"the dog {n}\tder Hund {n}" for n in range(50)]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    plain = learn_tokenizers(file_dataset(str(tmp_path / "a.tsv")), None, Recipe(vocab_size=60))
    (tmp_path / "b.tsv").write_text("\n".join([*lines, f"{'dog' * 350_000}\t{'Hund' * 300_000}"]))
    other = learn_tokenizers(file_dataset(str(tmp_path / "b.tsv")), None, Recipe(vocab_size=60))
    assert [t.encode(["the dog 7 der Hund"]) for t in plain] == [
        t.encode(["the dog 7 der Hund"]) for t in other
    ]


def test_a_paragraph_without_spaces_is_learned() -> None:
    clauses = ("".join(chr(0x4E00 + (7 * i + j) % 500) for j in range(12)) for i in range(90))
    paragraph = "。".join(clauses)
    assert without_long_words(paragraph) == paragraph
    dna = "ACGT" * 250
    assert without_long_words(f"one {dna}, two") == "one  , two"
    assert without_long_words(dna + "\u0301") == " "


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("word", ["ACGT" * 250, "\ufb2c" * 300, "\ufb2c" * 333])
def test_what_is_learned_can_be_loaded(tmp_path: Path, kind: str, word: str) -> None:
    lines = [f"the dog {n}\tder Hund {n}" for n in range(20)] + [f"{word}\t{word}"] * 6
    (tmp_path / "a.tsv").write_text("\n".join(lines), encoding="utf-8")
    dataset = file_dataset(str(tmp_path / "a.tsv"))
    recipe = Recipe(tokenizer=kind, vocab_size=3000)
    source, _ = learn_tokenizers(dataset, None, recipe)
    (tmp_path / "tokenizer.json").write_text(source.to_json(), encoding="utf-8")
    assert Tokenizer.load(tmp_path / "tokenizer.json").size == source.size
