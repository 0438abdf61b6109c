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
    start: Literal["backward", "final"] = Field(
        "backward",
        description="the decoder's initial state: tanh(W_s h_1^(2) + b_s) of one bidirectional "
        "layer, or the final states of a unidirectional encoder, layer by layer",
    )
    embedding_dim: Width = Field(description="width e of both embeddings")
    encoder_dim: Width = Field(description="width h of the encoder, in each direction")
    hidden_dim: Width = Field(description="width s of the decoder's state")
    score: Literal["additive", "dot", "sigmoid"] = Field(
        "additive",
        description="vᵀ tanh(W_k h + W_q s), (W_k h) · (W_q s) / √a, or σ(wᵀ [s; h] + b)",
    )
    attention_dim: Width | None = Field(None, description="width a of the scores additive and dot")
    readout: Literal["state", "tanh", "maxout"] = Field(
        "state",
        description="input of the output layer: s_i; tanh(W_r [s_i; y; c_i] + b_r); or the maximum "
        "of each pair of entries of U_o s_{i−1} + V_o y + C_o c_i + b_r",
    )
    readout_dim: Width | None = Field(None, description="width r of the readouts tanh and maxout")
    share: Literal["none", "target", "all"] = Field(
        "none",
        description="share one matrix between target embedding and output, or among all three",
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on embeddings, encoder states and readout"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.attention_dim is None) != (self.score == "sigmoid"):
            raise ValueError(
                "attention_dim must be set for score additive or dot, and for these only"
            )
        if (self.readout_dim is None) != (self.readout == "state"):
            raise ValueError(
                "readout_dim must be set for readout tanh or maxout, and for these only"
            )
        if self.start == "backward" and self.layers > 1:
            raise ValueError("start = 'backward' needs layers = 1")
        if self.start == "final" and self.encoder_dim != self.hidden_dim:
            raise ValueError("start = 'final' needs encoder_dim = hidden_dim")
        if self.start == "final" and self.cell == "gru-before":
            raise ValueError("cell = 'gru-before' needs start = 'backward'")
        if self.share != "none" and self.embedding_dim != (self.readout_dim or self.hidden_dim):
            raise ValueError(
                "share needs embedding_dim = readout_dim, or embedding_dim = hidden_dim if readout "
                "is 'state'"
            )
        return self

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
        return self.share == "all"

    @property
    def bidirectional(self) -> bool:
        """Whether the encoder reads the source in both directions."""
        return self.start == "backward"

    @property
    def width(self) -> int:
        """The width of the decoder's state."""
        return self.hidden_dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table; gates in the order of torch's fused weights."""
        vs, vt = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        e, h, s = self._dims()
        values = 2 * h if self.bidirectional else h
        table = Table()
        if self.share == "all":
            table.block("embeddings")
            table.add("target_embedding.weight", "W_i = W_o = W_Ỹ", (vt, e))
        else:
            table.block("source embedding")
            table.add("source_embedding.weight", "W_i", (vs, e))
        self._encoder(table)
        if self.start == "backward":
            table.block("first state")
            table.add("start.weight", "W_s", (s, h))
            table.add("start.bias", "b_s", (s,))
        table.block("attention")
        if self.score == "sigmoid":
            table.add("keys.weight", "w_hᵀ", (Dim("1", 1), values))
            table.add("keys.bias", "b", (Dim("1", 1),))
            table.add("query.weight", "w_sᵀ", (Dim("1", 1), s))
        else:
            a = Dim("a", self.attention_dim or 0)
            table.add("keys.weight", "W_k", (a, values))
            table.add("query.weight", "W_q", (a, s))
            if self.score == "additive":
                table.add("score", "v", (a,))
        if self.share != "all":
            table.block("target embedding")
            symbol = "W_o = W_Ỹ" if self.share == "target" else "W_o"
            table.add("target_embedding.weight", symbol, (vt, e))
        for layer in range(self.layers):
            table.block(f"decoder layer {layer + 1}")
            below = s if layer else e + values
            self._cell(table, f"decoder.{layer}", "", f"^({layer + 1})_{{D,", below, s)
        table.block("output")
        self._output(table, s, e, values, vt)
        return table

    def _dims(self) -> tuple[Dim, Dim, Dim]:
        """Return e, h and s; with start = 'final', h is the decoder's s."""
        s = Dim("s", self.hidden_dim)
        h = s if self.start == "final" else Dim("h", self.encoder_dim)
        return Dim("e", self.embedding_dim), h, s

    def _encoder(self, table: Table) -> None:
        e, h, _ = self._dims()
        for layer in range(self.layers):
            below = e if layer == 0 else h
            for direction in ("1", "2") if self.bidirectional else ("1",):
                name = ", backward" if direction == "2" else ", forward" * self.bidirectional
                table.block(f"encoder layer {layer + 1}{name}")
                end = f"_l{layer}{'_reverse' if direction == '2' else ''}"
                number = direction if self.bidirectional else str(layer + 1)
                self._cell(table, "encoder", end, f"^({number})_{{E,", below, h)

    def _output(self, table: Table, s: Dim, e: Dim, values: Dim, vt: Dim) -> None:
        top = s
        if self.readout_dim is not None:
            top = Dim("r", self.readout_dim)
            wide = 2 * top if self.readout == "maxout" else top
            symbol = "[U_o V_o C_o]" if self.readout == "maxout" else "W_r"
            table.add("readout.weight", symbol, (wide, s + e + values))
            table.add("readout.bias", "b_r", (wide,))
        if self.share == "none":
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
