"""ConvS2S: a convolutional encoder and decoder, with attention in every decoder layer."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Return the architecture `convs2s`."""
    yield Architecture(
        name="convs2s",
        summary="gated convolutions with multi-step attention",
        paper="Gehring et al. 2017, Convolutional Sequence to Sequence Learning",
        config="zoo_convs2s.config:ConvS2SConfig",
        network="zoo_convs2s.network:ConvS2S",
        equations="zoo_convs2s:equations.md",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the foreign formats of this architecture."""
    yield Format(
        "fairseq-fconv",
        "fairseq's convolutional networks, `fconv`",
        importer="zoo_convs2s.formats.fairseq:FairseqFConv",
    )
