"""Importers of folders that the library transformers wrote: what all of them share."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from zoo.interop import (
    GENERIC,
    SAVE_TOKENIZER,
    WEIGHT_FILES,
    About,
    ForeignTokenizer,
    Frame,
    Generation,
    Imported,
    Importer,
    Reasons,
    Source,
    TokenizersPipeline,
    checked_frame,
    open_weights,
)
from zoo_transformer.config import TransformerConfig
from zoo_transformer.formats.family import Fields, Kind, Layout, Network, layout
from zoo_transformer.formats.tensor_names import Names
from zoo_transformer.formats.vocabulary import Rows, SpecialIds

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
ADDED, SPECIAL = "added_tokens.json", "special_tokens_map.json"
JSON_FILES = (CONFIG, GENERATION, TOKENIZER, SPECIAL, ADDED)
PREFIX, BARE = "model.", ("shared.", "encoder.", "decoder.")
"""What precedes the names of a network's weights, and how they begin without it."""

VOCABULARY_LIMIT = 100_000_000
"""The most bytes of a vocabulary."""

ALIASES = {
    "hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}  # fmt: skip
"""Other names of the library for values of `config.json`, which it prefers to the usual ones."""

MASK = "mask_token"
"""The role of the special token that a text may have."""

ROLES = frozenset(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
USUAL = re.compile(r"</?s>|<(pad|unk|mask)>|<(unk|mask)_[0-9]{1,3}>")
"""Special tokens that a SentencePiece model has, the numbered ones of Pegasus among them."""

MOST_ENTRIES = 10_000_000
"""The most entries of a vocabulary."""


class Renamed(Mapping[str, Tensor]):
    """The tensors of a bare network by the names of one with an output."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.names = {f"{PREFIX}{n}" if n.startswith(BARE) else n: n for n in tensors}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Folder:
    """A folder of transformers: its JSON files, and the reasons why it cannot be imported.

    Attributes:
        start: `decoder_start_token_id`, which may be of any type, or None.
    """

    def __init__(self, source: Source, options: Mapping[str, str]) -> None:
        self.source, self.options = source, options
        self.reasons = Reasons(f"{source} cannot be imported")
        self.config = source.json(CONFIG)
        self.tokenizer = source.json(TOKENIZER) if source.has(TOKENIZER) else {}
        given = source.json(GENERATION) if source.has(GENERATION) else None
        self.generation, generation = Generation.of(self.config, given), given or {}
        given_by = {own: self.config.get(name) for name, own in ALIASES.items()}
        aliased = {own: value for own, value in given_by.items() if value is not None}
        values = {**self.config, **aliased}
        wanted, stated = values.get("encoder_layers"), self.config.get("encoder_layers")
        self.reasons.check(  # version 4 prefers the second, and version 5 the first
            stated in (None, wanted),
            f"num_hidden_layers {str(wanted)[:60]} contradicts encoder_layers {str(stated)[:60]}",
        )
        self.start = values.get("decoder_start_token_id")
        if (start := generation.get("decoder_start_token_id")) is not None:
            self.start = start
        # what `generate` starts from
        begin = generation.get("bos_token_id") if start is None else start
        values["decoder_start_token_id"] = self.start if begin is None else begin
        if isinstance(ends := values.get("eos_token_id"), list) and len(ends) == 1:
            values["eos_token_id"] = ends[0]
        end, wanted = values.get("eos_token_id"), generation.get("eos_token_id")
        if end is None and type(wanted) is int:
            end = values["eos_token_id"] = wanted
        self.reasons.check(
            wanted is None or end is None or wanted in (end, [end]),
            f"{GENERATION} ends outputs at {str(wanted)[:60]}, not at eos_token_id {end} alone",
        )
        self.reasons.check(
            self.config.get("quantization_config") is None,
            "its weights are quantized: use those of 16 or 32 bits",
        )
        self.fields = Fields(values, self.reasons)
        self.names: dict[int, str] | None = None  # of the vocabulary, once an importer has read it
        self.pipeline: dict[str, Any] | None = None  # of the library tokenizers, in the same way

    @cached_property
    def weights(self) -> Mapping[str, Tensor]:
        """The tensors, each read when it is looked up.

        The bare network, `BartModel`, has its weights without the prefix `model.`.
        """
        tensors = open_weights(self.source)
        if any(name.startswith(PREFIX) for name in tensors):
            return tensors
        return Renamed(tensors)

    def check_added(self, known: Collection[str]) -> None:
        """Add a reason if tokens were added to a SentencePiece model, or to byte-pair codes.

        The library finds these in a text before the model cuts the rest; the model does not. The
        kind's own special tokens are no such tokens, nor are those of `known`.
        """
        texts = self._added()
        special = {*known, *(text for role, text in self._special_tokens() if role != MASK)}
        added = [text for text in texts if text not in special and not USUAL.fullmatch(text)]
        if added:
            more = f" and {len(added) - 3} more" if len(added) > 3 else ""
            self.reasons.add(
                f"its tokenizer has added tokens ({', '.join(t[:40] for t in added[:3])}{more}), "
                "which need tokenizer.json"
            )

    def _added(self) -> list[str]:
        """Return the texts of added tokens that the files beside the tokenizer name."""
        decoder = self.tokenizer.get("added_tokens_decoder")
        entries: list[Any] = [*decoder.values()] if isinstance(decoder, dict) else []
        for values in self._named():
            for name in ("additional_special_tokens", "extra_special_tokens"):
                given = values.get(name)
                named = [*given.values()] if isinstance(given, dict) else given
                entries += named if isinstance(named, list) else ()
        texts = [str(each.get("content") if isinstance(each, dict) else each) for each in entries]
        texts += [text for role, text in self._special_tokens() if role == MASK]
        return [
            *dict.fromkeys([*texts, *(self.source.json(ADDED) if self.source.has(ADDED) else ())])
        ]

    def check_pipeline(self, content: Mapping[str, Any], names: Collection[str]) -> None:
        """Add a reason where `tokenizer_config.json` changes a pipeline, which is read as it is.

        Args:
            content: `tokenizer.json`.
            names: the texts of its entries.
        """
        lacking = [text[:40] for text in self._added() if text not in names]
        self.reasons.check(
            not lacking, f"tokenizer.json lacks the added tokens {', '.join(lacking[:3])}"
        )
        given = content.get("pre_tokenizer")
        before = given if isinstance(given, dict) else {}
        stated, wanted = before.get("add_prefix_space"), self.tokenizer.get("add_prefix_space")
        generic = self.tokenizer.get("tokenizer_class") in GENERIC
        if wanted is None and before.get("type") == "ByteLevel" and not generic:
            wanted = False  # the default of the classes with byte-pair codes
        self.reasons.check(
            None in (stated, wanted) or stated == wanted,
            f"add_prefix_space is {str(wanted)[:10]} in {TOKENIZER}, and not so in tokenizer.json",
        )

    def frame(self, content: Mapping[str, Any], end: int) -> Frame | None:
        """Return what a `tokenizer.json` puts around a text; None if the tokenizer's class decides.

        A reason is added if the end token does not follow the text.
        """
        frame = checked_frame(self.tokenizer, content, self.reasons)
        if frame is not None:
            self.reasons.check(
                frame.after == (end,), "tokenizer.json does not put the end token after a text"
            )
        return frame

    def role(self, name: str, usual: str) -> str:
        """Return the text of the special token in a role, such as `eos_token`."""
        return next((text for role, text in self._special_tokens() if role == name), usual)

    def check_roles(self, names: Mapping[int, str], made: Layout, end: str = "eos_token") -> None:
        """Add a reason if the network's padding is text, or its end token not the tokenizer's.

        Args:
            names: the texts of the tokenizer's entries, by their ids.
            made: the ids of the network.
            end: the role of the token that follows a text.
        """
        special = {text for _, text in self._special_tokens()}
        for role, usual, number in (("pad_token", "<pad>", made.padding), (end, "</s>", made.end)):
            text = self.role(role, usual)
            other = names.get(number, text)
            silent = role == "pad_token" and (other in special or USUAL.fullmatch(other))
            self.reasons.check(
                other == text or bool(silent),
                f"its tokenizer's {role} is {text[:40]!r}, the network's {other!r}",
            )

    def _special_tokens(self) -> Iterator[tuple[str, str]]:
        """Yield role and text of the special tokens that the files name."""
        for values in self._named():
            for name, value in values.items():
                text = value.get("content") if isinstance(value, dict) else value
                if name in ROLES and isinstance(text, str):
                    yield name, text

    def _named(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the two objects that name special tokens."""
        return self.tokenizer, self.source.json(SPECIAL) if self.source.has(SPECIAL) else {}

    def special(self, made: Layout, unknown: int) -> SpecialIds:
        """Return the special ids, checked against both vocabularies."""
        special = SpecialIds(made.padding, made.start, made.end, unknown)
        for size in sorted({made.vocab, made.target_vocab}):
            if size > MOST_ENTRIES:
                self.reasons.add(f"its vocabulary has {size:,} entries: {MOST_ENTRIES:,} at most")
                self.reasons.raise_if_any()
            for fault in special.faults(size):
                self.reasons.add(fault)
        return special


class HuggingFaceImporter(Importer):
    """The base of the importers: it reads the configuration and the weights."""

    version: ClassVar[int] = 3
    model_type: ClassVar[str]
    kind: ClassVar[Kind]
    tokenizer_classes: ClassVar[tuple[str, ...]]
    """Classes of tokenizers that frame texts as this importer does, without `Fast` at the end."""

    forces: ClassVar[bool] = False
    """Whether it reads a token with which every target begins (`forced_bos_token_id`)."""

    def recognizes(self, source: Source) -> bool:
        """Return whether `config.json` names the kind of model."""
        return source.has(CONFIG) and source.json(CONFIG).get("model_type") == self.model_type

    def layout(self, folder: Folder) -> Layout:
        """Return what `config.json` states."""
        return layout(folder.fields, self.kind)

    @abstractmethod
    def unknown(self, folder: Folder) -> int:
        """Return the id of the unknown token."""

    @abstractmethod
    def tokenizers(
        self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]
    ) -> tuple[ForeignTokenizer, ForeignTokenizer]:
        """Return the tokenizers of the source and of the target."""

    def languages(
        self, folder: Folder, tokenizers: tuple[ForeignTokenizer, ForeignTokenizer]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the languages of source and target, the defaults first."""
        matched = [_with_default(tokenizer) for tokenizer in tokenizers]
        return matched[0], matched[1]

    def cleaned(
        self, folder: Folder, tokenizers: tuple[ForeignTokenizer, ForeignTokenizer]
    ) -> tuple[ForeignTokenizer, ForeignTokenizer]:
        """Return tokenizers of clean texts; the library has none of byte-pair codes."""
        engine = tokenizers[1].engine
        if isinstance(engine, TokenizersPipeline) and engine.pipeline["model"].get("type") == "BPE":
            return tokenizers
        made = {each: each.with_clean_texts() for each in tokenizers}
        return made[tokenizers[0]], made[tokenizers[1]]

    def check_tokenizer(self, folder: Folder) -> None:
        """Raise if the folder has no file of a tokenizer, as one that holds the network alone."""
        files = [name for name in self.files if name not in (*JSON_FILES, *WEIGHT_FILES)]
        if not any(map(folder.source.has, files)):
            folder.reasons.next = SAVE_TOKENIZER
            folder.reasons.add(f"it has no tokenizer: neither {' nor '.join(files)}")
            folder.reasons.raise_if_any()

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read the folder.

        Raises:
            ConversionError: it cannot be expressed exactly; lists all reasons.
            ConfigError: sizes are out of bounds.
            CheckpointError: a file is damaged.
        """
        folder = Folder(source, options)
        self.check_tokenizer(folder)
        kind = self.kind
        named = folder.tokenizer.get("tokenizer_class") or folder.config.get("tokenizer_class")
        known = named in (None, *GENERIC) or str(named).removesuffix("Fast") in (
            self.tokenizer_classes)  # fmt: skip
        folder.reasons.check(known, f"its tokenizer_class {str(named)[:60]!r} may read otherwise")
        folder.reasons.check(
            source.has("tokenizer.json") or not folder.tokenizer.get("sp_model_kwargs"),
            f"sp_model_kwargs in {TOKENIZER} changes how texts are cut",
        )
        if not self.forces and forced_token(folder) is not None:
            folder.reasons.add("forced_bos_token_id: no token is forced here at the beginning")
        made = self.layout(folder)
        special = folder.special(made, self.unknown(folder))
        folder.reasons.raise_if_any()
        TransformerConfig.parse(made.values, f"{source} cannot be imported")
        names = Names(folder.weights, folder.reasons)
        names.check_vocabulary(made.target_vocab)
        folder.reasons.raise_if_any()
        never = folder.generation.never()
        rows = Rows.of(special, made.vocab, never), Rows.of(special, made.target_vocab, never)
        network = Network(names, made, kind, *rows)
        weights = network.weights()
        folder.reasons.raise_if_any()
        tokenizers = self.tokenizers(folder, made, rows)
        folder.reasons.raise_if_any()
        if folder.tokenizer.get("clean_up_tokenization_spaces") is True:
            tokenizers = self.cleaned(folder, tokenizers)
        languages = self.languages(folder, tokenizers)
        banned = _texts(folder.generation.banned(), rows[1], tokenizers[1])
        decoding = folder.generation.decoding(banned, folder.reasons)
        about = About(*languages, decoding=decoding, origin="imported")
        return Imported("transformer", self.model_type, network.values, weights, *tokenizers, about)


def _texts(banned: Collection[int], rows: Rows, tokenizer: ForeignTokenizer) -> tuple[str, ...]:
    """Return the texts of foreign ids that may be written otherwise."""
    ids = rows.ids()
    inner = sorted(ids[i] for i in banned if 0 <= i < len(ids))
    return tuple(tokenizer.token(i) for i in inner if i > 3)


def _with_default(tokenizer: ForeignTokenizer) -> tuple[str, ...]:
    """Return the languages whose tags a tokenizer has, that of its default first."""
    default = () if tokenizer.language is None else (tokenizer.language,)
    return (*default, *(code for code in tokenizer.tags if code not in default))


def forced_token(folder: Folder) -> int | None:
    """Return the id of the token with which every target begins, if there is one."""
    forced = folder.generation.values.get("forced_bos_token_id")
    return forced if type(forced) is int and forced >= 0 else None
