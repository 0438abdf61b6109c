"""Vocabularies in the order of transformers, and the files of its tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from zoo.interop import (
    Checkpoint,
    ForeignTokenizer,
    SentencePiece,
    TokenizersPipeline,
    write_fast_tokenizer,
    write_json,
)
from zoo.nn import BEGIN, END, PADDING, UNKNOWN
from zoo_transformer.config import TransformerConfig
from zoo_transformer.formats.tokenizer_files import pipeline_names
from zoo_transformer.formats.vocabulary import SPECIALS

MADE_UP, CODES = 8, {100: "m2m100", 8: "wmt21"}
"""Unused entries of M2M-100, and its name for a number of languages."""


MASK = "<mask>"
"""The token for which BART writes what is missing."""

START = "<start>"
"""The name of an entry that a vocabulary gets for the start of the decoder."""


class Numbering(NamedTuple):
    """A vocabulary in the order of transformers.

    Attributes:
        ids: the zoo's id of each entry.
        names: the text of each entry.
        starts: the entries that have the row of the begin token, the likely one first.
    """

    ids: list[int]
    names: list[str]
    starts: list[int]

    @property
    def start(self) -> int:
        """The entry from which the decoder starts."""
        return self.starts[0]

    @property
    def begin(self) -> int:
        """The entry `<s>`, with which sources of BART begin, or that of the start."""
        return self.names.index("<s>") if "<s>" in self.names else self.start

    def of(self, inner: int) -> int:
        """Return the entry of an id of the zoo; that of begin may be a copy of another."""
        return self.start if inner == BEGIN else self.ids.index(inner)

    def with_any_start(self) -> Numbering:
        """Return a vocabulary that is never started from: its start is padding."""
        return self._replace(starts=[self.ids.index(PADDING)])

    def with_own_start(self) -> Numbering:
        """Return the vocabulary with a last entry, from which the decoder starts.

        Before tuning, the row of the begin token is a copy of another entry's; after it, no entry
        has that row.
        """
        if BEGIN in self.ids:
            return self
        name = START
        while name in self.names:
            name = f"<{name}>"
        return Numbering([*self.ids, BEGIN], [*self.names, name], [len(self.ids)])


def numbering(tokenizer: Any, model_type: str, embedding: Tensor) -> Numbering:
    """Return a vocabulary's order; its `starts` are empty if no entry has the begin token's row.

    An imported tokenizer has its original order; `embedding`, (V, d), shows of which entries the
    begin token is a copy.
    """
    tokens = [tokenizer.token(i) for i in range(tokenizer.size)]
    if not isinstance(tokenizer, ForeignTokenizer):
        return Numbering([*range(tokenizer.size)], tokens, [BEGIN])
    engine = tokenizer.engine
    if isinstance(engine, TokenizersPipeline):
        ids, texts = engine.ids, pipeline_names(engine.pipeline)
        names = [texts.get(i, tokens[inner]) for i, inner in enumerate(ids)]
    else:
        rest = [*range(UNKNOWN + 1, tokenizer.size)]
        if model_type == "marian":
            ids = [END, UNKNOWN, *rest, PADDING]
        else:  # <s>, padding, end, unknown
            ids = [rest[0], PADDING, END, UNKNOWN, *rest[1:]]
        names = [tokens[inner] for inner in ids]
        names[0] = "<s>" if names[0] == "<0>" else names[0]
    if BEGIN in ids:
        return Numbering(ids, names, [ids.index(BEGIN)])
    likely = [ids.index(PADDING), ids.index(END)]
    equal = (embedding[torch.tensor(ids)] == embedding[BEGIN]).all(1).nonzero().flatten().tolist()
    return Numbering(ids, names, [i for i in likely if i in equal] or equal)


def ends_with_tag(checkpoint: Checkpoint) -> bool:
    """Return whether an end token and the tag of its language follow a source: the first mBART."""
    tokenizer = checkpoint.source_tokenizer
    known = isinstance(tokenizer, ForeignTokenizer) and tokenizer.language is not None
    return known and tokenizer.entries.tags_last  # type: ignore[attr-defined]  # a foreign one


def tokenizer_reasons(checkpoint: Checkpoint, model_type: str) -> list[str]:
    """Return why transformers has no tokenizer for a checkpoint."""
    pair = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    if not all(each.portable for each in pair):
        return ["its tokenizer is not one of the library tokenizers"]
    engines = [each.engine if isinstance(each, ForeignTokenizer) else None for each in pair]
    pieces = [type(engine) is SentencePiece for engine in engines]
    if all(pieces) and model_type in ("marian", "m2m_100"):
        if model_type == "marian" and pair[0].size != pair[1].size:
            return ["its vocabularies differ in size: Marian has one id for the padding of both"]
        tags = [pair[0].token(tag) for tag in pair[0].tags.values()]
        if model_type == "m2m_100" and not all(tag.startswith("__") for tag in tags):
            return ["its tags are NLLB-200's, whose tokenizer in transformers is another"]
        return []
    if any(engine and not isinstance(engine, TokenizersPipeline) for engine in engines):
        return [f"its tokenizer is of a kind that {model_type} of transformers lacks"]
    same = pair[0] is pair[1]
    if None not in engines:
        contents = [engine.content() for engine in engines if engine is not None]
        same = contents[0] == contents[1]
    if not same:
        return ["two tokenizers: AutoTokenizer has one for both sides"]
    return []


def write_tokenizer(
    checkpoint: Checkpoint, model_type: str, source: Numbering, target: Numbering, folder: Path
) -> None:
    """Write the files that `AutoTokenizer` loads."""
    tokenizer = checkpoint.source_tokenizer
    engine = tokenizer.engine if isinstance(tokenizer, ForeignTokenizer) else None
    languages = {
        f"{short}_lang": each.language
        for short, each in (("src", tokenizer), ("tgt", checkpoint.target_tokenizer))
        if isinstance(each, ForeignTokenizer) and each.language
    }
    last = ends_with_tag(checkpoint)
    if last:  # of the first mBART: targets have no tag, and the decoder starts from theirs
        known = [code for code in checkpoint.about.target_languages if code in tokenizer.tags]
        languages |= {"tgt_lang": known[0]} if known else {}
    clean = isinstance(tokenizer, ForeignTokenizer) and tokenizer.entries.clean
    if type(engine) is SentencePiece:
        write = _write_marian if model_type == "marian" else _write_m2m100
        settings = write(checkpoint, source, target, folder, languages)
        if clean:
            settings["clean_up_tokenization_spaces"] = True
        write_json(folder / "tokenizer_config.json", settings)
        return
    if isinstance(engine, TokenizersPipeline):
        content = dict(engine.pipeline)
    else:
        content = json.loads(tokenizer.to_json())
    framed = tokenizer.entries.prefix if isinstance(tokenizer, ForeignTokenizer) else ()
    prefix = [source.of(i) for i in framed]
    special = {
        f"{kind}_token": source.names[source.of(inner)]
        for kind, inner in (("pad", PADDING), ("eos", END), ("unk", UNKNOWN))
    }
    special["bos_token"] = source.names[source.begin]
    config: dict[str, Any] = special
    tokens = _special_tokens(engine) if isinstance(engine, TokenizersPipeline) else []
    if MASK in tokens:
        config["mask_token"] = MASK
        tokens.remove(MASK)
    if languages:
        tokens = [*(source.names[source.of(tag)] for tag in tokenizer.tags.values()), *tokens]
        config |= languages
        several = "MBartTokenizer" if last else "MBart50Tokenizer"
        config["tokenizer_class"] = several if model_type == "mbart" else "NllbTokenizer"
    if tokens or "mask_token" in config:  # no text becomes one where special tokens are split
        config |= {"additional_special_tokens": tokens, "split_special_tokens": False}
    before, after = ((), prefix) if last else (prefix, ())
    end = source.of(END)
    write_fast_tokenizer(folder, content, source.names, before, end, config, clean, after)


def _special_tokens(engine: TokenizersPipeline) -> list[str]:
    """Return the special tokens of a pipeline that a text may have: `<mask>`, and users' own."""
    entries = engine.vocabulary
    silent = {*range(UNKNOWN + 1), *entries.prefix, *entries.tags.values()}
    return [
        token["content"]
        for token in engine.pipeline.get("added_tokens") or ()
        if token["special"]
        and engine.ids[token["id"]] not in silent
        and token["content"] not in SPECIALS
        and not token["content"].startswith("\0")
    ]


def _write_marian(
    checkpoint: Checkpoint, source: Numbering, target: Numbering, folder: Path, languages: Any
) -> dict[str, Any]:
    """Write both SentencePiece models and the vocabularies; return the configuration."""
    about = checkpoint.about
    separate = cast(TransformerConfig, checkpoint.config).share in ("none", "target")
    for name, tokenizer in (
        ("source.spm", checkpoint.source_tokenizer),
        ("target.spm", checkpoint.target_tokenizer),
    ):
        (folder / name).write_bytes(tokenizer.engine.model)  # type: ignore[attr-defined]  # checked
    write_json(folder / "vocab.json", _ids(source.names))
    if separate:
        write_json(folder / "target_vocab.json", _ids(target.names))
    return {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        # a special token, which no text has
        **({"bos_token": target.names[target.start]} if BEGIN in target.ids else {}),
        "source_lang": "+".join(about.source_languages) or None,
        "target_lang": languages.get("src_lang") or "+".join(about.target_languages) or None,
    }


def _write_m2m100(
    checkpoint: Checkpoint, source: Numbering, target: Numbering, folder: Path, languages: Any
) -> dict[str, Any]:
    """Write the SentencePiece model and the vocabulary without tags; return the configuration."""
    tokenizer = checkpoint.source_tokenizer
    assert isinstance(tokenizer, ForeignTokenizer)
    assert isinstance(tokenizer.engine, SentencePiece)
    (folder / "sentencepiece.bpe.model").write_bytes(tokenizer.engine.model)
    first = min(source.of(tag) for tag in tokenizer.tags.values())
    write_json(folder / "vocab.json", _ids(source.names[:first]))
    tags = [source.of(tag) for tag in tokenizer.tags.values()]
    special = {i: source.names[i] for i in sorted(tags)}
    started = {}
    if BEGIN in target.ids:
        special[target.start] = started["bos_token"] = target.names[target.start]
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {
        "tokenizer_class": "M2M100Tokenizer",
        "language_codes": CODES.get(len(tokenizer.tags), "m2m100"),
        "num_madeup_words": MADE_UP,
        "added_tokens_decoder": {
            str(i): {"content": text, **flags, "special": True} for i, text in special.items()
        },
        "additional_special_tokens": [*special.values()],  # no decoded text has them
        **languages,
        **started,
    }


def _ids(names: list[str]) -> Mapping[str, int]:
    return {name: i for i, name in enumerate(names)}
