"""RNNSearch, after Bahdanau et al. 2015; section numbers are that paper's.

Encoder (section 3.2): h_j = [h_j^(1); h_j^(2)], one recurrent net reading forward, one backward.
Decoder (section 3.1) at each target position i, with y_{i−1} the embedding of the previous token:

    e_ij = vᵀ tanh(W_k h_j + W_q s_{i−1})        the query is the previous state of the last layer
    α_i  = softmax(e_i) over the real source tokens
    c_i  = Σ_j α_ij h_j
    s_i  = cell([y_{i−1}; c_i], s_{i−1})
    logits_i = W_Ỹ s_i + b_Ỹ

s_0 = tanh(W_s h_1^(2) + b_s), and an LSTM's initial cell is zero (appendix A.2.2). The config has
other scores, initial states and readouts. With the readout `attentional`, attention follows the
cell (Luong, Pham and Manning 2015, sections 3 and 3.3): the query is s_i, and

    s_i = cell([y_{i−1}; t_{i−1}], s_{i−1})      t_{i−1} only with input feeding; t_0 = 0
    t_i = act(W_r [s_i; c_i] + b_r),   logits_i = W_Ỹ t_i + b_Ỹ
"""

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import Tensor, nn

from zoo.nn import (
    Dropout,
    Encoded,
    Linear,
    Output,
    Seq2Seq,
    Step,
    linear,
    recurrent_linear,
    run_padded,
    softmax,
    tanh,
    without_end,
)
from zoo_rnnsearch.cells import Bidirectional, Product, Projection, Recurrent, State, product
from zoo_rnnsearch.config import RNNSearchConfig
from zoo_rnnsearch.scores import energies
from zoo_rnnsearch.start import initial_state

ACTIVATIONS: dict[str, Product] = {
    "tanh": tanh,
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "identity": lambda x: x,
}


class Memory(NamedTuple):
    """The encoder's states, their keys, and the decoder's initial state.

    values: h_j, (sentences, m, h or 2h); keys: W_k h_j, (sentences, m, a or s), of the score
    `sigmoid` w_h · h_j + b, (sentences, m, 1), of `luong-dot` h_j itself; mask: (sentences, m).
    """

    values: Tensor
    keys: Tensor
    mask: Tensor
    start: State


class Products(NamedTuple):
    """The matrix products of a step.

    query: with W_q, or the identity; context: with the encoder's states; readout: with W_r, if
    attention follows the cell; between: with W of each layer but the first; cells: with each
    cell's U.
    """

    query: Product
    context: Product
    readout: Product
    between: list[Product]
    cells: list[tuple[Product, ...]]


class Advanced(NamedTuple):
    """What one position computes.

    state: s_i of every layer; weights: α_i, (sentences, beam, m); context: c_i, (rows, h or 2h);
    top: s_i of the last layer or, if attention follows the cell, t_i.
    """

    state: State
    weights: Tensor
    context: Tensor
    top: Tensor


class RNNSearch(Seq2Seq[Memory, State]):
    """Encoder and decoder, connected by attention."""

    recordable = True

    def __init__(self, config: RNNSearchConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        e, y, s = config.embedding_dim, config.target_dim, config.hidden_dim
        values = config.values_dim
        if not config.one_vocabulary:
            self.source_embedding = nn.Embedding(source_vocab, e)
        self.encoder = self._make_encoder()
        self._make_start()
        self._make_attention()
        self.target_embedding = nn.Embedding(target_vocab, y)
        first = y + (config.readout_dim or 0) * config.input_feeding
        if not config.attentional:
            first = y + values
        self.decoder = nn.ModuleList(
            Recurrent(config.cell, s if layer else first, s) for layer in range(config.depth)
        )
        if config.readout_dim is not None:
            wide = config.readout_dim * (2 if config.readout == "maxout" else 1)
            self.readout = Linear(s + values + y * (not config.attentional), wide)
        if config.projection_dim is not None:
            self.projection = Linear(config.readout_dim or s, config.projection_dim)
        self.output = Projection(config.top_dim, target_vocab)
        if config.share in ("target", "all"):
            self.output.register_parameter("weight", None)
        self.dropout = Dropout(config.dropout)
        for module in self.children():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)

    def _make_start(self) -> None:
        config = self.config
        h, s, values = config.encoder_dim, config.hidden_dim, config.values_dim
        sizes = {
            "backward": (h, s),
            "projected": (values, s),
            "top": (values, s),
            "joint": (config.depth * values, config.depth * s),
        }
        if config.start in sizes:
            self.start = Linear(*sizes[config.start])
        if config.starts_cell:
            self.start_cell = Linear(*sizes[config.start])

    def _make_attention(self) -> None:
        config = self.config
        if config.score == "luong-dot":
            return
        bias = config.score == "sigmoid" or config.attention_bias
        keys = config.hidden_dim if config.score == "general" else config.attention_dim or 1
        self.keys = Linear(config.values_dim, keys, bias=bias)
        if config.score != "general":
            self.query = Linear(config.hidden_dim, keys, bias=False)
        if config.score == "additive":
            self.score = nn.Parameter(torch.empty(keys))
            nn.init.normal_(self.score, std=keys**-0.5)

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
        shared = self.config.one_vocabulary
        if not self.config.source_end:
            source_mask = without_end(source, source_mask)
        embedding = self.target_embedding if shared else self.source_embedding
        embedded = self.dropout(embedding(source))
        final: tuple[Tensor, ...] = ()
        if isinstance(self.encoder, Bidirectional):
            values = self.encoder(embedded, source_mask)
        else:
            net = cast("nn.LSTM | nn.GRU", self.encoder)
            values, final = run_padded(net, embedded, source_mask)
        start = self._initial_state(values, final)
        values = self.dropout(values)
        keys = values if self.config.score == "luong-dot" else self.keys(values)
        if self.config.score == "additive" and keys.device.type == "cpu":
            keys = keys.to(self.score.dtype)  # not that of products: see `scores.py`
        return Encoded(Memory(values, keys, source_mask, start))

    def _initial_state(self, values: Tensor, final: tuple[Tensor, ...]) -> State:
        """Return s_0; `final` is what `initial_state` reads, or empty."""
        config = self.config
        if config.start == "backward":  # h_1^(2) has read the whole source
            hidden = tanh(self.start(values[:, 0, config.encoder_dim :]))
            state = State((hidden,), (torch.zeros_like(hidden),) if config.cell == "lstm" else ())
        else:
            maps = [getattr(self, name, None) for name in ("start", "start_cell")]
            state = initial_state(config, final, maps, ACTIVATIONS[config.activation])
        if config.input_feeding:
            state = state._replace(feed=(values.new_zeros(len(values), config.readout_dim or 0),))
        return state

    def onnx_reasons(self) -> list[str]:
        """Return why ONNX cannot express this network: its encoder is a loop in Python."""
        if isinstance(self.encoder, Bidirectional):
            return ["cell is gru-before, whose encoder reads the source in a loop of Python"]
        return []

    def init_state(self, memory: Memory) -> State:
        """Return s_0."""
        return memory.start

    def attend(self, query: Tensor, memory: Memory) -> Tensor:
        """Return α_i, (sentences, beam, m), for W_q s, (rows, a), or s, (rows, s).

        The rows of a sentence's beam are queries to one copy of its keys.
        """
        sentences, _, a = memory.keys.shape
        kind, weight = self.config.score, getattr(self, "score", None)
        energy = energies(kind, query.view(sentences, -1, a), memory.keys, weight)
        return softmax(energy.masked_fill(~memory.mask[:, None], -math.inf))

    def advance(self, first: Product, state: State, memory: Memory, products: Products) -> Advanced:
        """Compute one position.

        `first` maps c_i or, with input feeding, t_{i−1} to W [y_{i−1}; …] + b of the first layer.
        """

        def look(hidden: Tensor) -> tuple[Tensor, Tensor]:
            weights = self.attend(products.query(hidden), memory)
            return weights, products.context(weights).flatten(0, 1)

        if not self.config.attentional:
            weights, context = look(state.hidden[-1])
            state = self._cells(first(context), state, products)
            return Advanced(state, weights, context, state.hidden[-1])
        # Without input feeding, `first` ignores its argument.
        state = self._cells(first(*(state.feed or state.hidden[-1:])), state, products)
        weights, context = look(state.hidden[-1])
        top = products.readout(torch.cat([state.hidden[-1], context], -1))
        top = self.dropout(ACTIVATIONS[self.config.activation](top))
        feed = (top,) if self.config.input_feeding else ()
        return Advanced(state._replace(feed=feed), weights, context, top)

    def _cells(self, inputs: Tensor, state: State, products: Products) -> State:
        """Return s_i of every layer; `inputs` is W x + b of the first."""
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, cell in enumerate(self._decoder()):
            if layer:
                inputs = products.between[layer - 1](self.dropout(hidden[-1]))
            before = state.cell[layer] if state.cell else None
            new = cell(inputs, state.hidden[layer], before, products.cells[layer])
            hidden.append(new[0])
            cells += new[1:]
        return State(tuple(hidden), tuple(cells))

    def products(self, memory: Memory, rows: int, steps: int) -> Products:
        """Return the products that `advance` needs, for at most this many steps."""
        cells, config = self._decoder(), self.config

        def identity(x: Tensor) -> Tensor:
            return x

        has_query = config.score not in ("general", "luong-dot")
        return Products(
            product(self.query, rows, steps) if has_query else identity,
            recurrent_linear(
                memory.values.transpose(1, 2), None, rows // len(memory.values), steps
            ),
            product(self.readout, rows, steps) if config.attentional else identity,
            [recurrent_linear(cell.weight_ih, cell.bias_ih, rows, steps) for cell in cells[1:]],
            [cell.products(rows, steps) for cell in cells],
        )

    def logits(self, top: Tensor, before: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """Return logits from the last layer's s_i or t_i, s_{i−1}, y_{i−1} and c_i, (…, width)."""
        config = self.config
        if config.readout == "tanh":
            top = tanh(self.readout(torch.cat([top, embedded, context], -1)))
        elif config.readout == "maxout":  # with s_{i−1}, as in appendix A.2.2
            pairs = self.readout(torch.cat([before, embedded, context], -1))
            top = pairs.unflatten(-1, (-1, 2)).amax(-1)
        if not config.attentional:  # t_i has had its dropout before it was fed
            top = self.dropout(top)
        if config.projection_dim is not None:
            top = self.dropout(self.projection(top))
        tied = config.share in ("target", "all")
        return self.output(top, self.target_embedding.weight) if tied else self.output(top)

    def step(
        self, token: Tensor, state: State, memory: Memory, attention: bool = False
    ) -> Step[State]:
        """Read one token per row; the cost does not depend on the position."""
        embedded = self.dropout(self.target_embedding(token))
        before = state.hidden[-1]
        cell = self._decoder()[0]
        joined = not self.config.attentional or self.config.input_feeding

        def first(other: Tensor) -> Tensor:
            inputs = torch.cat([embedded, other], -1) if joined else embedded
            return linear(inputs, cell.weight_ih, cell.bias_ih)

        products = self.products(memory, len(token), 1)
        new = self.advance(first, state, memory, products)
        logits = self.logits(new.top, before, embedded, new.context)
        kinds = self._kinds(new.weights.flatten(0, 1)[:, None]) if attention else {}
        return Step(logits, new.state, kinds)

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions; only the recurrence runs step by step."""
        memory = self.encode(source, source_mask).memory
        state = self.init_state(memory)
        embedded = self.dropout(self.target_embedding(target))
        cell = self._decoder()[0]
        of_token, of_other = cell.weight_ih.tensor_split((embedded.shape[-1],), dim=1)
        inputs = linear(embedded, of_token, cell.bias_ih)  # of all positions at once
        joined = of_other.shape[1] > 0
        other_product = recurrent_linear(of_other, None, *target.shape) if joined else None

        def first(token_input: Tensor) -> Product:
            return lambda other: (
                token_input + other_product(other) if other_product else token_input
            )

        products = self.products(memory, *target.shape)
        before, news = [], []
        for token_input in inputs.unbind(1):
            before.append(state.hidden[-1])
            news.append(self.advance(first(token_input), state, memory, products))
            state = news[-1].state
        contexts = torch.stack([new.context for new in news], 1)
        tops = torch.stack([new.top for new in news], 1)
        logits = self.logits(tops, torch.stack(before, 1), embedded, contexts)
        weights = torch.cat([new.weights for new in news], 1) if attention else None
        return Output(logits, {} if weights is None else self._kinds(weights))

    def _decoder(self) -> list[Recurrent]:
        return [cast(Recurrent, cell) for cell in self.decoder]

    @staticmethod
    def _kinds(weights: Tensor) -> dict[str, Tensor]:
        """Return weights (rows, n, m) as cross-attention of one layer and one head."""
        return {"cross": weights[:, None, None]}
