"""pow: every size of result against mpmath, C's special values, both derivatives."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

import fastgrad
from checking import same_bits
from fastgrad import maths as m
from rounding import DTYPES, as_float64, error_in_ulp


@fastgrad.elementwise
def power(x, y):
    return x**y


def operands(dtype) -> tuple[np.ndarray, np.ndarray]:
    """Bases of every size, and exponents for results from the subnormals to beyond the largest."""
    rng = np.random.default_rng(0)
    most = np.log(float(np.finfo(dtype).max))
    base = np.concatenate(
        [
            rng.uniform(0, 5, 1500),
            np.exp(rng.uniform(-most, most, 2500)),
            1 + rng.normal(0, 1e-3, 1500),
        ]
    ).astype(dtype)
    size = np.abs(np.log(np.abs(base.astype(np.float64)))) + 1e-30
    exponent = rng.uniform(-1, 1, base.size) * np.minimum(most * 1.15 / size, 1e6)
    return base, exponent.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(dtype):
    base, exponent = operands(dtype)
    info = np.finfo(dtype)
    with mp.workdps(60):
        for a, b, got in zip(base, exponent, power(base, exponent), strict=True):
            exact = mp.mpf(float(a)) ** mp.mpf(float(b))
            if exact > float(info.max):
                assert got >= info.max, (a, b)
                continue
            _, order = mp.frexp(exact)
            unit = max(mp.mpf(2) ** (order - info.nmant - 1), float(info.smallest_subnormal))
            assert abs(mp.mpf(float(got)) - exact) <= 2 * unit, (a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values_are_numpys(dtype):
    values = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 2.0**60, 1e-39]
    base, exponent = np.array(list(itertools.product(values, values)), dtype).T.copy()
    with np.errstate(all="ignore"):
        expected = np.power(base, exponent)
    np.testing.assert_allclose(power(base, exponent), expected, rtol=1e-6)
    is_number = ~np.isnan(expected)  # a NaN's sign says nothing
    signs = np.signbit(power(base, exponent))
    np.testing.assert_array_equal(signs[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_16_bit_results_are_rounded_once(dtype):
    base = np.arange(0x7C00 if dtype is np.float16 else 0x7F80, dtype=np.uint16).view(dtype)
    for exponent in (1.7, -0.3, 3.5):
        y = power(base, np.full_like(base, exponent))
        with np.errstate(all="ignore"):
            exact = as_float64(base) ** float(dtype(exponent))
        assert error_in_ulp(y, exact, dtype).max() <= 1


@np.errstate(all="ignore")
def test_derivatives():
    x = np.array([0.0, 0.5, 2.0, 3.0, -2.0])
    y = np.array([2.0, 2.0, 1.5, -1.0, 3.0])
    dx, dy = power.grad(np.ones(5), x, y)
    np.testing.assert_allclose(dx, y * x ** (y - 1), rtol=1e-15)
    np.testing.assert_allclose(dy[:4], [0, 0.25 * np.log(0.5), 2**1.5 * np.log(2), np.log(3) / 3])
    assert np.isnan(dy[4])


def test_known_exponents():
    @fastgrad.elementwise
    def known(x):
        return x**1.7 + np.power(x, -0.25) + np.float_power(x, 3)

    x = np.array([0.5, 2.0, 9.0])
    np.testing.assert_allclose(known(x), x**1.7 + x**-0.25 + x**3, rtol=1e-15)
    dx = known.grad(np.ones(3), x)[0]
    np.testing.assert_allclose(dx, 1.7 * x**0.7 - 0.25 * x**-1.25 + 3 * x**2, rtol=1e-14)
    ops = [node.op for node in fastgrad.elementwise(cube).trace().instructions]
    assert ops == ["mul", "mul"]


def cube(x):
    return m.pow(x, 3)


def test_known_bases():
    @fastgrad.elementwise
    def exponential(x):
        return 2.0**x + 3.0**x

    x = np.array([-2.5, 0.0, 10.0])
    np.testing.assert_allclose(exponential(x), 2.0**x + 3.0**x, rtol=1e-15)
    dx = exponential.grad(np.ones(3), x)[0]
    np.testing.assert_allclose(dx, 2.0**x * np.log(2) + 3.0**x * np.log(3), rtol=1e-14)


def test_lanes_agree_with_the_rest_of_a_vector():
    base, exponent = operands(np.float32)
    whole = power(base[:67], exponent[:67])
    for n in range(1, 67):
        assert same_bits(power(base[:n].copy(), exponent[:n].copy()), whole[:n])
