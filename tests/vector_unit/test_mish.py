"""mish and its slope beside float64 and mpmath: the usual range, all magnitudes, tails, edges."""

from __future__ import annotations

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
from numba import njit

from fastgrad.vector_unit import maths as vu
from rounding import error_in_ulp

SIZES = {np.float32: 108.0, np.float64: 755.0}


@njit(error_model="numpy")
def values(z, out):
    for i in range(out.size):
        out[i] = vu.mish(z[i])


@njit(error_model="numpy")
def slopes(z, out):
    for i in range(out.size):
        out[i] = vu.mish_slope(z[i])


LOOPS = {values: 4.0, slopes: 5.0}


def apply(loop, z):
    out = np.empty_like(z)
    loop(z, out)
    return out


def terms(z):
    """tanh(u) with u = softplus(z), and z·sigmoid(z)/cosh²(u), in the precision of z."""
    e = np.exp(-np.abs(z))
    below, above = 2 + e * (2 + e), 1 + 2 * e * (1 + e)
    gate = np.where(z < 0, e * (2 + e) / below, (1 + 2 * e) / above)
    return gate, z * (4 * (1 + e) * np.where(z < 0, e / below**2, (e / above) ** 2))


def exact(loop, z):
    """The exact values for finite z, and the sizes in whose ULP an error counts."""
    gate, bell = terms(z)
    if loop is values:
        return z * gate, np.abs(z * gate)
    return gate + bell, np.maximum(gate, np.abs(bell))


def points(dtype):
    """The usual range, the range in which anything happens, all magnitudes."""
    rng = np.random.default_rng(0)
    info, size = np.finfo(dtype), SIZES[dtype]
    return np.concatenate(
        [
            rng.normal(0, 1, 300_000),
            rng.uniform(-size / 6, size / 6, 300_000),
            rng.uniform(-size, size, 200_000),
            rng.choice([-1, 1], 100_000) * np.exp2(rng.uniform(info.minexp - 20, 10, 100_000)),
        ]
    ).astype(dtype)


@pytest.mark.parametrize("loop", LOOPS)
@np.errstate(all="ignore")
def test_float32(loop):
    z = points(np.float32)
    wanted, scale = exact(loop, z.astype(np.float64))
    assert error_in_ulp(apply(loop, z), wanted, np.float32, scale).max() <= LOOPS[loop]


@pytest.mark.parametrize("loop", LOOPS)
def test_float64(loop):
    """Against mpmath on some; on all against x86's long double, rounded to float64 at 1/2 ULP."""
    z = points(np.float64)
    got = apply(loop, z)
    with np.errstate(all="ignore"):
        wanted, scale = (part.astype(np.float64) for part in exact(loop, z.astype(np.longdouble)))
        off = error_in_ulp(got, wanted, np.float64, scale)
    if np.finfo(np.longdouble).nmant > 60:
        assert off.max() <= LOOPS[loop] + 0.5
    chosen = np.concatenate([np.argsort(off)[-500:], np.arange(0, z.size, 700)])
    with mp.workdps(60):
        for i in chosen.tolist():
            unit = max(np.spacing(scale[i]), np.finfo(np.float64).smallest_subnormal)
            assert (
                abs(float((got[i] - precisely(loop, mp.mpf(z[i]))) / mp.mpf(unit))) <= LOOPS[loop]
            )


def precisely(loop, z):
    gate = mp.tanh(mp.log1p(mp.exp(z)))
    return z * gate if loop is values else gate + z * (1 - gate**2) / (1 + mp.exp(-z))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("loop", LOOPS)
@np.errstate(all="ignore")
def test_every_input_of_16_bits(loop, dtype):
    """In float32, which rounds to the nearest of 16 bits but where the exact value is near a tie."""
    z = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype).astype(np.float32)
    got = apply(loop, z)
    assert (np.isnan(got) == np.isnan(z)).all()
    finite = np.isfinite(z)
    wanted, scale = exact(loop, z[finite].astype(np.float64))
    assert error_in_ulp(got[finite], wanted, np.float32, scale).max() <= LOOPS[loop]
    assert error_in_ulp(got[finite].astype(dtype), wanted, dtype, scale).max() <= 0.501


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges(dtype):
    largest = np.finfo(dtype).max
    z = np.array([-np.inf, -largest, -0.0, 0.0, largest, np.inf, np.nan], dtype)
    value, slope = apply(values, z), apply(slopes, z)
    np.testing.assert_array_equal(value, [0, 0, 0, 0, largest, np.inf, np.nan])
    np.testing.assert_array_equal(np.signbit(value[:-1]), [True, True, True, False, False, False])
    np.testing.assert_array_equal(slope[[0, 1, 4, 5, 6]], [0, 0, 1, 1, np.nan])
    np.testing.assert_allclose(slope[2:4], 0.6, rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loop", LOOPS)
def test_any_nan_stays_nan(loop, dtype):
    integer = np.dtype(f"u{np.dtype(dtype).itemsize}").type
    infinity = np.array(np.inf, dtype).view(integer)
    z = np.concatenate(
        [infinity + np.arange(1, 2048, dtype=integer), ~np.arange(2048, dtype=integer)]
    )
    assert np.isnan(apply(loop, z.view(dtype))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loop", LOOPS)
def test_remainder_agrees_with_the_vector_body(loop, dtype):
    z = np.random.default_rng(1).normal(0, 5, 67).astype(dtype)
    single = np.concatenate([apply(loop, z[i : i + 1]) for i in range(z.size)])
    for length in range(1, z.size + 1):
        assert apply(loop, z[:length]).tobytes() == single[:length].tobytes()


@njit(error_model="numpy")
def products(a, z, out):
    for i in range(out.size):
        q, s1, s2 = vu.mish_gate_slope_split(z[i])
        out[i] = vu.scaled(a[i], q, s1, s2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_slope_of_the_gate_wins_at_both_infinities(dtype):
    """It is e^(-2z) above 0: z times it is 0 at inf, not inf·0."""
    largest = np.finfo(dtype).max
    z = np.repeat(np.array([-np.inf, -largest, largest, np.inf], dtype), 4)
    a = np.tile(np.array([np.inf, -np.inf, 1, np.nan], dtype), 4)
    out = np.empty_like(a)
    products(a, z, out)
    np.testing.assert_array_equal(np.abs(out), np.tile([0, 0, 0, np.nan], 4))
