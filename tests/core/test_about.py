"""What a checkpoint says about itself: written, kept, and read strictly."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from zoo.checkpoint.about import DECODING_LIMITS, LIST_LIMIT, NOT_RECOMMENDED, About
from zoo.checkpoint.checkpoint import convert
from zoo.checkpoint.format import about_of, describe
from zoo.decoding.options import search_options
from zoo.errors import CheckpointError
from zoo.registry.builtin import top
from zoo.registry.declarations import Dataset
from zoo.training.reading import are_lower_case, are_single_words, by_task

RELEASED = top() / "cards" / "checkpoints" / "rnnsearch-tiny.numbers-en-fr"
FULL = About(
    ("en", "eng_Latn"), ("de",), "captions", "CC BY 4.0", {"beam": 5, "banned": ("x", 7)},
    "fine-tuned", "hf://a/b", ("A dog walks.",),
    tasks={"en-fr: ": ("en", "fr"), "date: ": ("", "")},
)  # fmt: skip


@pytest.fixture
def described(tmp_path: Path) -> Callable[[object], Path]:
    """Return a function that gives a copy of a checkpoint with another `about`."""

    def write(about: object) -> Path:
        folder = Path(shutil.copytree(RELEASED, tmp_path / "copy"))
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "about": about}))
        return folder

    return write


def test_it_survives_a_round_trip() -> None:
    assert About.parse(json.loads(json.dumps(FULL.as_json()))) == FULL
    assert About.parse({}) == About() == About.parse(About().as_json())


def test_unknown_keys_are_ignored_so_that_later_versions_can_add_some() -> None:
    assert About.parse({"data": "x", "mood": [1]}) == About(data="x")


def test_training_writes_it(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one dog\ntwo dogs\n" * 20)
    (tmp_path / "a.de").write_text("ein Hund\nzwei Hunde\n" * 20)
    out = zoo.train(
        "seq2seq-tiny", f"{tmp_path}/a:en-de", tmp_path / "out", steps=2,
        settings={"embedding_dim": 8, "hidden_dim": 8, "tokenizer": "char"},
    )  # fmt: skip
    checkpoint = zoo.load(out).checkpoint
    (longest,) = checkpoint.source_tokenizer.encode(["two dogs"])
    expected = About(("en",), ("de",), "a:en-de", trained_length=len(longest) + 1, lower_case=True)
    assert about_of(describe(out)) == expected == checkpoint.about


@pytest.mark.parametrize(
    ("more", "single", "small"),
    [
        ("", True, True),
        ("two dogs\tzwei Hunde\n", False, True),
        ("Dogs\tHunde\n", True, False),
    ],
)
def test_training_notices_single_words_and_small_letters(
    more: str, single: bool, small: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.en-de.tsv").write_text("dog\tein Hund\ncats\tKatzen\n" * 20 + more)
    out = zoo.train(
        "seq2seq-tiny", tmp_path / "a.en-de.tsv", tmp_path / "out", steps=1,
        settings={"embedding_dim": 8, "hidden_dim": 8, "tokenizer": "bpe", "vocab_size": 40},
    )  # fmt: skip
    about = zoo.load(out).checkpoint.about
    assert about.single_words is single
    assert about.lower_case is small
    assert ("word by word" in (out / "README.md").read_text()) is single
    with pytest.raises(CheckpointError, match="single_words must be true or false"):
        replace(about, single_words=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("texts", "single"), [
    (["我喜欢狗。", "他走了", "你好吗？"], False),
    (["ฉันพบคุณเมื่อวันจันทร์ที่แล้ว", "ฉันไป"], False),
    (["ខ្ញុំទៅ។", "បាទ។"], False),
    (["狗", "猫", "图书馆"], True),
    (["แมว", "หมา"], True),
    (["dog!", "antidisestablishmentarianism"], True),
])  # fmt: skip
def test_sentences_of_scripts_without_spaces_are_no_single_words(
    texts: list[str], single: bool
) -> None:
    """A long one would be cut between any two characters, not at its commas."""
    assert are_single_words(texts) is single


def test_training_notices_tasks_of_single_words_and_of_small_letters() -> None:
    texts = ["word: dog", "word: cats", "text: a dog", "text: dog", "a dog"]
    tasks = {"word: ": ("en", ""), "text: ": ("en", "de"), "other: ": ("en", "")}
    sources = by_task(texts, tasks)
    assert sources == {"word: ": ["dog", "cats"], "text: ": ["a dog", "dog"], "other: ": []}
    assert [are_single_words(each) for each in sources.values()] == [True, False, False]
    assert by_task(texts, {}) == {}
    for name in ("single_word_tasks", "lower_case_tasks"):
        with pytest.raises(CheckpointError, match=f"{name} must be a list of tags"):
            About(**{name: "word: "})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["twenty-one"] * 20, True),
        (["twenty-one"] * 19, False),  # so few may be chance
        (["twenty-one"] * 2_000 + ["Dr. No"], False),
        (["twenty-one"] * 20 + ["日本"] * 20, True),
        (["twenty-one"] * 20 + ["日本"] * 21, False),  # in which capitals are not small ones
        (["twenty-one"] * 20 + ["21"], True),
        (["日本"] * 50, False),
    ],
)
def test_training_notices_small_letters(texts: list[str], expected: bool) -> None:
    assert are_lower_case(texts) is expected


def test_a_dataset_that_a_description_cannot_hold_is_shortened() -> None:
    dataset = Dataset("a\nb", "", lambda split, limit: [], ("e.n", "de"), terms="x\n" * 9_000)
    about = About.of_dataset(dataset)
    assert about.source_languages == ()
    assert about.target_languages == ("de",)
    assert about.data == "a b"
    assert len(about.terms) == 10_000


def test_what_files_are_called_besides_languages_is_no_language() -> None:
    for side in ("src", "trg", "tgt", "ref", "in", "out"):
        about = About.of_dataset(Dataset("a", "", lambda split, limit: [], ("en", side)))
        assert (about.source_languages, about.target_languages) == (("en",), ())


def test_the_tasks_of_a_dataset_are_kept() -> None:
    tasks = {"a: ": ("en", "e.n"), "b: ": ("", "fr")}
    about = About.of_dataset(Dataset("a", "", lambda split, limit: [], tasks=tasks))
    assert about.tasks == {"a: ": ("en", ""), "b: ": ("", "fr")}
    changed = about.with_changes({"tasks.a: ": None, "tasks.c:": ["en", "it"]})
    assert changed.tasks == {"b: ": ("", "fr"), "c:": ("en", "it")}


def test_conversion_push_and_pull_keep_it(
    described: Callable[[object], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder = described(FULL.as_json())
    convert(folder, tmp_path / "half", "float16")
    assert about_of(describe(tmp_path / "half")) == FULL
    (tmp_path / "hub").mkdir()
    zoo.push(tmp_path / "half", f"file://{tmp_path}/hub/x")
    assert about_of(describe(zoo.pull(f"file://{tmp_path}/hub/x"))) == FULL


def test_every_option_is_bounded_or_has_few_values() -> None:
    for option in search_options():
        bounded = option.name in DECODING_LIMITS or option.limits.at_most <= 10
        assert bounded or option.name in NOT_RECOMMENDED or option.kind in (bool, str), option.name


WRONG: dict[str, tuple[object, str]] = {
    "a list": ([], "'about' must be an object"),
    "types": (
        {"data": 1, "source_languages": "en", "origin": [], "examples": {}},
        "source_languages must be at most 1,000 language codes; data must be a line of at most "
        "1,000 characters; examples must be lines of at most 2,000 characters; origin must be "
        "trained or fine-tuned or imported"),
    "a language of two lines": ({"target_languages": ["de\n"]}, "target_languages must be"),
    "many languages": ({"target_languages": ["de"] * (LIST_LIMIT + 1)}, "target_languages must"),
    "nested lists": ({"source_languages": [[["en"]]]}, "source_languages must be"),
    "an escape": ({"terms": "free \x1b[2J"}, "terms must be a line"),
    "a surrogate": ({"examples": ["\udc80"]}, "half of a surrogate pair"),
    "a task without languages": ({"tasks": {"date: ": []}}, "tasks must be at most 1,000 tags of"),
    "a task of no language": ({"tasks": {"date: ": ["\n", ""]}}, "each with two language codes"),
    "a blank tag": ({"tasks": {" ": ["", ""]}}, "tags of 1 to 100 characters"),
    "a long tag": ({"tasks": {"x" * 101: ["", ""]}}, "tags of 1 to 100 characters"),
    "many tasks": ({"tasks": {f"{i}:": ["", ""] for i in range(1_001)}}, "tasks must be at most"),
    "a list of tasks": ({"tasks": ["date: "]}, "tasks must be at most"),
    "much text": ({"data": "x" * 1_001}, "data must be a line"),
    "a wide beam": ({"decoding": {"beam": 65}}, "decoding.beam must be at most 64"),
    "no beam": ({"decoding": {"beam": 0}}, "decoding.beam must be an integer of at least 1 and at"),
    "a beam of digits": ({"decoding": {"beam": 10**400}}, "decoding.beam is too large"),
    "an endless minimum": ({"decoding": {"min_length": 10**6}}, "at most 10,000, not 1000000"),
    "a wrong name": ({"decoding": {"beams": 5}}, "unknown option 'beams'; did you mean beam?"),
    "a long name": ({"decoding": {"x" * 10**6: 5}}, "unknown option 'xxx"),
    "many names": ({"decoding": {f"beam{i}": 5 for i in range(10**5)}}, "must be an object of"),
    "a user's choice": ({"decoding": {"n_best": 5}}, "decoding cannot contain n_best"),
    "a contradiction": (
        {"decoding": {"sample": True, "beam": 5}}, "`--sample` and `--beam 5` exclude each other"),
    "a deep list": ({"decoding": {"banned": [[[]]]}}, "decoding.banned is too large, or not"),
    "no decoding": ({"decoding": "beam"}, "decoding must be an object of search options"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_one_is_refused_in_one_short_line(
    described: Callable[[object], Path], case: str, tmp_path: Path, run: Callable[..., Result]
) -> None:
    value, message = WRONG[case]
    folder = described(value)
    readers: list[Callable[[], Any]] = [
        lambda: describe(folder),
        lambda: zoo.load(folder),
        lambda: convert(folder, tmp_path / "converted", "float32"),
    ]
    for reader in readers:
        with pytest.raises(CheckpointError) as error:
            reader()
        assert message in str(error.value)
        assert len(str(error.value)) < 800
        assert "\n" not in str(error.value)
    result = run("info", str(folder))
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
