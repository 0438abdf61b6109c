"""The basic sequence-to-sequence network: a recurrent encoder and a recurrent decoder."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Return the architecture `seq2seq`."""
    yield Architecture(
        name="seq2seq",
        summary="recurrent encoder to recurrent decoder through one fixed vector",
        paper="Sutskever, Vinyals and Le 2014, Sequence to Sequence Learning with Neural Networks",
        config="zoo_seq2seq.config:Seq2SeqConfig",
        network="zoo_seq2seq.network:RecurrentSeq2Seq",
        equations="zoo_seq2seq:equations.md",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the importer of the pronunciation model."""
    yield Format(
        name="g2p",
        summary="English pronunciation, from the packages g2p-en and espnet-g2p-en",
        importer="zoo_seq2seq.formats.g2p:G2P",
    )
