"""Gates and slopes: what the tests of the operators do not reach, operands that go their own ways."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from fastgrad.vector_unit import maths as vu
from rounding import error_in_ulp


@njit(error_model="numpy")
def products(a, z, out):
    for i in range(out.size):
        out[i] = vu.scaled_sigmoid(a[i], z[i])


@njit(error_model="numpy")
def slopes(w, z, out):
    for i in range(out.size):
        out[i] = vu.sigmoid_slope(w[i], z[i])


def pairs(dtype, lowest):
    """Operands of every size, and arguments from where the product vanishes for each of them."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    size = np.exp2(rng.uniform(info.minexp - 10, info.maxexp - 0.1, 400_000))
    a = (size * rng.choice([-1.0, 1.0], size.size)).astype(dtype)
    z = np.concatenate([rng.uniform(lowest, -lowest, 200_000), rng.normal(0, 6, 200_000)])
    return a, z.astype(dtype)


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -173.0), (np.float64, -740.0)])
@np.errstate(all="ignore")
def test_scaled_sigmoid(dtype, lowest):
    a, z = pairs(dtype, lowest)
    out = np.empty_like(a)
    products(a, z, out)
    wide, argument = a.astype(np.longdouble), z.astype(np.longdouble)
    exact = (wide / (1 + np.exp(-argument))).astype(np.float64)
    assert error_in_ulp(out, exact, dtype).max() <= 4


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -105.0), (np.float64, -700.0)])
@np.errstate(all="ignore")
def test_sigmoid_slope(dtype, lowest):
    w, z = pairs(dtype, lowest)
    out = np.empty_like(w)
    slopes(w, z, out)
    wide, argument = w.astype(np.longdouble), z.astype(np.longdouble)
    gate = 1 / (1 + np.exp(-argument))
    bell = wide * gate / (1 + np.exp(argument))
    exact, scale = (
        (gate + bell).astype(np.float64),
        np.maximum(gate, np.abs(bell)).astype(np.float64),
    )
    fits = scale < np.finfo(dtype).max
    assert error_in_ulp(out, exact, dtype, scale)[fits].max() <= 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loop", [products, slopes])
def test_infinities_and_nan(loop, dtype):
    inf, nan = np.inf, np.nan
    a = np.array([inf, -inf, inf, nan, 1, 1], dtype)
    z = np.array([-inf, -inf, -3000, -inf, nan, -inf], dtype)
    out = np.empty_like(a)
    loop(a, z, out)
    np.testing.assert_array_equal(np.abs(out), [0, 0, 0, nan, nan, 0])
    unsigned = np.uint32 if dtype is np.float32 else np.uint64
    payloads = (np.arange(2048, dtype=unsigned) + np.array([nan], dtype).view(unsigned)).view(dtype)
    out = np.empty_like(payloads)
    for a, z in (
        (np.ones_like(out), payloads),
        (payloads, np.ones_like(out)),
        (payloads, -np.ones_like(out)),
    ):
        loop(a, z, out)
        assert np.isnan(out).all()
