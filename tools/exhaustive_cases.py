"""What `tools/exhaustive.py` measures: each public function of one operand beside its float64 reference.

A reference is a plain formula on float64 arrays of NumPy and SciPy, none of fastgrad's, and within 1e-5
ULP of float32 (tests/vector_unit/test_exhaustive.py compares each with mpmath). Of a slope, which may have
a root, it returns the two terms that the slope is the sum of: errors are measured against the larger one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special as sp

from fastgrad.vector_unit import maths
from fastgrad.vector_unit.lanes import lane, like

#: Public names that have no plain result of one operand: two operands, or the parts of a product. The
#: parts go through `scaled` in tests/vector_unit.
NOT_UNARY = {"maximum", "minimum", "pow", "scaled", "scaled2"} | {
    name for name in maths.__all__ if name.endswith("_split")
}
#: Errors of subnormal results are stated in their spacings, for all functions, and for gates and slopes.
SUBNORMAL_BOUND, SUBNORMAL_BOUND_OF_GATES = 2.0, 3.0

Array = np.ndarray


class Case(NamedTuple):
    """A function and its reference.

    Attributes
    ----------
    label : str
        As the table calls it; up to the parenthesis, if any, its name in `fastgrad.vector_unit.maths`.
    function : callable
        Compiled, of one lane.
    reference : callable
        float64 array -> the exact values, or the two terms that they are the sums of.
    bound : float
        What the vector unit states for float32, in ULP.
    """

    label: str
    function: Callable
    reference: Callable[[Array], Array | tuple[Array, Array]]
    bound: float = 2.0

    @property
    def op(self) -> str:
        return self.label.partition("(")[0]

    @property
    def file_name(self) -> str:
        return re.sub(r"\W+", "_", self.label).strip("_")

    @property
    def subnormal_bound(self) -> float:
        if self.bound < 1:
            return self.bound
        return SUBNORMAL_BOUND if self.bound <= 2 else SUBNORMAL_BOUND_OF_GATES

    def exact(self, x: Array) -> tuple[Array, Array]:
        """The exact values, and the sizes at whose spacing an error is measured."""
        value = self.reference(x)
        if not isinstance(value, tuple):
            return value, np.abs(value)
        first, second = value
        total = first + second
        return total, np.maximum(np.maximum(np.abs(first), np.abs(second)), np.abs(total))


def decay(x: Array) -> Array:
    return np.exp(-np.abs(x))


def sigmoid(x: Array) -> Array:
    d = decay(x)
    return np.where(x < 0, d, 1.0) / (1 + d)


def sigmoid_derivative(x: Array) -> Array:
    d = decay(x)
    return d / (1 + d) ** 2


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(decay(x))


def sech2(x: Array) -> Array:
    d = decay(2 * x)
    return 4 * d / (1 + d) ** 2


def tanhshrink(x: Array) -> Array:
    """By the series where the difference cancels: the first term left out is 1e-15 of the sum."""
    s = x * x
    series = x * s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * (62 / 2835 - s * (1382 / 155925)))))
    return np.where(np.abs(x) < 0.05, series, x - np.tanh(x))


def normal_pdf(x: Array) -> Array:
    """The square of a float32 is exact in float64."""
    return np.exp(-0.5 * (x * x)) / np.sqrt(2 * np.pi)


def product(x: Array, factor: Array) -> Array:
    """x·factor, and its limit 0 where the factor has decayed to 0."""
    return np.where(factor == 0, 0.0, x * factor)


def silu(x: Array) -> Array:
    return product(x, sigmoid(x))


def silu_slope(x: Array) -> tuple[Array, Array]:
    return sigmoid(x), product(x, sigmoid_derivative(x))


def mish_gate(x: Array) -> Array:
    """tanh(softplus(x)) without a difference, e = e^-|x|."""
    e = decay(x)
    above = (1 + 2 * e) / (1 + 2 * e * (1 + e))
    return np.where(x < 0, e * (e + 2) / (e * (e + 2) + 2), above)


def mish_gate_slope(x: Array) -> Array:
    e = decay(x)
    above = 4 * e * e * (1 + e) / (1 + 2 * e * (1 + e)) ** 2
    return np.where(x < 0, 4 * e * (1 + e) / (e * (e + 2) + 2) ** 2, above)


def gelu(x: Array) -> Array:
    return product(x, sp.ndtr(x))


def gelu_slope(x: Array) -> tuple[Array, Array]:
    return sp.ndtr(x), product(x, normal_pdf(x))


@lane
def scaled_by_itself(z):
    return maths.scaled_sigmoid(z, z)


@lane
def scaled_by_one(z):
    return maths.scaled_sigmoid(like(z, 1.0), z)


@lane
def slope_weighted_by_itself(z):
    return maths.sigmoid_slope(z, z)


@lane
def slope_weighted_by_one(z):
    return maths.sigmoid_slope(like(z, 1.0), z)


#: The bounds are those of the docstrings of `maths` and `gated`; 0.5 is correctly rounded, 0 exact.
CASES = (
    Case("abs", maths.abs, np.abs, 0.0),
    Case("floor", maths.floor, np.floor, 0.0),
    Case("round", maths.round, np.rint, 0.0),
    Case("sqrt", maths.sqrt, np.sqrt, 0.5),
    Case("reciprocal", maths.reciprocal, np.reciprocal, 0.5),
    Case("rsqrt", maths.rsqrt, lambda x: 1 / np.sqrt(x)),
    Case("exp", maths.exp, np.exp, 1.0),
    Case("exp2", maths.exp2, np.exp2),
    Case("expm1", maths.expm1, np.expm1),
    Case("log", maths.log, np.log),
    Case("log1p", maths.log1p, np.log1p),
    Case("softplus", maths.softplus, softplus),
    Case("log_sigmoid", maths.log_sigmoid, lambda x: -softplus(-x)),
    Case("sin", maths.sin, np.sin),
    Case("cos", maths.cos, np.cos),
    Case("sigmoid", maths.sigmoid, sigmoid),
    Case("dsigmoid", maths.dsigmoid, sigmoid_derivative),
    Case("tanh", maths.tanh, np.tanh),
    Case("sech2", maths.sech2, sech2),
    Case("tanhshrink", maths.tanhshrink, tanhshrink),
    Case("erf", maths.erf, sp.erf),
    Case("erfc", maths.erfc, sp.erfc),
    Case("normal_cdf", maths.normal_cdf, sp.ndtr),
    Case("normal_pdf", maths.normal_pdf, normal_pdf),
    Case("exp_neg_square", maths.exp_neg_square, lambda x: np.exp(-(x * x))),
    Case("silu", maths.silu, silu, 4.0),
    Case("silu_slope", maths.silu_slope, silu_slope, 5.0),
    Case("gelu", maths.gelu, gelu, 5.0),
    Case("gelu_slope", maths.gelu_slope, gelu_slope, 5.0),
    Case("mish_gate", maths.mish_gate, mish_gate, 4.0),
    Case("mish_gate_slope", maths.mish_gate_slope, mish_gate_slope, 5.0),
    Case("mish", maths.mish, lambda x: product(x, mish_gate(x)), 4.0),
    Case(
        "mish_slope",
        maths.mish_slope,
        lambda x: (mish_gate(x), product(x, mish_gate_slope(x))),
        5.0,
    ),
    Case("scaled_sigmoid(z, z)", scaled_by_itself, silu, 4.0),
    Case("scaled_sigmoid(1, z)", scaled_by_one, sigmoid, 4.0),
    Case("sigmoid_slope(z, z)", slope_weighted_by_itself, silu_slope, 5.1),
    Case(
        "sigmoid_slope(1, z)",
        slope_weighted_by_one,
        lambda x: (sigmoid(x), sigmoid_derivative(x)),
        5.0,
    ),
)
