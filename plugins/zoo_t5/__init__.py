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
    """Return the importer of T5's folders."""
    yield Format(
        name="t5",
        summary="T5, mT5, ByT5, MADLAD-400, Flan-T5 and UMT5 of transformers",
        importer="zoo_t5.formats.t5:T5Folder",
    )
