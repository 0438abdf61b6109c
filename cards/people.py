"""People with two names, two people, towns and countries: more pairs for everyday sentences.

The corpus calls nearly everyone by one name, and most sentences have one person. A visitor writes
"My name is Anna Berger" or "Paul and Marie live in Munich".
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from rewritten_sentences import BEFORE_VOWEL, entries

from zoo import Pair

WITH_TWO_NAMES = 0.5
"""How many people have two names here."""

INTRODUCED = (
    ("My name is {a}.", "Je m'appelle {a}."), ("I'm {a}.", "Je suis {a}."),
    ("I am {a}.", "Je suis {a}."), ("This is {a}.", "Voici {a}."),
    ("His name is {a}.", "Il s'appelle {a}."), ("Her name is {a}.", "Elle s'appelle {a}."),
    ("Do you know {a}?", "Connaissez-vous {a} ?"), ("I know {a}.", "Je connais {a}."),
    ("I met {a} yesterday.", "J'ai rencontré {a} hier."), ("Where is {a}?", "Où est {a} ?"),
    ("Who is {a}?", "Qui est {a} ?"), ("{a} lives next door.", "{a} habite à côté."),
    ("Call {a}.", "Appelez {a}."), ("I saw {a} at the station.", "J'ai vu {a} à la gare."),
    ("{a} called you.", "{a} vous a appelé."), ("{a} wrote this book.", "{a} a écrit ce livre."),
    ("Have you seen {a}?", "Avez-vous vu {a} ?"), ("I'm looking for {a}.", "Je cherche {a}."),
    ("I work for {a}.", "Je travaille pour {a}."), ("I spoke with {a}.", "J'ai parlé avec {a}."),
    ("This is my friend {a}.", "Voici mon ami {a}."), ("{a} has a sister.", "{a} a une sœur."),
    ("My boss is called {a}.", "Mon chef s'appelle {a}."),
    ("My wife's name is {a}.", "Ma femme s'appelle {a}."),
    ("My doctor is {a}.", "Mon médecin est {a}."), ("{a} is here.", "{a} est ici."),
    ("A letter from {a} came.", "Une lettre de {a} est arrivée."),
    ("It's {a}'s house.", "C'est la maison de {a}."),
    ("I read a book by {a}.", "J'ai lu un livre de {a}."),
    ("Mr. {s} is waiting for you.", "M. {s} vous attend."),
    ("Mrs. {s} is out.", "Mme {s} est sortie."),
    ("Good morning, Mr. {s}.", "Bonjour, monsieur {s}."),
    ("Good evening, Mrs. {s}.", "Bonsoir, madame {s}."),
    ("I have an appointment with Dr. {s}.", "J'ai rendez-vous avec le docteur {s}."),
    ("Hello, my name is {a}.", "Bonjour, je m'appelle {a}."), ("Hello, {a}!", "Bonjour, {a} !"),
    ("My name is {a} and I live in {city}.", "Je m'appelle {a} et j'habite à {city}."),
)  # fmt: skip
"""`{a}`, `{b}` and `{c}` are people, of one name or two, and `{s}` is one name."""
TOGETHER = (
    ("{a} and {b} are friends.", "{a} et {b} sont amis."),
    ("{a} and {b} got married.", "{a} et {b} se sont mariés."),
    ("{a} and {b} live in {city}.", "{a} et {b} habitent à {city}."),
    ("{a} and {b} went to school.", "{a} et {b} sont allés à l'école."),
    ("{a} and {b} went to the market.", "{a} et {b} sont allés au marché."),
    ("{a} and {b} are playing in the garden.", "{a} et {b} jouent dans le jardin."),
    ("{a} and {b} have a dog.", "{a} et {b} ont un chien."),
    ("{a} and {b} are late.", "{a} et {b} sont en retard."),
    ("{a} and {b} came home.", "{a} et {b} sont rentrés à la maison."),
    ("{a} and {b} want to eat.", "{a} et {b} veulent manger."),
    ("{a} and {b} are at home.", "{a} et {b} sont à la maison."),
    ("I invited {a} and {b}.", "J'ai invité {a} et {b}."),
    ("Where are {a} and {b}?", "Où sont {a} et {b} ?"),
    ("Do you know {a} and {b}?", "Connaissez-vous {a} et {b} ?"),
    ("{a}, {b} and {c} came.", "{a}, {b} et {c} sont venus."),
    ("{a} is taller than {b}.", "{a} est plus grand que {b}."),
    ("{a} is younger than {b}.", "{a} est plus jeune que {b}."),
    ("{a} loves {b}.", "{a} aime {b}."), ("{a} doesn't like {b}.", "{a} n'aime pas {b}."),
    ("{a} gave {b} a book.", "{a} a donné un livre à {b}."),
    ("Tell {a} that {b} called.", "Dites à {a} que {b} a appelé."),
    ("{a} is {b}'s brother.", "{a} est le frère de {b}."),
    ("{a} is waiting for {b}.", "{a} attend {b}."),
    ("{a} met {b} in {city}.", "{a} a rencontré {b} à {city}."),
)  # fmt: skip
IN_TOWN = (
    ("I live in {city}.", "J'habite à {city}."), ("{a} lives in {city}.", "{a} habite à {city}."),
    ("I was born in {city}.", "Je suis né à {city}."),
    ("She was born in {city}.", "Elle est née à {city}."),
    ("The train to {city} leaves at noon.", "Le train pour {city} part à midi."),
    ("I want to go to {city}.", "Je veux aller à {city}."),
    ("Have you ever been to {city}?", "Êtes-vous déjà allé à {city} ?"),
    ("I come from {city}.", "Je viens de {city}."), ("I like {city}.", "J'aime {city}."),
    ("How far is it to {city}?", "À quelle distance est {city} ?"),
    ("We spent a week in {city}.", "Nous avons passé une semaine à {city}."),
    ("A ticket to {city}, please.", "Un billet pour {city}, s'il vous plaît."),
    ("He works in {city}.", "Il travaille à {city}."),
    ("My parents live in {city}.", "Mes parents habitent à {city}."),
    ("We flew from {city} to {town}.", "Nous avons pris l'avion de {city} à {town}."),
)  # fmt: skip
IN_COUNTRY = (
    ("I'm from {country}.", "Je viens {from}."), ("I come from {country}.", "Je viens {from}."),
    ("I live in {country}.", "Je vis {in}."), ("{a} lives in {country}.", "{a} vit {in}."),
    ("We went to {country} last year.", "Nous sommes allés {in} l'année dernière."),
    ("I have never been to {country}.", "Je ne suis jamais allé {in}."),
    ("He works in {country}.", "Il travaille {in}."),
    ("This cheese comes from {country}.", "Ce fromage vient {from}."),
    ("My father was born in {country}.", "Mon père est né {in}."),
    ("It's cold in {country}.", "Il fait froid {in}."),
)  # fmt: skip
TOWNS = """
London Londres|Berlin|Paris|Rome|Madrid|Vienna Vienne|Lisbon Lisbonne|Geneva Genève
Brussels Bruxelles|Moscow Moscou|Tokyo|Chicago|Montreal Montréal|Milan|Munich|Athens Athènes
Warsaw Varsovie|Zurich|Lyon|Copenhagen Copenhague|Dublin|Toronto|Sydney|Barcelona Barcelone
Amsterdam|Prague|Marseille|Boston|Seoul Séoul|Beijing Pékin|Hamburg Hambourg|Florence
Venice Venise|Naples|Cologne|Edinburgh Édimbourg|Dresden Dresde|Krakow Cracovie|Seville Séville
Turin|Genoa Gênes|Nice|Bordeaux|Oslo|Helsinki|Istanbul|Ottawa|Vancouver|Seattle
Philadelphia Philadelphie|Jerusalem Jérusalem|Shanghai|Strasbourg|Manchester
"""
"""English, a space, French; one word if they are the same."""
COUNTRIES = """
Germany/d'Allemagne/en Allemagne|Spain/d'Espagne/en Espagne|Italy/d'Italie/en Italie
Canada/du Canada/au Canada|Japan/du Japon/au Japon|Portugal/du Portugal/au Portugal
Switzerland/de Suisse/en Suisse|Belgium/de Belgique/en Belgique|China/de Chine/en Chine
Brazil/du Brésil/au Brésil|Mexico/du Mexique/au Mexique|Poland/de Pologne/en Pologne
Greece/de Grèce/en Grèce|Russia/de Russie/en Russie|India/d'Inde/en Inde
France/de France/en France|Ireland/d'Irlande/en Irlande|Sweden/de Suède/en Suède
Norway/de Norvège/en Norvège|England/d'Angleterre/en Angleterre|Scotland/d'Écosse/en Écosse
Turkey/de Turquie/en Turquie|Morocco/du Maroc/au Maroc|Australia/d'Australie/en Australie
Egypt/d'Égypte/en Égypte|Austria/d'Autriche/en Autriche|Denmark/du Danemark/au Danemark
Finland/de Finlande/en Finlande
"""
"""English, then French with *from* and with *in*, between slashes."""
SHORTENED = re.compile(rf"\b([Qq]u|d){BEFORE_VOWEL}")


def about_people(names: Sequence[str], draw: random.Random) -> Pair:
    """Return a sentence with people, a town or a country."""
    patterns = draw.choices((INTRODUCED, TOGETHER, IN_TOWN, IN_COUNTRY), (5, 3, 1, 1))[0]
    english, french = draw.choice(patterns)
    country, origin, inside = draw.choice(entries(COUNTRIES)).split("/")
    new = {"country": (country,) * 2, "from": (origin,) * 2, "in": (inside,) * 2}
    new |= {**_towns(draw), "s": (draw.choice(names),) * 2}
    new |= {who: (person(names, draw),) * 2 for who in "abc"}
    for name, (in_english, in_french) in new.items():
        english = english.replace(f"{{{name}}}", in_english)
        french = french.replace(f"{{{name}}}", in_french)
    return Pair(english, SHORTENED.sub(r"\1'", french))


def person(names: Sequence[str], draw: random.Random) -> str:
    """Return one name or two."""
    return " ".join(draw.sample(names, 1 + (draw.random() < WITH_TWO_NAMES)))


def _towns(draw: random.Random) -> dict[str, tuple[str, str]]:
    towns = (entry.split() for entry in draw.sample(entries(TOWNS), 2))
    return {key: (each[0], each[-1]) for key, each in zip(("city", "town"), towns, strict=True)}
