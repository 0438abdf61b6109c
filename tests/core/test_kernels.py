"""The optional kernels compute what torch's operators do, and are never a condition."""

from __future__ import annotations

import ctypes
import errno
import functools
import gc
import itertools
import math
import os
import shutil
import subprocess
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from click.testing import CliRunner

from zoo.cli import cli
from zoo.decoding.candidates import best_continuations, best_token
from zoo.decoding.choice import BeamSlots, best_choice, choose, facts_of
from zoo.decoding.options import Search
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.nn import (
    KeyValueCache,
    Linear,
    Source,
    add_norm,
    attention_sublayer,
    create_model,
    feedforward_sublayer,
    few_queries,
    kernel_library,
    linear,
    sublayers,
)
from zoo.nn import kernels as module
from zoo.nn.bf16 import BFloat16, bf16_weights
from zoo.nn.cached_weights import float32_weights
from zoo.nn.contract import END
from zoo.nn.int8 import Int8
from zoo.nn.kernel_library import library_file
from zoo.nn.processor import has
from zoo.training.losses import cross_entropy

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler `cc`")


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.nn.cached_weights.product_kernels", lambda rows: None)
    for owner in ("bf16", "int8"):
        monkeypatch.setattr(f"zoo.nn.{owner}.kernels", lambda: None)
    monkeypatch.setattr("zoo.decoding.candidates.kernels", lambda: None)
    monkeypatch.setattr("zoo.nn.key_value_cache.usable_kernels", lambda: None)
    monkeypatch.setattr(module, "kernels", functools.cache(lambda: None))


@pytest.mark.sweep
@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("vocab", [2, 15, 16, 17, 500])
@pytest.mark.parametrize("threads", [1, 2])
def test_cross_entropy(dtype: torch.dtype, smoothing: float, vocab: int, threads: int) -> None:
    """Of logits far apart, beside torch's in float64, with a second backward pass."""
    torch.manual_seed(vocab)
    rounded = (6 * torch.randn(37, vocab)).to(dtype)
    labels = torch.randint(0, vocab, (37,))
    labels[:2] = torch.tensor([0, vocab - 1])
    logits, exact = rounded.clone().requires_grad_(), rounded.double().requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        loss = cross_entropy(logits, labels, smoothing)
        assert type(loss.grad_fn).__name__ == "_CompiledCrossEntropyBackward"
        expected = F.cross_entropy(
            exact, labels, ignore_index=0, label_smoothing=smoothing, reduction="sum"
        )
        for factor in (0.25, 3.0, 0.0):
            (gradient,) = torch.autograd.grad(factor * loss, logits, retain_graph=True)
            (truth,) = torch.autograd.grad(factor * expected, exact, retain_graph=True)
            bound = 2**-8 if dtype is torch.bfloat16 else 1e-5
            torch.testing.assert_close(gradient.double(), truth, rtol=bound, atol=1e-6)
        (gradient,) = torch.autograd.grad(loss * math.inf, logits)
        assert not bool(gradient.isfinite().any())
    finally:
        torch.set_num_threads(before)
    assert loss.dtype is torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_cross_entropy_of_other_operands_is_torchs() -> None:
    """The kernel reads memory by what a label says: it must not see one outside the vocabulary."""
    logits, labels = torch.randn(4, 20, requires_grad=True), torch.tensor([1, 2, 3, 4])
    for x, ids in ((logits.double(), labels), (logits.half(), labels), (logits[:, ::2], labels)):
        assert type(cross_entropy(x, ids).grad_fn).__name__ == "_CrossEntropyBackward"
    for wrong in (-1, 20, 2**40):
        with pytest.raises((IndexError, RuntimeError)):
            cross_entropy(logits, torch.tensor([1, 2, 3, wrong]))
    assert float(cross_entropy(logits[:0], labels[:0]).detach()) == 0


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_cross_entropy_of_broken_logits_is_no_number(dtype: torch.dtype, value: float) -> None:
    logits = torch.zeros(3, 40, dtype=dtype)
    logits[1, 33] = value
    logits.requires_grad_()
    loss = cross_entropy(logits, torch.tensor([1, 2, 3]), 0.1)
    assert math.isnan(float(loss.detach()))
    loss.backward()
    assert logits.grad is not None
    assert bool(logits.grad[1].isnan().all())
    assert bool(logits.grad[[0, 2]].isfinite().all())


@pytest.mark.sweep
@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("d", [16, 48, 80])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 17), (5, 40), (8, 300)])
@pytest.mark.parametrize("masked", [None, "padding", "each query", "causal"])
def test_attention_of_few_queries(
    heads: int, d: int, queries: int, keys: int, masked: str | None
) -> None:
    """Operands are parts of larger tensors; scores are far apart, so that some weights vanish."""
    torch.manual_seed(queries + d)
    q = torch.randn(3, queries, 3, heads, d).permute(2, 0, 3, 1, 4)[1] * 3
    k, v = (torch.randn(3, heads, keys + 2, d)[:, :, 1 : keys + 1] for _ in range(2))
    mask = None
    if masked in ("padding", "each query"):
        mask = torch.rand(3, 1, queries if masked == "each query" else 1, keys) < 0.4
        mask[..., -1] = False
    if masked == "causal":
        mask = torch.rand(queries, keys) < 0.4
        mask[:, -1] = False
    with torch.inference_mode():
        result = few_queries(q, k, v, mask)
    assert result is not None
    scores = (q.double() @ k.double().transpose(2, 3)) / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    expected = (scores.softmax(-1) @ v.double()).float()
    torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-6)


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_what_the_kernel_does_not_support_is_left_to_torch() -> None:
    q, k = torch.randn(2, 3, 1, 16), torch.randn(2, 3, 5, 16)
    with torch.no_grad():
        assert few_queries(q, k, k, None) is not None
        assert few_queries(q.double(), k.double(), k.double(), None) is None
        assert few_queries(q[..., :8], k[..., :8], k[..., :8], None) is None
        assert few_queries(q, k[:, :, :0], k[:, :, :0], None) is None
        assert few_queries(q.expand(2, 3, 9, 16), k, k, None) is None
        assert few_queries(q, k.transpose(2, 3)[:, :, :1].expand(2, 3, 5, 5), k, None) is None
        assert few_queries(q, k[:, :1], k[:, :1], None) is None, "heads that broadcast"
        assert few_queries(q, k, k[:, :, :4], None) is None
        assert few_queries(q, k[:1], k[:1], None) is None
        mask = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
        assert few_queries(q, k, k, mask) is not None
        for other in (mask.float(), mask[..., :1], mask[..., :4], mask.expand(2, 3, 1, 5)):
            assert few_queries(q, k, k, other) is None
    assert few_queries(q, k, k, None) is None, "gradients are recorded"


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("beam", [1, 3])
def test_keys_and_values_are_stored(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heads are slices of a projection, as in the networks, also after rows were gathered.

    Of fewer sentences, of a wider beam, of the same one in another order, and of a narrower one.
    """
    results: list[list[torch.Tensor]] = []
    for _ in range(2):
        torch.manual_seed(beam)
        results.append([])
        with torch.inference_mode():
            cache = KeyValueCache(4)
            wider = [i for i in range(3) for _ in range(beam)]
            order = [[2, 0, 0, 4, 4, 3, 8, 6, 7], [0, 2, 3, 5, -1, 6]] if beam == 3 else [[2, 1, 0]]
            for rows in ([0, 1, 2, 3], [0, 2, 3], wider, *order):
                cache = cache.gather(torch.tensor(rows)) if cache.length else cache
                for _ in range(7):
                    cache = cache.extended()
                    new = torch.randn(len(rows), 1, 2, 5, 16).permute(2, 0, 3, 1, 4)
                    results[-1] += [x.clone() for x in cache.write(0, *new)]
        monkeypatch.setattr("zoo.nn.key_value_cache.usable_kernels", lambda: None)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_norms_of_sums() -> None:
    torch.manual_seed(1)
    norm = torch.nn.LayerNorm(48, eps=1e-3)
    for weight in norm.parameters():
        torch.nn.init.normal_(weight)
    x, y = torch.randn(5, 3, 48) + 40, torch.randn(5, 3, 48)
    strided = torch.randn(5, 48, 3).transpose(1, 2)
    with torch.no_grad():
        for a, b in ((x, y), (x[:0], y[:0]), (x, strided), (x[:1], y)):
            torch.testing.assert_close(add_norm(a, b, norm), norm(a + b), rtol=1e-5, atol=1e-5)
    assert add_norm(x, y, norm).requires_grad
    with torch.no_grad():
        norm.double()
        torch.testing.assert_close(add_norm(x.double(), y.double(), norm), norm(x.double() + y))


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("vocab", [5, 16, 37, 700])
@pytest.mark.parametrize("banned", [(), (0, 1, 3), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("spread", [2, 100_000])
def test_the_best_token(vocab: int, banned: tuple[int, ...], spread: int) -> None:
    """Logits are integers: with a small spread, the best one is in many places, banned ones too."""
    torch.manual_seed(vocab)
    logits = torch.randint(-spread, spread, (50, vocab)).float()
    logits[:5, :3] = spread
    logits[5:9, 4:] = -math.inf
    logits[5:9, 4] = 0.0
    token, log_prob = best_token(logits, banned)
    allowed = [y for y in range(vocab) if y not in banned]
    for i, row in enumerate(logits.tolist()):
        assert int(token[i]) == min(allowed, key=lambda y: (-row[y], y))
    expected = logits.double().log_softmax(1).gather(1, token[:, None])[:, 0]
    torch.testing.assert_close(log_prob.double(), expected, rtol=1e-6, atol=2e-6)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("spread", [3, 40])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("banned", [(), (0, 1, 3)], ids=str)
def test_the_best_continuations(spread: int, normalized: bool, banned: tuple[int, ...]) -> None:
    """Values are integers: most are equal, within rows, across them and at the ends of vectors."""
    torch.manual_seed(spread)
    for _ in range(60):
        sentences, width, k = (int(torch.randint(1, 7, ())) for _ in range(3))
        vocab = int(torch.randint(4, 200, ()))
        values = torch.randint(-spread, spread, (sentences * width, vocab)).float()
        values[torch.rand(values.shape) < 0.1] = -math.inf
        values[:, 2] = 0.0  # no row is without a token
        score = torch.randint(-3, 1, (sentences, width)).float()
        score[torch.rand(score.shape) < 0.2] = -math.inf
        actual = best_continuations(values, score, k, banned, normalized)
        of_rows = values.double() if normalized else values.double().log_softmax(1)
        total = of_rows.view(sentences, width, vocab) + score[..., None]
        total[..., list(banned)] = -math.inf
        ranked, index = total.flatten(1).sort(dim=1, descending=True, stable=True)
        ranked, index = ranked[:, :k], index[:, :k]
        torch.testing.assert_close(actual.score.double(), ranked, rtol=1e-6, atol=1e-5)
        real = ranked > -math.inf
        assert bool((actual.token[~real] == END).all() and not actual.parent[~real].any())
        chosen = actual.parent * vocab + actual.token
        if normalized:  # equal ones are in order; otherwise rounding may exchange them
            assert torch.equal(chosen[real], index[real])
        else:
            scores = total.flatten(1).gather(1, chosen)[real]
            torch.testing.assert_close(scores, ranked[real], rtol=1e-6, atol=1e-5)
            assert all(len(set(row.tolist())) == len(row) for row in chosen[real.all(1)])


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("spread", [1, 30])
def test_what_the_best_continuations_lead_to(spread: int) -> None:
    """As by torch's operators; few values differ, so that hypotheses end and slots run out."""
    torch.manual_seed(spread)
    seen = set()
    for _ in range(80):
        sentences, width, slots = (int(torch.randint(1, 6, ())) for _ in range(3))
        vocab = int(torch.randint(4, 150, ()))
        logits = torch.randint(-spread, spread + 1, (sentences * width, vocab)).float()
        logits[torch.rand(logits.shape) < 0.5] = -math.inf
        logits[torch.rand(sentences * width) < 0.05] = math.nan
        score = torch.randint(-3, 1, (sentences, width)).float()
        score[torch.rand(score.shape) < 0.3] = -math.inf
        beam = BeamSlots(
            torch.arange(sentences * width).view(sentences, width),
            torch.randint(slots + 1, (sentences,)), torch.randint(1, 5, (sentences,)),
            torch.randn(sentences) - 4, torch.rand(sentences) + 0.5, int(torch.randint(1, 5, ())),
        )  # fmt: skip
        banned, crowded = [0, 1] * int(torch.randint(2, ())), bool(torch.rand(()) < 0.7)
        actual, facts = best_choice(logits, score, beam, slots, banned, crowded)
        candidates = best_continuations(logits, score, slots, banned)
        expected = choose(candidates, beam, crowded)
        assert facts == facts_of(expected, beam.rows)
        for computed, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(computed, other, rtol=0, atol=0, equal_nan=True)
        seen.add(facts)
    assert all(len(set(values)) > 1 for values in zip(*seen, strict=True))


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("beam", [1, 4])
def test_scores_that_are_not_numbers_end_a_search(beam: int) -> None:
    model = create_model("transformer-tiny", source_vocab=90, target_vocab=90).eval()
    torch.nn.init.constant_(dict(model.named_parameters())["output.weight"], math.nan)
    mask = torch.ones(2, 5, dtype=torch.bool)
    with torch.inference_mode():
        task = Task(model, model.encode(torch.randint(4, 90, (2, 5)), mask).memory, mask)
        for options in (Search(beam=beam), Search(beam=beam, repetition_penalty=1.2)):
            with pytest.raises(DecodingError, match="not numbers"):
                search(task, options)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("inputs", [40, 42])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 7, 8, 70])
def test_int8_equals_torchs_operators(
    biased: bool, inputs: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel multiplies 64 or 16 columns and 6 rows at once; 72 outputs leave a part."""
    torch.manual_seed(rows)
    weight = torch.nn.Parameter(torch.randn(72, inputs))
    bias, x = torch.randn(72) if biased else None, torch.randn(2, rows, inputs)
    x[:, 1:2] = 0.0  # its scale is the least there is
    results = []
    for _ in range(2):
        with torch.inference_mode(), Int8().activate():
            results.append(linear(x, weight, bias))
        without_kernels(monkeypatch)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("inputs", [1, 40, 41, 42])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 7, 8, 70])
def test_bf16_adds_up_products_of_rounded_numbers(
    biased: bool, inputs: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside float64, with the kernels and without, which round the sums once more."""
    torch.manual_seed(rows)
    weight = torch.nn.Parameter(torch.randn(72, inputs))
    bias, x = torch.randn(72) if biased else None, torch.randn(2, rows, inputs)
    rounded, of_weight = (y.detach().bfloat16().double() for y in (x, weight))
    expected = rounded @ of_weight.t()
    are_exact = has("avx512_bf16") and inputs % 2 == 0
    for bound in (1e-5 if are_exact else 2**-8, 2**-8):
        with torch.inference_mode(), BFloat16().activate():
            result = linear(x, weight, bias)
        assert result.dtype is torch.float32
        product = result.double() - (0 if bias is None else bias.double())
        torch.testing.assert_close(product, expected, rtol=bound, atol=1e-5)
        without_kernels(monkeypatch)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_bf16_without_instructions_for_it_rounds_weights(
    with_kernels: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it rounds both operands; a weight that is written to is rounded again."""
    if with_kernels and not shutil.which("cc"):
        pytest.skip("there is no compiler `cc`")
    request.getfixturevalue("compiled" if with_kernels else "monkeypatch")
    monkeypatch.setattr("zoo.nn.bf16.emulates_bf16", lambda: False)
    for slow in (False, True):
        monkeypatch.setattr("zoo.nn.bf16.is_slow_in_bf16", lambda slow=slow: slow)
        rounds_both = not slow or module.kernels() is not None
        assert (type(bf16_weights()) is BFloat16) is rounds_both
    monkeypatch.setattr("zoo.nn.bf16.emulates_bf16", lambda: True)
    layer, x, cached = Linear(48, 64), torch.randn(3, 48), bf16_weights()
    for _ in range(2):
        expected = x.double() @ layer.weight.detach().bfloat16().double().t() + layer.bias.double()
        with torch.no_grad(), cached.activate():
            torch.testing.assert_close(layer(x).double(), expected, rtol=1e-5, atol=1e-5)
            layer.weight.mul_(1.5)


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_many_rows_of_bf16_are_left_to_a_matrix_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """To torch's product, where the kernels were compiled without its instructions."""
    called: list[int] = []
    product = module.Kernels.product

    def watched(self: Any, rows: torch.Tensor, *others: Any) -> torch.Tensor:
        called.append(len(rows))
        return product(self, rows, *others)

    monkeypatch.setattr(module.Kernels, "product", watched)
    layer, cached = Linear(32, 64), BFloat16()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for units, tiles in ((False, False), (True, False), (True, True)):
            monkeypatch.setattr("zoo.nn.bf16.has", lambda name, units=units: units)
            monkeypatch.setattr(module.kernels(), "has_tiles", tiles)
            with torch.inference_mode(), cached.activate():
                for rows in (16, 17):
                    layer(torch.randn(rows, 32))
    finally:
        torch.set_num_threads(before)
    assert called == ([16, 17, 16, 16, 17] if has("avx512_bf16") else [])


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("rows", [1, 5, 6, 16])
@pytest.mark.parametrize(("n", "k"), [(72, 40), (64, 33), (5, 16)])
def test_float32_products(rows: int, n: int, k: int) -> None:
    torch.manual_seed(rows)
    weight, x = torch.nn.Parameter(torch.randn(n, k)), torch.randn(rows, k)
    cached = float32_weights()
    for bias in (None, torch.randn(n)):
        with torch.no_grad(), cached.activate():
            expected = torch.nn.functional.linear(x, weight, bias)
            torch.testing.assert_close(linear(x, weight, bias), expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("emulated", [True, False])
def test_many_rows_of_int8_use_all_threads(emulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels have one thread; torch multiplies the same integers, in float32 if need be."""
    monkeypatch.setattr("zoo.nn.int8.emulates_int8", lambda: emulated)
    product, called = module.Kernels.product, list[int]()

    def watched(*given: Any) -> torch.Tensor:
        called.append(torch.get_num_threads())
        return product(*given)

    monkeypatch.setattr(module.Kernels, "product", watched)
    layer, x, before = Linear(40, 72), torch.randn(70, 40), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.inference_mode(), Int8().activate():
                results.append(layer(x))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)
    assert 2 not in called


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("weights", [float32_weights, BFloat16, Int8])
def test_a_bias_is_read_as_torch_reads_it(weights: Callable[[], Any]) -> None:
    """One that is spread out, or one number for all outputs; another type or size is an error."""
    torch.manual_seed(1)
    weight, x = torch.nn.Parameter(torch.randn(64, 32)), torch.randn(2, 32)
    with torch.no_grad(), weights().activate():
        for bias in (torch.randn(1).expand(64), torch.randn(128)[::2], torch.randn(1)):
            expected = linear(x, weight) + bias
            torch.testing.assert_close(linear(x, weight, bias), expected, rtol=0, atol=0.3)
        for wrong in (torch.randn(64).double(), torch.randn(63)):
            with pytest.raises(RuntimeError):
                linear(x, weight, wrong)
        for inputs in (torch.randn(2, 16), torch.randn(2, 64)):
            with pytest.raises(RuntimeError):
                linear(inputs, weight)


@pytest.mark.parametrize("with_kernels", [True, False])
def test_int8_with_one_input(with_kernels: bool, request: pytest.FixtureRequest) -> None:
    """As in a source of one number for each frame: both matrices of a product have odd strides."""
    if with_kernels and not shutil.which("cc"):
        pytest.skip("there is no compiler `cc`")
    request.getfixturevalue("compiled" if with_kernels else "monkeypatch")
    layer, x = Linear(1, 64), torch.randn(20, 1)
    with torch.no_grad():
        expected = layer(x)
        with Int8().activate():
            torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("norm", ["pre", "post", "branch"])
@pytest.mark.parametrize("beam", [1, 4])
def test_searches_find_the_same(beam: int, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole sublayers are computed by the kernels, unless the norm is of the branch."""
    torch.manual_seed(1)
    model = create_model("transformer-tiny", source_vocab=90, target_vocab=90, norm=norm).eval()
    for parameter in model.parameters():  # no bias or norm is trivial
        parameter.data.add_(torch.randn_like(parameter), alpha=0.05)
    source = torch.randint(4, 90, (3, 9))
    mask = torch.arange(9) < torch.tensor([9, 7, 3])[:, None]
    both = []
    for _ in range(2):
        with torch.inference_mode(), float32_weights().activate():
            task = Task(model, model.encode(source, mask).memory, mask)
            both.append(search(task, Search(beam=beam, max_length=12)))
        without_kernels(monkeypatch)
    for compiled, plain in zip(*both, strict=True):
        assert compiled[0].tokens == plain[0].tokens
        assert compiled[0].score == pytest.approx(plain[0].score, abs=1e-4)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("pre", "weights"),
    [(True, float32_weights), (False, float32_weights), (True, BFloat16), (False, Int8)],
)
def test_a_sublayer_follows_its_modules(pre: bool, weights: Callable[[], Any]) -> None:
    """A weight that is written to or replaced, and a hook, count at once."""
    torch.manual_seed(1)
    inner, outer, norm = Linear(32, 48), Linear(48, 32), torch.nn.LayerNorm(32)
    x = torch.randn(2, 1, 32)

    def expected() -> torch.Tensor:
        y = outer(inner(norm(x) if pre else x).relu())
        return x + y if pre else norm(x + y)

    def check() -> None:
        result = feedforward_sublayer(x, inner, outer, norm, pre=pre)
        assert result is not None
        torch.testing.assert_close(result, expected(), rtol=1e-5, atol=1e-5)

    with torch.no_grad(), weights().activate():
        if feedforward_sublayer(x, inner, outer, norm, pre=pre) is None:
            pytest.skip("this processor has no instructions for it")
        check()
        for tensor in (inner.weight, outer.bias, norm.weight):
            tensor.mul_(2)
            check()
        outer.weight = torch.nn.Parameter(torch.randn(32, 48))
        check()
        handle = inner.register_forward_hook(lambda *_: None)
        assert feedforward_sublayer(x, inner, outer, norm, pre=pre) is None
        handle.remove()
        check()
        assert feedforward_sublayer(x.double(), inner, outer, norm, pre=pre) is None
    assert feedforward_sublayer(x, inner, outer, norm, pre=pre) is None, "no cached weights"


class Shifted(Linear):
    """A layer of a plugin that computes something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 100


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_sublayers_that_share_modules() -> None:
    torch.manual_seed(1)
    inner, outers = Linear(32, 48), [Linear(48, 32), Linear(48, 32)]
    norms = [torch.nn.LayerNorm(32), torch.nn.LayerNorm(32)]
    torch.nn.init.normal_(norms[1].weight)
    x, cached = torch.randn(2, 1, 32), float32_weights()
    with torch.no_grad(), cached.activate():
        for outer, norm, pre in itertools.product(outers, norms, (True, False)):
            result = feedforward_sublayer(x, inner, outer, norm, pre=pre)
            if result is None:
                pytest.skip("this processor has no instructions for it")
            y = outer(inner(norm(x) if pre else x).relu())
            expected = x + y if pre else norm(x + y)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    assert len(cached.sublayers) == 8
    del norm, outer, norms
    gc.collect()
    assert not cached.sublayers, "they would keep the weights of modules that are gone"


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_a_block_in_which_nothing_changes_checks_each_sublayer_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next block notices what was written between them; modules that are gone do not count."""
    torch.manual_seed(1)
    x, cached = torch.randn(2, 1, 32), float32_weights()
    checks: list[Any] = []
    current = sublayers.current_sublayer

    def watched(*given: Any, **options: Any) -> Any:
        checks.append(given)
        return current(*given, **options)

    monkeypatch.setattr(sublayers, "current_sublayer", watched)
    inner, outer, norm = Linear(32, 48), Linear(48, 32), torch.nn.LayerNorm(32)
    for block in range(2):
        with torch.no_grad(), cached.activate(fixed=True):
            for _ in range(3):
                result = feedforward_sublayer(x, inner, outer, norm, pre=False)
                if result is None:
                    pytest.skip("this processor has no instructions for it")
                expected = norm(x + outer(inner(x).relu()))
                torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
                assert feedforward_sublayer(x, Shifted(32, 48), outer, norm, pre=False) is None
            inner.weight.mul_(2)
        assert len(checks) == 4 * (block + 1), "the shifted ones are three different modules"


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_what_a_sublayer_does_not_support_is_left_to_torch() -> None:
    """Other classes, weights that are made from others, and widths of which torch complains."""
    inner, outer, norm = Linear(32, 48), Linear(48, 32), torch.nn.LayerNorm(32)
    x = torch.randn(2, 1, 32)

    def is_supported(*modules: Any, of: torch.Tensor = x) -> bool:
        with torch.no_grad():
            return feedforward_sublayer(of, *modules, pre=False) is not None

    with float32_weights().activate():
        if not is_supported(inner, outer, norm):
            pytest.skip("this processor has no instructions for it")
        assert not is_supported(Shifted(32, 48), outer, norm)
        assert not is_supported(Linear(32, 96), outer, norm)
        assert not is_supported(inner, outer, norm, of=torch.randn(2, 1, 16))
        assert not is_supported(inner, outer, norm, of=torch.randn(2, 1, 64))
        torch.nn.utils.parametrizations.weight_norm(inner)
        assert not is_supported(inner, outer, norm)
        patched = Linear(32, 48)
        patched.forward = lambda x: x.new_zeros(2, 1, 48)  # type: ignore[method-assign]
        assert not is_supported(patched, outer, norm)


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_attention_sublayers_check_what_they_read() -> None:
    project, out, norm = Linear(32, 32), Linear(32, 32), torch.nn.LayerNorm(32)
    x, keys = torch.randn(2, 1, 32), torch.randn(2, 2, 5, 16)
    mask = torch.zeros(2, 1, 1, 5, dtype=torch.bool)

    def is_supported(keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> bool:
        source = Source(keys, values, mask)
        with torch.no_grad():
            result = attention_sublayer(x, project, out, norm, pre=False, heads=2, source=source)
        return result is not None

    with float32_weights().activate():
        if not is_supported(keys, keys, mask):
            pytest.skip("this processor has no instructions for it")
        assert not is_supported(keys[:, :1], keys[:, :1], mask), "heads that broadcast"
        assert not is_supported(keys, keys[:, :, :4], mask)
        assert not is_supported(keys[:0], keys[:0], mask)
        assert not is_supported(keys, keys, mask[..., :4])
        assert not is_supported(keys, keys, mask.float())


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("hooked", ["attention", "attention_norm", "dropout", "every module"])
def test_hooks_are_called(norm: str, hooked: str) -> None:
    """Whether kernels could compute the sublayer, for few tokens, or not."""
    model = create_model("transformer-tiny", source_vocab=30, target_vocab=30, norm=norm).eval()
    modules = {module: name for name, module in model.named_modules()}
    called: list[str] = []

    def note(module: torch.nn.Module, *_: Any) -> None:
        called.append(modules[module])

    if hooked == "every module":
        handle = torch.nn.modules.module.register_module_forward_hook(note)
    else:
        handle = model.get_submodule(f"encoder.0.{hooked}").register_forward_hook(note)
    with handle:
        for length in (5, 40):
            called.clear()
            source = torch.full((1, length), 7)
            with torch.inference_mode(), float32_weights().activate():
                model.encode(source, source > 0)
            expected = "attention" if hooked == "every module" else hooked
            assert f"encoder.0.{expected}" in called


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_what_a_call_points_to_lives_as_long_as_the_call() -> None:
    """Another thread may prepare the same sublayer meanwhile, and replace both entries."""
    inner, outer, norm = Linear(32, 48), Linear(48, 32), torch.nn.LayerNorm(32)
    x, cached = torch.randn(2, 1, 32), float32_weights()
    with torch.no_grad(), cached.activate():
        usable = sublayers._find(x, (inner, outer), norm, False, (48, 48))
        if usable is None:
            pytest.skip("this processor has no instructions for it")
        ((_, prepared),) = cached.sublayers.values()
        known = [weakref.ref(packed.weight) for packed in prepared.held]
        del prepared
        cached.sublayers.clear()
        cached._forms.clear()
        gc.collect()
        assert all(weight() is not None for weight in known)
        del usable
        gc.collect()
        assert all(weight() is None for weight in known)


@needs_compiler
def test_a_library_that_others_can_write_is_not_loaded(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "kernels" / library.name
    copy.parent.mkdir(mode=0o700)
    shutil.copy(library, copy)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    find = module.kernels.__wrapped__
    copy.chmod(0o700)
    assert find() is not None
    copy.chmod(0o722)
    assert find() is None
    copy.chmod(0o700)
    copy.parent.chmod(0o777)
    assert find() is None


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF damaged"])
def test_without_a_library_nothing_is_said(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    if content is not None:
        file = library_file()
        file.parent.mkdir(mode=0o700)
        file.write_bytes(content)
        file.chmod(0o700)
    assert module.kernels.__wrapped__() is None


def test_a_linker_that_replaces_its_output_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process took the replaced file, which had no lock, for one of a killed process."""
    compiler, cache = tmp_path / "cc", tmp_path / "cache"
    compiler.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
        f'rm -f "$2"; echo made > "$2"; touch {tmp_path}/replaced; sleep 0.5\n'
    )
    compiler.chmod(0o700)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("ZOO_CACHE", str(cache))
    with ThreadPoolExecutor() as pool:
        one = pool.submit(kernel_library.compile_library)
        while not (tmp_path / "replaced").exists() and not one.done():
            time.sleep(0.01)
        other = pool.submit(kernel_library.compile_library)
        assert one.result() == other.result()
    assert [file.read_text() for file in (cache / "kernels").iterdir()] == ["made\n"]


@pytest.mark.parametrize("fault", ["noexec", "shared", "no /proc"])
def test_kernels_that_cannot_be_loaded_are_an_error(
    fault: str, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later commands would not use them, without a word."""
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o777 if fault == "shared" else 0o700)
    if fault == "shared":
        folder.chmod(0o777)
    file = folder / "made.so"
    shutil.copy(library, file)
    reason = "failed to map segment" if fault == "noexec" else "others may write"
    if fault == "noexec":  # as the system refuses a library there
        monkeypatch.setattr(ctypes, "CDLL", mock.Mock(side_effect=OSError(reason)))
    if fault == "no /proc":  # torch reads /proc/cpuinfo before it converts to float16
        reason = "Failed to initialize cpuinfo"
        monkeypatch.setattr(torch.Tensor, "half", mock.Mock(side_effect=RuntimeError(reason)))
    monkeypatch.setattr(module, "library_file", lambda: file)
    monkeypatch.setattr(module, "compile_library", lambda: file)
    assert module.kernels.__wrapped__() is None
    result = CliRunner().invoke(cli, ["compile-kernels"])
    assert result.exit_code == 1
    assert f"{file} cannot be loaded: " in result.output
    assert reason in result.output
    assert ("Mount /proc" if fault == "no /proc" else "Set ZOO_CACHE") in result.output
    module.kernels.cache_clear()


def test_a_full_cache_is_named_when_kernels_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of the system's copy named the temporary file that was read."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(Path, "write_bytes", mock.Mock(side_effect=full))

    def compile_nothing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("-o") + 1]).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", compile_nothing)
    result = CliRunner().invoke(cli, ["compile-kernels"])
    expected = f"Error: {kernel_library.library_file()}: No space left on device. ZOO_CACHE can"
    assert result.output.startswith(expected)
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clang lacks some of GCC's functions of vectors."""
    if not shutil.which(compiler):
        pytest.skip(f"there is no compiler `{compiler}`")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    module.compile_kernels()
    compiled = module.kernels.__wrapped__()
    assert compiled is not None
    x, norm = torch.randn(2, 32), torch.nn.LayerNorm(32)
    with torch.no_grad():
        torch.testing.assert_close(compiled.add_norm(x, x, norm), norm(x + x))


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_a_compiler_that_fails(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    result = CliRunner().invoke(cli, ["compile-kernels"])
    assert result.exit_code == 1
    assert "cannot be compiled" in result.output
    assert "Install GCC or Clang" in result.output
    assert not list(tmp_path.rglob("*.so"))
