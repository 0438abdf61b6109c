"""Every number below a million in words, translated: how many are wrong.

    python benchmarks/all_numbers.py FOLDER... [--step 1]

FOLDER is a checkpoint of `numbers-en-fr`. Printed is, for each style in which its training has
English numbers, how many of all numbers are wrong, and the first of them.
"""

from __future__ import annotations

import argparse

import zoo
from zoo_corpora.generated import STYLES, spelled

MILLION = 1_000_000


def main() -> None:
    """Print a line for each checkpoint and style."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--step", type=int, default=1, help="take one number of so many")
    given = parser.parse_args()
    wanted = range(0, MILLION, given.step)
    for folder in given.folders:
        translator = zoo.load(folder)
        for name, style in STYLES.items():
            sources = (style(spelled(number, "en")) for number in wanted)
            wrong = [
                made.source
                for number, made in zip(wanted, translator.stream(sources), strict=True)
                if made.text != spelled(number, "fr")
            ]
            examples = f"; the first: {'; '.join(wrong[:5])}" if wrong else ""
            print(
                f"{folder}, {name}: {len(wrong):,} of {len(wanted):,} wrong{examples}", flush=True
            )


if __name__ == "__main__":
    main()
