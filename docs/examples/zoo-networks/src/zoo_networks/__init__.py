"""Small networks, one for each thing that the contract allows beside the usual."""

from collections.abc import Iterable
from pathlib import Path

from zoo import Architecture, hookimpl

ZOO_API = 2


@hookimpl
def zoo_architectures() -> Iterable[Architecture]:
    """Declare the architectures; each config and network is imported on first use."""
    yield Architecture(
        name="pooled",
        summary="sigmoid attention to a source that is pooled by a convolution",
        paper="Ramapuram et al. 2025, Theory, Analysis, and Best Practices for Sigmoid Attention",
        config="zoo_networks.configs:PooledConfig",
        network="zoo_networks.pooled:Pooled",
    )
    yield Architecture(
        name="experts",
        summary="the pooled network with experts, their balance as a loss, and a CTC head",
        paper="Kim et al. 2017, Joint CTC-Attention based End-to-End Speech Recognition",
        config="zoo_networks.configs:ExpertsConfig",
        network="zoo_networks.experts:Experts",
    )
    yield Architecture(
        name="context",
        summary="a text and its context as two sources, each with an encoder, and a gate",
        paper="Voita et al. 2018, Context-Aware Neural Machine Translation Learns Anaphora Resolution",
        config="zoo_networks.configs:ContextConfig",
        network="zoo_networks.context:Context",
    )
    yield Architecture(
        name="speech",
        summary="the pooled network over feature vectors, such as frames of speech",
        paper="Ramapuram et al. 2025, Theory, Analysis, and Best Practices for Sigmoid Attention",
        config="zoo_networks.configs:SpeechConfig",
        network="zoo_networks.speech:Speech",
    )
    yield Architecture(
        name="prefix",
        summary="a decoder alone, whose prefix is the source: one softmax over both",
        paper="Liu et al. 2018, Generating Wikipedia by Summarizing Long Sequences",
        config="zoo_networks.configs:PrefixConfig",
        network="zoo_networks.prefix:Prefix",
    )
    yield Architecture(
        name="masked",
        summary="all tokens of a target at once, in a few passes",
        paper="Ghazvininejad et al. 2019, Mask-Predict",
        config="zoo_networks.configs:MaskedConfig",
        network="zoo_networks.masked:Masked",
    )
    yield Architecture(
        name="modern",
        summary="a Transformer with rotary positions, RMS norms, SwiGLU and grouped queries",
        paper="Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models",
        config="zoo_networks.configs:ModernConfig",
        network="zoo_networks.modern:Modern",
    )
    yield Architecture(
        name="luong",
        summary="LSTMs with attention and input feeding",
        paper="Luong et al. 2015, Effective Approaches to Attention-based NMT",
        config="zoo_networks.configs:LuongConfig",
        network="zoo_networks.luong:Luong",
    )


@hookimpl
def zoo_catalogues() -> Iterable[Path]:
    """Return the catalogue of this package's models."""
    yield Path(__file__).with_name("models.toml")
