"""Compare imported T5 folders with transformers: logits, greedy outputs and token ids.

    ZOO_DATA=FOLDER python tests/campaigns/formats/t5.py [--only logits|greedy|ids] [--sentences N]

Run it where the project, `transformers` (5.23) and `sentencepiece` are installed. It makes random
weights with transformers, and tokenizers with SentencePiece, in a temporary folder. In float64,
transformers still normalizes in float32: for that comparison its norm is replaced by one in
float64.
"""

import argparse
import gettext
import glob
import itertools
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from torch import Tensor
from transformers import ByT5Tokenizer, T5Tokenizer
from transformers.models.mt5.modeling_mt5 import MT5LayerNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm
from transformers.models.umt5.modeling_umt5 import UMT5LayerNorm

from zoo.checkpoint.checkpoint import Checkpoint, read
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_model": 32, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4},
    "deep": {"d_model": 48, "d_kv": 16, "d_ff": 64, "num_layers": 6, "num_heads": 3,
             "num_decoder_layers": 1},
    "t5-small": {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
}  # fmt: skip

VARIANTS: dict[str, dict[str, Any]] = {
    "T5": {},
    "Flan-T5 (gated GELU, own output)": {"feed_forward_proj": "gated-gelu", "own": True,
                                         "tie_word_embeddings": False},
    "gated SiLU": {"feed_forward_proj": "gated-silu"},
    "exact GELU, ε, buckets": {"feed_forward_proj": "gelu", "layer_norm_epsilon": 1e-3,
                               "relative_attention_num_buckets": 12,
                               "relative_attention_max_distance": 20},
    "tied without scale": {"tie_word_embeddings": False},
    "starts with another token": {"decoder_start_token_id": 1250},  # a sentinel
    "torch's file": {"file": "bin"},
    "several files": {"file": "shards"},
    "bfloat16": {"dtype": torch.bfloat16},
    "mT5": {"model": "MT5", "own": True},
    "UMT5": {"model": "UMT5"},
}  # fmt: skip

VOCABULARY = 1310


def make_tokenizers(corpus: Path, folder: Path) -> None:
    """Train a tokenizer as T5's, and one with bytes, as mT5's."""
    common: dict[str, Any] = {"input": str(corpus), "model_type": "unigram", "num_threads": 1,
              "minloglevel": 2}  # fmt: skip
    kinds: dict[str, dict[str, Any]] = {
        "t5": {"vocab_size": 1200, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
        "bytes": {"vocab_size": 1200, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1,
                  "byte_fallback": True},
    }  # fmt: skip
    for name, options in kinds.items():
        file = folder / name / "spiece"
        file.parent.mkdir()
        sentencepiece.SentencePieceTrainer.train(model_prefix=str(file), **common, **options)


def make_folder(folder: Path, tokenizer: Path, size: dict[str, Any], values: dict[str, Any]) -> Any:
    """Write a folder of random weights and return transformers' model."""
    values = {"vocab_size": VOCABULARY, "decoder_start_token_id": 0, **size, **values}
    own, file = values.pop("own", False), values.pop("file", "")
    dtype, name = values.pop("dtype", torch.float32), values.pop("model", "T5")
    config = getattr(transformers, f"{name}Config")(**values)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        if own:
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight) / 5)
        for weight_name, weight in model.named_parameters():
            if "norm" in weight_name or "bias" in weight_name:
                weight.add_(torch.randn_like(weight), alpha=0.3)
        model.to(dtype)
    options = {"max_shard_size": "20KB"} if file == "shards" else {}
    model.save_pretrained(folder, **options)
    if file == "bin":
        state = {k: v.clone() for k, v in model.state_dict().items()}
        torch.save(state, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    T5Tokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    return model.float()


def imported(folder: Path) -> Checkpoint:
    """Import a folder and read the checkpoint."""
    out = folder.with_name(f"{folder.name}.zoo")
    shutil.rmtree(out, ignore_errors=True)
    registry = default_registry()
    import_checkpoint(folder, out, registry)
    return read(out, registry)


def ids_of(checkpoint: Checkpoint, model: Any) -> Tensor:
    """Return the foreign id of each id here, found by comparing rows of the embeddings."""
    here = checkpoint.model.get_parameter("target_embedding.weight")
    start = int(model.config.decoder_start_token_id or 0)
    first = [0, start, 1, 2]
    rows = [*first, *(i for i in range(len(model.shared.weight)) if i not in first)]
    assert torch.equal(here, model.shared.weight[rows])
    return torch.tensor(rows)


def random_batch(vocabulary: int, lengths: list[int], seed: int) -> Tensor:
    tokens = torch.randint(4, vocabulary, (len(lengths), max(lengths)),
                           generator=torch.Generator().manual_seed(seed))  # fmt: skip
    return tokens.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], 0)


def exact_norm(module: Any, x: Tensor) -> Tensor:
    variance = x.pow(2).mean(-1, keepdim=True)
    return module.weight * (x * torch.rsqrt(variance + module.variance_epsilon))


def compare_logits(checkpoint: Checkpoint, model: Any) -> tuple[float, float]:
    """Return the largest difference in float32 and in float64, on batches with padding."""
    rows = ids_of(checkpoint, model)
    source = random_batch(checkpoint.model.source_vocab, [3, 40, 17, 1, 150], 1)
    target = random_batch(checkpoint.model.target_vocab, [30] * 5, 2)
    target[:, 0] = 1
    differences = []
    for dtype in (torch.float32, torch.float64):
        here, there = checkpoint.model.to(dtype), model.to(dtype)
        with torch.no_grad():
            given = here(source, source != 0, target).logits
            expected = there(
                input_ids=rows[source],
                attention_mask=(source != 0).long(),
                decoder_input_ids=rows[target],
            ).logits[..., rows]
        differences.append(float((given - expected).abs().max()))
    checkpoint.model.float()
    model.float()
    return differences[0], differences[1]


def run_logits(folder: Path, tokenizer: Path) -> None:
    print("| variant | size | float32 | float64 |\n|---|---|---|---|")
    norms = (T5LayerNorm, MT5LayerNorm, UMT5LayerNorm)
    before = [norm.forward for norm in norms]
    number = 0
    for (variant, values), (size, sizes) in itertools.product(VARIANTS.items(), SIZES.items()):
        if size == "t5-small" and variant not in ("T5", "Flan-T5 (gated GELU, own output)"):
            continue
        number += 1
        torch.manual_seed(number)
        model = make_folder(folder / str(number), tokenizer, sizes, values)
        checkpoint = imported(folder / str(number))
        single = compare_logits(checkpoint, model)[0]
        for norm in norms:
            norm.forward = exact_norm
        double = compare_logits(checkpoint, model)[1]
        for norm, forward in zip(norms, before, strict=True):
            norm.forward = forward
        print(f"| {variant} | {size} | {single:.1e} | {double:.1e} |", flush=True)


def run_greedy(folder: Path, tokenizer: Path, count: int) -> None:
    """Decode random sources greedily; transformers may write neither padding nor unknown."""
    for variant in ("T5", "Flan-T5 (gated GELU, own output)", "UMT5"):
        torch.manual_seed(3)
        model = make_folder(folder / "greedy", tokenizer, SIZES["small"], VARIANTS[variant])
        checkpoint = imported(folder / "greedy")
        rows = ids_of(checkpoint, model)
        equal = 0
        for seed in range(0, count, 20):
            lengths = [2 + (seed + i) % 37 for i in range(20)]
            source = random_batch(checkpoint.model.source_vocab, lengths, seed + 1)
            mask = source != 0
            with torch.no_grad():
                memory = checkpoint.model.encode(source, mask).memory
                task = Task(checkpoint.model, memory, mask)
                given = search(task, Search(beam=1, max_length=25, allow_empty=True))
                expected = model.generate(
                    input_ids=rows[source], attention_mask=mask.long(), max_new_tokens=25,
                    do_sample=False, num_beams=1, suppress_tokens=[0, 2],
                )  # fmt: skip
            for (best, *_), line in zip(given, expected[:, 1:].tolist(), strict=True):
                until = line.index(1) if 1 in line else len(line)
                equal += rows[list(best.tokens)].tolist() == line[:until]
        print(f"{variant}: {equal} of {count} greedy outputs are equal token for token", flush=True)


def sentences(count: int) -> Iterator[str]:
    """Yield natural sentences: English, German and French captions, and messages of programs."""
    folder = Path(os.environ["ZOO_DATA"], "multi30k")
    each = count // 4
    for language in ("en", "de", "fr"):
        lines = (folder / f"train.{language}").read_text(encoding="utf-8").splitlines()
        yield from lines[-each:]
    messages = []
    for file in sorted(glob.glob("/usr/share/vim/vim*/lang/*/LC_MESSAGES/*.mo")):
        with open(file, "rb") as stream:
            try:
                translations = gettext.GNUTranslations(stream)
            except (UnicodeDecodeError, LookupError):
                continue
        messages += [v for v in translations._catalog.values() if len(v) > 20]  # type: ignore[attr-defined]  # no public list
    yield from messages[:: max(1, len(messages) // each)][:each]


ODD = [
    "", " ", "  two  spaces ", "\ttab\nline\r\nend ", "x\u00a0y\u2003z\u3000w", "▁ literal ▁▁",
    "😀 👩‍👩‍👧 🇩🇪", "漢字かな交じり文", "ᚠᛇᚻ 𐎠𐎡 ⴰⴱ", "ﬁ ﬀ Å ½ ™ ①", "\u200bzero\u200dwidth\ufeff",
    "<2de>", "< s >", "a" * 300, "ΑΒΓ́ αβγ", "नमस्ते दुनिया", "שלום عالم", "\u0301\u0301",
]  # fmt: skip


def run_ids(folder: Path, tokenizers: Path, count: int) -> None:
    natural = list(sentences(count))
    odd = [*ODD, *(unicodedata.normalize("NFD", s) for s in natural[:: max(1, count // 300)])]
    odd += ["  " + s.replace(" ", "   ") + " " for s in natural[:50]]
    texts = natural + odd
    model = make_folder(folder / "ids", tokenizers / "t5", SIZES["small"], {})
    del model
    cases: dict[str, tuple[Callable[[Path], None], Callable[[list[str]], list[list[int]]]]] = {}

    def with_json(kind: str) -> Callable[[Path], None]:
        return lambda f: T5Tokenizer.from_pretrained(tokenizers / kind).save_pretrained(f)

    def with_model(kind: str) -> Callable[[Path], None]:
        def write(f: Path) -> None:
            (f / "tokenizer.json").unlink()
            shutil.copy(tokenizers / kind / "spiece.model", f)
            (f / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')

        return write

    def transformers_ids(kind: str) -> Callable[[list[str]], list[list[int]]]:
        there = T5Tokenizer.from_pretrained(tokenizers / kind)
        return lambda given: there(given, add_special_tokens=False).input_ids

    def sentencepiece_ids(kind: str) -> Callable[[list[str]], list[list[int]]]:
        file = str(tokenizers / kind / "spiece.model")
        return sentencepiece.SentencePieceProcessor(model_file=file).encode

    cases["tokenizer.json; transformers"] = with_json("t5"), transformers_ids("t5")
    cases["spiece.model; transformers"] = with_model("t5"), transformers_ids("t5")
    cases["spiece.model; sentencepiece"] = with_model("t5"), sentencepiece_ids("t5")
    cases["spiece.model with bytes; sentencepiece"] = (
        with_model("bytes"), sentencepiece_ids("bytes"))  # fmt: skip
    byt5 = ByT5Tokenizer()
    cases["bytes of ByT5; transformers"] = (
        lambda f: byt5.save_pretrained(f),
        lambda given: [byt5(text, add_special_tokens=False).input_ids for text in given],
    )
    for name, (write, encode) in cases.items():
        target = folder / "ids-case"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "ids", target)
        write(target)
        checkpoint = imported(target)
        rows = torch.tensor([0, 0, 1, 2, *range(3, VOCABULARY)])
        here = [rows[ids].tolist() for ids in checkpoint.source_tokenizer.encode(texts)]
        there = encode(texts)
        same = [a == b for a, b in zip(here, there, strict=True)]
        n = len(natural)
        print(f"{name}: {sum(same[:n]):,} of {n:,} natural sentences, "
              f"{sum(same[n:])} of {len(odd)} odd texts")  # fmt: skip
        different = [i for i, equal in enumerate(same) if not equal]
        for i in different[:6]:
            print("   ", json.dumps(texts[i][:60]), here[i][:12], there[i][:12])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("logits", "greedy", "ids"))
    parser.add_argument("--sentences", type=int, default=5000)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        folder, tokenizers = Path(name), Path(name, "tokenizers")
        tokenizers.mkdir()
        corpus = folder / "corpus.txt"
        corpus.write_text("\n".join(list(sentences(20_000))[::3]), encoding="utf-8")
        make_tokenizers(corpus, tokenizers)
        if chosen.only in (None, "logits"):
            run_logits(folder, tokenizers / "t5")
        if chosen.only in (None, "greedy"):
            run_greedy(folder, tokenizers / "t5", 200)
        if chosen.only in (None, "ids"):
            run_ids(folder, tokenizers, chosen.sentences)


if __name__ == "__main__":
    main()
