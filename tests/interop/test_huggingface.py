"""A Hugging Face folder has the weights with which Marian and Pegasus give the same logits.

Here their equations are computed from the exported weights by name; `tests/campaigns/exports.py`
loads the folders in transformers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from tests.interop.checkpoints import SOURCES, TARGETS, checkpoint
from zoo.data.batches import batch_sources
from zoo.errors import ConversionError
from zoo.interop.exporter import export_checkpoint
from zoo.registry.registry import default_registry

CONFIGS: dict[str, dict[str, Any]] = {
    "Marian, all shared": {"share": "all"},
    "Marian, target shared, no biases": {"share": "target", "attention_bias": False},
    "Marian, untied, gelu": {"share": "none", "activation": "gelu", "output_bias": False},
    "Pegasus": {"norm": "pre", "share": "all", "scale_embeddings": False},
}


class Reference:
    """The equations of Marian (post-norm) and Pegasus (pre-norm), from weights by name."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.w = load_file(folder / "model.safetensors")
        self.pre = self.config["model_type"] == "pegasus"

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def table(self, side: str) -> Tensor:
        shared = self.w.get("model.shared.weight")
        return self.w[f"model.{side}.embed_tokens.weight"] if shared is None else shared

    def embed(self, side: str, tokens: Tensor) -> Tensor:
        d = self.config["d_model"]
        x = self.table(side)[tokens] * (math.sqrt(d) if self.config["scale_embedding"] else 1)
        for p in range(tokens.shape[1]):
            for i in range(d // 2):
                angle = p / 10000 ** (2 * i / d)
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
        return x @ output.T + self.w["final_logits_bias"]


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


def test_what_it_cannot_express_is_refused_with_all_reasons(tmp_path: Path) -> None:
    made = checkpoint(
        "transformer", shared=False, norm="pre", positions="fairseq", norm_epsilon=1e-3
    )
    with pytest.raises(ConversionError) as error:
        export_checkpoint(made, "huggingface", tmp_path / "out", default_registry())
    for reason in (
        "positions are fairseq",
        "norm_epsilon 0.001",
        "two tokenizers",
        "share is none",
    ):
        assert reason in str(error.value)
    assert not list(tmp_path.iterdir())
