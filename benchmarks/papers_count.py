"""BLEU on Multi30k's Test 2016 as papers count it: on text without case, cut as Moses cuts it.

    python benchmarks/papers_count.py transformer-tiny.multi30k-en-de

Translations are lowercased, normalised and tokenised for German by
sacremoses (with escaping, as the Moses script does), and scored against the test set that was
prepared in that way, by sacreBLEU with no tokeniser of its own. Prints a record that
`zoo card CHECKPOINT --write --scores -` takes in. ZOO_DATA names the folder of the corpora.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import peers
import sacrebleu

import zoo
from zoo.registry.builtin import corpora

DATA, TARGET = "multi30k-en-de", "de"

PREPARE = """
import sys
from sacremoses import MosesPunctNormalizer, MosesTokenizer
normalise = MosesPunctNormalizer(lang=sys.argv[1]).normalize
cut = MosesTokenizer(lang=sys.argv[1]).tokenize
for line in sys.stdin:
    print(cut(normalise(line.strip().lower()), escape=True, return_str=True))
"""


def prepared(lines: list[str]) -> list[str]:
    """Return lines as the Moses scripts write them: lowercased, normalised, tokenised."""
    command = [peers.environment("sacremoses"), "-X", "utf8", "-c", PREPARE, TARGET]
    text = "".join(f"{' '.join(line.split())}\n" for line in lines)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--length-penalty", type=float, default=1.5)
    given = parser.parse_args()
    folder = corpora() / "multi30k"
    sources = (folder / "test_2016_flickr.en").read_text(encoding="utf-8").splitlines()
    name = f"test_2016_flickr.lc.norm.tok.{TARGET}"
    references = (folder / name).read_text(encoding="utf-8").splitlines()
    search = {"beam": given.beam, "length_penalty": given.length_penalty}
    texts = zoo.load(given.checkpoint).translate(sources, **search)
    bleu = sacrebleu.BLEU(tokenize="none", force=True)
    score = bleu.corpus_score(prepared(texts), [references])
    here = Path(__file__).resolve().relative_to(Path(__file__).resolve().parents[1])
    record = {
        "data": DATA,
        "split": "test",
        "sentences": len(texts),
        "bleu_as_papers_count": score.score,
        "bleu_as_papers_count_signature": str(bleu.get_signature()),
        **search,
        "command": f"python {here} {given.checkpoint} --beam {given.beam} "
        f"--length-penalty {given.length_penalty}",
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
