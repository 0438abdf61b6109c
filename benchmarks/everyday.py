"""Everyday checkpoints on validation text as people type it, with numbers, names and longer text.

    python benchmarks/everyday.py transformer-tiny.tatoeba-en-fr-76k

The sources are those of the validation data: as they are, in lowercase, without their final mark,
both, in two kinds of quotes, in brackets, and as statements joined to longer sentences. Names of
both sides are replaced by Dutch, Polish and Swedish ones that training has not, of one word and of
two. Numbers, amounts of money, addresses and dates are in sentences written for this, unlike those
of training; the addresses are made of these names. Names, and all of these, are also read as
`zoo translate` reads them, which copies what would be lost.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from num2words import num2words
from sacrebleu import corpus_bleu

import zoo
from zoo.data.datasets import find_dataset, read_items
from zoo.registry.registry import default_registry
from zoo.translation.dates import Date, dates_of, has_date, written

sys.path.insert(0, str(Path(__file__).parents[1] / "cards"))

from details import Details
from more_sentences import WEEKDAYS, clauses, joined
from rewritten_sentences import LOCALES, MARK, WORD, names_of_people, turned, with_other_names

OTHER_LOCALES = ("nl_NL", "pl_PL", "sv_SE")
TIMES = 3
"""How often each pair with a name is rewritten."""
NUMBERED = {
    "en": (
        "He collected {n} stamps.", "The library has {n} computers.", "We drove {n} miles.",
        "The bridge is {n} meters long.", "My grandmother is {n}.", "Chapter {n} is boring.",
        "She has worked here since {n}.", "The ticket cost {n} pounds.", "Flight {n} is late.",
        "{n} soldiers were killed.",
    ),
    "fr": (
        "Il collectionne {n} timbres.", "La bibliothèque a {n} ordinateurs.",
        "Nous avons roulé {n} kilomètres.", "Le pont mesure {n} mètres.",
        "Ma grand-mère a {n} ans.", "Le chapitre {n} est ennuyeux.",
        "Elle travaille ici depuis {n}.", "Le billet a coûté {n} livres.",
        "Le vol {n} est en retard.", "{n} soldats ont été tués.",
    ),
}  # fmt: skip
SYMBOLS = {
    "en": {
        "decimals": (
            "The stick is {n} inches long.", "He jumped {n} meters.", "I lost {n} kilos.",
            "Her average is only {n} points.", "My cat weighs {n} pounds.",
        ),
        "amounts of money": (
            "These shoes were {n}.", "He sold it for {n}.", "They stole {n} from me.",
            "I found {n} in the street.", "She wants {n} for her car.",
        ),
        "addresses": (
            "I wrote to {n} yesterday.", "She works for {n}.", "Why doesn't {n} work?",
            "I don't trust {n}.", "Tom showed me {n}.",
        ),
        "dates": (
            "The museum opens on {n}.", "We moved here on {n}.", "The war ended on {n}.",
            "I haven't seen him since {n}.", "Your package will arrive on {n}.",
        ),
        "months": (
            "The war began in {n}.", "He retired in {n}.", "We haven't met since {n}.",
            "The bridge was finished in {n}.", "Prices fell in {n}.",
        ),
        "ordinals": (
            "They met in the {n} century.", "The kitchen is on the {n} floor.",
            "He was killed on the {n} day of the war.", "Germany won the {n} game.",
            "She has just married her {n} husband.",
        ),
        "large amounts": (
            "The repairs cost {n}.", "He inherited {n}.", "The school received {n}.",
            "They want to invest {n}.", "The thieves took {n}.",
        ),
        "weekdays": (
            "The pool is closed {n}.", "My mother works {n}.", "We play tennis {n}.",
            "The museum is open {n}.", "I'm in Berlin {n}.",
        ),
        "ages": (
            "They adopted a {n}-year-old girl.", "My {n}-year-old nephew plays the piano.",
            "I sold my {n}-year-old car.", "A {n}-year-old man was arrested.",
            "She married a {n}-year-old actor.",
        ),
        "acronyms": (
            "My brother works for {n}.", "I read it in the {n} report.", "They left {n} in May.",
            "Who founded {n}?", "{n} has two offices here.",
        ),
    },
    "fr": {
        "decimals": (
            "Le bâton mesure {n} pouces.", "Il a sauté {n} mètres.", "J'ai perdu {n} kilos.",
            "Elle n'a que {n} points de moyenne.", "Mon chat pèse {n} livres.",
        ),
        "amounts of money": (
            "Ces chaussures étaient à {n}.", "Il l'a vendu pour {n}.", "On m'a volé {n}.",
            "J'ai trouvé {n} dans la rue.", "Elle veut {n} pour sa voiture.",
        ),
        "addresses": (
            "J'ai écrit à {n} hier.", "Elle travaille pour {n}.",
            "Pourquoi {n} ne fonctionne-t-il pas ?", "Je ne fais pas confiance à {n}.",
            "Tom m'a montré {n}.",
        ),
        "dates": (
            "Le musée ouvre le {n}.", "Nous avons emménagé ici le {n}.",
            "La guerre s'est terminée le {n}.", "Je ne l'ai pas vu depuis le {n}.",
            "Votre colis arrivera le {n}.",
        ),
        "months": (
            "La guerre a commencé en {n}.", "Il a pris sa retraite en {n}.",
            "Nous ne nous sommes pas vus depuis {n}.", "Le pont a été terminé en {n}.",
            "Les prix ont baissé en {n}.",
        ),
        "ordinals": (
            "Ils se sont rencontrés au {n} siècle.", "La cuisine est au {n} étage.",
            "Il a été tué le {n} jour de la guerre.", "L'Allemagne a gagné le {n} match.",
            "Elle vient d'épouser son {n} mari.",
        ),
        "large amounts": (
            "Les réparations ont coûté {n}.", "Il a hérité de {n}.", "L'école a reçu {n}.",
            "Ils veulent investir {n}.", "Les voleurs ont pris {n}.",
        ),
        "weekdays": (
            "La piscine est fermée {n}.", "Ma mère travaille {n}.", "Nous jouons au tennis {n}.",
            "Le musée est ouvert {n}.", "Je suis à Berlin {n}.",
        ),
        "ages": (
            "Ils ont adopté une fille de {n}.", "Mon neveu de {n} joue du piano.",
            "J'ai vendu ma voiture de {n}.", "Un homme de {n} a été arrêté.",
            "Elle a épousé un acteur de {n}.",
        ),
        "acronyms": (
            "Mon frère travaille pour {n}.", "Je l'ai lu dans le rapport de {n}.",
            "Ils ont quitté {n} en mai.", "Qui a fondé {n} ?", "{n} a deux bureaux ici.",
        ),
    },
}  # fmt: skip
READ = (("as it is", False), ("copied", True))
"""Whether what would be lost is copied, as `zoo translate` does."""

PER_PATTERN, JOINED = 20, 500
"""How many numbers are put into each, and how many longer sentences are made."""


def main() -> None:
    """Print the scores of a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", help="name or folder")
    parser.add_argument("--data", help="dataset; by default what the name says")
    options = parser.parse_args()
    data = options.data or options.checkpoint.partition(".")[2]
    dataset = find_dataset(default_registry(), data)
    _, items = read_items(dataset, "validation", None)
    sources = [item.source for item in items]
    lower = [source.lower() for source in sources]
    translator = zoo.load(options.checkpoint)
    references = [item.references for item in items]
    most = max(map(len, references))
    columns = [[each[i] if i < len(each) else None for each in references] for i in range(most)]
    for what, texts in (
        ("as it is", sources),
        ("in lowercase", lower),
        ("without final mark", [MARK.sub("", text) or text for text in sources]),
        ("both", [MARK.sub("", text) or text for text in lower]),
    ):
        bleu = corpus_bleu(translator.translate(texts, split=False), columns).score
        print(f"BLEU, {what:<20} {bleu:6.2f}", flush=True)
    pairs = list(dataset.load("validation"))
    english_first = data.startswith("tatoeba-en")
    marks, others = ('"', '"', "« ", " »"), ("'", "'", "« ", " »")
    if not english_first:
        marks, others = ("« ", " »", '"', '"'), ("«", "»", '"', '"')
    for what, begin, end, begun, ended in (
        ("in quotes", *marks), ("in other quotes", *others), ("in brackets", *"()()")
    ):  # fmt: skip
        wrapped = [[text and f"{begun}{text}{ended}" for text in column] for column in columns]
        texts = translator.translate([f"{begin}{text}{end}" for text in sources], split=False)
        print(f"BLEU, {what:<20} {corpus_bleu(texts, wrapped).score:6.2f}", flush=True)
    draw = random.Random(3)
    statements = clauses(turned(pairs, english_first))
    maker = Details(turned(pairs, english_first), english_first, draw)
    for what, make in (("joined", lambda: joined(statements, draw)), ("extended", maker.extended)):
        longer = turned([make() for _ in range(JOINED)], english_first)
        texts = translator.translate([pair.source for pair in longer], split=False)
        bleu = corpus_bleu(texts, [[pair.target for pair in longer]]).score
        print(f"BLEU, {what:<20} {bleu:6.2f}", flush=True)
    names = sorted(set(names_of_people(OTHER_LOCALES)) - set(names_of_people(LOCALES)))
    full = [" ".join(both) for both in zip(names, draw.sample(names, len(names)), strict=True)]
    for what, new in (("one word", names), ("two words", full)):
        named = list(with_other_names(pairs, new, TIMES, random.Random(3)))
        for how, split in READ:
            texts = translator.translate([pair.source for pair in named], split=split)
            kept = 0
            for pair, text in zip(named, texts, strict=True):
                words = [set(WORD.findall(each)) for each in (pair.source, pair.target)]
                kept += (words[0] & words[1] & set(names)) <= set(WORD.findall(text))
            print(f"names of {what}, {how}, {len(named)} pairs {100 * kept / len(named):6.1f}%")
    for digits in (2, 3, 4):
        numbers = [str(draw.randrange(10 ** (digits - 1), 10**digits)) for _ in range(PER_PATTERN)]
        patterns = NUMBERED["en" if english_first else "fr"]
        numbered = [(pattern.replace("{n}", n), n) for pattern in patterns for n in numbers]
        for how, split in READ:
            texts = translator.translate([text for text, _ in numbered], split=split)
            right = sum(
                "".join(re.findall(r"\d", text)) == n
                for text, (_, n) in zip(texts, numbered, strict=True)
            )
            share = 100 * right / len(texts)
            print(f"numbers of {digits} digits, {how}, {len(numbered)} {share:6.1f}%")
    for what, patterns in SYMBOLS["en" if english_first else "fr"].items():
        made = [(p, *_symbols(what, names, draw)) for p in patterns for _ in range(PER_PATTERN)]
        sources = [pattern.replace("{n}", each[not english_first]) for pattern, *each in made]
        for how, split in READ:
            texts = translator.translate(sources, split=split)
            languages = ("en", "fr") if english_first else ("fr", "en")
            right = sum(
                _has(text, each[english_first], source, *languages)
                for text, source, (_, *each) in zip(texts, sources, made, strict=True)
            )
            print(f"{what} right, {how}, {len(made):<5} {100 * right / len(made):12.1f}%")


def _has(text: str, part: str, source: str, *languages: str) -> bool:
    """Return whether a translation has a part, in which white space may be missing.

    A date of the source may be written in each way of the target language.
    """
    if dates := list(dates_of(source, *languages)):
        return has_date(text, dates[0][2], languages[1])
    pattern = r"\s?".join(map(re.escape, part.split()))
    return re.search(rf"(?<![\w.,]){pattern}(?!\w)", text) is not None


def _symbols(what: str, names: Sequence[str], draw: random.Random) -> tuple[str, str]:
    """Return a decimal number, an amount of money, an address, a date or another detail.

    It is in English and in French.
    """
    if what in ("dates", "months"):
        day = draw.randint(1, 28) if what == "dates" else None
        date = Date(None, day, draw.randrange(12), draw.randint(1900, 2029))
        if draw.random() < 0.5:
            date = date._replace(year=None)
        return written(date, "en", ""), written(date, "fr", "le").removeprefix("le ")
    if what in OTHERS:
        return OTHERS[what](draw)
    number = f"{draw.uniform(0, 300):.{draw.choice((1, 2))}f}"
    if what == "decimals":
        return number, number.replace(".", ",")
    if what == "amounts of money":
        currency, number = draw.choice("$€£"), f"{draw.uniform(0, 300):.2f}"
        return f"{currency}{number}", f"{number.replace('.', ',')} {currency}"
    one, other = (name.lower() for name in draw.sample([n for n in names if n.isascii()], 2))
    address = draw.choice((f"{one}@{other}.org", f"{one}.{other}@mail.com", f"www.{one}.fr"))
    return address, address


def _ordinal(draw: random.Random) -> tuple[str, str]:
    number = draw.randint(2, 40)
    return num2words(number, to="ordinal_num"), f"{number}e"


def _large_amount(draw: random.Random) -> tuple[str, str]:
    number = f"{draw.randint(2, 99)}.{draw.randint(1, 9)}"
    currency = draw.choice(("euros", "dollars"))
    english, french = draw.choice((("million", "millions"), ("billion", "milliards")))
    of = "d'" if currency == "euros" else "de "
    return f"{number} {english} {currency}", f"{number.replace('.', ',')} {french} {of}{currency}"


def _weekdays(draw: random.Random) -> tuple[str, str]:
    first, last = draw.sample(WEEKDAYS, 2)
    return f"from {first[0]} to {last[0]}", f"du {first[1]} au {last[1]}"


def _age(draw: random.Random) -> tuple[str, str]:
    number = draw.choice([n for n in range(2, 90) if n not in (8, 11, 18) and n // 10 != 8])
    return str(number), f"{number} ans"


def _acronym(draw: random.Random) -> tuple[str, str]:
    letters = "".join(draw.choices("ABCDEFGHIJKLMNOPRSTUVXYZ", k=draw.randint(3, 5)))
    return letters, letters


OTHERS = {
    "ordinals": _ordinal, "large amounts": _large_amount, "weekdays": _weekdays, "ages": _age,
    "acronyms": _acronym,
}  # fmt: skip


if __name__ == "__main__":
    main()
