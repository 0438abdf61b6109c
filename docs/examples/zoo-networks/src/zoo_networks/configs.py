"""The configurations and their parameter tables, without torch."""

from typing import Self

from pydantic import Field
from zoo import Config, Depth, Dim, LengthLimits, Table, Width


class Small(Config):
    """What the networks of this package share: one width, for embeddings and states."""

    dim: Width = Field(32, description="width d of embeddings and states")

    @classmethod
    def example(cls) -> Self:
        """Return a tiny config for the laws."""
        return cls()

    @property
    def width(self) -> int:
        """The width by which schedules scale the learning rate."""
        return self.dim


def gru(table: Table, name: str, inputs: Dim, d: Dim, ends: tuple[str, ...] = ("",)) -> None:
    """Add the weights of a GRU of torch, of one layer."""
    for end in ends:
        for kind, size in (("ih", inputs), ("hh", d)):
            gates = tuple(f"W_{kind},{gate}{end}" for gate in "rzn")
            table.split(f"{name}.weight_{kind}_l0{end}", gates, (d, size))
        for kind in ("ih", "hh"):
            gates = tuple(f"b_{kind},{gate}{end}" for gate in "rzn")
            table.split(f"{name}.bias_{kind}_l0{end}", gates, (d,))


class PooledConfig(Small):
    """A recurrent encoder, a convolution whose kernel is its stride, a recurrent decoder."""

    stride: int = Field(2, ge=1, le=8, description="source tokens per key")

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        table.block("encoder")
        table.add("source_embedding.weight", "W_i", (vs, d))
        gru(table, "encoder", d, d, ("", "_reverse"))
        table.add("pool.weight", "W_p", (d, 2 * self.stride * d))
        table.add("pool.bias", "b_p", (d,))
        table.block("decoder")
        table.add("target_embedding.weight", "W_o", (vt, d))
        gru(table, "decoder", d, d)
        table.add("query.weight", "W_q", (d, d))
        table.add("query.bias", "b_q", (d,))
        table.add("mix.weight", "W_m", (d, 2 * d))
        table.add("mix.bias", "b_m", (d,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        table.add("output.bias", "b_Ỹ", (vt,))
        return table


class SpeechConfig(PooledConfig):
    """The pooled network over feature vectors."""

    @property
    def features(self) -> bool:
        """The source is feature vectors; `source_vocab` is their size."""
        return True

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        table = super().parameters(source_vocab, target_vocab)
        table.rows = [row for row in table if row.path != "source_embedding.weight"]
        table.block("features")
        f, d = Dim("F", source_vocab), Dim("d", self.dim)
        table.add("source_embedding.weight", "W_i", (d, f))
        table.add("source_embedding.bias", "b_i", (d,))
        return table


class ExpertsConfig(PooledConfig):
    """The pooled network, whose keys go through experts, with two losses of its own."""

    stride: int = Field(1, ge=1, le=8, description="source tokens per key")
    experts: Width = Field(2, description="experts E")
    ctc: float = Field(0.3, ge=0, description="weight of the CTC loss")
    balance: float = Field(0.01, ge=0, description="weight of the balance of the experts")

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        table = super().parameters(source_vocab, target_vocab)
        vt, d, e = Dim("V_t", target_vocab), Dim("d", self.dim), Dim("E", self.experts)
        table.block("experts")
        table.add("gate.weight", "W_g", (e, d))
        table.split("expert.weight", tuple(f"W_{i + 1}" for i in range(self.experts)), (d, d))
        table.block("CTC head")
        table.add("spell.weight", "W_c", (vt, d))
        table.add("spell.bias", "b_c", (vt,))
        return table


def add_layers(table: Table, layers: int, d: Dim) -> None:
    """Add the weights of layers of attention and feed-forward networks."""
    for i in range(layers):
        table.block(f"layer {i + 1}")
        for name in ("attention_norm", "inner_norm"):
            table.add(f"layers.{i}.{name}.weight", "γ", (d,))
            table.add(f"layers.{i}.{name}.bias", "β", (d,))
        table.split(f"layers.{i}.project.weight", ("W_q", "W_k", "W_v"), (d, d))
        table.add(f"layers.{i}.output.weight", "W_h", (d, d))
        table.add(f"layers.{i}.inner.weight", "W_1", (4 * d, d))
        table.add(f"layers.{i}.inner.bias", "b_1", (4 * d,))
        table.add(f"layers.{i}.outer.weight", "W_2", (d, 4 * d))
        table.add(f"layers.{i}.outer.bias", "b_2", (d,))


class ContextConfig(Small):
    """An encoder for the text and one for its context, and a decoder that attends to both."""

    context: str = Field("context", min_length=1, description="name of the second source")

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the two sources."""
        return ("text", self.context)

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        table.block("encoders")
        table.add("source_embedding.weight", "W_i", (vs, d))
        for name in ("encoders.0", "encoders.1"):
            gru(table, name, d, d, ("", "_reverse"))
        table.block("decoder")
        table.add("target_embedding.weight", "W_o", (vt, d))
        gru(table, "decoder", d, d)
        for name in ("queries.0", "queries.1"):
            table.add(f"{name}.weight", "W_q", (2 * d, d))
        table.add("gate.weight", "W_g", (2 * d, 5 * d))
        table.add("gate.bias", "b_g", (2 * d,))
        table.add("mix.weight", "W_m", (d, 5 * d))
        table.add("mix.bias", "b_m", (d,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        return table


class PrefixConfig(Small):
    """Layers that source and target share."""

    layers: Depth = Field(2, description="layers L")
    heads: Width = Field(2, description="attention heads h; d / h must be even")

    @property
    def one_vocabulary(self) -> bool:
        """Source and target are one sequence."""
        return True

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        v, d = Dim("V", target_vocab), Dim("d", self.dim)
        table = Table()
        table.block("embeddings")
        table.add("embedding.weight", "W_i", (v, d))
        add_layers(table, self.layers, d)
        table.block("output")
        table.add("norm.weight", "γ", (d,))
        table.add("norm.bias", "β", (d,))
        table.add("output.weight", "W_Ỹ", (v, d))
        return table


class MaskedConfig(Small):
    """Layers that source and target share, and how a target is decoded."""

    layers: Depth = Field(2, description="layers L")
    heads: Width = Field(2, description="attention heads h; d / h must be even")
    passes: int = Field(4, ge=1, le=100, description="passes T of decoding")
    max_length: int = Field(64, ge=2, le=10_000, description="longest target, with its end token")

    @property
    def length_limits(self) -> LengthLimits:
        """The longest target, with its begin and end tokens."""
        return LengthLimits(target=self.max_length + 1)

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        n = Dim("N", self.max_length + 1)
        table = Table()
        table.block("embeddings")
        table.add("source_embedding.weight", "W_i", (vs, d))
        table.add("target_embedding.weight", "W_o", (vt, d))
        table.add("hidden", "e", (d,))
        add_layers(table, self.layers, d)
        table.block("output")
        table.add("norm.weight", "γ", (d,))
        table.add("norm.bias", "β", (d,))
        table.add("length.weight", "W_n", (n, d))
        table.add("length.bias", "b_n", (n,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        table.add("output.bias", "b_Ỹ", (vt,))
        return table


class ModernConfig(Small):
    """A Transformer as decoders are built today, with an encoder."""

    layers: Depth = Field(2, description="layers L of each side")
    heads: Width = Field(4, description="query heads h")
    groups: Width = Field(2, description="key and value heads g, each for h / g query heads")

    @property
    def head(self) -> int:
        """The width of a head, which must be even."""
        return self.dim // self.heads

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        q, kv = Dim("h d_h", self.heads * self.head), Dim("g d_h", self.groups * self.head)
        table = Table()
        table.block("embeddings")
        table.add("source_embedding.weight", "W_i", (vs, d))
        table.add("target_embedding.weight", "W_o", (vt, d))
        for side in ("encoder", "decoder"):
            for i in range(self.layers):
                name = f"{side}.{i}"
                table.block(f"{side} layer {i + 1}")
                table.add(f"{name}.attention_norm.weight", "γ", (d,))
                table.split(f"{name}.project.weight", {"W_q": q, "W_k": kv, "W_v": kv}, (d,))
                table.add(f"{name}.output.weight", "W_h", (d, q))
                if side == "decoder":
                    table.add(f"{name}.cross_norm.weight", "γ_c", (d,))
                    table.add(f"{name}.cross_query.weight", "W_q,c", (q, d))
                    table.split(f"{name}.cross_project.weight", ("W_k,c", "W_v,c"), (kv, d))
                    table.add(f"{name}.cross_output.weight", "W_h,c", (d, q))
                table.add(f"{name}.inner_norm.weight", "γ", (d,))
                table.split(f"{name}.inner.weight", ("W_1", "W_g"), (2 * d, d))
                table.add(f"{name}.outer.weight", "W_2", (d, 2 * d))
        table.block("output")
        table.add("encoder_norm.weight", "γ", (d,))
        table.add("decoder_norm.weight", "γ", (d,))
        table.add("output.weight", "W_Ỹ", (vt, d))
        return table


class LuongConfig(Small):
    """One LSTM on each side, of one width."""

    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table, with one row for each symbol of the equations."""
        vs, vt, d = Dim("V_s", source_vocab), Dim("V_t", target_vocab), Dim("d", self.dim)
        table = Table()
        for side, v, inputs, end in (("encoder", vs, d, "_l0"), ("decoder", vt, 2 * d, "")):
            table.block(side)
            table.add(f"{side}_embedding.weight", "E", (v, d))
            for kind, size in (("ih", inputs), ("hh", d)):
                gates = tuple(f"W_{kind},{gate}" for gate in "ifgo")
                table.split(f"{side}.weight_{kind}{end}", gates, (d, size))
            for kind in ("ih", "hh"):
                gates = tuple(f"b_{kind},{gate}" for gate in "ifgo")
                table.split(f"{side}.bias_{kind}{end}", gates, (d,))
        table.block("attention and output")
        table.add("score.weight", "W_a", (d, d))
        table.add("mix.weight", "W_c", (d, 2 * d))
        table.add("output.weight", "W_s", (vt, d))
        return table
