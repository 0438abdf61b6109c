"""The kernels as compiled for processors with fewer instructions than this one."""

from __future__ import annotations

import ctypes
import math
import platform
import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from torch import nn

from zoo.nn import kernel_library
from zoo.nn.kernels import Kernels
from zoo.nn.processor import has

pytestmark = [
    pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler `cc`"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86"),
]


FLAGS = {
    "nothing": (),
    "amx": ("-U__AMX_INT8__", "-U__AMXINT8__", "-U__F16C__"),  # flags that every compiler knows
    **{name: (f"-mno-{name}",) for name in ("avx512vnni", "avx512f", "avx2")},
}


@pytest.fixture(scope="module", params=FLAGS)
def build(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, library: Path
) -> tuple[str, Kernels]:
    """The missing instructions, which the processor may have or not, and the kernels."""
    if not FLAGS[request.param]:
        return request.param, Kernels(ctypes.CDLL(str(library)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("without")))
        patch.setattr(kernel_library, "FLAGS", (*kernel_library.FLAGS, *FLAGS[request.param]))
        library = kernel_library.compile_library()
    return request.param, Kernels(ctypes.CDLL(str(library)))


def test_only_a_matrix_unit_has_tiles(build: tuple[str, Kernels]) -> None:
    missing, kernels = build
    assert not (kernels.has_tiles and (missing == "amx" or not has("amx_tile")))


@pytest.mark.parametrize("outputs", [1, 16, 72, 130])
@pytest.mark.parametrize("inputs", [36, 64, 200])
def test_products(build: tuple[str, Kernels], inputs: int, outputs: int) -> None:
    """Few rows are multiplied by more columns at once; neither is a multiple of a tile's."""
    missing, kernels = build
    torch.manual_seed(inputs)
    weight, bias = torch.randn(outputs, inputs) / inputs**0.5, torch.randn(outputs)
    integers = torch.randint(-127, 128, weight.shape, dtype=torch.int8)
    scales = torch.rand(outputs) + 0.1
    wide, narrow = kernels.pack(weight), kernels.pack_int8(integers, scales)
    if missing == "avx2":
        assert wide is narrow is None, "torch's products are faster"
        return
    if not (has("avx2") and has("fma")):
        pytest.skip("this processor has no AVX2")
    assert wide is not None
    assert narrow is not None
    rounded = kernels.pack(weight.bfloat16())
    for rows in (*range(1, 9), 13, 16, 17, 31, 33, 70):
        x = torch.randn(rows, inputs)
        for b in (bias, None):
            expected = F.linear(x.double(), weight.double(), None if b is None else b.double())
            result = kernels.product(x, wide, b)
            torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
            if rounded is not None:
                operands = x.bfloat16().double(), weight.bfloat16().double()
                expected = F.linear(*operands, None if b is None else b.double())
                result = kernels.product(x, rounded, b)
                torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)
        quantized, of_rows = kernels.quantize(x)
        sums = quantized.double() @ integers.double().t()
        expected = sums * of_rows.double() * scales.double() + bias.double()
        result = kernels.product(x, narrow, bias)
        torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 72, 130])
def test_numbers_of_float16_have_the_products_of_float32(
    build: tuple[str, Kernels], outputs: int
) -> None:
    """Bit for bit: with one more row that float16 does not hold, all are kept in float32."""
    missing, kernels = build
    torch.manual_seed(outputs)
    weight, bias = torch.randn(outputs, 37).half().float(), torch.randn(outputs + 1)
    weight[0, :6] = torch.tensor([65504.0, -0.0, 2**-24, -(2**-14), 2**-14 - 2**-24, 1.0])
    wide = kernels.pack(torch.cat([weight, torch.full((1, 37), 1e-9)]))
    half = kernels.pack(weight)
    if wide is None or half is None:
        assert wide is half is None, "torch's products are faster"
        return
    assert wide.weight.dtype is torch.float32
    is_held = has("f16c") and missing != "amx"  # which lacks both
    assert half.weight.dtype is (torch.float16 if is_held else torch.float32)
    for rows in (*range(1, 9), 12, 13, 16, 31, 70):
        x = torch.randn(rows, 37)
        for b in (bias, None):
            expected = kernels.product(x, wide, b)[:, :outputs]
            actual = kernels.product(x, half, None if b is None else b[:outputs])
            assert torch.equal(actual, expected), rows
    for other in (65520.0, math.nan, 2**-25, 1 + 2**-11):
        weight[-1, -1] = other
        packed = kernels.pack(weight)
        assert packed is not None
        assert packed.weight.dtype is torch.float32


@pytest.mark.parametrize(("inputs", "rows"), [(2048, 32), (2048, 70), (12_000, 8)])
def test_more_inputs_than_a_cache_has_room_for(
    build: tuple[str, Kernels], inputs: int, rows: int
) -> None:
    """They are multiplied in several parts."""
    _, kernels = build
    torch.manual_seed(rows)
    weight, x = torch.randn(20, inputs), torch.randn(rows, inputs)
    if (packed := kernels.pack(weight)) is None:
        pytest.skip("these kernels have no product, as `test_products` says")
    expected = (x.double() @ weight.double().t()).float()
    torch.testing.assert_close(kernels.product(x, packed, None), expected, rtol=1e-4, atol=1e-3)


def test_the_largest_integers_do_not_overflow(build: tuple[str, Kernels]) -> None:
    """Products of 127 and ±127, two or four of which other libraries add up in 16 bits."""
    missing, kernels = build
    weight = torch.full((16, 64), 127, dtype=torch.int8)
    weight[1::2] = -127
    packed = kernels.pack_int8(weight, torch.ones(16))
    if missing == "avx2" or not has("avx2"):
        pytest.skip("these kernels have no product in int8")
    assert packed is not None
    x = torch.full((3, 64), 127.0)
    torch.testing.assert_close(kernels.product(x, packed, None), x @ weight.float().t())


@pytest.mark.parametrize("width", [16, 48, 144])
def test_attention_norms_and_searches(build: tuple[str, Kernels], width: int) -> None:
    """Sums and maxima of a vector depend on its width."""
    _, kernels = build
    torch.manual_seed(width)
    query, key, value = (torch.randn(2, 3, n, width) for n in (2, 21, 21))
    mask = torch.rand(2, 1, 2, 21) < 0.3
    attended = kernels.attend(query, key, value, mask)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=~mask)
    torch.testing.assert_close(attended, expected, rtol=1e-5, atol=1e-5)
    x, y, norm = torch.randn(5, width), torch.randn(5, width), nn.LayerNorm(width)
    with torch.no_grad():
        torch.testing.assert_close(kernels.add_norm(x, y, norm), norm(x + y))
    values, score = torch.randn(6, 100 + width), torch.randn(3, 2)
    best, parent, token = kernels.continuations(values, score, 4, (), normalized=False, none=2)
    every = (score.reshape(-1, 1) + values.log_softmax(1)).reshape(3, -1)
    top, at = every.topk(4, dim=1)
    torch.testing.assert_close(best, top, rtol=1e-5, atol=1e-5)
    assert torch.equal(parent * values.shape[1] + token, at)
