"""Compare imported checkpoints with the library transformers, which is not a requirement.

Run it in an environment with transformers, sentencepiece and torch:

    ZOO_DATA=… python -m tests.campaigns.formats.transformers_peer --out record.md

For each format it makes models of random weights, in several sizes and with each option of the
architecture, and tokenizers trained on the texts, saves them with the library's own classes,
imports them, and compares: logits of padded batches, greedy outputs of 200 inputs, beam search
where both searches are exact, and token ids of every text: 5,000 sentences of four languages.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers.models.fsmt import modeling_fsmt

import zoo
from tests.campaigns.formats.peers import text_of
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.interop.conversion import import_checkpoint
from zoo.registry.registry import default_registry

OLD = transformers.__version__.startswith("4.")
ODD = [
    "", " ", "  two   spaces  ", "tab\there", "new\nline", "u\u0308ber Ma\u0308nner cafe\u0301",
    "🙂 grass 👩‍👩‍👧", "ﬁne Ⅳ ½ ™", "сорок два", "犬が走る。", "كلب يركض على العشب", "한국어 문장",
    "a\u00a0b\u200bc", "▁▁ x", "…—“quoted”", "e\u0301\u0323 o\u0308\u0304", "İstanbul",
    "x\u202fy",     "ＦＵＬＬ　ｗｉｄｔｈ", "\ufeffbom", "1,000.50 €", "C'est l'été n'est-ce pas ?",
]  # fmt: skip
SIZES = (
    {"d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
     "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "encoder_layers": 2, "decoder_layers": 1},
    {"d_model": 48, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
     "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_layers": 1, "decoder_layers": 3},
)  # fmt: skip


def spm(texts: list[str], size: int, path: Path, **options: Any) -> None:
    """Train a SentencePiece model."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=file, vocab_size=size, minloglevel=2,
            character_coverage=1.0, num_threads=1, **options,
        )  # fmt: skip


def randomize(model: Any, sinusoids: bool = False) -> None:
    """Draw all weights, norms and biases too, but not tables of sinusoids; keep the ties."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad and not (sinusoids and "embed_positions" in name):
                weight.add_(torch.randn_like(weight) * (0.3 if weight.dim() < 2 else 0.15))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()


def marian(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an OPUS-MT folder: ids in another order than the pieces, some pieces missing."""
    folder.mkdir()
    half = len(texts) // 2
    pieces: dict[str, None] = {}
    for side, part in (("source", texts[:half]), ("target", texts[half:])):
        spm(part, 500, folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        pieces |= dict.fromkeys(model.id_to_piece(i) for i in range(3, model.get_piece_size() - 5))
    tags = options.pop("tags", [])
    names = ["</s>", "<unk>", *tags, *sorted(pieces), "<pad>"]
    vocabulary = {name: i for i, name in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    separate = not options.get("share_encoder_decoder_embeddings", True)
    if separate:
        other = {
            name: i for i, name in enumerate(["</s>", "<unk>", *sorted(pieces)[::-1], "<pad>"])
        }
        (folder / "target_vocab.json").write_text(json.dumps(other))
        # one id is the padding of both
        options["decoder_vocab_size"] = len(names)
    config = transformers.MarianConfig(
        vocab_size=len(names), pad_token_id=len(names) - 1, eos_token_id=0,
        decoder_start_token_id=len(names) - 1, forced_eos_token_id=0, num_beams=4,
        bad_words_ids=[[len(names) - 1]], max_position_embeddings=200, **size, **options,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    randomize(model)
    model.save_pretrained(folder)
    transformers.MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json"),
        target_vocab_file=str(folder / "target_vocab.json") if separate else None,
        separate_vocabs=separate, source_lang="en", target_lang="de",
    ).save_pretrained(folder)  # fmt: skip


MARIAN: list[dict[str, Any]] = [
    {},
    {"activation_function": "swish", "scale_embedding": True},
    {"activation_function": "relu", "tie_word_embeddings": False},
    {"activation_function": "gelu_new", "tags": [">>fra<<", ">>ita<<"]},
    {"share_encoder_decoder_embeddings": False},
]


def fast(texts: list[str], kind: str, specials: list[str]) -> dict[str, Any]:
    """Return what a tokenizer of transformers is made of: a vocabulary, merges, a charsmap."""
    with tempfile.TemporaryDirectory() as temporary:
        spm(texts, 600, Path(temporary) / "m", model_type=kind)
        model = sentencepiece.SentencePieceProcessor(str(Path(temporary) / "m"))
        pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
        scores = [model.get_score(i) for i in range(3, model.get_piece_size())]
    if kind == "unigram":
        return {"vocab": [(s, 0.0) for s in specials] + list(zip(pieces, scores, strict=True))}
    known = {*pieces}
    merges = [
        (piece[:i], piece[i:])
        for piece in pieces
        for i in range(1, len(piece))
        if piece[:i] in known and piece[i:] in known
    ]
    return {"vocab": {t: i for i, t in enumerate([*specials, *pieces])}, "merges": merges}


def save(folder: Path, tokenizer: Any, model_type: Any, config: Any) -> None:
    """Write a folder with a random model."""
    model = model_type(config)
    randomize(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def bart(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write a BART folder with a byte-level vocabulary."""
    made = Pipeline(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    model = json.loads(made.to_str())["model"]
    vocabulary = {**model["vocab"], "<mask>": len(model["vocab"])}
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = transformers.BartTokenizer(vocab=vocabulary, merges=merges)
    config = transformers.BartConfig(
        vocab_size=len(vocabulary), max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.BartForConditionalGeneration, config)


def pegasus(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write a Pegasus folder."""
    specials = ["<pad>", "</s>", "<mask_1>", "<mask_2>", *(f"<unk_{i}>" for i in range(2, 103))]
    tokenizer = transformers.PegasusTokenizer(**fast(texts, "unigram", [*specials, "<unk>"]))
    config = transformers.PegasusConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.PegasusForConditionalGeneration, config)


def mbart(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an mBART-50 folder."""
    vocabulary = fast(texts, "unigram", ["<unk>", "<s>", "</s>"])
    tokenizer = transformers.MBart50Tokenizer(**vocabulary, src_lang="en_XX", tgt_lang="de_DE")
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, decoder_start_token_id=2,
        **size, **options,
    )  # fmt: skip
    save(folder, tokenizer, transformers.MBartForConditionalGeneration, config)


def first_mbart(
    folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]
) -> None:
    """Write a folder of the first mBART, whose decoder starts from the tag of Romanian."""
    if OLD:
        tokenizer = old_pieces(folder, texts, transformers.MBartTokenizer,
                               src_lang="en_XX", tgt_lang="ro_RO")  # fmt: skip
    else:
        vocabulary = fast(texts, "unigram", ["<s>", "<pad>", "</s>", "<unk>"])
        tokenizer = transformers.MBartTokenizer(**vocabulary, src_lang="en_XX", tgt_lang="ro_RO")
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, **size, **options,
        decoder_start_token_id=tokenizer.convert_tokens_to_ids("ro_RO"),
    )  # fmt: skip
    save(folder, tokenizer, transformers.MBartForConditionalGeneration, config)


def old_pieces(folder: Path, texts: list[str], kind: Any, **options: Any) -> Any:
    """Return a tokenizer of version 4 that reads a SentencePiece model."""
    folder.mkdir()
    model = folder.with_name(f"{folder.name}.model")
    given = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    spm(texts, 600, model, **(given if kind is transformers.PegasusTokenizer else {}))
    return kind(str(model), **options)


def old_bart(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write a BART folder of version 4, with `vocab.json` and `merges.txt`."""
    made = Pipeline(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()[:-3], show_progress=False,
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    folder.mkdir()
    made.model.save(str(folder))
    file = folder / "merges.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines, lines[1], ""]), encoding="utf-8")  # one merge twice
    tokenizer = transformers.BartTokenizer(str(folder / "vocab.json"), str(file))
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.BartForConditionalGeneration, config)


def old_pegasus(
    folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]
) -> None:
    """Write a Pegasus folder of version 4, with `spiece.model`."""
    tokenizer = old_pieces(folder, texts, transformers.PegasusTokenizer)
    config = transformers.PegasusConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.PegasusForConditionalGeneration, config)


def old_mbart50(
    folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]
) -> None:
    """Write an mBART-50 folder of version 4, with `sentencepiece.bpe.model`."""
    tokenizer = old_pieces(folder, texts, transformers.MBart50Tokenizer,
                           src_lang="en_XX", tgt_lang="de_DE")  # fmt: skip
    config = transformers.MBartConfig(
        vocab_size=len(tokenizer), max_position_embeddings=150, decoder_start_token_id=2,
        **size, **options,
    )  # fmt: skip
    save(folder, tokenizer, transformers.MBartForConditionalGeneration, config)


def old_nllb(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an NLLB-200 folder of version 4, with `sentencepiece.bpe.model`."""
    tokenizer = old_pieces(folder, texts, transformers.NllbTokenizer,
                           src_lang="eng_Latn", tgt_lang="fra_Latn")  # fmt: skip
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer) + 2, max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.M2M100ForConditionalGeneration, config)


def nllb(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an NLLB-200 folder."""
    vocabulary = fast(texts, "bpe", ["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer = transformers.NllbTokenizer(**vocabulary, src_lang="eng_Latn", tgt_lang="fra_Latn")
    config = transformers.M2M100Config(
        vocab_size=len(tokenizer) + 2, max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.M2M100ForConditionalGeneration, config)


def m2m100(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an M2M-100 folder, with the eight unused rows of its embedding."""
    folder.mkdir()
    spm(texts, 600, folder / "m.model", model_type="bpe")
    model = sentencepiece.SentencePieceProcessor(str(folder / "m.model"))
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size() - 5)]
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces[::-1]]
    (folder / "v.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    tokenizer = transformers.M2M100Tokenizer(
        str(folder / "v.json"), str(folder / "m.model"), src_lang="en", tgt_lang="cs"
    )
    config = transformers.M2M100Config(
        vocab_size=len(names) + 100 + 8, max_position_embeddings=150, **size, **options
    )
    save(folder, tokenizer, transformers.M2M100ForConditionalGeneration, config)


def fsmt(folder: Path, texts: list[str], size: dict[str, int], options: dict[str, Any]) -> None:
    """Write an FSMT folder: byte-pair codes of Moses' tokens."""
    folder.mkdir()
    joined = options.get("tie_word_embeddings", False)
    equal_output = options.pop("equal output", False)
    half = len(texts) // 2
    sides = [moses_words(texts if joined else part) for part in (texts[:half], texts[half:])]
    merges = pair_codes(sides[0] + sides[1], 500)
    (folder / "merges.txt").write_text("".join(f"{a} {b} 1\n" for a, b in merges))
    sizes = []
    for side, words in zip(("src", "tgt"), sides, strict=True):
        parts = sorted({part for word in words for part in cut(word, merges)})
        rest = parts[::-1] if side == "tgt" and not joined else parts
        if side == "tgt" and not joined:
            rest = rest[:-9]
        names = ["<s>", "<pad>", "</s>", "<unk>", *rest]
        vocabulary = {name: i for i, name in enumerate(names)}
        (folder / f"vocab-{side}.json").write_text(json.dumps(vocabulary))
        sizes.append(len(names))
    config = transformers.FSMTConfig(
        langs=["en", "de"], src_vocab_size=sizes[0], tgt_vocab_size=sizes[1], **size, **options
    )
    tokenizer = transformers.FSMTTokenizer(
        ["en", "de"], str(folder / "vocab-src.json"), str(folder / "vocab-tgt.json"),
        str(folder / "merges.txt"),
    )  # fmt: skip
    model = transformers.FSMTForConditionalGeneration(config)
    randomize(model, sinusoids=True)
    if equal_output:
        model.model.decoder.output_projection.weight.data = (
            model.model.decoder.embed_tokens.weight.data.clone()
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def moses_words(texts: list[str]) -> list[str]:
    """Return the words of texts by the library's own steps."""
    import sacremoses

    tokenizer = sacremoses.MosesTokenizer(lang="en")
    return [word for text in texts[::3] for word in tokenizer.tokenize(text, True, False)]


def pair_codes(words: list[str], count: int) -> list[tuple[str, str]]:
    """Learn byte-pair codes, whose words end with `</w>`."""
    trainer = trainers.BpeTrainer(vocab_size=count, end_of_word_suffix="</w>", show_progress=False)
    made = Pipeline(models.BPE(end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.train_from_iterator(words, trainer)
    return [(a, b) for a, b in json.loads(made.to_str())["model"]["merges"]]


def cut(word: str, merges: list[tuple[str, str]]) -> list[str]:
    """Return the parts of a word: all that the merges can make of it."""
    parts = [*word[:-1], word[-1] + "</w>"]
    for pair in merges:
        at = 0
        while at + 1 < len(parts):
            if (parts[at], parts[at + 1]) == pair:
                parts[at : at + 2] = ["".join(pair)]
            at += 1
    return parts


OPTIONS: list[dict[str, Any]] = [
    {},
    {"activation_function": "relu", "scale_embedding": True},
    {"activation_function": "gelu_new", "tie_word_embeddings": False},
]
FSMT: list[dict[str, Any]] = [
    {},
    {"equal output": True},
    {"activation_function": "gelu", "scale_embedding": False},
    {"tie_word_embeddings": True},
]
FORMATS: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "marian": (marian, MARIAN, transformers.MarianMTModel),
    "bart": (bart, OPTIONS, transformers.BartForConditionalGeneration),
    "pegasus": (pegasus, OPTIONS, transformers.PegasusForConditionalGeneration),
    "mbart": (mbart, OPTIONS, transformers.MBartForConditionalGeneration),
    "nllb": (nllb, OPTIONS, transformers.M2M100ForConditionalGeneration),
    "fsmt": (fsmt, FSMT, transformers.FSMTForConditionalGeneration),
    "m2m100": (m2m100, OPTIONS, transformers.M2M100ForConditionalGeneration),
    "first mbart": (first_mbart, OPTIONS, transformers.MBartForConditionalGeneration),
}
OLD_FORMATS: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "bart": (old_bart, [{}], transformers.BartForConditionalGeneration),
    "pegasus": (old_pegasus, [{}], transformers.PegasusForConditionalGeneration),
    "mbart50": (old_mbart50, [{}], transformers.MBartForConditionalGeneration),
    "first mbart": (first_mbart, [{}], transformers.MBartForConditionalGeneration),
    "nllb": (old_nllb, [{}], transformers.M2M100ForConditionalGeneration),
}
"""Formats whose tokenizers were other classes in version 4."""
if OLD:
    FORMATS = OLD_FORMATS


def mapping(checkpoint: Any, foreign: Any, side: str, size: int) -> list[int]:
    """Return the zoo's id of each id of the library, by the texts of the entries."""
    inner = getattr(checkpoint, f"{side}_tokenizer")
    special = {foreign.pad_token_id: 0, foreign.eos_token_id: 2, foreign.unk_token_id: 3}
    rest = (i for i in range(4, inner.size))
    return [special[i] if i in special else next(rest) for i in range(size)]


def compare(format: str, folder: Path, kind: Any, texts: list[str]) -> dict[str, Any]:
    """Import a folder and return what was compared."""
    out = folder.with_name(f"{folder.name}.zoo")
    import_checkpoint(folder, out, default_registry())
    translator = zoo.load(out)
    checkpoint, model = translator.checkpoint, translator.checkpoint.model.double()
    foreign = kind.from_pretrained(folder).double().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=not OLD)
    tokenizer.eos_token = "</s>"  # FSMT's has none
    source_map = mapping(
        checkpoint, tokenizer, "source", foreign.get_input_embeddings().num_embeddings
    )
    output = foreign.get_output_embeddings().weight
    target_map = mapping(checkpoint, tokenizer, "target", len(output))
    result: dict[str, Any] = {}
    result |= tokens(checkpoint, tokenizer, source_map, target_map, texts)
    result |= logits(model, foreign, tokenizer, source_map, target_map)
    result |= decoded(checkpoint, foreign, tokenizer, source_map, target_map, texts)
    return result


def tokens(checkpoint: Any, tokenizer: Any, source_map: Any, target_map: Any, texts: Any) -> Any:
    """Compare the ids of texts, on both sides."""
    wrong = 0
    tags_last = not checkpoint.config.model_dump()["source_end"]  # the first mBART
    for text, inner in zip(texts, checkpoint.source_tokenizer.encode(texts), strict=True):
        expected = [source_map[i] for i in tokenizer(text).input_ids]
        if (inner if tags_last else [*inner, 2]) != expected:
            wrong += 1
            print("source differs", repr(text), inner, expected)
    of_target = reversed_fsmt(tokenizer) if hasattr(tokenizer, "src_vocab_file") else None
    for text, inner in zip(texts, checkpoint.target_tokenizer.encode(texts), strict=True):
        if of_target is None:
            ids = tokenizer(text_target=text).input_ids
            ids = ids[:-1] if tags_last else ids
        else:
            ids = of_target(text).input_ids
            known = [i for i in ids if i != tokenizer.unk_token_id]
            expected = tokenizer.decode(known, skip_special_tokens=True)
            wrong += checkpoint.target_tokenizer.decode([target_map[i] for i in known]) != expected
        wrong += [*inner, 2] != [target_map[i] for i in ids]
    return {"texts": 2 * len(texts), "texts that differ": wrong}


def reversed_fsmt(tokenizer: Any) -> Any:
    """Return a tokenizer of the target, which the library lacks: that of the other direction."""
    return transformers.FSMTTokenizer(
        [tokenizer.tgt_lang, tokenizer.src_lang], tokenizer.tgt_vocab_file,
        tokenizer.src_vocab_file, tokenizer.merges_file,
    )  # fmt: skip


def logits(model: Any, foreign: Any, tokenizer: Any, source_map: Any, target_map: Any) -> Any:
    """Compare the logits of padded batches in float64, then in float32."""
    torch.manual_seed(5)
    config = foreign.config
    source = torch.randint(4, len(source_map), (5, 11))
    lengths = torch.tensor([11, 3, 7, 1, 9])
    mask = torch.arange(11) < lengths[:, None]
    source[source == tokenizer.pad_token_id] = tokenizer.eos_token_id
    source = source.masked_fill(~mask, tokenizer.pad_token_id)
    target = torch.randint(4, len(target_map), (5, 9))
    target[target == tokenizer.pad_token_id] = tokenizer.eos_token_id
    target[:, 0] = config.decoder_start_token_id
    ours_in = torch.tensor(source_map)[source]
    ours_target = torch.tensor(target_map)[target]
    ours_target[:, 0] = 1
    order = torch.tensor(target_map)
    matched = {}
    # FSMT's mask of the future is made in float32, which float64's smallest number overflows
    modeling_fsmt.fill_with_neg_inf = lambda t: torch.full_like(t, torch.finfo(t.dtype).min)
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        with torch.inference_mode():
            expected = foreign.to(dtype)(
                input_ids=source,
                attention_mask=mask.long(),
                decoder_input_ids=target,
                use_cache=False,  # FSMT masks the future only then
            ).logits
            inner = our_source(model, ours_in, mask)
            output = model.to(dtype)(*inner, ours_target).logits[..., order]
        matched[f"logits {name}"] = float((output - expected).abs().max())
    return matched


def our_source(model: Any, source: Any, mask: Any) -> tuple[Any, Any]:
    """Return a source and its mask, with another end token if the network does not read it."""
    if model.config.source_end:
        return source, mask
    mask = torch.cat([torch.ones_like(mask[:, :1]), mask], 1)
    source = torch.cat([source, torch.zeros_like(source[:, :1])], 1)
    source[torch.arange(len(source)), mask.sum(1) - 1] = 2
    return source, mask


def decoded(
    checkpoint: Any, foreign: Any, tokenizer: Any, source_map: Any, target_map: Any, texts: Any
) -> Any:
    """Compare greedy search, and beam search where both are exact."""
    inputs = [text for text in texts if text.strip()][:200]
    greedy = beams = 0
    banned = sorted({tokenizer.pad_token_id, tokenizer.unk_token_id})
    for start in range(0, len(inputs), 20):
        part = inputs[start : start + 20]
        batch = tokenizer(part, return_tensors="pt", padding=True)
        inner = torch.tensor(source_map)[batch.input_ids]
        mask = batch.attention_mask.bool()
        inner = inner.masked_fill(~mask, 0)
        prefix = checkpoint.target_tokenizer.encode([""])[0]
        options = {
            "max_new_tokens": 25, "bad_words_ids": [[i] for i in banned], "min_length": 0,
            "forced_eos_token_id": None, "no_repeat_ngram_size": 0,
        }  # fmt: skip
        if len(prefix):
            options["forced_bos_token_id"] = target_map.index(prefix[0])
        for beam in (1, 4):
            with torch.inference_mode():
                expected = foreign.generate(
                    **{k: v for k, v in batch.items() if k != "token_type_ids"}, num_beams=beam,
                    do_sample=False, length_penalty=0.0,
                    early_stopping="never" if beam > 1 else False, **options,
                )  # fmt: skip
                given = our_source(checkpoint.model, inner, mask)
                memory = checkpoint.model.encode(*given).memory
                task: Task[Any, Any] = Task(
                    checkpoint.model,
                    memory,
                    given[1],
                    None,
                    [prefix] * len(part) if prefix else None,
                )
                matched = search(task, Search(beam=beam, max_length=25, allow_empty=True))
            for row, ranked in zip(expected.tolist(), matched, strict=True):
                want = [target_map[i] for i in row[1:]]
                want = want[: want.index(2)] if 2 in want else [i for i in want if i]
                if list(ranked[0].tokens) != want:
                    greedy += beam == 1
                    beams += beam > 1
    return {"inputs": len(inputs), "greedy differs": greedy, "beam 4 differs": beams}


def main() -> None:
    """Run everything and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--lines", type=int, default=1250)
    parser.add_argument("--only", nargs="*", default=list(FORMATS))
    given = parser.parse_args()
    texts = text_of(4 * given.lines)
    rows = []
    for format in given.only:
        write, options, kind = FORMATS[format]
        for number, values in enumerate(options):
            for s, size in enumerate(SIZES[: 2 if number == 0 else 1]):
                with tempfile.TemporaryDirectory() as temporary:
                    began = time.time()
                    folder = Path(temporary) / f"{format}-{number}-{s}"
                    write(folder, texts, size, dict(values))
                    result = compare(format, folder, kind, [*texts, *ODD])
                    rows.append((format, str(values or "default"), size["d_model"], result))
                    print(*rows[-1], f"{time.time() - began:.0f} s", flush=True)
    if given.out:
        given.out.write_text(record(rows), encoding="utf-8")


def record(rows: list[Any]) -> str:
    """Return the record as Markdown."""
    keys = list(rows[0][3])
    lines = [["format", "options", "d", *keys], ["---"] * (3 + len(keys))]
    for format, options, size, result in rows:
        cells = [f"{v:.1e}" if isinstance(v, float) else str(v) for v in result.values()]
        lines.append([format, f"`{options}`", str(size), *cells])
    versions = f"transformers {transformers.__version__}, sentencepiece {sentencepiece.__version__}"
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"# Imported checkpoints compared with {versions}\n\n{body}\n"


if __name__ == "__main__":
    main()
