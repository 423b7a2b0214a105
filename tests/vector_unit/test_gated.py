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


MISH = {
    "mish": (lambda z, gate, slope: z * gate, 4),
    "mish_gate": (lambda z, gate, slope: gate, 4),
    "mish_slope": (lambda z, gate, slope: gate + z * slope, 5),
    "mish_gate_slope": (lambda z, gate, slope: slope, 5),
}


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -103.5), (np.float64, -700.0)])
@pytest.mark.parametrize("name", MISH)
@np.errstate(all="ignore")
def test_mish(name, dtype, lowest):
    """In long double, whose e^z(e^z + 2) loses nothing; at most so many ULP of the larger term."""
    function = getattr(vu, name)

    @njit(error_model="numpy")
    def run(z, out):
        for i in range(z.size):
            out[i] = function(z[i])

    rng = np.random.default_rng(0)
    z = np.concatenate([rng.uniform(lowest, 40, 200_000), rng.normal(0, 2, 200_000)]).astype(dtype)
    out = np.empty_like(z)
    run(z, out)
    wide = z.astype(np.longdouble)
    e = np.exp(wide)
    gate = e * (e + 2) / (e * (e + 2) + 2)
    slope = 4 * e * (1 + e) / (e * (e + 2) + 2) ** 2
    exact, allowed = MISH[name][0](wide, gate, slope), MISH[name][1]
    scale = np.maximum(gate, np.abs(wide * slope)) if name == "mish_slope" else np.abs(exact)
    error = error_in_ulp(out, exact.astype(np.float64), dtype, scale.astype(np.float64))
    assert error.max() <= allowed
    special = np.array([np.inf, -np.inf, np.nan, 0.0], dtype)
    out = np.empty_like(special)
    run(special, out)
    limits = {
        "mish": [np.inf, 0, np.nan, 0],
        "mish_gate": [1, 0, np.nan, 0.6],
        "mish_slope": [1, 0, np.nan, 0.6],
        "mish_gate_slope": [0, 0, np.nan, 0.32],
    }
    np.testing.assert_allclose(out, limits[name], rtol=1e-6)
