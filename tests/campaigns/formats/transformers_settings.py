"""Compare imported checkpoints of drawn settings with the library transformers.

Run it in the environment of `transformers_peer`, whose folders it writes:

    ZOO_DATA=… python -m tests.campaigns.formats.transformers_settings --seed 1 --cases 200

A case draws a format, the settings of a network, the type of its weights and of their files, and
some settings of `generate`. Log probabilities of padded batches are compared, in float32, then the
translations of 12 texts by `translate` with those by `generate`. An import may refuse a case, and
warns of settings that it leaves out; any other difference is printed with what repeats it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers

import zoo
from tests.campaigns.formats import transformers_peer as peer
from tests.campaigns.formats.peers import text_of
from zoo.errors import ConversionWarning, ZooError

ACTIVATIONS = ("gelu", "relu", "silu", "swish", "gelu_new", "gelu_fast", "gelu_python", "tanh",
               "gelu_pytorch_tanh", "quick_gelu")  # fmt: skip
TAGS = {"mbart": "de_DE", "nllb": "fra_Latn", "m2m100": "__cs__", "bart": "<s>"}
"""The token with which outputs of a format begin."""

LONGEST = 30


def network(chance: random.Random, format: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the sizes and the further settings of a network."""
    heads = chance.randint(1, 5)
    other = heads if chance.random() < 0.9 else chance.randint(1, 5)
    width = chance.choice([24, 40])
    size = {
        "d_model": heads * other * chance.choice([4, 6, 8]),
        "encoder_attention_heads": heads, "decoder_attention_heads": other,
        "encoder_ffn_dim": width, "decoder_ffn_dim": width,
        "encoder_layers": chance.randint(1, 3), "decoder_layers": chance.randint(1, 3),
    }  # fmt: skip
    options = {
        "activation_function": chance.choice(ACTIVATIONS),
        "scale_embedding": chance.random() < 0.5,
        "encoder_layerdrop": chance.choice([0.0, 0.5]),
    }
    if format == "marian" and chance.random() < 0.3:
        options["share_encoder_decoder_embeddings"] = False
    elif format != "fsmt":  # random networks that share it repeat their tokens
        options["tie_word_embeddings"] = chance.random() < 0.3
    return size, options


def searching(chance: random.Random, size: int, config: Any) -> dict[str, Any]:
    """Draw settings of `generate`, some of which no search here has."""
    words = [chance.randrange(6, size - 12) for _ in range(30)]
    pairs = [[one, other] for one in words for other in words]
    drawn: list[dict[str, Any]] = [
        {}, {"num_beams": chance.randint(2, 5)}, {"no_repeat_ngram_size": chance.randint(2, 3)},
        {"min_length": chance.randint(1, 8)}, {"min_new_tokens": chance.randint(1, 8)},
        {"max_new_tokens": chance.randint(2, 15)}, {"max_length": chance.randint(4, 19)},
        {"suppress_tokens": words}, {"bad_words_ids": [[word] for word in words]},
        {"bad_words_ids": pairs}, {"repetition_penalty": chance.choice([0.7, 1.5])},
        {"encoder_no_repeat_ngram_size": 1}, {"encoder_repetition_penalty": 3.0},
        {"sequence_bias": [[[word], 8.0] for word in words]}, {"begin_suppress_tokens": words},
        {"exponential_decay_length_penalty": [2, 1.5]},
        {"forced_bos_token_id": chance.choice([words[0], config.eos_token_id])},
        {"eos_token_id": [config.eos_token_id, *words]}, {"eos_token_id": [config.eos_token_id]},
        {"decoder_start_token_id": chance.choice([words[0], config.pad_token_id])},
    ]  # fmt: skip
    return dict(pair for values in chance.sample(drawn, 2) for pair in values.items())


def write(folder: Path, chance: random.Random, format: str, texts: list[str]) -> None:
    """Write the folder of a case."""
    make, _, kind = peer.FORMATS[format]
    size, options = network(chance, format)
    make(folder, texts, size, options)
    model = kind.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    count = model.get_output_embeddings().weight.shape[0]
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias[0, model.config.eos_token_id] += chance.choice([0, 3, 6])
    dtypes = [torch.float32, torch.bfloat16, torch.float16][: 1 if format == "fsmt" else 3]
    for file in folder.glob("model*.safetensors*"):
        file.unlink()
    model.to(chance.choice(dtypes)).save_pretrained(folder, max_shard_size="50KB")
    names = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
    values = {name: getattr(model.config, name) for name in names}
    values |= {"num_beams": 1, "max_length": LONGEST}
    # rankings are the same ones only so
    values |= {"length_penalty": 0.0, "early_stopping": "never"}
    if format in TAGS:
        values["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(TAGS[format])
    values |= searching(chance, count, model.config)
    unwritten = {tokenizer.pad_token_id, tokenizer.unk_token_id}
    values["suppress_tokens"] = sorted({*values.get("suppress_tokens", ()), *unwritten})
    (folder / "generation_config.json").write_text(json.dumps(values))


def compare(folder: Path, kind: Any, texts: list[str]) -> tuple[float, int, list[str]]:
    """Return the largest difference of log probabilities, the outputs that differ, the warnings."""
    foreign = kind.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    with warnings.catch_warnings(record=True, action="always") as caught:
        translator = zoo.load(str(folder))
    warned = [str(w.message) for w in caught if issubclass(w.category, ConversionWarning)]
    with torch.inference_mode():
        rows = foreign.generate(**batch)[:, 1:].tolist()
    checkpoint = translator.checkpoint
    tokenizer.eos_token = "</s>"  # FSMT's has none
    start = foreign.generation_config.decoder_start_token_id
    sizes = [e.weight.shape[0] for e in (foreign.get_input_embeddings(),
                                         foreign.get_output_embeddings())]  # fmt: skip
    orders = [peer.mapping(checkpoint, tokenizer, side, size)
              for side, size in zip(("source", "target"), sizes, strict=True)]  # fmt: skip
    inner = torch.tensor(orders[0])[batch.input_ids]
    mask = batch.attention_mask.bool()
    target = torch.randint(4, sizes[1], (len(texts), 9))
    target[target == tokenizer.pad_token_id] = tokenizer.eos_token_id
    target[:, 0] = start
    decoded = torch.tensor(orders[1])[target]
    decoded[:, 0] = 1
    model: Any = checkpoint.model
    with torch.inference_mode():
        expected = foreign(**batch, decoder_input_ids=target, use_cache=False).logits
        given = peer.our_source(model, inner.masked_fill(~mask, 0), mask)
        logits = model(*given, decoded).logits[..., torch.tensor(orders[1])]
    difference = float((logits.log_softmax(-1) - expected.log_softmax(-1)).abs().max())
    made = translator.translate(texts, split=False, details=True, allow_empty=True)
    beams = foreign.generation_config.num_beams or 1
    differ = 0
    for row, one in zip(rows, made, strict=True):
        ids = [orders[1][i] for i in row]
        ended = 2 in ids
        ids = ids[: ids.index(2)] if ended else [i for i in ids if i]
        same = [*one.tokens] == [checkpoint.target_tokenizer.token(i) for i in ids]
        differ += not same and (ended or beams == 1)  # of beams, those that are cut rank otherwise
    return difference, differ, warned


def main() -> None:
    """Draw the cases and print what is not equal, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=200)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    texts = text_of(400)
    short = [text for text in texts if 20 < len(text) < 60][:12]
    counts: Counter[str] = Counter()
    for case in range(given.cases):
        chance = random.Random(f"{given.seed} {case}")
        torch.manual_seed(case)
        format = chance.choice([*peer.FORMATS])
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "folder"
            try:
                write(folder, chance, format, texts)
                difference, differ, warned = compare(folder, peer.FORMATS[format][2], short)
            except ZooError as error:
                reason = str(error).partition(" cannot be imported: ")[2]
                counts[f"refused: {re.split('[0-9]', reason)[0]}"] += 1
                continue
            except ValueError as error:  # of the library, which rejects some settings
                counts[f"the library refuses: {str(error)[:60]}"] += 1
                continue
            counts["other log probabilities"] += difference > 1e-4
            counts["warned"] += bool(warned)
            counts["other outputs after a warning"] += bool(warned) and differ > 0
            counts["other outputs without a warning"] += not warned and differ > 0
            counts["equal"] += differ == 0 and difference <= 1e-4
            if difference > 1e-4 or (differ and not warned):
                settings = (folder / "generation_config.json").read_text()
                print(case, format, f"{difference:.1e}", differ, settings, flush=True)
    for name, count in sorted(counts.items()):
        print(count, name)


if __name__ == "__main__":
    main()
