"""The Transformer: multi-head attention without recurrence."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2

FOLDERS = "as folders of the library transformers"
IMPORTERS = (
    ("marian", f"Marian and OPUS-MT, {FOLDERS}", "marian:Marian"),
    ("marian-npz", "Marian's own models, `.npz` archives", "marian_npz:MarianArchive"),
    ("bart", f"BART, {FOLDERS}", "bart:Bart"),
    ("pegasus", f"Pegasus, {FOLDERS}", "bart:Pegasus"),
    ("mbart", f"the first mBART, {FOLDERS}", "multilingual:MBart"),
    ("mbart50", f"mBART-50, {FOLDERS}", "multilingual:MBart50"),
    ("m2m100", f"M2M-100 and NLLB-200, {FOLDERS}", "multilingual:M2M100"),
    ("fsmt", f"FSMT, fairseq's models for WMT 2019, {FOLDERS}", "fsmt:FSMT"),
    ("fairseq-transformer", "fairseq's Transformers, `transformer`", "fairseq:FairseqTransformer"),
    ("joeynmt-transformer", "JoeyNMT's Transformers", "joeynmt:JoeyNMTTransformer"),
    ("opennmt-transformer", "OpenNMT-py's Transformers", "opennmt:OpenNMTTransformer"),
)
"""The foreign formats that are read: name, summary, and module and class of the importer."""


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Return the architecture `transformer`."""
    yield Architecture(
        name="transformer",
        summary="multi-head attention in the encoder, in the decoder and between them",
        paper="Vaswani et al. 2017, Attention Is All You Need",
        config="zoo_transformer.config:TransformerConfig",
        network="zoo_transformer.network:Transformer",
        equations="zoo_transformer:equations.md",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the foreign formats of the Transformer."""
    for name, summary, importer in IMPORTERS:
        yield Format(name, summary, importer=f"zoo_transformer.formats.{importer}")
    yield Format(
        "ctranslate2",
        "CTranslate2, a fast engine for Transformers on CPU and GPU",
        exporter="zoo_transformer.formats.ctranslate2:CTranslate2",
        architecture="transformer",
    )
    yield Format(
        "huggingface",
        "transformers' Marian, Pegasus, BART, mBART-50 or M2M-100, with a tokenizer",
        exporter="zoo_transformer.formats.huggingface:HuggingFace",
        architecture="transformer",
    )
