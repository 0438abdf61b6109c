"""Compare imported OpenNMT-py checkpoints with OpenNMT-py: logits, greedy outputs, ids of text.

    python -m tests.campaigns.formats.opennmt_peer [--sentences 5000] [--inputs 200] [--only NAME]

Needs OpenNMT-py 3 in the Python path, and its requirements; an empty module `spacy` will do. The
suite does not run it. Results stand in `results.md`.
"""

from __future__ import annotations

import copy
import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onmt.opts
import pyonmttok
import torch
from onmt.inputters.text_corpus import ParallelCorpusIterator
from onmt.inputters.text_utils import numericalize
from onmt.model_builder import build_base_model
from onmt.models.model_saver import ModelSaver
from onmt.transforms import AVAILABLE_TRANSFORMS, TransformPipe
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

TRANSFORMER: dict[str, Any] = {
    "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
    "hidden_size": 32, "word_vec_size": 32, "transformer_ff": 48, "heads": 4, "enc_layers": 2,
    "dec_layers": 3, "add_qkvbias": True, "add_ffnbias": True,
}  # fmt: skip
RNN: dict[str, Any] = {
    "encoder_type": "brnn", "decoder_type": "rnn", "hidden_size": 16, "src_word_vec_size": 10,
    "tgt_word_vec_size": 12, "layers": 2,
}  # fmt: skip


def transformer(**values: Any) -> dict[str, Any]:
    return {**TRANSFORMER, **values}


def rnn(**values: Any) -> dict[str, Any]:
    return {**RNN, **values}


SHARED = {"share_vocab": True, "share_embeddings": True}
TIED = {"share_decoder_embeddings": True}
CASES: dict[str, dict[str, Any]] = {
    "transformer": transformer(),
    "transformer, wide, one layer": transformer(hidden_size=128, word_vec_size=128, layers=1),
    "transformer, gelu": transformer(pos_ffn_activation_fn="gelu"),
    "transformer, no biases": transformer(add_qkvbias=False, add_ffnbias=False),
    "transformer, as by default": transformer(add_qkvbias=False),
    "transformer, norm_eps": transformer(norm_eps=1e-3),
    "transformer, concatenated sinusoids": transformer(position_encoding_type="SinusoidalConcat"),
    "transformer, no positions": transformer(position_encoding=False),
    "transformer, multiquery": transformer(multiquery=True),
    "transformer, two heads of keys": transformer(num_kv=2, add_qkvbias=False),
    "transformer, tied generator": transformer(**TIED),
    "transformer, shared embeddings": transformer(**SHARED),
    "transformer, all shared": transformer(**SHARED, **TIED),
    "transformer, starts with </s>": transformer(decoder_start_token="</s>", **TIED),
    "transformer, other ids": transformer(specials=("</s>", "<blank>", "<unk>", "<s>")),
    "transformer, padded vocabularies": transformer(multiple=8),
    "transformer, in float16": transformer(half=True),
    "transformer, safetensors": transformer(save_format="safetensors"),
    "rnn": rnn(encoder_type="rnn"),
    "rnn, both directions": rnn(),
    "rnn, gru": rnn(rnn_type="GRU"),
    "rnn, dot": rnn(global_attention="dot"),
    "rnn, mlp": rnn(global_attention="mlp"),
    "rnn, mlp, gru, no feeding": rnn(global_attention="mlp", rnn_type="GRU", input_feed=0),
    "rnn, no feeding": rnn(input_feed=0, layers=3),
    "rnn, bridge": rnn(encoder_type="rnn", bridge=True),
    "rnn, both directions, bridge": rnn(bridge=True, layers=3),
    "rnn, both directions, bridge, gru": rnn(bridge=True, rnn_type="GRU"),
    "rnn, tied generator": rnn(tgt_word_vec_size=16, **TIED),
    "rnn, shared embeddings": rnn(word_vec_size=12, **SHARED),
    "rnn, all shared": rnn(word_vec_size=16, **SHARED, **TIED),
    "rnn, safetensors": rnn(save_format="safetensors"),
}  # fmt: skip

KINDS = ("words", "bpe", "sentencepiece", "onmt_tokenize, mode none")


def options(given: dict[str, Any]) -> Namespace:
    """Return the settings of training, with the values of a case."""
    parser = ArgumentParser()
    onmt.opts.train_opts(parser)
    made = parser.parse_known_args(["-data", "{}", "-src_vocab", "vocab.txt"])[0]
    vars(made).update({"data": {}, "transforms": []})
    vars(made).update(given)
    ArgumentParser.update_model_opts(made)
    ArgumentParser.validate_model_opts(made)
    return made


def vocabulary(letter: str, size: int, given: dict[str, Any]) -> pyonmttok.Vocab:
    tokens = [*given.get("specials", ("<unk>", "<blank>", "<s>", "</s>"))]
    tokens += [f"{letter}{i}" for i in range(size)]
    multiple = given.get("multiple", 1)
    tokens += [f"averyunlikelytoken{i}" for i in range(-len(tokens) % multiple)]
    return pyonmttok.build_vocab_from_tokens(tokens)


def save(folder: Path, model: Any, opt: Namespace, vocabs: dict[str, Any]) -> None:
    """Save as in training; the optimizer has no state yet."""
    optimizer = SimpleNamespace(state_dict=lambda: {"training_step": 1})
    kind = opt.save_format if hasattr(opt, "save_format") else "pytorch"
    saver = ModelSaver(str(folder / "model"), model, opt, vocabs, optimizer, -1, kind, 0)
    saver.save(10)


def network(name: str, seed: int, inputs: int) -> None:
    given = dict(CASES[name])
    opt = options(given)
    source = vocabulary("a", 33, given)
    target = source if given.get("share_vocab") else vocabulary("b", 27, given)
    vocabs = {"src": source, "tgt": target, "data_task": "seq2seq",
              "decoder_start_token": given.get("decoder_start_token", "<s>")}  # fmt: skip
    model = build_base_model(opt, vocabs).eval()
    randomize(model, seed)
    if given.get("half"):  # all but the sinusoids, which are no weights
        for weight in model.parameters():
            weight.data = weight.data.half().float()

    def logits(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Sources here have no end token: it is removed."""
        lengths = (x != source["<blank>"]).sum(1) - 1
        x = x.clone()
        x[torch.arange(len(x)), lengths] = source["<blank>"]
        x = x[:, : int(lengths.max())]
        y = torch.cat([y, y[:, :1]], 1)[..., None]  # the last token is not read
        out, _ = model(x[..., None], y, lengths)
        return model.generator(out)

    with tempfile.TemporaryDirectory() as folder:
        if given.get("half"):
            save(Path(folder), copy.deepcopy(model).half(), opt, vocabs)
        else:
            save(Path(folder), model, opt, vocabs)
        sizes = [len(source), len(target)]
        specials = [source[token] for token in ("<blank>", "<s>", "</s>", "<unk>")]
        start = target[vocabs["decoder_start_token"]]
        compare(f"opennmt {name}", Path(folder), model, logits, sizes, specials, start, inputs)


def texts(sentences: int) -> None:
    """Compare the ids of text by each transform."""
    lines = [line for line in text_of(sentences) if line.strip()]  # an empty line is skipped
    lines = [line for line in lines if "￨" not in line]
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train_sentencepiece(lines, folder, "spm")
            train_codes(lines, folder / "codes.bpe", old=False)
            given: dict[str, Any] = rnn(src_word_vec_size=2, tgt_word_vec_size=2, hidden_size=4)
            transforms = [] if kind == "words" else [kind.partition(",")[0]]
            given |= {"transforms": transforms, "share_vocab": True}
            given["src_subword_model"] = str(
                folder / ("codes.bpe" if kind == "bpe" else "spm.model")
            )
            if kind.startswith("onmt_tokenize"):
                given["src_subword_type"] = "sentencepiece"
            opt = options(given)
            for each in transforms:
                AVAILABLE_TRANSFORMS[each]._validate_options(opt)
            made = {each: AVAILABLE_TRANSFORMS[each](opt) for each in transforms}
            for each in made.values():
                each.warm_up(None)
            pipe = TransformPipe.build_from(list(made.values()))

            def split(line: str, pipe: Any = pipe) -> str:
                example = {"src": line, "tgt": None, "src_original": line, "tgt_original": None}
                corpus = SimpleNamespace(id="infer")
                (item,) = ParallelCorpusIterator(corpus, pipe)._process(iter([example]))
                done = pipe.apply(item[0], is_train=False, corpus_name="infer")
                return " ".join(done["src"])

            counts: Counter[str] = Counter()
            for line in lines[: len(lines) * 2 // 3]:
                counts.update(split(line).split(" "))
            frequent = [word for word, _ in counts.most_common(3000)]
            words = pyonmttok.build_vocab_from_tokens(
                [
                    "<unk>",
                    "<blank>",
                    "<s>",
                    "</s>",
                    *(
                        word
                        for word in frequent
                        if word not in ("<unk>", "<blank>", "<s>", "</s>", "")
                    ),
                ]
            )
            vocabs = {"src": words, "tgt": words, "data_task": "seq2seq",
                      "decoder_start_token": "<s>"}  # fmt: skip
            model = build_base_model(opt, vocabs).eval()
            randomize(model, 1)
            save(folder, model, opt, vocabs)

            def ids(line: str, split: Any = split, vocabs: Any = vocabs) -> list[int]:
                example = {"src": {"src": split(line)}, "tgt": None}
                return numericalize(vocabs, example)["src"]["src_ids"]

            compare_ids(f"opennmt {kind}", folder, lines, ids, (1, 2, 3, 0))


if __name__ == "__main__":
    run(CASES, network, texts)
