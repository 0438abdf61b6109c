"""Mask-predict (Ghazvininejad et al. 2019): all tokens of a target at once, in a few passes.

The layers are those of `prefix`. The target's tokens, each known or hidden, attend to the source and
to each other in one softmax. In training a random part of them is hidden; a hidden token is predicted
from the others. The length, with the end token, is predicted from the mean of the encoded source, and
is a loss of the network's own.

Decoding takes the most probable length n and predicts all tokens; then, in pass t of T, it hides the
n (T − t) / T least probable ones and predicts them again.

Departure: the loss counts known tokens too, which are easy, so that the cross-entropy of all networks
is a mean over the same tokens.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from zoo.nn import END, PADDING, Decoded, Encoded, NonAutoregressive, Output

from zoo_networks.configs import MaskedConfig
from zoo_networks.prefix import Layer, attend


class Memory(NamedTuple):
    """Each layer's keys and values, (sentences, heads, m, d_h); the mask; logits of lengths 0, 1, …"""

    keys: list[Tensor]
    values: list[Tensor]
    mask: Tensor
    lengths: Tensor


class Masked(NonAutoregressive[Memory]):
    """One stack of layers reads the source, and then all tokens of the target."""

    def __init__(self, config: MaskedConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        self.source_embedding = nn.Embedding(source_vocab, config.dim)
        self.target_embedding = nn.Embedding(target_vocab, config.dim)
        self.hidden = nn.Parameter(torch.zeros(config.dim))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.length = nn.Linear(config.dim, config.max_length + 1)
        self.output = nn.Linear(config.dim, target_vocab)

    def stack(self) -> Iterable[Layer]:
        """Return the layers."""
        return cast("Iterable[Layer]", self.layers)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the source, and predict the target's length."""
        x, keys, values, maps = self.source_embedding(source), [], [], []
        positions = torch.arange(source.shape[1], device=source.device)
        for layer in self.stack():
            q, k, v = layer.heads_of(x, positions)
            weights = attend(q, k, source_mask[:, None, None])
            x = layer.close(x, weights @ v)
            keys.append(k)
            values.append(v)
            maps.append(weights)
        real = source_mask[..., None]
        lengths = self.length((x * real).sum(1) / real.sum(1))
        memory = Memory(keys, values, source_mask, lengths)
        return Encoded(memory, {"encoder": torch.stack(maps, 1)} if attention else {})

    def predict(
        self, memory: Memory, tokens: Tensor, known: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the logits of targets, (sentences, n, V), and the attention of every layer.

        Args:
            memory: the encoded sources.
            tokens: (sentences, n), of which those that are not known are not read.
            known: (sentences, n) bool.
            lengths: (sentences,), tokens of each target, the end token included.
        """
        position = torch.arange(tokens.shape[1], device=tokens.device)
        real = position < lengths[:, None]
        allowed = torch.cat([memory.mask, real], 1)[:, None, None]
        positions = memory.mask.sum(1)[:, None] + position
        x = torch.where(known[..., None], self.target_embedding(tokens), self.hidden)
        maps = []
        for number, layer in enumerate(self.stack()):
            q, k, v = layer.heads_of(x, positions)
            weights = attend(q, torch.cat([memory.keys[number], k], 2), allowed)
            x = layer.close(x, weights @ torch.cat([memory.values[number], v], 2))
            maps.append(weights)
        return self.output(self.norm(x)), torch.stack(maps, 1)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all tokens: in training from some of them, otherwise from none."""
        memory, kinds = self.encode(source, source_mask, attention)
        lengths = ((target != PADDING) & (target != END)).sum(1)  # begin stands for the end token
        is_end = torch.arange(target.shape[1], device=target.device) == lengths[:, None] - 1
        tokens = torch.cat([target[:, 1:], target[:, :1]], 1).masked_fill(is_end, END)
        known, losses = is_end, {}
        if self.training:
            drawn = torch.rand(tokens.shape, device=tokens.device)
            share = torch.rand(len(tokens), 1, device=tokens.device)
            known = is_end | (drawn > share)
            most = self.config.max_length
            loss = cross_entropy(memory.lengths, lengths.clamp(max=most), reduction="sum")
            losses = {"length": loss}
        logits, maps = self.predict(memory, tokens, known, lengths)
        return Output(logits, {**kinds, "joint": maps} if attention else {}, losses)

    def decode(self, memory: Memory, limits: Tensor, banned: Tensor) -> Decoded:
        """Take the most probable length, and predict the tokens in a few passes."""
        scores = memory.lengths.log_softmax(1)
        length = torch.arange(scores.shape[1], device=scores.device)
        possible = (length >= 2) & (length <= limits[:, None])
        score, lengths = scores.masked_fill(~possible, -torch.inf).max(1)
        position = torch.arange(int(lengths.max()), device=scores.device)
        is_end, is_word = (
            position == lengths[:, None] - 1, position < lengths[:, None] - 1
        )  # fmt: skip
        tokens, log_probs = is_end * END, score[:, None] * is_end
        hidden = is_word
        never = torch.cat([banned, banned.new_tensor([END])])
        for done in range(1, self.config.passes + 1):
            logits, _ = self.predict(memory, tokens, is_end | (is_word & ~hidden), lengths)
            best = logits.log_softmax(2).index_fill(2, never, -torch.inf).max(2)
            tokens = torch.where(hidden, best.indices, tokens)
            log_probs = torch.where(hidden, best.values, log_probs)
            # Hide the least probable words again, of which there are fewer in each pass.
            again = (lengths - 1) * (self.config.passes - done) // self.config.passes
            rank = log_probs.masked_fill(~is_word, torch.inf).argsort(dim=1, stable=True).argsort(1)
            hidden = is_word & (rank < again[:, None])
        return Decoded(tokens, log_probs)
