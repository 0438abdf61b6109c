"""Hugging Face transformers in `benchmarks/decode.py`: the zoo's Transformer as a Marian model."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from common import BEGIN, END, PADDING, POSITIONS, THREADS, VOCAB

from common import Batch, Decode, Job, before_end, measure, padded  # isort: skip
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel


def layer(source: str, target: str, arrays: dict[str, Tensor], cross: bool) -> dict[str, Tensor]:
    """Return the weights of one layer under Marian's names."""
    weights = {}
    for kind in ("weight", "bias"):
        parts = arrays[f"{source}.attention.project.{kind}"].chunk(3)
        for letter, part in zip("qkv", parts, strict=True):
            weights[f"{target}.self_attn.{letter}_proj.{kind}"] = part
        weights[f"{target}.self_attn.out_proj.{kind}"] = arrays[f"{source}.attention.out.{kind}"]
        weights[f"{target}.self_attn_layer_norm.{kind}"] = arrays[f"{source}.attention_norm.{kind}"]
        weights[f"{target}.fc1.{kind}"] = arrays[f"{source}.inner.{kind}"]
        weights[f"{target}.fc2.{kind}"] = arrays[f"{source}.outer.{kind}"]
        weights[f"{target}.final_layer_norm.{kind}"] = arrays[f"{source}.feedforward_norm.{kind}"]
        if cross:
            parts = arrays[f"{source}.cross.project.{kind}"].chunk(2)
            for letter, part in zip("kv", parts, strict=True):
                weights[f"{target}.encoder_attn.{letter}_proj.{kind}"] = part
            weights[f"{target}.encoder_attn.q_proj.{kind}"] = arrays[f"{source}.cross.query.{kind}"]
            weights[f"{target}.encoder_attn.out_proj.{kind}"] = arrays[f"{source}.cross.out.{kind}"]
            name = f"{target}.encoder_attn_layer_norm.{kind}"
            weights[name] = arrays[f"{source}.cross_norm.{kind}"]
    return weights


def marian_weights(arrays: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Return all weights under Marian's names."""
    weights = {
        "model.encoder.embed_tokens.weight": arrays["source_embedding.weight"],
        "model.decoder.embed_tokens.weight": arrays["target_embedding.weight"],
        "model.encoder.embed_positions.weight": arrays["positions"],
        "model.decoder.embed_positions.weight": arrays["positions"],
        "lm_head.weight": arrays["output.weight"],
        "final_logits_bias": torch.zeros(1, VOCAB),
    }
    for number in range(layers):
        for side in ("encoder", "decoder"):
            target = f"model.{side}.layers.{number}"
            weights |= layer(f"{side}.{number}", target, arrays, side == "decoder")
    return weights


def make(job: Job) -> tuple[Decode, int]:
    torch.set_num_threads(THREADS)
    sizes = job.sizes
    config = MarianConfig(
        vocab_size=VOCAB,
        decoder_vocab_size=VOCAB,
        d_model=sizes["dim"],
        encoder_layers=sizes["layers"],
        decoder_layers=sizes["layers"],
        encoder_attention_heads=sizes["heads"],
        decoder_attention_heads=sizes["heads"],
        encoder_ffn_dim=sizes["feedforward"],
        decoder_ffn_dim=sizes["feedforward"],
        max_position_embeddings=POSITIONS,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        pad_token_id=PADDING,
        bos_token_id=BEGIN,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=None,
    )
    with np.load(job.weights) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file}
    model = MarianMTModel(config).eval()
    model.load_state_dict(marian_weights(arrays, sizes["layers"]))
    model.to(job.device, torch.bfloat16 if job.precision == "bf16" else torch.float32)
    generation = GenerationConfig(
        pad_token_id=PADDING,
        bos_token_id=BEGIN,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        num_beams=job.beam,
        do_sample=False,
        length_penalty=0.0 if job.beam > 1 else None,
        max_new_tokens=job.most,
        min_new_tokens=job.least,
        use_cache=True,
    )

    @torch.inference_mode()
    def decode(batch: Batch) -> Batch:
        source = padded(batch).to(job.device)
        outputs = model.generate(
            source, attention_mask=(source != PADDING).long(), generation_config=generation
        )
        return [before_end(tokens[1:]) for tokens in outputs.tolist()]

    parameters = sum(array.numel() for name, array in arrays.items() if name != "positions")
    return decode, parameters


measure("transformers", transformers.__version__, make)
