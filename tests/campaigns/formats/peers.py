"""What the comparisons with other projects share: random batches, greedy search, text."""

from __future__ import annotations

import argparse
import gettext
import io
import os
import random
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.interop.layouts import our_ids
from zoo.checkpoint import checkpoint as folder_format
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

Logits = Callable[[Tensor, Tensor], Tensor]
"""Their logits (sentences, n, V) for their ids: padded sources with the end token, and targets."""

ODD = ["  two  spaces ", "tab\tand\u00a0no-break\u3000wide", "", "é è ñ", "cafe\u0301 nai\u0308ve",
       "🙂👩‍👩‍👧 ok", "ሰላም ᠮᠣᠩᠭᠣᠯ ꦗꦮ", "a\u200bb\u2028c", "@@ x@@ ▁y", "«Bonjour !»", "...", "’“”",
       "Straße İstanbul ǅ", "日本語のテキスト", "עברית العربية", "x" * 300]  # fmt: skip


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Draw all weights of a network of JoeyNMT or OpenNMT-py; those of norms are near 1."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            norm = "layer_norm" in key and key.endswith("weight")
            weight.copy_(norm + torch.randn_like(weight) * (1.2 / weight.shape[-1] ** 0.5))


def text_of(count: int) -> list[str]:
    """Return natural sentences of four languages, in equal shares, and odd ones."""
    data = Path(os.environ["ZOO_DATA"]) / "multi30k"
    groups = [
        (data / f"train.{x}").read_text(encoding="utf-8").split("\n") for x in ("en", "de", "fr")
    ]
    groups.append(_russian())
    natural = []
    for lines in groups:
        random.Random(1).shuffle(lines)
        natural += [line for line in lines if line][: -(-count // len(groups))]
    decomposed = [unicodedata.normalize("NFD", line) for line in natural[::50]]
    return natural + decomposed + ODD


def _russian() -> list[str]:
    """Return the Russian messages of the programs on this machine."""
    lines = set()
    for path in sorted(Path("/usr/share/locale/ru/LC_MESSAGES").glob("*.mo")):
        with path.open("rb") as file:
            catalog: dict[Any, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        lines |= {line.strip() for text in catalog.values() for line in text.split("\n")}
    return sorted(line for line in lines if len(line.split()) > 3)


def train_codes(lines: Sequence[str], path: Path, old: bool) -> None:
    """Write byte-pair codes of `subword-nmt`."""
    from subword_nmt.learn_bpe import learn_bpe

    with path.open("w", encoding="utf-8") as file:
        learn_bpe(io.StringIO("\n".join(lines[:2000])), file, 1500)
    if old:
        text = path.read_text(encoding="utf-8").partition("\n")[2]
        path.write_text(text, encoding="utf-8")


def train_sentencepiece(lines: Sequence[str], folder: Path, name: str = "spm") -> None:
    """Write a SentencePiece model."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[:2000]), model_prefix=str(folder / name), vocab_size=1200,
        character_coverage=0.999, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip


def imported(folder: Path) -> folder_format.Checkpoint:
    """Import a folder, and load the result."""
    registry = default_registry()
    with tempfile.TemporaryDirectory() as out:
        import_checkpoint(folder, Path(out) / "checkpoint", registry)
        return folder_format.read(Path(out) / "checkpoint", registry)


def compare(
    name: str, folder: Path, theirs: torch.nn.Module, logits: Logits, sizes: Sequence[int],
    specials: Sequence[int], start: int, inputs: int, source_end: bool = True,
) -> None:  # fmt: skip
    """Compare logits of padded batches in both precisions, and greedy outputs."""
    checkpoint = imported(folder)
    model = checkpoint.model.eval()
    tables = [our_ids(specials, size) for size in sizes]
    pad, _, end, _ = specials
    random.seed(3)
    torch.manual_seed(3)
    normal = [[i for i in range(size) if i not in specials] for size in sizes]
    worst = {}
    for dtype in (torch.float32, torch.float64):
        theirs.to(dtype)
        model.to(dtype)
        worst[dtype] = 0.0
        for _ in range(5):
            lengths = [random.randint(1, 12) for _ in range(7)]
            rows = [[*random.choices(normal[0], k=n), end] for n in lengths]
            source = torch.full((7, max(lengths) + 1), pad)
            for row, tokens in enumerate(rows):
                source[row, : len(tokens)] = torch.tensor(tokens)
            target = torch.tensor([[start, *random.choices(normal[1], k=9)] for _ in range(7)])
            with torch.no_grad():
                expected = logits(source, target)
                mine = tables[0][source]
                given = tables[1][target]
                given[:, 0] = 1
                actual = model(mine, mine != 0, given).logits[..., tables[1]]
            worst[dtype] = max(worst[dtype], float((actual - expected).abs().max()))
    theirs.float()
    model.float()
    equal = greedy(logits, model, tables, normal[0], specials, start, inputs)
    print(f"{name}: float32 {worst[torch.float32]:.1e}, float64 {worst[torch.float64]:.1e}, "
          f"greedy {equal} of {inputs}", flush=True)  # fmt: skip


@torch.no_grad()
def greedy(
    logits: Logits, model: Any, tables: Sequence[Tensor], tokens: Sequence[int],
    specials: Sequence[int], start: int, inputs: int, most: int = 15,
) -> int:  # fmt: skip
    """Return how many outputs are equal; theirs reads all that is written again at each step."""
    pad, begin, end, _ = specials
    lengths = [random.randint(1, 15) for _ in range(inputs)]
    source = torch.full((inputs, max(lengths) + 1), pad)
    for row, length in enumerate(lengths):
        source[row, : length + 1] = torch.tensor([*random.choices(tokens, k=length), end])
    written = torch.full((inputs, 1), start)
    mine = tables[0][source]
    memory = model.encode(mine, mine != 0).memory
    state, token = model.init_state(memory), torch.ones(inputs, dtype=torch.long)
    outputs = []
    for _ in range(most):
        scores = logits(source, written)[:, -1].clone()
        scores[:, [pad, begin]] = -torch.inf
        written = torch.cat([written, scores.argmax(-1)[:, None]], 1)
        step = model.step(token, state, memory)
        scores = step.logits.clone()
        scores[:, :2] = -torch.inf
        state, token = step.state, scores.argmax(-1)
        outputs.append(token)
    own, theirs = torch.stack(outputs, 1).tolist(), tables[1][written[:, 1:]].tolist()
    ended = [[row[: row.index(2)] if 2 in row else row for row in rows] for rows in (own, theirs)]
    return sum(one == two for one, two in zip(*ended, strict=True))


def compare_ids(
    name: str, folder: Path, lines: Sequence[str], ids: Callable[[str], list[int]],
    specials: Sequence[int],
) -> None:  # fmt: skip
    """Compare the ids of text."""
    tokenizer = imported(folder).source_tokenizer
    table = our_ids(specials, tokenizer.size)
    different = []
    for line in lines:
        expected = table[torch.tensor(ids(line), dtype=torch.long)].tolist()
        if tokenizer.encode([line])[0] != expected:
            different.append(line)
    print(f"{name}: ids of {len(lines) - len(different)} of {len(lines)} texts equal", flush=True)
    for line in different[:5]:
        print("   ", repr(line[:100]))


def run(
    cases: Iterable[str], network: Callable[[str, int, int], None], texts: Callable[[int], None]
) -> None:
    """Compare the networks of all cases and the ids of text, or what `--only` names.

    Args:
        cases: the names of the cases.
        network: compares the network of a case, of a seed, by as many inputs.
        texts: compares the ids of as many sentences.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=5000)
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--only", default="", help="a part of the names of cases, or text")
    chosen = parser.parse_args()
    for seed, case in enumerate(cases):
        if chosen.only in case:
            network(case, seed, chosen.inputs)
    if chosen.only in ("", "text"):
        texts(chosen.sentences)
