"""The Transformer of Vaswani et al. 2017; section numbers are that paper's.

Attention (section 3.2): softmax(q kᵀ / √d_h) v in each head, where q, k and v are linear maps of
the layer's input; the heads' outputs are concatenated and mapped by W_h. Encoder layer:
self-attention, then max(0, x W_1 + b_1) W_2 + b_2 (section 3.3), each as norm(x + dropout(f(x)))
(section 3.1). Decoder layer: masked self-attention, attention to the encoder's output,
feed-forward.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from zoo.nn import (
    BeamSteps,
    Dropout,
    Encoded,
    GreedySteps,
    KeyValueCache,
    Output,
    Seq2Seq,
    Source,
    Sources,
    StackParts,
    Step,
    beam_steps,
    decoder_step,
    encoder_sources,
    exact_device,
    greedy_steps,
    linear,
    without_end,
)
from zoo_transformer.config import TransformerConfig
from zoo_transformer.layers import (
    DecoderLayer,
    EncoderLayer,
    Layer,
    Weights,
    is_idle,
    make_norm,
)


class Memory(NamedTuple):
    """The source as keys and values of each decoder layer, (sentences, heads, m, d_h).

    key_padding_mask: (sentences, 1, 1, m), True at padding.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    key_padding_mask: Tensor


class Transformer(Seq2Seq[Memory, KeyValueCache]):
    """Encoder and decoder stacks between embeddings and the output projection."""

    recordable = True

    def __init__(self, config: TransformerConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        d = config.dim
        if not config.one_vocabulary:
            self.source_embedding = nn.Embedding(source_vocab, d)
        self.target_embedding = nn.Embedding(target_vocab, d)
        if config.positions == "learned":
            offset = config.position_offset
            self.source_positions = nn.Embedding(config.max_source_positions + offset, d)
            self.target_positions = nn.Embedding(config.max_target_positions + offset, d)
        if config.embedding_norm:
            self.source_norm, self.target_norm = make_norm(config), make_norm(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if config.stack_norm:
            self.encoder_norm, self.decoder_norm = make_norm(config), make_norm(config)
        self.output = Projection(config, target_vocab)
        self.dropout = Dropout(config.dropout)
        self._sinusoids: Tensor | None = None
        self.initialize()

    def initialize(self) -> None:
        """Draw weights by Xavier initialization, each part of a fused projection separately."""
        d = self.config.dim
        for name, weight in self.named_parameters():
            if name.endswith(("_embedding.weight", "_positions.weight")) or name == "output.weight":
                nn.init.normal_(weight, std=d**-0.5)
            elif name.endswith("project.weight"):
                for part in weight.data.split(d):
                    nn.init.xavier_uniform_(part)
            elif weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def embed(
        self, tokens: Tensor, side: Literal["source", "target"], positions: Tensor | None
    ) -> Tensor:
        """Return √d · embedding + position, (rows, n, d), sections 3.4 and 3.5.

        Args:
            tokens: (rows, n).
            side: whose embedding and norm.
            positions: theirs, (n, d), or None.
        """
        config = self.config
        owner = "target" if config.one_vocabulary else side
        x: Tensor = getattr(self, f"{owner}_embedding")(tokens)
        if config.scale_embeddings:
            x = x * math.sqrt(config.dim)
        if positions is not None:
            x = x + positions
        if config.embedding_norm:
            x = getattr(self, f"{side}_norm")(x)
        return self.dropout(x)

    def positions(self, side: Literal["source", "target"], count: int) -> Tensor | None:
        """Return the first positions of a side, at least so many if it has them, (…, d).

        None if it has none.
        """
        config, like = self.config, self.target_embedding.weight
        start, end = config.position_offset, count + config.position_offset
        if config.positions == "learned":
            learned: Tensor = getattr(self, f"{side}_positions").weight
            return learned[start:]
        if config.positions == "none":
            return None
        table, kind = self._sinusoids, (config.dim, like.dtype, like.device)
        formula = SINUSOIDS[config.positions]
        if torch.compiler.is_compiling():
            return formula(end, *kind)[start:]
        if table is None or table.shape[0] < end or (table.dtype, table.device) != kind[1:]:
            with torch.inference_mode(False):  # training may use the table later
                table = self._sinusoids = formula(2 * end, *kind)
        return table[start:]

    def first_positions(self, side: Literal["source", "target"], count: int) -> Tensor | None:
        """Return so many positions of a side, (count, d); None if it has none."""
        table = self.positions(side, count)
        return None if table is None else table.narrow(0, 0, count)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m), up to the keys and values of the decoder layers."""
        weights: Weights = [] if attention else None
        if not self.config.source_end:
            source_mask = without_end(source, source_mask)
        positions = self.first_positions("source", source.shape[1])
        key_padding_mask = ~source_mask[:, None, None]
        if not attention:
            sources = encoder_sources(
                source, self, self._encoder_parts, positions, key_padding_mask
            )
            if sources is not None:
                return Encoded(Memory(*sources))
        x = self.embed(source, "source", positions)
        for layer in self.encoder:
            x = layer(x, key_padding_mask, weights)
        if self.config.stack_norm:
            x = self.encoder_norm(x)
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
        table = self.positions("target", state.room)
        position = None if table is None else state.last_of(table)
        if not attention:
            sources = Sources(*memory)
            by_kernel = decoder_step(
                token, self, self._decoder_parts, position, state, mask, sources
            )
            if by_kernel is not None:
                return Step(by_kernel, state)
        x = self.embed(token[:, None], "target", position)
        logits, kinds = self._decode(x, state, mask, memory, attention)
        return Step(logits[:, 0], state, kinds)

    def greedy_steps(
        self, token: Tensor, state: KeyValueCache, memory: Memory, count: int, banned: Sequence[int]
    ) -> GreedySteps[KeyValueCache] | None:
        """Return up to `count` steps of greedy search; None if the kernels cannot take them."""
        given = self._for_several(state, memory, count)
        return None if given is None else greedy_steps(token, self, *given, count, banned)

    def beam_steps(
        self, token: Tensor, state: KeyValueCache, memory: Memory, scores: Tensor, count: int,
        banned: Sequence[int],
    ) -> BeamSteps[KeyValueCache] | None:  # fmt: skip
        """Return up to `count` steps of beam search; None if the kernels cannot take them."""
        given = self._for_several(state, memory, count)
        return None if given is None else beam_steps(token, self, *given, scores, count, banned)

    def _for_several(
        self, state: KeyValueCache, memory: Memory, count: int
    ) -> tuple[Callable[[], StackParts | None], Tensor | None, KeyValueCache, Sources] | None:
        """Return what several steps read; None for another class, or where a GPU records them."""
        if type(self) is not Transformer or type(state) is not KeyValueCache:
            return None
        table = self.positions("target", state.length + count)
        return self._decoder_parts, table, state, Sources(*memory)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        encoded = self.encode(source, source_mask, attention)
        n = target.shape[1]
        x = self.embed(target, "target", self.first_positions("target", n))
        causal_mask = torch.ones(n, n, dtype=torch.bool, device=target.device).triu(1)
        logits, kinds = self._decode(x, None, causal_mask, encoded.memory, attention)
        return Output(logits, {**encoded.attention, **kinds})

    def _decode(
        self,
        x: Tensor,
        cache: KeyValueCache | None,
        mask: Tensor | None,
        memory: Memory,
        attention: bool,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Run the decoder over embedded tokens, (rows, n, d): all, or the last one of a cache."""
        of_self: Weights = [] if attention else None
        of_cross: Weights = [] if attention else None
        for number, layer in enumerate(self.decoder):
            source = Source(memory.keys[number], memory.values[number], memory.key_padding_mask)
            layer_cache = None if cache is None else (cache, number)
            x = layer(x, layer_cache, mask, source, (of_self, of_cross))
        if self.config.stack_norm:
            x = self.decoder_norm(x)
        logits = self.output(x, self.target_embedding.weight)
        kinds = {}
        if of_self is not None and of_cross is not None:
            kinds = {"decoder": torch.stack(of_self, 1), "cross": torch.stack(of_cross, 1)}
        return logits, kinds

    def _encoder_parts(self) -> StackParts | None:
        """Return what the kernels read of the encoder; None if they do not know the network."""
        if not self._is_known():
            return None
        owner = "target" if self.config.one_vocabulary else "source"
        norm = self.encoder_norm if self.config.stack_norm else None
        outputs = [(layer.cross.project,) * 2 for layer in self._decoder_layers()]
        return self._parts(getattr(self, f"{owner}_embedding"), self.encoder, norm, outputs)

    def _decoder_parts(self) -> StackParts | None:
        """Return what the kernels read of the decoder; None if they do not know the network."""
        if not self._is_known():
            return None
        norm = self.decoder_norm if self.config.stack_norm else None
        of_weight = self.target_embedding if self.output.weight is None else self.output
        return self._parts(self.target_embedding, self.decoder, norm, [(of_weight, self.output)])

    def _is_known(self) -> bool:
        """Return whether all modules are those of this package, and compute what it says."""
        return (
            type(self) is Transformer
            and type(self.output) is Projection
            and is_idle(self.dropout)
            and not self.config.embedding_norm
            and all(type(layer) is DecoderLayer for layer in self.decoder)
            and all(layer.has_known_cross() for layer in self._decoder_layers())
            and all(type(layer) is EncoderLayer for layer in self.encoder)
        )

    def _parts(
        self, embedding: nn.Module, layers: nn.ModuleList, norm: nn.Module | None,
        outputs: Sequence[tuple[nn.Module, nn.Module]],
    ) -> StackParts | None:  # fmt: skip
        config, known = self.config, []
        for layer in cast("Iterable[Layer]", layers):
            parts, heads = layer.parts(), layer.attention.heads
            if parts is None or (layer.norm, heads) != (config.norm, config.heads):
                return None
            known.append(parts)
        factor = math.sqrt(config.dim) if config.scale_embeddings else 1.0
        return StackParts(
            embedding, factor, known, config.norm == "pre", config.heads, norm, outputs
        )

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)


class Projection(nn.Module):
    """Logits x W_Ỹᵀ + b_Ỹ, where W_Ỹ may be the target embedding (section 3.4)."""

    bias: nn.Parameter | None

    def __init__(self, config: TransformerConfig, vocab: int) -> None:
        super().__init__()
        if config.share in ("none", "embeddings"):
            self.weight = nn.Parameter(torch.empty(vocab, config.dim))
        else:
            self.register_parameter("weight", None)
        bias = nn.Parameter(torch.zeros(vocab)) if config.output_bias else None
        self.register_parameter("bias", bias)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Map (…, d) to logits (…, vocab)."""
        return linear(x, embedding if self.weight is None else self.weight, self.bias)


def sinusoids(count: int, d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the sinusoids of the first positions, (count, d), section 3.5.

    PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i + 1) = cos of the same.
    """
    exact = exact_device(device)
    position = torch.arange(count, device=exact, dtype=torch.float64)
    rate = torch.arange(0, d, 2, device=exact, dtype=torch.float64) / d
    angle = position[:, None] * torch.exp(rate * -math.log(10000.0))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).to(dtype).to(device)


def fairseq_sinusoids(count: int, d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return fairseq's sinusoids of the first positions, (count, d).

    PE(p, i) = sin(p · 10000^(−i / (d/2 − 1))) and PE(p, d/2 + i) = cos of the same.
    """
    exact = exact_device(device)
    position = torch.arange(count, device=exact, dtype=torch.float64)
    rate = torch.arange(d // 2, device=exact, dtype=torch.float64) / (d // 2 - 1)
    angle = position[:, None] * torch.exp(rate * -math.log(10000.0))
    return torch.cat([angle.sin(), angle.cos()], -1).to(dtype).to(device)


SINUSOIDS = {"interleaved": sinusoids, "fairseq": fairseq_sinusoids}
