"""Greetings, other courtesies and single words in English and French, which a visitor types first.

The corpus of everyday sentences has hardly any: not "Hello!", not "Yes." and not "cat". These were
written for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from rewritten_sentences import entries, turned, typed

from zoo import Pair

TIMES, WORD_TIMES = 100, 30
"""How often each pair, and each word, is repeated, half of the pairs as somebody may type them."""

NAMES = ("Anna", "Marie", "Paul", "David", "Sarah", "Thomas")

PAIRS = (
    ("Hello.", "Bonjour."), ("Hello!", "Bonjour !"), ("Hello, world!", "Bonjour, le monde !"),
    ("Hello, how are you?", "Bonjour, comment allez-vous ?"), ("Hi!", "Salut !"),
    ("Hi, how are you?", "Salut, comment ça va ?"), ("Good morning.", "Bonjour."),
    ("Good afternoon.", "Bonjour."), ("Good evening.", "Bonsoir."),
    ("Good night.", "Bonne nuit."), ("Goodbye.", "Au revoir."), ("Goodbye!", "Au revoir !"),
    ("Bye!", "Au revoir !"), ("See you soon.", "À bientôt."), ("See you later.", "À plus tard."),
    ("See you tomorrow.", "À demain."), ("Yes.", "Oui."), ("No.", "Non."),
    ("Yes, please.", "Oui, s'il vous plaît."), ("No, thank you.", "Non, merci."),
    ("Please.", "S'il vous plaît."), ("Thank you.", "Merci."),
    ("Thank you very much.", "Merci beaucoup."), ("Thanks!", "Merci !"),
    ("You're welcome.", "De rien."), ("Excuse me.", "Excusez-moi."), ("Sorry.", "Désolé."),
    ("I'm sorry.", "Je suis désolé."), ("How are you?", "Comment allez-vous ?"),
    ("How are you doing?", "Comment ça va ?"), ("I'm fine, thank you.", "Je vais bien, merci."),
    ("And you?", "Et vous ?"), ("What's your name?", "Comment vous appelez-vous ?"),
    ("Nice to meet you.", "Enchanté."), ("Where are you from?", "D'où venez-vous ?"),
    ("I'm from Canada.", "Je viens du Canada."),
    ("Do you speak English?", "Parlez-vous anglais ?"),
    ("Do you speak French?", "Parlez-vous français ?"),
    ("I don't speak French.", "Je ne parle pas français."),
    ("I don't speak English.", "Je ne parle pas anglais."),
    ("I don't understand.", "Je ne comprends pas."), ("I don't know.", "Je ne sais pas."),
    ("Help!", "À l'aide !"), ("Help me!", "Aidez-moi !"),
    ("Call a doctor!", "Appelez un médecin !"), ("Call the police!", "Appelez la police !"),
    ("Where are the toilets?", "Où sont les toilettes ?"),
    ("Where is the station?", "Où est la gare ?"), ("How much is it?", "Combien ça coûte ?"),
    ("What time is it?", "Quelle heure est-il ?"), ("Happy birthday!", "Joyeux anniversaire !"),
    ("Merry Christmas!", "Joyeux Noël !"), ("Happy New Year!", "Bonne année !"),
    ("Congratulations!", "Félicitations !"), ("Good luck!", "Bonne chance !"),
    ("Enjoy your meal!", "Bon appétit !"), ("Cheers!", "Santé !"),
    ("Have a nice day!", "Bonne journée !"), ("Have a good trip!", "Bon voyage !"),
    ("Welcome!", "Bienvenue !"), ("I love you.", "Je t'aime."), ("Of course.", "Bien sûr."),
    ("No problem.", "Pas de problème."), ("Okay.", "D'accord."), ("Very good.", "Très bien."),
    ("Well done!", "Bravo !"), ("Why?", "Pourquoi ?"), ("Who?", "Qui ?"), ("Where?", "Où ?"),
    ("When?", "Quand ?"), ("How?", "Comment ?"), ("Let's go!", "Allons-y !"),
    ("Be careful!", "Attention !"), ("Come in.", "Entrez."), ("Sit down.", "Asseyez-vous."),
    ("Hey!", "Hé !"), ("Hey there!", "Coucou !"), ("Hi there!", "Coucou !"),
    ("Hello everyone!", "Bonjour à tous !"), ("Hi, everybody!", "Salut tout le monde !"),
    ("Hello, my friend!", "Bonjour, mon ami !"), ("What's up?", "Quoi de neuf ?"),
    ("What's new?", "Quoi de neuf ?"), ("How's it going?", "Comment ça va ?"),
    ("I'm fine.", "Je vais bien."), ("I'm fine, thanks, and you?", "Je vais bien, merci, et toi ?"),
    ("Bye.", "Au revoir."), ("Bye bye!", "Au revoir !"), ("See you!", "À plus !"),
    ("See you on Monday.", "À lundi."), ("Take care!", "Prends soin de toi !"),
    ("Sweet dreams!", "Fais de beaux rêves !"), ("Thanks a lot!", "Merci beaucoup !"),
    ("Many thanks!", "Merci beaucoup !"), ("No, thanks.", "Non, merci."),
    ("Thanks for your help!", "Merci pour votre aide !"), ("No worries.", "Pas de souci."),
    ("My pleasure.", "Avec plaisir."), ("Never mind.", "Ce n'est pas grave."),
    ("It doesn't matter.", "Ça ne fait rien."), ("Pardon?", "Pardon ?"), ("What?", "Quoi ?"),
    ("Really?", "Vraiment ?"), ("Great!", "Super !"), ("Cool!", "Cool !"),
    ("Perfect!", "Parfait !"),
    ("Wonderful!", "Merveilleux !"), ("Good idea!", "Bonne idée !"), ("Maybe.", "Peut-être."),
    ("Never.", "Jamais."), ("Always.", "Toujours."), ("Me too.", "Moi aussi."),
    ("Me neither.", "Moi non plus."), ("Not yet.", "Pas encore."), ("OK.", "D'accord."),
    ("All right.", "D'accord."), ("Exactly.", "Exactement."), ("Absolutely!", "Absolument !"),
    ("I agree.", "Je suis d'accord."), ("Stop!", "Arrête !"), ("Wait!", "Attends !"),
    ("Just a moment, please.", "Un instant, s'il vous plaît."), ("Hurry up!", "Dépêche-toi !"),
    ("Go away!", "Va-t'en !"), ("Listen!", "Écoute !"), ("Look!", "Regarde !"),
    ("I'm hungry.", "J'ai faim."), ("I'm thirsty.", "J'ai soif."),
    ("I'm tired.", "Je suis fatigué."),
    ("I'm cold.", "J'ai froid."), ("I'm lost.", "Je suis perdu."), ("I'm sick.", "Je suis malade."),
    ("I miss you.", "Tu me manques."), ("I love you so much!", "Je t'aime tellement !"),
    ("The bill, please.", "L'addition, s'il vous plaît."),
    ("I'd like a coffee, please.", "Je voudrais un café, s'il vous plaît."),
    ("A glass of water, please.", "Un verre d'eau, s'il vous plaît."),
    ("Where is the bathroom?", "Où sont les toilettes ?"),
    ("How old are you?", "Quel âge avez-vous ?"), ("Where do you live?", "Où habitez-vous ?"),
    ("What do you do?", "Que faites-vous dans la vie ?"), ("I need help.", "J'ai besoin d'aide."),
    ("Can you help me, please?", "Pouvez-vous m'aider, s'il vous plaît ?"),
    ("Please speak more slowly.", "Parlez plus lentement, s'il vous plaît."),
    ("What does this mean?", "Qu'est-ce que ça veut dire ?"),
    ("Can I pay by card?", "Puis-je payer par carte ?"), ("Get well soon!", "Bon rétablissement !"),
    ("Happy Easter!", "Joyeuses Pâques !"), ("Happy holidays!", "Joyeuses fêtes !"),
    ("Happy Mother's Day!", "Bonne fête des mères !"), ("Have a good weekend!", "Bon week-end !"),
    ("Safe travels!", "Bon voyage !"), ("Have fun!", "Amuse-toi bien !"), ("Test.", "Test."),
    ("This is a test.", "C'est un test."), ("LOL", "MDR"),
    ("Paris is the capital of France.", "Paris est la capitale de la France."),
    ("I live in Paris.", "J'habite à Paris."), ("I live in London.", "J'habite à Londres."),
    *((f"My name is {name}.", f"Je m'appelle {name}.") for name in NAMES),
)  # fmt: skip
"""English and French; of several with the same source, the first counts."""

WORDS = """
hello bonjour|hi salut|hey hé|yes oui|no non|please s'il vous plaît|thanks merci|sorry désolé
bye salut|cat chat|dog chien|bird oiseau|horse cheval|cow vache|fish poisson|mouse souris
rabbit lapin|lion lion|house maison|car voiture|table table|chair chaise|door porte
window fenêtre|key clé|bed lit|book livre|kitchen cuisine|garden jardin|street rue|city ville
country pays|world monde|school école|train train|plane avion|bike vélo|boat bateau|bus bus
phone téléphone|computer ordinateur|money argent|work travail|man homme|woman femme|child enfant
boy garçon|girl fille|baby bébé|friend ami|family famille|people gens|mother mère|father père
brother frère|sister sœur|son fils|daughter fille|wife femme|husband mari|water eau|bread pain
milk lait|cheese fromage|apple pomme|coffee café|tea thé|wine vin|beer bière|meat viande|egg œuf
butter beurre|salt sel|sugar sucre|chicken poulet|orange orange|banana banane|sun soleil
moon lune|star étoile|sky ciel|sea mer|mountain montagne|tree arbre|flower fleur|rain pluie
snow neige|wind vent|fire feu|earth terre|day jour|night nuit|morning matin|evening soir
week semaine|month mois|year année|hour heure|time temps|today aujourd'hui|tomorrow demain
yesterday hier|now maintenant|Monday lundi|Tuesday mardi|Wednesday mercredi|Thursday jeudi
Friday vendredi|Saturday samedi|Sunday dimanche|January janvier|February février|March mars
April avril|May mai|June juin|July juillet|August août|September septembre|October octobre
November novembre|December décembre|spring printemps|summer été|autumn automne|winter hiver
red rouge|blue bleu|green vert|yellow jaune|black noir|white blanc|brown marron|pink rose
grey gris|purple violet|big grand|small petit|good bon|bad mauvais|new nouveau|old vieux
young jeune|hot chaud|cold froid|beautiful beau|happy heureux|sad triste|tired fatigué|zero zéro
one un|two deux|three trois|four quatre|five cinq|six six|seven sept|eight huit|nine neuf
ten dix|eleven onze|twelve douze|twenty vingt|hundred cent|thousand mille|first premier
last dernier|love amour|life vie|death mort|peace paix|war guerre|music musique|song chanson
game jeu|film film|head tête|hand main|eye œil|nose nez|mouth bouche|heart cœur|foot pied
hair cheveux|who qui|what quoi|where où|when quand|why pourquoi|how comment|here ici|there là
always toujours|never jamais|and et|or ou|France France|England Angleterre|Germany Allemagne
Spain Espagne|Italy Italie|Canada Canada|English anglais|French français|German allemand
Spanish espagnol|Italian italien|doctor médecin|teacher professeur|student étudiant|king roi
queen reine|name nom|question question|answer réponse
"""
"""English, a space, French; each also with a capital, and with a final mark."""


def courtesies(english_first: bool) -> list[Pair]:
    """Return all pairs in one direction, repeated: written with care, and as somebody may type."""
    draw = random.Random(1)
    pairs = list(_directed(PAIRS, english_first))
    words = [
        Pair(*form)
        for pair in _directed((line.split(" ", 1) for line in entries(WORDS)), english_first)
        for form in (pair, map(_capital, pair), (f"{_capital(text)}." for text in pair))
    ]
    hurried = [Pair(typed(p.source, draw), p.target) for _ in range(TIMES // 2) for p in pairs]
    return [*hurried, *pairs * (TIMES // 2), *words * (WORD_TIMES // 3)]


def _directed(pairs: Iterable[Sequence[str]], english_first: bool) -> Iterator[Pair]:
    seen = set()  # in French, "Bonjour." is "Hello." only
    for pair in turned(pairs, english_first):
        if pair.source not in seen:
            yield pair
        seen.add(pair.source)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
