"""T5 (Raffel et al. 2020), with the variants of T5 v1.1, mT5, ByT5, MADLAD-400 and UMT5.

Each sublayer f computes x + dropout(f(norm(x))) with an RMS norm; attention adds a bias to each
score that depends on the head and on the distance between query and key, instead of positions in
the embeddings (section 2.1). No layer has a bias term, and neither embeddings nor scores are
scaled. With `scale_output`, the decoder's outputs are multiplied by 1/√d before the output layer,
as T5 does where that layer shares the embedding's matrix.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from zoo.nn import Dropout, Encoded, KeyValueCache, Output, Seq2Seq, Source, Step, linear
from zoo_t5.attention import PositionBias, RMSNorm
from zoo_t5.config import T5Config
from zoo_t5.layers import DecoderLayer, EncoderLayer, Scored, Weights


class Memory(NamedTuple):
    """The source as keys and values of each decoder layer, (sentences, heads, m, d_h).

    key_padding_mask: (sentences, 1, 1, m), True at padding.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    key_padding_mask: Tensor


class T5(Seq2Seq[Memory, KeyValueCache]):
    """Encoder and decoder stacks between embeddings and the output projection."""

    def __init__(self, config: T5Config, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        d, enc, dec = config.dim, config.encoder_layers, config.decoder_layers
        if config.share == "none":
            self.source_embedding = nn.Embedding(source_vocab, d)
        self.target_embedding = nn.Embedding(target_vocab, d)
        self.encoder_positions = self._position_biases(enc, bidirectional=True)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(enc))
        self.encoder_norm = RMSNorm(config)
        self.decoder_positions = self._position_biases(dec, bidirectional=False)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(dec))
        self.decoder_norm = RMSNorm(config)
        self.output = Projection(config, target_vocab)
        self.dropout = Dropout(config.dropout)
        self.initialize()

    def _position_biases(self, layers: int, bidirectional: bool) -> nn.ModuleList:
        count = layers if self.config.layer_positions else 1
        return nn.ModuleList(PositionBias(self.config, bidirectional) for _ in range(count))

    def initialize(self) -> None:
        """Draw weights normally, with the deviations of the released code.

        1 for embeddings, 1/√(d d_h) for W_q, and 1/√inputs for the other matrices. Departure: an
        output that is not shared has 1/√d.
        """
        d, k = self.config.dim, self.config.heads * self.config.head_dim
        for name, weight in self.named_parameters():
            if "norm" in name:
                continue
            std = weight.shape[-1] ** -0.5
            if "embedding" in name:
                std = 1.0
            elif "positions" in name:
                std = d**-0.5
            elif name.endswith("query.weight"):
                std = (d * self.config.head_dim) ** -0.5
            nn.init.normal_(weight, std=std)
            if name.endswith("attention.project.weight"):
                nn.init.normal_(weight.data[:k], std=(d * self.config.head_dim) ** -0.5)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m), up to the keys and values of the decoder layers."""
        weights: Weights = [] if attention else None
        shared = self.config.share != "none"
        embedding = self.target_embedding if shared else self.source_embedding
        x = self.dropout(embedding(source))
        key_padding_mask = ~source_mask[:, None, None]
        biases = [positions(source.shape[1]) for positions in self.encoder_positions]
        for number, layer in enumerate(self.encoder):
            bias = biases[number % len(biases)]  # of the layer, or the only one
            x = layer(x, Scored(bias, key_padding_mask), weights)
        x = self.dropout(self.encoder_norm(x))
        pairs = [layer.keys_and_values(x) for layer in self._decoder_layers()]
        keys, values = tuple(k for k, _ in pairs), tuple(v for _, v in pairs)
        kinds = {"encoder": torch.stack(weights, 1)} if weights else {}
        return Encoded(Memory(keys, values, key_padding_mask), kinds)

    def init_state(self, memory: Memory) -> KeyValueCache:
        """Return an empty cache."""
        return KeyValueCache(len(memory.key_padding_mask))

    def step(
        self, token: Tensor, state: KeyValueCache, memory: Memory, attention: bool = False
    ) -> Step[KeyValueCache]:
        """Read one token per row; only self-attention grows with the position."""
        state = state.extended()
        mask = None if state.mask is None else ~state.mask
        x = self.target_embedding(token[:, None])
        biases = [positions.last_row(state.length) for positions in self._decoder_positions()]
        if state.beam > 1:  # the cache has the keys of all hypotheses beside each other
            biases = [bias.repeat_interleave(state.beam, 3) for bias in biases]
        scored = [Scored(bias, mask) for bias in biases]
        logits, kinds = self._decode(x, state, scored, memory, attention)
        return Step(logits[:, 0], state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        encoded = self.encode(source, source_mask, attention)
        n = target.shape[1]
        causal_mask = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)
        scored = [Scored(positions(n), causal_mask) for positions in self._decoder_positions()]
        x = self.target_embedding(target)
        logits, kinds = self._decode(x, None, scored, encoded.memory, attention)
        return Output(logits, {**encoded.attention, **kinds})

    def _decode(
        self,
        x: Tensor,
        cache: KeyValueCache | None,
        scored: list[Scored],
        memory: Memory,
        attention: bool,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Run the decoder over embedded tokens, (rows, n, d): all, or the last one of a cache."""
        of_self: Weights = [] if attention else None
        of_cross: Weights = [] if attention else None
        x = self.dropout(x)
        for number, layer in enumerate(self.decoder):
            source = Source(memory.keys[number], memory.values[number], memory.key_padding_mask)
            layer_cache = None if cache is None else (cache, number)
            x = layer(x, layer_cache, scored[number % len(scored)], source, (of_self, of_cross))
        x = self.dropout(self.decoder_norm(x))
        logits = self.output(x, self.target_embedding.weight)
        kinds = {}
        if of_self is not None and of_cross is not None:
            kinds = {"decoder": torch.stack(of_self, 1), "cross": torch.stack(of_cross, 1)}
        return logits, kinds

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)

    def _decoder_positions(self) -> Iterable[PositionBias]:
        return cast("Iterable[PositionBias]", self.decoder_positions)


class Projection(nn.Module):
    """Logits s x W_Ỹᵀ, where W_Ỹ may be the embedding, and s is 1/√d or 1."""

    def __init__(self, config: T5Config, vocab: int) -> None:
        super().__init__()
        self.scale = config.dim**-0.5 if config.scale_output else 1.0
        if config.share != "all":
            self.weight = nn.Parameter(torch.empty(vocab, config.dim))
        else:
            self.register_parameter("weight", None)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Map (…, d) to logits (…, vocab)."""
        x = x if self.scale == 1 else x * self.scale
        return linear(x, embedding if self.weight is None else self.weight)
