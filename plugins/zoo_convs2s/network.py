"""ConvS2S of Gehring et al. 2017; section numbers are that paper's.

Both stacks add position embeddings to token embeddings (section 3.1), and each layer is (3.2)

    h^l = (GLU(conv(h^{l−1})) + h^{l−1}) √0.5,       GLU([a; b]) = a ⊗ σ(b)

where the decoder's convolutions are causal. Multi-step attention (section 3.3) in each decoder
layer, with g the target's embedding, z the encoder's output and e the source's embedding:

    d_i = (W_d h_i + b_d + g_i) √0.5,  α_ij = softmax_j(d_i · z_j),
    c_i = m √(1/m) Σ_j α_ij (z_j + e_j) √0.5,        where m is the source's length (section 3.4)

and W_c c_i + b_c is added to h_i, again scaled by √0.5. Two details come from the authors' code,
not from the paper: h_i is the gated output before the residual connection, and the √0.5 of section
3.4 also scales d_i, z_j + e_j and h_i + c_i.
"""

import math
from typing import Any, NamedTuple, Self, cast

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import Dropout, Encoded, Output, Seq2Seq, Step, linear, softmax
from zoo_convs2s.config import ConvS2SConfig, Layers

Version = tuple[int, int, torch.dtype]
"""What changes when a weight does: its version counter, address and dtype."""


def root(config: ConvS2SConfig) -> float:
    """Return √0.5, which halves the variance of a sum of two terms (section 3.4), or 1."""
    return math.sqrt(0.5) if config.scale else 1.0


class Memory(NamedTuple):
    """Keys z_j and values (z_j + e_j) √0.5 √m, (sentences, m, e), and mask, (sentences, m).

    Section 3.4 multiplies attention's result by m √(1/m) = √m; here the values are multiplied.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor


class State(NamedTuple):
    """The next position, (rows,), and the last k − 1 inputs of each layer, (rows, k − 1, below)."""

    position: Tensor
    windows: tuple[Tensor, ...]


class Map(nn.Module):
    """A linear map or convolution; with weight normalization, W = g V / ‖V‖ for each output.

    Initialization (section 3.5): normal with deviation √(gain / inputs); biases are zero.
    """

    def __init__(
        self, config: ConvS2SConfig, outputs: int, *inputs: int, gain: float = 1.0
    ) -> None:
        super().__init__()
        first = torch.empty(outputs, *inputs).normal_(std=math.sqrt(gain / math.prod(inputs)))
        self.normed = config.weight_norm
        if self.normed:
            self.direction = nn.Parameter(first)
            # A meta tensor has no norm, and torch takes a second to compute none.
            norm = first.new_empty(outputs) if first.is_meta else first.flatten(1).norm(dim=1)
            self.length = nn.Parameter(norm)
        else:
            self.weight = nn.Parameter(first)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self._cached: tuple[list[Version], Tensor] | None = None

    def matrix(self) -> Tensor:
        """Return W, (outputs, inputs); a convolution's inputs are (kernel × width) in a row.

        Without gradients W is cached until its parts change, since decoding needs it at every step.
        """
        if not self.normed and self.weight.dim() == 2:
            return self.weight
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self._matrix()
        parts = (self.direction, self.length) if self.normed else (self.weight,)
        versions = [(_version(part), part.data_ptr(), part.dtype) for part in parts]
        if self._cached is None or self._cached[0] != versions:
            self._cached = (versions, nn.Parameter(self._matrix(), requires_grad=False))
        return self._cached[1]

    def _matrix(self) -> Tensor:
        weight = self._weight()
        return weight if weight.dim() == 2 else weight.transpose(1, 2).flatten(1)

    def _weight(self) -> Tensor:
        """Return W, (outputs, inputs) or (outputs, width, kernel), as it is stored."""
        if not self.normed:
            return self.weight
        direction = self.direction.flatten(1)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # One pass forward and one backward; the formula below takes eight.
            weight = torch._weight_norm(direction, self.length[:, None], 0)
        else:
            weight = direction * (self.length / direction.norm(dim=1))[:, None]
        return weight.view_as(self.direction)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, and drop the cached W: sharded parts change without a new version."""
        self._cached = None
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, inputs) to (…, outputs); a convolution's inputs are (kernel × width) in a row."""
        return linear(x, self.matrix(), self.bias)

    def convolve(self, x: Tensor, before: int, after: int) -> Tensor:
        """Convolve (rows, n, width), with zeros before and after: (rows, n, outputs).

        By one product of all windows, which is faster than torch's convolution, its gradients too.
        """
        if torch.compiler.is_compiling():
            x = F.pad(x.transpose(1, 2), (before, after))
            return F.conv1d(x, self._weight(), self.bias).transpose(1, 2)
        weight = self.matrix()
        return linear(windows(x, weight.shape[1] // x.shape[2], before), weight, self.bias)


def _version(x: Tensor) -> int:
    """Return how often a tensor was written to; 0 in inference mode, where torch does not count."""
    return 0 if x.is_inference() else x._version


def windows(x: Tensor, kernel: int, before: int) -> Tensor:
    """Return the inputs of a convolution at each position, (rows, n, kernel × width).

    x: (rows, n, width). With bf16, they are in bf16, as the product needs them.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):
        x = x.to(torch.get_autocast_dtype(device))
    return cast(Tensor, _Windows.apply(x, kernel, before))  # type: ignore[no-untyped-call]  # torch has no types for it


def _overlap(n: int, shift: int) -> tuple[int, int, int]:
    """Return where n positions moved by `shift` begin, which one is there, and how many remain."""
    return min(max(shift, 0), n), min(max(-shift, 0), n), max(n - abs(shift), 0)


class _Windows(torch.autograd.Function):
    """Copies of x shifted by 0 … kernel − 1 positions; the gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int, before: int) -> Tensor:
        ctx.kernel, ctx.before = kernel, before
        rows, n, width = x.shape
        result = x.new_empty(rows, n, kernel, width)
        for number, part in enumerate(result.unbind(2)):
            to, of, length = _overlap(n, before - number)
            part.narrow(1, 0, to).zero_()
            part.narrow(1, to, length).copy_(x.narrow(1, of, length))
            part.narrow(1, to + length, n - to - length).zero_()
        return result.flatten(2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        n = gradient.shape[1]
        parts = gradient.unflatten(2, (ctx.kernel, -1)).unbind(2)
        total = parts[ctx.before].contiguous()
        for number, part in enumerate(parts):
            if number != ctx.before:
                of, to, length = _overlap(n, ctx.before - number)
                total.narrow(1, to, length).add_(part.narrow(1, of, length))
        return total, None, None


class Layer(nn.Module):
    """A gated convolution with a residual connection; the decoder adds attention in between."""

    def __init__(self, config: ConvS2SConfig, below: int, width: int, kernel: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.root = root(config)
        self.dropout = Dropout(config.dropout)
        gain = 4 * (1 - config.dropout)
        self.residual = Map(config, width, below) if below != width else None
        self.convolution = Map(config, 2 * width, below, kernel, gain=gain)

    def residual_branch(self, h: Tensor) -> Tensor:
        """Return the residual branch of h, (rows, n, below)."""
        return h if self.residual is None else cast(Tensor, self.residual(h))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        """Run an encoder layer over h, (rows, m, below); padding is set to zero."""
        x = self.dropout(h * mask[..., None].to(h.dtype))
        half = self.kernel // 2
        gated = F.glu(self.convolution.convolve(x, half, half))
        return (gated + self.residual_branch(h)).mul_(self.root)


class DecoderLayer(Layer):
    """A causal layer that attends to the source."""

    def __init__(self, config: ConvS2SConfig, below: int, width: int, kernel: int) -> None:
        super().__init__(config, below, width, kernel)
        self.query = Map(config, config.embedding_dim, width)
        self.context = Map(config, width, config.embedding_dim)

    def gated(self, h: Tensor) -> Tensor:
        """Return GLU(conv(h)) of all positions at once, (rows, n, width)."""
        return F.glu(self.convolution.convolve(self.dropout(h), self.kernel - 1, 0))

    def gated_next(self, h: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """Return GLU(conv(h)) of one position, (rows, 1, width), and the next window."""
        inputs = torch.cat([window, self.dropout(h)], 1)
        return F.glu(self.convolution(inputs.flatten(1)), dim=1)[:, None], inputs[:, 1:]

    def attend(
        self, gated: Tensor, h: Tensor, target: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """Return h^l, (rows, n, width), and α, (rows, n, m), section 3.3.

        The rows of a sentence's beam are further queries to one copy of its keys and values.
        """
        rows, n, _ = gated.shape
        query = (self.query(gated) + target).mul_(self.root)
        sentences, m, e = memory.keys.shape
        scores = query.view(sentences, -1, e) @ memory.keys.transpose(1, 2)
        weights = softmax(scores.masked_fill(~memory.mask[:, None], -math.inf))
        context = weights @ memory.values
        x = (self.context(context.view(rows, n, e)) + gated).mul_(self.root)
        return (x + self.residual_branch(h)).mul_(self.root), weights.view(rows, n, m)


class Stack(nn.Module):
    """Layers between a map from the embedding's width and a map to the output's width."""

    def __init__(
        self, config: ConvS2SConfig, kind: type[Layer], layers: Layers, outputs: int
    ) -> None:
        super().__init__()
        below = layers[0][0]
        self.enter = Map(config, below, config.embedding_dim, gain=1 - config.dropout)
        made = []
        for width, kernel in layers:
            made.append(kind(config, below, width, kernel))
            below = width
        self.layers = nn.ModuleList(made)
        self.leave = Map(config, outputs, below)


class ConvS2S(Seq2Seq[Memory, State]):
    """Encoder and decoder stacks with multi-step attention."""

    recordable = True

    def __init__(self, config: ConvS2SConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        e = config.embedding_dim
        self.source_embedding = nn.Embedding(source_vocab, e)
        self.target_embedding = nn.Embedding(target_vocab, e)
        if config.positions:
            self.source_positions = nn.Embedding(config.max_positions, e)
            self.target_positions = nn.Embedding(config.max_positions, e)
        self.encoder = Stack(config, Layer, config.encoder, e)
        self.decoder = Stack(config, DecoderLayer, config.decoder, config.output_dim)
        self.output = Map(config, target_vocab, config.output_dim, gain=1 - config.dropout)
        self.dropout = Dropout(config.dropout)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.1)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m)."""
        embedded = self.source_embedding(source)
        if self.config.positions:
            positions = torch.arange(source.shape[1], device=source.device)
            embedded = embedded + self.source_positions(positions)
        embedded = self.dropout(embedded)
        h = self.encoder.enter(embedded)
        for layer in self.encoder.layers:
            h = layer(h, source_mask)
        keys = self.encoder.leave(h)
        if self.config.scale and keys.requires_grad:
            # Section 3.4 divides the encoder's gradient by the number of attentions. Like the
            # authors' code, divide by twice that number: keys and values each contribute one.
            share = 1 / (2 * len(self.config.decoder))
            keys.register_hook(lambda gradient: gradient * share)
        values = (keys + embedded) * root(self.config)
        if self.config.scale:
            values = values * source_mask.sum(1).to(values.dtype).sqrt()[:, None, None]
        return Encoded(Memory(keys, values, source_mask))

    def init_state(self, memory: Memory) -> State:
        """Return position 0 and windows filled with zeros."""
        rows = len(memory.keys)
        position = torch.zeros(rows, dtype=torch.long, device=memory.keys.device)
        windows, below = [], self.config.decoder[0][0]
        for width, kernel in self.config.decoder:
            windows.append(memory.keys.new_zeros(rows, kernel - 1, below))
            below = width
        return State(position, tuple(windows))

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; each layer computes one position from its window."""
        embedded = self._embed(token, state.position)[:, None]
        h = self.decoder.enter(embedded)
        windows, weights = [], []
        for layer, window in zip(self._layers(), state.windows, strict=True):
            gated, window = layer.gated_next(h, window)
            h, alpha = layer.attend(gated, h, embedded, memory)
            windows.append(window)
            weights.append(alpha)
        logits = self._logits(h)[:, 0]
        state = State(state.position + 1, tuple(windows))
        return Step(logits, state, self._kinds(weights) if attention else {})

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once."""
        memory = self.encode(source, source_mask).memory
        positions = torch.arange(target.shape[1], device=target.device)
        embedded = self._embed(target, positions)
        h = self.decoder.enter(embedded)
        weights = []
        for layer in self._layers():
            h, alpha = layer.attend(layer.gated(h), h, embedded, memory)
            weights.append(alpha)
        return Output(self._logits(h), self._kinds(weights) if attention else {})

    def _embed(self, target: Tensor, positions: Tensor) -> Tensor:
        embedded = self.target_embedding(target)
        if self.config.positions:
            embedded = embedded + self.target_positions(positions)
        return self.dropout(embedded)

    def _layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.decoder.layers]

    def _logits(self, h: Tensor) -> Tensor:
        return cast(Tensor, self.output(self.dropout(self.decoder.leave(h))))

    @staticmethod
    def _kinds(weights: list[Tensor]) -> dict[str, Tensor]:
        """Return each layer's weights, (rows, n, m), as cross-attention of one head per layer."""
        return {"cross": torch.stack(weights, 1)[:, :, None]}
