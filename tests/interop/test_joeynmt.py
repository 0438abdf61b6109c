"""JoeyNMT's checkpoints, written in its layout, compared with networks made of torch's layers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn

from tests.interop.layouts import State, batch, our_ids, randomize, words
from tests.interop.test_fairseq import HEADS, INNER, SIZES, D, TorchTransformer
from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.errors import ConversionError
from zoo.interop.conversion import import_checkpoint
from zoo.interop.locate import locate
from zoo.registry.registry import default_registry

SPECIALS = (1, 2, 3, 0)
"""JoeyNMT's ids of padding, begin, end and unknown."""


def write(folder: Path, state: State, model: dict[str, Any], **data: Any) -> None:
    """Write config.yaml, best.ckpt and the vocabularies."""
    side = {"lang": "a", "level": "word", "lowercase": False}
    config = {"model": model, "data": {"src": side, "trg": side, **data}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    torch.save({"model_state": state, "stats_state": {"steps": 7}}, folder / "best.ckpt")
    for name, size, letter in zip(("src", "trg"), SIZES, "ab", strict=True):
        letter = "b" if model.get("tied_embeddings") else letter
        size = SIZES[1] if model.get("tied_embeddings") else size
        tokens = ["<unk>", "<pad>", "<s>", "</s>", *words(size - 4, letter)]
        (folder / f"{name}_vocab.txt").write_text("\n".join(tokens), encoding="utf-8")


def check(folder: Path, network: nn.Module, shared: bool = False) -> Checkpoint:
    registry = default_registry()
    assert import_checkpoint(folder, folder / "out", registry, "joeynmt").startswith("joeynmt-")
    checkpoint = read(folder / "out", registry)
    sizes = (SIZES[1], SIZES[1]) if shared else SIZES
    source, target = batch(sizes, SPECIALS, start=2)
    model = checkpoint.model.double().eval()
    tables = [our_ids(SPECIALS, size) for size in sizes]
    own = tables[0][source]
    with torch.no_grad():
        actual = model(own, own != 0, tables[1][target]).logits[..., tables[1]]
        expected = network.double().eval()(source, target)
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-6)
    return checkpoint


class JoeyTransformer(TorchTransformer):
    """JoeyNMT's embeddings and names, around torch's layers."""

    def embed(self, side: int, tokens: Tensor) -> Tensor:
        x = (self.target if side else self.source)(tokens) * math.sqrt(D)
        rate = torch.exp(torch.arange(0, D, 2) * -(math.log(10000) / D)).double()
        angle = torch.arange(tokens.shape[1])[:, None] * rate
        return x + torch.stack([angle.sin(), angle.cos()], 2).flatten(1)

    def state(self) -> State:
        names = {"linear1": "feed_forward.pwff_layer.0", "linear2": "feed_forward.pwff_layer.3"}
        encoder = {**names, "self_attn": "src_src_att", "norm1": "layer_norm",
                   "norm2": "feed_forward.layer_norm"}  # fmt: skip
        decoder = {**names, "self_attn": "trg_trg_att", "multihead_attn": "src_trg_att",
                   "norm1": "x_layer_norm", "norm2": "dec_layer_norm",
                   "norm3": "feed_forward.layer_norm"}  # fmt: skip
        made: State = {"src_embed.lut.weight": self.source.weight,
                       "trg_embed.lut.weight": self.target.weight,
                       "decoder.output_layer.weight": self.output.weight,
                       "encoder.pe.pe": torch.zeros(1, 9, D)}  # fmt: skip
        for at, (side, stack, parts) in enumerate(
            (("encoder", self.encoder, encoder), ("decoder", self.decoder, decoder))
        ):
            if self.ends:
                end = self.ends[at].state_dict()
                made |= {f"{side}.layer_norm.{key}": value for key, value in end.items()}
            for number, layer in enumerate(stack):
                for key, value in layer.state_dict().items():
                    part, _, rest = key.partition(".")
                    path = f"{side}.layers.{number}.{parts[part]}"
                    if rest.startswith("in_proj_"):
                        kind = rest.removeprefix("in_proj_")
                        for letter, third in zip("qkv", value.chunk(3), strict=True):
                            made[f"{path}.{letter}_layer.{kind}"] = third
                    else:
                        made[f"{path}.{rest.replace('out_proj', 'output_layer')}"] = value
        return {key: value.detach().clone() for key, value in made.items()}


def transformer(**values: Any) -> dict[str, Any]:
    side = {"type": "transformer", "hidden_size": D, "ff_size": INNER, "num_heads": HEADS,
            "layer_norm": "pre", "embeddings": {"embedding_dim": D, "scale": True}}  # fmt: skip
    return {"encoder": {**side, "num_layers": 2, **values},
            "decoder": {**side, "num_layers": 3, **values}}  # fmt: skip


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", ["", "tied_softmax", "tied_embeddings"])
def test_transformer(norm: str, tied: str, tmp_path: Path) -> None:
    shared = tied == "tied_embeddings"
    given = {"encoder_normalize_before": norm == "pre", "eps": 1e-6,
             "share_decoder_input_output_embed": bool(tied),
             "share_all_embeddings": shared}  # fmt: skip
    network = JoeyTransformer(given)
    randomize(network)
    model = {**transformer(layer_norm=norm), "tied_softmax": bool(tied), "tied_embeddings": shared}
    write(tmp_path, network.state(), model)
    checkpoint = check(tmp_path, network, shared)
    assert checkpoint.source_tokenizer.encode(["b0 b3 x" if shared else "a0 a3 x"]) == [[4, 7, 3]]


def test_a_vocabulary_of_any_name_is_read_again_when_it_changes(model_folder: Path) -> None:
    """A cached conversion of the old one was used."""
    folder, registry = model_folder, default_registry()
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    randomize(network)
    side = {"lang": "a", "level": "word", "lowercase": False}
    write(folder, network.state(), transformer(), src={**side, "voc_file": "data/words.a"})
    (folder / "src_vocab.txt").rename(folder / "words.a")
    for given in ("a0 a1", "a1 a0"):
        checkpoint = read(locate(folder, registry), registry)
        assert checkpoint.source_tokenizer.encode([given]) == [[4, 5]]
        (folder / "log").write_text(given, encoding="utf-8")  # which no setting names
        assert locate(folder, registry) == checkpoint.folder
        text = (folder / "words.a").read_text(encoding="utf-8").replace("a0\na1", "a1\na0")
        (folder / "words.a").write_text(text, encoding="utf-8")


def test_the_default_numbers_of_heads_are_four_and_eight(tmp_path: Path) -> None:
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    model = transformer()
    del model["encoder"]["num_heads"], model["decoder"]["num_heads"]
    write(tmp_path, network.state(), model)
    with pytest.raises(ConversionError, match="num_heads of encoder and decoder differ: 4, 8"):
        import_checkpoint(tmp_path, tmp_path / "out", default_registry(), "joeynmt")


class JoeyRecurrent(nn.Module):
    """JoeyNMT's recurrent network, of torch's cells."""

    def __init__(self, cell: str, attention: str, start: str, feeding: bool) -> None:
        super().__init__()
        self.attention, self.start, self.feeding = attention, start, feeding
        lstm = cell == "lstm"
        h, s = 5, 10
        self.src_embed, self.trg_embed = nn.Embedding(SIZES[0], 4), nn.Embedding(SIZES[1], 6)
        net = nn.LSTM if lstm else nn.GRU
        self.encoder = net(4, h, 2, bidirectional=True, batch_first=True)
        self.decoder = net(6 + s * feeding, s, 3, batch_first=True)
        self.bridge = nn.Linear(2 * h, s)
        self.keys, self.query = nn.Linear(2 * h, s, bias=False), nn.Linear(s, s, bias=False)
        self.energy = nn.Linear(s, 1, bias=False)
        self.readout, self.output = nn.Linear(s + 2 * h, s), nn.Linear(s, SIZES[1], bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.stack([self.one(x[x != 1], y) for x, y in zip(source, target, strict=True)])

    def one(self, source: Tensor, target: Tensor) -> Tensor:
        states, final = self.encoder(self.src_embed(source)[None])
        hidden = (final[0] if isinstance(final, tuple) else final)[-2:].flatten()
        first = {"bridge": self.bridge(hidden).tanh(), "last": hidden, "zero": hidden * 0}[
            self.start
        ]
        first = first.expand(3, 1, -1).contiguous()
        state: Any = (first, first) if isinstance(final, tuple) else first
        feed, logits = torch.zeros(1, 1, 10).double(), []
        for token in target:
            x = self.trg_embed(token)[None, None]
            top, state = self.decoder(torch.cat([x, feed], 2) if self.feeding else x, state)
            if self.attention == "luong":
                scores = self.keys(states[0]) @ top[0, 0]
            else:
                scores = self.energy((self.keys(states[0]) + self.query(top[0])).tanh())[:, 0]
            context = scores.softmax(0) @ states[0]
            feed = self.readout(torch.cat([top, context[None, None]], 2)).tanh()
            logits.append(self.output(feed)[0, 0])
        return torch.stack(logits)

    def state(self) -> State:
        names = {"src_embed": "src_embed.lut", "trg_embed": "trg_embed.lut",
                 "encoder": "encoder.rnn", "decoder": "decoder.rnn",
                 "keys": "decoder.attention.key_layer", "readout": "decoder.att_vector_layer",
                 "output": "decoder.output_layer"}  # fmt: skip
        if self.start == "bridge":
            names["bridge"] = "decoder.bridge_layer"
        if self.attention == "bahdanau":
            names |= {"query": "decoder.attention.query_layer",
                      "energy": "decoder.attention.energy_layer"}  # fmt: skip
        return {
            names[key.partition(".")[0]] + "." + key.partition(".")[2]: value.clone()
            for key, value in self.state_dict().items()
            if key.partition(".")[0] in names
        }


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
@pytest.mark.parametrize(("start", "feeding"), [("bridge", True), ("last", False), ("zero", True)])
def test_recurrent(cell: str, attention: str, start: str, feeding: bool, tmp_path: Path) -> None:
    network = JoeyRecurrent(cell, attention, start, feeding)
    randomize(network)
    model = {
        "encoder": {"rnn_type": cell, "hidden_size": 5, "num_layers": 2, "bidirectional": True,
                    "embeddings": {"embedding_dim": 4}},
        "decoder": {"rnn_type": cell, "hidden_size": 10, "num_layers": 3, "attention": attention,
                    "embeddings": {"embedding_dim": 6}, "init_hidden": start,
                    "input_feeding": feeding, "type": "recurrent"},
    }  # fmt: skip
    write(tmp_path, network.state(), model)
    check(tmp_path, network)


@pytest.mark.parametrize(("given", "expected"), [
    ({"lang": "de", "level": "word", "lowercase": False}, ("de",)), ("fr", ("fr",)),
    ({"level": "word", "lang": ["x"]}, ()), ({"level": "word", "lang": "no code!"}, ()),
])  # fmt: skip
def test_the_languages_are_those_of_the_configuration(
    given: Any, expected: tuple[str, ...], tmp_path: Path
) -> None:
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    shared = {"level": "word", "lowercase": False, "src_vocab": "src_vocab.txt"}
    write(tmp_path, network.state(), transformer(), src=given, **shared)
    import_checkpoint(tmp_path, tmp_path / "out", default_registry())
    about = read(tmp_path / "out", default_registry()).about
    assert (about.source_languages, about.target_languages) == (expected, ("a",))


def faulty(folder: Path, model: dict[str, Any], state: State | None = None, **data: Any) -> str:
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    write(folder, network.state() | (state or {}), model, **data)
    with pytest.raises(ConversionError) as caught:
        import_checkpoint(folder, folder / "out", default_registry())
    assert not (folder / "out").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("testing", "expected"),
    [
        ({"beam_size": 5, "beam_alpha": 1.5}, {"beam": 5, "length_penalty": 1.5}),
        ({"beam_size": 5, "alpha": -1}, {"beam": 5, "length_penalty": 0.0}),
        ({"beam_size": 5, "alpha": float("nan")}, {"beam": 5, "length_penalty": 0.0}),
        ({"beam_size": 1, "min_output_length": 1, "max_output_length": -1}, {}),
        ({"min_output_length": 4, "max_output_length": 9}, {"min_length": 5, "max_length": 9}),
        ({"min_output_length": 40, "max_output_length": 9}, {"max_length": 9}),
        ({"beam_size": "5", "max_output_length": True}, {}),
        (None, {}),
    ],
)
def test_the_search_is_that_of_the_configuration(
    testing: object, expected: dict[str, Any], tmp_path: Path
) -> None:
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    write(tmp_path, network.state(), transformer())
    file = tmp_path / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**config, "testing": testing}), encoding="utf-8")
    import_checkpoint(tmp_path, tmp_path / "out", default_registry())
    about = read(tmp_path / "out", default_registry()).about
    assert (about.decoding, about.own_penalty) == (expected, True)


def test_all_settings_without_a_counterpart_are_named(tmp_path: Path) -> None:
    model = transformer(activation="softplus", alpha=2.0)
    model["decoder"]["ff_size"] = 99
    message = faulty(tmp_path, model)
    for part in ("activation 'softplus' has no counterpart", "alpha 2.0 needs layer_norm: post",
                 "ff_size of encoder and decoder differ: 24, 99"):  # fmt: skip
        assert part in message


def test_all_faults_of_tensors_are_named(tmp_path: Path) -> None:
    message = faulty(tmp_path, transformer(), {"encoder.layers.0.layer_norm.bias": torch.zeros(1),
                                               "more": torch.zeros(1)})  # fmt: skip
    assert "encoder.layers.0.layer_norm.bias is (1,), not (16,)" in message
    assert "more is not a tensor of this network" in message


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"level": "bpe", "tokenizer_type": "subword-nmt", "tokenizer_cfg": {"codes": "/x/c.bpe"}},
         "it has no c.bpe, which config.yaml names"),
        ({"level": "word", "tokenizer_cfg": {"pretokenizer": "moses"}}, "tokenized by Moses first"),
        ({"level": "magic"}, "its tokenizer has no counterpart: level 'magic'"),
    ],
)  # fmt: skip
def test_tokenizers_that_cannot_be_read_are_refused(
    side: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in faulty(tmp_path, transformer(), src=side)


@pytest.mark.parametrize(("moses", "ids"), [(False, [3]), (True, [4, 3])])
def test_text_that_moses_has_tokenized_keeps_its_spaces(
    moses: bool, ids: list[int], tmp_path: Path
) -> None:
    """JoeyNMT removes spaces before punctuation (`normalize`), then Moses adds them."""
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    side = {"lang": "a", "level": "word", "lowercase": False, "normalize": True,
            "tokenizer_cfg": {"pretokenizer": "moses" if moses else "none"}}  # fmt: skip
    write(tmp_path, network.state(), transformer(), src=side)
    options = {"pretokenized": "yes"}
    import_checkpoint(tmp_path, tmp_path / "out", default_registry(), None, options)
    tokenizer = read(tmp_path / "out", default_registry()).source_tokenizer
    assert tokenizer.encode(["a0 ."]) == [ids]


def of_version_1(folder: Path, level: str, entries: list[str], **options: str) -> Checkpoint:
    """Return a checkpoint of version 1, in which both sides share the settings of text."""
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    write(folder, network.state(), transformer(), src="de", trg="en", level=level, lowercase=True)
    for name, size in zip(("src", "trg"), SIZES, strict=True):
        tokens = [*entries, *words(size - 4 - len(entries), "w")]
        (folder / f"{name}_vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    import_checkpoint(folder, folder / "out", default_registry(), None, options)
    return read(folder / "out", default_registry())


def test_characters_of_version_1(tmp_path: Path) -> None:
    checkpoint = of_version_1(tmp_path, "char", ["a", " ", "\u2028", "b"])
    (ids,) = checkpoint.source_tokenizer.encode(["A b\u2028c"])
    assert ids == [4, 5, 7, 6, 3]
    assert checkpoint.target_tokenizer.decode(ids) == "a b\u2028⁇"


@pytest.mark.parametrize(("options", "text"), [({}, "a@@ b  a"), ({"codes": "c.bpe"}, "AB a")])
def test_byte_pair_parts_of_version_1(options: dict[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "c.bpe").write_text("#version: 0.2\nx y\n", encoding="utf-8")
    checkpoint = of_version_1(tmp_path, "bpe", ["a", "a@@", "b"], **options)
    (ids,) = checkpoint.source_tokenizer.encode([text])
    assert ids == [5, 6, 4]
    assert checkpoint.target_tokenizer.decode(ids) == "ab a"


def test_codes_beside_those_of_the_configuration_are_refused(tmp_path: Path) -> None:
    network = JoeyTransformer({"encoder_normalize_before": True, "eps": 1e-6})
    write(tmp_path, network.state(), transformer())
    with pytest.raises(ConversionError, match="the option codes is for version 1"):
        import_checkpoint(tmp_path, tmp_path / "out", default_registry(), None, {"codes": "c.bpe"})


def test_special_tokens_elsewhere_are_refused(tmp_path: Path) -> None:
    message = faulty(tmp_path, transformer(), special_symbols={"pad_id": 9})
    assert "src_vocab.txt has not '<pad>' as entry 9" in message


def test_tags_of_languages_are_the_only_reason(tmp_path: Path) -> None:
    message = faulty(tmp_path, transformer(), special_symbols={"lang_tags": ["<de>"]})
    assert "its special_symbols have no counterpart" in message
    assert "has no four special tokens" not in message


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system ['touch ran']", "a: [", "7"])
def test_a_configuration_that_is_not_plain_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"decoder.att_vector_layer.weight": torch.zeros(1)}, {})
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConversionError, match=r"config\.yaml (is not YAML|has no sections)"):
        import_checkpoint(tmp_path, tmp_path / "out", default_registry())
    assert not (tmp_path / "ran").exists()


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)
)


def test_aliases_that_multiply_values_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"decoder.att_vector_layer.weight": torch.zeros(1)}, {})
    (tmp_path / "config.yaml").write_text(f"{LAUGHS}model: {{encoder: *a29}}\ndata: {{}}\n")
    with pytest.raises(ConversionError, match=r"config\.yaml describes more than 100,000 values"):
        import_checkpoint(tmp_path, tmp_path / "out", default_registry())


def test_settings_are_printed_in_part(tmp_path: Path) -> None:
    model = transformer(activation=[["x" * 999] * 20] * 5, layer_norm="y" * 9999)
    model["decoder"]["num_heads"] = int("9" * 4000)
    message = faulty(tmp_path, model, src={"level": {"a": ["z" * 999] * 99}})
    assert len(message) < 3000
    assert "its setting activation is [['xxx" in message
    assert "its setting num_heads is <a large number>" in message
