"""The scripts outside the package work with its current version: each prints its help."""

import json
import random
import re
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest
from num2words import num2words

import zoo
from tests.conftest import SLOW, ImportScript
from tests.forked import python

TOP = Path(__file__).parents[1]
SCRIPTS = (
    "cards/release.py",
    "cards/compare.py",
    "benchmarks/auto.py",
    "benchmarks/decode.py",
    "benchmarks/decoders/with_zoo.py",
    "benchmarks/editions.py",
    "benchmarks/engines.py",
    "benchmarks/everyday.py",
    "benchmarks/epoch.py",
    "benchmarks/fine_tuning.py",
    "benchmarks/growth.py",
    "benchmarks/in_turn.py",
    "benchmarks/install.py",
    "benchmarks/pronunciation.py",
    "benchmarks/start.py",
    "benchmarks/tokenized_bleu.py",
    "benchmarks/train.py",
    "benchmarks/trainers/epoch_zoo.py",
    "benchmarks/trainers/with_zoo.py",
    "benchmarks/unseen_words.py",
)


PROGRAM = """
import contextlib, io, os, runpy, sys
for script in sys.argv[1:]:
    path, modules, output = sys.path.copy(), set(sys.modules), io.StringIO()
    sys.argv, sys.path[0] = [script, "--help"], os.path.dirname(script)
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert not end.code, (script, end.code)
    assert "usage: " in output.getvalue(), (script, output.getvalue())
    sys.path[:] = path
    for name in set(sys.modules) - modules:  # scripts of different folders share names
        if os.path.dirname(script) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    print(script)
"""


def test_the_scripts_print_their_help() -> None:
    scripts = [str(TOP / script) for script in SCRIPTS]
    done = subprocess.run([*python(), "-c", PROGRAM, *scripts], cwd=TOP, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == scripts


def test_the_slow_files_that_start_first_exist() -> None:
    assert [name for name in SLOW if not (TOP / "tests" / name).is_file()] == []


def test_every_checkpoint_of_the_catalogue_can_be_made_again() -> None:
    program = (
        "import sys; sys.path.insert(0, 'cards'); import released, training;"
        "from zoo.registry.registry import default_registry as registry;"
        "assert set(released.NAMES) >= set(registry().checkpoints);"
        "assert set(training.TEACHERS_OF) <= {*released.NAMES, *training.TEACHERS};"
        "assert {n for groups in training.TEACHERS_OF.values() for g in groups for n in g}"
        " <= {*released.NAMES, *training.TEACHERS}"
    )
    subprocess.run([*python(), "-c", program], cwd=TOP, check=True)


def test_failures_are_counted_by_kind(import_script: ImportScript) -> None:
    module = import_script("failures")
    phones = [["HH AH0 L OW1"], ["EY1", "AH0"], ["B IY1"], ["K AE1 T"]]
    texts = ["HH AH1 L OW1", "AH0", "P IY1", "S T AA1"]
    kinds = module.failures("phones", texts, phones)
    assert kinds == [("stress only", 1, 0), ("one phone", 1, 2), ("several phones", 1, 3)]
    dates = module.failures(
        "date", ["2021-05-03", "2021-50-30", "in May", "2020-05-03"], [["2021-05-03"]] * 4
    )
    assert [name for name, _, _ in dates] == [
        "wrong month and day", "not a date of ten characters", "wrong year",
    ]  # fmt: skip
    words = module.failures(
        "text", ["a b c a b c", "a", "b ⁇", "a b c d e", "d c b a"], [["a b c d"]] * 5
    )
    assert words == [
        ("", 2, 3), ("repeats three words", 1, 0), ("under half as long as each reference", 1, 1),
        ("has an unknown token", 1, 2),
    ]  # fmt: skip


FOLD_SCORES = {
    0.6: [40.0, 41.0, 39.0, 40.0, 42.0],
    1.0: [40.5, 41.1, 39.6, 40.3, 42.5],
    1.5: [40.1, 40.8, 39.3, 39.8, 42.1],
    2.0: [42.9, 38.1, 39.6, 41.3, 41.5],
}


@pytest.mark.parametrize(("present", "chosen"), [(0.6, 1.0), (1.0, 1.0), (1.5, 1.0), (2.0, 2.0)])
def test_a_length_penalty_is_changed_only_by_more_than_its_error(
    present: float,
    chosen: float,
    import_script: ImportScript,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The mean of 2.0 is nearly that of 1.0, and scattered: it is neither chosen nor given up."""
    selection = import_script("selection")
    name = "transformer-tiny.multi30k-en-fr"
    monkeypatch.setattr(selection, "CHOICES", tmp_path / "choices.json")
    monkeypatch.setattr(selection, "SEED_SCORES", tmp_path / "none.json")
    monkeypatch.setattr(selection, "SEEDS", (1,))
    monkeypatch.setattr(selection, "search_of", lambda _: {"beam": 5, "length_penalty": present})
    monkeypatch.setattr(selection, "fold_scores", lambda _, __, penalty: FOLD_SCORES[penalty])
    selection.choose(name)
    record = json.loads((tmp_path / "choices.json").read_text())[name]
    assert (record["length_penalty"], record["before"], record["seeds"]) == (chosen, present, 1)
    (section,) = selection.selection_sections(name)
    rows = {row.split()[1]: row for row in section.splitlines() if row.startswith("| ")}
    for penalty, scores in FOLD_SCORES.items():
        row = rows[str(penalty)]
        assert ("chosen" in row) == (penalty == chosen)
        assert f"{np.mean(scores):.2f}" in row
        difference = np.subtract(scores, FOLD_SCORES[present])
        error = np.std(difference, ddof=1) / np.sqrt(len(difference))
        assert (f"{np.mean(difference):+.2f} ± {error:.2f}" in row) == (penalty != present)


def test_the_spread_of_seeds_is_their_standard_deviation(
    import_script: ImportScript, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    selection = import_script("selection")
    scores = {"1": 60.5, "2": 61.25, "3": 60.0}
    runs = {seed: {"test": {"tokenized_bleu": value}} for seed, value in scores.items()}
    file = tmp_path / "seeds.json"
    file.write_text(json.dumps({"some.name": runs}))
    monkeypatch.setattr(selection, "SEED_SCORES", file)
    monkeypatch.setattr(selection, "CHOICES", tmp_path / "none.json")
    (section,) = selection.selection_sections("some.name")
    values = list(scores.values())
    assert f"| {np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} |" in section
    assert "| test, tokenized BLEU |" in section
    assert selection.selection_sections("another.name") == []


def test_words_are_invented_from_two_others(import_script: ImportScript) -> None:
    invent = import_script("invented_words").invent
    words = ["prevail", "reverse", "reverend", "prevail", "no", "leverage"]
    known = {"PREVERSE", *map(str.upper, words)}
    made = invent(words, 2, known, str.upper)
    assert made == invent(words, 2, known, str.upper)
    assert len(set(made)) == 2
    made = invent(words, 1_000, known, str.upper)
    assert not known & set(map(str.upper, made))
    joined = {
        first[:end] + second[begin:]
        for first in words
        for second in words
        for end in range(3, len(first) + 1)
        for begin in range(3, len(second) + 1)
        if first[end - 3 : end] == second[begin - 3 : begin]
    }
    assert sorted(made) == sorted(joined - {*words, "preverse"})
    assert "preverse" in joined


def test_sentences_are_typed_in_a_hurry(import_script: ImportScript) -> None:
    typed = import_script("rewritten_sentences").typed
    source = "I'm sure that Tom can't come !"
    letters = re.sub(r"\W", "", source).lower()
    draw = random.Random(0)
    variants = [typed(source, draw) for _ in range(500)]
    assert {re.sub(r"\W", "", text).lower() for text in variants} == {letters}
    assert 100 < sum(text == source for text in variants) < 300
    for change in ("i'm sure that Tom", "i'm sure that tom", "Im sure that Tom", "can't come", "!"):
        assert any(change in text for text in variants)
    assert any(text.endswith("come") for text in variants)
    assert typed("!", draw) == "!"


def test_names_of_both_sides_are_replaced(import_script: ImportScript) -> None:
    rewritten = import_script("rewritten_sentences")
    pairs = [
        zoo.Pair("Tom knows Anna's friend.", "Tom connaît l'ami d'Anna."),
        zoo.Pair("Who are you?", "Qui es-tu ?"),
        zoo.Pair("Please wait, OK?", "Attendez, OK ?"),
        zoo.Pair("Page two.", "Page deux."),
        zoo.Pair("It is on this page.", "C'est sur cette page."),
    ]
    names = rewritten.names_of_people()
    assert {"Julia", "Peter", "Zoé", "Müller"} <= set(names)
    rewritten_pairs = list(rewritten.with_other_names(pairs, names, 50, random.Random(0)))
    assert len(rewritten_pairs) == 50, "only the first pair has names"
    for pair in rewritten_pairs:
        match = re.fullmatch(r"(\w+) knows (\w+)'s friend\.", pair.source)
        assert match
        assert pair.target == f"{match[1]} connaît l'ami d'{match[2]}."
        assert set(match.groups()) <= set(names) - {"Tom", "Anna"}
        assert match[1][0] not in rewritten.VOWELS
        assert match[2][0] in rewritten.VOWELS
    every = rewritten.rewritten(pairs, times=2)
    assert len(every) == len(pairs) + 2
    assert every == rewritten.rewritten(pairs, times=2)


def test_sentences_with_numbers_agree(
    import_script: ImportScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = import_script("more_sentences")
    draw, kinds = random.Random(0), set[object]()
    numbers: list[int] = []
    in_words = more._in_words

    def recorded(number: int, french: str) -> list[str]:
        numbers.append(number)
        return in_words(number, french)

    monkeypatch.setattr(more, "_in_words", recorded)
    for _ in range(3_000):
        numbers.clear()
        english, french = more.numbered(["Zoé", "Otto"], draw)
        assert not set("{}*") & {*english, *french}
        sides = [re.findall(r"\d", text.replace(",", "")) for text in (english, french)]
        if re.search(r"\d [ap]\.?m|o'clock", english):
            kinds.add("time")
            hour = int("".join(sides[0]))
            later = 0 if hour == 12 else 12
            expected = {hour % 24, hour + later} if "p" in english[-6:] else {hour}
            words = {"midi": 12, "minuit": 12}
            named = next((n for word, n in words.items() if word in french), None)
            assert (named or int("".join(sides[1]))) in expected
        elif not numbers:
            kinds.add("numeral")
            assert sorted(sides[0]) == sorted(sides[1]) or "1er" in french
        for number in numbers:
            spelled = [num2words(number, lang=language) for language in ("en", "fr")]
            in_digits = [f"{number:,}" in english, f"{number:,}".replace(",", " ") in french]
            in_digits = [
                has or str(number) in text
                for has, text in zip(in_digits, (english, french), strict=True)
            ]
            assert in_digits[0] or spelled[0] in english
            assert in_digits[1] or spelled[1] in french
            kinds.add({0: "words", 1: "both", 2: "digits"}[sum(in_digits)])
        kinds.add(len(numbers))
        assert not re.search(r"\bun (maisons|voitures|pommes|personnes|heures)", french)
    assert kinds == {"time", "numeral", "digits", "words", "both", 0, 1, 2}


def test_statements_are_joined(import_script: ImportScript) -> None:
    more = import_script("more_sentences")
    statements = more.clauses(
        [
            zoo.Pair("Tom is ill.", "Tom est malade."),
            zoo.Pair("He eats bread.", "Il mange du pain."),
            zoo.Pair("I ate what he ate.", "J'ai mangé ce qu'il mangeait."),
            zoo.Pair("Who am I?", "Que j'écoute ?"),
        ]
    )
    assert statements == [
        ("Tom is ill", "Tom est malade"),
        ("he eats bread", "il mange du pain"),
        ("I ate what he ate", "j'ai mangé ce qu'il mangeait"),
    ]
    draw = random.Random(0)
    made = [more.joined(statements, draw) for _ in range(2_000)]
    texts = {text for pair in made for text in pair}
    assert all(re.fullmatch(r"[A-ZÀ].+[^.]\.", text) for text in texts)
    assert not any(re.search(r"\b[Qq]ue [iaeéê]", text) for text in texts)
    assert (
        "Tom is ill because he eats bread.",
        "Tom est malade parce qu'il mange du pain.",
    ) in made
    assert ("I think that Tom is ill.", "Je pense que Tom est malade.") in made
    assert any(english.count("he eats bread") and english.count("I ate") for english, _ in made)


def test_statements_are_completed(import_script: ImportScript) -> None:
    more = import_script("more_sentences")
    draw = random.Random(0)
    statements = [zoo.Pair("he eats bread", "il mange du pain"), zoo.Pair("I ran", "j'ai couru")]
    made = {tuple(more.completed(statements, ["Zoé", "Otto"], draw)) for _ in range(500)}
    assert ("He eats bread on Sunday.", "Il mange du pain dimanche.") in made
    assert ("I ran with Zoé Otto.", "J'ai couru avec Zoé Otto.") in made
    assert ("If he eats bread, I ran.", "S'il mange du pain, j'ai couru.") in made
    assert ("If I ran, he eats bread.", "Si j'ai couru, il mange du pain.") in made


def test_sentences_about_people_agree(import_script: ImportScript) -> None:
    people = import_script("people")
    draw, names = random.Random(0), ["Zoé", "Otto", "Anna", "Paul"]
    made = [people.about_people(names, draw) for _ in range(4_000)]
    for english, french in made:
        assert not set("{}") & {*english, *french}
        counts = [sorted(re.findall("|".join(names), text)) for text in (english, french)]
        assert counts[0] == counts[1]
        assert not re.search(r"\b([Qq]u|d)e [AEIOUÉaeiou]", french)
        for town, ville in (("Vienna", "Vienne"), ("Japan", "[ad]u Japon"), ("Rome", "Rome")):
            assert (town in english) == (re.search(ville, french) is not None)
    sentences = set(map(tuple, made))
    assert any("Vienna" in english for english, _ in made)
    assert ("I'm from Germany.", "Je viens d'Allemagne.") in sentences
    assert ("My name is Paul Otto.", "Je m'appelle Paul Otto.") in sentences
    assert ("Zoé is taller than Anna.", "Zoé est plus grand qu'Anna.") in sentences


def test_sentences_are_quoted(import_script: ImportScript) -> None:
    more = import_script("more_sentences")
    draw = random.Random(0)
    statement = zoo.Pair("Tom is ill.", "Tom est malade.")
    question = zoo.Pair("Who is he?", "Qui est-il ?")
    made = {more.quoted(pair, draw) for _ in range(300) for pair in (statement, question)}
    assert ('"Tom is ill," she said.', "« Tom est malade », dit-elle.") in made
    assert ('"Who is he?" he asked.', "« Qui est-il ? » demanda-t-il.") in made
    assert ("(Tom is ill)", "(Tom est malade)") in made
    assert ('He said, "Who is he?"', "Il a dit : « Qui est-il ? »") in made


@pytest.mark.parametrize("english_first", [True, False])
def test_courtesies_have_one_translation_each(
    import_script: ImportScript, english_first: bool
) -> None:
    courtesies = import_script("courtesies")
    pairs = courtesies.courtesies(english_first)
    written = {tuple(pair) if english_first else tuple(pair)[::-1] for pair in courtesies.PAIRS}
    sources = [pair.source for pair in set(pairs) if tuple(pair) in written]
    assert len(sources) == len(set(sources)) > 100
    hello, bonjour = ("Hello.", "Bonjour.") if english_first else ("Bonjour.", "Hello.")
    assert pairs.count(zoo.Pair(hello, bonjour)) >= courtesies.TIMES // 2
    cat, chat = ("cat", "chat") if english_first else ("chat", "cat")
    for form in (cat, cat.capitalize(), f"{cat.capitalize()}."):
        assert any(p.source == form and p.target.lower().startswith(chat) for p in pairs)


def test_near_copies_of_held_out_text_are_left_out(import_script: ImportScript) -> None:
    training = import_script("training")
    splits = {"validation": [zoo.Pair("He is here now, Tom!", "Il est là.")], "test": []}
    dataset = types.SimpleNamespace(load=splits.__getitem__)
    pairs = [
        zoo.Pair("He is here, Tom.", "Oui."), zoo.Pair("Yes.", "il est la"),
        zoo.Pair("He was here.", "Il était là."),
    ]  # fmt: skip
    assert training.without_near_copies(pairs, dataset) == pairs[2:]
