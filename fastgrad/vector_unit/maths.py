"""The maths of the vector unit: what a kernel calls on one lane, in float32 and float64.

Each function is typed by its operand and computes in its precision alone. In float32 it is within
2 ULP of the exact value (exp within 1), in float64 within 4, for any operand; a subnormal result is
within 2 of its spacings. Gates and slopes, products and sums in one instruction, have bounds of their own:
see `gated`. NaN gives NaN, an infinity the limit. The error of each as measured stands at its definition;
`make exhaustive` measures all float32 operands.

A function with `_split` in its name returns (q, s1, s2) for the value q·s1·s2, which `scaled` and
`scaled2` multiply with further operands; see `_exponential`.
"""

from __future__ import annotations

from ._exponential import (
    dsigmoid,
    dsigmoid_split,
    exp,
    exp2,
    exp_split,
    expm1,
    scaled,
    scaled2,
    sech2,
    sech2_split,
    sigmoid,
    sigmoid_split,
    tanh,
    tanhshrink,
)
from ._gaussian import (
    erf,
    erfc,
    exp_neg_square,
    exp_neg_square_split,
    normal_cdf,
    normal_cdf_split,
    normal_pdf,
    normal_pdf_split,
)
from ._logarithm import log, log1p
from ._mish import (
    mish,
    mish_gate,
    mish_gate_slope,
    mish_gate_slope_split,
    mish_gate_split,
    mish_slope,
)
from ._power import pow
from ._softplus import log_sigmoid, softplus
from ._trigonometric import cos, sin
from .gated import gelu, gelu_slope, scaled_sigmoid, sigmoid_slope, silu, silu_slope
from .lanes import fabs as abs
from .lanes import floor, lane, like, maximum, minimum, sqrt
from .lanes import rint as round

__all__ = [
    "abs",
    "cos",
    "dsigmoid",
    "dsigmoid_split",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp_neg_square",
    "exp_neg_square_split",
    "exp_split",
    "expm1",
    "floor",
    "gelu",
    "gelu_slope",
    "log",
    "log1p",
    "log_sigmoid",
    "maximum",
    "minimum",
    "mish",
    "mish_gate",
    "mish_gate_slope",
    "mish_gate_slope_split",
    "mish_gate_split",
    "mish_slope",
    "normal_cdf",
    "normal_cdf_split",
    "normal_pdf",
    "normal_pdf_split",
    "pow",
    "reciprocal",
    "round",
    "rsqrt",
    "scaled",
    "scaled2",
    "scaled_sigmoid",
    "sech2",
    "sech2_split",
    "sigmoid",
    "sigmoid_slope",
    "sigmoid_split",
    "silu",
    "silu_slope",
    "sin",
    "softplus",
    "sqrt",
    "tanh",
    "tanhshrink",
]


@lane
def reciprocal(x):
    """1 / x, correctly rounded."""
    return like(x, 1.0) / x


@lane
def rsqrt(x):
    """1 / sqrt(x), within 1.5 and 1.5 ULP; an infinity at 0, NaN below."""
    return like(x, 1.0) / sqrt(x)
