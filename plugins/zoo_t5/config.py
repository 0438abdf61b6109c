"""The configuration of T5, and its parameter table."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo import Config, Depth, Dim, Table, Width


class T5Config(Config):
    """Widths, depths, position biases, the feed-forward layer and shared embeddings."""

    encoder_layers: Depth = Field(description="encoder layers")
    decoder_layers: Depth = Field(description="decoder layers")
    dim: Width = Field(description="width d of the input and output of every layer")
    heads: Width = Field(description="attention heads")
    head_dim: Width = Field(description="width of a head's queries, keys and values")
    feedforward_dim: Width = Field(description="width f of the feed-forward layer's hidden units")
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = Field(
        "relu", description="activation of the feed-forward layer; gelu_tanh is an approximation"
    )
    gated: bool = Field(
        False, description="multiply the activation by a second linear map (Shazeer 2020)"
    )
    dropout: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="dropout on embeddings, attention weights, activations, sublayer outputs and "
        "the outputs of both stacks",
    )
    buckets: int = Field(
        32,
        ge=4,
        le=65_536,
        description="buckets of relative positions, each with a bias in every head",
    )
    max_distance: Width = Field(
        128, description="tokens that are at least this far away share a bucket"
    )
    layer_positions: bool = Field(
        False, description="position biases for each layer instead of one table for each stack"
    )
    norm_epsilon: float = Field(1e-6, gt=0, lt=1, description="ε of the norm")
    share: Literal["none", "embeddings", "all"] = Field(
        "none",
        description="share one matrix between both embeddings (embeddings), or also with the "
        "output (all)",
    )
    scale_output: bool = Field(
        False, description="multiply the decoder's outputs by 1/√d, as T5 does with share=all"
    )

    @model_validator(mode="after")
    def _buckets_fit(self) -> Self:
        if self.buckets % 2:
            raise ValueError(f"buckets {self.buckets} must be even: half are for each direction")
        if self.max_distance <= self.buckets // 2:
            raise ValueError(
                f"max_distance {self.max_distance} must be greater than half of the buckets, "
                f"{self.buckets // 2}"
            )
        return self

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(
            encoder_layers=3,
            decoder_layers=2,
            dim=24,
            heads=4,
            head_dim=5,
            feedforward_dim=40,
            activation="gelu_tanh",
            gated=True,
            dropout=0.0,
            buckets=8,
            max_distance=10,
        )

    @property
    def width(self) -> int:
        """The width d."""
        return self.dim

    @property
    def one_vocabulary(self) -> bool:
        """Whether one matrix embeds the tokens of both sides, which must then be the same."""
        return self.share != "none"

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with a row for each symbol of a fused projection."""
        s, t = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        d = Dim("d", self.dim)
        table = Table()
        table.block("embeddings")
        if self.share == "none":
            table.add("source_embedding.weight", "W_i", (s, d))
            table.add("target_embedding.weight", "W_o", (t, d))
        else:
            symbol = "W_i = W_o = W_Ỹ" if self.share == "all" else "W_i = W_o"
            table.add("target_embedding.weight", symbol, (t, d))
        self._positions(table, "encoder", "E", self.encoder_layers)
        for layer in range(self.encoder_layers):
            table.block(f"encoder layer {layer + 1}")
            path, index = f"encoder.{layer}", f"^({layer + 1})_{{E,"
            self._attention(table, f"{path}.attention", index)
            self._feedforward(table, path, index)
        table.block("encoder")
        table.add("encoder_norm.weight", "γ_E", (d,))
        self._positions(table, "decoder", "D", self.decoder_layers)
        for layer in range(self.decoder_layers):
            table.block(f"decoder layer {layer + 1}")
            path, index = f"decoder.{layer}", f"^({layer + 1})_{{D,"
            self._attention(table, f"{path}.attention", index)
            self._cross(table, f"{path}.cross", f"^({layer + 1})_{{C,")
            self._feedforward(table, path, index)
        table.block("decoder")
        table.add("decoder_norm.weight", "γ_D", (d,))
        if self.share != "all":
            table.block("output")
            table.add("output.weight", "W_Ỹ", (t, d))
        return table

    def _positions(self, table: Table, stack: str, letter: str, layers: int) -> None:
        shape = Dim("n_b", self.buckets), Dim("H", self.heads)
        table.block(f"{stack} position biases")
        for layer in range(layers if self.layer_positions else 1):
            index = f"^({layer + 1})" if self.layer_positions else ""
            table.add(f"{stack}_positions.{layer}.weight", f"B{index}_{letter}", shape)

    def _attention(self, table: Table, path: str, index: str) -> None:
        d, k = Dim("d", self.dim), self._inner()
        symbols = tuple(f"W{index}{name}}}" for name in "qkv")
        table.split(f"{path}.project.weight", symbols, (k, d))
        self._out(table, path, index)

    def _cross(self, table: Table, path: str, index: str) -> None:
        d, k = Dim("d", self.dim), self._inner()
        table.add(f"{path}.query.weight", f"W{index}q}}", (k, d))
        symbols = tuple(f"W{index}{name}}}" for name in "kv")
        table.split(f"{path}.project.weight", symbols, (k, d))
        self._out(table, path, index)

    def _out(self, table: Table, path: str, index: str) -> None:
        d = Dim("d", self.dim)
        table.add(f"{path}.out.weight", f"W{index}h}}", (d, self._inner()))
        table.add(f"{path}_norm.weight", f"γ{index}a}}", (d,))

    def _feedforward(self, table: Table, path: str, index: str) -> None:
        d, f = Dim("d", self.dim), Dim("f", self.feedforward_dim)
        if self.gated:
            symbols = (f"W{index}1}}", f"V{index}1}}")
            table.split(f"{path}.inner.weight", symbols, (f, d))
        else:
            table.add(f"{path}.inner.weight", f"W{index}1}}", (f, d))
        table.add(f"{path}.outer.weight", f"W{index}2}}", (d, f))
        table.add(f"{path}.feedforward_norm.weight", f"γ{index}f}}", (d,))

    def _inner(self) -> Dim:
        return Dim("k", self.heads * self.head_dim)
