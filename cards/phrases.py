"""A phrase book: what a traveller asks for, as pairs in English and French for everyday sentences.

The corpus has few tables to book, rooms with a bath, or traffic lights. Patterns are filled with
nouns that bring their article in both languages.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from more_sentences import WEEKDAYS, clauses
from num2words import num2words
from people import TOWNS, about_people
from rewritten_sentences import entries

from zoo import Pair

ORDERED = (
    ("a coffee", "un café"), ("a cup of tea", "une tasse de thé"), ("some water", "de l'eau"),
    ("a bottle of water", "une bouteille d'eau"), ("a glass of wine", "un verre de vin"),
    ("a beer", "une bière"), ("an orange juice", "un jus d'orange"), ("some bread", "du pain"),
    ("a sandwich", "un sandwich"), ("the soup", "la soupe"), ("the fish", "le poisson"),
    ("the chicken", "le poulet"), ("a salad", "une salade"), ("an ice cream", "une glace"),
    ("some cheese", "du fromage"), ("a kilo of apples", "un kilo de pommes"),
    ("a piece of cake", "une part de gâteau"), ("some sugar", "du sucre"), ("some milk", "du lait"),
    ("two coffees", "deux cafés"), ("two beers", "deux bières"), ("a fork", "une fourchette"),
    ("a knife", "un couteau"), ("a spoon", "une cuillère"), ("the menu", "la carte"),
    ("the bill", "l'addition"), ("a receipt", "un reçu"), ("a ticket", "un billet"),
    ("two tickets", "deux billets"), ("a map of the city", "un plan de la ville"),
    ("a single room", "une chambre simple"), ("a double room", "une chambre double"),
    ("a room with a bath", "une chambre avec salle de bains"), ("a blanket", "une couverture"),
    ("another towel", "une autre serviette"), ("the key", "la clé"), ("a stamp", "un timbre"),
    ("a newspaper", "un journal"), ("a bigger size", "une taille plus grande"),
)  # fmt: skip
"""What one orders: {o}."""
LOCATIONS = (
    ("the station", "la gare", "à la gare"), ("the bank", "la banque", "à la banque"),
    ("the airport", "l'aéroport", "à l'aéroport"), ("the hotel", "l'hôtel", "à l'hôtel"),
    ("the hospital", "l'hôpital", "à l'hôpital"), ("the beach", "la plage", "à la plage"),
    ("the pharmacy", "la pharmacie", "à la pharmacie"), ("the port", "le port", "au port"),
    ("the post office", "la poste", "à la poste"), ("the market", "le marché", "au marché"),
    ("the museum", "le musée", "au musée"), ("the bus stop", "l'arrêt de bus", "à l'arrêt de bus"),
    ("the supermarket", "le supermarché", "au supermarché"), ("the park", "le parc", "au parc"),
    ("the restaurant", "le restaurant", "au restaurant"), ("the church", "l'église", "à l'église"),
    ("the police station", "le commissariat", "au commissariat"),
    ("the town hall", "la mairie", "à la mairie"), ("the library", "la bibliothèque",
    "à la bibliothèque"), ("the swimming pool", "la piscine", "à la piscine"),
    ("the city center", "le centre-ville", "au centre-ville"), ("the castle", "le château",
    "au château"), ("the theater", "le théâtre", "au théâtre"), ("the cinema", "le cinéma",
    "au cinéma"), ("the bakery", "la boulangerie", "à la boulangerie"), ("the traffic lights",
    "les feux", "aux feux"), ("the crossroads", "le carrefour", "au carrefour"),
    ("the next corner", "le prochain coin de rue", "au prochain coin de rue"),
    ("the roundabout", "le rond-point", "au rond-point"), ("the bridge", "le pont", "au pont"),
)  # fmt: skip
"""{l}, and in French with its preposition {at}."""
ALLERGIES = (
    ("nuts", "noix", "aux noix"), ("peanuts", "arachides", "aux arachides"),
    ("milk", "lait", "au lait"), ("eggs", "œufs", "aux œufs"), ("fish", "poisson", "au poisson"),
    ("cats", "chats", "aux chats"), ("gluten", "gluten", "au gluten"),
    ("penicillin", "pénicilline", "à la pénicilline"), ("bee stings", "piqûres d'abeille",
    "aux piqûres d'abeille"), ("pollen", "pollen", "au pollen"), ("dust", "poussière",
    "à la poussière"),
)  # fmt: skip
"""{g}."""
LOST = (
    ("my keys", "mes clés"), ("my passport", "mon passeport"), ("my wallet", "mon portefeuille"),
    ("my phone", "mon téléphone"), ("my bag", "mon sac"), ("my ticket", "mon billet"),
    ("my suitcase", "ma valise"), ("my glasses", "mes lunettes"), ("my camera",
    "mon appareil photo"), ("my credit card", "ma carte de crédit"),
    ("my password", "mon mot de passe"), ("my umbrella", "mon parapluie"), ("my car", "ma voiture"),
    ("my computer", "mon ordinateur"),
)  # fmt: skip
"""{p}."""
BODY = (
    ("a headache", "mal à la tête"), ("a stomachache", "mal au ventre"),
    ("a toothache", "mal aux dents"), ("a sore throat", "mal à la gorge"), ("a fever",
    "de la fièvre"), ("a cold", "un rhume"), ("a cough", "une toux"), ("the flu", "la grippe"),
    ("back pain", "mal au dos"), ("an appointment", "un rendez-vous"),
)  # fmt: skip
"""What one has: {h}."""
PATTERNS = (
    ("I'd like {o}, please.", "Je voudrais {o}, s'il vous plaît."),
    ("I would like {o}.", "Je voudrais {o}."), ("Can I have {o}, please?",
    "Puis-je avoir {o}, s'il vous plaît ?"), ("Could I have {o}?", "Pourrais-je avoir {o} ?"),
    ("{o}, please.", "{o}, s'il vous plaît."), ("Could you bring me {o}?",
    "Pourriez-vous m'apporter {o} ?"), ("Do you want {o}?", "Voulez-vous {o} ?"),
    ("He ordered {o}.", "Il a commandé {o}."), ("I need {o}.", "Il me faut {o}."),
    ("I'd like to pay for {o}.", "Je voudrais payer {o}."),
    ("Where is {l}?", "Où est {l} ?+"), ("Where is {l}, please?", "Où est {l}, s'il vous plaît ?+"),
    ("How do I get to {l}?", "Comment va-t-on {at} ?"), ("Is {l} far from here?",
    "Est-ce que {l} est loin d'ici ?+"), ("I'm looking for {l}.", "Je cherche {l}."),
    ("I am going to {l}.", "Je vais {at}."), ("We are going to {l}.", "Nous allons {at}."),
    ("Take me to {l}, please.", "Conduisez-moi {at}, s'il vous plaît."),
    ("Let's meet at {l}.", "Retrouvons-nous {at}."), ("I'm at {l}.", "Je suis {at}."),
    ("Turn left at {l}.", "Tournez à gauche {at}."), ("Turn right at {l}.",
    "Tournez à droite {at}."), ("Go straight ahead to {l}.", "Allez tout droit jusqu'{at}."),
    ("Stop at {l}.", "Arrêtez-vous {at}."), ("Is there a bus to {l}?",
    "Y a-t-il un bus pour aller {at} ?"), ("Can you show me {l} on the map?",
    "Pouvez-vous me montrer {l} sur la carte ?"), ("{l} is on the left.", "{l} est à gauche.+"),
    ("{l} is closed today.", "{l} est fermé aujourd'hui.*"),
    ("I'm allergic to {g}.", "Je suis allergique {to}."), ("She is allergic to {g}.",
    "Elle est allergique {to}."), ("Are you allergic to {g}?", "Êtes-vous allergique {to} ?"),
    ("My son is allergic to {g}.", "Mon fils est allergique {to}."),
    ("I lost {p}.", "J'ai perdu {p}."), ("I've lost {p}.", "J'ai perdu {p}."),
    ("I forgot {p}.", "J'ai oublié {p}."), ("I can't find {p}.", "Je ne trouve pas {p}."),
    ("Someone stole {p}.", "On m'a volé {p}."), ("Have you seen {p}?", "Avez-vous vu {p} ?"),
    ("Where is {p}?", "Où est {p} ?+"), ("{p} is broken.", "{p} est cassé.*"),
    ("I have {h}.", "J'ai {h}."), ("She has {h}.", "Elle a {h}."), ("Do you have {h}?",
    "Avez-vous {h} ?"), ("My daughter has {h}.", "Ma fille a {h}."),
    ("I'd like to book a table for {n}.", "Je voudrais réserver une table pour {n}."),
    ("I would like to reserve a table for {n} people.",
    "Je voudrais réserver une table pour {n} personnes."),
    ("A table for {n}, please.", "Une table pour {n}, s'il vous plaît."),
    ("We booked a table for {n}.", "Nous avons réservé une table pour {n}."),
    ("I'd like to book a room for {n} nights.", "Je voudrais réserver une chambre pour {n} nuits."),
    ("I have booked a room for {n} nights.", "J'ai réservé une chambre pour {n} nuits."),
    ("We are staying for {n} days.", "Nous restons {n} jours."),
    ("{n} tickets to {city}, please.", "{n} billets pour {city}, s'il vous plaît."),
    ("I'd like to book a flight to {city}.", "Je voudrais réserver un vol pour {city}."),
    ("When does the next train to {city} leave?", "Quand part le prochain train pour {city} ?"),
    ("Which platform does the train to {city} leave from?",
    "De quel quai part le train pour {city} ?"),
    ("How long does it take to get to {city}?", "Combien de temps faut-il pour aller à {city} ?"),
    ("Is this the bus to {city}?", "C'est le bus pour {city} ?"),
    ("I missed my train to {city}.", "J'ai raté mon train pour {city}."),
    ("She works at a hospital in {city}.", "Elle travaille dans un hôpital à {city}."),
    ("I work in an office in {city}.", "Je travaille dans un bureau à {city}."),
    ("The restaurant is closed on {days}.", "Le restaurant est fermé le {jour}."),
    ("The shop is open on {days}.", "Le magasin est ouvert le {jour}."),
    ("The museum is closed on {days}.", "Le musée est fermé le {jour}."),
    ("I don't work on {days}.", "Je ne travaille pas le {jour}."),
    ("Please answer me by {day}.", "Répondez-moi avant {jour}, s'il vous plaît."),
    ("Send me the letter by {day}.", "Envoyez-moi la lettre avant {jour}."),
    ("I need it by {day}.", "Il me le faut avant {jour}."),
)  # fmt: skip
"""No plural is put before a plus, and no feminine or elided noun either before a star."""
SENTENCES = (
    ("If it rains, we will stay at home.", "S'il pleut, nous resterons à la maison."),
    ("If it's sunny, we'll go to the park.", "S'il fait beau, nous irons au parc."),
    ("If it snows, the school will be closed.", "S'il neige, l'école sera fermée."),
    ("If he comes, I will leave.", "S'il vient, je partirai."),
    ("If I were you, I would accept.", "Si j'étais toi, j'accepterais."),
    ("If I had money, I would buy a house.", "Si j'avais de l'argent, j'achèterais une maison."),
    ("If I had time, I would help you.", "Si j'avais le temps, je t'aiderais."),
    ("If I were rich, I would not work.", "Si j'étais riche, je ne travaillerais pas."),
    ("Could you speak more slowly, please?", "Pourriez-vous parler plus lentement ?"),
    ("Could you write it down?", "Pourriez-vous l'écrire ?"),
    ("Can you take a photo of us?", "Pouvez-vous nous prendre en photo ?"),
    ("What does this word mean?", "Que veut dire ce mot ?"),
    ("How do you say that in French?", "Comment dit-on ça en français ?"),
    ("Do you accept credit cards?", "Acceptez-vous les cartes de crédit ?"),
    ("Can I pay by card?", "Puis-je payer par carte ?"), ("It's too expensive.",
    "C'est trop cher."), ("Is breakfast included?", "Le petit déjeuner est-il compris ?"),
    ("What time is breakfast?", "À quelle heure est le petit déjeuner ?"),
    ("Is there Wi-Fi here?", "Y a-t-il du Wi-Fi ici ?"),
    ("What is the Wi-Fi password?", "Quel est le mot de passe du Wi-Fi ?"),
    ("Is this seat free?", "Cette place est-elle libre ?"), ("I'm a vegetarian.",
    "Je suis végétarien."), ("I don't eat meat.", "Je ne mange pas de viande."),
    ("The food was very good.", "Le repas était très bon."), ("Keep the change.",
    "Gardez la monnaie."), ("I'm just looking.", "Je regarde seulement."),
    ("Where can I buy tickets?", "Où puis-je acheter des billets ?"),
    ("Where are the restrooms?", "Où sont les toilettes ?"), ("I'm lost.", "Je suis perdu."),
    ("There has been an accident.", "Il y a eu un accident."), ("Call an ambulance!",
    "Appelez une ambulance !"), ("I need a doctor.", "J'ai besoin d'un médecin."),
    ("It hurts here.", "J'ai mal ici."), ("I feel sick.", "Je ne me sens pas bien."),
    ("We are on vacation.", "Nous sommes en vacances."), ("Sleep well.", "Dors bien."),
    ("I'm here on business.", "Je suis ici pour affaires."), ("My flight was canceled.",
    "Mon vol a été annulé."),
    ("The train is late.", "Le train est en retard."), ("Wait a minute.", "Attendez une minute."),
    ("Turn left.", "Tournez à gauche."), ("Turn right.", "Tournez à droite."),
    ("Go straight ahead.", "Allez tout droit."), ("It's on the right.", "C'est à droite."),
    ("I would like to check in.", "Je voudrais m'enregistrer."), ("I would like to check out.",
    "Je voudrais régler ma note."), ("The shower doesn't work.", "La douche ne marche pas."),
    ("It's getting late.", "Il se fait tard."), ("It is getting dark.",
    "Il commence à faire nuit."),
    ("We should go now, because it is getting late.",
    "Nous devrions y aller maintenant, car il se fait tard."),
    ("I'm going to bed, because I'm tired.", "Je vais me coucher, car je suis fatigué."),
    ("The internet is changing the world.", "Internet change le monde."),
    ("I work with computers.", "Je travaille avec des ordinateurs."),
    ("My computer is slow.", "Mon ordinateur est lent."), ("Please call me back.",
    "Rappelez-moi, s'il vous plaît."), ("I sent you an email.", "Je vous ai envoyé un courriel."),
    ("I didn't get your email.", "Je n'ai pas reçu votre courriel."),
    ("Can you send me a message?", "Peux-tu m'envoyer un message ?"),
    ("The president gave a speech.", "Le président a prononcé un discours."),
)  # fmt: skip
SUBJECTS = (
    ("The hotel", "L'hôtel"), ("The restaurant", "Le restaurant"), ("My friend", "Mon ami"),
    ("My car", "Ma voiture"), ("The book", "Le livre"), ("This house", "Cette maison"),
    ("The train", "Le train"), ("The key", "La clé"), ("My sister", "Ma sœur"),
    ("My phone", "Mon téléphone"), ("His brother", "Son frère"), ("The museum", "Le musée"),
    ("The old man", "Le vieil homme"), ("Our teacher", "Notre professeur"), ("The dog", "Le chien"),
    ("Her room", "Sa chambre"), ("The shop", "Le magasin"), ("This word", "Ce mot"),
)  # fmt: skip
SAID_OF_THEM = (
    ("is here", "est ici"), ("is not here", "n'est pas ici"), ("is far away", "est loin"),
    ("is in the street", "est dans la rue"), ("costs a lot", "coûte cher"),
    ("is on the left", "est à gauche"), ("is at home", "est à la maison"),
    ("is for you", "est pour vous"), ("is like mine", "est comme le mien"),
    ("was in Paris", "était à Paris"), ("makes me happy", "me rend heureux"),
    ("needs help", "a besoin d'aide"), ("is behind you", "est derrière toi"),
    ("can wait", "peut attendre"), ("has no name", "n'a pas de nom"), ("is free", "est libre"),
    ("is mine", "est à moi"), ("will be there", "sera là"), ("is full of water", "est plein d'eau"),
)  # fmt: skip
INSERTED = (
    ("near the beach", "près de la plage"), ("next to the station", "à côté de la gare"),
    ("in the city center", "au centre-ville"), ("with a garden", "avec un jardin"),
    ("in Paris", "à Paris"), ("from Germany", "d'Allemagne"), ("like yesterday", "comme hier"),
    ("you know it", "vous le savez"), ("I think", "je crois"), ("I hope", "j'espère"),
    ("of course", "bien sûr"), ("as always", "comme toujours"), ("with my father", "avec mon père"),
    ("without me", "sans moi"), ("see page {n}", "voir page {n}"), ("number {n}", "numéro {n}"),
    ("since {n}", "depuis {n}"), ("on {day}", "{jour}"), ("in {city}", "à {ville}"),
    ("and his wife", "et sa femme"), ("not yours", "pas le vôtre"), ("if you want", "si tu veux"),
    ("for the second time", "pour la deuxième fois"), ("at the end", "à la fin"),
    ("at least", "au moins"), ("in English", "en anglais"), ("in French", "en français"),
    ("but not today", "mais pas aujourd'hui"), ("or tomorrow", "ou demain"), ("again", "encore"),
    ("in the red box", "dans la boîte rouge"), ("the red one", "le rouge"),
    ("the big one", "le grand"), ("the first one", "le premier"), ("my brother", "mon frère"),
    ("my best friend", "mon meilleur ami"), ("his boss", "son patron"), ("a doctor", "un médecin"),
)  # fmt: skip
RELATIVES = (
    ("my brother", "mon frère"), ("my sister", "ma sœur"), ("my neighbor", "mon voisin"),
    ("my teacher", "mon professeur"), ("a friend of mine", "un de mes amis"),
    ("his wife", "sa femme"), ("{n} years old", "{n} ans"), ("in {city}", "à {ville}"),
)  # fmt: skip
COMMON_NAMES = """
John|James|Mary|Robert|Michael|Linda|William|Elizabeth|Susan|Richard|Peter|Jack|Emma|Kate|Lucy
George|Charles|Alice|Daniel|Mark|Jean|Pierre|Jacques|Michel|Sophie|Claire|Julie|Nicolas|Camille
Smith|Jones|Brown|Taylor|Miller|Johnson|Wilson|Davis|Moore|White|Clark|Lewis|Walker|Hall|Young
King|Green|Baker|Adams|Hill|Scott|Martin|Bernard|Dubois|Durand|Dupont|Moreau|Petit|Leroy|Roux
"""
FEMININE = ("la ", "une ", "ma ")
PLURAL = ("les ", "mes ", "des ")


def phrases(pairs: Sequence[Pair], count: int, draw: random.Random) -> list[Pair]:
    """Return phrases in English and French: half of the book, and half with names and brackets.

    Args:
        pairs: those of training, English first, whose statements get brackets.
        count: how many.
        draw: the source of chance.
    """
    cities = [(town.split()[0], town.split()[-1]) for town in entries(TOWNS)]
    statements, names = clauses(pairs), entries(COMMON_NAMES)
    made = [_phrase(cities, draw) for _ in range(count // 2)]
    made += [about_people(names, draw) for _ in range(count // 6)]
    return made + [bracketed(statements, cities, draw) for _ in range(count - len(made))]


def bracketed(
    statements: Sequence[Pair], cities: Sequence[tuple[str, str]], draw: random.Random
) -> Pair:
    """Return a sentence with brackets in it or at its end."""
    subject, said = draw.choice(SUBJECTS), draw.choice(SAID_OF_THEM)
    statement, other = draw.sample(statements, 2)
    kind = draw.choice(("subject", "name", "end", "end", "two"))
    inside: Sequence[str] = draw.choice(RELATIVES if kind == "name" else INSERTED)
    if kind == "name":
        subject = (draw.choice(entries(COMMON_NAMES)),) * 2
    number, city, day = str(draw.randint(2, 99)), draw.choice(cities), draw.choice(WEEKDAYS)
    slots = ((number, city[0], "", day[0], ""), (number, "", city[1], "", day[1]))
    sides = []
    for side, words in enumerate(slots):
        text = inside[side]
        for slot, word in zip(("{n}", "{city}", "{ville}", "{day}", "{jour}"), words, strict=True):
            text = text.replace(slot, word)
        if kind in ("subject", "name"):
            sides.append(f"{subject[side]} ({text}) {said[side]}.")
        else:
            text = other[side] if kind == "two" else text
            first = statement[side]
            sides.append(f"{first[0].upper()}{first[1:]} ({text}).")
    return Pair(*sides)


def _phrase(cities: Sequence[tuple[str, str]], draw: random.Random) -> Pair:
    while draw.random() < 0.75:
        pair = _filled(Pair(*draw.choice(PATTERNS)), cities, draw)
        if pair is not None:
            return pair
    return Pair(*draw.choice(SENTENCES))


def _filled(pattern: Pair, cities: Sequence[tuple[str, str]], draw: random.Random) -> Pair | None:
    """Return a pattern with its nouns, or nothing where these do not agree with it."""
    number = draw.randint(2, 12)
    words = (str(number), str(number))
    if draw.random() < 0.7:
        words = (num2words(number), num2words(number, lang="fr"))
    location, allergy, day = draw.choice(LOCATIONS), draw.choice(ALLERGIES), draw.choice(WEEKDAYS)
    slots: dict[str, tuple[str, str]] = {
        "{o}": draw.choice(ORDERED), "{l}": location[:2], "{at}": ("", location[2]),
        "{g}": allergy[:2], "{to}": ("", allergy[2]), "{p}": draw.choice(LOST),
        "{h}": draw.choice(BODY), "{n}": words, "{city}": draw.choice(cities),
        "{days}": (f"{day[0]}s", ""), "{day}": day, "{jour}": ("", day[1]),
    }  # fmt: skip
    english, french = pattern
    noun = next((slots[slot][1] for slot in ("{l}", "{p}") if slot in french), "")
    marked = french[-1] in "*+"
    if marked and (noun.startswith(PLURAL) or (french.endswith("*") and _feminine(noun))):
        return None
    french = french.rstrip("*+")
    for slot, (one, other) in slots.items():
        english, french = english.replace(slot, one), french.replace(slot, other)
    return Pair(*(f"{text[0].upper()}{text[1:]}" for text in (english, french)))


def _feminine(noun: str) -> bool:
    """Return whether a noun is, or may be, feminine: elided articles do not show it."""
    return noun.startswith((*FEMININE, "l'"))
