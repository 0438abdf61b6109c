"""How hard the words of `g2p-en` are: an n-gram model trained and scored on the same splits.

    python benchmarks/pronunciation.py

Phonetisaurus, joint-sequence n-grams of order 8 by default, is trained on the training words of the
dataset, and on those of a plain split of the same dictionary and sizes, in which only the same word
is kept together: *baker* may be in the training data and *baker's* in the test. Each is done with
stress, and with stress removed from the training data too. The same metrics as in `zoo eval` score
the test words; a word without an answer counts as wrong. A run takes about seven minutes, and
writes its table to `RESULTS-pronunciation.md`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import peers
from report import write

from zoo import Pair
from zoo.evaluation.metrics import Scores, score
from zoo_corpora import pronunciation_metrics as metrics
from zoo_corpora.corpora import corpus_folder
from zoo_corpora.near_copies import split_groups
from zoo_corpora.pronunciation import FILE, HELD_OUT, read_dictionary, stem

PAGE = Path(__file__).with_name("RESULTS-pronunciation.md")
METRICS = (
    metrics.WordErrorRate,
    metrics.PhoneErrorRate,
    metrics.WordErrorRateWithoutStress,
    metrics.PhoneErrorRateWithoutStress,
)
PEER = """
import json, sys, phonetisaurus
train, words, model = sys.argv[1:]
lexicon = {}
for line in open(train, encoding="utf-8"):
    word, phones = line.rstrip("\\n").split("\\t")
    lexicon.setdefault(word, []).append(phones.split())
phonetisaurus.train(lexicon, model)
for word, phones in phonetisaurus.predict(open(words, encoding="utf-8").read().split(), model):
    print(json.dumps([word, " ".join(phones)]))
"""


def split_dictionary(plain: bool) -> dict[str, list[Pair]]:
    """Return the splits of the dataset, or of one that keeps only equal words together."""
    pairs = list(read_dictionary(corpus_folder("cmudict", (FILE,), "g2p-en") / FILE))
    key = str if plain else stem
    held_out = {split: words for split, (words, _) in HELD_OUT.items()}
    return split_groups(pairs, [key(pair.source) for pair in pairs], held_out, largest=100)


def write_pairs(file: Path, pairs: Iterable[Pair]) -> None:
    """Write a word and its phones per line, with a tab between."""
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    file.write_text(text, encoding="utf-8")


def without_stress(pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs whose phones have no digits."""
    return [Pair(pair.source, re.sub(r"\d", "", pair.target)) for pair in pairs]


def scored(splits: dict[str, list[Pair]], stress: bool) -> Scores:
    """Return the scores on the test words of a model trained on the others."""
    references: dict[str, list[str]] = {}
    for pair in splits["test"]:
        references.setdefault(pair.source, []).append(pair.target)
    with TemporaryDirectory() as temporary:
        program, train, words = (Path(temporary, x) for x in ("peer.py", "train.tsv", "words"))
        program.write_text(PEER, encoding="utf-8")
        write_pairs(train, splits["train"] if stress else without_stress(splits["train"]))
        words.write_text("".join(f"{word}\n" for word in references), encoding="utf-8")
        model = str(Path(temporary, "model.fst"))
        answers = dict(peers.run_peer("phonetisaurus", program, str(train), str(words), model))
    texts = [answers.get(word, "") for word in references]
    chosen = {each.name: each() for each in METRICS if stress or not each.stress}
    return score(texts, list(references.values()), chosen, resamples=1000)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    names = [each.name for each in METRICS]
    lines = [f"| split | trained with stress | {' | '.join(names)} |", "|---|---|" + "--:|" * 4]
    for split, plain in (("of `g2p-en`", False), ("plain, by word", True)):
        splits = split_dictionary(plain)
        for stress in (True, False):
            scores = scored(splits, stress).by_name
            print(json.dumps({"split": split, **{x: scores[x].value for x in scores}}), flush=True)
            cells = [
                f"{scores[x].value:.2f} ± {scores[x].confidence:.2f}" if x in scores else "—"
                for x in names
            ]
            lines.append(f"| {split} | {'yes' if stress else 'no'} | {' | '.join(cells)} |")
    write(PAGE, "benchmarks/pronunciation.py", "\n".join(lines))


if __name__ == "__main__":
    main()
