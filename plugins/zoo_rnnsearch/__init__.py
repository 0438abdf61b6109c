"""RNNSearch: a recurrent decoder with attention to every source token."""

from collections.abc import Iterable

from zoo import Architecture, hookimpl

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
