"""Compare imported JoeyNMT checkpoints with JoeyNMT itself: logits, greedy outputs, ids of text.

    python -m tests.campaigns.formats.joeynmt_peer [--sentences 5000] [--inputs 200] [--only NAME]

Needs JoeyNMT in the Python path, and for SentencePiece its library up to 0.2.0, which could
restrict a vocabulary; the suite does not run it. Results stand in `results.md`.
"""

from __future__ import annotations

import copy
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from joeynmt.model import build_model
from joeynmt.tokenizers import build_tokenizer
from joeynmt.vocabulary import Vocabulary

from tests.campaigns.formats.peers import (
    compare,
    compare_ids,
    randomize,
    run,
    text_of,
    train_codes,
    train_sentencepiece,
)

SPECIALS = (1, 2, 3, 0)
"""JoeyNMT's ids of padding, begin, end and unknown."""

SYMBOLS = SimpleNamespace(
    unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
    unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
)  # fmt: skip

EMBEDDING = {"embedding_dim": 32, "scale": True}
T = {"type": "transformer", "hidden_size": 32, "ff_size": 48, "num_heads": 4, "num_layers": 2,
     "dropout": 0.1, "layer_norm": "pre", "embeddings": EMBEDDING}  # fmt: skip
E = {"type": "recurrent", "rnn_type": "gru", "hidden_size": 10, "num_layers": 1,
     "embeddings": {"embedding_dim": 12, "scale": False}}  # fmt: skip
D = {**E, "hidden_size": 16, "attention": "bahdanau", "init_hidden": "bridge"}


KINDS = ("word", "char", "subword-nmt", "sentencepiece", "sentencepiece, normalized")


def both(**values: Any) -> dict[str, Any]:
    return {"encoder": {**T, **values}, "decoder": {**T, "num_layers": 3, **values}}


def rnn(encoder: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    return {"encoder": {**E, **(encoder or {})}, "decoder": {**D, **values}}


LSTM = {"rnn_type": "lstm"}
CASES: dict[str, dict[str, Any]] = {
    "transformer, pre-norm": both(),
    "transformer, post-norm": both(layer_norm="post"),
    "transformer, gelu": both(activation="gelu"),
    "transformer, swish": both(activation="swish"),
    "transformer, alpha": both(layer_norm="post", alpha=1.4),
    "transformer, no scale": both(embeddings={"embedding_dim": 32, "scale": False}),
    "transformer, one scale": {"encoder": T, "decoder": {**T, "embeddings": {
        "embedding_dim": 32, "scale": False}}},
    "transformer, tied softmax": {**both(), "tied_softmax": True},
    "transformer, tied embeddings": {**both(), "tied_embeddings": True},
    "transformer, all tied": {**both(), "tied_embeddings": True, "tied_softmax": True},
    "rnn, bahdanau": rnn(),
    "rnn, luong": rnn(attention="luong"),
    "rnn, lstm": rnn(LSTM, rnn_type="lstm"),
    "rnn, lstm, luong": rnn({**LSTM, "num_layers": 2}, rnn_type="lstm", attention="luong",
                            num_layers=3),
    "rnn, no feeding": rnn(input_feeding=False),
    "rnn, last": rnn({"hidden_size": 16}, init_hidden="last"),
    "rnn, last of equal width": rnn({"hidden_size": 8}, init_hidden="last", num_layers=2),
    "rnn, zero, lstm": rnn(LSTM, init_hidden="zero", rnn_type="lstm"),
    "rnn, tied embeddings": {**rnn(), "tied_embeddings": True},
    "rnn, tied softmax": {**rnn(embeddings={"embedding_dim": 16}), "tied_softmax": True},
    "rnn, scaled": rnn({"embeddings": {"embedding_dim": 9, "scale": True}},
                       embeddings={"embedding_dim": 16, "scale": True}),
    "rnn, scaled, tied": {**rnn({"embeddings": {"embedding_dim": 16, "scale": True}}),
                          "tied_softmax": True, "tied_embeddings": True},
}  # fmt: skip


def save(folder: Path, model: Any, config: dict[str, Any], vocabularies: list[Vocabulary]) -> None:
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    state = {"model_state": model.state_dict(), "optimizer_state": {}, "stats_state": {"steps": 1}}
    torch.save(state, folder / "best.ckpt")
    for side, each in zip(("src", "trg"), vocabularies, strict=True):
        each.to_file(folder / f"{side}_vocab.txt")


def network(name: str, seed: int, inputs: int) -> None:
    given = copy.deepcopy(CASES[name])
    source = Vocabulary([f"a{i}" for i in range(33)], SYMBOLS)
    target = source if given.get("tied_embeddings") else Vocabulary(
        [f"b{i}" for i in range(27)], SYMBOLS)  # fmt: skip
    model = build_model(copy.deepcopy(given), source, target)
    randomize(model, seed)
    model.eval()

    def logits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        lengths = (x != 1).sum(1)
        order = lengths.argsort(descending=True)
        out = model._encode_decode(
            src=x[order], trg_input=y[order], src_mask=(x[order] != 1)[:, None],
            src_length=lengths[order], trg_mask=torch.ones_like(y, dtype=torch.bool)[:, None],
        )[0]  # fmt: skip
        return out[order.argsort()]

    with tempfile.TemporaryDirectory() as folder:
        side = {"level": "word", "lowercase": False}
        config = {
            "model": given,
            "data": {"src": {"lang": "a", **side}, "trg": {"lang": "b", **side}},
        }
        save(Path(folder), model, config, [source, target])
        sizes = [len(source), len(target)]
        compare(f"joeynmt {name}", Path(folder), model, logits, sizes, SPECIALS, 2, inputs)


def texts(sentences: int) -> None:
    """Compare the ids of text by every kind of tokenizer."""
    lines = [line for line in text_of(sentences) if line.strip()]  # JoeyNMT refuses empty text
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            cfg: dict[str, Any] = {"lang": "a", "level": kind, "lowercase": kind == "char",
                                   "normalize": kind not in ("sentencepiece",)}  # fmt: skip
            if kind not in ("word", "char"):
                cfg |= {"level": "bpe", "tokenizer_type": kind.partition(",")[0]}
                train_sentencepiece(lines, folder, "spm")
                train_codes(lines, folder / "codes.bpe", old=False)
                cfg["tokenizer_cfg"] = {"model_file": str(folder / "spm.model"),
                                        "codes": str(folder / "codes.bpe")}  # fmt: skip
            theirs = build_tokenizer({"src": dict(cfg), "trg": {**cfg, "lang": "b"}})["a"]
            counts: Counter[str] = Counter()
            for line in lines[: len(lines) * 2 // 3]:
                counts.update(theirs(theirs.pre_process(line)))
            frequent = [word for word, _ in counts.most_common(3000)]
            fine = [w for w in frequent if w.strip() and len(w.splitlines()) == 1]
            words = Vocabulary(fine, SYMBOLS)
            theirs.set_vocab(words)
            given = rnn({"embeddings": {"embedding_dim": 2}}, embeddings={"embedding_dim": 2})
            model = build_model(copy.deepcopy(given), words, words)
            config = {"model": given, "data": {"src": cfg, "trg": {**cfg, "lang": "b"}}}
            save(folder, model, config, [words, words])

            def ids(line: str, theirs: Any = theirs, words: Vocabulary = words) -> list[int]:
                return [words.lookup(word) for word in theirs(theirs.pre_process(line, True))]

            compare_ids(f"joeynmt {kind}", folder, lines, ids, SPECIALS)


if __name__ == "__main__":
    run(CASES, network, texts)
