"""An encoder or a step of a decoder in one call of the kernels equals torch's operators."""

from __future__ import annotations

import copy
import functools
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.core.test_kernels import needs_compiler, without_kernels
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.steps import MOST_STEPS
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn import Dropout, Linear, create_model, gather, stack_parts, stacks
from zoo.nn.bf16 import BFloat16
from zoo.nn.cached_weights import CachedWeights, float32_weights
from zoo.nn.int8 import Int8
from zoo.nn.key_value_cache import KeyValueCache
from zoo_transformer.layers import CrossAttention, DecoderLayer
from zoo_transformer.network import Transformer

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiled")]

VOCAB = 90
CONFIGS: dict[str, dict[str, Any]] = {
    "post": {"norm": "post"},
    "pre": {"norm": "pre"},
    "pre without a last norm": {"norm": "pre", "final_norm": False},
    "learned positions": {"positions": "learned", "position_offset": 2},
    "no positions": {"positions": "none"},
    "no biases, unscaled": {
        "attention_bias": False, "output_bias": False, "scale_embeddings": False,
    },
    "an output of its own": {"share": "none"},
    "one vocabulary": {"share": "all"},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "branch": {"norm": "branch"},
    "gelu": {"activation": "gelu"},
    "norm of the embeddings": {"embedding_norm": True},
    "unbiased norms": {"unbiased_norm": True},
    "heads of 12": {"dim": 48, "heads": 4},
}


def network(**config: Any) -> Transformer:
    """Return a copy of the network with this configuration: first weights are slow to draw."""
    made = copy.deepcopy(drawn(tuple(config.items())))
    torch.manual_seed(1)
    return made


@functools.cache
def drawn(items: tuple[tuple[str, Any], ...]) -> Transformer:
    config = dict(items)
    torch.manual_seed(1)
    made = create_model("transformer-tiny", source_vocab=VOCAB, target_vocab=VOCAB, **config)
    for parameter in made.parameters():  # no bias or norm is trivial
        parameter.data.add_(torch.randn_like(parameter), alpha=0.05)
    assert isinstance(made, Transformer)
    return made.eval()


def sources(lengths: tuple[int, ...] = (9, 7, 3)) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    draw = torch.Generator().manual_seed(2)
    return torch.randint(4, VOCAB, mask.shape, generator=draw) * mask, mask


def steps(model: Transformer, weights: CachedWeights[Any], *, fixed: bool) -> list[torch.Tensor]:
    """The encoder's output and the logits of five steps, with rows that change."""
    source, mask = sources()
    with torch.inference_mode(), weights.activate(fixed=fixed):
        memory = model.encode(source, mask).memory
        results = [*memory.keys, *memory.values]
        state = model.init_state(memory)
        token = torch.ones(3, dtype=torch.long)
        for position in range(5):
            logits, state, _ = model.step(token, state, memory)
            results.append(logits)
            if position == 2:  # a beam of two for each sentence, from the same prefix
                chosen = torch.arange(3).repeat_interleave(2)
                state, logits = state.gather(chosen), logits[chosen]
            if position == 3:  # the first beam is swapped, and a sentence leaves
                chosen = torch.tensor([1, 0, 4, 4])
                state, logits = state.gather(chosen), logits[chosen]
                keep = torch.tensor([0, 2])
                memory = gather(memory, keep)
            token = (logits.argmax(1) + torch.arange(len(logits))) % VOCAB
    return results


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which stacks the kernels computed."""
    kinds: list[str] = []

    def find(network: nn.Module, kind: str, describe: stack_parts.Describe, rows: int) -> Any:
        result = stack_parts.find_stack(network, kind, describe, rows)
        if result is not None:
            kinds.append(kind)
        return result

    monkeypatch.setattr(stacks, "find_stack", find)
    return kinds


def skip_unless(computed: list[str]) -> None:
    if not computed:
        pytest.skip("this processor has no instructions for it")


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_results_are_those_of_torch(
    config: dict[str, Any], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(**config)
    one = steps(model, float32_weights(), fixed=True)
    skip_unless(computed)
    assert computed == ["encoder", *["decoder"] * 5]
    without_kernels(monkeypatch)
    other = steps(model, float32_weights(), fixed=True)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", [BFloat16, Int8])
def test_precisions_are_those_of_the_sublayers(
    weights: Callable[[], CachedWeights[Any]], computed: list[str]
) -> None:
    """The same products, one sublayer at a time."""
    model = network(norm="pre")
    one = steps(model, weights(), fixed=True)
    skip_unless(computed)
    computed.clear()
    other = steps(model, weights(), fixed=False)
    assert not computed
    for a, b in zip(one, other, strict=True):  # a difference of rounding may change a rounded input
        torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_other_networks_are_left_to_torch(config: dict[str, Any], computed: list[str]) -> None:
    model = network(**config)
    results = steps(model, float32_weights(), fixed=True)
    assert not computed
    assert all(bool(result.isfinite().all()) for result in results)


class Louder(Transformer):
    """A plugin's network with another step."""

    def embed(self, *given: Any) -> torch.Tensor:
        return 2 * super().embed(*given)


def test_a_subclass_is_left_to_torch(computed: list[str]) -> None:
    model = network()
    model.__class__ = Louder
    one = steps(model, float32_weights(), fixed=True)
    assert not computed
    other = steps(network(), float32_weights(), fixed=True)
    assert not torch.allclose(one[-1], other[-1])


@pytest.mark.parametrize("name", ["", "decoder", "decoder.0", "decoder.1.cross", "output"])
def test_hooks_and_replaced_methods_are_called(name: str, computed: list[str]) -> None:
    """Also those that come after a search in which there were none."""
    model, weights, called = network(), float32_weights(), []
    expected = steps(model, weights, fixed=True)
    skip_unless(computed)
    computed.clear()
    observed = model.get_submodule(name)
    with observed.register_forward_hook(lambda *_: called.append(name)):
        steps(model, weights, fixed=True)
    assert not computed
    assert len(called) == (5 if name in ("decoder.0", "output") else 0)  # others are not called
    forward = observed.forward
    observed.forward = lambda *given: forward(*given)
    steps(model, weights, fixed=True)
    assert not computed
    del observed.forward
    again = steps(model, weights, fixed=True)
    assert computed
    for a, b in zip(again, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.sweep
@pytest.mark.parametrize("change", ["written to", "replaced", "another module", "new data"])
@pytest.mark.parametrize(
    "name", ["target_embedding", "decoder.3.cross.out", "encoder.0.inner", "decoder_norm", "output"]
)
def test_a_change_between_searches_is_noticed(
    change: str, name: str, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, weights = network(norm="pre", share="none"), float32_weights()
    before = steps(model, weights, fixed=True)
    skip_unless(computed)
    changed, new = model.get_submodule(name), network(norm="pre", share="none").get_submodule(name)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.mul_(1.1).add_(0.1)
        if change == "written to":
            changed.load_state_dict(new.state_dict())
        elif change == "replaced":
            for key, parameter in list(new.named_parameters()):
                setattr(changed, key, nn.Parameter(parameter.clone()))
        elif change == "another module":
            model.set_submodule(name, new)
        else:
            weight = next(changed.parameters())
            weight.data = weight * 2
    after = steps(model, weights, fixed=True)
    assert not torch.allclose(before[-1], after[-1])
    without_kernels(monkeypatch)
    expected = steps(model, float32_weights(), fixed=True)
    for a, b in zip(after, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


class LouderLinear(Linear):
    """As adapters have it: a subclass with the weights of what it replaces."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class OtherLayer(DecoderLayer):
    def keys_and_values(self, encoded: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return super().keys_and_values(2 * encoded)


class OtherCross(CrossAttention):
    def split_heads(self, x: torch.Tensor, parts: int) -> tuple[torch.Tensor, ...]:
        return super().split_heads(2 * x, parts)


class OtherEmbedding(nn.Embedding):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(tokens)


def _adapter(model: Transformer, name: str) -> None:
    old = model.get_submodule(name)
    assert isinstance(old, Linear)
    new = LouderLinear(old.in_features, old.out_features)
    new.load_state_dict(old.state_dict())
    model.set_submodule(name, new)


def _replace_embed(model: Transformer) -> None:
    embed = model.embed
    model.embed = lambda *given: 2 * embed(*given)  # type: ignore[method-assign]


def _replace_keys(model: Transformer) -> None:
    layer: Any = model.decoder[0]
    keys_and_values = layer.keys_and_values
    layer.keys_and_values = lambda encoded: keys_and_values(2 * encoded)


def _dropout_on(model: Transformer) -> None:
    torch.manual_seed(5)
    model.dropout.train()


def _set(owner: str, name: str, value: object) -> Callable[[Transformer], None]:
    return lambda model: setattr(model.get_submodule(owner), name, value)


def _parametrize(model: Transformer, owner: str, name: str) -> None:
    parametrize.register_parametrization(model.get_submodule(owner), name, Scaled())


def _twice_new_data(model: Transformer) -> None:
    """The second may get the memory of what was there before the first."""
    weight = model.get_parameter("output.weight")
    for _ in range(2):
        weight.data = 2 * weight.data


def _heads(model: Transformer) -> None:
    for layer in model.decoder:
        layer.attention.heads = 2  # type: ignore[union-attr]


def _hooked_dropout(model: Transformer) -> None:
    model.dropout = Dropout(0.1).eval()
    model.dropout.register_forward_hook(lambda module, given, result: 2 * result)


CHANGES: dict[str, Callable[[Transformer], None]] = {
    "an adapter of keys and values": partial(_adapter, name="decoder.0.cross.project"),
    "an adapter of feed-forward": partial(_adapter, name="encoder.1.inner"),
    "a parametrized bias": partial(_parametrize, owner="decoder.0.cross.project", name="bias"),
    "a parametrized weight": partial(_parametrize, owner="output", name="weight"),
    "another layer": lambda m: setattr(m.decoder[0], "__class__", OtherLayer),
    "another attention": lambda m: setattr(m.decoder[0].cross, "__class__", OtherCross),
    "another embedding": lambda m: setattr(m.target_embedding, "__class__", OtherEmbedding),
    "another dropout": _set("", "dropout", Scaled()),
    "a hooked dropout": _hooked_dropout,
    "epsilon of the last norm": _set("decoder_norm", "eps", 0.5),
    "epsilon of a sublayer's norm": _set("encoder.0.attention_norm", "eps", 0.5),
    "the embedding's largest norm": _set("target_embedding", "max_norm", 0.1),
    "heads": _heads,
    "a layer's norm": _set("decoder.0", "norm", "post"),
    "an activation": _set("decoder.0", "activation", "tanh"),
    "embed": _replace_embed,
    "keys_and_values": _replace_keys,
    "twice new data": _twice_new_data,
}


@pytest.mark.sweep
@pytest.mark.parametrize("is_known", [False, True], ids=["at first", "after a search"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_network_computes_otherwise_is_noticed(
    change: Callable[[Transformer], None],
    is_known: bool,
    computed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of these changes the logits; so do they with torch's operators alone."""
    model, weights = network(norm="pre", share="none"), float32_weights()
    before = steps(model, weights, fixed=True)
    skip_unless(computed)
    change(model)
    after = steps(model, weights if is_known else float32_weights(), fixed=True)
    assert not torch.allclose(before[-1], after[-1], atol=1e-2)
    without_kernels(monkeypatch)
    expected = steps(model, float32_weights(), fixed=True)
    for a, b in zip(after, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_torchs_default_dtype_does_not_matter(dtype: torch.dtype, computed: list[str]) -> None:
    """The kernels write float32."""
    model, weights = network(), float32_weights()
    expected = steps(model, weights, fixed=True)
    skip_unless(computed)
    torch.set_default_dtype(dtype)
    try:
        result = steps(model, weights, fixed=True)
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_keys_of_another_dtype_are_refused(computed: list[str]) -> None:
    """By torch's operators, as without kernels, before anything is written."""
    model = network()
    source, mask = sources((4, 4))
    token = torch.ones(2, dtype=torch.long)
    with torch.inference_mode(), float32_weights().activate(fixed=True):
        memory = model.encode(source, mask).memory
        skip_unless(computed)
        narrow = memory._replace(
            keys=tuple(k.bfloat16() for k in memory.keys),
            values=tuple(v.bfloat16() for v in memory.values),
        )
        with pytest.raises(RuntimeError):
            model.step(token, model.init_state(narrow), narrow)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, state, _ = model.step(token, model.init_state(memory), memory)
        with pytest.raises(RuntimeError):
            model.step(token, state, memory)


def test_a_memory_that_is_partly_replaced(computed: list[str]) -> None:
    """Pointers to what the same keys had beside them before are not used again."""
    model = network()
    source, mask = sources()
    token = torch.ones(3, dtype=torch.long)
    with torch.inference_mode(), float32_weights().activate(fixed=True):
        memory = model.encode(source, mask).memory
        skip_unless(computed)
        model.step(token, model.init_state(memory), memory)
        state = model.init_state(memory)
        for other in (
            memory._replace(key_padding_mask=memory.key_padding_mask.clone().fill_(False)),
            memory._replace(values=tuple(2 * v for v in memory.values)),
        ):
            copied = other._replace(
                keys=tuple(map(torch.clone, other.keys)),
                values=tuple(map(torch.clone, other.values)),
                key_padding_mask=other.key_padding_mask.clone(),
            )
            one = model.step(token, state, other).logits
            assert not torch.allclose(one, model.step(token, state, memory).logits)
            torch.testing.assert_close(one, model.step(token, state, copied).logits)


class Packed(torch.Tensor):
    """A weight in another form, as quantized ones have it: there is no memory at its address."""

    rounded: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Packed:
        wrap: Any = torch.Tensor._make_wrapper_subclass
        made: Packed = wrap(cls, inner.shape, dtype=torch.float32)
        made.rounded = inner
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return Packed(args[0].rounded)
        unpacked = [x.rounded.float() if isinstance(x, Packed) else x for x in args]
        return function(*unpacked, **(kwargs or {}))


@pytest.mark.parametrize("name", ["target_embedding", "output"])
def test_a_tensor_without_memory_is_left_to_torch(name: str, computed: list[str]) -> None:
    model = network(share="none")
    owner: Any = model.get_submodule(name)
    weight = owner.weight.detach().half()
    owner.weight = nn.Parameter(weight.float(), requires_grad=False)
    expected = steps(model, float32_weights(), fixed=True)
    skip_unless(computed)
    computed.clear()
    owner.weight = nn.Parameter(Packed(weight), requires_grad=False)
    result = steps(model, float32_weights(), fixed=True)
    assert "decoder" not in computed
    for a, b in zip(result, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_a_beam_from_the_first_step_on(with_kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hypothesis attends to its own prefix."""
    if not with_kernels:
        without_kernels(monkeypatch)
    model = network()
    source, mask = sources()
    tokens = torch.randint(4, VOCAB, (9, 2))
    with torch.inference_mode(), float32_weights().activate(fixed=True):
        memory = model.encode(source, mask).memory
        state = model.init_state(memory).gather(torch.arange(3).repeat_interleave(3))
        alone = [model.init_state(memory) for _ in range(3)]
        for position in range(2):
            together, state, _ = model.step(tokens[:, position], state, memory)
            for hypothesis in range(3):
                step = model.step(tokens[hypothesis::3, position], alone[hypothesis], memory)
                alone[hypothesis] = step.state
                expected = step.logits
                torch.testing.assert_close(together[hypothesis::3], expected, rtol=1e-4, atol=1e-4)


def test_nothing_is_packed_where_the_kernels_are_not_used() -> None:
    """With several threads and many rows torch's products are faster."""
    model, weights = network(), float32_weights()
    source, mask = sources((3,) * 20)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.inference_mode(), weights.activate(fixed=True):
            memory = model.encode(source, mask).memory
            model.step(torch.ones(20, dtype=torch.long), model.init_state(memory), memory)
    finally:
        torch.set_num_threads(before)
    assert not weights.stacks


@pytest.mark.parametrize("token", [-1, VOCAB, 2**40])
def test_a_token_that_does_not_exist(token: int, computed: list[str]) -> None:
    """Nothing beside the embedding is read."""
    model = network()
    source, mask = sources()
    with torch.inference_mode(), float32_weights().activate(fixed=True):
        memory = model.encode(source, mask).memory
        skip_unless(computed)
        state = model.init_state(memory)
        with pytest.raises(IndexError):
            model.step(torch.tensor([1, token, 1]), state, memory)
        source[1, 0] = token
        with pytest.raises(IndexError):
            model.encode(source, mask)


@pytest.mark.parametrize(
    "lengths", [(1,), (16,), (17,), (63,), (64,), (65,), (1, 30), (300,), (9,) * 40]
)
def test_sources_of_any_length(
    lengths: tuple[int, ...], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    source, mask = sources(lengths)
    both = []
    for _ in range(2):
        with torch.inference_mode(), float32_weights().activate(fixed=True):
            memory = model.encode(source, mask).memory
            both.append([*memory.keys, *memory.values])
        without_kernels(monkeypatch)
    is_padding = ~mask[:, None, :, None]  # what is there does not matter
    for a, b in zip(*both, strict=True):
        a, b = (x.masked_fill(is_padding, 0.0) for x in (a, b))
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("beam", [1, 4, 17])
@pytest.mark.parametrize("config", [{}, {"norm": "pre", "share": "all"}], ids=str)
def test_searches_find_the_same(
    beam: int, config: dict[str, Any], computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a beam that the kernels do not support, too, and sentences that leave."""
    model = network(**config)
    source, mask = sources((9, 7, 3, 5, 1, 1, 12))
    both = []
    for _ in range(2):
        with torch.inference_mode(), float32_weights().activate(fixed=True):
            task = Task(model, model.encode(source, mask).memory, mask)
            both.append(search(task, Search(beam=beam, max_length=40)))
        without_kernels(monkeypatch)
    skip_unless(computed)
    for compiled, plain in zip(*both, strict=True):
        assert compiled[0].tokens == plain[0].tokens
        assert compiled[0].score == pytest.approx(plain[0].score, abs=1e-3)


def test_threads_share_a_network(computed: list[str]) -> None:
    """Each prepares it for itself, or finds what another one prepared."""
    model, weights = network(), float32_weights()
    expected = steps(model, float32_weights(), fixed=True)
    skip_unless(computed)
    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(lambda _: steps(model, weights, fixed=True)[-1], range(24)))
    for logits in every:
        torch.testing.assert_close(logits, expected[-1])


def test_a_network_that_is_gone_leaves_nothing(computed: list[str]) -> None:
    model, weights = network(), float32_weights()
    steps(model, weights, fixed=True)
    skip_unless(computed)
    assert len(weights.stacks) == 1
    del model
    gc.collect()
    assert not weights.stacks


SEARCHES: dict[str, tuple[dict[str, Any], list[list[int]] | None]] = {
    "plain": ({}, None),
    "an empty translation": ({"allow_empty": True}, None),
    "bans": ({"banned": tuple(range(4, 80))}, None),
    "a minimum": ({"min_length": 7}, None),
    "a length": ({"min_length": 23, "max_length": 23}, None),
    "a maximum": ({"max_length": 6}, None),
    "n-grams": ({"no_repeat_ngram_size": 2}, None),
    "a penalty": ({"repetition_penalty": 1.3}, None),
    "coverage": ({"coverage_penalty": 0.2}, None),
    "prefixes": ({}, [[], [5], [6, 7, 8]]),
}
ONE_BY_ONE = {"no_repeat_ngram_size", "repetition_penalty", "coverage_penalty"}
"""The options with which each step needs all scores."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each call took at once."""
    counts: list[int] = []
    greedy_steps, beam_steps = Transformer.greedy_steps, Transformer.beam_steps

    def greedily(*given: Any) -> Any:
        result = greedy_steps(*given)
        counts.append(0 if result is None else result.tokens.shape[1])
        return result

    def with_a_beam(*given: Any) -> Any:
        result = beam_steps(*given)
        counts.append(0 if result is None else 1 + len(result.tokens))
        return result

    monkeypatch.setattr(Transformer, "greedy_steps", greedily)
    monkeypatch.setattr(Transformer, "beam_steps", with_a_beam)
    return counts


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches take each step by itself."""
    monkeypatch.setattr(Task, "taking", lambda task, method: None)


def ending(model: Transformer, bias: float) -> Transformer:
    """The network with an end token that is more or less probable."""
    output = model.output.bias
    assert output is not None
    with torch.no_grad():
        output[2] += bias
    return model


def searched(
    model: Transformer, weights: CachedWeights[Any], options: dict[str, Any], beam: int = 1,
    prefixes: list[list[int]] | None = None, on_step: Callable[[], None] | None = None,
) -> list[Any]:  # fmt: skip
    source, mask = sources()
    blank = torch.tensor([11, 12])
    with torch.inference_mode(), weights.activate(fixed=True):
        memory = model.encode(source, mask).memory
        task = Task(model, memory, mask, 40, prefixes, blank=blank, on_step=on_step)
        n_best = max(beam - 1, 1)
        results = search(task, Search(beam=beam, n_best=n_best, **options))
        return [hypothesis for best in results for hypothesis in best]


@pytest.mark.sweep
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("bias", [-9.0, 0.0, 1.0, 3.0])
@pytest.mark.parametrize(("options", "prefixes"), SEARCHES.values(), ids=SEARCHES)
def test_several_steps_at_once_are_the_same_steps(
    options: dict[str, Any], prefixes: list[list[int]] | None, bias: float, beam: int,
    taken: list[int], computed: list[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model = ending(network(norm="pre", encoder_layers=1, decoder_layers=2), bias)
    several = searched(model, float32_weights(), options, beam, prefixes)
    skip_unless(computed)
    if bias == -9:  # nothing ends early
        assert (max(taken, default=0) > 1) == options.keys().isdisjoint(ONE_BY_ONE)
    taken.clear()
    one_by_one(monkeypatch)
    assert several == searched(model, float32_weights(), options, beam, prefixes)
    assert not taken
    without_kernels(monkeypatch)
    for one, other in zip(several, searched(model, float32_weights(), options, beam, prefixes),
                          strict=True):  # fmt: skip
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, rel=1e-3)


@pytest.mark.sweep
@pytest.mark.parametrize("weights", [float32_weights, BFloat16, Int8])
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_several_steps_in_each_network_and_precision(
    config: dict[str, Any], beam: int, weights: Callable[[], CachedWeights[Any]],
    taken: list[int], computed: list[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model = network(**config)
    several = searched(model, weights(), {"banned": (2,)}, beam)
    skip_unless(computed)
    assert max(taken) == MOST_STEPS
    one_by_one(monkeypatch)
    assert several == searched(model, weights(), {"banned": (2,)}, beam)


def test_several_steps_do_not_depend_on_torchs_defaults(computed: list[str]) -> None:
    model = network()
    source, mask = sources()
    rows = torch.arange(len(mask)).repeat_interleave(3)
    first, scores = torch.ones_like(rows), torch.zeros(len(mask), 3)

    def several() -> tuple[Any, Any]:
        with torch.inference_mode(), float32_weights().activate(fixed=True):
            memory = model.encode(source, mask).memory
            state = model.init_state(memory)
            wide = state.gather(rows)
            return (
                model.greedy_steps(first[::3], state, memory, 4, (2,)),
                model.beam_steps(first, wide, memory, scores, 4, (2,)),
            )

    expected = several()
    skip_unless(computed)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            actual = several()
    finally:
        torch.set_default_dtype(torch.float32)
    for steps, same in zip(actual, expected, strict=True):
        for one, other in zip(steps[:-1], same[:-1], strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("beam", [1, 3])
def test_steps_beyond_a_learned_table_are_single_ones(
    beam: int, taken: list[int], computed: list[str]
) -> None:
    """They end in time, though the table is too short for several at once."""
    model = ending(network(positions="learned", max_target_positions=12), 9.0)
    source, mask = sources()
    with torch.inference_mode(), float32_weights().activate(fixed=True):
        task = Task(model, model.encode(source, mask).memory, mask)
        results = search(task, Search(beam=beam))
    skip_unless(computed)
    assert all(len(best[0].tokens) < 10 for best in results)
    assert max(taken) < 2


def test_what_on_step_raises_ends_several_steps(taken: list[int], computed: list[str]) -> None:
    calls: list[int] = []

    def on_step() -> None:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(ending(network(), -9.0), float32_weights(), {}, on_step=on_step)
    skip_unless(computed)
    assert taken == [1, MOST_STEPS]  # at first, no translation may be empty


def test_a_logit_that_is_no_number_is_reported() -> None:
    model = network()
    output = model.output.bias
    assert output is not None
    with torch.no_grad():
        output[20] = torch.nan
    with pytest.raises(DecodingError, match="are not numbers"):
        searched(model, float32_weights(), {"allow_empty": True})


def test_without_kernels_it_is_tried_once_and_copies_nothing(
    taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_kernels(monkeypatch)
    copies: list[int] = []
    original = KeyValueCache._copied

    def copied(self: KeyValueCache, part: torch.Tensor, capacity: int) -> torch.Tensor:
        copies.append(capacity)
        return original(self, part, capacity)

    monkeypatch.setattr(KeyValueCache, "_copied", copied)
    searched(ending(network(), -9.0), float32_weights(), {})
    assert taken == [0]
    of_single_steps = copies[:]
    copies.clear()
    one_by_one(monkeypatch)
    searched(ending(network(), -9.0), float32_weights(), {})
    assert copies == of_single_steps


class Wrapped(NamedTuple):
    cache: KeyValueCache


class OtherState(Transformer):
    """A plugin's network with a state of its own."""

    def init_state(self, memory: Any) -> Any:
        return Wrapped(super().init_state(memory))

    def step(self, token: Any, state: Any, memory: Any, attention: bool = False) -> Any:
        step: Any = super().step(token, state.cache, memory, attention)
        return step._replace(state=Wrapped(step.state))


def test_a_subclass_with_another_state_takes_single_steps() -> None:
    model = ending(network(), -9.0)
    expected = searched(model, float32_weights(), {})
    model.__class__ = OtherState
    for one, other in zip(searched(model, float32_weights(), {}), expected, strict=True):
        assert one.tokens == other.tokens
