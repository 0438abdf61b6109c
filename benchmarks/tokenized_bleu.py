"""BLEU on Multi30k's Test 2016, lowercased and tokenized as in the papers.

    python benchmarks/tokenized_bleu.py transformer-tiny.multi30k-en-de --data multi30k-en-de

Translations are lowercased, then normalized and tokenized for their language by sacremoses, with
escaping as in the Moses scripts. sacreBLEU scores them without a tokenizer, against the references
that the corpus ships in the same form. The command prints a record that
`zoo card CHECKPOINT --write --scores -` reads. `ZOO_DATA` names the folder of the corpora.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import peers
import sacrebleu

import zoo

MOSES = """
import sys
from sacremoses import MosesPunctNormalizer, MosesTokenizer
normalize = MosesPunctNormalizer(lang=sys.argv[1]).normalize
tokenize = MosesTokenizer(lang=sys.argv[1]).tokenize
for line in sys.stdin:
    print(tokenize(normalize(line.strip().lower()), escape=True, return_str=True))
"""


def moses_tokenized(lines: list[str], language: str) -> list[str]:
    """Return lines lowercased, normalized and tokenized by the Moses scripts."""
    command = [peers.environment("sacremoses"), "-X", "utf8", "-c", MOSES, language]
    text = "".join(f"{' '.join(line.split())}\n" for line in lines)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--data", default="multi30k-en-de", help="multi30k-SOURCE-TARGET")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--length-penalty", type=float, default=1.5)
    options = parser.parse_args()
    if "ZOO_DATA" not in os.environ:
        raise SystemExit("ZOO_DATA is not set: name the folder that contains multi30k/")
    _, source, target = options.data.split("-")
    folder = Path(os.environ["ZOO_DATA"], "multi30k")
    sources = (folder / f"test_2016_flickr.{source}").read_text(encoding="utf-8").splitlines()
    name = f"test_2016_flickr.lc.norm.tok.{target}"
    references = (folder / name).read_text(encoding="utf-8").splitlines()
    search = {"beam": options.beam, "length_penalty": options.length_penalty}
    # Read whole and as they are, like every other score of a card.
    translations = zoo.load(options.checkpoint).translate(sources, split=False, **search)
    bleu = sacrebleu.BLEU(tokenize="none", force=True)
    score = bleu.corpus_score(moses_tokenized(translations, target), [references])
    program = Path(__file__).resolve().relative_to(Path(__file__).resolve().parents[1])
    record = {
        "data": options.data,
        "split": "test",
        "sentences": len(translations),
        "tokenized_bleu": score.score,
        "tokenized_bleu_signature": str(bleu.get_signature()),
        **search,
        "command": f"python {program} {options.checkpoint} --data {options.data} "
        f"--beam {options.beam} --length-penalty {options.length_penalty}",
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
