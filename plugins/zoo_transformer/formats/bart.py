"""BART, Pegasus, mBART-50, M2M-100 and NLLB-200: folders of transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from zoo.interop import WEIGHT_FILES, ForeignTokenizer, Source
from zoo_transformer.formats.family import Kind, Layout
from zoo_transformer.formats.tokenizer_files import (
    PIPELINE,
    Framing,
    from_pipeline,
    from_sentencepiece,
    pipeline_names,
    special_ids,
)
from zoo_transformer.formats.transformers_folder import (
    JSON_FILES,
    TOKENIZER,
    VOCABULARY_LIMIT,
    Folder,
    HuggingFaceImporter,
)
from zoo_transformer.formats.vocabulary import Rows, inverse

Pair = tuple[ForeignTokenizer, ForeignTokenizer]

MODEL, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
LANGUAGE_OPTIONS = {
    "source-lang": "the code of the default source language",
    "target-lang": "the code of the default target language",
}
TAG = re.compile(r"__([a-z]{2,3}(?:_[A-Za-z]+)?)__|([a-z]{2}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})")
"""The tags of M2M-100, of mBART-50, and of NLLB-200."""


# The languages whose tags follow the vocabulary of M2M-100, and of its version for WMT 2021.
M2M100_CODES = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he
hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no
ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo
zh zu
"""
CODES = {"m2m100": M2M100_CODES.split(), "wmt21": ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]}


class Bart(HuggingFaceImporter):
    """Reads BART, whose sources begin and end with special tokens, and `tokenizer.json`."""

    model_type: ClassVar[str] = "bart"
    kind: ClassVar[Kind] = Kind("post", "learned", embedding_norm=True)
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, PIPELINE, *WEIGHT_FILES)

    def unknown(self, folder: Folder) -> int:
        """Return the id of `<unk>` in the pipeline."""
        names = pipeline_names(folder.source.json(PIPELINE, VOCABULARY_LIMIT))
        matched = [i for i, name in names.items() if name == "<unk>"]
        folder.reasons.check(len(matched) == 1, f"{PIPELINE} has no <unk>")
        return matched[0] if matched else 3

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the pipeline with `<s>` before a source, and the forced token before a target."""
        begin = folder.fields.get("bos_token_id", 0)
        forced = forced_token(folder)
        control = special_ids(folder.source.json(PIPELINE, VOCABULARY_LIMIT))
        source = Framing(prefix=(begin,), control=control)
        # a target of foreign begins with <s> after </s>, from which the decoder starts
        target = Framing(prefix=(begin if forced is None else forced,), control=control)
        return (
            from_pipeline(folder, rows[0], source, "source"),
            from_pipeline(folder, rows[1], target, "target"),
        )


class Pegasus(Bart):
    """Reads Pegasus: no token precedes its sources and targets."""

    model_type: ClassVar[str] = "pegasus"
    kind: ClassVar[Kind] = Kind("pre", "halves", padding=0, start=0, end=1)

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the pipeline for both sides."""
        framing = Framing(control=special_ids(folder.source.json(PIPELINE, VOCABULARY_LIMIT)))
        tokenizer = from_pipeline(folder, rows[0], framing, "source")
        return tokenizer, tokenizer


class Multilingual(HuggingFaceImporter):
    """The base of models in which a tag of its language precedes each source and each target."""

    options: ClassVar[dict[str, str]] = LANGUAGE_OPTIONS
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, PIPELINE, MODEL, VOCABULARY, *WEIGHT_FILES)
    default_source: ClassVar[str] = "en_XX"

    def names(self, folder: Folder) -> dict[int, str]:
        """Return the text of each entry, tags included, by its id."""
        if folder.source.has(PIPELINE):
            return pipeline_names(folder.source.json(PIPELINE, VOCABULARY_LIMIT))
        given = folder.source.json(VOCABULARY, VOCABULARY_LIMIT)
        names = inverse(given, VOCABULARY, folder.reasons)
        return {**names, **added_tokens(folder, len(names))}

    def unknown(self, folder: Folder) -> int:
        """Return the id of `<unk>`."""
        matched = [i for i, name in self.names(folder).items() if name == "<unk>"]
        folder.reasons.check(len(matched) == 1, "the vocabulary has no <unk>")
        return matched[0] if matched else 3

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the tokenizer with the tags of the default languages."""
        folder.reasons.check(
            not folder.tokenizer.get("legacy_behaviour"),
            f"legacy_behaviour in {TOKENIZER} puts the tag of a source after its end",
        )
        names = self.names(folder)
        tags = tuple(
            (next(filter(None, match.groups())), i)
            for i, name in sorted(names.items())
            if (match := TAG.fullmatch(name))
        )
        folder.reasons.check(bool(tags), "its vocabulary has no tags of languages")
        both = []
        for side in ("source", "target"):
            control = {i for i, name in names.items() if name in ("<s>", "<mask>")}
            framing = Framing(tags, control=control)
            if folder.source.has(PIPELINE):
                tokenizer = from_pipeline(folder, rows[0], framing, side)
            else:
                tokenizer = from_sentencepiece(folder, MODEL, rows[0], names, framing, side)
            default = self.default(folder, tokenizer, dict(tags), side)
            if default not in tokenizer.tags:
                folder.reasons.add(f"it has no {side} language {str(default)[:40]!r}")
                folder.reasons.raise_if_any()
            both.append(tokenizer.for_language(default))
        return both[0], both[1]

    def default(
        self, folder: Folder, tokenizer: ForeignTokenizer, tags: Mapping[str, int], side: str
    ) -> str:
        """Return the default language: the option, that of the files, else English and German."""
        given = folder.options.get(f"{side}-lang")
        given = given or folder.tokenizer.get("src_lang" if side == "source" else "tgt_lang")
        if given:
            return str(given)
        forced = forced_token(folder)
        if side == "target" and forced is not None and forced in tags.values():
            return next(code for code, tag in tags.items() if tag == forced)
        wanted = ("en", "eng") if side == "source" else ("de", "deu")
        matched = [code for code in tokenizer.tags if re.split("_", code)[0] in wanted]
        return matched[0] if matched else next(iter(tokenizer.tags))


class MBart(Multilingual):
    """Reads mBART-50; the first mBART puts its tags after the text, and is refused."""

    model_type: ClassVar[str] = "mbart"
    kind: ClassVar[Kind] = Kind("pre", "learned", embedding_norm=True)

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the tokenizers of mBART-50."""
        name = str(folder.tokenizer.get("tokenizer_class", ""))
        folder.reasons.check(
            name.startswith("MBart50"),
            f"{TOKENIZER} names {name[:40] or 'no tokenizer'}, not MBart50Tokenizer: the first "
            "mBART puts the tag of a source after its end",
        )
        folder.reasons.raise_if_any()
        return super().tokenizers(folder, made, rows)


class M2M100(Multilingual):
    """Reads M2M-100 and NLLB-200."""

    model_type: ClassVar[str] = "m2m_100"
    kind: ClassVar[Kind] = Kind("pre", "fairseq", activation="relu", scale=True, bias=False)


def forced_token(folder: Folder) -> int | None:
    """Return the id of the token with which every target begins, if there is one."""
    forced = folder.generation.get("forced_bos_token_id")
    return forced if type(forced) is int and forced >= 0 else None


def added_tokens(folder: Folder, count: int) -> dict[int, str]:
    """Return the tokens that follow a vocabulary of `count` entries, by their ids.

    They are in `tokenizer_config.json`, `added_tokens.json`, in order in `special_tokens_map.json`,
    or the tags of M2M-100.
    """
    matched: dict[int, str] = {}
    decoder = folder.tokenizer.get("added_tokens_decoder")
    for key, entry in decoder.items() if isinstance(decoder, dict) else []:
        if key.isdigit() and isinstance(entry, dict):
            matched[int(key)] = str(entry.get("content"))
    for token, number in _json(folder.source, "added_tokens.json").items():
        if type(number) is int:
            matched[number] = token
    known = set(matched.values())
    for values in (folder.tokenizer, _json(folder.source, "special_tokens_map.json")):
        for name in ("additional_special_tokens", "extra_special_tokens"):
            listed = values.get(name)
            texts = [text for text in listed if isinstance(text, str)] if isinstance(
                listed, list) else []  # fmt: skip
            if texts and not known & set(texts):
                matched |= dict(enumerate(texts, count))
                known |= set(texts)
    matched = {i: token for i, token in matched.items() if i >= count}
    if not any(TAG.fullmatch(token) for token in matched.values()):
        codes = CODES.get(str(folder.tokenizer.get("language_codes", "m2m100")), [])
        matched |= {count + i: f"__{code}__" for i, code in enumerate(codes)}
    return matched


def _json(source: Source, name: str) -> dict[str, Any]:
    return source.json(name) if source.has(name) else {}
