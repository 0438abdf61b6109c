"""How checkpoints translate sentences that are longer than those of their training.

    python benchmarks/long_sentences.py NAME...

Sentences of the validation data are joined to longer ones, with a comma and "and" or with "and"
alone, each first letter but the first in lowercase. Printed is the BLEU of their translations as
one sentence and in parts (`trained_length`), against the references joined in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import sacrebleu

import zoo
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry

AND = {"en": "and", "de": "und", "fr": "et"}
MOST = 250


def joined(sentences: Sequence[str], count: int, separator: str) -> list[str]:
    """Return sentences that are each made of `count` consecutive ones."""
    bodies = [sentence.strip().rstrip(".!?… \u00a0\u202f") for sentence in sentences]
    # Sentences at the end that fill no group are left out.
    groups = zip(*(bodies[i::count] for i in range(count)), strict=False)
    return [
        separator.join([first, *(body[:1].lower() + body[1:] for body in rest)]) + "."
        for first, *rest in groups
    ][:MOST]


def main() -> None:
    """Print a table for each checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    for name in parser.parse_args().names:
        translator = zoo.load(name)
        about = translator.checkpoint.about
        pairs = find_dataset(default_registry(), about.data).load("validation")
        first = dict(reversed(pairs))  # one reference a source
        languages = about.source_languages[0], about.target_languages[0]
        print(f"{name}, trained on sources of up to {about.trained_length} tokens")
        for comma in ("", ","):
            for count in (1, 2, 3, 4):
                sources, references = (
                    joined(side, count, f"{comma} {AND[language]} ")
                    for side, language in zip((list(first), list(first.values())), languages,
                                              strict=True)
                )  # fmt: skip
                whole = translator.translate(sources, split=False)
                parts = translator.translate(sources, details=True)
                scores = [
                    sacrebleu.corpus_bleu(texts, [references]).score
                    for texts in (whole, [one.text for one in parts])
                ]
                print(
                    f"{count} joined by {comma + ' and'!r}: as one {scores[0]:.1f}, in parts "
                    f"{scores[1]:.1f}; {sum(one.divided for one in parts)} of {len(parts)} divided",
                    flush=True,
                )


if __name__ == "__main__":
    main()
