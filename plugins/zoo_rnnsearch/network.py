"""RNNSearch, after Bahdanau et al. 2015; section numbers are that paper's.

Encoder (section 3.2): h_j = [h_j^(1); h_j^(2)], one recurrent net reading forward, one backward.
Decoder (section 3.1), at each target place i, with y_{i−1} the last word's embedding:

    e_ij = vᵀ tanh(W_k h_j + W_q s_{i−1})        the query is the previous state
    α_i  = softmax(e_i) over the source's real tokens
    c_i  = Σ_j α_ij h_j
    s_i  = cell([y_{i−1}; c_i], s_{i−1})
    logits_i = W_Ỹ s_i + b_Ỹ,   or W_Ỹ tanh(W_r [s_i; y_{i−1}; c_i] + b_r) + b_Ỹ

s_0 = tanh(W_s h_1^(2) + b_s), and an LSTM's first cell is zero (appendix A.2.2).
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo import Seq2Seq
from zoo_rnnsearch.config import RNNSearchConfig


class Memory(NamedTuple):
    """The source: its states, its keys W_k h_j, computed once, and s_0.

    values (sentences, m, 2h), keys (sentences, m, a), mask (sentences, m), start (sentences, s).
    """

    values: Tensor
    keys: Tensor
    mask: Tensor
    start: Tensor


class State(NamedTuple):
    """The decoder's hidden state and, for an LSTM, its cell: (rows, s) each."""

    hidden: Tensor
    cell: tuple[Tensor, ...]


class Recurrent(nn.Module):
    """One recurrent cell in torch's layout and order of gates, for a net with feedback."""

    def __init__(self, gates: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gates = gates
        self.weight_ih = nn.Parameter(torch.empty(gates * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(gates * hidden))
        self.bias_hh = nn.Parameter(torch.empty(gates * hidden))
        for weight in self.parameters():
            nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def forward(self, inputs: Tensor, state: State) -> State:
        """Return s_i from W [y_{i−1}; c_i] + b of all gates, (rows, gates · s), and s_{i−1}."""
        recurrent = F.linear(state.hidden, self.weight_hh, self.bias_hh)
        if self.gates == 4:
            i, f, g, o = (inputs + recurrent).chunk(4, -1)
            cell = f.sigmoid() * state.cell[0] + i.sigmoid() * g.tanh()
            return State(o.sigmoid() * cell.tanh(), (cell,))
        r, z, n = inputs.chunk(3, -1)
        from_r, from_z, from_n = recurrent.chunk(3, -1)
        update = (z + from_z).sigmoid()
        new = (n + (r + from_r).sigmoid() * from_n).tanh()
        return State(new + update * (state.hidden - new), ())

    def split(self, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """Return W_y y + b of any positions at once, and W_c, which maps a context."""
        of_word, of_context = self.weight_ih.tensor_split((embedded.shape[-1],), dim=1)
        return F.linear(embedded, of_word, self.bias_ih), of_context


class RNNSearch(Seq2Seq):
    """The whole network."""

    def __init__(self, config: RNNSearchConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        e, h, s = config.embedding_dim, config.encoder_dim, config.hidden_dim
        lstm = config.cell == "lstm"
        self.source_embedding = nn.Embedding(source_vocab, e)
        self.encoder = (nn.LSTM if lstm else nn.GRU)(e, h, batch_first=True, bidirectional=True)
        self.start = nn.Linear(h, s)
        self.keys = nn.Linear(2 * h, config.attention_dim, bias=False)
        self.query = nn.Linear(s, config.attention_dim, bias=False)
        self.score = nn.Parameter(torch.empty(config.attention_dim))
        self.target_embedding = nn.Embedding(target_vocab, e)
        self.decoder = Recurrent(4 if lstm else 3, e + 2 * h, s)
        if config.readout_dim is not None:
            self.readout = nn.Linear(s + e + 2 * h, config.readout_dim)
        self.output = nn.Linear(config.readout_dim or s, target_vocab)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.score, std=config.attention_dim**-0.5)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=e**-0.5)

    def encode(self, source: Tensor, source_mask: Tensor, attention: bool = False) -> Any:
        """Read the sources, (sentences, m), both ways; the padding never reaches a state."""
        embedded = self.dropout(self.source_embedding(source))
        lengths = source_mask.sum(1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        read = self.encoder(packed)[0]
        values = pad_packed_sequence(read, batch_first=True, total_length=source.shape[1])[0]
        backward = values[:, 0, self.config.encoder_dim :]  # h_1^(2): it has read all the source
        start = self.start(backward).tanh()
        values = self.dropout(values)
        memory = Memory(values, self.keys(values), source_mask, start)
        return (memory, {}) if attention else memory

    def init_state(self, memory: Memory) -> State:
        """Return s_0, the cell zero."""
        cell = (torch.zeros_like(memory.start),) if self.config.cell == "lstm" else ()
        return State(memory.start, cell)

    def attend(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return c_i, (rows, 2h), and α_i, (rows, m), for previous states (rows, s).

        A sentence's rows stand beside each other, so its keys and values serve all of them.
        """
        sentences, m, _ = memory.keys.shape
        query = self.query(hidden).view(sentences, -1, 1, self.config.attention_dim)
        energy = (memory.keys[:, None] + query).tanh() @ self.score  # (sentences, beam, m)
        energy = energy.masked_fill(~memory.mask[:, None], -math.inf)
        weights = energy.softmax(-1)
        context = weights @ memory.values
        return context.flatten(0, 1), weights.view(-1, m)

    def logits(self, hidden: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Return logits from s_i, y_{i−1} and c_i, (…, width) each."""
        if self.config.readout_dim is not None:
            hidden = self.readout(torch.cat([hidden, embedded, context], -1)).tanh()
        return self.output(self.dropout(hidden))

    def step(self, token: Tensor, state: State, memory: Memory, attention: bool = False) -> Any:
        """Read one token a row; a step costs the same at every position."""
        embedded = self.dropout(self.target_embedding(token))
        context, weights = self.attend(state.hidden, memory)
        words, of_context = self.decoder.split(embedded)
        state = self.decoder(words + F.linear(context, of_context), state)
        logits = self.logits(state.hidden, embedded, context)
        return (logits, state, self._kinds([weights])) if attention else (logits, state)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Any:
        """Return logits of all positions: the state goes step by step, all else at once."""
        memory = self.encode(source, source_mask)
        state = self.init_state(memory)
        embedded = self.dropout(self.target_embedding(target))
        hidden, contexts, weights = [], [], []
        words, of_context = self.decoder.split(embedded)
        for word in words.unbind(1):
            context, looked = self.attend(state.hidden, memory)
            state = self.decoder(word + F.linear(context, of_context), state)
            hidden.append(state.hidden)
            contexts.append(context)
            weights.append(looked)
        logits = self.logits(torch.stack(hidden, 1), embedded, torch.stack(contexts, 1))
        return (logits, self._kinds(weights)) if attention else logits

    @staticmethod
    def _kinds(weights: list[Tensor]) -> dict[str, Tensor]:
        """Return (rows, m) of each place as the one kind there is, of one layer and one head."""
        return {"cross": torch.stack(weights, 1)[:, None, None]}
