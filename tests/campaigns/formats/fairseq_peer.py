"""Compare imported fairseq checkpoints with fairseq itself: logits, greedy outputs, ids of text.

    python -m tests.campaigns.formats.fairseq_peer [--sentences 5000] [--inputs 200]

Needs fairseq in the Python path; the suite does not run it. Results stand in `results.md`.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import fairseq.utils
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from tests.campaigns.formats.peers import (
    compare,
    compare_ids,
    run,
    text_of,
    train_codes,
    train_sentencepiece,
)

SPECIALS = (1, 0, 2, 3)
"""fairseq's ids of padding, begin, end and unknown."""

TRANSFORMER = {
    "encoder_embed_dim": 32, "decoder_embed_dim": 32, "encoder_ffn_embed_dim": 48,
    "decoder_ffn_embed_dim": 48, "encoder_layers": 2, "decoder_layers": 3,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
}  # fmt: skip
LSTM = {
    "encoder_embed_dim": 12, "decoder_embed_dim": 14, "encoder_hidden_size": 10,
    "decoder_hidden_size": 18, "decoder_out_embed_dim": 18, "encoder_layers": 1,
    "decoder_layers": 1, "adaptive_softmax_cutoff": None,
}  # fmt: skip
FCONV = {"encoder_embed_dim": 16, "decoder_embed_dim": 16, "decoder_out_embed_dim": 12,
         "encoder_layers": "[(20, 3)] * 2 + [(24, 5)]",
         "decoder_layers": "[(20, 3), (20, 2)] + [(28, 4, 1)]"}  # fmt: skip

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {}),
    "wide, one layer": ("transformer", {"encoder_layers": 1, "decoder_layers": 1,
                                        "encoder_embed_dim": 128, "decoder_embed_dim": 128}),
    "pre-norm": ("transformer", {"encoder_normalize_before": True,
                                 "decoder_normalize_before": True}),
    "learned positions": ("transformer", {"encoder_learned_pos": True,
                                          "decoder_learned_pos": True,
                                          "max_source_positions": 60,
                                          "max_target_positions": 70}),
    "no positions": ("transformer", {"no_token_positional_embeddings": True}),
    "norm of embeddings": ("transformer", {"layernorm_embedding": True}),
    "no scale": ("transformer", {"no_scale_embedding": True}),
    "gelu": ("transformer", {"activation_fn": "gelu"}),
    "gelu_fast": ("transformer", {"activation_fn": "gelu_fast"}),
    "tanh": ("transformer", {"activation_fn": "tanh"}),
    "tied output": ("transformer", {"share_decoder_input_output_embed": True}),
    "all tied": ("transformer", {"share_all_embeddings": True}),
    "lstm": ("lstm", {}),
    "lstm, both directions": ("lstm", {"encoder_bidirectional": True, "encoder_layers": 2,
                                       "decoder_layers": 2}),
    "lstm, equal widths": ("lstm", {"encoder_hidden_size": 18, "encoder_layers": 3,
                                    "decoder_layers": 3}),
    "lstm, halves": ("lstm", {"encoder_hidden_size": 9, "encoder_bidirectional": True}),
    "lstm, out": ("lstm", {"decoder_out_embed_dim": 15}),
    "lstm, tied output": ("lstm", {"decoder_out_embed_dim": 14,
                                   "share_decoder_input_output_embed": True}),
    "lstm, all tied": ("lstm", {"decoder_out_embed_dim": 12, "decoder_embed_dim": 12,
                                "share_all_embeddings": True}),
    "fconv": ("fconv", {}),
    "fconv, shared": ("fconv", {"decoder_out_embed_dim": 16, "share_input_output_embed": True}),
    "fconv, wide": ("fconv", {"encoder_layers": "[(64, 3)] * 4", "decoder_layers": "[(64, 3)] * 3",
                              "max_source_positions": 99, "max_target_positions": 99}),
}  # fmt: skip


def dictionary(size: int, seed: int) -> Dictionary:
    made = Dictionary()
    for number in range(size - 4):
        made.add_symbol(f"w{seed}-{number}", n=size - number)
    return made


def build(
    kind: str, values: dict[str, Any], shared: bool
) -> tuple[Any, Namespace, list[Dictionary]]:
    source = dictionary(37, 1)
    target = source if shared else dictionary(29, 2)
    bases: dict[str, dict[str, Any]] = {"transformer": TRANSFORMER, "lstm": LSTM, "fconv": FCONV}
    base = bases[kind]
    positions = {"max_source_positions": 64, "max_target_positions": 64}
    args = Namespace(
        **{**positions, **base, **values},
        arch=kind, source_lang="de", target_lang="en", task="translation", criterion="",
    )  # fmt: skip
    ARCH_CONFIG_REGISTRY[kind](args)
    task = Namespace(source_dictionary=source, target_dictionary=target)
    model = ARCH_MODEL_REGISTRY[kind].build_model(args, task)
    return model, args, [source, target]


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Draw all weights from a normal distribution: initial values hide wrong scales and biases."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1 and "norm" in name and name.endswith("weight"):
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            elif name.endswith("weight_g"):
                weight.mul_(1 + 0.2 * torch.randn_like(weight))
            else:
                weight.copy_(torch.randn_like(weight) * 1.5 / max(weight.shape[-1], 4) ** 0.5)


def save(
    folder: Path, model: Any, args: Namespace, dictionaries: list[Dictionary], new: bool
) -> None:
    state: dict[str, Any] = {"model": model.state_dict(), "extra_state": {"epoch": 1},
                             "optimizer_history": [], "last_optimizer_state": {}}  # fmt: skip
    if new:
        state["cfg"] = {"model": args, "task": {"source_lang": "de", "target_lang": "en"}}
        state["args"] = None
    else:
        state["args"] = args
    torch.save(state, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=new)
    for side, each in zip(("de", "en"), dictionaries, strict=True):
        each.save(str(folder / f"dict.{side}.txt"))


def network(name: str, seed: int, inputs: int) -> None:
    kind, values = CASES[name]
    model, args, dictionaries = build(kind, values, bool(values.get("share_all_embeddings")))
    randomize(model, seed)
    model.eval()

    def logits(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Sources end with the end token (2), padding (1) on the right; targets begin with 2."""
        lengths = (source != 1).sum(1)
        order = lengths.argsort(descending=True)
        back = order.argsort()
        if kind == "lstm":  # reads padding on the left
            width = source.shape[1]
            source = torch.stack(
                [row.roll(int(width - n)) for row, n in zip(source, lengths, strict=True)]
            )
        out = model(source[order], lengths[order], target[order])[0]
        return out[back]

    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), model, args, dictionaries, new=seed % 2 == 0)
        # Rows of own: padding, begin, end, unknown; a target begins with fairseq's end token.
        sizes = [len(each) for each in dictionaries]
        compare(f"fairseq {name}", Path(folder), model, logits, sizes, SPECIALS, 2, inputs)


def texts(sentences: int) -> None:
    """Compare the ids of text by byte-pair codes, by SentencePiece and by words."""
    lines = text_of(sentences)
    for kind in ("words", "codes", "old codes", "sentencepiece"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if kind == "words":
                cut = str
            elif kind == "sentencepiece":
                train_sentencepiece(lines, folder)
                cut = SentencepieceBPE(
                    SentencepieceConfig(sentencepiece_model=str(folder / "spm.model"))
                ).encode
            else:
                train_codes(lines, folder / "bpecodes", old=kind == "old codes")
                cut = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(folder / "bpecodes"))).encode
            words = Dictionary()
            for line in lines[: len(lines) * 2 // 3]:  # so that the rest has unknown parts
                words.encode_line(cut(line), add_if_not_exist=True)
            words.finalize()
            values = {**CASES["lstm"][1], "arch": "lstm"}
            source = words
            args = Namespace(**{**LSTM, **values, "encoder_embed_dim": 2, "decoder_embed_dim": 2},
                             max_source_positions=64, max_target_positions=64, source_lang="de",
                             target_lang="en", task="translation", criterion="")  # fmt: skip
            ARCH_CONFIG_REGISTRY["lstm"](args)
            task = Namespace(source_dictionary=source, target_dictionary=source)
            model = ARCH_MODEL_REGISTRY["lstm"].build_model(args, task)
            save(folder, model, args, [source, source], new=True)

            def ids(line: str, cut: Any = cut, words: Dictionary = words) -> list[int]:
                return words.encode_line(
                    cut(line), add_if_not_exist=False, append_eos=False
                ).tolist()

            compare_ids(f"fairseq {kind}", folder, lines, ids, SPECIALS)


if __name__ == "__main__":
    # fairseq computes the softmax of attention in float32; float64 is needed to compare closely.
    fairseq.utils.softmax = lambda x, dim, onnx_trace=False: torch.softmax(x, dim)
    run(CASES, network, texts)
