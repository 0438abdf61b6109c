"""The configuration of the basic sequence-to-sequence network, and its parameter table."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo import Config, Depth, Dim, Table, Width

GATES = {"lstm": ("i", "f", "g", "o"), "gru": ("r", "z", "n")}


class Seq2SeqConfig(Config):
    """A recurrent encoder and decoder with equal layers, and how h_m passes between them."""

    cell: Literal["lstm", "gru"] = Field("lstm", description="the recurrent cell")
    layers: Depth = Field(description="recurrent layers in the encoder, and as many in the decoder")
    embedding_dim: Width = Field(description="width of both embeddings")
    hidden_dim: Width = Field(description="width of the recurrent state")
    start: bool = Field(
        True, description="the decoder starts from the encoder's final state, layer by layer"
    )
    context: bool = Field(
        False, description="the last layer's final state is concatenated to every decoder input"
    )
    reverse: bool = Field(
        False, description="the encoder reads the source reversed (Sutskever et al., section 3.3)"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on embeddings and between layers")

    @model_validator(mode="after")
    def _connected(self) -> Self:
        if not (self.start or self.context):
            raise ValueError("start or context must be true, or the decoder never sees the source")
        return self

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(layers=2, embedding_dim=10, hidden_dim=24, context=True)

    @property
    def width(self) -> int:
        """The width of the recurrent state."""
        return self.hidden_dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table; gates in the order of torch's fused weights."""
        s, t = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        e, h = Dim("e", self.embedding_dim), Dim("h", self.hidden_dim)
        table = Table()
        table.block("source embedding")
        table.add("source_embedding.weight", "W_i", (s, e))
        self._recurrent(table, "encoder", "E", e)
        table.block("target embedding")
        table.add("target_embedding.weight", "W_o", (t, e))
        self._recurrent(table, "decoder", "D", e + h if self.context else e)
        table.block("output")
        table.add("output.weight", "W_Ỹ", (t, h))
        table.add("output.bias", "b_Ỹ", (t,))
        return table

    def _recurrent(self, table: Table, name: str, letter: str, inputs: Dim) -> None:
        h = Dim("h", self.hidden_dim)
        for layer in range(self.layers):
            table.block(f"{name} layer {layer + 1}")
            below = inputs if layer == 0 else h
            for path, symbol, shape in (
                ("weight_ih", "W", (h, below)),
                ("weight_hh", "U", (h, h)),
                ("bias_ih", "b", (h,)),
                ("bias_hh", "b′", (h,)),
            ):
                symbols = tuple(
                    f"{symbol}^({layer + 1})_{{{letter},{g}}}" for g in GATES[self.cell]
                )
                table.split(f"{name}.{path}_l{layer}", symbols, shape)
