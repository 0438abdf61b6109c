"""fairseq's checkpoints, written in its layout, compared with networks made of torch's layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from tests.interop.layouts import State, batch, our_ids, randomize, words, write_fairseq
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.errors import ConversionError, ConversionWarning
from zoo.interop.conversion import import_checkpoint
from zoo.interop.locate import locate
from zoo.registry.registry import default_registry

SPECIALS = (1, 0, 2, 3)
"""fairseq's ids of padding, begin, end and unknown."""

SIZES = (19, 15)
Network = Callable[[Tensor, Tensor], Tensor]


def load(folder: Path, format: str | None = None) -> Checkpoint:
    registry = default_registry()
    assert import_checkpoint(folder, folder / "out", registry, format).startswith("fairseq-")
    return read(folder / "out", registry)


def write(
    folder: Path, state: State, settings: dict[str, Any], shared: bool = False, zipped: bool = True
) -> None:
    sides = [words(SIZES[1] - 4, "en")] * 2 if shared else [
        words(size - 4, side) for size, side in zip(SIZES, ("de", "en"), strict=True)
    ]  # fmt: skip
    write_fairseq(folder, state, settings, sides, zipped)


def check(checkpoint: Checkpoint, network: Network, shared: bool = False) -> None:
    """Compare the logits of a padded batch; a target begins with the end token."""
    sizes = (SIZES[1], SIZES[1]) if shared else SIZES
    source, target = batch(sizes, SPECIALS, start=2)
    model = checkpoint.model.double().eval()
    tables = [our_ids(SPECIALS, size) for size in sizes]
    own, given = tables[0][source], tables[1][target]
    given[:, 0] = 1
    with torch.no_grad():
        actual = model(own, own != 0, given).logits[..., tables[1]]
        expected = network(source, target)
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-6)


D, HEADS, INNER = 16, 4, 24
LAYER = {"self_attn": "self_attn", "linear1": "fc1", "linear2": "fc2",
         "norm1": "self_attn_layer_norm"}  # fmt: skip
ENCODER = {**LAYER, "norm2": "final_layer_norm"}
DECODER = {**LAYER, "multihead_attn": "encoder_attn", "norm2": "encoder_attn_layer_norm",
           "norm3": "final_layer_norm"}  # fmt: skip

TRANSFORMERS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, old names": {"encoder_normalize_before": True, "decoder_normalize_before": True,
                            "old": True},
    "learned positions, gelu": {"encoder_learned_pos": True, "decoder_learned_pos": True,
                                "max_source_positions": 11, "max_target_positions": 12,
                                "activation_fn": "gelu"},
    "norm of embeddings, tied": {"layernorm_embedding": True, "no_scale_embedding": True,
                                 "share_decoder_input_output_embed": True},
    "all tied": {"share_all_embeddings": True},
}  # fmt: skip


class TorchTransformer(nn.Module):
    """A Transformer of torch's own layers, with fairseq's embeddings."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given = given
        before = given.get("encoder_normalize_before", False)
        rest: dict[str, Any] = {"dim_feedforward": INNER, "dropout": 0.0, "batch_first": True,
                                "activation": given.get("activation_fn", "relu"),
                                "norm_first": before,
                                "layer_norm_eps": given.get("eps", 1e-5)}  # fmt: skip
        shared = given.get("share_all_embeddings", False)
        self.target = nn.Embedding(SIZES[1], D)
        self.source = self.target if shared else nn.Embedding(SIZES[0], D)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(D, HEADS, **rest) for _ in range(2))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(D, HEADS, **rest) for _ in range(3))
        eps = rest["layer_norm_eps"]
        self.ends = nn.ModuleList(nn.LayerNorm(D, eps) for _ in range(2 * before))
        embedded = given.get("layernorm_embedding", False)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2 * embedded))
        learned = given.get("encoder_learned_pos", False)
        self.tables = nn.ModuleList(
            nn.Embedding(given[f"max_{side}_positions"] + 2, D)
            for side in ("source", "target") * learned
        )
        tied = shared or given.get("share_decoder_input_output_embed", False)
        self.output = self.target if tied else nn.Embedding(SIZES[1], D)

    def embed(self, side: int, tokens: Tensor) -> Tensor:
        x = (self.target if side else self.source)(tokens)
        x = x if self.given.get("no_scale_embedding") else x * math.sqrt(D)
        position = torch.arange(tokens.shape[1]) + 2
        if self.tables:
            x = x + self.tables[side](position)
        else:
            rate = torch.exp(torch.arange(D // 2) * -(math.log(10000) / (D // 2 - 1))).double()
            angle = position[:, None] * rate
            x = x + torch.cat([angle.sin(), angle.cos()], 1)
        return self.norms[side](x) if self.norms else x

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding, x, y = source == 1, self.embed(0, source), self.embed(1, target)
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=padding)
        x = self.ends[0](x) if self.ends else x
        mask = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=mask, memory_key_padding_mask=padding)
        y = self.ends[1](y) if self.ends else y
        return y @ self.output.weight.T

    def state(self) -> State:
        """Return the tensors by fairseq's names."""
        made: State = {
            "encoder.version": torch.tensor([3.0]),
            "decoder.version": torch.tensor([3.0]),
        }
        for side, stack, names in (
            ("encoder", self.encoder, ENCODER),
            ("decoder", self.decoder, DECODER),
        ):
            at = int(side == "decoder")
            made[f"{side}.embed_tokens.weight"] = (self.target if at else self.source).weight
            if self.tables:
                made[f"{side}.embed_positions.weight"] = self.tables[at].weight
            for modules, name in ((self.ends, "layer_norm"), (self.norms, "layernorm_embedding")):
                if modules:
                    made |= {f"{side}.{name}.{k}": v for k, v in modules[at].state_dict().items()}
            for number, layer in enumerate(stack):
                for key, value in layer.state_dict().items():
                    part, _, rest = key.partition(".")
                    made |= self.named(f"{side}.layers.{number}.{names[part]}", rest, value)
        made["decoder.output_projection.weight"] = self.output.weight
        return {k: v.detach().clone() for k, v in made.items()}

    def named(self, path: str, rest: str, value: Tensor) -> State:
        if not rest.startswith("in_proj_") or self.given.get("old"):
            return {f"{path}.{rest}": value}
        kind = rest.removeprefix("in_proj_")
        return {f"{path}.{n}_proj.{kind}": v for n, v in zip("qkv", value.chunk(3), strict=True)}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformer(name: str, tmp_path: Path) -> None:
    given = TRANSFORMERS[name]
    network = TorchTransformer(given).double().eval()
    randomize(network)
    network.float()
    shared = given.get("share_all_embeddings", False)
    settings = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (
        ("embed_dim", D), ("ffn_embed_dim", INNER), ("attention_heads", HEADS))}  # fmt: skip
    settings |= {"encoder_layers": 2, "decoder_layers": 3, **given}
    write(tmp_path, network.state(), settings, shared, zipped="old" not in given)
    check(load(tmp_path, "fairseq"), network.double(), shared)


LSTMS: dict[str, dict[str, Any]] = {
    "one layer": {"layers": 1},
    "both directions": {"layers": 2, "encoder_bidirectional": True},
    "final states of equal width": {"layers": 2, "encoder_hidden_size": 8},
    "another width before the output": {"layers": 1, "decoder_out_embed_dim": 7},
    "tied": {"layers": 1, "decoder_out_embed_dim": 6, "share_decoder_input_output_embed": True},
}


class TorchLSTM(nn.Module):
    """fairseq's recurrent network (Luong et al. 2015), of torch's cells."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__()
        self.given, layers = given, given["layers"]
        both, h = given.get("encoder_bidirectional", False), given.get("encoder_hidden_size", 5)
        values, s = h * (1 + both), 8
        self.source, self.target = nn.Embedding(SIZES[0], 4), nn.Embedding(SIZES[1], 6)
        self.encoder = nn.LSTM(4, h, layers, bidirectional=both, batch_first=True)
        self.cells = nn.ModuleList(nn.LSTMCell(s if n else 6 + s, s) for n in range(layers))
        self.starts = nn.ModuleList(nn.Linear(values, s) for _ in range(2 * (values != s)))
        self.query = nn.Linear(s, values, bias=False)
        self.readout = nn.Linear(values + s, s, bias=False)
        out = given.get("decoder_out_embed_dim", s)
        self.more = nn.ModuleList(nn.Linear(s, out) for _ in range(int(out != s)))
        self.output = nn.Linear(out, SIZES[1])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.stack([self.one(x[x != 1], y) for x, y in zip(source, target, strict=True)])

    def one(self, source: Tensor, target: Tensor) -> Tensor:
        states, finals = self.encoder(self.source(source)[None])
        finals = [part.view(len(self.cells), 1, -1) for part in finals]
        if self.starts:
            finals = [start(part) for start, part in zip(self.starts, finals, strict=True)]
        hidden, cells = [list(part) for part in finals]
        feed, logits = torch.zeros(1, 8).double(), []
        for token in target:
            x = torch.cat([self.target(token)[None], feed], 1)
            for n, cell in enumerate(self.cells):
                hidden[n], cells[n] = cell(x, (hidden[n], cells[n]))
                x = hidden[n]
            weights = (states[0] @ self.query(x)[0]).softmax(0)
            feed = self.readout(torch.cat([weights[None] @ states[0], x], 1)).tanh()
            top = self.more[0](feed) if self.more else feed
            tied = self.given.get("share_decoder_input_output_embed")
            logits.append((top @ self.target.weight.T if tied else self.output(top))[0])
        return torch.stack(logits)

    def state(self) -> State:
        """Return the tensors by fairseq's names."""
        names = {"source": "encoder.embed_tokens", "target": "decoder.embed_tokens",
                 "encoder": "encoder.lstm", "cells": "decoder.layers",
                 "starts.0": "decoder.encoder_hidden_proj", "starts.1": "decoder.encoder_cell_proj",
                 "query": "decoder.attention.input_proj",
                 "readout": "decoder.attention.output_proj", "more.0": "decoder.additional_fc",
                 "output": "decoder.fc_out"}  # fmt: skip
        if self.given.get("share_decoder_input_output_embed"):
            del names["output"]
        return {
            path + key.removeprefix(own): value.clone()
            for key, value in self.state_dict().items()
            for own, path in names.items()
            if key.startswith(f"{own}.")
        }


@pytest.mark.parametrize("name", LSTMS)
def test_lstm(name: str, tmp_path: Path) -> None:
    given = {"encoder_hidden_size": 5, "decoder_out_embed_dim": 8, **LSTMS[name]}
    network = TorchLSTM(given)
    randomize(network)
    settings = {"encoder_embed_dim": 4, "decoder_embed_dim": 6, "decoder_hidden_size": 8,
                "encoder_layers": given["layers"], "decoder_layers": given["layers"],
                "decoder_attention": "1", **given}  # fmt: skip
    write(tmp_path, network.state(), settings)
    check(load(tmp_path), network.double().eval())


class TorchFConv(nn.Module):
    """fairseq's convolutional network (Gehring et al. 2017), of torch's layers."""

    def __init__(self, encoder: list[tuple[int, int]], decoder: list[tuple[int, int]]) -> None:
        super().__init__()
        self.specs = {"encoder": encoder, "decoder": decoder}
        self.maps: Any = nn.ModuleDict()
        e = o = 8
        for side, size, specs in (("encoder", SIZES[0], encoder), ("decoder", SIZES[1], decoder)):
            self.maps[f"{side}-embed_tokens"] = nn.Embedding(size, e)
            self.maps[f"{side}-embed_positions"] = nn.Embedding(14, e)
            below = specs[0][0]
            self.maps[f"{side}-fc1"] = nn.Linear(e, below)
            for n, (width, kernel) in enumerate(specs):
                if width != below:
                    self.maps[f"{side}-projections-{n}"] = nn.Linear(below, width)
                self.maps[f"{side}-convolutions-{n}"] = nn.Conv1d(below, 2 * width, kernel)
                if side == "decoder":
                    self.maps[f"{side}-attention-{n}-in_projection"] = nn.Linear(width, e)
                    self.maps[f"{side}-attention-{n}-out_projection"] = nn.Linear(e, width)
                below = width
            self.maps[f"{side}-fc2"] = nn.Linear(below, e if side == "encoder" else o)
        self.maps["decoder-fc3"] = nn.Linear(o, SIZES[1])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.stack([self.one(x[x != 1], y) for x, y in zip(source, target, strict=True)])

    def one(self, source: Tensor, target: Tensor) -> Tensor:
        e, z = self.stack("encoder", source, None, None)
        return self.maps["decoder-fc3"](self.stack("decoder", target, z, e)[1])

    def stack(
        self, side: str, tokens: Tensor, z: Tensor | None, e: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        maps, half = self.maps, math.sqrt(0.5)
        embedded = maps[f"{side}-embed_tokens"](tokens)
        embedded = embedded + maps[f"{side}-embed_positions"](torch.arange(len(tokens)) + 2)
        x = maps[f"{side}-fc1"](embedded)
        for n, (_, kernel) in enumerate(self.specs[side]):
            name = f"{side}-projections-{n}"
            before = maps[name](x) if name in maps else x
            edge = (kernel - 1, 0) if side == "decoder" else (kernel // 2, kernel // 2)
            x = F.glu(maps[f"{side}-convolutions-{n}"](F.pad(x.T, edge)), 0).T
            if z is not None and e is not None:
                attention = f"{side}-attention-{n}"
                query = (maps[f"{attention}-in_projection"](x) + embedded) * half
                context = (query @ z.T).softmax(1) @ ((z + e) * half) * math.sqrt(len(z))
                x = (x + maps[f"{attention}-out_projection"](context)) * half
            x = (x + before) * half
        return embedded, maps[f"{side}-fc2"](x)

    def state(self, tied: bool) -> State:
        """Return the tensors by fairseq's names: every map but a tied one is normalized."""
        made: State = {"decoder.version": torch.tensor([2.0])}
        for key, module in self.maps.items():
            path, weight = key.replace("-", "."), module.weight.detach()
            if isinstance(module, nn.Embedding) or (tied and key == "decoder-fc3"):
                made[f"{path}.weight"] = weight.clone()
            elif isinstance(module, nn.Conv1d):
                weight = weight.permute(2, 1, 0)  # kernel, inputs, outputs
                made[f"{path}.weight_g"] = weight.flatten(0, 1).norm(dim=0)[None, None]
                made[f"{path}.weight_v"] = weight * 3
            else:
                made[f"{path}.weight_g"] = weight.norm(dim=1, keepdim=True)
                made[f"{path}.weight_v"] = weight * 3
            if not isinstance(module, nn.Embedding):
                made[f"{path}.bias"] = module.bias.detach().clone()
        return made


@pytest.mark.parametrize("tied", [False, True])
def test_fconv(tied: bool, tmp_path: Path) -> None:
    network = TorchFConv([(10, 3), (10, 3), (12, 5)], [(9, 3), (11, 2)])
    randomize(network)
    if tied:
        with torch.no_grad():
            network.maps["decoder-embed_tokens"].weight[1] = 0  # the row of padding
            network.maps["decoder-fc3"].weight.copy_(network.maps["decoder-embed_tokens"].weight)
    settings = {"encoder_embed_dim": 8, "decoder_embed_dim": 8, "decoder_out_embed_dim": 8,
                "max_source_positions": 14, "max_target_positions": 14,
                "encoder_layers": "[(10, 3)] * 2 + [(12, 5)]", "decoder_attention": "True",
                "decoder_layers": "[(9, 3), (11, 2, 1)]",
                "share_input_output_embed": tied}  # fmt: skip
    write(tmp_path, network.state(tied), settings)
    check(load(tmp_path), network.double().eval())


def test_the_languages_are_those_of_the_dictionaries(tmp_path: Path) -> None:
    transformer(tmp_path)
    about = load(tmp_path).about
    assert (about.source_languages, about.target_languages) == (("de",), ("en",))
    assert about.origin == "imported"


@pytest.mark.parametrize("options", [{}, {"codes": "codes.de,codes.en"}])
def test_each_side_has_its_own_codes(options: dict[str, str], tmp_path: Path) -> None:
    transformer(tmp_path, bpe="subword_nmt")
    for side, codes in (("de", "d e\nde 1\n"), ("en", "e n\nen 1</w>\n")):
        (tmp_path / f"codes.{side}").write_text(f"#version: 0.2\n{codes}", encoding="utf-8")
    import_checkpoint(tmp_path, tmp_path / "out", default_registry(), None, options)
    checkpoint = read(tmp_path / "out", default_registry())
    sides = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    assert [side.engine.cut("de12 en1") for side in sides] == [  # type: ignore[attr-defined]
        ["de1@@", "2", "e@@", "n@@", "1"],
        ["d@@", "e@@", "1@@", "2", "en1"],
    ]


@pytest.mark.parametrize("name", ["codes.en", "code", "bpecodes", "en.bpe", "bpe.32000", "bpe.8k"])
def test_codes_of_the_usual_names_are_read(name: str, tmp_path: Path) -> None:
    transformer(tmp_path)
    (tmp_path / name).write_text("#version: 0.2\nd e\n", encoding="utf-8")
    tokenizer: Any = load(tmp_path).source_tokenizer
    assert tokenizer.engine.cut("de12") == ["de@@", "1@@", "2"]


def test_codes_of_any_name_are_read_again_when_they_change(model_folder: Path) -> None:
    """A cached conversion with the old ones was used."""
    folder, registry = model_folder, default_registry()
    transformer(folder, bpe="subword_nmt", bpe_codes="/data/merges")
    cut = []
    for merges in ("d e\n", "e 1\n"):
        (folder / "merges").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
        tokenizer: Any = read(locate(folder, registry), registry).source_tokenizer
        cut.append(tokenizer.engine.cut("de12"))
    assert cut == [["de@@", "1@@", "2"], ["d@@", "e1@@", "2"]]


@pytest.mark.parametrize("cut", ["moses", "nltk", "space"])
def test_a_step_before_the_codes_that_is_not_run_is_named(cut: str, tmp_path: Path) -> None:
    transformer(tmp_path, tokenizer=cut)
    with warnings.catch_warnings(record=True, action="always") as caught:
        load(tmp_path)
    warned = [str(one.message) for one in caught if issubclass(one.category, ConversionWarning)]
    wanted = f"the checkpoint's text is cut by the tokenizer {cut!r} first, which is not run here"
    assert [wanted in one for one in warned] == ([] if cut == "space" else [True])


def test_codes_whose_side_is_not_clear_are_refused(tmp_path: Path) -> None:
    transformer(tmp_path, bpe="fastbpe")
    for name in ("a.codes", "b.codes"):
        (tmp_path / name).write_text("d e 3\n", encoding="utf-8")
    assert "bpe is fastbpe, and there is not one such file: --option codes=" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "why"),
    [("../x", "'../x' is outside its folder"), ("none.bpe", "it has no none.bpe"),
     ("a.bpe", "a.bpe is not a file of codes: line 1: 'd'")],
)  # fmt: skip
def test_a_fault_of_the_codes_of_both_sides_is_named_once(
    name: str, why: str, tmp_path: Path
) -> None:
    transformer(tmp_path)
    (tmp_path / "a.bpe").write_text("#version: 0.2\nd\n", encoding="utf-8")
    assert refusal(tmp_path, codes=name) == f"{tmp_path} cannot be imported: {why}"


def transformer(folder: Path, state: State | None = None, **settings: Any) -> None:
    network = TorchTransformer({})
    randomize(network)
    given = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (
        ("embed_dim", D), ("ffn_embed_dim", INNER), ("attention_heads", HEADS))}  # fmt: skip
    given |= {"encoder_layers": 2, "decoder_layers": 3, **settings}
    write(folder, network.state() | (state or {}), given)


def refusal(folder: Path, **options: str) -> str:
    with pytest.raises(ConversionError) as caught:
        import_checkpoint(folder, folder / "out", default_registry(), None, options)
    assert not (folder / "out").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_file_of_a_folder_is_converted_once(model_folder: Path) -> None:
    """The first conversion was used for all files of a folder, and for the folder."""
    folder, registry = model_folder, default_registry()
    transformer(folder, {"decoder.output_projection.weight": torch.ones(SIZES[1], D)})
    other = (folder / "model.pt").rename(folder / "checkpoint_last.pt")
    transformer(folder)
    paths = [other, folder / "model.pt", folder]
    converted = [locate(path, registry) for path in paths]
    assert [locate(path, registry) for path in paths] == converted
    outputs = [read(path, registry).model.get_parameter("output.weight") for path in converted]
    assert (outputs[0] == 1).all()
    assert not (outputs[1] == 1).any()
    assert torch.equal(outputs[1], outputs[2])


@pytest.mark.parametrize("format", [None, "fairseq", "fairseq-transformer"])
def test_an_option_chooses_among_several_checkpoints(format: str | None, tmp_path: Path) -> None:
    transformer(tmp_path)
    for number in (1, 2):
        (tmp_path / f"checkpoint{number}.pt").write_bytes((tmp_path / "model.pt").read_bytes())
    (tmp_path / "model.pt").unlink()
    registry, out = default_registry(), tmp_path / "out"
    message = (
        "cannot be imported: it has checkpoints checkpoint1.pt, checkpoint2.pt. "
        "Choose one, such as --option checkpoint=checkpoint1.pt"
    )
    with pytest.raises(ConversionError, match=message):
        import_checkpoint(tmp_path, out, registry, format)
    options = {"checkpoint": "checkpoint2.pt"}
    made = import_checkpoint(tmp_path, out, registry, format, options)
    assert made == "fairseq-transformer"
    assert read(out, registry).about.parent == tmp_path.name


def test_all_settings_without_a_counterpart_are_named(tmp_path: Path) -> None:
    transformer(tmp_path, adaptive_input=True, encoder_ffn_embed_dim=99, activation_fn="linear")
    message = refusal(tmp_path)
    assert "adaptive_input = True" in message
    assert "encoder_ffn_embed_dim 99 and decoder_ffn_embed_dim 24 differ" in message
    assert "activation_fn 'linear' has no counterpart" in message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "translation_multi_simple_epoch"},
         "its task is 'translation_multi_simple_epoch', which may read text otherwise"),
        ({"quant_noise_scalar": 0.5}, "quant_noise_scalar = 0.5 has no counterpart"),
        ({"decoder_xformers_att_config": "{}"}, "decoder_xformers_att_config = '{}' has no"),
        ({"simul_type": "waitk"}, "simul_type = 'waitk' has no counterpart"),
    ],
)  # fmt: skip
def test_what_reads_or_computes_otherwise_is_refused(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    transformer(tmp_path, **settings)
    assert message in refusal(tmp_path)


def test_all_faults_of_tensors_are_named(tmp_path: Path) -> None:
    transformer(tmp_path, {
        "encoder.layers.0.fc1.weight": torch.zeros(3, 3),
        "encoder.layers.1.fc1.bias": torch.full((INNER,), torch.nan),
        "encoder.layers.1.fc2.bias": torch.zeros(D, dtype=torch.long),
        "decoder.layers.0.fc1.bias": "text",
        "decoder.layers.9.fc1.bias": torch.zeros(INNER),
    })  # fmt: skip
    message = refusal(tmp_path)
    for part in ("encoder.layers.0.fc1.weight is (3, 3), not (24, 16)",
                 "encoder.layers.1.fc1.bias holds values that are not finite",
                 "encoder.layers.1.fc2.bias is of type int64",
                 "decoder.layers.0.fc1.bias is not a tensor",
                 "decoder.layers.9.fc1.bias is not a tensor of this network"):  # fmt: skip
        assert part in message


def test_a_tied_matrix_stored_twice_with_different_values_is_refused(tmp_path: Path) -> None:
    transformer(tmp_path, share_decoder_input_output_embed=True)
    message = refusal(tmp_path)
    assert (
        "decoder.output_projection.weight and decoder.embed_tokens.weight should be tied" in message
    )


def test_a_dictionary_of_another_length_is_refused(tmp_path: Path) -> None:
    transformer(tmp_path)
    with (tmp_path / "dict.de.txt").open("a", encoding="utf-8") as file:
        file.write("more 1\n")
    assert "encoder.embed_tokens.weight is (19, 16), not (20, 16)" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [("de0 7", "dict.de.txt has 'de0' twice"), ("nothing", "'nothing' is not a token and a count")],
)
def test_a_faulty_dictionary_is_refused(line: str, message: str, tmp_path: Path) -> None:
    transformer(tmp_path)
    with (tmp_path / "dict.de.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    assert message in refusal(tmp_path)


def test_a_missing_dictionary_is_refused(tmp_path: Path) -> None:
    transformer(tmp_path)
    (tmp_path / "dict.en.txt").rename(tmp_path / "dict.fr.txt")
    assert "it has no dict.en.txt: it has dict.de.txt, dict.fr.txt" in refusal(tmp_path)
    for file in tmp_path.glob("dict.*"):
        file.unlink()
    message = refusal(tmp_path)
    assert "it has no dict.de.txt: it has no dict.*.txt" in message
    assert message.endswith("Copy the dictionaries from the folder of its data")


def test_languages_that_are_not_stated_are_options(tmp_path: Path) -> None:
    transformer(tmp_path, source_lang=None, target_lang=None)
    message = "it names no source language: --option source=; it names no target language"
    assert message in refusal(tmp_path)
    assert "it names no target language: --option target=" in refusal(tmp_path, source="de")
    options = {"source": "de", "target": "en"}
    import_checkpoint(tmp_path, tmp_path / "out", default_registry(), None, options)


def test_a_tensor_is_no_setting(tmp_path: Path) -> None:
    transformer(tmp_path, target_lang=torch.zeros(2))
    assert "it has no dict.<Tensor>.txt" in refusal(tmp_path)


def test_settings_of_a_later_version_may_stand_under_args(tmp_path: Path) -> None:
    """Those of 0.12 have the name of the network, which is not that of the task."""
    transformer(tmp_path, _name="transformer")
    load(tmp_path)


@pytest.mark.parametrize(
    "text", ["__import__('os').system('touch ran')", "[(4, 3)] * 10**9", "[(4, 3)] * 999", "4",
             "[4]", "[(4, 3, 2)]", "[(4,)]", "(" * 5000]
)  # fmt: skip
def test_layers_that_are_no_list_are_refused_and_not_run(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network = TorchFConv([(10, 3)], [(9, 3)])
    settings = {"encoder_embed_dim": 8, "decoder_embed_dim": 8, "encoder_layers": text,
                "decoder_layers": "[(9, 3)]", "decoder_out_embed_dim": 8}  # fmt: skip
    write(tmp_path, network.state(False), settings)
    assert "its encoder_layers: " in refusal(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("files", [(), ("a.model", "b.model")])
def test_subwords_whose_file_is_not_clear_are_refused(files: Sequence[str], tmp_path: Path) -> None:
    transformer(tmp_path, bpe="sentencepiece")
    for name in files:
        (tmp_path / name).write_bytes(b"")
    assert "bpe is sentencepiece, and there is not one such file" in refusal(tmp_path)
    options = {"sentencepiece": "none"}
    import_checkpoint(tmp_path, tmp_path / "out", default_registry(), None, options)


def test_characters_are_read_as_such(tmp_path: Path) -> None:
    transformer(tmp_path, bpe="characters")
    registry = default_registry()
    import_checkpoint(tmp_path, tmp_path / "out", registry)
    tokenizer = read(tmp_path / "out", registry).source_tokenizer
    assert len(tokenizer.encode(["a bc"])[0]) == 4
    assert len(tokenizer.encode(["a\u3000b\tc\u00a0"])[0]) == 3, "other spaces vanish, as there"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_norms_after_the_stacks_depend_on_the_version(version: int, tmp_path: Path) -> None:
    """fairseq drops the encoder's before version 2, and the decoder's before version 3."""
    from zoo_transformer.formats.fairseq import _old

    class Given:
        class state:  # noqa: N801  # an attribute's name
            tensors: ClassVar[dict[str, torch.Tensor]] = {
                f"{side}.version": torch.tensor([float(version)]) for side in ("encoder", "decoder")
            }

    old = [_old(Given, side) for side in ("encoder", "decoder")]  # type: ignore[arg-type]
    assert old == {1: [True, True], 2: [False, True], 3: [False, False]}[version]
