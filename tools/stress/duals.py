"""An operator's maths on balls, with derivatives: the reference, independent of `fastgrad.program`.

The text of an operator runs on `Dual` operands with `MATHS` as its `m`. Nothing of fastgrad's tracing,
rewriting and differentiation is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special

from .balls import Array, Ball, Compute, chosen, compared, nan_of

__all__ = ["MATHS", "Dual", "reference"]


def reference(
    function: Callable, operands: Mapping[str, Array], wrt: tuple[str, ...], compute: Compute
) -> Dual:
    """The value of `function` and its derivatives by the operands in `wrt`."""
    one = Ball.exact(1.0, compute)
    duals = {
        name: Dual(Ball.exact(value, compute), {name: one} if name in wrt else {})
        for name, value in operands.items()
    }
    with np.errstate(all="ignore"):
        return function(**duals)


class Dual:
    """A ball with its derivatives by operand; one that is not there is 0."""

    def __init__(self, ball: Ball, slopes: dict[str, Ball] | None = None):
        self.ball, self.slopes = ball, slopes or {}

    def dual(self, other: Any) -> Dual:
        return other if isinstance(other, Dual) else Dual(Ball.constant(other, self.ball.compute))

    def __add__(self, other: Any) -> Dual:
        other = self.dual(other)
        return _ruled(self.ball + other.ball, (self, None), (other, None))

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.ball, {name: -slope for name, slope in self.slopes.items()})

    def __sub__(self, other: Any) -> Dual:
        return self + -self.dual(other)

    def __rsub__(self, other: Any) -> Dual:
        return -self + other

    def __mul__(self, other: Any) -> Dual:
        other = self.dual(other)
        return _ruled(self.ball * other.ball, (self, other.ball), (other, self.ball))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        other = self.dual(other)
        quotient = self.ball / other.ball
        inverse = Ball.exact(1.0, self.ball.compute) / other.ball
        return _ruled(quotient, (self, inverse), (other, -quotient / other.ball))

    def __rtruediv__(self, other: Any) -> Dual:
        return self.dual(other) / self

    def __pow__(self, exponent: float) -> Dual:
        if exponent in (0.5, -0.5):
            return MATHS.sqrt(self) if exponent > 0 else MATHS.rsqrt(self)
        power = self
        for _ in range(abs(int(exponent)) - 1):
            power = power * self
        return power if exponent > 0 else 1.0 / power

    def __lt__(self, other: Any) -> Dual:
        return Dual(compared(self.ball, self.dual(other).ball, np.less))

    def __le__(self, other: Any) -> Dual:
        return Dual(compared(self.ball, self.dual(other).ball, np.less_equal))

    def __gt__(self, other: Any) -> Dual:
        return Dual(compared(self.ball, self.dual(other).ball, np.greater))

    def __ge__(self, other: Any) -> Dual:
        return Dual(compared(self.ball, self.dual(other).ball, np.greater_equal))

    # As NumPy's: elementwise, not the bool that object's have.
    def __ne__(self, other: Any) -> Dual:  # type: ignore[override]
        return Dual(compared(self.ball, self.dual(other).ball, np.not_equal))

    def __eq__(self, other: Any) -> Dual:  # type: ignore[override]
        return Dual(compared(self.ball, self.dual(other).ball, np.equal))

    __hash__ = object.__hash__


def _ruled(ball: Ball, *terms: tuple[Dual, Ball | None]) -> Dual:
    """`ball`, with the slopes of each operand times the partial derivative by it (None: 1)."""
    slopes: dict[str, Ball] = {}
    for operand, partial in terms:
        for name, slope in operand.slopes.items():
            term = slope if partial is None else partial * slope
            slopes[name] = slopes[name] + term if name in slopes else term
    return Dual(ball, slopes)


# --- Functions that choose -------------------------------------------------------------------------


def _where(condition: Dual, a: Any, b: Any) -> Dual:
    """Where a NaN is chosen, its slope may be NaN or that of its branch: the two are not judged."""
    chosen_one = _chosen(condition, a, b)
    is_nan = np.isnan(chosen_one.ball.value)
    slopes = {
        name: Ball(slope.value, np.where(is_nan, np.inf, slope.error), slope.compute)
        for name, slope in chosen_one.slopes.items()
    }
    return Dual(chosen_one.ball, slopes)


def _chosen(condition: Dual, a: Any, b: Any) -> Dual:
    a, b = condition.dual(a), condition.dual(b)
    zero = Ball.exact(0.0, condition.ball.compute)
    slopes = {
        name: chosen(condition.ball, a.slopes.get(name, zero), b.slopes.get(name, zero))
        for name in {**a.slopes, **b.slopes}
    }
    return Dual(chosen(condition.ball, a.ball, b.ball), slopes)


def _abs(z: Dual) -> Dual:
    """Its slope is 0 at 0."""
    rest = dict.fromkeys(z.slopes, nan_of(z.ball))
    slopes = _chosen(z > 0.0, z, _chosen(z < 0.0, -z, Dual(z.ball, rest))).slopes
    return Dual(Ball(np.abs(z.ball.value), z.ball.error, z.ball.compute), slopes)


def _maximum(a: Any, b: Any) -> Dual:
    """Its slope is the mean of both at a tie."""
    a, b = (a, a.dual(b)) if isinstance(a, Dual) else (b.dual(a), b)
    invalid = nan_of(a.ball) + nan_of(b.ball)
    tie = (a + b) * 0.5
    tie.slopes = {name: slope + invalid for name, slope in tie.slopes.items()}
    slopes = _chosen(a > b, a, _chosen(a < b, b, tie)).slopes
    value = np.maximum(a.ball.value, b.ball.value)
    return Dual(a.ball.made(value, np.maximum(a.ball.error, b.ball.error), 0.0, b.ball), slopes)


def _minimum(a: Any, b: Any) -> Dual:
    return -_maximum(-a, -b)


def _floor(z: Dual) -> Dual:
    return Dual(z.ball.map(np.floor, 0.0))


# --- Functions -------------------------------------------------------------------------------------


def _smooth(function: Callable, slope: Callable, ulp: float = 1.0) -> Callable[[Dual], Dual]:
    """A function with its derivative, which the kernel computes with `ulp` times a function's error."""

    def call(z: Dual) -> Dual:
        bound = z.ball.compute.function
        partial = z.ball.map(slope, ulp * bound) if z.slopes else None
        return _ruled(z.ball.map(function, bound), (z, partial))

    return call


def _sigmoid(z: Array) -> Array:
    decay = np.exp(-np.abs(z))
    return np.where(z < 0, decay, 1) / (1 + decay)


def _sigmoid_slope(z: Array) -> Array:
    decay = np.exp(-np.abs(z))
    return decay / (1 + decay) ** 2


def _softplus(z: Array) -> Array:
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def _tanhshrink(z: Array) -> Array:
    """By its series where the difference cancels."""
    s, one = z * z, z.dtype.type(1)
    series = 17 * one / 315 - s * (62 * one / 2835 - s * (1382 * one / 155925))
    series = z * s * (one / 3 - s * (2 * one / 15 - s * series))
    return np.where(np.abs(z) < 0.02, series, z - np.tanh(z))


def _bell(z: Array) -> Array:
    return np.exp(-z * z)


def _normal_pdf(z: Array) -> Array:
    return np.exp(-z * z / 2) / np.sqrt(2 * z.dtype.type(np.pi))


def _erf_slope(z: Array) -> Array:
    return 2 / math.sqrt(math.pi) * _bell(z)


def _widened(function: Callable, slope: Callable) -> Callable[[Array], Array]:
    """A function of SciPy's, which takes float64 alone, put right for the rest of a wider operand."""

    def run(z: Array) -> Array:
        near = z.astype(np.float64)
        return function(near) + slope(z) * np.where(np.isfinite(near), z - near, 0)

    return run


_erf = _widened(special.erf, _erf_slope)
_erfc = _widened(special.erfc, lambda z: -_erf_slope(z))


def _normal_cdf(z: Array) -> Array:
    return _erfc(-z / np.sqrt(z.dtype.type(2))) / 2


#: What takes the place of `fastgrad.maths`.
MATHS = SimpleNamespace(
    abs=_abs,
    erf=_smooth(_erf, _erf_slope),
    erfc=_smooth(_erfc, lambda z: -_erf_slope(z)),
    exp=_smooth(np.exp, np.exp),
    exp2=_smooth(np.exp2, lambda z: np.exp2(z) * np.log(z.dtype.type(2)), 1.5),
    exp_neg_square=_smooth(_bell, lambda z: -2 * z * _bell(z), 1.5),
    expm1=_smooth(np.expm1, np.exp),
    floor=_floor,
    log=_smooth(np.log, lambda z: 1 / z),
    log1p=_smooth(np.log1p, lambda z: 1 / (1 + z)),
    maximum=_maximum,
    minimum=_minimum,
    normal_cdf=_smooth(_normal_cdf, _normal_pdf),
    normal_pdf=_smooth(_normal_pdf, lambda z: -z * _normal_pdf(z), 1.5),
    reciprocal=_smooth(lambda z: 1 / z, lambda z: -1 / (z * z)),
    rsqrt=_smooth(lambda z: 1 / np.sqrt(z), lambda z: -0.5 / (np.sqrt(z) * z), 1.5),
    sigmoid=_smooth(_sigmoid, _sigmoid_slope, 2.0),
    softplus=_smooth(_softplus, _sigmoid),
    sqrt=_smooth(np.sqrt, lambda z: 0.5 / np.sqrt(z)),
    tanh=_smooth(np.tanh, lambda z: 4 * _sigmoid_slope(2 * z), 2.0),
    tanhshrink=_smooth(_tanhshrink, lambda z: np.tanh(z) ** 2, 2.0),
    where=_where,
)
