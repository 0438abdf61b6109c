"""Compare imported checkpoints of OpenNMT-py 1 and 2 with OpenNMT-py itself, as `opennmt_peer`.

    python -m tests.campaigns.formats.opennmt_old_peer [--sentences 5000] [--inputs 200] [--only …]

Needs OpenNMT-py 1.2 or 2.3 and torchtext 0.6 in the Python path; the suite does not run it. Results
stand in `results.md`.
"""

from __future__ import annotations

import copy
import tempfile
from argparse import Namespace
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onmt
import onmt.opts
import torch
from onmt.inputters.inputter import _build_fields_vocab, get_fields
from onmt.model_builder import build_base_model
from onmt.models.model_saver import ModelSaver
from onmt.utils.parse import ArgumentParser

from tests.campaigns.formats.peers import (
    compare,
    compare_ids,
    randomize,
    run,
    text_of,
    train_codes,
    train_sentencepiece,
)

SECOND = onmt.__version__.startswith("2")
SIZES = {"rnn_size": 16, "src_word_vec_size": 10, "tgt_word_vec_size": 12, "layers": 1}
T: dict[str, Any] = {
    "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
    "rnn_size": 32, "word_vec_size": 32, "transformer_ff": 48, "heads": 4, "enc_layers": 2,
    "dec_layers": 3,
}  # fmt: skip
R: dict[str, Any] = {"encoder_type": "brnn", "decoder_type": "rnn", **SIZES}
SHARED = {"share_vocab": True, "share_embeddings": True}
TIED = {"share_decoder_embeddings": True}
CASES: dict[str, dict[str, Any]] = {
    "transformer": T,
    "transformer, one vocabulary": {**T, "share_vocab": True},
    "transformer, tied generator": {**T, **TIED},
    "transformer, all shared": {**T, **SHARED, **TIED},
    "transformer, padded vocabularies": {**T, "multiple": 8},
    "rnn, both directions": R,
    "rnn, two layers": {**R, "encoder_type": "rnn", "layers": 2},
    "rnn, gru, mlp": {**R, "rnn_type": "GRU", "global_attention": "mlp", "layers": 3},
    "rnn, dot, no feeding": {**R, "global_attention": "dot", "input_feed": 0, "layers": 2},
    "rnn, bridge": {**R, "bridge": True},
    "rnn, all shared": {**R, **SHARED, **TIED, "word_vec_size": 16},
}
if SECOND:
    CASES["transformer, gelu"] = {**T, "pos_ffn_activation_fn": "gelu"}


def options(given: dict[str, Any]) -> Namespace:
    """Return the settings of a model, with the values of a case."""
    parser = ArgumentParser()
    onmt.opts.model_opts(parser)
    made = parser.parse_known_args([])[0]
    vars(made).update(
        {"dropout": [0.1], "attention_dropout": [0.1], "data": {}, "transforms": []}
        | {"optim": "adam", "param_init": 0.0, "param_init_glorot": False, "update_vocab": False}
        | {"pre_word_vecs_enc": None, "pre_word_vecs_dec": None, "freeze_encoder": False}
        | {"freeze_decoder": False, "share_vocab": False, "freeze_word_vecs_enc": False}
        | {"freeze_word_vecs_dec": False, "gpu_ranks": [], "fix_word_vecs_enc": False}
        | {"fix_word_vecs_dec": False}
    )
    vars(made).update(given)
    ArgumentParser.update_model_opts(made)
    ArgumentParser.validate_model_opts(made)
    return made


def vocabularies(words: dict[str, Counter[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with their vocabularies."""
    features: tuple[Any, Any] = ({}, {}) if SECOND else (0, 0)
    fields = get_fields("text", *features)
    sizes = given.get("multiple", 1), 50_000, 0, 50_000, 0
    shared = given.get("share_vocab", False)
    _build_fields_vocab(fields, defaultdict(Counter, words), "text", shared, *sizes)
    return dict(fields)


def save(folder: Path, model: Any, opt: Namespace, fields: dict[str, Any]) -> None:
    """Save as in training; the optimizer has no state yet."""
    optimizer = SimpleNamespace(state_dict=lambda: {"training_step": 1})
    saver = ModelSaver(str(folder / "model"), model, opt, fields, optimizer, -1)
    saver.save(10)


def network(name: str, seed: int, inputs: int) -> None:
    given = CASES[name]
    opt = options(given)
    words = {
        side: Counter({f"{letter}{i}": 100 - i for i in range(size)})
        for side, letter, size in (("src", "a", 33), ("tgt", "b", 27))
    }
    fields = vocabularies(words, given)
    sizes = [len(fields[side].base_field.vocab) for side in ("src", "tgt")]
    lacks = 2 * (not given.get("share_vocab"))  # such a source has neither begin nor end
    sizes[0] += lacks
    model = build_base_model(opt, fields, False).eval()
    randomize(model, seed)

    def logits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Sources are sorted by their length, which does not count the end token."""
        lengths = (x != 1).sum(1) - 1
        x = x.clone()
        x[torch.arange(len(x)), lengths] = 1
        x = torch.where(x > 3, x - lacks, x)
        order = lengths.argsort(descending=True)
        source = x[order, : int(lengths.max())].t()[..., None]
        target = torch.cat([y, y[:, :1]], 1)[order].t()[..., None]  # the last is not read
        out, _ = model(source, target, lengths[order])
        return model.generator[0](out).transpose(0, 1)[order.argsort()]

    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), copy.deepcopy(model), opt, fields)
        specials = (1, 2, 3, 0)
        compare(f"opennmt {onmt.__version__} {name}", Path(folder), model, logits, sizes, specials,
                2, inputs)  # fmt: skip


def texts(sentences: int) -> None:
    """Compare the ids of text: of words and, in version 2, by its transforms."""
    lines = [line for line in text_of(sentences) if line.strip()]
    for kind in ("words", "bpe", "sentencepiece")[: 3 if SECOND else 1]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train_sentencepiece(lines, folder, "spm")
            train_codes(lines, folder / "codes.bpe", old=False)
            file = folder / ("codes.bpe" if kind == "bpe" else "spm.model")
            given: dict[str, Any] = {**R, "word_vec_size": 2, "rnn_size": 4, "share_vocab": True,
                                     "transforms": [] if kind == "words" else [kind],
                                     "src_subword_model": str(file)}  # fmt: skip
            opt = options(given)
            split = splitter(opt, kind)
            counts: Counter[str] = Counter()
            for line in lines[: len(lines) * 2 // 3]:
                counts.update(split(line))
            most = Counter(dict(counts.most_common(3000)))
            fields = vocabularies({"src": most, "tgt": Counter(most)}, given)
            save(folder, build_base_model(opt, fields, False).eval(), opt, fields)
            field = fields["src"].base_field

            def ids(line: str, split: Any = split, field: Any = field) -> list[int]:
                return [
                    field.vocab.stoi[token] for token in field.preprocess(" ".join(split(line)))
                ]

            compare_ids(f"opennmt {onmt.__version__} {kind}", folder, lines, ids, (1, 2, 3, 0))


def splitter(opt: Namespace, kind: str) -> Any:
    """Return the function that splits a line as OpenNMT-py does before its translation."""
    if kind == "words":
        return lambda line: line.strip("\n").split()
    from onmt.transforms import AVAILABLE_TRANSFORMS

    values = {f"{side}_subword_{key}": value for side in ("src", "tgt") for key, value in
              (("nbest", 1), ("alpha", 0), ("vocab", ""))}  # fmt: skip
    vars(opt).update(values | {"tgt_subword_model": None, "src_vocab_threshold": 0,
                               "tgt_vocab_threshold": 0, "seed": 1})  # fmt: skip
    transform = AVAILABLE_TRANSFORMS[kind](opt)
    transform.warm_up(None)

    def split(line: str) -> list[str]:
        example = {"src": line.strip("\n").split(), "tgt": None}
        return list(transform._tokenize(example["src"], "src"))

    return split


if __name__ == "__main__":
    run(CASES, network, texts)
