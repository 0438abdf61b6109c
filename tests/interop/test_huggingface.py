"""A Hugging Face folder has the weights with which classes of transformers give the same logits.

Here their equations are computed from the exported weights by name; `tests/campaigns/exports.py`
loads the folders in transformers.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

import zoo
from tests.interop.checkpoints import SOURCES, TARGETS, checkpoint, write
from tests.interop.huggingface import marian
from tests.interop.test_families import folder_of as m2m100
from zoo.data.batches import batch_sources
from zoo.errors import CheckpointError, ConversionError
from zoo.interop.exporter import export_checkpoint
from zoo.registry.registry import default_registry
from zoo.translation.translator import Translator

LEARNED = {
    "positions": "learned", "position_offset": 2, "max_source_positions": 40,
    "max_target_positions": 40,
}  # fmt: skip
M2M100 = {"norm": "pre", "positions": "fairseq", "position_offset": 1}
CONFIGS: dict[str, dict[str, Any]] = {
    "Marian, all shared": {"share": "all"},
    "Marian, target shared, no biases": {"share": "target", "attention_bias": False},
    "Marian, untied, gelu": {"share": "none", "activation": "gelu", "output_bias": False},
    "Marian, own output": {"share": "embeddings"},
    "Pegasus": {"norm": "pre", "share": "all", "scale_embeddings": False},
    "Pegasus, untied": {"norm": "pre", "share": "none"},
    "Pegasus, own output": {"norm": "pre", "share": "embeddings"},
    "Pegasus, learned": {"norm": "pre", "share": "all", **LEARNED, "position_offset": 0},
    "BART": {"share": "all", "embedding_norm": True, **LEARNED},
    "mBART, untied": {"norm": "pre", "embedding_norm": True, "activation": "gelu", **LEARNED},
    "M2M-100": {**M2M100, "share": "all", "output_bias": False},
    "M2M-100, own output": {**M2M100, "share": "embeddings", "output_bias": False},
    "M2M-100 with a bias": {**M2M100, "share": "all"},
    "M2M-100 with a bias, untied": {**M2M100, "share": "none"},
}


class Reference:
    """The equations of Marian (post-norm) and Pegasus (pre-norm), from weights by name."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.w = load_file(folder / "model.safetensors")
        self.kind = self.config["model_type"]
        self.pre = self.kind in ("pegasus", "mbart", "m2m_100")

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def table(self, side: str) -> Tensor:
        own = self.w.get(f"model.{side}.embed_tokens.weight")
        return self.w["model.shared.weight"] if own is None else own

    def embed(self, side: str, tokens: Tensor) -> Tensor:
        d = self.config["d_model"]
        x = self.table(side)[tokens] * (math.sqrt(d) if self.config["scale_embedding"] else 1)
        if self.kind in ("bart", "mbart"):
            rows = self.w[f"model.{side}.embed_positions.weight"]
            return self.norm(f"model.{side}.layernorm_embedding", x + rows[2 : 2 + x.shape[1]])
        if self.kind == "pegasus":  # its table is stored
            return x + self.w[f"model.{side}.embed_positions.weight"][: x.shape[1]]
        offset, last = (self.config["pad_token_id"] + 1, 1) if self.kind == "m2m_100" else (0, 0)
        for p in range(tokens.shape[1]):
            for i in range(d // 2):
                angle = (p + offset) / 10000 ** (i / (d // 2 - last))
                x[:, p, i] += math.sin(angle)
                x[:, p, d // 2 + i] += math.cos(angle)
        return x

    def attend(self, name: str, x: Tensor, y: Tensor, allowed: Tensor) -> Tensor:
        heads = self.config["encoder_attention_heads"]
        q, k, v = (
            self.linear(f"{name}.{letter}_proj", z).unflatten(-1, (heads, -1)).transpose(1, 2)
            for letter, z in (("q", x), ("k", y), ("v", y))
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        return self.linear(f"{name}.out_proj", (weights @ v).transpose(1, 2).flatten(2))

    def stack(
        self, side: str, x: Tensor, own: Tensor, cross: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        activation = getattr(F, self.config["activation_function"])
        for number in range(self.config[f"{side}_layers"]):
            path = f"model.{side}.layers.{number}"

            def feedforward(y: Tensor, path: str = path) -> Tensor:
                return self.linear(f"{path}.fc2", activation(self.linear(f"{path}.fc1", y)))

            def to_self(y: Tensor, path: str = path) -> Tensor:
                return self.attend(f"{path}.self_attn", y, y, own)

            def to_source(y: Tensor, path: str = path) -> Tensor:
                assert cross is not None
                return self.attend(f"{path}.encoder_attn", y, *cross)

            sublayers = [("self_attn_layer_norm", to_self)]
            sublayers += [] if cross is None else [("encoder_attn_layer_norm", to_source)]
            for norm, sublayer in (*sublayers, ("final_layer_norm", feedforward)):
                if self.pre:
                    x = x + sublayer(self.norm(f"{path}.{norm}", x))
                else:
                    x = self.norm(f"{path}.{norm}", x + sublayer(x))
        return self.norm(f"model.{side}.layer_norm", x) if self.pre else x

    def logits(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        allowed, n = mask[:, None, None], target.shape[1]
        memory = self.stack("encoder", self.embed("encoder", source), allowed, None)
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        x = self.stack("decoder", self.embed("decoder", target), causal, (memory, allowed))
        table = self.table("decoder") if self.config["tie_word_embeddings"] else None
        output = self.w["lm_head.weight"] if table is None else table
        return x @ output.T + self.w.get("final_logits_bias", torch.zeros(1))


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_logits_are_equal(name: str, tmp_path: Path) -> None:
    made = checkpoint("transformer", **CONFIGS[name])
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    source, mask = batch_sources(made.source_tokenizer.encode(SOURCES))
    target, _ = batch_sources(made.target_tokenizer.encode(TARGETS))
    target = torch.cat([torch.full((len(target), 1), 1), target], 1)
    expected = made.model(source, mask, target).logits
    actual = Reference(tmp_path / "out").logits(source, mask, target)
    assert torch.allclose(actual, expected, atol=1e-4)
    if name.startswith(("mBART", "M2M-100")):
        with pytest.raises(ConversionError, match="imported: its vocabulary has no tags of langu"):
            zoo.load(tmp_path / "out")
    else:
        back = zoo.load(tmp_path / "out", device="cpu").score(SOURCES, TARGETS)
        for row, wanted in zip(back, Translator(made).score(SOURCES, TARGETS), strict=True):
            assert row == pytest.approx(wanted, abs=1e-4)


def test_its_tokenizer_gives_the_same_ids_with_the_end_token(tmp_path: Path) -> None:
    made = checkpoint("transformer", share="all")
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    texts = [*SOURCES, "an unknown Ω", ""]
    tokenizer.encode_special_tokens = True  # as `split_special_tokens` of its configuration
    actual = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert actual == [[*ids, 2] for ids in made.source_tokenizer.encode(texts)]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: translation\n")


@pytest.mark.parametrize(
    ("penalty", "changes", "beam"),
    [
        (1.5, {}, 1),
        (0.0, {}, 5),
        (1.5, {"origin": "imported"}, 5),
        (1.5, {"origin": "imported", "own_penalty": True}, 1),
    ],
)
def test_a_beam_is_recommended_only_without_a_penalty_of_another_formula(
    penalty: float, changes: dict[str, Any], beam: int, tmp_path: Path
) -> None:
    made = checkpoint("transformer", share="all")
    decoding = {"beam": 5, "length_penalty": penalty}
    made = replace(made, about=replace(made.about, decoding=decoding, **changes))
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    given = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert given["num_beams"] == beam
    assert given["suppress_tokens"] == [0, 1, 3]
    assert given["max_length"] == 512


@pytest.mark.parametrize(
    "decoding", [{}, {"beam": 5, "length_penalty": 1.5}, {"max_length": 40, "min_length": 3}]
)
def test_a_recommended_search_comes_back_unless_the_folder_was_changed(
    decoding: dict[str, float], tmp_path: Path
) -> None:
    made = checkpoint("transformer", share="all")
    made = replace(made, about=replace(made.about, decoding=decoding))
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    assert zoo.load(tmp_path / "out").checkpoint.about.decoding == decoding
    file = tmp_path / "out" / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"max_length": 100}))
    assert zoo.load(tmp_path / "out").checkpoint.about.decoding["max_length"] == 99


@pytest.mark.parametrize(("penalty", "beam"), [(1.5, 1), (0.0, 5)])
def test_a_penalty_of_the_zoo_is_not_written_by_a_later_export(
    penalty: float, beam: int, tmp_path: Path
) -> None:
    made = checkpoint("transformer", share="all")
    decoding = {"beam": 5, "length_penalty": penalty}
    made = replace(made, about=replace(made.about, decoding=decoding))
    export_checkpoint(made, "huggingface", tmp_path / "1", default_registry())
    for number in (1, 2):
        zoo.export(tmp_path / f"{number}", "huggingface", tmp_path / f"{number + 1}")
        file = tmp_path / f"{number + 1}" / "generation_config.json"
        assert json.loads(file.read_text())["num_beams"] == beam
        about = zoo.load(file.parent).checkpoint.about
        assert (about.decoding, about.own_penalty) == (decoding, penalty > 0)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_sinusoids_in_16_bits_are_written_again(precision: str, tmp_path: Path) -> None:
    made = checkpoint("transformer", norm="pre", share="all")
    first, second = tmp_path / "first", tmp_path / "second"
    export_checkpoint(made, "huggingface", first, default_registry(), precision=precision)
    zoo.export(first, "huggingface", second, precision=precision)
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_longest_output_is_within_learned_positions(tmp_path: Path) -> None:
    positions: dict[str, Any] = {
        "positions": "learned", "position_offset": 2, "max_source_positions": 60,
        "max_target_positions": 60,
    }  # fmt: skip
    made = checkpoint("transformer", share="all", embedding_norm=True, **positions)
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    given = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert given["max_length"] == 60
    assert zoo.load(tmp_path / "out").checkpoint.about.decoding == {}


def test_all_of_the_recommended_search_that_they_have_is_written(tmp_path: Path) -> None:
    made = checkpoint("transformer", share="all")
    token = made.target_tokenizer.token(7)
    decoding = {"sample": True, "temperature": 0.5, "min_length": 3, "max_length": 9,
                "no_repeat_ngram_size": 2, "banned": (token, 6), "allow_empty": True}  # fmt: skip
    made = replace(made, about=replace(made.about, decoding=decoding))
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    given = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    expected = {"num_beams": 1, "do_sample": True, "temperature": 0.5, "top_k": 0, "top_p": 1.0,
                "min_length": 3, "max_length": 10, "no_repeat_ngram_size": 2,
                "suppress_tokens": [0, 1, 3, 6, 7]}  # fmt: skip
    assert {key: given[key] for key in expected} == expected
    assert given["begin_suppress_tokens"] is None


@pytest.mark.parametrize("tags", [(), (">>fra<<", ">>ita<<")])
def test_an_imported_marian_folder_is_written_again(tags: tuple[str, ...], tmp_path: Path) -> None:
    weights = marian(tmp_path / "foreign", tags, activation_function="relu")
    zoo.export(tmp_path / "foreign", "huggingface", tmp_path / "exported")
    written = load_file(tmp_path / "exported" / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], weights[name]) for name in weights)
    for name in ("source.spm", "target.spm"):
        model = (tmp_path / "foreign" / name).read_bytes()
        assert (tmp_path / "exported" / name).read_bytes() == model
    for name in ("vocab.json", "config.json", "tokenizer_config.json"):
        foreign, exported = (
            json.loads((tmp_path / side / name).read_text()) for side in ("foreign", "exported")
        )
        if name != "vocab.json":
            foreign = {key: value for key, value in foreign.items() if key in exported}
            exported = {key: value for key, value in exported.items() if key in foreign}
        if tags and "target_lang" in foreign:  # its tags name them
            foreign["target_lang"] = "fra+ita"
        assert exported == foreign
    generation = json.loads((tmp_path / "exported" / "generation_config.json").read_text())
    assert generation["num_beams"] == 6


def tuned(parent: Path, out: Path) -> Path:
    """Write a checkpoint that differs from its parent in the begin token's row, and the biases."""
    made = zoo.load(parent).checkpoint
    with torch.no_grad():
        made.model.get_parameter("target_embedding.weight")[1] += 0.5
        bias = made.model.get_parameter("output.bias")
        bias.add_(torch.linspace(-0.3, 0.3, len(bias)))
    return write(replace(made, about=replace(made.about, origin="fine-tuned")), out)


@pytest.mark.parametrize("separate", [False, True])
def test_a_tuned_marian_gets_an_entry_from_which_the_decoder_starts(
    separate: bool, tmp_path: Path
) -> None:
    weights = marian(tmp_path / "foreign")
    if separate:
        for name in ("config", "vocab"):
            values = json.loads((tmp_path / "foreign" / f"{name}.json").read_text())
            (tmp_path / "foreign" / "target_vocab.json").write_text(json.dumps(values))
        config = json.loads((tmp_path / "foreign" / "config.json").read_text())
        more = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(values)}
        (tmp_path / "foreign" / "config.json").write_text(json.dumps(config | more))
        shared = weights.pop("model.shared.weight")
        weights["model.encoder.embed_tokens.weight"] = shared
        weights["model.decoder.embed_tokens.weight"] = shared + 0.25
        save_file(weights, tmp_path / "foreign" / "model.safetensors")
    check_tuned(tmp_path, len(json.loads((tmp_path / "foreign" / "vocab.json").read_text())))
    settings = json.loads((tmp_path / "exported" / "tokenizer_config.json").read_text())
    assert settings["bos_token"] == "<start>"  # special, so that no text has it


def check_tuned(folder: Path, size: int) -> None:
    """Export a tuned checkpoint, and require the same network when it is imported again."""
    parent = tuned(folder / "foreign", folder / "tuned")
    zoo.export(parent, "huggingface", folder / "exported")
    config, generation = (
        json.loads((folder / "exported" / f"{kind}.json").read_text())
        for kind in ("config", "generation_config")
    )
    assert config["decoder_start_token_id"] == generation["decoder_start_token_id"] == size
    assert size in generation["suppress_tokens"]
    assert config["vocab_size"] == size + 1
    again, before = zoo.load(folder / "exported").checkpoint, zoo.load(parent).checkpoint
    for text in SOURCES:
        ids = before.source_tokenizer.encode([text])
        assert again.source_tokenizer.encode([text]) == ids
        given = torch.tensor([[*ids[0], 2]])
        mask, target = torch.ones_like(given, dtype=torch.bool), torch.tensor([[1, 7, 9, 4]])
        with torch.no_grad():
            logits = [c.model(given, mask, target).logits[0] for c in (before, again)]
        torch.testing.assert_close(logits[0][:, 2:], logits[1][:, 2:], rtol=0, atol=1e-5)


TAGS = {
    "BART": (),
    "Pegasus": (),
    "mBART, untied": ("en_XX", "fr_XX"),
    "M2M-100": ("eng_Latn", "fra_Latn"),
}
"""The tags of the languages in the vocabulary of each class."""


def folder_of(name: str, folder: Path) -> dict[str, Tensor]:
    """Write a folder as of transformers, in which a decoder starts from `</s>`; return weights."""
    export_checkpoint(
        checkpoint("transformer", **CONFIGS[name]), "huggingface", folder, default_registry()
    )
    config = json.loads((folder / "config.json").read_text())
    words = [f"▁{word}" for word in sorted({word for line in SOURCES for word in line.split()})]
    words += [f"w{i}" for i in range(config["vocab_size"] - len(words) - len(TAGS[name]) - 4)]
    names = ["<pad>", "<s>", "</s>", "<unk>", *words, *TAGS[name]]
    made = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([*names[:4], *TAGS[name]])
    made.save(str(folder / "tokenizer.json"))
    classes = {"BART": "Bart", "Pegasus": "Pegasus", "M2M-100": "Nllb"}
    settings = {"tokenizer_class": f"{classes.get(name, 'MBart50')}Tokenizer"}
    if TAGS[name]:
        settings |= {"src_lang": TAGS[name][0], "tgt_lang": TAGS[name][1]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps(config | {"decoder_start_token_id": 2}))
    (folder / "generation_config.json").write_text('{"num_beams": 4, "length_penalty": 0.8}')
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", TAGS)
def test_an_imported_folder_is_written_again(name: str, tmp_path: Path) -> None:
    weights = folder_of(name, tmp_path / "foreign")
    zoo.export(tmp_path / "foreign", "huggingface", tmp_path / "exported")
    written = load_file(tmp_path / "exported" / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], weights[name]) for name in weights)
    config, generation, settings = (
        json.loads((tmp_path / "exported" / f"{kind}.json").read_text())
        for kind in ("config", "generation_config", "tokenizer_config")
    )
    assert config["decoder_start_token_id"] == 2
    assert (generation["num_beams"], generation["length_penalty"]) == (4, 0.8)
    assert generation["suppress_tokens"] == [0, 3]
    tokenizer, foreign = (
        Tokenizer.from_file(str(tmp_path / side / "tokenizer.json"))
        for side in ("exported", "foreign")
    )
    (plain,) = foreign.encode_batch(["a dog sings Ω"], add_special_tokens=False)
    prefix = {"BART": [1], "Pegasus": []}.get(name, [config["vocab_size"] - 2])
    assert tokenizer.encode("a dog sings Ω").ids == [*prefix, *plain.ids, 2]
    if TAGS[name]:
        assert (settings["src_lang"], settings["tgt_lang"]) == TAGS[name]
        assert generation["forced_bos_token_id"] == config["vocab_size"] - 1
        assert settings["additional_special_tokens"] == [*TAGS[name]]
    again = zoo.load(tmp_path / "exported")
    expected = zoo.load(tmp_path / "foreign").translate(SOURCES, max_length=8)
    assert again.translate(SOURCES, max_length=8) == expected


@pytest.mark.parametrize("name", TAGS)
def test_a_tuned_folder_gets_an_entry_from_which_the_decoder_starts(
    name: str, tmp_path: Path
) -> None:
    folder_of(name, tmp_path / "foreign")
    check_tuned(
        tmp_path, json.loads((tmp_path / "foreign" / "config.json").read_text())["vocab_size"]
    )


def test_the_first_mbart_is_written_with_its_tag_at_the_end_of_a_source(tmp_path: Path) -> None:
    weights = folder_of("mBART, untied", tmp_path / "foreign")
    config, settings = (
        json.loads((tmp_path / "foreign" / f"{kind}.json").read_text())
        for kind in ("config", "tokenizer_config")
    )
    tag = config["vocab_size"] - 1
    for name, values in (
        ("config", config | {"decoder_start_token_id": tag}),
        ("tokenizer_config", settings | {"tokenizer_class": "MBartTokenizer"}),
    ):
        (tmp_path / "foreign" / f"{name}.json").write_text(json.dumps(values))
    zoo.export(tmp_path / "foreign", "huggingface", tmp_path / "again")
    written = load_file(tmp_path / "again" / "model.safetensors")
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], weights[name]) for name in weights)
    made = json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())
    kinds = ("tokenizer_class", "src_lang", "tgt_lang")
    assert [made[kind] for kind in kinds] == ["MBartTokenizer", "en_XX", "fr_XX"]
    made = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert (made["decoder_start_token_id"], made["forced_bos_token_id"]) == (tag, None)
    tokenizer = Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert tokenizer.encode("a dog").tokens[-2:] == ["</s>", "en_XX"]
    check_tuned(tmp_path, config["vocab_size"])
    assert zoo.load(tmp_path / "exported").checkpoint.about.target_languages == ("fr_XX",)


def test_a_tuned_m2m100_names_its_tags_and_its_start(tmp_path: Path) -> None:
    config, _ = m2m100(tmp_path / "foreign", "m2m100")
    size = config["vocab_size"]
    check_tuned(tmp_path, size)
    for parent, more in (("foreign", []), ("tuned", ["<start>"])):
        zoo.export(tmp_path / parent, "huggingface", tmp_path / f"{parent}-again")
        written = tmp_path / f"{parent}-again"
        settings = json.loads((written / "tokenizer_config.json").read_text())
        named = settings["additional_special_tokens"]
        assert (named[0], named[99], named[100:]) == ("__af__", "__zu__", more)
        decoder = settings["added_tokens_decoder"]
        assert [decoder[key]["content"] for key in decoder] == named
        assert [*decoder][:100] == [str(size - 108 + i) for i in range(100)]
        assert [*decoder][100:] == [str(size)] * len(more)


def test_a_bias_that_an_output_matrix_cannot_hold_is_refused(tmp_path: Path) -> None:
    """The last norm of M2M-100 stands for it, unless the sum of all β / γ is near 0."""
    folder_of("M2M-100", tmp_path / "foreign")
    made = zoo.load(tuned(tmp_path / "foreign", tmp_path / "tuned")).checkpoint
    for value in (0.0, 1e-6):
        with torch.no_grad():
            made.model.get_parameter("decoder_norm.bias").fill_(value)
        parent = write(made, tmp_path / str(value))
        with pytest.raises(ConversionError, match="a bias in the output layer, which M2M-100's"):
            zoo.export(parent, "huggingface", tmp_path / "out")


@pytest.mark.parametrize("architecture", ["transformer", "t5"])
def test_the_header_of_the_weights_names_their_format(architecture: str, tmp_path: Path) -> None:
    """Transformers 4.45 does not load a file without it."""
    made = checkpoint(architecture, share="all")
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


@pytest.mark.parametrize(("share", "needs"), [("none", True), ("embeddings", False)])
def test_a_pegasus_with_two_embeddings_names_the_version_that_it_needs(
    share: str, needs: bool, tmp_path: Path
) -> None:
    made = checkpoint("transformer", norm="pre", share=share)
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert ("- Needs transformers 5: " in card) is needs


@pytest.mark.parametrize("architecture", ["transformer", "t5"])
def test_weights_that_16_bits_cannot_hold_are_refused(architecture: str, tmp_path: Path) -> None:
    made = checkpoint(architecture, share="all")
    with torch.no_grad():
        made.model.get_parameter("target_embedding.weight")[7, 3] = 1e6
    with pytest.raises(CheckpointError, match=r"cannot be converted to float16: .*shared.weight"):
        export_checkpoint(made, "huggingface", tmp_path / "out", default_registry(), "float16")
    assert not list(tmp_path.iterdir())
    export_checkpoint(made, "huggingface", tmp_path / "out", default_registry(), "bfloat16")


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what the class lacks": (
        {"shared": False, "positions": "learned", "norm_epsilon": 1e-3},
        ["embedding_norm is False: BART differs", "norm_epsilon 0.001", "two tokenizers"],
    ),
    "no class": ({"norm": "branch", "positions": "none"}, ["no class has norm branch"]),
    "FSMT": ({"norm": "post", "positions": "fairseq"}, ["is that of FSMT, which is only imported"]),
    "the vocabulary": (
        {"norm": "pre", "share": "all", "positions": "fairseq"},
        ["position_offset is 0: theirs is 1"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_express_is_refused_with_all_reasons(name: str, tmp_path: Path) -> None:
    values, reasons = REFUSED[name]
    made = checkpoint("transformer", **values)
    with pytest.raises(ConversionError) as error:
        export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    assert all(reason in str(error.value) for reason in reasons), error.value
    assert not list(tmp_path.iterdir())
