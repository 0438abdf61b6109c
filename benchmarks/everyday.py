"""Everyday checkpoints on validation text as people type it, and with names that they do not know.

    python benchmarks/everyday.py transformer-tiny.tatoeba-en-fr-76k

The sources are those of the validation data: as they are, in lowercase, without their final mark,
and both. Names of both sides are replaced by Dutch, Polish and Swedish ones that training has not.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from sacrebleu import corpus_bleu

import zoo
from zoo.data.datasets import find_dataset, read_items
from zoo.registry.registry import default_registry

sys.path.insert(0, str(Path(__file__).parents[1] / "cards"))

from rewritten_sentences import LOCALES, MARK, WORD, names_of_people, with_other_names

OTHER_LOCALES = ("nl_NL", "pl_PL", "sv_SE")
TIMES = 3
"""How often each pair with a name is rewritten."""


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
    names = set(names_of_people(OTHER_LOCALES)) - set(names_of_people(LOCALES))
    pairs = list(dataset.load("validation"))
    named = list(with_other_names(pairs, sorted(names), TIMES, random.Random(3)))
    texts = translator.translate([pair.source for pair in named], split=False)
    kept = 0
    for pair, text in zip(named, texts, strict=True):
        words = [set(WORD.findall(each)) for each in (pair.source, pair.target)]
        kept += (words[0] & words[1] & names) <= set(WORD.findall(text))
    print(f"names copied, {len(named)} pairs     {100 * kept / len(named):6.1f}%")


if __name__ == "__main__":
    main()
