"""The configuration of the Transformer, and its parameter table."""

from typing import Literal, Self

from pydantic import Field, model_validator

from zoo import Config, Depth, Dim, Table, Width

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
    norm: Literal["post", "pre", "branch"] = Field(
        "post",
        description="post: norm(x + f(x)); pre: x + f(norm(x)); branch: x + norm(f(x)); the last "
        "two with a norm after each stack",
    )
    unbiased_norm: bool = Field(
        False, description="divide by the unbiased standard deviation plus 1e-6 in the norm"
    )
    scale_embeddings: bool = Field(True, description="multiply embeddings by √d")
    attention_bias: bool = Field(True, description="biases in the projections to q, k, v and h")
    output_bias: bool = Field(True, description="a bias in the output layer")
    share: Literal["none", "target", "all"] = Field(
        "none",
        description="share one matrix between target embedding and output, or among all three",
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim} must be even and a multiple of heads {self.heads}")
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
        return self.share == "all"

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with a row for each symbol of a fused projection."""
        s, t = Dim("V_s", source_vocab), Dim("V_t", target_vocab)
        d = Dim("d", self.dim)
        table = Table()
        table.block("embeddings")
        if self.share == "all":
            table.add("target_embedding.weight", "W_i = W_o = W_Ỹ", (t, d))
        else:
            table.add("source_embedding.weight", "W_i", (s, d))
            tied = self.share == "target"
            table.add("target_embedding.weight", "W_o = W_Ỹ" if tied else "W_o", (t, d))
        for layer in range(self.encoder_layers):
            table.block(f"encoder layer {layer + 1}")
            path, index = f"encoder.{layer}", f"^({layer + 1})_{{E,"
            self._attention(table, f"{path}.attention", index)
            self._feedforward(table, path, index)
        if self.norm != "post":
            table.block("encoder")
            self._norm(table, "encoder_norm", "_E")
        for layer in range(self.decoder_layers):
            table.block(f"decoder layer {layer + 1}")
            path, index = f"decoder.{layer}", f"^({layer + 1})_{{D,"
            self._attention(table, f"{path}.attention", index)
            self._cross(table, f"{path}.cross", f"^({layer + 1})_{{C,")
            self._feedforward(table, path, index)
        if self.norm != "post":
            table.block("decoder")
            self._norm(table, "decoder_norm", "_D")
        table.block("output")
        if self.share == "none":
            table.add("output.weight", "W_Ỹ", (t, d))
        if self.output_bias:
            table.add("output.bias", "b_Ỹ", (t,))
        return table

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
