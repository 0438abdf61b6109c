"""The basic sequence-to-sequence network.

Sutskever et al. 2014, section 2: a recurrent encoder reads x_1 … x_m, and its final state h_m
represents the whole source; a recurrent decoder generates y_1 … y_n from it. The decoder receives
h_m as its initial state (s_0 = h_m), concatenated to each input ([y_{i−1}; h_m]), or both.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from zoo.nn import Dropout, Encoded, Linear, Output, Seq2Seq, Step, run_padded, run_recurrent
from zoo_seq2seq.config import Seq2SeqConfig

State = tuple[Tensor, ...]
"""The hidden state and, for an LSTM, the cell: (rows, layers, hidden) each."""


class Memory(NamedTuple):
    """The encoder's final state."""

    final: State


class RecurrentSeq2Seq(Seq2Seq[Memory, State]):
    """Two recurrent networks, connected by a vector of fixed size."""

    recordable = True

    def __init__(self, config: Seq2SeqConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        net = nn.LSTM if config.cell == "lstm" else nn.GRU
        between = config.dropout if config.layers > 1 else 0.0
        e, h = config.embedding_dim, config.hidden_dim
        self.source_embedding = nn.Embedding(source_vocab, e)
        self.encoder = net(e, h, config.layers, batch_first=True, dropout=between)
        self.target_embedding = nn.Embedding(target_vocab, e)
        inputs = e + h if config.context else e
        self.decoder = net(inputs, h, config.layers, batch_first=True, dropout=between)
        self.output = Linear(h, target_vocab)
        self.dropout = Dropout(config.dropout)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=e**-0.5)

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Encode the sources, (sentences, m); padding never reaches a state."""
        lengths = source_mask.sum(1)
        if self.config.reverse:
            positions = torch.arange(source.shape[1], device=source.device)
            source = source.gather(1, (lengths[:, None] - 1 - positions).clamp(min=0))
        embedded = self.dropout(self.source_embedding(source))
        final = run_padded(self.encoder, embedded, source_mask)[1]
        return Encoded(Memory(self._rows_first(final)))

    def init_state(self, memory: Memory) -> State:
        """Return s_0 = h_m, or zeros if only the context carries h_m."""
        if self.config.start:
            return memory.final
        return tuple(torch.zeros_like(state) for state in memory.final)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; the cost does not depend on the position."""
        hidden, state = self._decode(token[:, None], state, memory)
        return Step(self.output(hidden[:, 0]), state)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions, by one call of the recurrent decoder."""
        memory = self.encode(source, source_mask).memory
        hidden, _ = self._decode(target, self.init_state(memory), memory)
        return Output(self.output(hidden))

    def _decode(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Run the decoder over (rows, n) tokens; return its outputs (rows, n, hidden) and state."""
        inputs = self.dropout(self.target_embedding(tokens))
        if self.config.context:
            rows, n = tokens.shape
            context = memory.final[0][:, -1]  # h_m of the last layer, (sentences, hidden)
            beam = rows // len(context)
            context = context[:, None].expand(-1, beam, -1).reshape(rows, 1, -1)
            inputs = torch.cat([inputs, context.expand(-1, n, -1)], -1)
        initial = tuple(part.transpose(0, 1).contiguous() for part in state)
        hidden, final = run_recurrent(self.decoder, inputs, initial)
        return self.dropout(hidden), self._rows_first(final)

    def _rows_first(self, final: tuple[Tensor, ...]) -> State:
        """Turn torch's (layers, rows, hidden) into (rows, layers, hidden)."""
        return tuple(part.transpose(0, 1) for part in final)
