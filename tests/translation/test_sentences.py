"""Texts of several sentences: split, translated one by one, joined; paragraphs are kept."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.options import Hypothesis
from zoo.registry.builtin import top
from zoo.translation.long_sentences import divide
from zoo.translation.sentences import (
    LANGUAGES,
    ONE_SENTENCE,
    Sentencex,
    Words,
    _spans,
    language_code,
    positions,
    separator,
    split_sentences,
    usual_splitter,
)
from zoo.translation.source_reader import SourceReader
from zoo.translation.translation import Translation, join_parts, within_sentence
from zoo.translation.white_space import lines_of

CARDS = top() / "cards" / "checkpoints"
DOG, CAT = "A brown dog walks.", "A white cat sleeps."


def sentences(text: str, language: str) -> list[str]:
    return [piece.text for piece in split_sentences(text, Sentencex(language))]


SPLIT = {
    "en": ["Dr. Smith paid $3.50 for it, e.g. in the U.S. today.", "Mr. J. Doe agreed!", "Why?"],
    "de": ["Das ist z.B. ein Hund.", "Am 3. Oktober kam Prof. Dr. Maier.", "Er ging."],
    "fr": ["Il a dit : « Oui ! » et il est parti.", "Elle dort."],
    "pt": ["O Sr. Silva chegou.", "Veja a pág. 5.", "J. Lopes saiu."],
    "pl": ["Prof. Nowak i dr. Kowalski przyszli.", "To nr. 5."],
    "ru": ["Это собака.", "Это кот?"],
    "hi": ["यह कुत्ता है।", "वह बिल्ली है।"],
    "ar": ["هذا كلب.", "هل هذه قطة؟", "نعم."],
}


@pytest.mark.parametrize("language", SPLIT)
def test_sentences_end_where_the_language_ends_them(language: str) -> None:
    assert sentences(" ".join(SPLIT[language]), language) == SPLIT[language]


ABBREVIATED = {
    "fr": [
        "M. Dupont et Mme. Durand sont venus.", "Le Dr. Martin est là.", "J.-P. Belmondo est né.",
        "En 50 av. J.-C. il vivait à Rome.", "Il est mort en 44 av. J.-C.", "Ph. Martin dort.",
        "Si.", "Non.", "C'est mon prof.", "Mon prof...", "Je connais M. Dupont et le Prof. Martin.",
        "C'est le col.", "Il neige.", "Mme. Bien.", "Le 5 janv. 2020, Mr. Roy vivait bd. Voltaire.",
    ],
    "de": [
        "Der 2. Weltkrieg endete 1945.", "Zimmer 5.", "Frl. Meier kam zum 3. Mal.",
        "Wir treffen uns am 5.", "Das passt.", "Ich komme am 12.", "Bis dann!", "Es hat ABS.",
        "Gut.",
    ],
    "pl": ["Pomogłem im.", "Wszystko jest ok.", "To mgr. Nowak."],
    "ro": ["A fost la DNA.", "E un film SF.", "Dna. Pop a venit."],
    "ru": ["Я помог им.", "Они ушли."],
    "en": [
        "J.-P. Smith came.", "So.", "We go.", "At 5 PM EST.", "Approx. 5 of us go.",
        "I like ASP.NET a lot.", "Read README.TXT on WWW.SITE.ORG, or use java.lang.String.",
        "It is in 0..%d.", "See GitHub.Com now.",
    ],
    "nl": ["Mevr. de Vries is hier, d.w.z. in huis.", "Het is 5 MW.", "Ja."],
}  # fmt: skip


@pytest.mark.parametrize("language", ABBREVIATED)
def test_abbreviations_end_no_sentence(language: str) -> None:
    """Titles, initials and ordinals that the library does not know; short words do end one."""
    assert sentences(" ".join(ABBREVIATED[language]), language) == ABBREVIATED[language]


def test_a_space_may_be_left_out_between_sentences() -> None:
    text = 'He left.She stayed!"Why?"I know...You know?<br>*She* knows.'
    expected = ["He left.", "She stayed!", '"Why?"', "I know...", "You know?", "<br>*She* knows."]
    assert sentences(text, "en") == expected
    assert sentences("Il sort.Elle dort !L'eau coule ?Oui.", "fr") == [
        "Il sort.", "Elle dort !", "L'eau coule ?", "Oui."
    ]  # fmt: skip
    assert sentences("See this.[1] Then go.", "en") == ["See this.[1]", "Then go."]
    assert sentences("你好?我很好.", "zh") == ["你好?", "我很好."]


def test_chinese_and_japanese_have_no_space_between_sentences() -> None:
    assert sentences("一只狗在走。一只猫在睡觉！真的吗？", "zh") == [
        "一只狗在走。", "一只猫在睡觉！", "真的吗？"
    ]  # fmt: skip
    assert sentences("犬が歩く。猫が寝る。", "ja") == ["犬が歩く。", "猫が寝る。"]


def test_marks_within_a_line_belong_to_no_sentence() -> None:
    pieces = split_sentences(
        "(a) I go. (b) You go. \u2014 Why?\t> So. - [ ] Go a - b.", Sentencex("en")
    )
    assert pieces == [
        ("(a) ", "I go."), (" (b) ", "You go."), (" \u2014 ", "Why?"), ("\t> ", "So."),
        (" - [ ] ", "Go a - b."),
    ]  # fmt: skip


def test_pictures_that_begin_a_line_or_a_sentence_belong_to_none() -> None:
    pieces = split_sentences(
        "\u2705 Buy milk\n- \U0001f600\U0001f600 I go. \U0001f449 Go\n1\ufe0f\u20e3 Eat \U0001f600",
        Sentencex("en"),
    )
    assert pieces == [
        ("\u2705 ", "Buy milk"), ("\n- \U0001f600\U0001f600 ", "I go."), (" \U0001f449 ", "Go"),
        ("\n1\ufe0f\u20e3 ", "Eat \U0001f600"),
    ]  # fmt: skip


def test_the_cells_of_a_table_are_sentences_of_their_own() -> None:
    pieces = split_sentences("Name\tAge\n\t1.\tI go. You\t\t12\t\n\tSo", Sentencex("en"))
    assert pieces == [
        ("", "Name"), ("\t", "Age"), ("\n\t1.\t", "I go."), (" ", "You"), ("\t\t", "12"),
        ("\t\n\t", "So"),
    ]  # fmt: skip


def test_the_cells_and_first_pictures_of_a_text_stay() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    assert translator.translate("\U0001f600 Hello!\tYes.\n\U0001f449 No!") == (
        "\U0001f600 Bonjour !\tOui.\n\U0001f449 Non !"
    )


def test_lines_in_no_language_are_read_one_by_one_if_training_had_no_more() -> None:
    translator = zoo.load(CARDS / "rnnsearch-tiny.dates-iso")
    made = translator.translate("3. Mai 2021\n\n  May 4, 2021\n", details=True)
    assert made.text == "2021-05-03\n\n  2021-05-04"
    assert made.source == "3. Mai 2021\n\n  May 4, 2021\n"
    assert len(translator.parts(made.source)) == 2
    assert translator.translate("May 4, 2021\n") == "2021-05-04"
    assert "\n" not in translator.translate(made.source, split=False)
    tasks = zoo.load(CARDS / "transformer-tiny.tasks")
    assert tasks.translate("date: May 3, 2021\nMay 4, 2021") == "2021-05-03\n2021-05-04"
    each = "date: May 3, 2021\n\n DATE: May 4, 2021\ndate:"
    tagged = tasks.translate(each, details=True, alignment=True)
    assert tagged.text.startswith("2021-05-03\n\n2021-05-04\n")
    assert tagged.source == each
    assert {s for s, _ in tagged.alignment or ()} <= {1, 2, 3, 5, 6, 7, 8}


def test_lines_and_pieces_without_letters() -> None:
    assert sentences("One line\nanother line\n\n  third.", "en") == [
        "One line", "another line", "third."
    ]  # fmt: skip
    assert sentences("1. Open the door. 2. Close it. ...", "en") == [
        "Open the door. 2.", "Close it. ..."
    ]  # fmt: skip
    assert sentences("... 12. 13.", "en") == ["... 12. 13."]
    assert sentences("A. B.\nC. D.", "") == ["A. B.", "C. D."]
    assert sentences(" \n\t ", "en") == []


def test_lines_that_need_no_library_are_one_sentence_for_it() -> None:
    generator = random.Random(2)
    characters = "aB é ß中の日ا한1٣ ,'-_ºაখ"
    for language in sorted(LANGUAGES):
        for end in (*".!?。।։؟…:;", ""):
            line = "".join(generator.choices(characters, k=20)).strip() + end
            assert ONE_SENTENCE.fullmatch(line)
            assert list(_spans(line, language)) == [(0, len(line))]
    for line in ("A b. C d.", "A b? C", "a; b c", "一只狗。一只猫"):
        assert not ONE_SENTENCE.fullmatch(line)


def test_the_pieces_and_their_spaces_are_the_text() -> None:
    generator = random.Random(1)
    characters = ' .!?。"“”()\n\r\t\u2028\x0b\u3000Aab1é我«…:;\udc80\u00a0\U0001f600।'
    for language in ("en", "de", "zh", "hi", "xx", ""):
        for _ in range(400):
            text = "".join(generator.choices(characters, k=generator.randrange(30)))
            pieces = split_sentences(text, Sentencex(language))
            assert "".join(piece.space + piece.text for piece in pieces) == text.rstrip()
            assert all(piece.text.strip() == piece.text != "" for piece in pieces)
            for position, piece in zip(positions(pieces), pieces, strict=True):
                assert text[position:].startswith(piece.text)


@pytest.mark.parametrize("text", ["." * 10**6, "a. " * 10**5, "\n" * 10**6, " " * 10**6 + "x"])
def test_a_long_text_is_split_at_once(text: str) -> None:
    """Quadratic time would be minutes."""
    assert len(split_sentences(text, Sentencex("en"))) <= 10**5
    assert len(lines_of(text)) <= 1
    assert len(lines_of(f"a\n b{text} \n  \nc {text} ")) <= 10


def test_codes_of_languages() -> None:
    assert [language_code([code]) for code in ("de", "DE-at", "deu", "deu_Latn", "zho_Hans")] == [
        "de", "de", "de", "de", "zh"
    ]  # fmt: skip
    assert [language_code(codes) for codes in ([], ["src"], ["x"], ["ipa"], ["1"])] == [""] * 5
    longer = {
        "swh_Latn": "sw",
        "afr_Latn": "af",
        "nob": "no",
        "nb": "nb",
        "yue_Hant": "zh",
        "ast": "",
    }
    for code, expected in longer.items():
        assert language_code([code]) == expected
    assert set(longer.values()) <= {*LANGUAGES, ""}


def test_what_stands_between_translations() -> None:
    assert separator(" ", ["de"]) == separator("", ["de"]) == separator(" ", []) == " "
    assert separator("\t", []) == separator("\t", ["zh"]) == "\t"
    assert separator(" ", ["zh"]) == ""
    assert separator("\n\n  ", ["zh"]) == "\n\n  "
    assert separator(" ", [], single_words=True) == "  "
    assert separator(" ", ["de"], single_words=True) == " "
    assert separator("", [], single_words=True) == " "  # within a word
    assert separator("\n", [], single_words=True) == "\n"


def test_networks_of_single_words_read_texts_word_by_word() -> None:
    assert usual_splitter(["en"], single_words=False) == "sentencex"
    assert usual_splitter(["en"], single_words=True) == "words"
    assert usual_splitter(["zh"], single_words=True) == "sentencex"
    assert usual_splitter(["th"], single_words=True) == "sentencex"
    assert usual_splitter([], single_words=True) == usual_splitter(["digits"]) == ""
    text = "- \u201c well, \t it\u2019s 5 !\n\n??? x-ray ... "
    pieces = split_sentences(text, Words("en"))
    assert "".join(piece.space + piece.text for piece in pieces) == text.rstrip()
    words = ["\u201c well,", "it\u2019s", "5 !", "??? x-ray ..."]
    assert [piece.text for piece in pieces] == words
    for line in ("", "  ", "...", " a", "a " * 5_000):
        assert "".join(Words("en")(line)) == line


def test_a_text_for_a_network_of_single_words_is_its_words(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    name = CARDS / "rnnsearch-tiny.g2p-en"
    translator = zoo.load(name)
    hello, world = translator.translate(["hello", "world"])
    assert translator.translate("hello  world\nhello") == f"{hello}  {world}\n{hello}"
    assert translator.translate("hello world", split=False) != f"{hello}  {world}"
    details = translator.translate("hello world", details=True, alignment=True)
    assert {source for source, _ in details.alignment or ()} == {0, 1}
    assert run("translate", name, "hello world").stdout == f"{hello}  {world}\n"


def test_words_that_a_network_cannot_read_stay_and_long_ones_are_cut() -> None:
    translator = zoo.load(CARDS / "rnnsearch-tiny.g2p-en")
    cats, two = translator.translate("cats 2 ...\n日本", details=True), "cats 2 ..."
    assert cats.text == f"{translator.translate('cats')}  2 ...\n日本"
    assert cats.copied == ("2 ...", "日本")
    assert translator.translate("cats 2", details=True, alignment=True).alignment == (
        (0, 0), (0, 1), (0, 2), (0, 3), (1, 4),
    )  # fmt: skip
    assert translator.translate(two, split=False) != two
    long = "a" * 1_000
    assert all(part.strip("a") == "" and len(part) <= 18 for part in translator.parts(long))
    assert len(translator.translate(long)) < 10_000
    assert translator.parts("state-of-the-art-and-more-than-that") == [
        "state-", "of-", "the-", "art-", "and-", "more-", "than-", "that",
    ]  # fmt: skip
    assert translator.parts("antidisestablishment") == ["antidisestablishment"]


def test_a_line_that_ends_with_a_comma_is_read_without_it() -> None:
    """Networks write words for it: "Hello," was "Bonjour, s'il vous plaît !"."""
    translator = zoo.load(CARDS / "rnnsearch-tiny.multi30k-en-fr")
    text = "Two dogs are playing in the snow"
    (one,) = translator.translate([text])
    closed = one.rstrip(".")
    marked = translator.translate([f"{text}{mark}\n{text}." for mark in (",", " :", ";")])
    assert [each.partition("\n")[0] for each in marked] == [
        f"{closed},", f"{closed} :", f"{closed} ;",
    ]  # fmt: skip
    assert translator.translate(f"{text},", split=False) != f"{closed},"
    details = translator.translate(f"{text} :\nSnow.", details=True, alignment=True)
    words = len(f"{closed} :".split())
    assert all((source < 8) == (target < words) for source, target in details.alignment or ())
    assert not details.divided
    assert not details.respelled


@pytest.mark.parametrize(
    ("source", "target", "closes"),
    [
        ("en", "de", True),
        ("el", "en", False),
        ("en", "zh", False),
        ("", "de", True),
        ("en", "", True),
    ],
)
def test_commas_are_left_out_between_languages_that_share_them(
    captions: zoo.Translator, source: str, target: str, closes: bool
) -> None:
    """A Greek semicolon is a question mark."""
    checkpoint = captions.checkpoint
    languages = {"source_languages": source, "target_languages": target}
    given: Any = {name: (code,) * bool(code) for name, code in languages.items()}
    about = replace(checkpoint.about, **given)
    reader = SourceReader([replace(checkpoint, about=about)])
    (part,) = reader.parts([(0, "A  dog,")], "split", 128, lambda text: [text], respell=True)
    words = checkpoint.source_tokenizer
    assert part.tokens[0] == words.encode(["A dog" if closes else "A dog,"])[0]
    about = replace(about, reads_whole=True)
    reader = SourceReader([replace(checkpoint, about=about)])
    (whole,) = reader.parts([(0, "A  dog,")], "split", 128, None, respell=True)
    assert whole.tokens[0] == words.encode(["A  dog,"])[0]


def test_alignments_count_the_words_of_the_whole_text() -> None:
    def part(source: str, text: str, pairs: tuple[tuple[int, int], ...]) -> list[Translation]:
        hypothesis = Hypothesis((5,), -1.0, True, -1.0)
        return [Translation(source, text, (hypothesis,), (text,), pairs)]

    parts = [part("a b", "A B", ((0, 0), (1, 1))), part("c", "C", ((0, 0),))]
    joined = join_parts("a b\nc", parts, ["", "\n"], ["", "\n"])
    assert (joined.text, joined.alignment) == ("A B\nC", ((0, 0), (1, 1), (2, 2)))
    # Without white space, two parts share a word.
    joined = join_parts("a bc", parts, ["", ""], ["", " "])
    assert (joined.text, joined.alignment) == ("A B C", ((0, 0), (1, 1), (1, 2)))
    joined = join_parts("a b c", parts, ["", " "], ["", ""])
    assert (joined.text, joined.alignment) == ("A BC", ((0, 0), (1, 1), (2, 1)))
    # What was respelled may be in the text again; and a text may begin with a tag.
    parts = [part("No!", "A !", ((0, 0),)), part("No!", "B !", ((0, 0),))]
    joined = join_parts("NO! No!", parts, ["", " "], ["", " "])
    assert joined.alignment == ((0, 0), (1, 2))
    joined = join_parts("<x> NO! No!", parts, ["", " "], ["", " "], "<x> ")
    assert joined.alignment == ((1, 0), (2, 2))
    joined = join_parts("<x>NO! No!", parts, ["", " "], ["", " "], "<x>")
    assert joined.alignment == ((0, 0), (1, 2))


def test_marks_of_lists_are_kept_and_are_words() -> None:
    text = "1. I go.\n  - [ ] You go. He goes.\n> So.\n3.5 km\n-5 km\n## Title\n#tag\n1."
    pieces = split_sentences(text, Sentencex("en"))
    assert "".join(space + piece for space, piece in pieces) == text
    assert pieces == [
        ("1. ", "I go."), ("\n  - [ ] ", "You go."), (" ", "He goes."), ("\n> ", "So."),
        ("\n", "3.5 km"), ("\n", "-5 km"), ("\n## ", "Title"), ("\n", "#tag"), ("\n", "1."),
    ]  # fmt: skip
    spaces = [piece.space for piece in pieces[:3]]
    joints = [separator(space, ["fr"]) for space in spaces]
    hypothesis = Hypothesis((5,), -1.0, True, -1.0)
    parts = [
        [Translation(piece.text, "A b", (hypothesis,), ("A",), ((0, 0), (1, 1)))]
        for piece in pieces[:3]
    ]
    joined = join_parts(text, parts, spaces, joints)
    assert joined.text == "1. A b\n  - [ ] A b A b"
    first, second = ((1, 1), (2, 2)), ((6, 6), (7, 7), (8, 8), (9, 9))
    assert joined.alignment == (*first, *second)
    alone = join_parts("  1) A b", parts[:1], ["  1) "], ["  1) "])
    assert (alone.text, alone.alignment) == ("1) A b", ((1, 1), (2, 2)))


@pytest.fixture(scope="module")
def captions() -> zoo.Translator:
    return zoo.load(CARDS / "transformer-tiny.multi30k-en-de")


def test_each_sentence_is_translated_as_if_it_were_alone(captions: zoo.Translator) -> None:
    dog, cat = captions.translate([DOG, CAT])
    assert captions.translate(f"{DOG} {CAT}") == f"{dog} {cat}"
    assert captions.translate(f"{DOG}\n\n{CAT} {DOG}\n") == f"{dog}\n\n{cat} {dog}"
    whole = captions.translate(f"{DOG} {CAT}", split=False, details=True)
    assert len(whole.hypotheses) == 1
    details = captions.translate(f"{DOG} {CAT}", details=True, n_best=2, alignment=True)
    assert len(details.hypotheses) == 2
    assert len(details.alternatives) == 1
    assert max(source for source, _ in details.alignment or ()) == 7
    assert max(target for _, target in details.alignment or ()) == len(details.text.split()) - 1


def test_texts_of_no_known_language_are_not_split(captions: zoo.Translator, tmp_path: Path) -> None:
    shutil.copytree(CARDS / "transformer-tiny.multi30k-en-de", tmp_path / "x")
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    for about in ({}, {"source_languages": ["digits"]}):
        (tmp_path / "x" / "config.json").write_text(json.dumps({**config, "about": about}))
        translator = zoo.load(tmp_path / "x")
        options: dict[str, Any] = {"recommended": False}
        assert translator.translate(f"{DOG} {CAT}", **options) == captions.translate(
            f"{DOG} {CAT}", split=False, **options
        )


def test_the_command_line_splits_and_eval_does_not(
    captions: zoo.Translator, run: Callable[..., Result], tmp_path: Path
) -> None:
    name = CARDS / "transformer-tiny.multi30k-en-de"
    dog, cat = captions.translate([DOG, CAT])
    both = f"{DOG} {CAT}"
    assert run("translate", name, both).stdout == f"{dog} {cat}\n"
    assert run("translate", name, f"{DOG}\n\n{CAT}").stdout == f"{dog}\n\n{cat}\n"
    assert run("translate", name, input=f"{both}\n\n{DOG}\n").stdout == f"{dog} {cat}\n\n{dog}\n"
    whole = captions.translate(both, split=False)
    assert run("translate", name, "--no-split", both).stdout == f"{whole}\n"
    (tmp_path / "a.en").write_text(f"{both}\n")
    (tmp_path / "a.de").write_text("x\n")
    scored = run("eval", name, "--data", f"{tmp_path}/a:en-de", "--out", tmp_path / "out")
    assert scored.exit_code == 0, scored.output
    assert (tmp_path / "out").read_text() == f"{whole}\n"


def test_alignments_number_the_words_of_the_text_alone(captions: zoo.Translator) -> None:
    options: dict[str, Any] = {"alignment": True, "details": True}
    prefix = "Well now then "
    one = captions.translate("A dog runs.", **options)
    assert {source for source, _ in one.alignment or ()} <= {0, 1, 2}
    read = captions.translate("A dog runs.", source_prefix=prefix, **options)
    pairs = captions.translate(f"{prefix}A dog runs.", **options).alignment or ()
    assert read.alignment == tuple((s - 3, t) for s, t in pairs if s >= 3)
    both = captions.translate("A dog runs. A man sleeps.", source_prefix=prefix, **options)
    words = len(read.text.split())
    assert [t for s, t in both.alignment or () if s < 3] == [t for _, t in read.alignment or ()]
    assert all(t >= words for s, t in both.alignment or () if s >= 3)
    tabs = captions.translate("A dog\truns. A man\tsleeps here.", **options)
    assert max(s for s, _ in tabs.alignment or ()) <= 6
    assert max(t for _, t in tabs.alignment or ()) < len(tabs.text.split())


def test_a_prefix_does_not_make_a_text_known(captions: zoo.Translator) -> None:
    for prefix in ("", "A ", "A dog "):
        assert captions.translate("Привет", source_prefix=prefix, details=True).unknown
        assert not captions.translate("A dog", source_prefix=prefix, details=True).unknown


def test_parts_of_a_long_text_are_filled_whatever_precedes_them(captions: zoo.Translator) -> None:
    text, prefix = " ".join(["dog"] * 600), "translate this text into plain German now: "
    for given in ("", prefix):
        parts = SourceReader(captions.checkpoints).parts([(0, text)], "split", 128, None, given)
        lengths = [len(part.tokens[0]) + 1 for part in parts]
        assert all(120 < length <= 128 for length in lengths[:-1]), lengths


def test_the_ids_that_were_read_are_kept(captions: zoo.Translator) -> None:
    encode = captions.checkpoint.source_tokenizer.encode
    both = captions.translate(f" {DOG}\n\n{CAT} ", details=True)
    assert both.source_ids == tuple(map(tuple, encode([DOG, CAT])))


def test_a_sentence_longer_than_those_of_training_is_translated_in_parts() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    length = translator.checkpoint.about.trained_length
    clauses = ["I like music", "she likes tea", "we are not alone", "they want to go home"]
    clauses += ["you know that it is late", "I go to bed"]
    text = f"{', and '.join(clauses)}."
    one = translator.translate(text, alignment=True, details=True)
    assert one.divided
    assert len(one.hypotheses) == len(one.source_ids) > 1
    assert all(len(ids) <= length + 1 for ids in one.source_ids)
    assert one.text.count(".") == 1, "of the parts, the last alone has a full stop"
    assert one.text[1:].replace("Ils", "ils").replace("Elles", "elles").islower()
    assert one.alignment is not None
    assert max(t for _, t in one.alignment) < len(one.text.split())
    whole = translator.translate(text, split=False, details=True)
    assert (len(whole.hypotheses), whole.divided) == (1, False)
    short = translator.translate(f"{clauses[0]}.", details=True)
    assert (len(short.hypotheses), short.divided) == (1, False)


def test_a_sentence_of_any_length_is_divided() -> None:
    """Read in parts of 1,024 tokens, it took minutes, and was translated by repetitions."""
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    both = "I like music and she likes tea, we are not alone and they want to go home,"
    assert translator.parts(f"{both} " * 500) == [both] * 500


def test_the_parts_of_a_sentence_after_a_tag_have_as_many_words_as_fit() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tasks")
    for count in (50, 5000):
        parts = translator.parts(f"en-fr: {'unbelievably ' * count}")
        assert all(10 <= len(part.split()) <= 12 for part in parts)  # of 3 tokens each, and the tag


def test_a_prefix_that_is_long_for_the_training_data_divides_nothing() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    prefix = "I would like to know what you think. "
    one = translator.translate("She likes tea.", source_prefix=prefix, details=True)
    assert not one.divided


def tokens_of(texts: Sequence[str]) -> list[int]:
    """A word has a token, a capital another one, and a digit one of its own."""
    return [len(t.split()) + sum(map(str.isupper, t)) + sum(map(str.isdigit, t)) for t in texts]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a b c d e", ["a b c d e"]),
        ("a b c d e f g", ["a b c", "d e f g"]),
        ("a b c, d e f g", ["a b c,", "d e f g"]),
        ("yes, a b c d e", ["yes,", "a b c d e"]),
        ("mr. a b c d e", ["mr. a b", "c d e"]),
        ("a b c d e f g h i j k", ["a b c", "d e f g", "h i j k"]),
        ("a  b\tc d\u00a0e   f", ["a  b\tc", "d\u00a0e   f"]),
        ("call 0612345678 a", ["call 0612345678 a"]),
        ("a WASHINGTON b c d", ["a WASHINGTON", "b c d"]),
        ("一只狗在走，一只猫在睡", ["一只狗在走，一只猫在睡"]),
    ],
)
def test_a_sentence_is_divided_where_that_harms_least(text: str, parts: list[str]) -> None:
    pieces = divide(text, 5, tokens_of)
    assert [piece.text for piece in pieces] == parts
    assert "".join(piece.space + piece.text for piece in pieces) == text


def test_every_sentence_is_its_parts_and_their_spaces() -> None:
    generator = random.Random(3)
    for _ in range(500):
        text = "".join(generator.choices(" ab,.;，。漢\t\u3000'", k=generator.randrange(60)))
        pieces = divide(text, 6, lambda texts: [len(t) for t in texts])
        assert "".join(piece.space + piece.text for piece in pieces) == text.strip()


def test_a_clause_without_spaces_counts_all_its_tokens() -> None:
    parts = divide("一只狗在走，一只猫在睡", 6, lambda texts: [len(t) for t in texts])
    assert [part.text for part in parts] == ["一只狗在走，", "一只猫在睡"]


def test_a_prefix_stays_what_a_translation_begins_with() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    text = "I have never seen such a dog in my life, and I will never forget the old man "
    text += "who came with it from the other side of the river last night."
    for prefix in ("Je n'ai jamais vu un tel chien.", "Je n'ai jamais "):
        one = translator.translate(text, prefix=prefix, details=True)
        assert one.divided
        assert one.text.startswith(prefix.rstrip())


def test_spaces_make_no_sentence_long() -> None:
    translator = zoo.load(CARDS / "transformer-tiny.tatoeba-en-fr-76k")
    expected = translator.translate("The cat is on the table.")
    assert translator.translate("The cat    is on " + 40 * " " + "the table.") == expected


@pytest.mark.parametrize(
    ("begins", "ends", "source", "text", "expected"),
    [
        (True, True, "a dog,", "Ein Hund.", "Ein Hund."),
        (True, False, "a dog,", "Ein Hund.", "Ein Hund,"),
        (True, False, "a dog", "Ein Hund!", "Ein Hund"),
        (True, False, "a dog?", "Ein Hund?", "Ein Hund?"),
        (True, False, "a dog,", "Ein Hund, das.", "Ein Hund, das,"),
        (True, False, "a dog,", "Ein Hund,", "Ein Hund,"),
        (False, True, "a dog.", "Ein Hund.", "ein Hund."),
        (False, True, "A dog.", "Ein Hund.", "Ein Hund."),
        (False, True, "dogs.", "Hunde.", "Hunde."),
        (False, False, "a dog,", "Ein ?", "ein,"),
        (False, True, "i see.", "I see.", "I see."),
        (False, True, "I see a dog.", "Ein Hund.", "ein Hund."),
    ],
)
def test_parts_of_a_sentence_have_no_stop_and_no_capital_of_their_own(
    begins: bool, ends: bool, source: str, text: str, expected: str
) -> None:
    class Words(Tokenizer):
        """A vocabulary of `Ein`, `ein` and `Hunde`; other words are characters."""

        def encode(self, texts: Any) -> list[list[int]]:
            return [[4] if t in ("Ein", "ein", "Hunde", "I", "i") else [5] * len(t) for t in texts]

    pairs = tuple((i, i) for i in range(len(text.split())))
    given = Translation(source, text, alignment=pairs)
    made = within_sentence(given, begins, ends, Words.__new__(Words))
    assert made.text == expected
    assert made.alignment == tuple((i, i) for i in range(len(expected.split())))
    assert made.divided is not (begins and ends)
