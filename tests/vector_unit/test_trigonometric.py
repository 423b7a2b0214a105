"""sin and cos beyond the usual: next to multiples of π/2, of huge operands, in programs and 16 bits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import fastgrad
from checking import same_bits
from fastgrad import maths as m
from rounding import DTYPES, as_float64, error_in_ulp, every_16_bit_value


@fastgrad.elementwise
def sine(x):
    return m.sin(x)


@fastgrad.elementwise
def cosine(x):
    return np.cos(x)


def hard_operands(dtype) -> np.ndarray:
    """The floats next to multiples of π/2, small ones and some beyond 2^22 times; the hardest double."""
    rng = np.random.default_rng(0)
    multiples = np.concatenate([np.arange(1, 400), rng.integers(1, 2**22, 600)])
    far = 10.0 ** rng.uniform(6, np.log10(float(np.finfo(dtype).max)), 500)
    hardest = 6381956970095103.0 * (2.0**797 if dtype is np.float64 else 2.0**40)
    return np.concatenate([multiples * np.pi / 2, far, [hardest]]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_operands(dtype):
    x = hard_operands(dtype)
    x = np.concatenate([x, -x])
    with mp.workprec(1400):
        for operator, exact in ((sine, mp.sin), (cosine, mp.cos)):
            values = np.array([float(exact(mp.mpf(float(value)))) for value in x])
            assert error_in_ulp(operator(x), values, dtype).max() <= 1.5


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_every_16_bit_operand(dtype):
    x = every_16_bit_value(dtype)
    with np.errstate(all="ignore"):
        exact = np.sin(as_float64(x)), np.cos(as_float64(x))
    for y, value in zip((sine(x), cosine(x)), exact, strict=True):
        assert error_in_ulp(y, value, dtype).max() <= 1


def test_derivatives():
    x = np.linspace(-10, 10, 101)
    np.testing.assert_allclose(sine.grad(np.ones(101), x)[0], np.cos(x), rtol=1e-14)
    np.testing.assert_allclose(cosine.grad(np.ones(101), x)[0], -np.sin(x), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_agree_with_the_rest_of_a_vector(dtype):
    x = hard_operands(dtype)[:67]
    whole = sine(x)
    for n in range(1, 67):
        assert same_bits(sine(x[:n].copy()), whole[:n])
