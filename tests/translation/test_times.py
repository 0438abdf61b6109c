"""Times of day, which languages count in two ways."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from tests.external_plugins.journey import TOP
from zoo.translation.times import HOURS, time_pattern, times_of

CHECKPOINTS = TOP / "cards" / "checkpoints"


@pytest.mark.parametrize(("text", "source", "times"), [
    ("It is 3:30 pm.", "en", {"3:30 pm": "15:30"}),
    ("from 9 am to 5PM", "en", {"9 am": "9:00", "5PM": "17:00"}),
    ("At 12 a.m. or 12 p.m.", "en", {"12 a.m.": "0:00", "12 p.m": "12:00"}),
    ("It's 5 p.m. and 7.45 A.M. too", "en", {"5 p.m.": "17:00", "7.45 A.M.": "7:45"}),
    ("13 pm, 0 am, 3:75 pm, 2 pmx, 1.5 pm, 3.5.2021 pm, I am 5", "en", {}),
    ("À 9 h, 14h, 7 h 05 et 17h30", "fr",
     {"9 h": "9:00", "14h": "14:00", "7 h 05": "7:05", "17h30": "17:30"}),
    ("24 h, 25h, 7h75, 3 heures, 5 hommes, 14h3", "fr", {}),
    ("It is 3 pm", "fr", {}), ("Il est 9 h", "en", {}), ("3 pm", "de", {}), ("3 pm", "", {}),
])  # fmt: skip
def test_times_are_read(text: str, source: str, times: dict[str, str]) -> None:
    target = "en" if source == "fr" else "fr"
    made = {text[start:end]: time for start, end, time in times_of(text, source, target)}
    assert made == times


@pytest.mark.parametrize(("time", "target", "right", "wrong"), [
    ("17:00", "fr", ["à 17 h", "17h.", "17 h 00", "17:00", "17 heures", "5 h du soir",
                     "5 heures de l'après-midi"],
     ["17 h 15", "17:15", "5 h", "117 h", "17,5", "5 h du matin", "7 h"]),
    ("9:05", "fr", ["9 h 05", "9h05", "09:05", "9 heures 05"], ["9 h", "9 h 50", "19 h 05"]),
    ("0:00", "fr", ["minuit", "0 h 00", "à 0 h"], ["midi", "10 h 00", "24"]),
    ("15:30", "de", ["15.30 Uhr", "15:30", "15 Uhr 30"], ["3.30 Uhr", "15 Uhr"]),
    ("9:00", "en", ["at 9.", "9:00", "9 a.m.", "9 o'clock", "9 in the morning"],
     ["9:.", "9:10", "9h", "19", "9.5"]),
    ("14:00", "en", ["14:00", "2 p.m.", "2 PM", "14 o'clock", "2 in the afternoon"],
     ["14:", "at 14.", "2 a.m.", "14h", "2"]),
    ("17:30", "en", ["17:30", "5:30 p.m."], ["5:30", "17:3", "7:30", "17"]),
    ("12:00", "en", ["noon", "12:00", "12 p.m."], ["midnight"]),
])  # fmt: skip
def test_a_time_has_forms(time: str, target: str, right: list[str], wrong: list[str]) -> None:
    pattern = time_pattern(time, target)
    assert [text for text in right if not pattern.search(text)] == []
    assert [text for text in wrong if pattern.search(text)] == []


@settings(deadline=None)  # a busy machine is slow
@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(["am", "PM", "a.m.", " p.m."]))
def test_english_times_are_those_of_strptime(hour: int, minute: int, half: str) -> None:
    twelve, later = hour % 12, "p" in half.lower()
    text = f"x {twelve or 12}:{minute:02}{half} y"
    ((_, _, time),) = times_of(text, "en", "fr")
    assert time == f"{twelve + 12 * later}:{minute:02}"
    for target in HOURS:
        assert time_pattern(time, target).search(f"x {time} y")


def test_the_everyday_networks_write_other_hours() -> None:
    english, french = (
        zoo.load(CHECKPOINTS / f"transformer-tiny.tatoeba-{pair}-76k", device="cpu")
        for pair in ("en-fr", "fr-en")
    )
    made = english.translate(["It is 3:30 pm.", "It's 5 p.m."], details=True, alignment=True)
    assert [one.text for one in made] == ["Il est 15 h 30.", "Il est 17 heures."]
    assert made[0].copied == ("3:30 pm",)
    assert 2 in {source for source, _ in made[0].alignment or ()}  # the first word of the time
    assert not made[0].lost_numbers
    assert french.translate("Appelle-moi à 14 h.") == "Call me at 14:00."
    as_it_is = english.translate("It is 3:30 pm.", split=False)
    assert as_it_is != made[0].text
