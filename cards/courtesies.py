"""Greetings and other courtesies in English and French, which a visitor types first.

The corpus of everyday sentences has hardly any: not "Hello!" and not "Yes.". These were written for
it. Near copies of what is held out are left out.
"""

from __future__ import annotations

import random

from rewritten_sentences import typed

from zoo import Pair
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry
from zoo_corpora.near_copies import keys

TIMES = 100
"""How often each pair is repeated, half of them as somebody may type it."""

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
    *((f"My name is {name}.", f"Je m'appelle {name}.") for name in NAMES),
)  # fmt: skip
"""English and French; of several with the same source, the first counts."""


def courtesies(task: str) -> list[Pair]:
    """Return the pairs in the direction of a task, repeated."""
    dataset = find_dataset(default_registry(), task)
    held_out = {
        key
        for split in ("validation", "test")
        for pair in dataset.load(split)
        for key in keys(pair)
    }
    directed = [Pair(*(pair if "en-fr" in task else pair[::-1])) for pair in PAIRS]
    first = {pair.source: pair for pair in reversed(directed)}  # "Bonjour." is "Hello."
    chosen = [pair for pair in directed if first[pair.source] is pair]
    allowed = [pair for pair in chosen if held_out.isdisjoint(keys(pair))]
    draw = random.Random(1)
    hurried = [Pair(typed(p.source, draw), p.target) for _ in range(TIMES // 2) for p in allowed]
    return [*hurried, *allowed * (TIMES // 2)]
