"""What exporters to CTranslate2 share: the vocabularies, the files and the precisions."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint, write_tokenizers
from zoo.checkpoint.format import TOKENIZER_FILES
from zoo.interop.export_card import export_card
from zoo.interop.exporter import Exporter
from zoo.nn.contract import BEGIN, END, UNKNOWN
from zoo.registry.imports import require

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec


class CTranslate2Exporter(Exporter):
    """Writes `model.bin`, `config.json` and the vocabularies; a subclass describes the network."""

    precisions: ClassVar[tuple[str, ...]] = ("float32", "bfloat16", "int8")
    files: ClassVar[tuple[str, ...]] = (
        "model.bin", "config.json", "shared_vocabulary.json", "source_vocabulary.json",
        "target_vocabulary.json", *TOKENIZER_FILES,
    )  # fmt: skip

    @abstractmethod
    def specification(self, checkpoint: Checkpoint) -> TransformerSpec:
        """Return CTranslate2's description of a network with its weights.

        `config.max_positions` is the most tokens of a source or target that it reads, and
        `config.add_source_eos` whether it adds the end token to sources.
        """

    def write(self, checkpoint: Checkpoint, folder: Path, precision: str) -> None:
        """Write the model.

        Raises:
            MissingPackageError: ctranslate2 is not installed.
        """
        require("ctranslate2", extra="ctranslate2")
        spec = self.specification(checkpoint)
        _set_vocabularies(spec, checkpoint)
        spec.validate()
        spec.optimize(quantization=None if precision == "float32" else precision)
        spec.save(str(folder))
        write_tokenizers(checkpoint, folder)

    def card(self, checkpoint: Checkpoint, folder: Path, precision: str) -> str:
        """Return the card, with the name of the library."""
        return export_card(checkpoint, folder, precision, library="ctranslate2")


def weights_of(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return copies of the weights in float32 by their names: CTranslate2 quantizes in place."""
    named = checkpoint.model.named_parameters()
    return {name: weight.detach().cpu().float().clone() for name, weight in named}


def _set_vocabularies(spec: TransformerSpec, checkpoint: Checkpoint) -> None:
    for tokenizer, register in (
        (checkpoint.source_tokenizer, spec.register_source_vocabulary),
        (checkpoint.target_tokenizer, spec.register_target_vocabulary),
    ):
        register([tokenizer.token(i) for i in range(tokenizer.size)])
    begin, end, unknown = (checkpoint.target_tokenizer.token(i) for i in (BEGIN, END, UNKNOWN))
    spec.config.bos_token, spec.config.eos_token = begin, end
    spec.config.unk_token, spec.config.decoder_start_token = unknown, begin
    spec.config.add_source_bos = False
