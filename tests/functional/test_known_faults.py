"""Inputs on which known libraries were wrong, by the id in tests/data/known_faults.jsonl.

Each test is named by its id; the numbers are those of the file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import fastgrad
from checking import same_bits
from rounding import DTYPES

FAULTS = {
    fault["id"]: fault
    for fault in map(
        json.loads, (Path(__file__).parents[1] / "data/known_faults.jsonl").read_text().splitlines()
    )
}
INF, NAN = np.inf, np.nan
APPROXIMATE = ("none", "tanh")


def close(got, expected, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(got, np.float64), expected, rtol=rtol, atol=0)


def near_subnormal(got, expected):
    """Within two spacings of the subnormals, or one part in a million."""
    tolerance = np.maximum(1e-6 * np.abs(expected), 2 * 1.4e-45)
    assert np.all(np.abs(np.asarray(got, np.float64) - expected) <= tolerance), (got, expected)


def test_every_named_fault_is_in_the_file():
    named = {name.split("_")[1] for name in globals() if name.startswith("test_B")}
    assert named <= set(FAULTS)
    own_areas = ("activation/SiLU", "activation/Swish", "activation/GELU", "activation/HardSwish",
                 "activation/non-contiguous", "numpy interop", "dtype/")  # fmt: skip
    assert {k for k, fault in FAULTS.items() if fault["area"].startswith(own_areas)} <= named


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_B01_silu_at_infinity(dtype, beta):
    x = np.array([-INF, INF, NAN], dtype)
    dy = np.ones(3, dtype)
    np.testing.assert_array_equal(fastgrad.swish(x, beta).astype(float), [0, INF, NAN])
    dx, _ = fastgrad.swish_grad(dy, x, beta, beta_grad=True)
    np.testing.assert_array_equal(dx.astype(float), [0, 1, NAN])
    for at in (-INF, INF):
        _, dbeta = fastgrad.swish_grad(dy[:1], np.array([at], dtype), beta, beta_grad=True)
        assert dbeta == 0


def test_B03_silu_float32_tail():
    x = np.array([-88, -91, -95, -100, -103.5], np.float32)
    y = [-5.3280498e-37, -2.743112e-38, -5.24503e-40, -3.72e-42, -1.16e-43]
    dx = [-5.267504e-37, -2.712968e-38, -5.18982e-40, -3.683e-42, -1.15e-43]
    for forward, grad in (
        (fastgrad.silu, fastgrad.silu_grad),
        (fastgrad.swish, fastgrad.swish_grad),
    ):
        got_y, got_dx = forward(x), grad(np.ones_like(x), x)
        close(got_y[:2], y[:2])
        close(got_dx[:2], dx[:2])
        # The file gives the subnormal ones to three digits.
        assert np.all(
            np.abs(got_y[2:] - np.array(y[2:])) <= np.maximum(2e-3 * np.abs(y[2:]), 3e-45)
        )
        assert np.all(
            np.abs(got_dx[2:] - np.array(dx[2:])) <= np.maximum(2e-3 * np.abs(dx[2:]), 3e-45)
        )


def test_B05_swish_beta_overflow():
    one = np.ones(1, np.float32)

    def run(x, beta):
        x = np.array([x], np.float32)
        dx, dbeta = fastgrad.swish_grad(one, x, beta, beta_grad=True)
        return fastgrad.swish(x, beta)[0], dx[0], dbeta

    y, dx, dbeta = run(-50, 2.0)
    near_subnormal(y, -1.860038e-42)
    near_subnormal(dx, -3.682875e-42)
    near_subnormal(dbeta, 9.30019e-41)
    assert run(1e20, 1.0) == (np.float32(1e20), 1, 0)
    assert run(-1e20, 1.0) == (0, 0, 0)
    assert run(3, 0.0) == (1.5, 0.5, 2.25)
    close(run(1, 1.0)[2], 0.19661193324148185, 1e-6)


@pytest.mark.parametrize("length", [3, 8, 17])
@pytest.mark.parametrize("approximate", APPROXIMATE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_B06_gelu_at_infinity(length, approximate, dtype):
    for value, y, dx in ((INF, INF, 1), (-INF, 0, 0), (NAN, NAN, NAN)):
        x = np.full(length, value, dtype)
        np.testing.assert_array_equal(fastgrad.gelu(x, approximate).astype(float), y)
        got = fastgrad.gelu_grad(np.ones_like(x), x, approximate).astype(float)
        np.testing.assert_array_equal(got, dx)


def test_B07_gelu_erf_tail():
    x = np.array([-5, -5.5, -6, -8, -10, -13], np.float32)
    y = [
        -1.43325786e-6,
        -1.04442594e-7,
        -5.91952587e-9,
        -4.97676846e-15,
        -7.61985302e-23,
        -7.9523137e-38,
    ]
    dx = [
        -7.146946e-6,
        -5.7334724e-7,
        -3.54687095e-8,
        -3.97960726e-14,
        -7.6184001e-22,
        -1.03373044e-36,
    ]
    close(fastgrad.gelu(x), y)
    close(fastgrad.gelu_grad(np.ones_like(x), x), dx)
    x = np.array([-20.0, -37.0])
    close(fastgrad.gelu(x), [-5.5072482372124674e-88, -2.1184613523340934e-298], 1e-10)
    close(
        fastgrad.gelu_grad(np.ones_like(x), x),
        [-1.1014360483133464e-86, -7.8382986694185162e-297],
        1e-10,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_B08_gelu_tanh_tail(dtype):
    x = np.array([-4, -5, -6, -8, -10], dtype)
    rtol = 1e-4 if dtype is np.float32 else 1e-10
    close(
        fastgrad.gelu(x, "tanh"),
        [
            -7.024594819237e-5,
            -2.291796196630e-7,
            -8.439646700762e-11,
            -3.107782937501e-21,
            -1.20409234821e-37,
        ],
        rtol,
    )
    close(
        fastgrad.gelu_grad(np.ones_like(x), x, "tanh"),
        [
            -3.351231971227e-4,
            -1.546361987533e-6,
            -7.709973930954e-10,
            -4.714784504107e-20,
            -2.757638063854e-36,
        ],
        rtol,
    )


def test_B11_gelu_half_overflow():
    x = np.array([41, 64, 256, -256, 60000], np.float16)
    np.testing.assert_array_equal(
        fastgrad.gelu(x, "tanh"), np.array([41, 64, 256, 0, 60000], np.float16)
    )
    np.testing.assert_array_equal(fastgrad.gelu_grad(np.ones_like(x), x, "tanh"), [1, 1, 1, 0, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_B13_hardswish_knees(dtype):
    x = np.array([-INF, -4, -3, -2, 0, 2, 3, 4, INF, NAN], dtype)
    y = np.array([0, 0, 0, -1 / 3, 0, 5 / 3, 3, 4, INF, NAN]).astype(dtype)
    dx = np.array([0, 0, 0, -1 / 6, 0.5, 7 / 6, 1, 1, 1, NAN]).astype(dtype)
    rtol = 2 * float(ml_dtypes.finfo(dtype).eps) if x.itemsize > 2 else 0
    np.testing.assert_allclose(fastgrad.hardswish(x).astype(float), y.astype(float), rtol=rtol)
    got = fastgrad.hardswish_grad(np.ones_like(x), x)
    np.testing.assert_allclose(got.astype(float), dx.astype(float), rtol=rtol)
    # The slope inside is x/3 + 1/2 with an exact 1/3.
    x = np.array([2.0**-20, 1.5], dtype)
    exact = x.astype(float) / 3 + 0.5
    got = fastgrad.hardswish_grad(np.ones_like(x), x).astype(float)
    np.testing.assert_allclose(got, exact, rtol=float(ml_dtypes.finfo(dtype).eps))


def test_B14_non_contiguous_views():
    w = np.arange(8.0).reshape(2, 4) / 4 - 1
    before = w.copy()
    x, dy = w[:, :2], np.ones((2, 2)).T
    np.testing.assert_allclose(
        fastgrad.gelu(x), [[-0.15865525, -0.16997051], [0, 0.14967658]], atol=5e-9
    )
    dx = fastgrad.gelu_grad(dy, x)
    np.testing.assert_allclose(dx, [[-0.08331547, 0.00077428], [0.5, 0.69537335]], atol=5e-9)
    assert same_bits(dx, fastgrad.gelu_grad(dy, x.copy()))
    assert np.array_equal(w, before)


def test_B51_stride_0():
    for x in (
        np.broadcast_to(np.float32(2), (3,)),
        np.broadcast_to(np.float32([[1.0], [2.0]]), (2, 5)),
    ):
        y = fastgrad.silu(x)
        assert same_bits(y, fastgrad.silu(x.copy()))
        assert y.flags.owndata and y.flags.writeable and y.flags.c_contiguous
        assert same_bits(fastgrad.silu_grad(x, x), fastgrad.silu_grad(x.copy(), x.copy()))
    close(fastgrad.silu(np.broadcast_to(np.float32(2), (3,))), [1.7615941559557649] * 3, 1e-7)


def test_B52_read_only(tmp_path):
    values = np.linspace(-3, 3, 100, dtype=np.float32)
    y, dx = fastgrad.silu(values), fastgrad.silu_grad(values, values)
    path = tmp_path / "values.bin"
    values.tofile(path)
    frozen = values.copy()
    frozen.setflags(write=False)
    for x in (
        frozen,
        np.memmap(path, np.float32, "r"),
        np.memmap(path, np.float32, "c"),
        np.frombuffer(path.read_bytes(), np.float32),
    ):
        assert same_bits(fastgrad.silu(x), y)
        assert same_bits(fastgrad.silu_grad(x, x), dx)
    assert path.read_bytes() == values.tobytes()
    with pytest.raises(ValueError, match="out is read-only"):
        fastgrad.silu(values, out=frozen)
    assert np.array_equal(frozen, values)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_B55_subclasses():
    with pytest.raises(TypeError, match=r"x is a masked array.*filled"):
        fastgrad.silu(np.ma.array([0.0, 0.0, 1e10], mask=[0, 0, 1]))
    matrix = np.matrix([[1.0, 2.0]])
    y = fastgrad.silu(matrix)
    assert type(y) is np.ndarray and y.shape == (1, 2)
    assert same_bits(fastgrad.silu([[1.0, 2.0]]), y)
    with pytest.raises(TypeError, match=r"x must be .* got object"):
        fastgrad.silu(np.array([1.0, None], dtype=object))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("beta", [1.7, np.float32(1.7), np.float64(1.7), np.array(1.7), 2])
def test_B56_promotion(dtype, beta):
    for x in (np.ones(3, dtype), np.array(1, dtype)):
        y = fastgrad.swish(x, beta)
        assert y.dtype == dtype and y.shape == x.shape
        dx = fastgrad.swish_grad(x, x, beta)
        assert dx.dtype == dtype and dx.shape == x.shape
    assert fastgrad.silu(np.float32(1.0)).dtype == np.float32
    assert fastgrad.silu(1.0).dtype == np.float64 and fastgrad.silu(1.0).shape == ()


def test_B58_bfloat16_and_float16():
    tensor = torch.tensor([1.0, -3.0, 0.00390625], dtype=torch.bfloat16)
    x = tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    y = fastgrad.silu(x)
    assert y.dtype == ml_dtypes.bfloat16 and float(y[0]) == 0.73046875
    nan = np.array([0x7FC0, 0xFFC1], np.uint16).view(ml_dtypes.bfloat16)
    assert np.isnan(fastgrad.silu(nan).astype(float)).all()
    # Rounding past the largest bfloat16 is an infinity: its gradient at dy = max is above max.
    largest = np.array([0x7F7F], np.uint16).view(ml_dtypes.bfloat16)
    slope_above_one = np.array([2.4], ml_dtypes.bfloat16)
    assert float(fastgrad.silu_grad(largest, slope_above_one)[0]) == INF
    assert fastgrad.silu(np.ones(2, np.float16)).dtype == np.float16


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, requires_grad=True),
        torch.ones(2, device="meta"),
        torch.ones(2).cfloat(),
        torch.ones(2),
    ],
)
def test_B59_wrong_object(tensor):
    with pytest.raises(TypeError, match=r"x is a torch Tensor.*fastgrad\.torch"):
        fastgrad.gelu(tensor)
    with pytest.raises(TypeError, match="dy is a torch Tensor"):
        fastgrad.gelu_grad(tensor, np.ones(2, np.float32))


@pytest.mark.parametrize("length", [4, 8, 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_B68_nan_only_where_it_came_in(length, dtype):
    x = np.resize(np.array([NAN, INF, -INF, 1.0], dtype), length)
    for operator in (fastgrad.silu, fastgrad.swish, fastgrad.gelu):
        assert np.array_equal(np.isnan(operator(x).astype(float)), np.isnan(x.astype(float)))
        (dx,) = operator.grad(np.ones_like(x), x, wrt="x")
        assert np.array_equal(np.isnan(dx.astype(float)), np.isnan(x.astype(float)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_B68_nan_of_any_payload(dtype):
    """R's NA and its like: a NaN is a NaN whatever its low bits are."""
    unsigned, quiet = (np.uint32, 0x7FC00000) if dtype is np.float32 else (np.uint64, 0x7FF8 << 48)
    payloads = np.arange(4096, dtype=unsigned) + unsigned(quiet)
    x = np.concatenate([payloads, payloads | unsigned(1 << (dtype(0).itemsize * 8 - 1))]).view(
        dtype
    )
    dy = np.ones_like(x)
    for grad in (fastgrad.silu_grad, fastgrad.swish_grad, fastgrad.gelu_grad):
        assert np.isnan(grad(dy, x)).all()
    assert np.isnan(fastgrad.gelu_grad(dy, x, "tanh")).all()
    for operator in (fastgrad.silu, fastgrad.swish, fastgrad.gelu, fastgrad.sigmoid):
        assert np.isnan(operator(x)).all()


def test_B69_subnormals_stay():
    code = (
        "import sys, numpy as np; a = sys.float_info.min / 2 != 0; import fastgrad;"
        "b = sys.float_info.min / 2 != 0; y = fastgrad.silu(np.full(1 << 20, -100, np.float32));"
        "c = sys.float_info.min / 2 != 0; assert a and b and c; assert abs(y + 3.72e-42).max() < 3e-45"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_B76_silu_half():
    x = np.array([-20, -65504, 65504], np.float16)
    y = fastgrad.silu(x).astype(float)
    assert y[0] == -(2.0**-24) and y[1] == 0 and y[2] == 65504
    assert np.isfinite(fastgrad.silu_grad(np.ones_like(x), x).astype(float)).all()
