"""Checkpoints of several tasks: the tag of a text decides the languages by which it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from click.testing import Result

import zoo
from zoo.registry.builtin import top
from zoo.translation.tasks import leading_task
from zoo.translation.translator import Translator

TASKS = top() / "cards" / "checkpoints" / "transformer-tiny.tasks"
TAGS = ("en-fr: ", "en: ", "translate English to German: ", "de")
ONE, OTHER = "We should call a doctor.", "I have a dog."


@pytest.mark.parametrize(
    ("text", "typed", "tag"),
    [
        ("en-fr: Hello", "en-fr: ", "en-fr: "),
        ("EN-FR:Hello", "EN-FR:", "en-fr: "),
        ("\n en-fr:  \u00a0Hello", "\n en-fr:  \u00a0", "en-fr: "),
        ("En: Hello", "En: ", "en: "),
        ("Translate English  to german: a", "Translate English  to german: ", TAGS[2]),
        ("de Hund", "de ", "de"),
        ("der Hund", "", ""),
        ("deHund", "", ""),
        ("en - fr: Hello", "", ""),
        ("", "", ""),
        ("en-fr:", "en-fr:", "en-fr: "),
    ],
)
def test_a_tag_is_recognized_as_people_type_it(text: str, typed: str, tag: str) -> None:
    assert leading_task(text, TAGS) == (typed, tag)


def test_long_texts_without_a_tag_are_looked_through_in_linear_time() -> None:
    for text in (" " * 1_000_000, "translate " * 100_000, "translate" + " " * 1_000_000):
        assert leading_task(text, TAGS) == ("", "")


@pytest.fixture(scope="module")
def tasks() -> Translator:
    return zoo.load(TASKS)


def test_sentences_are_read_after_the_tag_of_their_text(tasks: Translator) -> None:
    options: dict[str, Any] = {"source_prefix": "en-fr: "}
    one, other = tasks.translate([ONE, OTHER], **options)
    both, empty, shouted, date = tasks.translate(
        [f"en-fr: {ONE} {OTHER}", " ", f"EN-FR:{ONE.upper()}", "date: 3 March 2021"]
    )
    assert both == f"{one} {other}"
    assert tasks.translate(f"{ONE} {OTHER}", **options) == both
    assert (empty, shouted, date) == ("", one.upper(), "2021-03-03")
    assert tasks.parts(f"en-fr: {ONE} {OTHER}") == [ONE, OTHER]
    assert tasks.parts(f"{ONE} {OTHER}") == [f"{ONE} {OTHER}"]


def test_tasks_of_single_words_are_read_word_by_word(tasks: Translator) -> None:
    hello, world, both = tasks.translate(["phones: hello", "phones:world", "phones: hello world 2"])
    assert both == f"{hello}  {world}  2"
    assert tasks.parts("phones: hello world") == ["hello", "world"]
    numbers = tasks.translate(["numbers: two hundred", "date: 3 March 2021"])
    assert numbers == ["deux cents", "2021-03-03"]


def test_tasks_of_small_letters_are_read_in_small_letters(tasks: Translator) -> None:
    """A network of several tasks knows capitals of the others, and would take this for one."""
    texts = ["phones: The", "numbers: Four hundred and Five", "numbers: FOUR", "en-fr: Thanks."]
    made = tasks.translate(texts, details=True)
    small = tasks.translate(["phones: the", "numbers: four hundred and five"])
    assert [one.text for one in made] == [*small, "QUATRE", "Merci."]
    assert [one.respelled for one in made] == [True, True, True, False]


def test_a_network_of_small_letters_reads_capitals_as_such_if_it_knows_them() -> None:
    known = zoo.load("transformer-tiny.tatoeba-en-fr-76k").checkpoint
    small = Translator(replace(known, about=replace(known.about, lower_case=True)))
    one, other = small.translate(["I have a Dog.", "i have a dog."], details=True)
    assert one.source_ids == other.source_ids
    assert (one.respelled, other.respelled) == (True, False)


def test_what_is_lost_is_copied_between_languages(tasks: Translator) -> None:
    address = "bob.smith@example.org"
    details = tasks.translate(f"en-fr: Send it to {address}.", details=True)
    assert address in details.text
    assert details.source == f"en-fr: Send it to {address}."


def test_texts_stay_in_order_and_in_their_windows(tasks: Translator) -> None:
    texts = [
        "date: 3 March 2021",
        "en-fr: Thanks.",
        "numbers: four",
        "",
        "en-fr: I have a dog.",
    ] * 3
    done: list[int] = []
    alone = [tasks.translate(text) for text in texts]
    made = [*tasks.stream(texts, window=4, on_batch=done.append)]
    assert [one.text for one in made] == alone
    assert [one.source for one in made] == texts
    assert done == sorted(done)
    assert done[-1] == len(texts)


def test_random_numbers_depend_on_the_index_of_a_text(tasks: Translator) -> None:
    texts = ["date: 3 March 2021", "en-fr: I have a dog.", "en-fr: We are here.", "numbers: four"]
    options: dict[str, Any] = {"sample": True, "seed": 3, "recommended": False}
    whole = tasks.translate(texts, **options)
    later = [one.text for one in tasks.stream(texts[2:], first=2, **options)]
    assert later == whole[2:]


def test_alignments_number_the_words_of_the_tag_too(tasks: Translator) -> None:
    one = tasks.translate(f"en-fr: {ONE} {OTHER}", alignment=True, details=True)
    assert one.alignment is not None
    assert {source for source, _ in one.alignment} <= set(range(10))
    assert max(target for _, target in one.alignment) < len(one.text.split())
    assert max(source for source, _ in one.alignment) > 5
    glued = tasks.translate(f"EN-FR:{ONE} {OTHER}", alignment=True, details=True)
    assert glued.alignment == tuple((source - 1, target) for source, target in one.alignment)


def test_a_text_that_stays_whole_is_read_as_it_is(tasks: Translator) -> None:
    text = f"en-fr: {ONE} {OTHER}"
    whole = tasks.translate(text, split=False, details=True)
    (ids,) = tasks.checkpoint.source_tokenizer.encode([text])
    assert whole.source_ids == (tuple(ids),)


def test_an_ensemble_has_the_tasks_of_its_first_member(tasks: Translator) -> None:
    about = replace(tasks.checkpoint.about, tasks={})
    both = Translator(tasks.checkpoint, replace(tasks.checkpoint, about=about))
    text = f"en-fr: {ONE} {OTHER}"
    assert both.translate(text) == tasks.translate(text)


def test_the_command_line_notes_texts_without_a_tag(run: Callable[..., Result]) -> None:
    made = run("translate", TASKS, "date: 3 March 2021", "Hello", " ", "phone: hello")
    note = "Note: 2 texts without a tag of a task at the beginning, by which a model of several"
    assert note in made.stderr
    assert "(numbers:, date:, phones:, en-fr:" in made.stderr
    assert "the first is text 2" in made.stderr
    assert "tag" not in run("translate", TASKS, "date: 3 March 2021").stderr
    prefix = "--source-prefix", "date: "
    assert "tag" not in run("translate", TASKS, *prefix, "3 March 2021").stderr
    shown = run("info", TASKS).stdout
    assert "numbers: (en to fr), date:, phones: (en), en-fr: (en to fr)" in " ".join(shown.split())
