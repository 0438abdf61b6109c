"""Checkpoints in the layout of OpenNMT-py, and the networks that they hold, of torch's layers."""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from tests.interop.layouts import State, words
from tests.interop.test_fairseq import HEADS, INNER, SIZES, D, TorchTransformer

SPECIALS = (1, 2, 3, 0)
"""OpenNMT-py's ids of padding, begin, end and unknown."""

TOKENS = ["<unk>", "<blank>", "<s>", "</s>"]
STACKS = {"encoder": "transformer", "decoder": "transformer_layers"}


def tokens_of(size: int, side: str) -> list[str]:
    return [*TOKENS, *words(size - 4, side)]


def write(
    folder: Path, state: State, opt: dict[str, Any], version: int = 3, apart: bool = False,
    **vocab: Any,
) -> None:  # fmt: skip
    """Write a checkpoint of version 2 or 3; `apart` puts its tensors into a safetensors file."""
    shared = opt.get("share_vocab", False)
    lists = {"src": tokens_of(SIZES[shared], "b" if shared else "a"),
             "tgt": tokens_of(SIZES[1], "b"), **vocab}  # fmt: skip
    generator = {k.removeprefix("generator."): v for k, v in state.items() if "generator." in k}
    model = {key: value for key, value in state.items() if "generator." not in key}
    content: dict[str, Any] = {"opt": Namespace(**opt), "optim": {"training_step": 10}}
    if version < 3:
        generator = {f"0.{key}": value for key, value in generator.items()}
        content["vocab"] = {side: fields(lists[side], side) for side in ("src", "tgt")}
    else:
        extra = {"data_task": "seq2seq", "decoder_start_token": "<s>"}
        content["vocab"] = {**extra, **lists}
    if apart:
        tensors = {key: value.contiguous() for key, value in state.items()}
        safetensors.torch.save_file(tensors, folder / "model_step_10.safetensors")
    else:
        content |= {"model": model, "generator": generator}
    with torchtext():
        torch.save(content, folder / "model_step_10.pt")


class torchtext:  # noqa: N801  # a context, as a function would be
    """Modules of the names of torchtext and OpenNMT-py, so that torch can save what they hold."""

    NAMES = ("torchtext", "torchtext.vocab", "torchtext.data", "torchtext.data.field",
             "torchtext.data.utils", "onmt", "onmt.inputters",
             "onmt.inputters.text_dataset")  # fmt: skip

    def __enter__(self) -> None:
        for name in self.NAMES:
            sys.modules[name] = ModuleType(name)
        for kind in (Vocab, Field, TextMultiField, _split_tokenizer):
            setattr(sys.modules[kind.__module__], kind.__name__, kind)

    def __exit__(self, *error: object) -> None:
        for name in self.NAMES:
            del sys.modules[name]


class Vocab:
    __module__ = "torchtext.vocab"


class Field:
    __module__ = "torchtext.data.field"


class TextMultiField:
    __module__ = "onmt.inputters.text_dataset"


def _split_tokenizer(text: str) -> list[str]:
    return text.split()


_split_tokenizer.__module__ = "torchtext.data.utils"


def fields(tokens: list[str], side: str) -> TextMultiField:
    """Return what versions 1 and 2 store of a side."""
    vocab, field, made = Vocab(), Field(), TextMultiField()
    vocab.__dict__ |= {"itos": tokens, "stoi": {token: i for i, token in enumerate(tokens)}}
    field.__dict__ |= {"vocab": vocab, "pad_token": "<blank>", "dtype": torch.int64,
                       "tokenize": _split_tokenizer}  # fmt: skip
    made.__dict__ |= {"fields": [(side, field)]}
    return made


class Transformer(TorchTransformer):
    """OpenNMT-py's embeddings, generator and names, around torch's layers."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__({"encoder_normalize_before": True, "eps": 1e-6, **given})
        self.bias = nn.Parameter(torch.zeros(SIZES[1]))

    def embed(self, side: int, tokens: Tensor) -> Tensor:
        x = (self.target if side else self.source)(tokens)
        kind = self.given.get("positions", "interleaved")
        if kind == "none":
            return x
        return x * math.sqrt(D) + positions(kind, tokens.shape[1])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return super().forward(source, target) + self.bias

    def state(self) -> State:
        """Return the tensors by OpenNMT-py's names, without those that `given` leaves out."""
        made: State = {"generator.weight": self.output.weight, "generator.bias": self.bias}
        feed = {"linear1": "feed_forward.w_1", "linear2": "feed_forward.w_2"}
        encoder = {**feed, "self_attn": "self_attn", "norm1": "layer_norm",
                   "norm2": "feed_forward.layer_norm"}  # fmt: skip
        decoder = {**feed, "self_attn": "self_attn", "multihead_attn": "context_attn",
                   "norm1": "layer_norm_1", "norm2": "layer_norm_2",
                   "norm3": "feed_forward.layer_norm"}  # fmt: skip
        for at, (side, stack, names) in enumerate(
            (("encoder", self.encoder, encoder), ("decoder", self.decoder, decoder))
        ):
            path = f"{side}.embeddings.make_embedding"
            made[f"{path}.emb_luts.0.weight"] = (self.target if at else self.source).weight
            if self.given.get("positions") != "none":
                kind = self.given.get("positions", "interleaved")
                made[f"{path}.pe.pe"] = positions(kind, 50)[:, None].float()
            made |= {f"{side}.layer_norm.{k}": v for k, v in self.ends[at].state_dict().items()}
            for number, layer in enumerate(stack):
                for key, value in layer.state_dict().items():
                    part, _, rest = key.partition(".")
                    where = f"{side}.{STACKS[side]}.{number}.{names[part]}"
                    made |= self.named(where, rest, value)
        return {key: value.detach().clone() for key, value in made.items()}

    def named(self, path: str, rest: str, value: Tensor) -> State:
        if rest.endswith("bias") and not self.given.get("bias", True) and "norm" not in path:
            return {}
        if not rest.startswith("in_proj_"):
            return {f"{path}.{rest.replace('out_proj', 'final_linear')}": value}
        kind, made = rest.removeprefix("in_proj_"), {}
        for name, part in zip(("query", "keys", "values"), value.chunk(3), strict=True):
            rows = D // HEADS * self.given.get("num_kv", HEADS)
            made[f"{path}.linear_{name}.{kind}"] = part if name == "query" else one_each(part, rows)
        return made

    def limit(self) -> None:
        """Make the weights those of a network with fewer parameters, as `given` says."""
        groups = self.given.get("num_kv", HEADS)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                is_bias = name.endswith("bias") and "norm" not in name and name != "bias"
                if is_bias and "ends" not in name and not self.given.get("bias", True):
                    weight.zero_()
                elif "in_proj" in name:
                    for part in weight.chunk(3)[1:]:
                        heads = part.view(groups, HEADS // groups, D // HEADS, -1)
                        heads.copy_(heads[:, :1].expand_as(heads).clone())


def one_each(weight: Tensor, rows: int) -> Tensor:
    """Return the map of one head of each group of heads with equal maps."""
    groups = rows // (D // HEADS)
    return weight.view(groups, HEADS // groups, D // HEADS, *weight.shape[1:])[:, 0].flatten(0, 1)


def positions(kind: str, count: int) -> Tensor:
    half = torch.arange(D // 2).double()
    rate = half / (D // 2) if kind == "interleaved" else half / (D // 2 - 1)
    angle = torch.arange(count)[:, None] * torch.exp(-math.log(10000) * rate)
    if kind == "interleaved":
        return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)
    return torch.cat([angle.sin(), angle.cos()], 1)


TRANSFORMER: dict[str, Any] = {
    "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
    "hidden_size": D, "word_vec_size": D, "enc_layers": 2, "dec_layers": 3, "heads": HEADS,
    "transformer_ff": INNER, "dropout": [0.1], "layers": -1, "model_task": "seq2seq",
    "lora_layers": [], "quant_layers": [], "data": {"corpus": {"path_src": "x", "weight": 1}},
}  # fmt: skip


class Recurrent(nn.Module):
    """OpenNMT-py's recurrent network, of torch's cells; the source has no end token."""

    WIDTH, SOURCE, TARGET, LAYERS = 10, 4, 6, 2

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given, s = given, self.WIDTH
        self.lstm, self.attention = given.get("rnn_type", "LSTM") == "LSTM", given["attention"]
        directions = 2 if given.get("both") else 1
        net, cell = (nn.LSTM, nn.LSTMCell) if self.lstm else (nn.GRU, nn.GRUCell)
        self.source, self.target = nn.Embedding(SIZES[0], 4), nn.Embedding(SIZES[1], 6)
        self.encoder = net(4, s // directions, self.LAYERS, bidirectional=directions == 2)
        first = self.TARGET + s * given.get("feed", True)
        self.decoder = nn.ModuleList(cell(s if i else first, s) for i in range(self.LAYERS))
        total = self.LAYERS * s // directions
        self.bridge = nn.ModuleList(nn.Linear(total, total) for _ in range(1 + self.lstm))
        mlp = self.attention == "mlp"
        self.linear_in, self.v = nn.Linear(s, s, bias=False), nn.Linear(s, 1, bias=False)
        self.linear_context, self.linear_query = nn.Linear(s, s, bias=False), nn.Linear(s, s)
        self.linear_out, self.generator = nn.Linear(2 * s, s, bias=mlp), nn.Linear(s, SIZES[1])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.stack([self.one(x[x != 1], y) for x, y in zip(source, target, strict=True)])

    def start(self, part: int, state: Tensor) -> list[Tensor]:
        """Return the first states of the decoder from the encoder's, (layers × directions, h)."""
        if self.given.get("bridge"):
            rows = state.reshape(2 if self.given.get("both") else 1, -1)
            state = self.bridge[part](rows).relu().view_as(state)
        return list(state.reshape(self.LAYERS, 1, -1))

    def attend(self, query: Tensor, states: Tensor) -> Tensor:
        if self.attention == "mlp":
            return self.v((self.linear_query(query) + self.linear_context(states)).tanh())[:, 0]
        return states @ (self.linear_in(query) if self.attention == "general" else query)

    def one(self, source: Tensor, target: Tensor) -> Tensor:
        states, final = self.encoder(self.source(source))
        finals = final if self.lstm else (final,)
        hidden, *cells = [self.start(i, state) for i, state in enumerate(finals)]
        feed, logits = torch.zeros(1, self.WIDTH).double(), []
        for token in target:
            x = self.target(token)[None]
            x = torch.cat([x, feed], 1) if self.given.get("feed", True) else x
            for layer, cell in enumerate(self.decoder):
                if self.lstm:
                    x, cells[0][layer] = cell(x, (hidden[layer], cells[0][layer]))
                else:
                    x = cell(x, hidden[layer])
                hidden[layer] = x
            weights = self.attend(x[0], states).softmax(0)
            feed = self.linear_out(torch.cat([weights @ states, x[0]]))[None]
            feed = feed if self.attention == "mlp" else feed.tanh()
            logits.append(self.generator(feed)[0])
        return torch.stack(logits)

    def state(self) -> State:
        """Return the tensors by OpenNMT-py's names."""
        names = {"source": "encoder.embeddings.make_embedding.emb_luts.0",
                 "target": "decoder.embeddings.make_embedding.emb_luts.0",
                 "encoder": "encoder.rnn", "generator": "generator",
                 "linear_out": "decoder.attn.linear_out"}  # fmt: skip
        if self.given.get("bridge"):
            names["bridge"] = "encoder.bridge"
        of_score = {"general": ["linear_in"], "mlp": ["linear_context", "linear_query", "v"]}
        names |= {name: f"decoder.attn.{name}" for name in of_score.get(self.attention, [])}
        made = {}
        for key, value in self.state_dict().items():
            part, _, rest = key.partition(".")
            if part in names:
                made[f"{names[part]}.{rest}"] = value.clone()
            elif part == "decoder" and self.given.get("feed", True):
                made[f"decoder.rnn.layers.{rest}"] = value.clone()
            elif part == "decoder":
                number, _, kind = rest.partition(".")
                made[f"decoder.rnn.{kind}_l{number}"] = value.clone()
        return made

    def settings(self) -> dict[str, Any]:
        return {"encoder_type": "brnn" if self.given.get("both") else "rnn", "decoder_type": "rnn",
                "rnn_type": self.given.get("rnn_type", "LSTM"), "layers": self.LAYERS,
                "hidden_size": self.WIDTH, "src_word_vec_size": self.SOURCE,
                "tgt_word_vec_size": self.TARGET, "global_attention": self.attention,
                "input_feed": int(self.given.get("feed", True)),
                "bridge": self.given.get("bridge", False)}  # fmt: skip
