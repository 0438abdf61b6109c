"""The configuration of the state-space network, and its parameter table."""

from typing import Self

from pydantic import Field
from zoo import Config, Depth, Dim, Table, Width


class StateSpaceConfig(Config):
    """An encoder with as many layers per direction as the decoder has."""

    layers: Depth = Field(2, description="layers of the encoder, per direction, and of the decoder")
    dim: Width = Field(description="width d of embeddings and of the input and output of layers")
    states: Width = Field(description="width n of the state of each layer")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the output of each layer")

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(layers=2, dim=12, states=10)

    @property
    def width(self) -> int:
        """The width by which schedules scale the learning rate."""
        return self.dim

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        table.block("embeddings")
        table.add("source_embedding.weight", "W_i", (vs, d))
        table.add("target_embedding.weight", "W_o", (vt, d))
        for layer in range(self.layers):
            for direction in ("onward", "backward"):
                table.block(f"encoder layer {layer + 1}, {direction}")
                self._layer(table, f"{direction}.{layer}")
        for layer in range(self.layers):
            table.block(f"decoder layer {layer + 1}")
            self._layer(table, f"decoder.{layer}")
            table.add(f"queries.{layer}.weight", "W_q", (d, d))
        table.block("output")
        table.add("output.weight", "W_Ỹ", (vt, d))
        table.add("output.bias", "b_Ỹ", (vt,))
        return table

    def _layer(self, table: Table, path: str) -> None:
        d, n = Dim("d", self.dim), Dim("n", self.states)
        table.add(f"{path}.log_rate", "ρ", (n,))
        table.split(f"{path}.project.weight", ("W_b", "W_g"), (n, d))
        table.split(f"{path}.project.bias", ("b_b", "b_g"), (n,))
        table.add(f"{path}.output.weight", "W_c", (d, n))
        table.add(f"{path}.output.bias", "b_c", (d,))
