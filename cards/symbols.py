"""Decimals, money, times, codes, addresses and quotes, as pairs in English and French.

The everyday corpus hardly has them, and a symbol that training lacks is lost: 4.75 becomes 475.
What is copied letter by letter is different in every pair, so that it cannot be learned by heart.
A target is written as its language prescribes; a source, in each way that people type.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Sequence

from rewritten_sentences import MARK, WORD, names_of_people, turned

from zoo import Pair

AMOUNTS, CLOCK_TIMES, COUNTS, CODES, ADDRESSES, QUOTES = 18_000, 3_000, 3_000, 4_000, 20_000, 10_000
"""How many pairs are made of each kind."""

Sides = tuple[str, str]
"""The English and the French."""

MEASURED = (
    ("It costs {x} euros.", "Ça coûte {x} euros."),
    ("It costs {x} dollars.", "Ça coûte {x} dollars."),
    ("I need {x} kg of {food}.", "J'ai besoin de {x} kg de {food}."),
    ("Add {x} liters of water.", "Ajoutez {x} litres d'eau."),
    ("I bought {x} kilos of {food}.", "J'ai acheté {x} kilos de {food}."),
    ("The answer is {x}.", "La réponse est {x}."),
    ("She ran {x} kilometers.", "Elle a couru {x} kilomètres."),
    ("It's {x} km from here.", "C'est à {x} km d'ici."),
    ("He is {x} meters tall.", "Il mesure {x} mètres."),
    ("The table is {x} meters long.", "La table fait {x} mètres de long."),
    ("It weighs {x} kg.", "Ça pèse {x} kg."),
    ("The box weighs {x} kilos.", "La boîte pèse {x} kilos."),
    ("We walked {x} miles.", "Nous avons marché {x} miles."),
    ("The average is {x}.", "La moyenne est de {x}."),
    ("I slept {x} hours.", "J'ai dormi {x} heures."),
    ("The flight takes {x} hours.", "Le vol dure {x} heures."),
    ("He finished in {x} seconds.", "Il a fini en {x} secondes."),
    ("I ran it in {x} seconds.", "Je l'ai couru en {x} secondes."),
    ("My grade is {x}.", "J'ai eu la note de {x}."), ("Half of it is {x}.", "La moitié fait {x}."),
    ("He earns {x} euros an hour.", "Il gagne {x} euros de l'heure."),
    ("The temperature is {x} degrees.", "La température est de {x} degrés."),
    ("My temperature is {x}.", "J'ai {x} de fièvre."),
    ("The rope is {x} m long.", "La corde fait {x} m de long."),
    ("I drank {x} liters of {drink}.", "J'ai bu {x} litres de {drink}."),
    ("About {x} million people live here.", "Environ {x} millions de personnes vivent ici."),
    ("That makes {x}.", "Ça fait {x}."), ("You owe me {x} euros.", "Tu me dois {x} euros."),
)  # fmt: skip
PRICED = (
    ("The price is {m}.", "Le prix est de {m}."), ("It costs {m}.", "Ça coûte {m}."),
    ("I paid {m} for it.", "Je l'ai payé {m}."), ("That's {m}.", "Ça fait {m}."),
    ("That will be {m}, please.", "Ça fera {m}, s'il vous plaît."),
    ("The ticket costs {m}.", "Le billet coûte {m}."), ("I only have {m}.", "Je n'ai que {m}."),
    ("He owes me {m}.", "Il me doit {m}."), ("I earn {m} a month.", "Je gagne {m} par mois."),
    ("How about {m}?", "Que dites-vous de {m} ?"),
    ("Can you lend me {m}?", "Peux-tu me prêter {m} ?"),
    ("The book is {m}.", "Le livre est à {m}."), ("We spent {m}.", "Nous avons dépensé {m}."),
    ("Coffee costs {m} here.", "Le café coûte {m} ici."),
    ("The bill is {m}.", "L'addition est de {m}."),
    ("The rent is {m} a month.", "Le loyer est de {m} par mois."),
    ("She gave me {m}.", "Elle m'a donné {m}."),
)  # fmt: skip
CURRENCIES = (("$", "dollars", "dollars"), ("€", "euros", "euros"), ("£", "pounds", "livres"))
SHARES = (
    ("It rose by {p}.", "Ça a augmenté de {p}."),
    ("Prices fell by {p}.", "Les prix ont baissé de {p}."),
    ("I got {p} on the test.", "J'ai eu {p} à l'examen."),
    ("The rate is {p}.", "Le taux est de {p}."),
    ("There's a {p} discount.", "Il y a une remise de {p}."),
    ("{p} of the people voted.", "{p} des gens ont voté."),
    ("The battery is at {p}.", "La batterie est à {p}."),
    ("It contains {p} sugar.", "Ça contient {p} de sucre."),
    ("I agree {p}.", "Je suis d'accord à {p}."),
    ("He won {p} of the votes.", "Il a obtenu {p} des voix."),
)  # fmt: skip
WARM = (
    ("It's {c} outside.", "Il fait {c} dehors."), ("It's {c}.", "Il fait {c}."),
    ("It was {c} this morning.", "Il faisait {c} ce matin."),
    ("The water is {c}.", "L'eau est à {c}."), ("Heat the oven to {c}.", "Chauffez le four à {c}."),
    ("It's {c} in the room.", "Il fait {c} dans la pièce."),
)  # fmt: skip
FOODS = (
    ("flour", "farine"), ("sugar", "sucre"), ("rice", "riz"), ("meat", "viande"),
    ("cheese", "fromage"), ("butter", "beurre"), ("fish", "poisson"), ("chocolate", "chocolat"),
    ("salt", "sel"), ("tomatoes", "tomates"), ("carrots", "carottes"),
)  # fmt: skip
DRINKS = (("milk", "lait"), ("wine", "vin"), ("beer", "bière"), ("tea", "thé"), ("coffee", "café"))
TIMED = (
    ("The train leaves at {t}.", "Le train part à {t}."), ("It's {t}.", "Il est {t}."),
    ("The meeting is at {t}.", "La réunion est à {t}."),
    ("My flight is at {t}.", "Mon vol est à {t}."),
    ("Can we meet at {t}?", "Pouvons-nous nous voir à {t} ?"),
    ("I woke up at {t}.", "Je me suis réveillé à {t}."),
    ("We close at {t}.", "Nous fermons à {t}."),
    ("We're open from {t} to {u}.", "Nous sommes ouverts de {t} à {u}."),
    ("Dinner is at {t}.", "Le dîner est à {t}."),
    ("The class ends at {t}.", "Le cours finit à {t}."), ("Come at {t}.", "Venez à {t}."),
    ("I have an appointment at {t}.", "J'ai rendez-vous à {t}."),
)  # fmt: skip
COUNTED = (
    ("My score was {s}.", "Mon score était de {s}."), ("I got {s}.", "J'ai eu {s}."),
    ("I'd give it {s}.", "Je lui donnerais {s}."), ("It was {w}.", "C'était {w}."),
    ("The score is {w}.", "Le score est de {w}."),
    ("It takes {r} minutes.", "Ça prend {r} minutes."), ("Read pages {r}.", "Lisez les pages {r}."),
    ("I was born on {d}.", "Je suis né le {d}."), ("The date is {d}.", "La date est le {d}."),
    ("The deadline is {d}.", "La date limite est le {d}."),
    ("It expires on {d}.", "Ça expire le {d}."),
    ("We're open 24/7.", "Nous sommes ouverts 24 h/24 et 7 j/7."),
    ("{a} + {b} = {k}", "{a} + {b} = {k}"),
    ("{a} plus {b} is {k}.", "{a} plus {b} font {k}."),
    ("There are {y} people.", "Il y a {y} personnes."),
    ("The city has {y} inhabitants.", "La ville compte {y} habitants."),
    ("It cost {y} dollars.", "Ça a coûté {y} dollars."),
    ("He won {y} euros.", "Il a gagné {y} euros."),
)  # fmt: skip
CODED = (
    ("The room number is {q}.", "Le numéro de la chambre est le {q}."),
    ("I'm in room {q}.", "Je suis dans la chambre {q}."),
    ("My seat is {q}.", "Ma place est la {q}."), ("Take the {q}.", "Prenez le {q}."),
    ("I'm in group {q}.", "Je suis dans le groupe {q}."), ("The code is {q}.", "Le code est {q}."),
    ("My password is {q}.", "Mon mot de passe est {q}."),
    ("Flight {q} is delayed.", "Le vol {q} est retardé."), ("I have the {q}.", "J'ai le {q}."),
    ("Go to gate {q}.", "Allez à la porte {q}."),
    ("The order number is {q}.", "Le numéro de commande est {q}."),
    ("Version {v} is out.", "La version {v} est sortie."),
    ("I use version {v}.", "J'utilise la version {v}."), ("Where is {q}?", "Où est {q} ?"),
    ("I bought the {q}.", "J'ai acheté le {q}."), ("See section {v}.", "Voir la section {v}."),
)  # fmt: skip
ADDRESSED = (
    ("Send an email to {e}.", "Envoyez un e-mail à {e}."),
    ("Send an e-mail to {e}.", "Envoyez un e-mail à {e}."),
    ("My email address is {e}.", "Mon adresse e-mail est {e}."),
    ("Write to {e}.", "Écrivez à {e}."), ("Please write to {e}.", "Veuillez écrire à {e}."),
    ("You can reach me at {e}.", "Vous pouvez me joindre à {e}."),
    ("Contact us at {e}.", "Contactez-nous à {e}."),
    ("Is {e} your address?", "Est-ce que {e} est votre adresse ?"),
    ("His address is {e}.", "Son adresse est {e}."),
    ("I got a message from {e}.", "J'ai reçu un message de {e}."),
    ("My website is {u}.", "Mon site est {u}."), ("Visit {u}.", "Visitez {u}."),
    ("Go to {u}.", "Allez sur {u}."), ("See {u}.", "Voir {u}."), ("Look at {u}.", "Regardez {u}."),
    ("I found it on {u}.", "Je l'ai trouvé sur {u}."), ("Have you seen {u}?", "Avez-vous vu {u} ?"),
    ("More information: {u}", "Plus d'informations : {u}"),
    ("Click here: {u}", "Cliquez ici : {u}"),
    ("The page {u} is broken.", "La page {u} ne marche pas."),
    ("See {u} for more.", "Voir {u} pour en savoir plus."),
    ("You can buy it at {u}.", "On peut l'acheter sur {u}."),
    ("Open the file {f}.", "Ouvrez le fichier {f}."), ("Where is {f}?", "Où est {f} ?"),
    ("I can't open {f}.", "Je ne peux pas ouvrir {f}."), ("Send me {f}.", "Envoie-moi {f}."),
    ("Who is {h}?", "Qui est {h} ?"), ("Follow {h}.", "Suivez {h}."),
    ("I love {g}.", "J'adore {g}."), ("Ask {h}.", "Demandez à {h}."), ("Use {g}.", "Utilisez {g}."),
    ("{e}", "{e}"), ("{u}", "{u}"),
)  # fmt: skip
ONE = re.compile(
    r"(?<![\d.,])(1 (?:dollar|euro|pound|degree|kilo|liter|meter|mile|hour|second))s\b"
)
BELOW_TWO = re.compile(
    r"(?<![\d,])(?<!\d )(-?[01](?:,\d+)? "
    r"(?:dollar|euro|livre|degré|kilo|litre|kilomètre|mètre|mile|heure|seconde|million))s\b"
)
"""A number with a noun, whose plural is wrong."""
ENDINGS = ("com", "com", "com", "org", "net", "fr", "de", "eu", "io", "ca", "co.uk", "info", "edu")
FILE_KINDS = ("pdf", "txt", "jpg", "png", "doc", "docx", "zip", "csv", "html", "py", "mp3", "xlsx")
SPOKEN = (
    ("He said, {o}", "Il a dit : {o}"), ("She said: {o}", "Elle a dit : {o}"),
    ("He said to me: {o}", "Il m'a dit : {o}"), ("I said {o}", "J'ai dit : {o}"),
    ("She asked: {o}", "Elle a demandé : {o}"), ("They shouted: {o}", "Ils ont crié : {o}"),
    ("Tom answered, {o}", "Tom a répondu : {o}"), ("It says {o}", "C'est écrit : {o}"),
    ("{o}", "{o}"),
)  # fmt: skip
"""A sentence with its mark is quoted."""
QUOTED_WORDS = (
    ("What does {w} mean?", "Que veut dire {w} ?"),
    ("How do you spell {w}?", "Comment écrit-on {w} ?"),
    ("How do you pronounce {w}?", "Comment prononce-t-on {w} ?"),
    ("The word {w} is French.", "Le mot {w} est français."),
    ("The word {w} has {n} letters.", "Le mot {w} a {n} lettres."),
    ("I've read {w}.", "J'ai lu {w}."), ("Have you seen {w}?", "Avez-vous vu {w} ?"),
    ("He called it {w}.", "Il a appelé ça {w}."),
    ("The password is {w}.", "Le mot de passe est {w}."),
    ("The dog's name is {w}.", "Le chien s'appelle {w}."),
    ("He said {w} to me.", "Il m'a dit {w}."),
    ("I don't like the word {w}.", "Je n'aime pas le mot {w}."),
)  # fmt: skip
FRAMES: tuple[tuple[str, str], ...] = (("“", "”"), ("'", "'"), ("‘", "’"), ('"', '"'), ('"', '"'))
CADRES: tuple[tuple[str, str], ...] = (("« ", " »"), ("«", "»"), ('"', '"'), ("“", "”"), ("'", "'"))


class Symbols:
    """Makes pairs with symbols; `english_first` says which side is the source."""

    def __init__(
        self, pairs: Sequence[Pair], names: Sequence[str], english_first: bool, draw: random.Random
    ) -> None:
        """Take the words that addresses are made of from `pairs`, English first, and `names`."""
        words = {word.lower() for pair in pairs for text in pair for word in WORD.findall(text)}
        self.words = sorted(word for word in words if word.isascii() and len(word) > 2)
        self.names = [name for name in names if name.isascii()]
        self.pairs, self.english_first, self.draw = pairs, english_first, draw

    def filled(self, patterns: Sequence[Sides], slots: dict[str, Callable[[], Sides]]) -> Pair:
        """Return one of the patterns with new contents in its slots."""
        sides = list(self.draw.choice(patterns))
        for slot, make in slots.items():
            mark = f"{{{slot}}}"
            if mark in sides[0]:
                sides = [text.replace(mark, new) for text, new in zip(sides, make(), strict=True)]
        return Pair(*sides)

    def _typed(self, english: Sequence[str], french: Sequence[str]) -> Sides:
        """Return two sides: the target's first way of writing, and any of the source's."""
        if self.english_first:
            return self.draw.choice(english), french[0]
        return english[0], self.draw.choice(french)

    def number(self, decimals: int | None = None) -> Sides:
        """Return a number with a decimal mark, of `decimals` after it or of one to three."""
        draw = self.draw
        whole = draw.choice([draw.randrange(most) for most in (10, 100, 1000, 5000)])
        if decimals is None:
            decimals = draw.choices((1, 2, 3), (5, 4, 1))[0]
        tail = f"{draw.randrange(10**decimals):0{decimals}}" if decimals else ""
        plain = f"{whole}.{tail}" if decimals else str(whole)
        if whole < 1000:
            return plain, plain.replace(".", ",")
        grouped = f"{whole:,}" + (f".{tail}" if decimals else "")
        turned_round = grouped.replace(",", " ").replace(".", ",")
        return self._typed((grouped, plain), (turned_round, plain.replace(".", ",")))

    def money(self) -> Sides:
        """Return an amount of money, mostly with the symbol of its currency."""
        decimals = self.draw.choices((0, 2), (1, 2))[0]
        english, french = self.number(decimals)
        symbol, *words = self.draw.choice(CURRENCIES)
        if self.draw.random() < 0.25:
            return f"{english} {words[0]}", f"{french} {words[1]}"
        ways = [f"{symbol}{english}"] + ([f"{english} €", f"{english}€"] if symbol == "€" else [])
        return self._typed(ways, (f"{french} {symbol}", f"{french}{symbol}"))

    def percentage(self) -> Sides:
        """Return a percentage."""
        english, french = self.number(self.draw.choice((0, 1, 1, 2)))
        return self._typed(
            (f"{english}%", f"{english} %", f"{english} percent"), (f"{french} %", f"{french}%")
        )

    def temperature(self) -> Sides:
        """Return a temperature, often below zero."""
        decimals = self.draw.choice((0, 0, 1))
        english = f"{round(self.draw.uniform(-30, 45), decimals) + 0.0:.{decimals}f}"
        french = english.replace(".", ",")
        if self.draw.random() < 0.4:
            return f"{english} degrees", f"{french} degrés"
        return self._typed(
            (f"{english}°C", f"{english} °C"), (f"{french} °C", f"{french}°C", f"{french}°")
        )

    def time(self) -> Sides:
        """Return a time of day."""
        hour, minute = self.draw.randrange(1, 24), self.draw.randrange(60)
        french = (f"{hour} h {minute:02}", f"{hour}h{minute:02}", f"{hour}:{minute:02}")
        english = [f"{hour}:{minute:02}"]
        if hour != 12:
            half = "p.m." if hour > 12 else "a.m."
            clock = f"{hour % 12}:{minute:02}"
            english += [f"{clock} {half}", f"{clock} {half.replace('.', '')}"]
        return self._typed(english, french)

    def code(self) -> Sides:
        """Return letters and digits, the same in both languages."""
        draw = self.draw
        letters = "".join(draw.choices(string.ascii_uppercase, k=draw.choice((1, 1, 2, 3))))
        digits = "".join(draw.choices(string.digits, k=draw.choice((1, 2, 2, 3, 4))))
        joint = draw.choice(("", "", "", "-"))
        text = letters + joint + digits
        if draw.random() < 0.25:
            text = digits + joint + letters
        return text, text

    def version(self) -> Sides:
        """Return the number of a version or a section."""
        text = ".".join(str(self.draw.randrange(20)) for _ in range(self.draw.choice((2, 2, 3))))
        return text, text

    def word(self) -> str:
        """Return a word, a name or syllables, in lowercase."""
        draw = self.draw
        kind = draw.random()
        if kind < 0.4:
            return draw.choice(self.words)
        if kind < 0.7:
            return draw.choice(self.names).lower()
        count = draw.choice((2, 2, 3, 4))
        return "".join(
            draw.choice("bcdfghjklmnprstvwxz") + draw.choice("aeiouy") for _ in range(count)
        )

    def _joined(self, joints: Sequence[str]) -> str:
        """Return a word or two, sometimes with digits."""
        text = self.word()
        if self.draw.random() < 0.5:
            text += self.draw.choice(joints) + self.word()
        if self.draw.random() < 0.2:
            text += str(self.draw.randrange(100))
        return text

    def domain(self) -> str:
        """Return the name of a host."""
        return f"{self._joined(('', '-'))}.{self.draw.choice(ENDINGS)}"

    def email(self) -> Sides:
        """Return an address of mail."""
        text = f"{self._joined(('.', '.', '_', '-', ''))}@{self.domain()}"
        return text, text

    def url(self) -> Sides:
        """Return an address of the web, with or without its scheme."""
        draw = self.draw
        text = (
            draw.choice(("https://", "https://www.", "http://", "www.", "www.", "")) + self.domain()
        )
        for _ in range(draw.choice((0, 0, 1, 2))):
            text += f"/{self._joined(('-', '_'))}"
        if "/" in text[8:] and draw.random() < 0.2:
            text += draw.choice((".html", "/", f"?id={draw.randrange(1000)}"))
        return text, text

    def file(self) -> Sides:
        """Return the name of a file."""
        text = f"{self._joined(('_', '-', ''))}.{self.draw.choice(FILE_KINDS)}"
        return text, text

    def handle(self, symbol: str) -> Sides:
        """Return a name of a person or a subject online, which `symbol` begins."""
        text = self._joined(("", "_"))
        return (
            (f"{symbol}{text.title()}",) * 2
            if self.draw.random() < 0.3
            else (f"{symbol}{text}",) * 2
        )

    def score(self) -> Sides:
        """Return points out of a number of points."""
        most = self.draw.choice((5, 10, 10, 20, 100))
        text = f"{self.draw.randrange(most + 1)}/{most}"
        return text, text

    def result(self) -> Sides:
        """Return the result of a match."""
        one, other = self.draw.randrange(10), self.draw.randrange(10)
        return self._typed(
            (f"{one}-{other}", f"{one} to {other}"), (f"{one} à {other}", f"{one}-{other}")
        )

    def range_of(self) -> Sides:
        """Return a range of numbers."""
        first = self.draw.randrange(1, 90)
        last = first + self.draw.randrange(1, 30)
        return self._typed(
            (f"{first}-{last}", f"{first} to {last}"), (f"{first} à {last}", f"{first}-{last}")
        )

    def date(self) -> Sides:
        """Return a date in digits, the same in both languages."""
        draw = self.draw
        day, month, year = draw.randrange(1, 29), draw.randrange(1, 13), draw.randrange(1950, 2040)
        text = draw.choice(
            (f"{day:02}/{month:02}/{year}", f"{day}/{month}/{year}", f"{year}-{month:02}-{day:02}")
        )
        return text, text

    def large(self) -> Sides:
        """Return a large number in groups of three digits."""
        most = self.draw.choice((10**5, 10**6, 10**7, 10**9))
        number = self.draw.choice((self.draw.randrange(1000, most), most))
        french = f"{number:,}".replace(",", " ")
        return self._typed((f"{number:,}",), (french, french.replace(" ", "."), str(number)))

    def counted(self) -> Pair:
        """Return a sentence with points, results, ranges, dates or sums."""
        a, b = self.draw.randrange(100), self.draw.randrange(100)
        slots: dict[str, Callable[[], Sides]] = {
            "s": self.score, "w": self.result, "r": self.range_of, "d": self.date, "y": self.large,
            "a": lambda: (str(a),) * 2, "b": lambda: (str(b),) * 2, "k": lambda: (str(a + b),) * 2,
        }  # fmt: skip
        return self.filled(COUNTED, slots)

    def amount(self) -> Pair:
        """Return a sentence with a decimal number, money, a percentage or a temperature.

        French has a singular below 2, English with 1 alone.
        """
        patterns = self.draw.choices((MEASURED, PRICED, SHARES, WARM), (5, 4, 2, 1))[0]
        slots: dict[str, Callable[[], Sides]] = {
            "x": self.number, "m": self.money, "p": self.percentage, "c": self.temperature,
            "food": lambda: self.draw.choice(FOODS), "drink": lambda: self.draw.choice(DRINKS),
        }  # fmt: skip
        english, french = self.filled(patterns, slots)
        return Pair(ONE.sub(r"\1", english), BELOW_TWO.sub(r"\1", french))

    def addressed(self) -> Pair:
        """Return a sentence with an address of mail or the web, a file, or a name online."""
        slots: dict[str, Callable[[], Sides]] = {
            "e": self.email, "u": self.url, "f": self.file, "h": lambda: self.handle("@"),
            "g": lambda: self.handle("#"),
        }  # fmt: skip
        return self.filled(ADDRESSED, slots)

    def quoted(self) -> Pair:
        """Return a sentence or a word in quotes, alone or in another sentence."""
        marks = self._typed_quotes()

        def in_quotes(texts: Sequence[str]) -> Sides:
            english, french = (
                f"{begin}{text}{end}" for text, (begin, end) in zip(texts, marks, strict=True)
            )
            return english, french

        if self.draw.random() < 0.35:
            word = self.word()
            number = str(len(word))
            content = (word.title(),) * 2 if self.draw.random() < 0.4 else (word,) * 2
            return self.filled(
                QUOTED_WORDS, {"w": lambda: in_quotes(content), "n": lambda: (number,) * 2}
            )
        return self.filled(SPOKEN, {"o": lambda: in_quotes(self.draw.choice(self.pairs))})

    def _typed_quotes(self) -> tuple[tuple[str, str], tuple[str, str]]:
        if self.english_first:
            return self.draw.choice(FRAMES), CADRES[0]
        return FRAMES[-1], self.draw.choice(CADRES)


def symbols(pairs: Sequence[Pair], english_first: bool) -> list[Pair]:
    """Return new pairs, some of them as somebody may type them; `pairs` are those of training."""
    draw = random.Random(5)
    maker = Symbols(turned(pairs, english_first), names_of_people(), english_first, draw)
    timed = {"t": maker.time, "u": maker.time}
    coded = {"q": maker.code, "v": maker.version}
    made = [
        *(maker.amount() for _ in range(AMOUNTS)),
        *(maker.filled(TIMED, timed) for _ in range(CLOCK_TIMES)),
        *(maker.counted() for _ in range(COUNTS)),
        *(maker.filled(CODED, coded) for _ in range(CODES)),
        *(maker.addressed() for _ in range(ADDRESSES)),
        *(maker.quoted() for _ in range(QUOTES)),
    ]
    return [Pair(_hurried(pair.source, draw), pair.target) for pair in turned(made, english_first)]


def _hurried(source: str, draw: random.Random) -> str:
    """Return a source, sometimes with a small letter at its beginning or without its mark."""
    first = source.partition(" ")[0]
    if draw.random() < 0.2 and first.isalpha():
        source = source[:1].lower() + source[1:]
    return MARK.sub("", source) or source if draw.random() < 0.25 else source
