"""mBART, mBART-50, M2M-100 and NLLB-200: folders of transformers."""

from __future__ import annotations

import contextlib
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from zoo.interop import (
    GENERIC,
    WEIGHT_FILES,
    ForeignTokenizer,
    Frame,
    Source,
    checked_frame,
    stated_frame,
)
from zoo_transformer.formats.family import Kind, Layout
from zoo_transformer.formats.slow_tokenizers import fairseq_names
from zoo_transformer.formats.tokenizer_files import (
    PIPELINE,
    Framing,
    from_pipeline,
    from_sentencepiece,
    pipeline_names,
    read_pipeline,
    special_ids,
)
from zoo_transformer.formats.transformers_folder import (
    CONFIG,
    JSON_FILES,
    TOKENIZER,
    VOCABULARY_LIMIT,
    Folder,
    HuggingFaceImporter,
    forced_token,
)
from zoo_transformer.formats.vocabulary import Rows, inverse

Pair = tuple[ForeignTokenizer, ForeignTokenizer]

MODEL, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"
LANGUAGE_OPTIONS = {
    "source-lang": "the code of the default source language",
    "target-lang": "the code of the default target language",
}
NO_TAGS = "its vocabulary has no tags of languages"
TAG = re.compile(r"__([a-z]{2,3}(?:_[A-Za-z]+)?)__|([a-z]{2}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})")
"""The tags of M2M-100, of mBART, and of NLLB-200."""

# The languages whose tags follow the vocabulary of M2M-100, and of its version for WMT 2021.
M2M100_CODES = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he
hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no
ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo
zh zu
"""
M2M100_TAGS = {
    "m2m100": [f"__{code}__" for code in M2M100_CODES.split()],
    "wmt21": [f"__{code}__" for code in ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")],
}

MBART_CODES = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN
"""
MBART50_CODES = """
af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX
sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""
"""The tags that follow those of the first mBART in mBART-50."""


class Multilingual(HuggingFaceImporter):
    """The base of models in which a tag of its language precedes each source and each target."""

    options: ClassVar[dict[str, str]] = LANGUAGE_OPTIONS
    forces: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, PIPELINE, MODEL, VOCABULARY, *WEIGHT_FILES)

    tags_last: ClassVar[bool] = False
    """Whether the tag of a source follows its text and an end token."""

    def known_tags(self, folder: Folder) -> Sequence[str]:
        """Return the tags that follow the vocabulary, if no file lists them."""
        return ()

    def names(self, folder: Folder) -> dict[int, str]:
        """Return the text of each entry, tags included, by its id."""
        if folder.names is None:
            folder.names = self.read_names(folder)
        return folder.names

    def read_names(self, folder: Folder) -> dict[int, str]:
        """Read what `names` returns."""
        if folder.source.has(PIPELINE):
            return pipeline_names(read_pipeline(folder))
        if folder.source.has(VOCABULARY):
            given = folder.source.json(VOCABULARY, VOCABULARY_LIMIT)
            names = inverse(given, VOCABULARY, folder.reasons)
        else:
            names = fairseq_names(folder, MODEL)
        return {**names, **added_tokens(folder, len(names), self.known_tags(folder))}

    def tags(self, folder: Folder) -> tuple[tuple[str, int], ...]:
        """Return the code and the id of each language's tag."""
        return tuple(
            (next(filter(None, match.groups())), i)
            for i, name in sorted(self.names(folder).items())
            if (match := TAG.fullmatch(name))
        )

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
        tags = self.tags(folder)
        folder.reasons.check(bool(tags), NO_TAGS)
        both = []
        for side, order in zip(("source", "target"), rows, strict=True):
            tokenizer = self.side(folder, order, tags, side)
            default = self.default(folder, tokenizer, dict(tags), side)
            if default not in tokenizer.tags:
                folder.reasons.add(f"it has no {side} language {str(default)[:40]!r}")
                folder.reasons.raise_if_any()
            if side == "source":
                self.check_text(folder, made, dict(tags)[default])
            both.append(tokenizer.for_language(default))
        return both[0], both[1]

    def check_text(self, folder: Folder, made: Layout, tag: int) -> None:
        """Add a reason if the library does not put this tag and the end token around a source."""
        named, frame = folder.tokenizer.get("tokenizer_class"), None
        if named in GENERIC and folder.source.has(PIPELINE):
            frame = checked_frame(folder.tokenizer, read_pipeline(folder), folder.reasons)
        else:
            folder.check_roles(self.names(folder), made)
        wanted = Frame((), (made.end, tag)) if self.tags_last else Frame((tag,), (made.end,))
        folder.reasons.check(
            frame in (None, wanted) or "source-lang" in folder.options,
            f"{PIPELINE} does not put the tag of the source language and the end token alone "
            "around a text: name its language with --option source-lang=CODE",
        )

    def side(
        self, folder: Folder, rows: Rows, tags: tuple[tuple[str, int], ...], side: str
    ) -> ForeignTokenizer:
        """Return the tokenizer of one side, without a language."""
        names = self.names(folder)
        others = {i for i, name in names.items() if name in ("<s>", "<mask>")}
        # tags that cannot be chosen are entries without text
        others |= {i for i, name in names.items() if not tags and TAG.fullmatch(name)}
        content = read_pipeline(folder) if folder.source.has(PIPELINE) else {}
        others |= special_ids(content)
        framing = Framing(tags, control=others, tags_last=self.tags_last and side == "source")
        if content:
            return from_pipeline(folder, content, rows, framing, side)
        folder.check_added([name for name in names.values() if TAG.fullmatch(name)])
        return from_sentencepiece(folder, MODEL, rows, names, framing, side)

    def default(
        self, folder: Folder, tokenizer: ForeignTokenizer, tags: Mapping[str, int], side: str
    ) -> str:
        """Return the default language: the option, that of the files, else English and German.

        The library's `generate` begins a target with the forced token, whatever its `tgt_lang` is.
        """
        given, forced = folder.options.get(f"{side}-lang"), forced_token(folder)
        if side == "target" and forced is not None and not given:
            of_forced = [code for code, tag in tags.items() if tag == forced]
            folder.reasons.check(
                bool(of_forced), f"forced_bos_token_id {forced} is not the tag of a language"
            )
            given = next(iter(of_forced), None)
        given = given or folder.tokenizer.get("src_lang" if side == "source" else "tgt_lang")
        if given:
            return str(given)
        wanted = ("en", "eng") if side == "source" else ("de", "deu")
        matched = [code for code in tokenizer.tags if re.split("_", code)[0] in wanted]
        return matched[0] if matched else next(iter(tokenizer.tags))


class MBart50(Multilingual):
    """Reads mBART-50."""

    model_type: ClassVar[str] = "mbart"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("MBart50Tokenizer",)
    kind: ClassVar[Kind] = Kind("pre", "learned", embedding_norm=True, start=0)

    def recognizes(self, source: Source) -> bool:
        """Return whether the tokenizer is that of mBART-50."""
        return super().recognizes(source) and _is_mbart50(source)

    def known_tags(self, folder: Folder) -> Sequence[str]:
        """Return those of mBART-50."""
        return [*MBART_CODES.split(), *MBART50_CODES.split()]


class MBart(Multilingual):
    """Reads the first mBART: a source ends with its tag, and the decoder starts from a tag.

    The begin token has the row of that tag, so that a checkpoint has one target language.
    """

    model_type: ClassVar[str] = "mbart"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("MBartTokenizer",)
    forces: ClassVar[bool] = False  # the start is the tag, and no tag precedes a target
    kind: ClassVar[Kind] = Kind("pre", "learned", embedding_norm=True)
    tags_last: ClassVar[bool] = True
    options: ClassVar[dict[str, str]] = {
        "source-lang": "the code of the default source language",
        "target-lang": "the code of the target language: the checkpoint has only this one",
    }

    def recognizes(self, source: Source) -> bool:
        """Return whether the tokenizer is not that of mBART-50."""
        return super().recognizes(source) and not _is_mbart50(source)

    def known_tags(self, folder: Folder) -> Sequence[str]:
        """Return those of the first mBART."""
        return MBART_CODES.split()

    def target(self, folder: Folder) -> tuple[str, int]:
        """Return the code of the target language, and where the decoder starts: at its tag.

        The decoder of what was tuned starts at an entry of its own, which no tokenizer has.
        """
        tags = dict(self.tags(folder))
        if not tags:
            folder.reasons.add(NO_TAGS)
            return "", 0
        start = folder.start
        of_start = next((code for code, tag in tags.items() if tag == start), None)
        own = start if type(start) is int and start not in self.names(folder) else None
        stated = folder.tokenizer.get("tgt_lang") if start is None or own else None
        given = folder.options.get("target-lang") or of_start or stated
        if not isinstance(given, str) or given not in tags:
            what = "names no target language" if given is None else f"has no {reprlib.repr(given)}"
            if given is None and start is not None:
                what = f"begins targets with {reprlib.repr(start)}, which is no tag of a language"
            near = ", ".join([*tags][:30])
            folder.reasons.add(f"it {what}: give --option target-lang=CODE, one of {near}")
            return "", 0
        return given, own if own and given == stated else tags[given]

    def layout(self, folder: Folder) -> Layout:
        """Return what `config.json` states, with the start of the target language."""
        made = super().layout(folder)
        values = {**made.values, "source_end": False}
        return replace(made, values=values, start=self.target(folder)[1])

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the tokenizer of sources with tags, and that of targets without."""
        tags = self.tags(folder)
        source = self.side(folder, rows[0], tags, "source")
        default = self.default(folder, source, dict(tags), "source")
        if default not in source.tags:
            folder.reasons.add(f"it has no source language {str(default)[:40]!r}")
            folder.reasons.raise_if_any()
        self.check_text(folder, made, dict(tags)[default])
        return source.for_language(default), self.side(folder, rows[1], (), "target")

    def languages(
        self, folder: Folder, tokenizers: Pair
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the languages of sources, and the one of targets."""
        return super().languages(folder, tokenizers)[0], (self.target(folder)[0],)


def _is_mbart50(source: Source) -> bool:
    settings = source.json(TOKENIZER) if source.has(TOKENIZER) else {}
    named = settings.get("tokenizer_class") or source.json(CONFIG).get("tokenizer_class")
    if named in GENERIC and source.has(PIPELINE):  # the tag precedes the text, by its template
        content = source.json(PIPELINE, VOCABULARY_LIMIT)
        with contextlib.suppress(ValueError):
            frame = stated_frame({"tokenizer_class": named}, content)
            return frame is not None and bool(frame.before)
    return str(named or "").startswith("MBart50")


class M2M100(Multilingual):
    """Reads M2M-100 and NLLB-200."""

    def cleaned(self, folder: Folder, tokenizers: Pair) -> Pair:
        """Return tokenizers of clean texts, but not of NLLB-200, which has byte-pair codes."""
        with_codes = not folder.source.has(VOCABULARY)
        return tokenizers if with_codes else super().cleaned(folder, tokenizers)

    model_type: ClassVar[str] = "m2m_100"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("M2M100Tokenizer", "NllbTokenizer")
    kind: ClassVar[Kind] = Kind("pre", "fairseq", activation="relu", scale=True, bias=False)

    def known_tags(self, folder: Folder) -> Sequence[str]:
        """Return those of M2M-100, whose vocabulary is in `vocab.json`."""
        if not folder.source.has(VOCABULARY):
            return ()
        return M2M100_TAGS.get(str(folder.tokenizer.get("language_codes", "m2m100")), [])


def added_tokens(folder: Folder, count: int, tags: Sequence[str]) -> dict[int, str]:
    """Return the tokens that follow a vocabulary of `count` entries, by their ids.

    They are in `tokenizer_config.json`, `added_tokens.json`, in order in `special_tokens_map.json`;
    or else they are `tags`.
    """
    matched: dict[int, str] = {}
    decoder = folder.tokenizer.get("added_tokens_decoder")
    for key, entry in decoder.items() if isinstance(decoder, dict) else []:
        if re.fullmatch(r"[0-9]{1,9}", key) and isinstance(entry, dict):
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
        matched |= dict(enumerate(tags, count))
    return matched


def _json(source: Source, name: str) -> dict[str, Any]:
    return source.json(name) if source.has(name) else {}
