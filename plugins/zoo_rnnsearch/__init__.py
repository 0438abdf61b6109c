"""RNNSearch: a recurrent decoder with attention to every source token."""

from collections.abc import Iterable

from zoo import Architecture, Format, hookimpl

ZOO_API = 2


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Return the architecture `rnnsearch`."""
    yield Architecture(
        name="rnnsearch",
        summary="recurrent encoder and decoder, joined by additive attention",
        paper="Bahdanau, Cho and Bengio 2015, Neural Machine Translation by Jointly Learning to "
        "Align and Translate",
        config="zoo_rnnsearch.config:RNNSearchConfig",
        network="zoo_rnnsearch.network:RNNSearch",
        equations="zoo_rnnsearch:equations.md",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the foreign formats of this architecture."""
    yield Format(
        "fairseq-lstm",
        "fairseq's recurrent networks, `lstm`",
        importer="zoo_rnnsearch.formats.fairseq:FairseqLSTM",
    )
    yield Format(
        "joeynmt-rnn",
        "JoeyNMT's recurrent networks",
        importer="zoo_rnnsearch.formats.joeynmt:JoeyNMTRecurrent",
    )
    yield Format(
        "opennmt-rnn",
        "OpenNMT-py's recurrent networks",
        importer="zoo_rnnsearch.formats.opennmt:OpenNMTRecurrent",
    )
