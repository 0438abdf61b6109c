"""Marian and OPUS-MT: folders of transformers' `MarianMTModel`."""

from __future__ import annotations

import re
from typing import ClassVar

from zoo.interop import GENERIC, WEIGHT_FILES, ForeignTokenizer, SentencePiece, Vocabulary
from zoo_transformer.formats.family import Kind, Layout
from zoo_transformer.formats.tokenizer_files import (
    PIPELINE,
    Framing,
    from_pipeline,
    pipeline_names,
    read_pipeline,
    special_ids,
)
from zoo_transformer.formats.transformers_folder import (
    JSON_FILES,
    VOCABULARY_LIMIT,
    Folder,
    HuggingFaceImporter,
)
from zoo_transformer.formats.vocabulary import Rows, check_names, codes, inverse

MODELS = ("source.spm", "target.spm")
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
MODEL_LIMIT = 50_000_000
"""The most bytes of a SentencePiece model."""

TAG = re.compile(r">>(.+)<<")
LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]{0,31}")


class Marian(HuggingFaceImporter):
    """Reads two SentencePiece models over one vocabulary, or over two.

    Its positions are sines, then cosines, of the paper's frequencies; the width of the model is put
    into the order in which they alternate, which changes no result.
    """

    model_type: ClassVar[str] = "marian"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("MarianTokenizer",)
    kind: ClassVar[Kind] = Kind("post", "halves", padding=58100, start=58100, end=0)
    files: ClassVar[tuple[str, ...]] = (
        *JSON_FILES, *MODELS, VOCABULARY, TARGET_VOCABULARY, PIPELINE,
        *WEIGHT_FILES,
    )  # fmt: skip
    options: ClassVar[dict[str, str]] = {
        "target-lang": "the code of the default target language, for models with several"
    }

    def unknown(self, folder: Folder) -> int:
        """Return the id that the vocabulary gives to `<unk>`."""
        if _has_pipeline(folder):
            names = pipeline_names(read_pipeline(folder))
            number = next((i for i, name in names.items() if name == "<unk>"), None)
        else:
            number = folder.source.json(VOCABULARY, VOCABULARY_LIMIT).get("<unk>")
        if type(number) is not int:
            file = PIPELINE if _has_pipeline(folder) else VOCABULARY
            folder.reasons.add(f"{file} has no <unk>")
            return 1
        return number

    def tokenizers(
        self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]
    ) -> tuple[ForeignTokenizer, ForeignTokenizer]:
        """Return the tokenizers of both SentencePiece models, or of an export of the zoo."""
        if _has_pipeline(folder):
            content = read_pipeline(folder)
            frame = folder.frame(content, made.end)
            framing = Framing(prefix=frame.before if frame else (), control=special_ids(content))
            tokenizer = from_pipeline(folder, content, rows[0], framing, "source")
            return tokenizer, tokenizer
        both = []
        separate = bool(folder.tokenizer.get("separate_vocabs"))
        for side, size in ((0, made.vocab), (1, made.target_vocab)):
            file = TARGET_VOCABULARY if side and separate else VOCABULARY
            given = folder.source.json(file, VOCABULARY_LIMIT)
            names = inverse(given, file, folder.reasons)
            check_names(names, size, folder.reasons, file)
            folder.check_added([token for token in given if TAG.fullmatch(token)])
            expected = {"</s>": made.end, "<pad>": made.padding, "<unk>": self.unknown(folder)}
            expected |= {folder.role("eos_token", "</s>"): made.end}
            for token, number in expected.items():
                if given.get(token, number) != number:
                    folder.reasons.add(f"{file} gives {token} the id {given[token]}, not {number}")
            folder.reasons.raise_if_any()
            model = folder.source.bytes(MODELS[side], MODEL_LIMIT)
            both.append(tagged_tokenizer(model, names, rows[side], side))
        folder.reasons.check(
            not made.shared or both[0].vocabulary() == both[1].vocabulary(),
            f"share_encoder_decoder_embeddings needs one vocabulary: {TARGET_VOCABULARY} differs",
        )
        default = folder.options.get("target-lang") or folder.tokenizer.get("target_lang")
        if isinstance(default, str) and default in both[0].tags:
            both[0] = both[0].for_language(default)
        elif "target-lang" in folder.options:
            known = ", ".join(both[0].tags) or "none"
            folder.reasons.add(f"it has no target language {default!r}: there are {known}"[:300])
        return both[0], both[1]

    def languages(
        self, folder: Folder, tokenizers: tuple[ForeignTokenizer, ForeignTokenizer]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the languages that `tokenizer_config.json` names, or those of the tags."""
        named = [_codes(folder.tokenizer.get(f"{side}_lang")) for side in ("source", "target")]
        tags = tokenizers[0].tags
        default = (tokenizers[0].language,) if tokenizers[0].language else ()
        several = (*default, *(code for code in tags if code not in default))
        return named[0], tuple(c for c in several if LANGUAGE.fullmatch(c)) or named[1]


def _has_pipeline(folder: Folder) -> bool:
    """Return whether a pipeline of the library tokenizers stands for the SentencePiece models."""
    generic = folder.tokenizer.get("tokenizer_class") in GENERIC
    return folder.source.has(PIPELINE) and (generic or not folder.source.has(MODELS[0]))


def tagged_tokenizer(
    model: bytes, names: dict[int, str], rows: Rows, side: int
) -> ForeignTokenizer:
    """Return the tokenizer of one side: 0 is the source, 1 the target.

    A source may begin with the tag of a target language, such as `>>fra<<`.
    """
    tags = [(match[1], i) for i, name in sorted(names.items()) if (match := TAG.fullmatch(name))]
    vocabulary = Vocabulary(
        rows.tokens(names),
        rows.control(names, {i for _, i in tags}),
        tags={} if side else codes(tags, rows.ids()),
        tags_of="target",
        leading_tag=True,
    )
    return ForeignTokenizer(SentencePiece(model, vocabulary, MODELS[side]), vocabulary)


def _codes(value: object) -> tuple[str, ...]:
    """Return the language codes in a value of `tokenizer_config.json`, such as `en` or `de+nl`."""
    parts = value.split("+") if isinstance(value, str) else []
    return tuple(part for part in parts if LANGUAGE.fullmatch(part))
