"""Sources in capitals, with typographic marks, and with what a vocabulary lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from click.testing import CliRunner

import zoo
from tests.external_plugins.journey import TOP
from zoo.cli import cli
from zoo.translation.garbled_names import garbled_names
from zoo.translation.lost_items import items_of
from zoo.translation.scripts import without_stop
from zoo.translation.spelling import UNREAD, Spelling, accented_words, spelled
from zoo.translation.typed_words import indices_of

CHECKPOINTS = TOP / "cards" / "checkpoints"
FROM_FRENCH = CHECKPOINTS / "transformer-tiny.tatoeba-fr-en-76k"
EVERYDAY = CHECKPOINTS / "transformer-tiny.tatoeba-en-fr-76k"
WORDS = {"i", "I", "you", "You", "love", "No", "no", "no!", "No!", "it's", "NASA", "IBM", "Café"}


def costs(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Count a known word as one token, and another one as its letters; § is unknown."""
    return [
        (text.count("§"), sum(1 if word in WORDS else len(word) for word in text.split()))
        for text in texts
    ]


def lacking(is_unknown: Callable[[str], bool]) -> Callable[[Sequence[str]], list[tuple[int, int]]]:
    """Count each character as a token, some of them as unknown."""
    return lambda texts: [(sum(map(is_unknown, text)), len(text)) for text in texts]


costs_of_ascii = lacking(lambda character: not character.isascii())


@pytest.mark.parametrize(("text", "language", "expected"), [
    ("NO!", "", Spelling("No!", capitals=True)),
    ("I LOVE YOU", "en", Spelling("I love you", capitals=True)),
    ("YOU LOVE I", "en", Spelling("You love I", capitals=True)),
    ("YOU LOVE I", "fr", Spelling("You love i", capitals=True)),
    ("NASA", "en", Spelling("NASA")),
    ("I", "en", Spelling("I")),
    ("?!", "en", Spelling("?!")),
    ("", "en", Spelling("")),
    ("42", "en", Spelling("42")),
    ("No IBM", "en", Spelling("No IBM")),
    ("it’s", "en", Spelling("it's")),
    ("it`s", "en", Spelling("it's")),
    ("‘no’", "en", Spelling("‘no’")),
    ("Ǆ", "", Spelling("Ǆ")),
])  # fmt: skip
def test_a_spelling_with_fewer_tokens_is_read(text: str, language: str, expected: Spelling) -> None:
    assert spelled([text, "No"], costs, language) == [expected, Spelling("No")]


def test_a_capital_that_a_vocabulary_lacks_is_read_small() -> None:
    assert spelled(["Hello", "hello"], lacking(str.isupper)) == [
        Spelling("hello"),
        Spelling("hello"),
    ]


@pytest.mark.parametrize(("text", "expected"), [
    ("(no)", "no"), ("no 🙏", "no"), ("no! ❤️", "no!"), ("🙏no", "no"), ("*no* (yes) 🙏", "no yes"),
    ("<b>no</B>", "no"), ("no<br />", "no"), ("press <no> no", "press no no"),
    ("no 🙏 no", "no no"), ("🙏 no", "no"), ("🙏", "🙏"), ("()", "()"),
    ('<p class="x">no</p>', "no"), ("no<br>no", "no no"), ("<i no>", "i no"), ("1 < 2", "1 < 2"),
    ("a § b", "a § b"), ("(§)", "(§)"),
])  # fmt: skip
def test_signs_that_a_vocabulary_lacks_are_left_out(text: str, expected: str) -> None:
    """Not where there is no word."""
    without_signs = lacking(lambda c: not c.isalpha() and c not in " !")
    assert spelled([text], without_signs) == [Spelling(expected)]
    assert spelled([text], lacking(lambda c: False)) == [Spelling(text)]


@pytest.mark.parametrize(("text", "expected"), [
    ("“no”", '"no"'), ("„no“ «no»", '"no" "no"'), ("‘no’", "'no'"), ("no… no", "no... no"),
    ("no — no", "no - no"), ("no – no‑no", "no - no-no"), ("it’s", "it's"),
])  # fmt: skip
def test_typographic_marks_that_a_vocabulary_lacks_are_read_as_plain_ones(
    text: str, expected: str
) -> None:
    assert spelled([text], costs_of_ascii) == [Spelling(expected)]


@pytest.mark.parametrize(("text", "expected"), [
    ("\ufb01nd", "find"), ("\ufeffno", "no"), ("sh\u00adoe", "shoe"), ("no\u200e!", "no!"),
    ("\uff2e\uff4f", "No"), ("no \u00b4 no", "no \u00b4 no"), ("no", "no"),
    ("10² m²", "10² m2"), ("1½", "1½"),
])  # fmt: skip
def test_ligatures_and_what_cannot_be_seen_are_read_as_plain_letters(
    text: str, expected: str
) -> None:
    """But for marks that would become two words."""
    assert spelled([text], costs_of_ascii) == [Spelling(expected)]


def test_known_typographic_marks_stay_where_others_are_lost() -> None:
    assert spelled(["“no” — no…"], lacking(lambda c: c == "—")) == [Spelling("“no” - no…")]


def test_abbreviations_stay_in_capitals() -> None:
    """Their vocabulary has no more of them than letters, but for some, such as US-A."""
    known = {"the": 1, "of": 1, "or": 1, "usa": 2}

    def pieces(texts: Sequence[str]) -> list[tuple[int, int]]:
        return [
            (0, sum(known.get(word, len(word)) for word in re.findall(r"\w+", text)))
            for text in texts
        ]

    assert spelled(["THE DVD OF USA, UK OR FISHES"], pieces, "en") == [
        Spelling("The DVD of USA, UK or fishes", capitals=True)
    ]
    assert spelled(["OF THE LL"], pieces) == [Spelling("Of the ll", capitals=True)]


def test_known_marks_stay_where_another_is_lost() -> None:
    texts = ["Yes, he came; I left.", "No, *he* came!"]
    read = [one.text for one in spelled(texts, lacking(lambda c: c in ";*"))]
    assert read == ["Yes, he came, I left.", "No, he came!"]


def test_known_brackets_stay_where_a_picture_is_lost() -> None:
    assert spelled(["(no) 🙏"], lacking(lambda c: c == "🙏")) == [Spelling("(no)")]


def test_capitals_of_whole_words_that_a_vocabulary_lacks_are_written_again() -> None:
    def by_words(texts: Sequence[str]) -> list[tuple[int, int]]:
        words = [text.split() for text in texts]
        return [(sum(not word.islower() for word in each), len(each)) for each in words]

    expected = [Spelling("seven", capitals=True), Spelling("seven")]
    assert spelled(["SEVEN", "Seven"], by_words) == expected


def test_what_people_type_is_translated_as_what_a_network_has_read() -> None:
    translator = zoo.load(EVERYDAY, device="cpu")
    plain = translator.translate(["No!", "Thank you.", "Mary's car is red."])
    texts = ["NO!", "THANK YOU.", "Mary’s car is red."]
    typed = translator.translate(texts, details=True)
    assert [one.text for one in typed] == [plain[0].upper(), plain[1].upper(), *plain[2:]]
    assert [one.source for one in typed] == texts
    assert all(one.respelled for one in typed)
    (as_it_is,) = translator.translate(["NO!"], split=False, details=True)
    assert as_it_is.text != plain[0].upper()
    assert not as_it_is.respelled


def test_quotes_that_a_vocabulary_lacks_are_read_as_plain_ones() -> None:
    translator = zoo.load("transformer-tiny.tatoeba-fr-en-76k", device="cpu")
    plain, typed = translator.translate(['"Non", dit-il.', "“Non”, dit-il."], details=True)
    assert typed.text == plain.text
    assert typed.respelled
    assert not plain.respelled


def test_brackets_are_left_out_where_a_vocabulary_lacks_them_as_the_page_says() -> None:
    page = (TOP / "docs" / "decoding.md").read_text(encoding="utf-8")
    assert 'without brackets in the vocabulary, "(Hello)" is read as "Hello"' in " ".join(
        page.split()
    )
    for name, respelled in (("transformer-tiny", False), ("convs2s-tiny", True)):
        translator = zoo.load(f"{name}.tatoeba-en-fr-76k", device="cpu")
        typed = translator.translate("(Hello)", details=True)
        assert isinstance(typed, zoo.Translation)
        assert typed.respelled == respelled, name


def test_a_prefix_stays_what_the_translation_of_capitals_begins_with() -> None:
    translator = zoo.load(EVERYDAY, device="cpu")
    best = translator.translate("I LOVE YOU.", prefix="Je t'", beam=2, n_best=2, details=True)
    for one in (best, *best.alternatives):
        assert one.text.startswith("Je t'")
        assert one.text[5:].isupper()


def test_the_alignment_is_of_the_words_that_are_typed() -> None:
    translator = zoo.load(EVERYDAY, device="cpu")
    small, large = (
        translator.translate([text], details=True, alignment=True)[0]
        for text in ("I love you.", "I LOVE YOU.")
    )
    assert small.alignment == large.alignment
    for text, index in (("I <br> love you.", 2), ("I \U0001f64f love\U0001f64f you.", 2)):
        one = translator.translate(text, details=True, alignment=True)
        assert one.text == small.text
        words = (0, index, index + 1)
        assert one.alignment == tuple((words[s], t) for s, t in small.alignment or ())


@pytest.mark.parametrize(("read", "typed", "indices"), [
    ("I go", "I go", [0, 1]), ("I go !", "I go&nbsp;!", [0, 1, 1]), ("a b c", "a_b_c", [0] * 3),
    ("I go", "I \u2713 go", [0, 2]), ("I go", '<a x="">I</a> go', [1, 2]), ("I go", "I", [0, 0]),
])  # fmt: skip
def test_words_that_are_read_have_typed_ones(read: str, typed: str, indices: list[int]) -> None:
    assert indices_of(read.split(), typed.split()) == indices


def test_entities_and_tags_are_read_as_what_they_stand_for() -> None:
    translator = zoo.load(FROM_FRENCH, device="cpu")
    texts = ["\u00c7a co&ucirc;te 12&nbsp;&euro;.", '<p class="x">Je suis<br>ici.</p>']
    plain = ["\u00c7a co\u00fbte 12 \u20ac.", "Je suis ici."]
    made = translator.translate(texts, details=True, alignment=True)
    assert [one.text for one in made] == translator.translate(plain)
    for one in made:
        assert {s for s, _ in one.alignment or ()} <= {*range(len(one.source.split()))}


TOKENS = {
    "not", "No", "no", "Paris", "love", "I", "please", "Please", "Frau", "ein", "Ein", "Fahrrad",
    "h\u00f4tel", "\u00e9t\u00e9", "f\u00fcr", "happy", "am", "un", "the", "The", "TV",
    "\u00c9t\u00e9",
}  # fmt: skip


def costs_of_words(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Count a known word as one token, another one as its letters, and each mark as one."""
    pieces = [re.findall(r"\w+|[^\w\s]", text) for text in texts]
    return [
        (text.count("\u00a7"), sum(1 if one in TOKENS else len(one) for one in of_text))
        for text, of_text in zip(texts, pieces, strict=True)
    ]


@pytest.mark.parametrize(("text", "language", "expected"), [
    ("I LOVE PARIS.", "en", Spelling("I love Paris.", capitals=True)),
    ("I am NOT happy.", "en", Spelling("I am not happy.")),
    ("PLEASE, no TV", "en", Spelling("Please, no TV")),
    ("the UN", "en", Spelling("the UN")),  # not the French word
    ("The IBM of UNESCO", "en", Spelling("The IBM of UNESCO")),
    ("EIN FAHRRAD", "de", Spelling("Ein Fahrrad", capitals=True)),
    ("ein fahrrad", "de", Spelling("Ein Fahrrad")),
    ("ein fahrrad", "en", Spelling("ein fahrrad")),
    ("ete hotel ne", "fr", Spelling("\u00e9t\u00e9 h\u00f4tel ne")),
    ("ETE", "fr", Spelling("\u00c9t\u00e9", capitals=True)),
    ("ete \u00e0 hotel", "fr", Spelling("ete \u00e0 hotel")),  # typed with accents
    ("fuer", "de", Spelling("F\u00fcr")),
    ("no &amp; no", "en", Spelling("no & no")),
    ("no&nbsp;no", "en", Spelling("no\u00a0no")),
])  # fmt: skip
def test_words_are_read_as_a_vocabulary_has_them(
    text: str, language: str, expected: Spelling
) -> None:
    accented = {"ete": "\u00e9t\u00e9", "hotel": "h\u00f4tel", "fuer": "f\u00fcr"}
    assert spelled([text], costs_of_words, language, accented) == [expected]


@pytest.mark.parametrize(("text", "expected"), [
    ("hello!", "hello"), ("\u201chello\u201d", "hello"), ("caf\u00e9", "cafe"),
    ("l'\u00e9t\u00e9, no", "l'ete no"), ("<b>hello</b>", "hello"), ("O'Neil", "O'Neil"),
])  # fmt: skip
def test_marks_and_accents_that_a_vocabulary_lacks_are_left_out(text: str, expected: str) -> None:
    unknown = lacking(lambda c: c not in "abcdefghijklmnopqrstuvwxyzON' ")
    assert spelled([text], unknown)[0].text == expected


def test_capitals_that_are_as_many_tokens_are_read_small() -> None:
    """So it is where each character is a token."""
    assert spelled(["3 MAI", "3 Mai"], lacking(lambda c: False)) == [
        Spelling("3 mai", capitals=True), Spelling("3 Mai")
    ]  # fmt: skip


def test_words_with_accents_are_those_of_a_vocabulary() -> None:
    tokenizer = zoo.load(CHECKPOINTS / "transformer-tiny.tatoeba-fr-en-76k").checkpoint
    words = accented_words(tokenizer.source_tokenizer)
    assert words["tres"] == "tr\u00e8s"
    assert words["deja"] == "d\u00e9j\u00e0"
    assert all(key.isascii() and not word.isascii() for key, word in words.items())


def test_no_letter_needs_to_have_a_capital() -> None:
    assert spelled(["ⓂⓂ", "ⅣⅤ"], lacking(str.isupper)) == [
        Spelling("ⓜⓜ", capitals=True), Spelling("ⅳⅴ", capitals=True)
    ]  # fmt: skip


HOSTILE = [
    "a" + " " * 100_000 + "b", "!" * 100_000 + "x", "a" + "☃" * 100_000 + "b",
    "Ab Cd " * 16_000, "(" * 100_000, "1 " * 50_000, "a." * 50_000, "'" * 100_000, "$1" * 50_000,
    "☃ " * 50_000, "A'" * 50_000, "1.000" * 20_000, "x@" * 50_000, "-" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:8]))
def test_long_texts_of_few_characters_take_linear_time(text: str) -> None:
    """Each takes a fraction of a second; in quadratic time it would be minutes."""
    for pattern in UNREAD:
        pattern.sub("", text)
    assert without_stop(text + ".") == text.rstrip(".!?…").rstrip()
    assert all(0 <= item.start < item.end <= len(text) for item in items_of(text, "en"))
    foreign = " ".join(f"Xy{chr(97 + i)}" for i in range(16))
    names = garbled_names(text, foreign, lambda word: True, lambda word: False)
    assert len(list(names)) <= len(text)


def test_phones_stay_as_they_are() -> None:
    """A checkpoint without a target language translates into no capitals."""
    translator = zoo.load(CHECKPOINTS / "transformer-tiny.g2p-en", device="cpu")
    assert translator.translate(["Hello", "HELLO"]) == translator.translate(["hello"] * 2)


def test_marks_alone_stay_whole_where_a_vocabulary_has_none_of_them() -> None:
    """The first of them was left out, as a mark before a word is."""
    translator = zoo.load(CHECKPOINTS / "transformer-tiny.g2p-en", device="cpu")
    marks = ["?!", "!!", "«»", "; ,"]
    assert translator.translate(marks) == marks


def test_notes_say_what_was_read_otherwise_and_what_was_lost() -> None:
    text = "STOP!\nGood ⺘ morning.\nGood morning.\n"
    result = CliRunner().invoke(cli, ["translate", str(EVERYDAY)], input=text)
    notes = [line for line in result.stderr.splitlines() if line.startswith("Note")]
    assert notes == [
        "Note: 1 line with capitals or marks that the model hardly knows, read in the spelling of "
        "training or without them",
        "Note: 1 line with something that the model's vocabulary lacks, and that is lost; the "
        "first is line 2",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [("g2p-en", "cats 12"), ("tatoeba-en-fr-76k", "Hello. \u4f60\u597d\u3002 Goodbye.")],
)
def test_what_stays_as_it_is_is_not_lost(name: str, text: str) -> None:
    """A note said that its characters are lost, which are in the translation."""
    checkpoint = str(CHECKPOINTS / f"transformer-tiny.{name}")
    result = CliRunner().invoke(cli, ["translate", checkpoint, text])
    assert text.split()[1] in result.stdout
    notes = [line for line in result.stderr.splitlines() if line.startswith(("Note", "Warning"))]
    assert notes == [
        "Note: 1 text with numbers, dates, addresses or names that were copied",
    ]
    whole = zoo.load(checkpoint, device="cpu").translate(text, details=True, split=False)
    assert whole.has_unknown_tokens


def test_eval_says_what_translate_reads_otherwise() -> None:
    pairs = [("No! Thank you.", "Non ! Merci."), ("NO!", "NON !"), ("Yes.", "Oui.")]
    translator = zoo.load(EVERYDAY, device="cpu")
    whole = translator.evaluate(pairs)
    assert any("2 sources were read whole" in problem for problem in whole.problems)
    by_sentences = translator.evaluate(pairs, sentences=True)
    assert not any("read whole" in problem for problem in by_sentences.problems)
    assert by_sentences.by_name["exact_match"].value > whole.by_name["exact_match"].value
