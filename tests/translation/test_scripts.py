"""What languages write in ways of their own: ends of sentences and clauses, capitals, numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from zoo.data.tokenizer import Tokenizer
from zoo.translation.garbled_names import garbled_names
from zoo.translation.long_sentences import divide
from zoo.translation.long_texts import split_long
from zoo.translation.scripts import clause_mark, large, small
from zoo.translation.sentences import Sentencex, split_sentences
from zoo.translation.spelling import Spelling, spelled
from zoo.translation.translation import Translation, as_typed, within_sentence


@pytest.mark.parametrize(("language", "expected"), [
    ("km", ["សួស្តី។", "អ្នកសុខសប្បាយទេ?", "បាទ។", "ខ្ញុំទៅ៕"]),
    ("am", ["ሰላም፡፡", "ደህና ነኝ።", "አዎ::"]),
    ("ko", ["저는 학생이 아닙니다.", "네.", "알겠습니다."]),
    ("he", ["א. ב. יהושע בא.", "הוא הלך."]),
    ("ja", ["彼は「行くよ。」と言った。", "「はい。」", "『いいえ！』って答えた。"]),
])  # fmt: skip
def test_sentences_end_at_the_marks_of_their_script(language: str, expected: list[str]) -> None:
    space = "" if language == "ja" else " "
    pieces = split_sentences(space.join(expected), Sentencex(language))
    texts = [piece.text for piece in pieces]
    assert texts == (expected if language != "he" else ["א. ב.", *texts[1:]])


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return list(map(len, texts))


@pytest.mark.parametrize(("text", "most", "count"), [
    ("मैं घर जाता हूँ।| तुम कैसे हो?| मैं यहाँ ठीक हूँ।", 5, words),
    ("میں گھر جاتا ہوں۔| تم کیسے ہو؟| میں ٹھیک ہوں۔", 4, words),
    ("ես տուն եմ գնում։| դու ինչպես ես։| ես լավ եմ։", 4, words),
    ("ខ្ញុំទៅ។|អ្នកសុខសប្បាយ។|បាទ។", 16, characters),
    ("ነጭ ውሻ አለ፤| ጥቁር ድመት አለ፣| አዎ", 3, words),
])  # fmt: skip
def test_long_texts_are_split_at_the_marks_of_their_script(
    text: str, most: int, count: Callable[[Sequence[str]], list[int]]
) -> None:
    expected = text.split("|")
    pieces = split_long("".join(expected), most, count)
    assert [piece.text for piece in pieces] == [part.strip() for part in expected]


def test_long_sentences_are_divided_after_the_commas_of_their_script() -> None:
    pieces = divide("ነጭ ውሻ ድመት አለ፣ ጥቁር ድመት አለ", 5, lambda texts: [1] * len(texts))
    assert [piece.text for piece in pieces] == ["ነጭ ውሻ ድመት አለ፣", "ጥቁር ድመት አለ"]


@pytest.mark.parametrize(("language", "source", "text", "expected"), [
    ("hi", "a dog", "एक कुत्ता।", "एक कुत्ता"),
    ("ur", "a dog", "ایک کتا۔", "ایک کتا"),
    ("zh", "a dog,", "一只狗。", "一只狗，"),
    ("ja", "a dog,", "犬。", "犬、"),
    ("ar", "a dog,", "كلب.", "كلب،"),
    ("en", "一只狗，", "A dog.", "A dog,"),
    ("en", "犬、", "A dog,", "A dog,"),
])  # fmt: skip
def test_parts_of_a_sentence_end_as_their_language_writes_clauses(
    language: str, source: str, text: str, expected: str
) -> None:
    tokenizer = Tokenizer.__new__(Tokenizer)
    made = within_sentence(Translation(source, text), True, False, tokenizer, "", language)
    assert made.text == expected


def test_clauses_have_the_marks_of_a_language() -> None:
    assert [clause_mark("，", code) for code in ("en", "de", "zh", "ja", "fa", "am", "")] == [
        ",", ",", "，", "、", "،", "፣", ","
    ]  # fmt: skip
    assert [clause_mark(";", code) for code in ("el", "ur", "ru")] == ["·", "؛", ";"]


def test_turkish_has_a_capital_with_a_dot() -> None:
    assert (small("ISPARTA İYİ", "tr"), small("ISPARTA", "en")) == ("ısparta iyi", "isparta")
    assert (large("ısı iyi", "tr"), large("iyi", "")) == ("ISI İYİ", "IYI")

    def costs(texts: Sequence[str]) -> list[tuple[int, int]]:
        known = {"kız", "Kız", "iyi", "İyi", "ısı"}
        return [
            (0, sum(1 if word in known else len(word) for word in text.split())) for text in texts
        ]

    assert spelled(["KIZ İYİ", "İYİ KIZ"], costs, "tr") == [
        Spelling("Kız iyi", capitals=True), Spelling("İyi kız", capitals=True)
    ]  # fmt: skip
    assert spelled(["bir ISI"], costs, "tr") == [Spelling("bir ısı")]
    assert spelled(["KIZ"], costs, "tr", lower_case=True) == [Spelling("kız", capitals=True)]
    one = Translation("GOOD", "iyi")
    assert as_typed(one, True, True, "", "tr").text == "İYİ"

    class Words(Tokenizer):
        def encode(self, texts: Any) -> list[list[int]]:
            return [[4]] * len(texts)

    given = Translation("a girl.", "İyi.")
    assert within_sentence(given, False, True, Words.__new__(Words), "", "tr").text == "iyi."


def test_letters_with_several_accents_are_within_words() -> None:
    """Those of Yoruba have no single character: a word would end at its second accent."""

    def costs(texts: Sequence[str]) -> list[tuple[int, int]]:
        known = {"ọlọ́run", "Ọlọ́run", "ẹ̀kọ́"}
        return [
            (0, sum(1 if word in known else len(word) for word in text.split())) for text in texts
        ]

    assert spelled(["ỌLỌ́RUN Ẹ̀KỌ́"], costs, "yo") == [Spelling("Ọlọ́run ẹ̀kọ́", capitals=True)]
    text, garbled = "Mo rí Adé Ọ̀ṣọ́rẹ̀.", "I saw Adé Ọ̀ṣọ́rlẹ̀."
    (span,) = garbled_names(text, garbled, lambda word: True, lambda word: False)
    assert text[slice(*span)] == "Adé Ọ̀ṣọ́rẹ̀"


@pytest.mark.parametrize(("text", "expected"), [
    ("٢١ سبتمبر ١٩٩٧،", "21 سبتمبر 1997,"), ("२० सितंबर।", "20 सितंबर."), ("１２３４。", "1234."),
    ("كيف؟", "كيف?"), ("漢؟", "漢؟"), ("اِلتَقَيتُ", "التقيت"), ("שָׁלוֹם", "שלום"), ("5² १", "5² 1"),
])  # fmt: skip
def test_digits_marks_and_vowels_that_a_vocabulary_lacks_are_read_as_it_has_them(
    text: str, expected: str
) -> None:
    """Those of other scripts were unknown tokens, and lost."""

    def costs(texts: Sequence[str]) -> list[tuple[int, int]]:
        known = "".join(c for c in "سبتمبركيفالتقيتשלוםसितंबर x²")
        return [(sum(not (c in known or c.isascii()) for c in t), len(t)) for t in texts]

    assert spelled([text], costs) == [Spelling(expected)]
