"""Ordinals, large amounts, periods, ages, letters, and where and how: as pairs in two languages.

The everyday corpus hardly has them: "the third floor" was the third time, "3 billion euros" lost
its billions, and of a sentence with a day and a town one was left out. The English and the French
were written for this; both directions use them. More joined statements are among them, since a
network that learned these details without them translated joined statements worse.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from more_sentences import ELIDED, MONTHS, WEEKDAYS, clauses, joined
from num2words import num2words
from rewritten_sentences import BEFORE_VOWEL, half_typed, names_of_people, turned
from symbols import CURRENCIES, Sides

from zoo import Pair

ORDINALS, AMOUNTS, PERIODS, AGES, LETTERS = 12_000, 9_000, 9_000, 6_000, 6_000
EXTENDED, JOINED = 20_000, 24_000
"""How many pairs are made of each kind."""

ORDERED = (
    ("We live in the {o} century.", "Nous vivons au {o} siècle."),
    ("It was built in the {o} century.", "Il a été construit au {o} siècle."),
    ("This church dates from the {o} century.", "Cette église date du {o} siècle."),
    ("The {o} century was a time of war.", "Le {o} siècle fut une époque de guerre."),
    ("He lived in the {o} century.", "Il a vécu au {o} siècle."),
    ("Paris in the {o} century was another city.",
     "Le Paris du {o} siècle était une autre ville."),
    ("I live on the {o} floor.", "J'habite au {o} étage."),
    ("She lives on the {o} floor.", "Elle habite au {o} étage."),
    ("My office is on the {o} floor.", "Mon bureau est au {o} étage."),
    ("The {o} floor, please.", "Le {o} étage, s'il vous plaît."),
    ("Our apartment is on the {o} floor.", "Notre appartement est au {o} étage."),
    ("The elevator stops on the {o} floor.", "L'ascenseur s'arrête au {o} étage."),
    ("The room is on the {o} floor.", "La chambre est au {o} étage."),
    ("We moved to the {o} floor.", "Nous avons déménagé au {o} étage."),
    ("He finished {o}.", "Il a fini {o}."), ("She came in {o}.", "Elle est arrivée {f}."),
    ("Our team is {o}.", "Notre équipe est {f}."),
    ("I was the {o} to arrive.", "J'étais le {o} à arriver."),
    ("Happy {o} birthday!", "Joyeux {o} anniversaire !"),
    ("It's her {o} birthday.", "C'est son {o} anniversaire."),
    ("Today is his {o} birthday.", "Aujourd'hui, c'est son {o} anniversaire."),
    ("They celebrated their {o} anniversary.", "Ils ont fêté leur {o} anniversaire."),
    ("This is the {o} time.", "C'est la {f} fois."),
    ("This is my {o} visit to France.", "C'est ma {f} visite en France."),
    ("For the {o} time, no!", "Pour la {f} fois, non !"),
    ("It's the {o} time I've seen this film.", "C'est la {f} fois que je vois ce film."),
    ("This is his {o} book.", "C'est son {o} livre."),
    ("My {o} car was red.", "Ma {f} voiture était rouge."),
    ("It's the {o} day of our trip.", "C'est le {o} jour de notre voyage."),
    ("We're in the {o} week.", "Nous en sommes à la {f} semaine."),
    ("Read the {o} chapter.", "Lisez le {o} chapitre."),
    ("The {o} chapter is the best.", "Le {o} chapitre est le meilleur."),
    ("He lost in the {o} round.", "Il a perdu au {o} tour."),
    ("She is in the {o} row.", "Elle est au {o} rang."),
    ("It's the {o} house on the left.", "C'est la {f} maison à gauche."),
    ("Take the {o} street on the right.", "Prenez la {f} rue à droite."),
    ("It's the {o} door on the right.", "C'est la {f} porte à droite."),
    ("France is the {o} largest country in the list.",
     "La France est le {o} plus grand pays de la liste."),
    ("He was the {o} president.", "Il était le {o} président."),
    ("This is the {o} edition.", "C'est la {f} édition."),
    ("I'm in the {o} grade.", "Je suis en {f} année."),
    ("She's expecting her {o} child.", "Elle attend son {o} enfant."),
    ("It's my {o} coffee today.", "C'est mon {o} café aujourd'hui."),
    ("Who won the {o} game?", "Qui a gagné le {o} match ?"),
    ("The {o} question is hard.", "La {f} question est difficile."),
    ("The {o} World War", "La {f} Guerre mondiale"),
)  # fmt: skip
"""`{o}` is an ordinal, in French of a masculine noun; `{f}` of a feminine one."""

COSTLY = (
    ("It cost {m}.", "Ça a coûté {m}."), ("The company is worth {m}.", "L'entreprise vaut {m}."),
    ("They need {m}.", "Ils ont besoin de {m}."), ("He won {m}.", "Il a gagné {m}."),
    ("The bridge cost {m}.", "Le pont a coûté {m}."), ("She has {m}.", "Elle a {m}."),
    ("The damage is {m}.", "Les dégâts sont de {m}."), ("We lost {m}.", "Nous avons perdu {m}."),
    ("The project costs {m}.", "Le projet coûte {m}."), ("He owes {m}.", "Il doit {m}."),
    ("The government will spend {m}.", "Le gouvernement dépensera {m}."),
    ("They sold it for {m}.", "Ils l'ont vendu pour {m}."),
    ("The house is worth {m}.", "La maison vaut {m}."),
    ("The bank lent them {m}.", "La banque leur a prêté {m}."),
    ("{x} live here.", "{x} vivent ici."), ("The country has {x}.", "Le pays a {x}."),
    ("The city has {x}.", "La ville compte {x}."), ("Over {x} saw it.", "Plus de {x} l'ont vu."),
    ("About {x} came.", "Environ {x} sont venus."), ("There are {x}.", "Il y a {x}."),
    ("We need {x}.", "Nous avons besoin de {x}."), ("They sold {x}.", "Ils ont vendu {x}."),
    ("The museum has {x}.", "Le musée possède {x}."),
)  # fmt: skip
CROWDS = (
    ("people", "personnes"), ("inhabitants", "habitants"), ("visitors", "visiteurs"),
    ("books", "livres"), ("copies", "exemplaires"), ("stars", "étoiles"), ("trees", "arbres"),
    ("cars", "voitures"), ("students", "étudiants"), ("animals", "animaux"), ("years", "années"),
)  # fmt: skip

LASTING = (
    ("I was there from {a} to {b}.", "J'y étais {de} {a} {au} {b}."),
    ("The shop is open from {a} to {b}.", "Le magasin est ouvert {de} {a} {au} {b}."),
    ("We're on holiday from {a} to {b}.", "Nous sommes en vacances {de} {a} {au} {b}."),
    ("The exhibition runs from {a} to {b}.", "L'exposition a lieu {de} {a} {au} {b}."),
    ("He works from {a} to {b}.", "Il travaille {de} {a} {au} {b}."),
    ("I'll be away from {a} to {b}.", "Je serai absent {de} {a} {au} {b}."),
    ("She lived here from {a} to {b}.", "Elle a vécu ici {de} {a} {au} {b}."),
    ("The course lasts from {a} to {b}.", "Le cours dure {de} {a} {au} {b}."),
    ("I'd like a room from {a} to {b}.", "Je voudrais une chambre {de} {a} {au} {b}."),
)  # fmt: skip
DATED = (
    ("It happened between {y} and {z}.", "C'est arrivé entre {y} et {z}."),
    ("He was president from {y} to {z}.", "Il a été président de {y} à {z}."),
    ("The war lasted from {y} to {z}.", "La guerre a duré de {y} à {z}."),
    ("I studied there from {y} to {z}.", "J'y ai étudié de {y} à {z}."),
    ("They were popular in the {d}.", "Ils étaient populaires dans les années {d}."),
    ("She grew up in the {d}.", "Elle a grandi dans les années {d}."),
    ("I love the music of the {d}.", "J'adore la musique des années {d}."),
    ("It was invented in the {d}.", "Ça a été inventé dans les années {d}."),
    ("The house dates from the {d}.", "La maison date des années {d}."),
    ("Life was hard in the {d}.", "La vie était dure dans les années {d}."),
    ("He arrived {n} days ago.", "Il est arrivé il y a {n} jours."),
    ("I met her {n} years ago.", "Je l'ai rencontrée il y a {n} ans."),
    ("They left {n} hours ago.", "Ils sont partis il y a {n} heures."),
    ("She called {n} minutes ago.", "Elle a appelé il y a {n} minutes."),
    ("We moved here {n} months ago.", "Nous avons déménagé ici il y a {n} mois."),
    ("The bus comes every {n} minutes.", "Le bus passe toutes les {n} minutes."),
    ("Take one every {n} hours.", "Prenez-en un toutes les {n} heures."),
    ("I run {n} times a week.", "Je cours {n} fois par semaine."),
    ("I brush my teeth {n} times a day.", "Je me brosse les dents {n} fois par jour."),
    ("The trip takes {n} hours.", "Le voyage dure {n} heures."),
    ("I've been waiting for {n} hours.", "J'attends depuis {n} heures."),
    ("We've been married for {n} years.", "Nous sommes mariés depuis {n} ans."),
    ("He has been ill for {n} weeks.", "Il est malade depuis {n} semaines."),
    ("I'll stay for {n} nights.", "Je resterai {n} nuits."),
    ("The train is {n} minutes late.", "Le train a {n} minutes de retard."),
    ("Our flight was delayed by {n} hours.", "Notre vol a eu {n} heures de retard."),
    ("The exam is in {n} days.", "L'examen est dans {n} jours."),
)  # fmt: skip
AGED = (
    ("She has a {n}-year-old {child}.", "Elle a {un} {child} de {n} ans."),
    ("I have a {n}-year-old {child}.", "J'ai {un} {child} de {n} ans."),
    ("A {n}-year-old {child} was found.", "On a retrouvé {un} {child} de {n} ans."),
    ("It's a {n}-year-old {child}.", "C'est {un} {child} de {n} ans."),
    ("We met a {n}-year-old {child}.", "Nous avons rencontré {un} {child} de {n} ans."),
    ("It's a {n}-minute walk.", "C'est à {n} minutes à pied."),
    ("It's a {n}-minute drive.", "C'est à {n} minutes en voiture."),
    ("It's a {n}-hour drive.", "C'est à {n} heures en voiture."),
    ("It's a {n}-hour flight.", "C'est un vol de {n} heures."),
    ("We took a {n}-day trip.", "Nous avons fait un voyage de {n} jours."),
    ("I read a {n}-page book.", "J'ai lu un livre de {n} pages."),
    ("Let's take a {n}-minute break.", "Faisons une pause de {n} minutes."),
    ("He made a {n}-minute speech.", "Il a fait un discours de {n} minutes."),
    ("It's a {n}-star hotel.", "C'est un hôtel {n} étoiles."),
    ("They signed a {n}-year contract.", "Ils ont signé un contrat de {n} ans."),
    ("It's a {n}-story building.", "C'est un immeuble de {n} étages."),
)  # fmt: skip
CHILDREN = (
    ("son", "fils"), ("daughter", "fille*"), ("boy", "garçon"), ("girl", "fille*"),
    ("brother", "frère"), ("sister", "sœur*"), ("cat", "chat"), ("dog", "chien"),
    ("car", "voiture*"), ("man", "homme"), ("woman", "femme*"),
)  # fmt: skip
"""A star: feminine."""

LETTER = (
    ("Dear {name},", "Cher {name},"), ("Hi {name},", "Salut {name},"),
    ("Hello {name},", "Bonjour {name},"), ("Dear Mr. {name},", "Cher Monsieur {name},"),
    ("Dear Mrs. {name},", "Chère Madame {name},"), ("Dear Ms. {name},", "Chère Madame {name},"),
    ("Mr. {name} is here.", "M. {name} est là."), ("Mrs. {name} is here.", "Mme {name} est là."),
    ("Mr. {name} is our teacher.", "M. {name} est notre professeur."),
    ("Dr. {name} will see you now.", "Le docteur {name} va vous recevoir."),
    ("Dear Sir or Madam,", "Madame, Monsieur,"), ("Dear all,", "Bonjour à tous,"),
    ("Dear friends,", "Chers amis,"), ("Dear colleagues,", "Chers collègues,"),
    ("To whom it may concern,", "À qui de droit,"), ("Best regards,", "Cordialement,"),
    ("Kind regards,", "Cordialement,"), ("Regards,", "Cordialement,"),
    ("Best wishes,", "Meilleures salutations,"), ("Yours sincerely,", "Bien à vous,"),
    ("Sincerely,", "Sincèrement,"), ("Love,", "Je t'embrasse,"), ("Cheers,", "À bientôt,"),
    ("Many thanks in advance.", "Merci d'avance."), ("Thanks in advance.", "Merci d'avance."),
    ("Thank you for your email.", "Merci pour votre e-mail."),
    ("Thank you for your message.", "Merci pour votre message."),
    ("Thank you for your reply.", "Merci pour votre réponse."),
    ("Thank you for your letter.", "Merci pour votre lettre."),
    ("Thank you for your patience.", "Merci pour votre patience."),
    ("I hope you are well.", "J'espère que vous allez bien."),
    ("I hope you're doing well.", "J'espère que vous allez bien."),
    ("I look forward to hearing from you.", "Dans l'attente de votre réponse."),
    ("I look forward to seeing you.", "J'ai hâte de vous voir."),
    ("I'm looking forward to meeting you.", "J'ai hâte de vous rencontrer."),
    ("Please find the document attached.", "Veuillez trouver le document ci-joint."),
    ("Please find attached my CV.", "Veuillez trouver mon CV ci-joint."),
    ("The file is attached.", "Le fichier est en pièce jointe."),
    ("Let me know if you have any questions.", "Dites-moi si vous avez des questions."),
    ("Please let me know if you need anything else.",
     "Dites-moi si vous avez besoin d'autre chose."),
    ("Don't hesitate to contact me.", "N'hésitez pas à me contacter."),
    ("Please call me back.", "Merci de me rappeler."),
    ("I am writing to confirm our appointment.", "Je vous écris pour confirmer notre rendez-vous."),
    ("Could you please send me the invoice?", "Pourriez-vous m'envoyer la facture ?"),
    ("Can you send me the address?", "Pouvez-vous m'envoyer l'adresse ?"),
    ("I would like to cancel my order.", "Je voudrais annuler ma commande."),
    ("I haven't received my order yet.", "Je n'ai pas encore reçu ma commande."),
    ("We are sorry for the delay.", "Nous sommes désolés pour le retard."),
    ("Your order has been shipped.", "Votre commande a été expédiée."),
    ("The meeting has been postponed.", "La réunion a été reportée."),
    ("The meeting has been moved to {day}.", "La réunion a été déplacée à {day}."),
    ("Are you free on {day}?", "Êtes-vous libre {day} ?"), ("See you on {day}!", "À {day} !"),
    ("Let's meet on {day}.", "Retrouvons-nous {day}."),
    ("Could you send it before {day}?", "Pourriez-vous l'envoyer avant {day} ?"),
    ("I need it by {day}.", "J'en ai besoin pour {day}."),
    ("I'm available on {day}.", "Je suis disponible {day}."),
)  # fmt: skip

WHERE = (
    ("in Italy", "en Italie"), ("in Germany", "en Allemagne"), ("in Canada", "au Canada"),
    ("in Paris", "à Paris"), ("in London", "à Londres"), ("in Spain", "en Espagne"),
    ("in Japan", "au Japon"), ("at home", "à la maison"), ("at school", "à l'école"),
    ("at the station", "à la gare"), ("near the station", "près de la gare"),
    ("next to the bank", "à côté de la banque"), ("next to the church", "à côté de l'église"),
    ("in front of the house", "devant la maison"), ("behind the house", "derrière la maison"),
    ("on the beach", "sur la plage"), ("in the garden", "dans le jardin"),
    ("in the kitchen", "dans la cuisine"), ("in the city center", "dans le centre-ville"),
    ("in this room", "dans cette pièce"), ("on the train", "dans le train"),
    ("on the corner", "au coin de la rue"), ("across the street", "de l'autre côté de la rue"),
    ("in the park", "au parc"), ("at the hotel", "à l'hôtel"), ("at the office", "au bureau"),
    ("at the airport", "à l'aéroport"), ("in the mountains", "à la montagne"),
    ("by the sea", "au bord de la mer"), ("in a small village", "dans un petit village"),
    ("under the table", "sous la table"), ("at the hospital", "à l'hôpital"),
)  # fmt: skip
WHEN = (
    ("last summer", "l'été dernier"), ("last winter", "l'hiver dernier"),
    ("last year", "l'année dernière"), ("last week", "la semaine dernière"),
    ("last month", "le mois dernier"), ("last night", "hier soir"),
    ("yesterday morning", "hier matin"), ("yesterday afternoon", "hier après-midi"),
    ("this morning", "ce matin"), ("this afternoon", "cet après-midi"), ("tonight", "ce soir"),
    ("this evening", "ce soir"), ("every morning", "tous les matins"),
    ("every evening", "tous les soirs"), ("on weekends", "le week-end"),
    ("in the evening", "le soir"), ("in the afternoon", "l'après-midi"),
    ("before breakfast", "avant le petit déjeuner"), ("after dinner", "après le dîner"),
    ("after work", "après le travail"), ("before the meeting", "avant la réunion"),
    ("during the summer", "pendant l'été"), ("during the night", "pendant la nuit"),
    ("in the spring", "au printemps"), ("in winter", "en hiver"),
    ("at the same time", "en même temps"), ("for the first time", "pour la première fois"),
    ("since this morning", "depuis ce matin"), ("until midnight", "jusqu'à minuit"),
    ("once a week", "une fois par semaine"), ("twice a day", "deux fois par jour"),
    ("all day long", "toute la journée"), ("the day before yesterday", "avant-hier"),
)  # fmt: skip
HOW = (
    ("with my brother", "avec mon frère"), ("with her sister", "avec sa sœur"),
    ("with our friends", "avec nos amis"), ("with his children", "avec ses enfants"),
    ("without my glasses", "sans mes lunettes"), ("without any help", "sans aucune aide"),
    ("because of the snow", "à cause de la neige"), ("because of the rain", "à cause de la pluie"),
    ("because of the strike", "à cause de la grève"), ("thanks to you", "grâce à vous"),
    ("by train", "en train"), ("by car", "en voiture"), ("on foot", "à pied"),
    ("in English", "en anglais"), ("in French", "en français"), ("by email", "par e-mail"),
    ("by phone", "par téléphone"), ("for my birthday", "pour mon anniversaire"),
    ("for the children", "pour les enfants"), ("for his mother", "pour sa mère"),
    ("instead of working", "au lieu de travailler"), ("as usual", "comme d'habitude"),
    ("very slowly", "très lentement"), ("in a loud voice", "à voix haute"),
    ("by mistake", "par erreur"), ("on purpose", "exprès"), ("on my own", "tout seul"),
)  # fmt: skip
SHORT, LONG = 3, 9
"""The fewest and the most English words of a statement that is extended."""
DE = re.compile(rf"\bd(?:{BEFORE_VOWEL}|e (?=habitants))")


class Details:
    """Makes pairs with details; `english_first` says which side is the source."""

    def __init__(self, pairs: Sequence[Pair], english_first: bool, draw: random.Random) -> None:
        """Take the statements that are extended from `pairs`, English first."""
        self.clauses = clauses(pairs)
        fit = (pair for pair in self.clauses if "," not in f"{pair.source}{pair.target}")
        self.statements = [pair for pair in fit if SHORT <= len(pair.source.split()) <= LONG]
        self.english_first, self.draw, self.names = english_first, draw, names_of_people()

    def ordinal(self) -> Pair:
        """Return a sentence with an ordinal, in digits or, where it is small, in words."""
        number = self.draw.choice((self.draw.randint(1, 12), self.draw.randint(1, 100)))
        english, french = self.draw.choice(ORDERED)
        if "century" in english:
            number = self.draw.randint(9, 22)
        if "World War" in english:
            number = self.draw.randint(1, 3)
        in_words = number <= 20 and self.draw.random() < 0.4
        word = num2words(number, lang="en", to="ordinal" if in_words else "ordinal_num")
        if in_words:
            he = num2words(number, lang="fr", to="ordinal")
            she = "première" if number == 1 else he
        else:
            he, she = ("1er", "1re") if number == 1 else self._in_digits(number, english)
        return Pair(english.replace("{o}", word), french.replace("{o}", he).replace("{f}", she))

    def _in_digits(self, number: int, english: str) -> Sides:
        """Return a French ordinal as it is written, or as people type it; of both genders."""
        if self.english_first:
            return (f"{number}e",) * 2
        ways = [f"{number}e", f"{number}ème", f"{number}eme"]
        if "century" in english:
            ways += [f"{roman(number)}e"] * 3
        return (self.draw.choice(ways),) * 2

    def large(self) -> Sides:
        """Return a number of millions or billions."""
        draw = self.draw
        value = draw.choice((str(draw.randint(1, 20)), str(draw.randint(1, 900)),
                             f"{draw.randint(1, 20)}.{draw.randint(1, 9)}"))  # fmt: skip
        english, french = draw.choice((("million", "million"), ("billion", "milliard")))
        plural = "s" if float(value) >= 2 else ""
        return f"{value} {english}", f"{value.replace('.', ',')} {french}{plural}"

    def amount(self) -> Pair:
        """Return a sentence with a large amount of money, or of something else."""
        english, french = self.draw.choice(COSTLY)
        large, grand = self.large()
        mark = "{m}" if "{m}" in english else "{x}"
        if mark == "{m}":
            symbol, currency, devise = self.draw.choice(CURRENCIES)
            shown = f"{large} {currency}" if self.draw.random() >= 0.5 else f"{symbol}{large}"
            shown_in_french = f"{grand} de {devise}"
        else:
            thing, chose = self.draw.choice(CROWDS)
            shown, shown_in_french = f"{large} {thing}", f"{grand} de {chose}"
        return Pair(
            english.replace(mark, shown), french.replace(mark, DE.sub("d'", shown_in_french))
        )

    def period(self) -> Pair:
        """Return a sentence with a period of days, months, weekdays, hours or years."""
        draw = self.draw
        if draw.random() < 0.5:
            return self._lasting()
        first = draw.randint(1500, 2020)
        english, french = draw.choice(DATED)
        last, decade = str(first + draw.randint(1, 40)), draw.randrange(1900, 2030, 10)
        number = draw.randint(2, 40)
        counts = [str(number)] * 2
        if draw.random() < 0.4 and number <= 12:
            counts = [num2words(number, lang=language) for language in ("en", "fr")]
        shown = str(decade)
        short = shown[2:] if 1910 < decade < 2000 else shown
        shown = draw.choice((shown, short))
        for mark, *news in (
            ("{y}", str(first), str(first)), ("{z}", last, last), ("{n}", *counts),
            ("{d}", f"{shown}s", shown),
        ):  # fmt: skip
            english, french = english.replace(mark, news[0]), french.replace(mark, news[1])
        return Pair(english, french)

    def _lasting(self) -> Pair:
        """Return a sentence with the first and the last weekday, month, day or hour."""
        draw = self.draw
        english, french = draw.choice(LASTING)
        kind = draw.choice(("weekdays", "months", "days", "hours"))
        joints = ("de", "à") if kind in ("months", "hours") else ("du", "au")
        if kind in ("weekdays", "months"):
            begin, end = draw.sample(WEEKDAYS if kind == "weekdays" else MONTHS, 2)
        elif kind == "hours":
            early, late = draw.randint(6, 11), draw.randint(13, 20)
            noons = draw.choice(((" a.m.", " p.m."), ("", "")))
            begin, end = (
                (f"{early}{noons[0]}", f"{early} h"),
                (f"{late - 12}{noons[1]}", f"{late} h"),
            )
        else:
            day, month = draw.randint(1, 20), draw.choice(MONTHS)
            later, last = draw.randint(day + 1, 28), month
            first = str(day)  # "du 3 au 5 mai"
            if draw.random() < 0.5:
                first, last = f"{day} {month[1]}", draw.choice(MONTHS)
            begin, end = (f"{month[0]} {day}", first), (f"{last[0]} {later}", f"{later} {last[1]}")
        french = french.replace("{de}", joints[0]).replace("{au}", joints[1])
        english = english.replace("{a}", begin[0]).replace("{b}", end[0]).replace("..", ".")
        return Pair(english, DE.sub("d'", french.replace("{a}", begin[1]).replace("{b}", end[1])))

    def aged(self) -> Pair:
        """Return a sentence with an age or a duration before its noun."""
        english, french = self.draw.choice(AGED)
        number = str(self.draw.randint(2, 90) if "star" not in english else self.draw.randint(2, 5))
        child, enfant = self.draw.choice(CHILDREN)
        un = "une" if enfant.endswith("*") else "un"
        french = french.replace("{un}", un).replace("{child}", enfant.rstrip("*"))
        english = english.replace("{child}", child)
        if number.startswith("8") or number in ("11", "18"):
            english = re.sub(r"\b([Aa]) (?=\{n\})", r"\1n ", english)
        return Pair(english.replace("{n}", number), french.replace("{n}", number))

    def letter(self) -> Pair:
        """Return a line of a letter."""
        day, jour = self.draw.choice(WEEKDAYS)
        name = self.draw.choice(self.names)
        english, french = self.draw.choice(LETTER)
        return Pair(
            english.replace("{name}", name).replace("{day}", day),
            french.replace("{name}", name).replace("{day}", jour),
        )

    def extended(self) -> Pair:
        """Return a statement with one to three of where, when and how at its end, or before it."""
        draw = self.draw
        first = draw.choice(WHEN) if draw.random() < 0.15 else None
        parts = draw.sample([draw.choice(each) for each in (WHERE, WHEN, HOW)],
                            draw.choices((1, 2, 3), (5, 4, 1))[0])  # fmt: skip
        sides: list[str] = []
        for side, statement in enumerate(draw.choice(self.statements)):
            text = " ".join([statement, *(part[side] for part in parts)])
            text = f"{first[side]}, {text}" if first else text
            sides.append(f"{text[0].upper()}{text[1:]}.")
        return Pair(sides[0], ELIDED.sub(r"\1'", sides[1]))


def roman(number: int) -> str:
    """Return a number below 40 in Roman numerals."""
    tens, ones = divmod(number, 10)
    return "X" * tens + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[ones]


def details(pairs: Sequence[Pair], english_first: bool) -> list[Pair]:
    """Return new pairs, half of them as somebody may type them; `pairs` are those of training."""
    draw = random.Random(6)
    maker = Details(turned(pairs, english_first), english_first, draw)
    kinds: tuple[tuple[Callable[[], Pair], int], ...] = (
        (maker.ordinal, ORDINALS), (maker.amount, AMOUNTS), (maker.period, PERIODS),
        (maker.aged, AGES), (maker.letter, LETTERS), (maker.extended, EXTENDED),
        (lambda: joined(maker.clauses, draw), JOINED),
    )  # fmt: skip
    made = [make() for make, count in kinds for _ in range(count)]
    return half_typed(turned(made, english_first), draw)
