"""The Transformer: multi-head attention without recurrence."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2


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
    yield Format(
        "marian",
        "Marian and OPUS-MT, as folders of the library transformers",
        importer="zoo_transformer.formats.marian:Marian",
    )
    yield Format(
        "bart",
        "BART, as folders of the library transformers",
        importer="zoo_transformer.formats.bart:Bart",
    )
    yield Format(
        "pegasus",
        "Pegasus, as folders of the library transformers",
        importer="zoo_transformer.formats.bart:Pegasus",
    )
    yield Format(
        "mbart50",
        "mBART-50, as folders of the library transformers",
        importer="zoo_transformer.formats.bart:MBart",
    )
    yield Format(
        "m2m100",
        "M2M-100 and NLLB-200, as folders of the library transformers",
        importer="zoo_transformer.formats.bart:M2M100",
    )
    yield Format(
        "ctranslate2",
        "CTranslate2, a fast engine for Transformers on CPU and GPU",
        exporter="zoo_transformer.formats.ctranslate2:CTranslate2",
        architecture="transformer",
    )
    yield Format(
        "huggingface",
        "transformers' Marian (post-norm) or Pegasus (pre-norm), with a tokenizer",
        exporter="zoo_transformer.formats.huggingface:HuggingFace",
        architecture="transformer",
    )
    yield Format(
        "fairseq-transformer",
        "fairseq's Transformers, `transformer`",
        importer="zoo_transformer.formats.fairseq:FairseqTransformer",
    )
    yield Format(
        "joeynmt-transformer",
        "JoeyNMT's Transformers",
        importer="zoo_transformer.formats.joeynmt:JoeyNMTTransformer",
    )
