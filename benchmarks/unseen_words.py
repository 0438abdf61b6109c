"""How well a checkpoint translates sentences with words that its training did not have.

    python benchmarks/unseen_words.py transformer-tiny.tatoeba-en-fr-76k

translates the first sources of its validation split and prints, for those without and with such
words, how many there are, and their BLEU and chrF.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import zoo
from zoo.data.datasets import given_items
from zoo.evaluation.metrics import score
from zoo.registry.registry import default_registry

SENTENCES = 1_000


def printed(name: str, texts: Sequence[str], references: Sequence[Sequence[str]]) -> str:
    """Return a line with the number of sentences and their scores."""
    scores = score(texts, references).as_json()
    return f"{name}: {len(texts):,} sentences, BLEU {scores['bleu']:.2f}, chrF {scores['chrf']:.2f}"


def main() -> None:
    """Translate, divide, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", help="the name of a released checkpoint")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="of the validation split")
    options = parser.parse_args()
    translator = zoo.load(options.checkpoint)
    data = translator.checkpoint.about.data
    items, *_ = given_items(default_registry(), data, "validation", options.sentences)
    made = translator.translate([item.source for item in items], details=True)
    for name, wanted in (("no unseen word", False), ("unseen words", True)):
        some = [i for i, one in enumerate(made) if bool(one.unseen_words) == wanted]
        texts, references = [made[i].text for i in some], [items[i].references for i in some]
        print(printed(name, texts, references) if some else f"{name}: none")


if __name__ == "__main__":
    main()
