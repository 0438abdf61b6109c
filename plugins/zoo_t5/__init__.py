"""T5: a Transformer with relative position biases and RMS norm, and its multilingual relatives."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Return the architecture `t5`."""
    yield Architecture(
        name="t5",
        summary="Transformer with relative position biases, RMS norm and no bias terms",
        paper="Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified "
        "Text-to-Text Transformer",
        config="zoo_t5.config:T5Config",
        network="zoo_t5.network:T5",
        equations="zoo_t5:equations.md",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the foreign formats of T5."""
    yield Format(
        name="t5",
        summary="T5, mT5, ByT5, MADLAD-400, Flan-T5 and UMT5 of transformers",
        importer="zoo_t5.formats.t5:T5Folder",
    )
    yield Format(
        name="ctranslate2",
        summary="CTranslate2, a fast engine for Transformers on CPU and GPU",
        exporter="zoo_t5.formats.ctranslate2:CTranslate2",
        architecture="t5",
    )
    yield Format(
        name="huggingface",
        summary="transformers' T5 or UMT5, with a tokenizer",
        exporter="zoo_t5.formats.huggingface:HuggingFace",
        architecture="t5",
    )
