"""The activations, each by the one helper."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import fastgrad
import references as ref
from checking import Case, check_operator

_Z = 2 * np.sqrt(2 / np.pi)


def _square(x):
    return 2 + x * x


def _cubic_argument(x):
    """The tanh form's argument is rounded before it is exponentiated: |z| ULP, a few times."""
    return 4 * np.abs(_Z * (x + 0.044715 * x**3))


CASES = {
    "silu": Case(fastgrad.silu, ref.swish, ref.swish_terms, reference_ulp=_square),
    "swish": Case(fastgrad.swish, ref.swish, ref.swish_terms, reference_ulp=_square),
    "swish-1.7": Case(
        fastgrad.swish,
        lambda x: ref.swish(x, np.float32(1.7).astype(float)),
        lambda x: ref.swish_terms(x, np.float32(1.7).astype(float)),
        arguments={"beta": float(np.float32(1.7))},
        amplification=lambda x: 2 * np.abs(1.7 * x),  # z = beta·x is rounded
        reference_ulp=_square,
    ),
    "gelu": Case(
        fastgrad.gelu,
        ref.gelu,
        ref.gelu_terms,
        ulp=5.0,
        reference_ulp=lambda x: 16 + 3 * x * x,  # x / sqrt(2) is rounded
        reference_lowest=-37.5,
    ),
    "gelu-tanh": Case(
        fastgrad.gelu,
        ref.gelu_tanh,
        ref.gelu_tanh_terms,
        arguments={"approximate": "tanh"},
        amplification=_cubic_argument,
        reference_ulp=_square,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    check_operator(CASES[name])


@pytest.mark.parametrize(
    "x", [-37.4, -37.9, -38.2, -38.4, -38.6, -39.0, -700.0, -730.0, -745.0, -760.0]
)
def test_float64_tails(x):
    """Down through the subnormals, beyond where a float64 reference ends."""
    with mpmath.workdps(40):
        z = mpmath.mpf(x)
        s = 1 / (1 + mpmath.exp(-z))
        exact = {
            fastgrad.gelu: (z * mpmath.ncdf(z), mpmath.ncdf(z) + z * mpmath.npdf(z)),
            fastgrad.silu: (z * s, s + z * s * (1 - s)),
        }
        for operator, values in exact.items():
            array = np.array([x])
            got = operator(array)[0], operator.grad(np.ones(1), array)[0][0]
            for value, right in zip(got, values, strict=True):
                unit = max(abs(right) * mpmath.mpf(2) ** -52, mpmath.mpf(2) ** -1074)
                assert abs(mpmath.mpf(float(value)) - right) <= 6 * unit, operator
