"""The walks: results past the cache, machine code, array shapes drawn at random."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastgrad
from checking import BLOCK_SIZES, THREADS, pair, same_bits, settings
from fastgrad.program.compile import compiled, generated_source
from fastgrad.runtime import tiling
from fastgrad.vector_unit.precision import PRECISIONS
from rounding import DTYPES

OPERATORS = (fastgrad.silu, fastgrad.swish, fastgrad.gelu)


@pytest.fixture
def no_cache(monkeypatch):
    """Every launch is one past the cache."""
    monkeypatch.setattr(tiling, "last_level_cache", lambda: 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_streaming_gives_the_same_bits(dtype, monkeypatch):
    dy, x = pair(50_021, dtype)
    expected = fastgrad.silu_grad(dy, x)
    monkeypatch.setattr(tiling, "last_level_cache", lambda: 0)
    for threads in THREADS:
        for block_size in (1, 7, *BLOCK_SIZES):
            with settings(threads, block_size):
                out = np.full(x.size + 15, np.nan, dtype)[15:]
                assert same_bits(fastgrad.silu_grad(dy, x, out=out), expected)
    for offset in range(0, 70, 3):  # wherever the result lies within a cache line
        memory = np.full(x.size + 140, 7, dtype)
        out = memory[offset : offset + x.size]
        assert fastgrad.silu_grad(dy, x, out=out) is out
        assert same_bits(out, expected)
        assert (memory[:offset] == 7).all()
        assert (memory[offset + x.size :] == 7).all()


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("dtype", DTYPES)
def test_streaming_in_place_and_scattered(dtype):
    dy, x = pair((30, 1001), dtype)
    expected = fastgrad.silu_grad(dy, x)
    own = dy.copy()
    assert same_bits(fastgrad.silu_grad(own, x, out=own), expected)
    wide = np.zeros((30, 2002), dtype)
    assert same_bits(fastgrad.silu_grad(dy, x, out=wide[:, ::2]), expected)
    assert not wide[:, 1::2].any()
    dx, _ = fastgrad.swish_grad(dy, x, 1.0, beta_grad=True)
    assert same_bits(dx, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_no_memory_for_scratch_is_an_error(threads, monkeypatch):
    """Not a result that was never written. The scratch of one tile of 2^45 elements is refused."""
    monkeypatch.setattr(tiling, "last_level_cache", lambda: 0)
    stub = np.zeros(1, np.float32)
    kernel = compiled(fastgrad.silu.trace(), PRECISIONS[stub.dtype])
    with settings(threads, fastgrad.BLOCK_SIZE), pytest.raises(MemoryError):
        kernel([stub, stub], (), 1 << 45, False, 1 << 45)


def hot_loop(assembly: str) -> str:
    """The loop body with the most wide registers."""
    blocks = re.split(r"\n(?=\.LBB)", assembly)
    return max(blocks, key=lambda block: len(re.findall(r"%[zy]mm", block)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrt", [None, "x"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_hot_loop_is_packed_and_calls_nothing(operator, wrt, dtype):
    """Compiled anew (cached code has no assembly), with the width that LLVM prefers here."""
    if not (features := _features()) & {"avx512f", "avx2"}:
        pytest.fail(f"no known vector width among {sorted(features)}")
    register = "zmm" if "avx512f" in features else "ymm"
    source = generated_source(operator.trace(wrt=wrt), PRECISIONS[np.dtype(dtype)])
    module = ModuleType("uncached")
    exec(compile(source, "uncached", "exec"), module.__dict__)
    module.tiles.dispatcher.compile(module.tiles.signature)
    (assembly,) = module.tiles.dispatcher.inspect_asm().values()
    loop = hot_loop(assembly)
    lanes = "pd" if dtype is np.float64 else "ps"
    assert len(re.findall(rf"v\w+{lanes}\s.*%{register}", loop)) >= 15
    assert "call" not in loop
    called = set(re.findall(r"call\w*\s+\*?(\S+)", assembly))
    assert not [name for name in called if re.search(r"exp|tanh|erf|log|pow", name)]


def _features() -> set[str]:
    from llvmlite import binding

    return {name for name, present in binding.get_host_cpu_features().items() if present}


# --- at random ------------------------------------------------------------------------------------

_shapes = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=9)
_values = st.floats(-30, 30, width=16) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])


@st.composite
def views(draw, shape, dtype):
    """An array of this shape and dtype in some layout: permuted, stepped, reversed, broadcast."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in shape]
    flat = [draw(st.booleans()) and draw(st.booleans()) for _ in shape]
    base_shape = [1 if f else n * abs(s) for n, s, f in zip(shape, steps, flat, strict=True)]
    base = draw(hnp.arrays(np.float16, tuple(base_shape[i] for i in order), elements=_values))
    array = base.astype(dtype).transpose(np.argsort(order))
    array = array[
        tuple(slice(None) if f else slice(None, None, s) for s, f in zip(steps, flat, strict=True))
    ]
    if draw(st.booleans()) and np.dtype(dtype).kind == "f":
        array = array.astype(np.dtype(dtype).newbyteorder(">"))
    return np.broadcast_to(array, shape)


@hypothesis_settings(
    max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(data=st.data(), shape=_shapes, dtype=st.sampled_from(DTYPES))
def test_any_two_layouts(data, shape, dtype):
    x, dy = data.draw(views(shape, dtype)), data.draw(views(shape, dtype))
    plain_x, plain_dy = (np.array(a, dtype, order="C") for a in (x, dy))
    operator = data.draw(st.sampled_from(OPERATORS))
    assert same_bits(operator(x), operator(plain_x))
    out = None
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(len(shape))))
        out = np.full([shape[i] for i in order], np.nan, dtype).transpose(np.argsort(order))
    (dx,) = operator.grad(dy, x, wrt="x", out=out)
    assert same_bits(dx, operator.grad(plain_dy, plain_x, wrt="x")[0])


def test_index_beyond_32_bits():
    """2^31 elements and more without as much memory: every second one of them, by strides of 0.

    A result of that size would be; so the walk is run over its last tiles alone.
    """
    from fastgrad.kernels.layout import layout_of

    rows, columns = 80_000, 36_864
    row = np.linspace(-3, 3, columns, dtype=np.float16)
    x = np.broadcast_to(row, (rows, columns))
    kernel = compiled(fastgrad.silu.trace(), PRECISIONS[np.dtype(np.float16)])
    target = np.zeros(columns, np.float16)
    scattered = np.lib.stride_tricks.as_strided(target, (rows, columns), (0, 2))
    where = layout_of([x, scattered], (0, 1))
    block, size = 2048, rows * columns
    assert size == 2_949_120_000
    stub = np.zeros(1, np.float16)
    kernel.tiles.entry(size // block - 18, size // block, size, block, 0, *where, stub, stub)
    assert same_bits(target, fastgrad.silu(row))
