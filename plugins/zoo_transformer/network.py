"""The Transformer of Vaswani et al. 2017; section numbers are that paper's.

Attention (section 3.2): softmax(q kᵀ / √d_h) v in each head, q, k and v being linear maps of the
layer's input, the heads' outputs joined and mapped by W_h. Encoder layer: self-attention, then
max(0, x W_1 + b_1) W_2 + b_2 (section 3.3), each as norm(x + dropout(f(x))) (section 3.1).
Decoder layer: masked self-attention, attention over the encoder's output, feed-forward.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from zoo.nn import Dropout, Encoded, KeyValueCache, Linear, Output, Seq2Seq, Step, linear
from zoo_transformer.attention import attend
from zoo_transformer.config import TransformerConfig

Weights = list[Tensor] | None
"""Where a caller asked for attention: each layer's (rows, heads, queries, keys) in turn."""


class Memory(NamedTuple):
    """The source, as each decoder layer's keys and values: (sentences, heads, m, d / heads).

    hidden: (sentences, 1, 1, m), True where it is padding.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    hidden: Tensor


class Attention(nn.Module):
    """Multi-head self-attention (section 3.2.2); q, k and v are one product."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.project = Linear(config.dim, 3 * config.dim, bias=config.attention_bias)
        self.out = Linear(config.dim, config.dim, bias=config.attention_bias)

    def split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Cut (rows, n, parts × d) into parts of (rows, heads, n, d / heads)."""
        rows, n, _ = x.shape
        return x.view(rows, n, parts, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

    def join(self, x: Tensor) -> Tensor:
        """Join the heads of (rows, heads, n, d / heads) and map them by W_h: (rows, n, d)."""
        return self.out(x.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, hidden: Tensor | None, weights: Weights) -> Tensor:
        """Let every position of x, (rows, n, d), look at all that is not hidden from it."""
        query, key, value = self.split(self.project(x), 3)
        return self.join(attend(query, key, value, hidden, weights))

    def look_back(
        self, x: Tensor, past: KeyValueCache, layer: int, hidden: Tensor | None, weights: Weights
    ) -> Tensor:
        """Let the last place, x (rows, 1, d), look at itself and the past, and write it there."""
        query, key, value = self.split(self.project(x), 3)
        keys, values = past.write(layer, key, value)
        found = attend(past.fold_beam(query), keys, values, hidden, weights)
        if weights is not None:
            weights.append(past.prefix_weights(weights.pop()))
        return self.join(past.unfold_beam(found))


class CrossAttention(Attention):
    """Attention from the target to the source; `project` gives k and v of the source alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.query = Linear(config.dim, config.dim, bias=config.attention_bias)
        self.project = Linear(config.dim, 2 * config.dim, bias=config.attention_bias)

    def look(
        self, x: Tensor, key: Tensor, value: Tensor, hidden: Tensor, weights: Weights
    ) -> Tensor:
        """Let x, (rows, n, d), look at the source: key and value (sentences, heads, m, d_h).

        With a beam, rows are sentences × beam: a sentence's rows stand beside each other as
        further queries, so that its keys and values serve all of them uncopied.
        """
        (rows, n, d), sentences = x.shape, len(key)
        beside = self.query(x).view(sentences, -1, d)  # (sentences, beam × n, d)
        found = attend(self.split(beside, 1)[0], key, value, hidden, weights)
        if weights is not None:  # (sentences, heads, beam × n, m) to (rows, heads, n, m)
            parts = weights.pop().unflatten(2, (rows // sentences, n))
            weights.append(parts.transpose(1, 2).flatten(0, 1))
        return self.join(found).view(rows, n, d)


class UnbiasedNorm(nn.Module):
    """γ (x − mean) / (deviation + 1e-6) + β, the deviation's square being divided by d − 1."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (…, d)."""
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + (
            self.bias
        )


def make_norm(config: TransformerConfig) -> nn.Module:
    """Return the config's layer norm (Ba et al. 2016, or the unbiased one)."""
    return UnbiasedNorm(config.dim) if config.unbiased_norm else nn.LayerNorm(config.dim)


class Layer(nn.Module):
    """What layers of both stacks have: self-attention, feed-forward, residuals and norms."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = config.norm
        self.attention = Attention(config)
        self.attention_norm = make_norm(config)
        self.inner = Linear(config.dim, config.feedforward_dim)
        self.outer = Linear(config.feedforward_dim, config.dim)
        self.feedforward_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)

    def before(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return a sublayer's input."""
        return norm(x) if self.norm == "pre" else x

    def after(self, x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
        """Join a sublayer's input x and output y."""
        y = self.dropout(y)
        if self.norm == "branch":
            return x + norm(y)
        return x + y if self.norm == "pre" else norm(x + y)

    def feedforward(self, x: Tensor) -> Tensor:
        """Return the feed-forward sublayer with its residual connection, section 3.3."""
        inner = self.inner(self.before(x, self.feedforward_norm))
        inner = inner.relu() if inner.requires_grad else inner.relu_()  # the widest tensor there is
        return self.after(x, self.outer(inner), self.feedforward_norm)


class EncoderLayer(Layer):
    """Self-attention, then feed-forward."""

    def forward(self, x: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
        """Run the layer over the source, (sentences, m, d)."""
        seen = self.attention(self.before(x, self.attention_norm), hidden, weights)
        return self.feedforward(self.after(x, seen, self.attention_norm))


class DecoderLayer(Layer):
    """Self-attention to the past, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.cross = CrossAttention(config)
        self.cross_norm = make_norm(config)

    def read(self, source: Tensor) -> tuple[Tensor, ...]:
        """Return the keys and values of the encoder's output, (sentences, m, d)."""
        # Contiguous, since every step reads them again.
        return tuple(x.contiguous() for x in self.cross.split(self.cross.project(source), 2))

    def forward(
        self,
        x: Tensor,
        past: tuple[KeyValueCache, int] | None,
        hidden: Tensor | None,
        memory: tuple[Tensor, Tensor, Tensor],
        seen: tuple[Weights, Weights],
    ) -> Tensor:
        """Run the layer over x, (rows, n, d).

        `past` and the layer's number there are given where x is the one place that is next, and
        not where it is all of them; `hidden` is what each of these may not look at; `memory` is
        the source's keys, values and what of it is hidden.
        """
        own, cross = seen
        before = self.before(x, self.attention_norm)
        if past is None:
            found = self.attention(before, hidden, own)
        else:
            found = self.attention.look_back(before, *past, hidden, own)
        x = self.after(x, found, self.attention_norm)
        looked = self.cross.look(self.before(x, self.cross_norm), *memory, cross)
        return self.feedforward(self.after(x, looked, self.cross_norm))


def sinusoids(count: int, d: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the sinusoids of the first positions, (count, d), section 3.5.

    PE(p, 2i) = sin(p / 10000^(2i/d)) and PE(p, 2i + 1) = cos of the same.
    """
    place = torch.arange(count, device=device, dtype=torch.float64)
    rate = torch.arange(0, d, 2, device=device, dtype=torch.float64) / d
    angle = place[:, None] * torch.exp(rate * -math.log(10000.0))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).to(dtype)


class Transformer(Seq2Seq[Memory, KeyValueCache]):
    """The whole network."""

    def __init__(self, config: TransformerConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        d = config.dim
        if config.share != "all":
            self.source_embedding = nn.Embedding(source_vocab, d)
        self.target_embedding = nn.Embedding(target_vocab, d)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if config.norm != "post":
            self.encoder_norm, self.decoder_norm = make_norm(config), make_norm(config)
        self.output = Projection(config, target_vocab)
        self.dropout = Dropout(config.dropout)
        self.table: Tensor | None = None
        self.initialise()

    def initialise(self) -> None:
        """Draw weights as Xavier does, each of a fused projection's parts by itself."""
        d = self.config.dim
        for name, weight in self.named_parameters():
            if "embedding" in name or name == "output.weight":
                nn.init.normal_(weight, std=d**-0.5)
            elif name.endswith("project.weight"):
                for part in weight.data.split(d):
                    nn.init.xavier_uniform_(part)
            elif weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def embed(self, tokens: Tensor, embedding: nn.Embedding, start: int = 0) -> Tensor:
        """Return √d · embedding + position, (rows, n, d), section 3.4."""
        x = embedding(tokens)
        if self.config.scale_embeddings:
            x = x * math.sqrt(self.config.dim)
        return self.dropout(x + self.positions(start, start + tokens.shape[1], x))

    def positions(self, start: int, end: int, like: Tensor) -> Tensor:
        """Return the sinusoids of positions start … end − 1, from a table that is kept."""
        table, kind = self.table, (like.shape[-1], like.dtype, like.device)
        if torch.compiler.is_compiling():
            return sinusoids(end, *kind)[start:]
        if table is None or len(table) < end or (table.dtype, table.device) != kind[1:]:
            with torch.inference_mode(False):  # what is learnt with may come later
                table = self.table = sinusoids(2 * end, *kind)
        return table[start:end]

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources; what depends on them alone is computed here once."""
        seen: Weights = [] if attention else None
        shared = self.config.share == "all"
        x = self.embed(source, self.target_embedding if shared else self.source_embedding)
        hidden = ~source_mask[:, None, None]
        for layer in self.encoder:
            x = layer(x, hidden, seen)
        if self.config.norm != "post":
            x = self.encoder_norm(x)
        pairs = [layer.read(x) for layer in cast("Iterable[DecoderLayer]", self.decoder)]
        memory = Memory(tuple(k for k, _ in pairs), tuple(v for _, v in pairs), hidden)
        return Encoded(memory, {"encoder": torch.stack(seen, 1)} if seen else {})

    def init_state(self, memory: Memory) -> KeyValueCache:
        """Return a past with nothing in it."""
        return KeyValueCache(len(memory.hidden))

    def step(
        self, token: Tensor, state: KeyValueCache, memory: Memory, attention: bool = False
    ) -> Step[KeyValueCache]:
        """Read one token a row; only attention's reach grows with the position."""
        state = state.extended()
        logits, weights = self._decode(token[:, None], state, memory, attention)
        return Step(logits[:, 0], state, weights)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return logits of all positions at once."""
        memory, kinds = self.encode(source, source_mask, attention)
        logits, weights = self._decode(target, None, memory, attention)
        return Output(logits, {**kinds, **weights})

    def _decode(
        self, tokens: Tensor, past: KeyValueCache | None, memory: Memory, attention: bool
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Run the decoder over all tokens, (rows, n), or over the one that ends the past."""
        own: Weights = [] if attention else None
        cross: Weights = [] if attention else None
        x = self.embed(tokens, self.target_embedding, 0 if past is None else past.length - 1)
        hidden = self.hidden(tokens, past)
        source = zip(memory.keys, memory.values, strict=True)
        for number, (layer, (k, v)) in enumerate(zip(self.decoder, source, strict=True)):
            behind = None if past is None else (past, number)
            x = layer(x, behind, hidden, (k, v, memory.hidden), (own, cross))
        if self.config.norm != "post":
            x = self.decoder_norm(x)
        logits = self.output(x, self.target_embedding.weight)
        weights = {}
        if own is not None and cross is not None:
            weights = {"decoder": torch.stack(own, 1), "cross": torch.stack(cross, 1)}
        return logits, weights

    def hidden(self, tokens: Tensor, past: KeyValueCache | None) -> Tensor | None:
        """Return what self-attention may not look at: what comes later, or other rows' past."""
        if past is not None:
            return None if past.mask is None else ~past.mask
        n = tokens.shape[1]
        return torch.ones(n, n, dtype=torch.bool, device=tokens.device).triu(1)


class Projection(nn.Module):
    """Logits x W_Ỹᵀ + b_Ỹ, W_Ỹ being its own or the target embedding's (section 3.4)."""

    def __init__(self, config: TransformerConfig, vocab: int) -> None:
        super().__init__()
        if config.share == "none":
            self.weight = nn.Parameter(torch.empty(vocab, config.dim))
        else:
            self.register_parameter("weight", None)
        self.bias = nn.Parameter(torch.zeros(vocab)) if config.output_bias else None

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Map (…, d) to logits (…, vocab)."""
        return linear(x, embedding if self.weight is None else self.weight, self.bias)
