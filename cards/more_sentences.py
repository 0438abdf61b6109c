"""Numbers, names of two words, joined clauses, quotes: what the everyday corpus hardly has.

Tatoeba's sentences are short, and few have a number, a full name, a quotation or a bracket. These
pairs are made from its training pairs and from patterns written for this. Both directions use the
same English and French.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from num2words import num2words
from people import about_people, person
from rewritten_sentences import (
    BEFORE_VOWEL,
    WORD,
    half_typed,
    names_of_people,
    turned,
    with_other_names,
)

from zoo import Pair

FULL_NAMES, PEOPLE, NUMBERED, QUOTED = 20_000, 24_000, 18_000, 5_000
JOINED, COMPLETED = 24_000, 8_000
"""How many pairs are made of each kind."""
HAVING = (
    ("I have", "J'ai"), ("You have", "Vous avez"), ("He has", "Il a"), ("She has", "Elle a"),
    ("We have", "Nous avons"), ("They have", "Ils ont"), ("I bought", "J'ai acheté"),
    ("He bought", "Il a acheté"), ("We need", "Nous avons besoin de"), ("There are", "Il y a"),
    ("I saw", "J'ai vu"), ("She found", "Elle a trouvé"), ("I sold", "J'ai vendu"),
    ("They lost", "Ils ont perdu"), ("I need", "J'ai besoin de"), ("We sold", "Nous avons vendu"),
    ("Do you have", "Avez-vous"), ("I want", "Je veux"), ("I'd like", "Je voudrais"),
    ("{name} has", "{name} a"), ("{name} bought", "{name} a acheté"), ("She read", "Elle a lu"),
)  # fmt: skip
THINGS = (
    ("books", "livres"), ("cats", "chats"), ("dogs", "chiens"), ("children", "enfants"),
    ("friends", "amis"), ("students", "élèves"), ("tickets", "billets"), ("houses", "maisons*"),
    ("cars", "voitures*"), ("apples", "pommes*"), ("eggs", "œufs"), ("chairs", "chaises*"),
    ("letters", "lettres*"), ("rooms", "chambres*"), ("people", "personnes*"),
    ("brothers", "frères"), ("sisters", "sœurs*"), ("questions", "questions*"),
    ("euros", "euros"), ("dollars", "dollars"), ("pictures", "photos*"), ("shirts", "chemises*"),
    ("bottles", "bouteilles*"), ("glasses", "verres"), ("shoes", "chaussures*"),
    ("flowers", "fleurs*"), ("trees", "arbres"), ("birds", "oiseaux"), ("horses", "chevaux"),
    ("hours", "heures*"), ("days", "jours"), ("weeks", "semaines*"), ("years", "ans"),
    ("guests", "invités"), ("windows", "fenêtres*"), ("coins", "pièces*"), ("pens", "stylos"),
)  # fmt: skip
"""A star: feminine."""
MEASURED = (
    ("I am {n} years old.", "J'ai {n} ans.", 3, 99),
    ("I'm {n} years old.", "J'ai {n} ans.", 3, 99),
    ("She is {n} years old.", "Elle a {n} ans.", 3, 99),
    ("He is {n} years old.", "Il a {n} ans.", 3, 99),
    ("{name} is {n} years old.", "{name} a {n} ans.", 3, 99),
    ("My father is {n} years old.", "Mon père a {n} ans.", 30, 99),
    ("My daughter is {n}.", "Ma fille a {n} ans.", 3, 60),
    ("He died at the age of {n}.", "Il est mort à l'âge de {n} ans.", 20, 99),
    ("We have lived here for {n} years.", "Nous vivons ici depuis {n} ans.", 2, 60),
    ("I have known him for {n} years.", "Je le connais depuis {n} ans.", 2, 60),
    ("It costs {n} euros.", "Ça coûte {n} euros.", 2, 9999),
    ("It costs {n} dollars.", "Ça coûte {n} dollars.", 2, 9999),
    ("This book costs {n} euros.", "Ce livre coûte {n} euros.", 2, 200),
    ("That will be {n} euros.", "Ça fera {n} euros.", 2, 500),
    ("I paid {n} euros for it.", "Je l'ai payé {n} euros.", 2, 9999),
    ("He owes me {n} dollars.", "Il me doit {n} dollars.", 2, 9999),
    ("The hotel is {n} kilometers from here.", "L'hôtel est à {n} kilomètres d'ici.", 2, 900),
    ("The station is {n} meters away.", "La gare est à {n} mètres.", 10, 900),
    ("He weighs {n} kilos.", "Il pèse {n} kilos.", 30, 140),
    ("It's {n} degrees outside.", "Il fait {n} degrés dehors.", 2, 45),
    ("Come back in {n} minutes.", "Revenez dans {n} minutes.", 2, 60),
    ("I'll be there in {n} minutes.", "Je serai là dans {n} minutes.", 2, 60),
    ("The film lasts {n} minutes.", "Le film dure {n} minutes.", 20, 240),
    ("I waited for {n} hours.", "J'ai attendu pendant {n} heures*.", 2, 48),
    ("There are {n} students in the class.", "Il y a {n} élèves dans la classe.", 5, 60),
    ("A year has {n} days.", "Une année a {n} jours.", 300, 400),
    ("The answer is {n}.", "La réponse est {n}.", 2, 99999),
    ("Count to {n}.", "Comptez jusqu'à {n}.", 2, 1000),
    ("He won {n} games.", "Il a gagné {n} matchs.", 2, 90),
    ("About {n} people came.", "Environ {n} personnes* sont venues.", 5, 9000),
)  # fmt: skip
"""English, French, and the least and the largest number, in digits or in words."""
NUMERALS = (
    ("I was born in {n}.", "Je suis né en {n}.", 1900, 2030),
    ("She was born in {n}.", "Elle est née en {n}.", 1900, 2030),
    ("He was born in {n}.", "Il est né en {n}.", 1900, 2030),
    ("{name} was born in {n}.", "{name} est né en {n}.", 1900, 2030),
    ("He died in {n}.", "Il est mort en {n}.", 1500, 2030),
    ("The house was built in {n}.", "La maison a été construite en {n}.", 1500, 2030),
    ("The war ended in {n}.", "La guerre a pris fin en {n}.", 1500, 2030),
    ("We met in {n}.", "Nous nous sommes rencontrés en {n}.", 1950, 2030),
    ("What happened in {n}?", "Que s'est-il passé en {n} ?", 1500, 2060),
    ("I have lived here since {n}.", "Je vis ici depuis {n}.", 1950, 2030),
    ("My room number is {n}.", "Le numéro de ma chambre est le {n}.", 1, 999),
    ("I'm in room {n}.", "Je suis dans la chambre {n}.", 1, 999),
    ("Open your books to page {n}.", "Ouvrez vos livres à la page {n}.", 2, 400),
    ("Read page {n}.", "Lis la page {n}.", 2, 400),
    ("Take bus number {n}.", "Prenez le bus numéro {n}.", 1, 99),
    ("The train leaves from platform {n}.", "Le train part du quai {n}.", 1, 24),
    ("Call me at {n}.", "Appelle-moi au {n}.", 1000, 9999999),
    ("My phone number is {n}.", "Mon numéro de téléphone est le {n}.", 1000, 9999999),
    ("My number is {n}.", "Mon numéro est le {n}.", 100, 9999999),
    ("I live at number {n}.", "J'habite au numéro {n}.", 1, 300),
    ("It costs ${n}.", "Ça coûte {n} $.", 2, 999),
    ("It costs €{n}.", "Ça coûte {n} €.", 2, 999),
    ("I only have ${n}.", "Je n'ai que {n} $.", 2, 999),
    ("I got {n}% on the test.", "J'ai eu {n} % à l'examen.", 2, 99),
    ("Prices rose by {n}%.", "Les prix ont augmenté de {n} %.", 2, 99),
    ("It's {n}°C.", "Il fait {n} °C.", 2, 45),
)  # fmt: skip
"""The same, in digits only."""
PHONE_NUMBERS = 1_000_000
"""Above this, a number is often written in groups of digits."""
TIMES_OF_DAY = (
    ("The train leaves at {t}.", "Le train part à {t}."), ("It's {t}.", "Il est {t}."),
    ("I get up at {t}.", "Je me lève à {t}."), ("School starts at {t}.", "L'école commence à {t}."),
    ("He came home at {t}.", "Il est rentré à {t}."),
    ("The shop opens at {t}.", "Le magasin ouvre à {t}."),
    ("Call me at {t}.", "Appelle-moi à {t}."), ("Let's meet at {t}.", "Retrouvons-nous à {t}."),
    ("The meeting begins at {t}.", "La réunion commence à {t}."),
    ("I'll be back at {t}.", "Je reviens à {t}."),
    ("The bus arrives at {t}.", "Le bus arrive à {t}."),
    ("Wake me up at {t}.", "Réveille-moi à {t}."),
)  # fmt: skip
DAYS = (
    ("Today is {d}.", "Aujourd'hui, nous sommes le {d}."),
    ("My birthday is {d}.", "Mon anniversaire est le {d}."),
    ("I was born on {d}.", "Je suis né le {d}."), ("We leave on {d}.", "Nous partons le {d}."),
    ("The party is on {d}.", "La fête est le {d}."), ("She arrives on {d}.", "Elle arrive le {d}."),
)  # fmt: skip
MONTHS = (
    ("January", "janvier"), ("February", "février"), ("March", "mars"), ("April", "avril"),
    ("May", "mai"), ("June", "juin"), ("July", "juillet"), ("August", "août"),
    ("September", "septembre"), ("October", "octobre"), ("November", "novembre"),
    ("December", "décembre"),
)  # fmt: skip
JOINTS = (
    (" and ", " et "), (", and ", ", et "), (" but ", " mais "), (", but ", ", mais "),
    (" because ", " parce que "), (" when ", " quand "), (", so ", ", donc "), (" or ", " ou "),
    (", ", ", "), (" while ", " pendant que "),
)  # fmt: skip
OPENINGS = (
    ("I think that ", "Je pense que "), ("I think ", "Je pense que "),
    ("I know that ", "Je sais que "), ("He said that ", "Il a dit que "),
    ("She told me that ", "Elle m'a dit que "), ("I believe that ", "Je crois que "),
    ("You know that ", "Tu sais que "), ("I heard that ", "J'ai entendu dire que "),
    ("Tomorrow, ", "Demain, "), ("Yesterday, ", "Hier, "), ("Maybe ", "Peut-être que "),
    ("Of course, ", "Bien sûr, "), ("In my opinion, ", "À mon avis, "),
)  # fmt: skip
SPEAKING = (
    ("he said", "dit-il"), ("she said", "dit-elle"), ("I said", "dis-je"),
    ("he asked", "demanda-t-il"), ("she asked", "demanda-t-elle"),
)  # fmt: skip
ELIDED = re.compile(rf"\b([Qq]u){BEFORE_VOWEL}")
IF_HE = re.compile(r"\b([Ss])i (?=ils?\b)")
WEEKDAYS = (
    ("Monday", "lundi"), ("Tuesday", "mardi"), ("Wednesday", "mercredi"), ("Thursday", "jeudi"),
    ("Friday", "vendredi"), ("Saturday", "samedi"), ("Sunday", "dimanche"),
)  # fmt: skip
ENDINGS = (
    *((f" on {english}", f" {french}") for english, french in WEEKDAYS),
    *((f" on {english} {half}", f" {french} {part}") for english, french in WEEKDAYS
      for half, part in (("morning", "matin"), ("evening", "soir"))),
    (" this morning", " ce matin"), (" tonight", " ce soir"), (" every day", " tous les jours"),
    (" next week", " la semaine prochaine"), (" with {name}", " avec {name}"),
    (" in the morning", " le matin"),
)  # fmt: skip


def more_sentences(pairs: Sequence[Pair], english_first: bool) -> list[Pair]:
    """Return new pairs, half of them as somebody may type them; `pairs` are those of training."""
    draw = random.Random(1)
    pairs = turned(pairs, english_first)
    names = names_of_people()
    full = [" ".join(draw.sample(names, 2)) for _ in range(4 * len(names))]
    statements = clauses(pairs)
    named = list(with_other_names(pairs, full, 3, draw))
    made = [
        *draw.sample(named, min(len(named), FULL_NAMES)),
        *(about_people(names, draw) for _ in range(PEOPLE)),
        *(numbered(names, draw) for _ in range(NUMBERED)),
        *(joined(statements, draw) for _ in range(JOINED)),
        *(completed(statements, names, draw) for _ in range(COMPLETED)),
        *(quoted(pair, draw) for pair in draw.sample(pairs, QUOTED)),
    ]
    return half_typed(turned(made, english_first), draw)


def numbered(names: Sequence[str], draw: random.Random) -> Pair:
    """Return a sentence with a number, a time of day or a day."""
    kind = draw.choices((_counted, _measured, _numeral, _time_of_day, _day), (3, 4, 3, 1, 1))[0]
    pair, name = kind(draw), person(names, draw)
    return Pair(*(text.replace("{name}", name) for text in pair))


def _counted(draw: random.Random) -> Pair:
    having, things = draw.choice(HAVING), draw.choice(THINGS)
    end = ("?", " ?") if having[0].startswith("Do ") else (".", ".")
    pair = _some(Pair(*(f"{each} " for each in having)), things, draw)
    if draw.random() < 0.4:
        more = _some(Pair("", ""), draw.choice(THINGS), draw)
        pair = Pair(f"{pair.source} and {more.source}", f"{pair.target} et {more.target}")
    return Pair(*(text + mark for text, mark in zip(pair, end, strict=True)))


def _some(before: Pair, things: tuple[str, str], draw: random.Random) -> Pair:
    patterns = (f"{text}{{n}} {thing}" for text, thing in zip(before, things, strict=True))
    number = draw.choice((draw.randint(2, 30), draw.randint(2, 1000)))
    return _with_number(Pair(*patterns), number, draw)


def _measured(draw: random.Random) -> Pair:
    *patterns, least, most = draw.choice(MEASURED)
    return _with_number(Pair(*patterns), draw.randint(least, most), draw)


def _numeral(draw: random.Random) -> Pair:
    *patterns, least, most = draw.choice(NUMERALS)
    number = str(draw.randint(least, most))
    if most > PHONE_NUMBERS and draw.random() < 0.6:
        groups = [str(draw.randrange(10, 10_000)) for _ in range(draw.randint(2, 5))]
        number = draw.choice("- .").join(groups)
    return Pair(*(pattern.replace("{n}", number) for pattern in patterns))


def _with_number(pair: Pair, number: int, draw: random.Random) -> Pair:
    """Return a pair of patterns with a number: in digits, in words, or in English words alone."""
    digits, words = [f"{number:,}", f"{number:,}".replace(",", " ")], _in_words(number, pair.target)
    if number < 10_000 and draw.random() < 0.7:
        digits = [str(number)] * 2
    source, target = draw.choices((digits, words, [words[0], digits[1]]), (6, 3, 1))[0]
    return Pair(
        pair.source.replace("{n}", source), pair.target.replace("{n}", target).replace("*", "")
    )


def _in_words(number: int, french: str) -> list[str]:
    """Return a number in English and in French, before a feminine noun that a star marks."""
    english, words = (num2words(number, lang=language) for language in ("en", "fr"))
    return [english, f"{words}e" if "*" in french and words.endswith("un") else words]


def _time_of_day(draw: random.Random) -> Pair:
    hour, minute = draw.randint(1, 23), draw.randrange(0, 60, 5)
    english, french = f"{hour}:{minute:02}", f"{hour} h {minute:02}"
    if draw.random() < 0.4:
        hour = hour % 12 or 12
        half = draw.choice(("a.m.", "p.m.", "o'clock", "am", "pm"))
        english = f"{hour} {half}"
        if hour == 12:
            french = "minuit" if half.startswith("a") else "midi"
        else:
            french = f"{hour + 12 * half.startswith('p')} heures"
    source, target = draw.choice(TIMES_OF_DAY)
    target = target.replace("{t}", "1 heure" if french == "1 heures" else french)
    return Pair(source.replace("{t}", english).replace("..", "."), target)


def _day(draw: random.Random) -> Pair:
    english, french = draw.choice(MONTHS)
    day, year = draw.randint(1, 28), draw.randint(1900, 2040)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
    written = [f"{english} {day}", f"{english} {day}{ending}", f"the {day}{ending} of {english}"]
    source, target = draw.choice(written), f"{day}er {french}" if day == 1 else f"{day} {french}"
    if draw.random() < 0.5:
        source, target = f"{written[0]}, {year}", f"{target} {year}"
    patterns = draw.choice(DAYS)
    return Pair(patterns[0].replace("{d}", source), patterns[1].replace("{d}", target))


def clauses(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the statements among pairs as they stand within a sentence."""
    lowered = {word for p in pairs for text in p for word in WORD.findall(text) if word.islower()}

    def within(text: str) -> str:
        word = WORD.match(text)
        keeps = word is None or word[0] == "I" or word[0].lower() not in lowered
        return text[:-1] if keeps else text[0].lower() + text[1:-1]

    plain = re.compile(r"[^.!?…:;\"«»]+\.")
    return [Pair(*map(within, pair)) for pair in pairs if all(map(plain.fullmatch, pair))]


def joined(statements: Sequence[Pair], draw: random.Random) -> Pair:
    """Return a sentence of one statement after an opening, or of two or three."""
    count = draw.choices((1, 2, 3), (2, 5, 2))[0]
    parts = draw.sample(statements, count)
    joints: list[tuple[str, str]] = [draw.choice(JOINTS) for _ in parts[1:]]
    opening = draw.choice(OPENINGS) if count == 1 or draw.random() < 0.1 else ("", "")
    sides = []
    for side in (0, 1):
        text = opening[side] + parts[0][side]
        for joint, part in zip(joints, parts[1:], strict=True):
            text += joint[side] + part[side]
        sides.append(f"{text[0].upper()}{text[1:]}.")
    return Pair(sides[0], ELIDED.sub(r"\1'", sides[1]))


def completed(statements: Sequence[Pair], names: Sequence[str], draw: random.Random) -> Pair:
    """Return a statement with a day, a time or a companion, or as a condition of another one."""
    first, second = draw.sample(statements, 2)
    if draw.random() < 0.3:
        french = f"Si {first.target}, {second.target}."
        return Pair(f"If {first.source}, {second.source}.", IF_HE.sub(r"\1'", french))
    name = person(names, draw)
    sides = (
        text + end.replace("{name}", name)
        for text, end in zip(first, draw.choice(ENDINGS), strict=True)
    )
    return Pair(*(f"{text[0].upper()}{text[1:]}." for text in sides))


def quoted(pair: Pair, draw: random.Random) -> Pair:
    """Return a sentence in quotes, alone or in another sentence, or in brackets."""
    english, french = pair
    he_said, dit_il = draw.choice(SPEAKING)
    inner = [text[:-1] if text.endswith(".") else text for text in pair]
    comma = [
        f"{text}," if full.endswith(".") else text for text, full in zip(inner, pair, strict=True)
    ]
    return draw.choice(
        (
            Pair(f'"{english}"', f"« {french} »"),
            Pair(
                f'"{comma[0]}" {he_said}.',
                f"« {inner[1]} »{', ' if comma[1] != french else ' '}{dit_il}.",
            ),
            Pair(f'He said, "{english}"', f"Il a dit : « {french} »"),
            Pair(f"({english})", f"({french})"),
            Pair(f"({inner[0]})", f"({inner[1]})"),
            Pair(f'"{inner[0]}"', f"« {inner[1]} »"),
            Pair(f"- {english}", f"- {french}"),
        )
    )
