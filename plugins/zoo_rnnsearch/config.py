"""What sets one RNNSearch apart from another."""

from typing import Literal, Self

from pydantic import Field, PositiveInt

from zoo import Config, Dim, Table

GATES = {"lstm": ("i", "f", "g", "o"), "gru": ("r", "z", "n")}


class RNNSearchConfig(Config):
    """A bidirectional encoder, and a decoder whose query is its own previous state."""

    cell: Literal["lstm", "gru"] = Field("lstm", description="the recurrent cell")
    embedding_dim: PositiveInt = Field(description="width e of both embeddings")
    encoder_dim: PositiveInt = Field(description="width h of the encoder, in each direction")
    hidden_dim: PositiveInt = Field(description="width s of the decoder's state")
    attention_dim: PositiveInt = Field(description="width a of the additive score")
    readout_dim: PositiveInt | None = Field(
        None,
        description="width r of a tanh layer over state, context and last word before the logits; "
        "without it the logits come from the state alone",
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="on embeddings, source and readout")

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config, for the laws."""
        return cls(embedding_dim=12, encoder_dim=11, hidden_dim=16, attention_dim=9, readout_dim=14)

    @property
    def width(self) -> int:
        """The width of the decoder's state."""
        return self.hidden_dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table; gates in the order of torch's fused weights."""
        vs, vt = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        e, h = Dim("e", self.embedding_dim), Dim("h", self.encoder_dim)
        s, a = Dim("s", self.hidden_dim), Dim("a", self.attention_dim)
        table = Table()
        table.block("source embedding")
        table.add("source_embedding.weight", "W_i", (vs, e))
        for direction, end in (("1", ""), ("2", "_reverse")):
            table.block("encoder, forward" if direction == "1" else "encoder, backward")
            self._cell(table, "encoder", f"_l0{end}", f"^({direction})_{{E,", e, h)
        table.block("first state")
        table.add("start.weight", "W_s", (s, h))
        table.add("start.bias", "b_s", (s,))
        table.block("attention")
        table.add("keys.weight", "W_k", (a, 2 * h))
        table.add("query.weight", "W_q", (a, s))
        table.add("score", "v", (a,))
        table.block("target embedding")
        table.add("target_embedding.weight", "W_o", (vt, e))
        table.block("decoder")
        self._cell(table, "decoder", "", "_{D,", e + 2 * h, s)
        table.block("output")
        top = s
        if self.readout_dim is not None:
            top = Dim("r", self.readout_dim)
            table.add("readout.weight", "W_r", (top, s + e + 2 * h))
            table.add("readout.bias", "b_r", (top,))
        table.add("output.weight", "W_Ỹ", (vt, top))
        table.add("output.bias", "b_Ỹ", (vt,))
        return table

    def _cell(
        self, table: Table, name: str, end: str, index: str, inputs: Dim, hidden: Dim
    ) -> None:
        for path, symbol, shape in (
            ("weight_ih", "W", (hidden, inputs)),
            ("weight_hh", "U", (hidden, hidden)),
            ("bias_ih", "b", (hidden,)),
            ("bias_hh", "b′", (hidden,)),
        ):
            symbols = tuple(f"{symbol}{index}{gate}}}" for gate in GATES[self.cell])
            table.split(f"{name}.{path}{end}", symbols, shape)
