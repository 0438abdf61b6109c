"""RNNSearch, after Bahdanau et al. 2015; section numbers are that paper's.

Encoder (section 3.2): h_j = [h_j^(1); h_j^(2)], one recurrent net reading forward, one backward.
Decoder (section 3.1), at each target place i, with y_{i−1} the last word's embedding:

    e_ij = vᵀ tanh(W_k h_j + W_q s_{i−1})        the query is the previous state, of the top layer
    α_i  = softmax(e_i) over the source's real tokens
    c_i  = Σ_j α_ij h_j
    s_i  = cell([y_{i−1}; c_i], s_{i−1})
    logits_i = W_Ỹ s_i + b_Ỹ

s_0 = tanh(W_s h_1^(2) + b_s), and an LSTM's first cell is zero (appendix A.2.2). The other scores,
first states and readouts are in the config.
"""

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo import Dropout, Linear, Seq2Seq, linear
from zoo_rnnsearch.cells import BothWays, Recurrent, State
from zoo_rnnsearch.config import RNNSearchConfig


class Memory(NamedTuple):
    """The source: its states, its keys, computed once, and the decoder's first state.

    values (sentences, m, h or 2h), keys (sentences, m, a), mask (sentences, m).
    """

    values: Tensor
    keys: Tensor
    mask: Tensor
    start: State


class RNNSearch(Seq2Seq):
    """The whole network."""

    def __init__(self, config: RNNSearchConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        e, h, s = config.embedding_dim, config.encoder_dim, config.hidden_dim
        values = 2 * h if config.bidirectional else h
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
        self.dropout = Dropout(config.dropout)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=e**-0.5)

    def _make_encoder(self) -> nn.Module:
        config = self.config
        if config.cell == "gru-before":
            return BothWays(config.embedding_dim, config.encoder_dim)
        net = nn.LSTM if config.cell == "lstm" else nn.GRU
        return net(
            config.embedding_dim,
            config.encoder_dim,
            config.layers,
            batch_first=True,
            bidirectional=config.bidirectional,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )

    # --- the source -----------------------------------------------------------------------------

    def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
        """Read the sources, (sentences, m); the padding never reaches a state."""
        embedded = self.dropout(self.source_embedding(source))
        final: tuple[Tensor, ...] = ()
        if isinstance(self.encoder, BothWays):
            values = self.encoder(embedded, source_mask)
        else:
            lengths = source_mask.sum(1).cpu()
            packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            read, ended = self.encoder(packed)
            final = ended if isinstance(ended, tuple) else (ended,)
            values = pad_packed_sequence(read, batch_first=True, total_length=source.shape[1])[0]
        start = self._first_state(values, final)
        values = self.dropout(values)
        memory = Memory(values, self.keys(values), source_mask, start)
        return (memory, {}) if attention else memory

    def _first_state(self, values: Tensor, final: tuple[Tensor, ...]) -> State:
        """Return s_0; `final` is torch's final hidden states and cells, (layers, sentences, h)."""
        if self.config.start == "final":
            return State(final[0].unbind(0), final[1].unbind(0) if len(final) == 2 else ())
        backward = values[:, 0, self.config.encoder_dim :]  # h_1^(2): it has read all the source
        hidden = self.start(backward).tanh()
        cell = (torch.zeros_like(hidden),) if self.config.cell == "lstm" else ()
        return State((hidden,), cell)

    def init_state(self, memory: Memory) -> State:
        """Return s_0."""
        return memory.start

    # --- the target -----------------------------------------------------------------------------

    def attend(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return c_i, (rows, values), and α_i, (rows, m), for previous states (rows, s).

        A sentence's rows stand beside each other, so its keys and values serve all of them.
        """
        sentences, m, a = memory.keys.shape
        query = self.query(hidden).view(sentences, -1, a)  # (sentences, beam, a)
        if self.config.score == "dot":
            energy = query @ memory.keys.transpose(1, 2) / math.sqrt(a)
        else:
            joined = memory.keys[:, None] + query[:, :, None]  # (sentences, beam, m, a)
            additive = self.config.score == "additive"
            energy = joined.tanh() @ self.score if additive else joined.squeeze(-1).sigmoid()
        energy = energy.masked_fill(~memory.mask[:, None], -math.inf)
        weights = energy.softmax(-1)
        return (weights @ memory.values).flatten(0, 1), weights.view(-1, m)

    def advance(self, words: Tensor, of_context: Tensor, state: State, context: Tensor) -> State:
        """Return s_i of every layer; `words` is W_y y_{i−1} + b of the first layer's gates."""
        inputs = words + linear(context, of_context)
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, cell in enumerate(self._decoder()):
            if layer:
                inputs = linear(self.dropout(hidden[-1]), cell.weight_ih, cell.bias_ih)
            new = cell(inputs, state.hidden[layer], state.cell[layer] if state.cell else None)
            hidden.append(new[0])
            cells += new[1:]
        return State(tuple(hidden), tuple(cells))

    def words(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Return W_y y + b of the first layer, for any positions at once, and W_c."""
        first = self._decoder()[0]
        of_word, of_context = first.weight_ih.tensor_split((embedded.shape[-1],), dim=1)
        return linear(embedded, of_word, first.bias_ih), of_context

    def logits(self, hidden: Tensor, before: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Return logits from the top layer's s_i and s_{i−1}, y_{i−1} and c_i, (…, width) each."""
        if self.config.readout == "tanh":
            hidden = self.readout(torch.cat([hidden, embedded, context], -1)).tanh()
        elif self.config.readout == "maxout":  # appendix A.2.2 has s_{i−1} here
            both = self.readout(torch.cat([before, embedded, context], -1))
            hidden = both.unflatten(-1, (-1, 2)).amax(-1)
        return self.output(self.dropout(hidden))

    def step(self, token: Tensor, state: State, memory: Memory, attention: bool = False) -> Any:
        """Read one token a row; a step costs the same at every position."""
        embedded = self.dropout(self.target_embedding(token))
        before = state.hidden[-1]
        context, weights = self.attend(before, memory)
        state = self.advance(*self.words(embedded), state, context)
        logits = self.logits(state.hidden[-1], before, embedded, context)
        return (logits, state, self._kinds([weights])) if attention else (logits, state)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Any:
        """Return logits of all positions: the state goes step by step, all else at once."""
        memory = self.encode(source, source_mask)
        state = self.init_state(memory)
        embedded = self.dropout(self.target_embedding(target))
        words, of_context = self.words(embedded)
        hidden, contexts, weights = [state.hidden[-1]], [], []
        for word in words.unbind(1):
            context, looked = self.attend(state.hidden[-1], memory)
            state = self.advance(word, of_context, state, context)
            hidden.append(state.hidden[-1])
            contexts.append(context)
            weights.append(looked)
        states = torch.stack(hidden, 1)
        logits = self.logits(states[:, 1:], states[:, :-1], embedded, torch.stack(contexts, 1))
        return (logits, self._kinds(weights)) if attention else logits

    def _decoder(self) -> list[Recurrent]:
        return [cast(Recurrent, cell) for cell in self.decoder]

    @staticmethod
    def _kinds(weights: list[Tensor]) -> dict[str, Tensor]:
        """Return (rows, m) of each place as the one kind there is, of one layer and one head."""
        return {"cross": torch.stack(weights, 1)[:, None, None]}
