"""The activations, each by the one helper."""

from __future__ import annotations

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
    ),
    "gelu": Case(fastgrad.gelu, ref.gelu, ref.gelu_terms, reference_ulp=_square),
    "gelu-tanh": Case(
        fastgrad.gelu,
        ref.gelu_tanh,
        ref.gelu_tanh_terms,
        arguments={"approximate": "tanh"},
        amplification=_cubic_argument,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    check_operator(CASES[name])
