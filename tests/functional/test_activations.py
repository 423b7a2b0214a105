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


def _two(x):
    """What NumPy's own functions, two or three of them, may be off."""
    return 2 + 0 * x


def _single(value):
    """A parameter as a float32 kernel sees it."""
    return float(np.float32(value))


def _with(function, **arguments):
    return lambda x: function(x, **arguments)


def _case(name, forward, terms, arguments=None, **bounds):
    """A case whose references take the arguments of the call."""
    arguments = arguments or {}
    operator = getattr(fastgrad, name)
    own = {"ulp": 2.0, "slope_ulp": 2.0, "reference_ulp": _two, **bounds}
    return Case(operator, _with(forward, **arguments), _with(terms, **arguments), arguments, **own)


_SELU = {"scale": 1.0507009873554804934193349852946, "alpha": 1.6732632423543772848170429916717}
_SHARP = {"beta": _single(0.7), "threshold": 5.0}
#: Not 0.7: its products with bfloat16 numbers lie next to ties of bfloat16, nearer than float32 can tell.
_ALPHA = {"alpha": _single(0.6)}

GATED = {
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
    "mish": Case(fastgrad.mish, ref.mish, ref.mish_terms, reference_ulp=_square),
    "quick_gelu": Case(
        fastgrad.quick_gelu,
        lambda x: ref.swish(x, 1.702),
        lambda x: ref.swish_terms(x, 1.702),
        amplification=lambda x: 2 * np.abs(1.702 * x),  # z = 1.702 x is rounded
        reference_ulp=_square,
    ),
}
SIGMOIDS = {
    "sigmoid": _case("sigmoid", ref.sigmoid, ref.sigmoid_terms),
    "logsigmoid": _case("logsigmoid", ref.logsigmoid, ref.logsigmoid_terms),
    "tanh": _case("tanh", np.tanh, ref.tanh_terms, slope_ulp=3.0),
    "tanhshrink": _case("tanhshrink", ref.tanhshrink, ref.tanhshrink_terms, slope_ulp=5.0),
    "softplus": _case("softplus", ref.softplus, ref.softplus_terms, ulp=3.0),
    "softplus-sharp": _case(
        "softplus",
        ref.softplus,
        ref.softplus_terms,
        _SHARP,
        ulp=3.0,
        amplification=lambda x: np.abs(0.7 * x),  # beta·x is rounded
    ),
    "softsign": _case("softsign", ref.softsign, ref.softsign_terms, slope_ulp=4.0),
}
RECTIFIERS = {
    "relu": _case("relu", ref.relu, ref.relu_terms, ulp=0.0, slope_ulp=0.0),
    "leaky_relu": _case("leaky_relu", ref.leaky_relu, ref.leaky_relu_terms, ulp=1.5),
    "leaky_relu-0.3": _case(
        "leaky_relu",
        ref.leaky_relu,
        ref.leaky_relu_terms,
        {"negative_slope": _single(0.3)},
        ulp=1.0,
        slope_ulp=0.0,
    ),
    "prelu": Case(
        fastgrad.prelu,
        _with(ref.leaky_relu, negative_slope=0.25),
        _with(ref.leaky_relu_terms, negative_slope=0.25),
        ulp=1.0,
        slope_ulp=0.0,
    ),
    "elu": _case("elu", ref.elu, ref.elu_terms, ulp=3.0),
    "elu-0.6": _case("elu", ref.elu, ref.elu_terms, _ALPHA, ulp=3.0),
    "selu": Case(
        fastgrad.selu,
        _with(ref.elu, **_SELU),
        _with(ref.elu_terms, **_SELU),
        ulp=3.0,
        slope_ulp=3.0,
        reference_ulp=_two,
    ),
    "celu": _case("celu", ref.celu, ref.celu_terms, ulp=3.0),
    "celu-0.6": _case(
        "celu",
        ref.celu,
        ref.celu_terms,
        _ALPHA,
        ulp=4.0,
        amplification=lambda x: np.abs(x / 0.6),  # x / alpha is rounded
    ),
    "squared_relu": _case("squared_relu", ref.squared_relu, ref.squared_relu_terms),
}
CLIPPED = {
    "relu6": _case(
        "relu6",
        _with(ref.hardtanh, min_val=0.0, max_val=6.0),
        _with(ref.hardtanh_terms, min_val=0.0, max_val=6.0),
        ulp=0.0,
        slope_ulp=0.0,
    ),
    "hardtanh": _case("hardtanh", ref.hardtanh, ref.hardtanh_terms, ulp=0.0, slope_ulp=0.0),
    "hardtanh-wide": _case(
        "hardtanh",
        ref.hardtanh,
        ref.hardtanh_terms,
        {"min_val": -0.75, "max_val": 2.5},
        ulp=0.0,
        slope_ulp=0.0,
    ),
    "hardsigmoid": _case("hardsigmoid", ref.hardsigmoid, ref.hardsigmoid_terms),
    "hardswish": _case("hardswish", ref.hardswish, ref.hardswish_terms),
    "hardshrink": _case("hardshrink", ref.hardshrink, ref.shrink_terms, ulp=0.0, slope_ulp=0.0),
    "softshrink": _case("softshrink", ref.softshrink, ref.shrink_terms, ulp=0.5, slope_ulp=0.0),
    "softshrink-0.2": _case(
        "softshrink",
        ref.softshrink,
        ref.shrink_terms,
        {"lambd": _single(0.2)},
        ulp=0.5,
        slope_ulp=0.0,
    ),
}
CASES = {**GATED, **SIGMOIDS, **RECTIFIERS, **CLIPPED}


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
