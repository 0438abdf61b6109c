"""What every OpenNMT-py checkpoint has: settings, tensors, two vocabularies, and how text is split.

A checkpoint is one file of `torch.save`, such as `model_step_10000.pt`; with version 3, its tensors
may be in a safetensors file beside it. Byte-pair codes and SentencePiece models lie beside it too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from zoo.checkpoint.tensors import LazyTensors
from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConversionError
from zoo.interop.lazy_weights import Weights
from zoo.interop.opennmt_text import OPTIONS as TEXT_OPTIONS
from zoo.interop.opennmt_text import Vocabularies, read_vocabularies, tokenizers_of
from zoo.interop.pickle_scan import strings
from zoo.interop.pickles import plain, read_pickle
from zoo.interop.project import (
    ProjectImporter,
    Weight,
    checkpoint_file,
    chosen_file,
    named_in_pickle,
)
from zoo.interop.reasons import Reasons
from zoo.interop.settings import Settings, brief
from zoo.interop.source import Source
from zoo.interop.state_dict import StateDict
from zoo.interop.vocabulary import Entries

FILES = ("*.pt", "*.safetensors", "*.model", "*codes*", "code", "*.bpe")
"""The files of a folder that matter."""

OPTIONS = {"checkpoint": "the file; by default the only one that ends with .pt", **TEXT_OPTIONS}
"""The options of the importers."""

ENDING = ".pt"

REFUSED: dict[str, Any] = {
    "model_task": "seq2seq",
    "model_type": "text",
    "data_task": "seq2seq",
    "copy_attn": False,
    "generator_function": "softmax",
    "n_src_feats": 0,
    "lora_layers": [],
    "lora_embedding": False,
    "quant_layers": [],
}
"""Settings of both kinds of networks that must have these values, or none."""


@dataclass(frozen=True)
class OpenNMT(Settings):
    """A checkpoint as it was read.

    Attributes:
        state: the tensors; those of the generator are named `generator.weight` and so on.
        vocabularies: of both sides.
        tokenizers: of both sides.
    """

    state: StateDict
    vocabularies: Vocabularies
    tokenizers: tuple[Tokenizer, Tokenizer]

    @property
    def source(self) -> Entries:
        """The source vocabulary."""
        return self.vocabularies.source

    @property
    def target(self) -> Entries:
        """The target vocabulary; the same object as the source's if they are equal."""
        return self.vocabularies.target

    def size(self, name: str, both: str, default: int) -> int:
        """Return a size of one side, unless that of both sides is set."""
        shared = self.get(both, -1)
        return shared if shared > 0 else self.get(name, default)

    @property
    def layers(self) -> tuple[int, int]:
        """The layers of encoder and decoder."""
        return self.size("enc_layers", "layers", 2), self.size("dec_layers", "layers", 2)

    @property
    def width(self) -> int:
        """The width of both sides."""
        sides = []
        for side in ("enc", "dec"):  # before version 3 the settings were named by `rnn`
            old = self.size(f"{side}_rnn_size", "rnn_size", 500)
            sides.append(self.size(f"{side}_hid_size", "hidden_size", old))
        self.reasons.check(
            sides[0] == sides[1], f"encoder and decoder differ in width: {sides[0]}, {sides[1]}"
        )
        return sides[1]

    @property
    def embedding_dims(self) -> tuple[int, int]:
        """The widths of the embeddings of both sides."""
        source, target = (
            self.size(f"{side}_word_vec_size", "word_vec_size", 500) for side in ("src", "tgt")
        )
        return source, target

    @property
    def dropout(self) -> float:
        """The dropout; of several values in the course of training, the first."""
        value: Any = self.settings.get("dropout")
        if isinstance(value, list) and value:
            value = value[0]
        return float(value) if isinstance(value, int | float) and 0 <= value < 1 else 0.0

    @property
    def begins(self) -> bool:
        """Whether the decoder begins with the begin token, and not with another one."""
        return self.vocabularies.start == self.target.rows[1]

    @property
    def share(self) -> str:
        """Which embeddings are one matrix; the output has its own if the decoder begins otherwise.

        Faults go to `reasons`.
        """
        embeddings = self.get("share_embeddings", False)
        self.reasons.check(
            not embeddings or self.source is self.target,
            "its embeddings are shared, but the vocabularies differ",
        )
        if self.get("share_decoder_embeddings", False) and self.begins:
            return "all" if embeddings else "target"
        return "embeddings" if embeddings else "none"

    def embeddings(self, config: Mapping[str, Any], dims: tuple[int, int]) -> dict[str, Weight]:
        """Take the embeddings and the generator, by the names that all architectures here share.

        Args:
            config: the configuration.
            dims: the widths of the target embedding and of the generator's input.
        """
        state, target = self.state, self.target
        made: dict[str, Weight] = {}
        size, lut = len(target.tokens), "embeddings.make_embedding.emb_luts.0.weight"
        one, two = f"encoder.{lut}", f"decoder.{lut}"
        matrix = state.take(two, size, dims[0])
        begin = None if self.begins else self.vocabularies.start
        made["target_embedding.weight"] = target.reorder(matrix, begin)
        if config["share"] in ("embeddings", "all"):
            state.same(one, two)
        else:
            width = self.embedding_dims[0]
            rows = state.take(one, self.source.foreign_size, width)
            made["source_embedding.weight"] = self.source.reorder(rows)
        if self.get("share_decoder_embeddings", False):
            state.same("generator.weight", two)
        else:
            matrix = state.take("generator.weight", size, dims[1])
        if config["share"] in ("none", "embeddings"):
            made["output.weight"] = target.reorder(matrix)
        made["output.bias"] = target.reorder(state.take("generator.bias", size))
        return made


class OpenNMTImporter(ProjectImporter[OpenNMT]):
    """Reads one network of OpenNMT-py."""

    project = "opennmt"
    decoder: ClassVar[str]
    """The setting `decoder_type` of this network."""

    files = FILES
    options = OPTIONS

    def recognizes(self, source: Source) -> bool:
        """Return whether this is an OpenNMT-py checkpoint with a decoder of this network.

        The encoder does not count: of one of another kind, the settings give the reason.
        """
        name = checkpoint_file(source, {}, ENDING, ())
        if name is None or not source.has(name):
            return False
        names = set(strings(source.path(name)))
        if not {"vocab", "opt"} <= names:
            return False
        if not any("make_embedding" in each for each in names):
            parts = _parts(source, name)
            if not parts:  # they are missing, which only the settings can say
                return {"decoder_type", "decoder_start_token", self.decoder} <= names
            for part in parts:
                names |= set(LazyTensors(source.path(part)))
        return not names.isdisjoint(self.tensors)

    def named(self, source: Source) -> frozenset[str]:
        """Return the names of files in the settings, such as that of codes."""
        return named_in_pickle(source, checkpoint_file(source, {}, ENDING, ()))

    def parse(self, source: Source, options: Mapping[str, str]) -> OpenNMT:
        """Read a checkpoint, its vocabularies and its tokenizers."""
        return _read(source, options)


def _read(source: Source, options: Mapping[str, str]) -> OpenNMT:
    what = f"{source} cannot be imported"
    name = chosen_file(source, options, ENDING, ())
    content = read_pickle(source.path(name))
    reasons = Reasons(what)
    settings = plain(content.get("opt")) if isinstance(content, dict) else None
    if not isinstance(settings, dict):
        raise ConversionError(what, f"{name} has no settings under 'opt'")
    vocabularies = read_vocabularies(content.get("vocab"), reasons)
    reasons.raise_if_any()
    tensors = _tensors(source, name, content)
    made = OpenNMT(
        settings,
        reasons,
        StateDict(tensors, reasons),
        vocabularies,
        tokenizers_of(source, options, Settings(settings, reasons), vocabularies),
    )
    made.refuse(**REFUSED)
    return made


def _parts(source: Source, name: str) -> list[str]:
    """Return the safetensors files of a checkpoint, which may be in parts."""
    stem = re.escape(name.removesuffix(ENDING))
    return [each for each in source.names if re.fullmatch(rf"{stem}(\.\d+)?\.safetensors", each)]


def _tensors(source: Source, name: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tensors, those of the generator among them."""
    if isinstance(content.get("model"), dict):
        generator = content.get("generator")
        tensors = {_new_name(str(key)): value for key, value in content["model"].items()}
        for key, value in generator.items() if isinstance(generator, dict) else ():
            tensors[f"generator.{str(key).removeprefix('0.')}"] = value
        return tensors
    parts = _parts(source, name)
    if not parts:
        raise ConversionError(
            f"{source} cannot be imported",
            f"{name} has no tensors, and no safetensors beside it",
            f"Copy {name.removesuffix(ENDING)}*.safetensors there too",
        )
    makers: dict[str, Callable[[], Tensor]] = {}
    for part in parts:
        opened = LazyTensors(source.path(part))
        for key in opened:
            if key in makers:
                raise ConversionError(
                    f"{source} cannot be imported", f"{brief(key)} is in several files"
                )
            makers[key] = functools.partial(opened.__getitem__, key)
    return Weights(makers)


def _new_name(name: str) -> str:
    """Return the name of a tensor; the norms of old versions were named otherwise."""
    return re.sub(r"(\.layer_norm(?:_\d+)?)\.(a_2|b_2)$", _norm, name)


def _norm(match: re.Match[str]) -> str:
    return f"{match[1]}.{'weight' if match[2] == 'a_2' else 'bias'}"
