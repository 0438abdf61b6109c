"""Compare an imported g2p model with the package's own code on words of the CMU dictionary.

    ZOO_DATA=FOLDER python tests/campaigns/formats/g2p.py WHEEL [--words N]

WHEEL is the wheel of espnet-g2p-en or g2p-en. Its module is run without nltk and its corpora, which
`G2p.predict`, the network, does not use.
"""

import argparse
import os
import random
import sys
import tempfile
import types
import zipfile
from pathlib import Path
from typing import Any

import zoo
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry


def packages_code(wheel: Path, folder: Path) -> Any:
    """Return the package's `G2p` with its weights; only its dictionaries are missing."""
    zipfile.ZipFile(wheel).extractall(folder)
    tokenizer = types.SimpleNamespace(tokenize=str.split)
    modules: dict[str, dict[str, Any]] = {
        "nltk": {"pos_tag": None, "data": types.SimpleNamespace(find=lambda name: name)},
        "nltk.corpus": {"cmudict": None},
        "nltk.tokenize": {"TweetTokenizer": lambda: tokenizer},
        "inflect": {"engine": lambda: None},
    }
    for name, content in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    sys.path.insert(0, str(folder))
    from g2p_en.g2p import G2p  # type: ignore[import-not-found]  # in the wheel

    class Network(G2p):  # type: ignore[misc]  # untyped
        def __init__(self) -> None:
            self.load_variables()
            for kind, index in (("graphemes", "g2idx"), ("phonemes", "p2idx")):
                entries = tables(G2p)[kind]
                setattr(self, index, {entry: i for i, entry in enumerate(entries)})
            self.idx2p = {i: entry for entry, i in self.p2idx.items()}

    return Network()


def tables(kind: Any) -> dict[str, list[str]]:
    """Return the vocabularies that the package's constructor sets before it needs a dictionary."""
    half_made = kind.__new__(kind)
    try:
        half_made.__init__()
    except AttributeError:  # `cmudict` is None
        return {"graphemes": half_made.graphemes, "phonemes": half_made.phonemes}
    raise SystemExit("the package's constructor has changed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--words", type=int, default=1000)
    chosen = parser.parse_args()
    (file,) = Path(os.environ["ZOO_DATA"], "cmudict").glob("*.dict")
    lines = file.read_text(encoding="utf-8").splitlines()
    words = sorted({word for line in lines if (word := line.split(" ")[0]).isalpha()})
    words = random.Random(1).sample(words, chosen.words)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "g2p")
        import_checkpoint(chosen.wheel, out, default_registry())
        here = zoo.load(out).translate(words)
        there = [
            " ".join(packages.predict(word))
            for packages in [packages_code(chosen.wheel, Path(folder))]
            for word in words
        ]
    different = [row for row in zip(words, here, there, strict=True) if row[1] != row[2]]
    for word, one, other in different[:20]:
        print(f"{word}: {one} here, {other} in the package")
    print(f"{len(words) - len(different):,} of {len(words):,} words are pronounced the same")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
