"""The configuration of RNNSearch, and its parameter table."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo import Config, Depth, Dim, Table, Width

GATES = {"lstm": ("i", "f", "g", "o"), "gru": ("r", "z", "n"), "gru-before": ("r", "z", "n")}


class RNNSearchConfig(Config):
    """A recurrent encoder, and a recurrent decoder that attends to all of its states."""

    cell: Literal["lstm", "gru", "gru-before"] = Field(
        "lstm",
        description="the recurrent cell; gru-before applies the reset gate before the matrix, as "
        "in the paper, gru after it, as in torch",
    )
    layers: Depth = Field(1, description="layers in the encoder, and as many in the decoder")
    decoder_layers: Depth | None = Field(
        None, description="layers in the decoder, if not as many as in the encoder"
    )
    directions: Literal[1, 2] | None = Field(
        None,
        description="directions in which the encoder reads; by default 2 with start = 'backward', "
        "otherwise 1",
    )
    start: Literal["backward", "final", "projected", "joint", "top", "last", "zero"] = Field(
        "backward",
        description="the decoder's initial state. backward: tanh(W_s h_1^(2) + b_s) of one "
        "bidirectional layer; final: the encoder's final states f, layer by layer; projected: "
        "W_s f + b_s, layer by layer; joint: the parts of relu(W_s [f of all layers] + b_s); top: "
        "act(W_s f + b_s) of the encoder's last layer, in every layer; last: the first s entries "
        "of that f, in every layer; zero. An LSTM's cell: zero with backward, from the encoder's "
        "final cells with final, projected and joint, otherwise equal to the state",
    )
    embedding_dim: Width = Field(description="width e of both embeddings")
    target_embedding_dim: Width | None = Field(
        None, description="width of the target embedding, if it differs"
    )
    encoder_dim: Width = Field(description="width h of the encoder, in each direction")
    hidden_dim: Width = Field(description="width s of the decoder's state")
    score: Literal["additive", "dot", "sigmoid", "general", "luong-dot"] = Field(
        "additive",
        description="vᵀ tanh(W_k h + W_q s) (concat in Luong et al.), (W_k h) · (W_q s) / √a, "
        "σ(wᵀ [s; h] + b), sᵀ W_k h (Luong's general), or s · h (Luong's dot)",
    )
    attention_dim: Width | None = Field(None, description="width a of the scores additive and dot")
    attention_bias: bool = Field(
        False, description="a bias in the score additive: vᵀ tanh(W_k h + b + W_q s)"
    )
    readout: Literal["state", "tanh", "maxout", "attentional"] = Field(
        "state",
        description="input of the output layer: s_i; tanh(W_r [s_i; y; c_i] + b_r); the maximum "
        "of each pair of entries of U_o s_{i−1} + V_o y + C_o c_i + b_r; or "
        "act(W_r [s_i; c_i] + b_r), where attention follows the cell and its query is s_i",
    )
    readout_dim: Width | None = Field(
        None, description="width r of the readouts tanh, maxout and attentional"
    )
    input_feeding: bool = Field(
        False, description="the decoder's input is [y; previous readout]; needs attentional"
    )
    activation: Literal["tanh", "relu", "gelu", "silu", "identity"] = Field(
        "tanh", description="act of the readout attentional, and of start = 'top'"
    )
    projection_dim: Width | None = Field(
        None,
        description="width p of a linear map between readout and output layer, if there is one",
    )
    share: Literal["none", "embeddings", "target", "all"] = Field(
        "none",
        description="share one matrix between both embeddings, between target embedding and "
        "output, or among all three",
    )
    source_end: bool = Field(
        True, description="whether the encoder reads the end token of a source"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on embeddings, encoder states and readout"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._attention_fits()
        self._start_fits()
        if self.share in ("embeddings", "all") and self.embedding_dim != self.target_dim:
            raise ValueError(
                "one matrix for both embeddings needs one width: no target_embedding_dim"
            )
        if self.share in ("target", "all") and self.target_dim != self.top_dim:
            raise ValueError(
                "share needs embedding_dim = readout_dim, or embedding_dim = hidden_dim if readout "
                "is 'state', or embedding_dim = projection_dim if there is one"
            )
        return self

    def _attention_fits(self) -> None:
        if (self.attention_dim is None) != (self.score in ("sigmoid", "general", "luong-dot")):
            raise ValueError(
                "attention_dim must be set for score additive or dot, and for these only"
            )
        if self.attention_bias and self.score != "additive":
            raise ValueError("attention_bias needs score = 'additive'")
        if self.score == "luong-dot" and self.values_dim != self.hidden_dim:
            raise ValueError(
                "score = 'luong-dot' needs encoder_dim × directions = hidden_dim: "
                f"{self.values_dim} is not {self.hidden_dim}"
            )
        if (self.readout_dim is None) != (self.readout == "state"):
            raise ValueError(
                "readout_dim must be set for readout tanh, maxout or attentional, and for these "
                "only"
            )
        if self.input_feeding and self.readout != "attentional":
            raise ValueError("input_feeding needs readout = 'attentional'")

    def _start_fits(self) -> None:
        if self.start == "backward" and (self.layers > 1 or self.depth > 1 or self.directions == 1):
            raise ValueError("start = 'backward' needs layers = 1 and both directions")
        if self.start == "final" and self.values_dim != self.hidden_dim:
            raise ValueError("start = 'final' needs encoder_dim × directions = hidden_dim")
        if self.start in ("final", "projected", "joint") and self.depth != self.layers:
            raise ValueError(f"start = '{self.start}' needs as many decoder_layers as layers")
        if self.start == "last" and self.values_dim < self.hidden_dim:
            raise ValueError("start = 'last' needs encoder_dim × directions of at least hidden_dim")
        if self.start != "backward" and self.cell == "gru-before":
            raise ValueError("cell = 'gru-before' needs start = 'backward'")

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(
            embedding_dim=12,
            encoder_dim=11,
            hidden_dim=16,
            attention_dim=9,
            readout="tanh",
            readout_dim=14,
        )

    @property
    def one_vocabulary(self) -> bool:
        """Whether one matrix embeds the tokens of both sides, which must then be the same."""
        return self.share in ("embeddings", "all")

    @property
    def bidirectional(self) -> bool:
        """Whether the encoder reads the source in both directions."""
        return self.directions == 2 if self.directions else self.start == "backward"

    @property
    def depth(self) -> int:
        """The number of decoder layers."""
        return self.decoder_layers or self.layers

    @property
    def values_dim(self) -> int:
        """The width of an encoder state h_j."""
        return (2 if self.bidirectional else 1) * self.encoder_dim

    @property
    def target_dim(self) -> int:
        """The width of the target embedding."""
        return self.target_embedding_dim or self.embedding_dim

    @property
    def top_dim(self) -> int:
        """The width of the output layer's input."""
        return self.projection_dim or self.readout_dim or self.hidden_dim

    @property
    def attentional(self) -> bool:
        """Whether attention follows the cell, as in Luong et al. 2015."""
        return self.readout == "attentional"

    @property
    def width(self) -> int:
        """The width of the decoder's state."""
        return self.hidden_dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table; gates in the order of torch's fused weights."""
        vs, vt = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        e, h, s = self._dims()
        values = 2 * h if self.bidirectional else h
        y = e if self.target_dim == self.embedding_dim else Dim("e_t", self.target_dim)
        table = Table()
        if self.one_vocabulary:
            table.block("embeddings")
            symbol = "W_i = W_o = W_Ỹ" if self.share == "all" else "W_i = W_o"
            table.add("target_embedding.weight", symbol, (vt, e))
        else:
            table.block("source embedding")
            table.add("source_embedding.weight", "W_i", (vs, e))
        self._encoder(table)
        self._start(table, s, h, values)
        self._attention(table, s, values)
        if not self.one_vocabulary:
            table.block("target embedding")
            symbol = "W_o = W_Ỹ" if self.share == "target" else "W_o"
            table.add("target_embedding.weight", symbol, (vt, y))
        first = y if self.attentional else y + values
        if self.input_feeding:
            first = y + Dim("r", self.readout_dim or 0)
        for layer in range(self.depth):
            table.block(f"decoder layer {layer + 1}")
            below = s if layer else first
            self._cell(table, f"decoder.{layer}", "", f"^({layer + 1})_{{D,", below, s)
        table.block("output")
        self._output(table, s, y, values, vt)
        return table

    def _dims(self) -> tuple[Dim, Dim, Dim]:
        """Return e, h and s; h is the decoder's s where the two are equal by definition."""
        s = Dim("s", self.hidden_dim)
        same = self.start == "final" and not self.bidirectional
        h = s if same else Dim("h", self.encoder_dim)
        return Dim("e", self.embedding_dim), h, s

    def _start(self, table: Table, s: Dim, h: Dim, values: Dim) -> None:
        if self.start in ("final", "last", "zero"):
            return
        table.block("first state")
        shapes = {"backward": (s, h), "joint": (self.layers * s, self.layers * values)}
        outputs, inputs = shapes.get(self.start, (s, values))
        table.add("start.weight", "W_s", (outputs, inputs))
        table.add("start.bias", "b_s", (outputs,))
        if self.starts_cell:
            table.add("start_cell.weight", "W_s′", (outputs, inputs))
            table.add("start_cell.bias", "b_s′", (outputs,))

    @property
    def starts_cell(self) -> bool:
        """Whether the initial cell of an LSTM has a map of its own."""
        return self.cell == "lstm" and self.start in ("projected", "joint")

    def _attention(self, table: Table, s: Dim, values: Dim) -> None:
        if self.score == "luong-dot":
            return
        table.block("attention")
        if self.score == "general":
            table.add("keys.weight", "W_k", (s, values))
        elif self.score == "sigmoid":
            table.add("keys.weight", "w_hᵀ", (Dim("1", 1), values))
            table.add("keys.bias", "b", (Dim("1", 1),))
            table.add("query.weight", "w_sᵀ", (Dim("1", 1), s))
        else:
            a = Dim("a", self.attention_dim or 0)
            table.add("keys.weight", "W_k", (a, values))
            if self.attention_bias:
                table.add("keys.bias", "b", (a,))
            table.add("query.weight", "W_q", (a, s))
            if self.score == "additive":
                table.add("score", "v", (a,))

    def _encoder(self, table: Table) -> None:
        e, h, _ = self._dims()
        for layer in range(self.layers):
            above = 2 * h if self.bidirectional else h
            below = e if layer == 0 else above
            for direction in ("1", "2") if self.bidirectional else ("1",):
                name = ", backward" if direction == "2" else ", forward" * self.bidirectional
                table.block(f"encoder layer {layer + 1}{name}")
                end = f"_l{layer}{'_reverse' if direction == '2' else ''}"
                number = direction if self.bidirectional else str(layer + 1)
                if self.bidirectional and self.layers > 1:
                    number = f"{layer + 1}, {direction}"
                self._cell(table, "encoder", end, f"^({number})_{{E,", below, h)

    def _output(self, table: Table, s: Dim, y: Dim, values: Dim, vt: Dim) -> None:
        top = s
        if self.readout_dim is not None:
            top = Dim("r", self.readout_dim)
            wide = 2 * top if self.readout == "maxout" else top
            symbol = "[U_o V_o C_o]" if self.readout == "maxout" else "W_r"
            inputs = s + values if self.attentional else s + y + values
            table.add("readout.weight", symbol, (wide, inputs))
            table.add("readout.bias", "b_r", (wide,))
        if self.projection_dim is not None:
            p = Dim("p", self.projection_dim)
            table.add("projection.weight", "W_p", (p, top))
            table.add("projection.bias", "b_p", (p,))
            top = p
        if self.share in ("none", "embeddings"):
            table.add("output.weight", "W_Ỹ", (vt, top))
        table.add("output.bias", "b_Ỹ", (vt,))

    def _cell(
        self, table: Table, name: str, end: str, index: str, inputs: Dim, hidden: Dim
    ) -> None:
        for path, symbol, shape in (
            ("weight_ih", "W", (hidden, inputs)),
            ("weight_hh", "U", (hidden, hidden)),
            ("bias_ih", "b", (hidden,)),
            ("bias_hh", "b′", (hidden,)),
        ):
            if path == "bias_hh" and self.cell == "gru-before":
                continue  # this cell has one bias per gate
            symbols = tuple(f"{symbol}{index}{gate}}}" for gate in GATES[self.cell])
            table.split(f"{name}.{path}{end}", symbols, shape)
