"""FSMT: fairseq's models for WMT 2019, as folders of the library transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from zoo.interop import GENERIC, WEIGHT_FILES, ForeignTokenizer, Moses, Vocabulary
from zoo_transformer.formats.family import Fields, Kind, Layout, layout
from zoo_transformer.formats.tokenizer_files import PIPELINE
from zoo_transformer.formats.transformers_folder import (
    CONFIG,
    JSON_FILES,
    TOKENIZER,
    VOCABULARY_LIMIT,
    Folder,
    HuggingFaceImporter,
)
from zoo_transformer.formats.vocabulary import Rows, check_names, inverse

VOCABULARIES, MERGES = ("vocab-src.json", "vocab-tgt.json"), "merges.txt"
OUTPUT, DECODER = "model.decoder.output_projection.weight", "model.decoder.embed_tokens.weight"


class FSMT(HuggingFaceImporter):
    """Reads two vocabularies of byte-pair parts of Moses' tokens."""

    model_type: ClassVar[str] = "fsmt"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("FSMTTokenizer",)
    kind: ClassVar[Kind] = Kind(
        "post", "fairseq", activation="relu", scale=True, bias=False, output=OUTPUT
    )
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, *VOCABULARIES, MERGES, PIPELINE, *WEIGHT_FILES)

    def layout(self, folder: Folder) -> Layout:
        """Return what `config.json` states, by the names that the others of the family use.

        `tie_word_embeddings` ties all three matrices. The output is also tied to the decoder's
        embedding where both are equal, or one is missing, as in the library up to version 4.
        """
        config = folder.fields
        all_tied = config.get("tie_word_embeddings", False)
        weights = folder.weights
        tied = all_tied or not {OUTPUT, DECODER} <= set(weights)
        if not tied:
            tied = torch.equal(weights[OUTPUT], weights[DECODER])
        values = {
            **config.values,
            "vocab_size": config.get("src_vocab_size", 42024),
            "decoder_vocab_size": config.get("tgt_vocab_size", 42024),
            "tie_word_embeddings": tied,
            "share_encoder_decoder_embeddings": all_tied,
        }
        sizes = values["vocab_size"], values["decoder_vocab_size"]
        folder.reasons.check(
            not all_tied or sizes[0] == sizes[1],
            f"tie_word_embeddings needs one vocabulary, not of {sizes[0]} and {sizes[1]} entries",
        )
        return layout(Fields(values, folder.reasons), self.kind)

    def unknown(self, folder: Folder) -> int:
        """Return the id that both vocabularies give to `<unk>`."""
        ids = [folder.source.json(n, VOCABULARY_LIMIT).get("<unk>") for n in VOCABULARIES]
        if type(ids[0]) is not int or ids[0] != ids[1]:
            folder.reasons.add(f"{' and '.join(VOCABULARIES)} do not give <unk> one id")
            return 3
        return ids[0]

    def tokenizers(
        self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]
    ) -> tuple[ForeignTokenizer, ForeignTokenizer]:
        """Return the tokenizers of both languages."""
        folder.check_added(())
        named = folder.tokenizer.get("tokenizer_class")
        folder.reasons.check(
            named not in GENERIC or not folder.source.has(PIPELINE),
            f"its tokenizer_class {named!r} reads {PIPELINE}, and not Moses' tokens",
        )
        expected = {
            folder.role("pad_token", "<pad>"): made.padding,
            folder.role("sep_token", "</s>"): made.end,
        }
        merges = _merges(folder.source.text(MERGES, VOCABULARY_LIMIT))
        languages = _languages(folder)
        lowercase = Fields(folder.tokenizer, folder.reasons).get("do_lower_case", False)
        both = []
        for file, language, order in zip(VOCABULARIES, languages, rows, strict=True):
            given = folder.source.json(file, VOCABULARY_LIMIT)
            names = inverse(given, file, folder.reasons)
            check_names(names, len(order.ids()), folder.reasons, file)
            for token, number in expected.items():
                if given.get(token, number) != number:
                    folder.reasons.add(f"{file} gives {token} the id {given[token]}, not {number}")
            folder.reasons.raise_if_any()
            vocabulary = Vocabulary(order.tokens(names), order.control(names, ()))
            both.append(
                ForeignTokenizer(Moses(vocabulary, language, merges, lowercase), vocabulary)
            )
        folder.reasons.check(
            not made.shared or both[0].vocabulary() == both[1].vocabulary(),
            f"tie_word_embeddings needs one vocabulary, and {' and '.join(VOCABULARIES)} differ",
        )
        return both[0], both[1]

    def languages(
        self, folder: Folder, tokenizers: tuple[ForeignTokenizer, ForeignTokenizer]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the pair of languages."""
        source, target = _languages(folder)
        return (source,), (target,)


def _languages(folder: Folder) -> tuple[str, str]:
    """Return `langs`: of the tokenizer, else of the network."""
    values: Mapping[str, Any] = folder.tokenizer if "langs" in folder.tokenizer else folder.config
    given = values.get("langs")
    langs = [str(code) for code in given] if isinstance(given, list) else []
    if len(langs) != 2 or not all(Moses.LANGUAGE.fullmatch(code) for code in langs):
        folder.reasons.add(f"langs in {TOKENIZER} or {CONFIG} is not a pair of languages")
        folder.reasons.raise_if_any()
    return langs[0], langs[1]


def _merges(text: str) -> list[tuple[str, str]]:
    """Return the merges as the library reads them.

    It ignores what follows the last line break, further items of a line, and all but the last of
    equal lines.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    pairs = (line.split()[:2] for line in lines)
    merges = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    return list(dict.fromkeys(reversed(merges)))[::-1]
