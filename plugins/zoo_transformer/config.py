"""The configuration of the Transformer, and its parameter table."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo import Config, Depth, Dim, LengthLimits, Table, Width

CANCELS = "adds the same number to all scores of a query, which the softmax cancels"


class TransformerConfig(Config):
    """Widths, depths, biases, and the position of the norm."""

    encoder_layers: Depth = Field(description="encoder layers")
    decoder_layers: Depth = Field(description="decoder layers")
    dim: Width = Field(description="width d of the input and output of every layer")
    heads: Width = Field(description="attention heads, of width d / heads")
    feedforward_dim: Width = Field(description="width f of the feed-forward layer's hidden units")
    dropout: float = Field(
        0.1, ge=0, lt=1, description="dropout on embeddings and sublayer outputs"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"] = Field(
        "relu",
        description="of the feed-forward layer: relu; gelu; gelu_tanh, an approximation of gelu; "
        "silu, also called swish; tanh",
    )
    norm: Literal["post", "pre", "branch"] = Field(
        "post", description="post: norm(x + f(x)); pre: x + f(norm(x)); branch: x + norm(f(x))"
    )
    final_norm: bool | None = Field(
        None, description="a norm after each stack; by default unless the norm is post"
    )
    norm_epsilon: float | None = Field(
        None, gt=0, lt=1, description="ε of the norm; by default 1e-5, or 1e-6 if unbiased"
    )
    unbiased_norm: bool = Field(
        False, description="divide by the unbiased standard deviation plus ε in the norm"
    )
    embedding_norm: bool = Field(
        False, description="normalize the sum of embedding and position, on each side"
    )
    scale_embeddings: bool = Field(True, description="multiply embeddings by √d")
    positions: Literal["interleaved", "fairseq", "learned", "none"] = Field(
        "interleaved",
        description="interleaved: sines and cosines alternate; fairseq: sines, then cosines, of "
        "frequencies 10000^(−i / (d/2 − 1)); learned: a vector for each position; none",
    )
    position_offset: int = Field(0, ge=0, le=65_536, description="position of the first token")
    max_source_positions: Width = Field(
        1024, description="most tokens of a source, with learned positions"
    )
    max_target_positions: Width = Field(
        1024, description="most tokens of a target, with learned positions"
    )
    source_end: bool = Field(
        True, description="whether the encoder reads the end token of a source"
    )
    attention_bias: bool = Field(True, description="biases in the projections to q, k, v and h")
    output_bias: bool = Field(True, description="a bias in the output layer")
    share: Literal["none", "embeddings", "target", "all"] = Field(
        "none",
        description="share one matrix between both embeddings, between target embedding and "
        "output, or among all three",
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim} must be even and a multiple of heads {self.heads}")
        if self.positions == "fairseq" and self.dim < 4:
            raise ValueError(f"fairseq's positions need a dim of 4 or more, not {self.dim}")
        return self

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls(
            encoder_layers=3, decoder_layers=2, dim=24, heads=4, feedforward_dim=40, dropout=0.0
        )

    @property
    def width(self) -> int:
        """The width d."""
        return self.dim

    @property
    def one_vocabulary(self) -> bool:
        """Whether one matrix embeds the tokens of both sides, which must then be the same."""
        return self.share in ("all", "embeddings")

    @property
    def length_limits(self) -> LengthLimits:
        """The lengths of the position tables, where positions are learned."""
        if self.positions != "learned":
            return LengthLimits()
        return LengthLimits(self.max_source_positions, self.max_target_positions)

    @property
    def stack_norm(self) -> bool:
        """Whether a norm follows each stack."""
        return self.norm != "post" if self.final_norm is None else self.final_norm

    @property
    def epsilon(self) -> float:
        """The ε of the norm."""
        if self.norm_epsilon is not None:
            return self.norm_epsilon
        return 1e-6 if self.unbiased_norm else 1e-5

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with a row for each symbol of a fused projection."""
        t, d = Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        self._embeddings(table, Dim("V_s", source_vocab), t)
        for layer in range(self.encoder_layers):
            table.block(f"encoder layer {layer + 1}")
            path, index = f"encoder.{layer}", f"^({layer + 1})_{{E,"
            self._attention(table, f"{path}.attention", index)
            self._feedforward(table, path, index)
        if self.stack_norm:
            table.block("encoder")
            self._norm(table, "encoder_norm", "_E")
        for layer in range(self.decoder_layers):
            table.block(f"decoder layer {layer + 1}")
            path, index = f"decoder.{layer}", f"^({layer + 1})_{{D,"
            self._attention(table, f"{path}.attention", index)
            self._cross(table, f"{path}.cross", f"^({layer + 1})_{{C,")
            self._feedforward(table, path, index)
        if self.stack_norm:
            table.block("decoder")
            self._norm(table, "decoder_norm", "_D")
        table.block("output")
        if self.share in ("none", "embeddings"):
            table.add("output.weight", "W_Ỹ", (t, d))
        if self.output_bias:
            table.add("output.bias", "b_Ỹ", (t,))
        return table

    def _embeddings(self, table: Table, s: Dim, t: Dim) -> None:
        d = Dim("d", self.dim)
        table.block("embeddings")
        symbol = "W_o = W_Ỹ" if self.share in ("target", "all") else "W_o"
        if self.one_vocabulary:
            table.add("target_embedding.weight", f"W_i = {symbol}", (t, d))
        else:
            table.add("source_embedding.weight", "W_i", (s, d))
            table.add("target_embedding.weight", symbol, (t, d))
        if self.positions == "learned":
            for side, letter, size in (
                ("source", "i", self.max_source_positions),
                ("target", "o", self.max_target_positions),
            ):
                rows = Dim(f"n_{letter}", size + self.position_offset)
                table.add(f"{side}_positions.weight", f"P_{letter}", (rows, d))
        if self.embedding_norm:
            self._norm(table, "source_norm", "_i")
            self._norm(table, "target_norm", "_o")

    def _attention(self, table: Table, path: str, index: str) -> None:
        d = Dim("d", self.dim)
        q, k, v, h = (f"{index}{name}}}" for name in "qkvh")
        table.split(f"{path}.project.weight", (f"W{q}", f"W{k}", f"W{v}"), (d, d))
        if self.attention_bias:
            symbols = (f"b{q}", f"b{k}", f"b{v}")
            table.split(f"{path}.project.bias", symbols, (d,), zero_gradient={f"b{k}": CANCELS})
        self._out(table, path, h, index)

    def _cross(self, table: Table, path: str, index: str) -> None:
        d = Dim("d", self.dim)
        q, k, v, h = (f"{index}{name}}}" for name in "qkvh")
        table.add(f"{path}.query.weight", f"W{q}", (d, d))
        if self.attention_bias:
            table.add(f"{path}.query.bias", f"b{q}", (d,))
        table.split(f"{path}.project.weight", (f"W{k}", f"W{v}"), (d, d))
        if self.attention_bias:
            symbols = (f"b{k}", f"b{v}")
            table.split(f"{path}.project.bias", symbols, (d,), zero_gradient={f"b{k}": CANCELS})
        self._out(table, path, h, index)

    def _out(self, table: Table, path: str, h: str, index: str) -> None:
        d = Dim("d", self.dim)
        table.add(f"{path}.out.weight", f"W{h}", (d, d))
        if self.attention_bias:
            table.add(f"{path}.out.bias", f"b{h}", (d,))
        self._norm(table, f"{path}_norm", f"{index}a}}")

    def _feedforward(self, table: Table, path: str, index: str) -> None:
        d, f = Dim("d", self.dim), Dim("f", self.feedforward_dim)
        table.add(f"{path}.inner.weight", f"W{index}1}}", (f, d))
        table.add(f"{path}.inner.bias", f"b{index}1}}", (f,))
        table.add(f"{path}.outer.weight", f"W{index}2}}", (d, f))
        table.add(f"{path}.outer.bias", f"b{index}2}}", (d,))
        self._norm(table, f"{path}.feedforward_norm", f"{index}f}}")

    def _norm(self, table: Table, path: str, index: str) -> None:
        d = Dim("d", self.dim)
        table.add(f"{path}.weight", f"γ{index}", (d,))
        table.add(f"{path}.bias", f"β{index}", (d,))
