"""RNNSearch, after Bahdanau et al. 2015; section numbers are that paper's.

Encoder (section 3.2): h_j = [h_j^(1); h_j^(2)], one recurrent net reading forward, one backward.
Decoder (section 3.1) at each target position i, with y_{i−1} the embedding of the previous token:

    e_ij = vᵀ tanh(W_k h_j + W_q s_{i−1})        the query is the previous state of the last layer
    α_i  = softmax(e_i) over the real source tokens
    c_i  = Σ_j α_ij h_j
    s_i  = cell([y_{i−1}; c_i], s_{i−1})
    logits_i = W_Ỹ s_i + b_Ỹ

s_0 = tanh(W_s h_1^(2) + b_s), and an LSTM's initial cell is zero (appendix A.2.2). The config has
other scores, initial states and readouts.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo.nn import (
    Dropout,
    Encoded,
    Linear,
    Output,
    Seq2Seq,
    Step,
    linear,
    recurrent_linear,
    softmax,
)
from zoo_rnnsearch.cells import Bidirectional, Product, Recurrent, State
from zoo_rnnsearch.config import RNNSearchConfig

Run = Callable[..., tuple[Tensor, ...]]
"""torch's function for a recurrent net; its results begin with the hidden states."""


class Memory(NamedTuple):
    """The encoder's states, their keys, and the decoder's initial state.

    values: h_j, (sentences, m, h or 2h); keys: W_k h_j, (sentences, m, a); mask: (sentences, m).
    """

    values: Tensor
    keys: Tensor
    mask: Tensor
    start: State


class Products(NamedTuple):
    """The matrix products of a step.

    query: with W_q; context: with the encoder's states; between: with W of each layer but the
    first; cells: with each cell's U.
    """

    query: Product
    context: Product
    between: list[Product]
    cells: list[tuple[Product, ...]]


class RNNSearch(Seq2Seq[Memory, State]):
    """Encoder and decoder, connected by attention."""

    def __init__(self, config: RNNSearchConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        e, h, s = config.embedding_dim, config.encoder_dim, config.hidden_dim
        values = 2 * h if config.bidirectional else h
        if config.share != "all":
            self.source_embedding = nn.Embedding(source_vocab, e)
        self.encoder = self._make_encoder()
        if config.start == "backward":
            self.start = Linear(h, s)
        sigmoid = config.score == "sigmoid"
        self.keys = Linear(values, config.attention_dim or 1, bias=sigmoid)
        self.query = Linear(s, config.attention_dim or 1, bias=False)
        if config.score == "additive":
            self.score = nn.Parameter(torch.empty(self.keys.out_features))
            nn.init.normal_(self.score, std=self.keys.out_features**-0.5)
        self.target_embedding = nn.Embedding(target_vocab, e)
        self.decoder = nn.ModuleList(
            Recurrent(config.cell, s if layer else e + values, s) for layer in range(config.layers)
        )
        if config.readout_dim is not None:
            wide = config.readout_dim * (2 if config.readout == "maxout" else 1)
            self.readout = Linear(s + e + values, wide)
        self.output = Linear(config.readout_dim or s, target_vocab)
        if config.share != "none":
            self.output.register_parameter("weight", None)
        self.dropout = Dropout(config.dropout)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=e**-0.5)

    def _make_encoder(self) -> nn.Module:
        config = self.config
        if config.cell == "gru-before":
            return Bidirectional(config.embedding_dim, config.encoder_dim)
        net = nn.LSTM if config.cell == "lstm" else nn.GRU
        return net(
            config.embedding_dim,
            config.encoder_dim,
            config.layers,
            batch_first=True,
            bidirectional=config.bidirectional,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m); padding never reaches a state."""
        shared = self.config.share == "all"
        embedding = self.target_embedding if shared else self.source_embedding
        embedded = self.dropout(embedding(source))
        final: tuple[Tensor, ...] = ()
        if isinstance(self.encoder, Bidirectional):
            values = self.encoder(embedded, source_mask)
        elif self.config.bidirectional and embedded.device.type == "cpu":
            values = self._read_in_both_directions(embedded, source_mask)
        else:
            lengths = source_mask.sum(1).cpu()
            packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            outputs, last = self.encoder(packed)
            final = last if isinstance(last, tuple) else (last,)
            values = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])[0]
        start = self._initial_state(values, final)
        values = self.dropout(values)
        return Encoded(Memory(values, self.keys(values), source_mask, start))

    def _read_in_both_directions(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return h_j of one bidirectional layer, (sentences, m, 2h), zero at padding.

        torch runs packed sequences of different lengths step by step, and unpacked ones through a
        kernel twice as fast. So both nets read unpacked sequences forward, the second one with the
        real tokens reversed: both reach padding only after all real tokens.
        """
        net = cast("nn.LSTM | nn.GRU", self.encoder)
        position = torch.arange(x.shape[1], device=x.device)
        index = torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)[..., None]

        def reverse(states: Tensor) -> Tensor:
            return states.gather(1, index.expand(-1, -1, states.shape[2]))

        zero = x.new_zeros(1, len(x), net.hidden_size)
        run = cast("Run", torch.lstm if isinstance(net, nn.LSTM) else torch.gru)
        start = (zero, zero) if isinstance(net, nn.LSTM) else zero

        def read(words: Tensor, weights: list[nn.Parameter]) -> Tensor:
            return run(words, start, weights, True, 1, 0.0, self.training, False, True)[0]

        forward, backward = net.all_weights
        both = read(x, forward), reverse(read(reverse(x), backward))
        return torch.cat(both, -1) * mask[..., None]

    def _initial_state(self, values: Tensor, final: tuple[Tensor, ...]) -> State:
        """Return s_0; `final` holds the final hidden states and cells, (layers, sentences, h)."""
        if self.config.start == "final":
            return State(final[0].unbind(0), final[1].unbind(0) if len(final) == 2 else ())
        backward = values[
            :, 0, self.config.encoder_dim :
        ]  # h_1^(2), which has read the whole source
        hidden = self.start(backward).tanh()
        cell = (torch.zeros_like(hidden),) if self.config.cell == "lstm" else ()
        return State((hidden,), cell)

    def init_state(self, memory: Memory) -> State:
        """Return s_0."""
        return memory.start

    def attend(self, query: Tensor, memory: Memory) -> Tensor:
        """Return α_i, (sentences, beam, m), for W_q s_{i−1}, (rows, a).

        The rows of a sentence's beam are queries to one copy of its keys.
        """
        sentences, _, a = memory.keys.shape
        query = query.view(sentences, -1, a)
        if self.config.score == "dot":
            energy = query @ memory.keys.transpose(1, 2) / math.sqrt(a)
        else:
            total = memory.keys[:, None] + query[:, :, None]  # (sentences, beam, m, a)
            additive = self.config.score == "additive"
            energy = total.tanh() @ self.score if additive else total.squeeze(-1).sigmoid()
        return softmax(energy.masked_fill(~memory.mask[:, None], -math.inf))

    def advance(
        self, first: Product, state: State, memory: Memory, products: Products
    ) -> tuple[State, Tensor, Tensor]:
        """Return s_i of every layer, α_i, (sentences, beam, m), and c_i, (rows, h or 2h).

        `first` maps c_i to W [y_{i−1}; c_i] + b of the first layer.
        """
        weights = self.attend(products.query(state.hidden[-1]), memory)
        context = products.context(weights).flatten(0, 1)
        inputs = first(context)
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, cell in enumerate(self._decoder()):
            if layer:
                inputs = products.between[layer - 1](self.dropout(hidden[-1]))
            before = state.cell[layer] if state.cell else None
            new = cell(inputs, state.hidden[layer], before, products.cells[layer])
            hidden.append(new[0])
            cells += new[1:]
        return State(tuple(hidden), tuple(cells)), weights, context

    def products(self, memory: Memory, rows: int, steps: int) -> Products:
        """Return the products that `advance` needs, for at most this many steps."""
        cells = self._decoder()
        return Products(
            recurrent_linear(self.query.weight, None, rows, steps),
            recurrent_linear(
                memory.values.transpose(1, 2), None, rows // len(memory.values), steps
            ),
            [recurrent_linear(cell.weight_ih, cell.bias_ih, rows, steps) for cell in cells[1:]],
            [cell.products(rows, steps) for cell in cells],
        )

    def logits(self, hidden: Tensor, before: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Return logits from the last layer's s_i and s_{i−1}, y_{i−1} and c_i, (…, width) each."""
        if self.config.readout == "tanh":
            hidden = self.readout(torch.cat([hidden, embedded, context], -1)).tanh()
        elif self.config.readout == "maxout":  # with s_{i−1}, as in appendix A.2.2
            pairs = self.readout(torch.cat([before, embedded, context], -1))
            hidden = pairs.unflatten(-1, (-1, 2)).amax(-1)
        tied = self.config.share != "none"
        weight = self.target_embedding.weight if tied else self.output.weight
        return linear(self.dropout(hidden), weight, self.output.bias)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; the cost does not depend on the position."""
        embedded = self.dropout(self.target_embedding(token))
        before = state.hidden[-1]
        cell = self._decoder()[0]

        def first(context: Tensor) -> Tensor:
            return linear(torch.cat([embedded, context], -1), cell.weight_ih, cell.bias_ih)

        products = self.products(memory, len(token), 1)
        state, weights, context = self.advance(first, state, memory, products)
        logits = self.logits(state.hidden[-1], before, embedded, context)
        kinds = self._kinds(weights.flatten(0, 1)[:, None]) if attention else {}
        return Step(logits, state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions; only the recurrence runs step by step."""
        memory = self.encode(source, source_mask).memory
        state = self.init_state(memory)
        embedded = self.dropout(self.target_embedding(target))
        cell = self._decoder()[0]
        of_token, of_context = cell.weight_ih.tensor_split((embedded.shape[-1],), dim=1)
        inputs = linear(embedded, of_token, cell.bias_ih)  # of all positions at once
        context_product = recurrent_linear(of_context, None, *target.shape)

        def first(token_input: Tensor) -> Product:
            return lambda context: token_input + context_product(context)

        products = self.products(memory, *target.shape)
        hidden, weights, contexts = [state.hidden[-1]], [], []
        for token_input in inputs.unbind(1):
            state, alpha, context = self.advance(first(token_input), state, memory, products)
            hidden.append(state.hidden[-1])
            weights.append(alpha)
            contexts.append(context)
        states = torch.stack(hidden, 1)
        logits = self.logits(states[:, 1:], states[:, :-1], embedded, torch.stack(contexts, 1))
        return Output(logits, self._kinds(torch.cat(weights, 1)) if attention else {})

    def _decoder(self) -> list[Recurrent]:
        return [cast(Recurrent, cell) for cell in self.decoder]

    @staticmethod
    def _kinds(weights: Tensor) -> dict[str, Tensor]:
        """Return weights (rows, n, m) as cross-attention of one layer and one head."""
        return {"cross": weights[:, None, None]}
