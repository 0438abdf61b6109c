"""The configuration of ConvS2S, and its parameter table."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field

from zoo import Config, Dim, LengthLimits, Table, Width

Layers = Annotated[tuple[tuple[Width, Width], ...], Field(min_length=1, max_length=512)]
"""The width and kernel size of each layer."""


def _odd(layers: Layers) -> Layers:
    if any(kernel % 2 == 0 for _, kernel in layers):
        raise ValueError("an encoder's kernels must be odd, to be centered on a position")
    return layers


class ConvS2SConfig(Config):
    """Widths and kernels of both stacks, and options of the paper's section 3."""

    embedding_dim: Width = Field(description="width e of embeddings and of attention")
    encoder: Annotated[Layers, AfterValidator(_odd)] = Field(
        description="encoder layers, each [width, kernel]"
    )
    decoder: Layers = Field(description="decoder layers, each [width, kernel]")
    output_dim: Width = Field(description="width o between the decoder and the logits")
    positions: bool = Field(True, description="add learned position embeddings")
    max_positions: Width = Field(
        1024, ge=3, description="number of position embeddings, which limits source and target"
    )
    weight_norm: bool = Field(True, description="weight normalization: every map is g V / ‖V‖")
    scale: bool = Field(
        True,
        description="section 3.4: scale sums by √0.5 and contexts by √m, and divide the encoder's "
        "gradient by the number of attentions",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on embeddings and layer inputs")

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(
            embedding_dim=12,
            encoder=((16, 3), (10, 5)),
            decoder=((16, 3), (12, 2), (12, 1)),
            output_dim=14,
            max_positions=24,
            dropout=0.0,
        )

    @property
    def width(self) -> int:
        """The width of the first encoder layer."""
        return self.encoder[0][0]

    @property
    def length_limits(self) -> LengthLimits:
        """The number of position embeddings; no limit without them."""
        most = self.max_positions if self.positions else None
        return LengthLimits(most, most)

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table; weight normalization has directions V and lengths g."""
        vs, vt = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        e, p, o = Dim("e", self.embedding_dim), Dim("p", self.max_positions), self.output_dim
        table = Table()
        table.block("embeddings")
        table.add("source_embedding.weight", "W_i", (vs, e))
        if self.positions:
            table.add("source_positions.weight", "P_i", (p, e))
        table.add("target_embedding.weight", "W_o", (vt, e))
        if self.positions:
            table.add("target_positions.weight", "P_o", (p, e))
        self._stack(table, "encoder", "E", self.encoder)
        table.block("encoder, to memory")
        top = self._width("E", self.encoder, len(self.encoder))
        self._linear(table, "encoder.leave", "_{E,z}", e, top)
        self._stack(table, "decoder", "D", self.decoder)
        table.block("output")
        top = self._width("D", self.decoder, len(self.decoder))
        self._linear(table, "decoder.leave", "_{D,o}", Dim("o", o), top)
        self._linear(table, "output", "_Ỹ", vt, Dim("o", o))
        return table

    def _width(self, letter: str, layers: Layers, layer: int) -> Dim:
        return Dim(f"c_{letter}{layer}", layers[layer - 1][0])

    def _stack(self, table: Table, path: str, letter: str, layers: Layers) -> None:
        e = Dim("e", self.embedding_dim)
        table.block(f"{path}, from embedding")
        below = self._width(letter, layers, 1)
        self._linear(table, f"{path}.enter", f"_{{{letter},0}}", below, e)
        for number, (_, size) in enumerate(layers, 1):
            width, kernel = self._width(letter, layers, number), Dim(f"k_{letter}{number}", size)
            layer, index = f"{path}.layers.{number - 1}", f"^({number})_{{{letter},"
            table.block(f"{path} layer {number}")
            if width.size != below.size:
                self._linear(table, f"{layer}.residual", f"{index}r}}", width, below)
            halves = (f"{index}a}}", f"{index}b}}")  # the values, and the gates
            weight = f"{layer}.convolution"
            for kind, symbol in self._kinds():
                shape = (width, below, kernel) if symbol in "VW" else (width,)
                table.split(f"{weight}.{kind}", tuple(f"{symbol}{half}" for half in halves), shape)
            if letter == "D":
                self._linear(table, f"{layer}.query", f"{index}d}}", e, width)
                self._linear(table, f"{layer}.context", f"{index}c}}", width, e)
            below = width

    def _linear(self, table: Table, path: str, index: str, outputs: Dim, inputs: Dim) -> None:
        for kind, symbol in self._kinds():
            shape = (outputs, inputs) if symbol in "VW" else (outputs,)
            table.add(f"{path}.{kind}", f"{symbol}{index}", shape)

    def _kinds(self) -> tuple[tuple[str, str], ...]:
        """Return the parameters of a map with their symbols."""
        if self.weight_norm:
            return ("direction", "V"), ("length", "g"), ("bias", "b")
        return ("weight", "W"), ("bias", "b")
