"""A checkpoint knows the words of its training, and a translation says which others it guessed."""

from dataclasses import replace
from pathlib import Path

import pytest

import zoo
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.format import WORDS
from zoo.checkpoint.source_words import (
    LONGEST,
    MOST,
    as_text,
    list_words,
    read_words,
    unseen_words,
    words_in,
    words_of_both,
)
from zoo.errors import CheckpointError
from zoo.translation.translator import Translator

KNOWN = frozenset(["the", "dog", "runs", "it", "is", "my", "t", "shirt", "übermut"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Can't T-shirts run?", ["Can", "shirts", "run"]),
        ("a 3rd x_y 1990s dog", ["dog"]),
        ("See http://a.example/dogs or ann@dogs.example, he/she", ["See", "or", "he", "she"]),
        ("It ends.", ["It", "ends"]),
        ('<a href="http://a.example">the dog</a> [runs](http://a.example)', ["the", "dog", "runs"]),
        ("u\u0308ber naïve", ["über", "naïve"]),
        ("सेब खाता है", ["सेब", "खाता", "है"]),
        ("", []),
    ],
)
def test_words_have_two_letters_and_no_digits(text: str, words: list[str]) -> None:
    assert words_in(text) == words


def test_words_are_unseen_unless_they_are_known_or_repeated() -> None:
    assert unseen_words("The DOG barks at Übermut, barks", "", KNOWN) == ("barks", "at")
    assert unseen_words("The dog Rex runs", "Der Hund rex läuft", KNOWN) == ()
    assert unseen_words("The dog Rex runs", "Der Hund läuft", KNOWN) == ("Rex",)
    assert unseen_words("The dog Rex Rover runs", "", KNOWN, copied=("Rex Rover",)) == ()


def test_words_of_training_are_listed_by_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The dog runs", "the dog sleeps", "the cat sleeps", "the dog runs"]
    assert list_words(texts) == {"the", "dog", "runs", "sleeps", "cat"}
    monkeypatch.setattr("zoo.checkpoint.source_words.MOST", 3)
    assert list_words(texts) == {"the", "dog", "runs"}  # of equals, the first by the alphabet


def test_few_texts_are_listed_beside_the_words_of_an_earlier_training() -> None:
    texts = ["The dog barks.", "My T-shirt is blue.", "It runs."]
    assert list_words(texts) == frozenset()  # each has a word of its own
    listed = list_words(texts, KNOWN)
    assert listed == {"the", "dog", "barks", "my", "shirt", "is", "blue", "it", "runs"}
    assert list_words(["Elle mange.", "Il dort."], KNOWN) == frozenset()  # another language


def test_the_words_of_two_trainings_are_no_more_than_a_file_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new = frozenset(["dog", "cat"])
    assert words_of_both(KNOWN, new) == KNOWN | {"cat"}
    assert words_of_both(KNOWN, frozenset()) == words_of_both(frozenset(), new) == frozenset()
    monkeypatch.setattr("zoo.checkpoint.source_words.MOST", len(KNOWN))
    both = words_of_both(KNOWN, new)
    assert both == KNOWN - {"übermut"} | {"cat"}  # the longest word is left out
    (tmp_path / WORDS).write_text(as_text(both), encoding="utf-8")
    assert read_words(tmp_path) == both


@pytest.mark.parametrize(
    "texts",
    [
        [f"word{chr(97 + i)}" for i in range(20)],  # single words
        [f"这是第{chr(0x4E00 + i)}句话" for i in range(20)],  # without spaces
        [],
    ],
)
def test_texts_that_all_have_new_words_have_no_list(texts: list[str]) -> None:
    assert list_words(texts) == frozenset()


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_words(tmp_path) == frozenset()
    (tmp_path / WORDS).write_text(as_text(KNOWN), encoding="utf-8")
    assert read_words(tmp_path) == KNOWN
    assert (tmp_path / WORDS).read_text(encoding="utf-8").split() == sorted(KNOWN)
    (tmp_path / WORDS).write_bytes(as_text(KNOWN).replace("\n", "\r\n").encode())  # by Git
    assert read_words(tmp_path) == KNOWN
    (tmp_path / WORDS).write_text("runs\ndog\nruns\n", encoding="utf-8")
    assert read_words(tmp_path) == {"dog", "runs"}  # another order and repetitions change nothing
    words = list_words(f"{end} ΜΑΪ́ΟΥ सेब x²y K\u0301a ﬁn" for end in (".", "!", "?"))
    (tmp_path / WORDS).write_text(as_text(words), encoding="utf-8")
    assert read_words(tmp_path) == words
    assert len(words) == 5


@pytest.mark.parametrize(
    "content",
    [
        "dog", "\n", "dog\n\ncat\n", "d" * (LONGEST + 1) + "\n", "dog\n" * (MOST + 1),
        "Dog\n", "dog\n\0\0\n", "the dog\n", "dog\t12\n", "dog-house\n", "dog\rcat\n",
    ],
)  # fmt: skip
def test_a_damaged_list_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / WORDS).write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match="is no list of words") as error:
        read_words(tmp_path)
    assert "\n" not in str(error.value)
    (tmp_path / WORDS).write_bytes(b"\xff\n")
    with pytest.raises(CheckpointError, match="not UTF-8"):
        read_words(tmp_path)


def test_each_alternative_has_unseen_words_of_its_own() -> None:
    translator = zoo.load("transformer-tiny.numbers-en-fr")
    best = translator.translate("twenty-two zebras", details=True, beam=3, n_best=3)
    assert [one.unseen_words for one in (best, *best.alternatives)] == [("zebras",)] * 3


def test_translations_say_which_words_are_guessed() -> None:
    known = zoo.load("transformer-tiny.numbers-en-fr").checkpoint
    assert "twenty" in known.words

    def unseen(*checkpoints: Checkpoint) -> tuple[str, ...]:
        return Translator(*checkpoints).translate("twenty-two zebras", details=True).unseen_words

    assert unseen(known) == ("zebras",)
    assert unseen(replace(known, words=frozenset())) == ()
    more = replace(known, words=known.words | {"zebras"})
    assert unseen(known, more) == ()  # a member of the ensemble knows it
    assert unseen(known, replace(known, words=frozenset())) == ()
    about = replace(known.about, single_words=True)
    assert unseen(replace(known, about=about)) == ()


def test_scripts_without_spaces_have_no_list_of_words() -> None:
    """What stands between their marks is a clause: a new one would be named as a word."""
    texts = [f"{one}，{other}。" for one in ("你好", "再见", "谢谢") for other in ("老师", "朋友")]
    assert list_words(texts * 5) == frozenset()
    assert list_words(["안녕 선생님.", "안녕 친구.", "잘 가 친구."]) == {"안녕", "선생님", "친구"}


def test_the_turkish_capital_with_a_dot_is_an_i(tmp_path: Path) -> None:
    listed = list_words(["İzmir güzel.", "İzmir uzak.", "Uzak güzel."])
    assert listed == {"izmir", "güzel", "uzak"}
    assert unseen_words("İzmir izmir", "", listed) == ()
    (tmp_path / WORDS).write_text("i\u0307zmir\n", encoding="utf-8")  # of an earlier version
    assert read_words(tmp_path) == {"izmir"}
