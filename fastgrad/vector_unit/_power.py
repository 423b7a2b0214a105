"""pow: a^b = 2^(b·log2|a|), with the logarithm in more digits than the result has, and the signs put right.

A float32 power is computed in float64, whose logarithm is good enough for any exponent. For float64 the
logarithm is a sum of two numbers: 2 atanh(s) with s = (m - 1)/(m + 1) and m between sqrt(1/2) and sqrt(2),
the first terms of its series in both numbers, the others in one (Dekker's products by fma). Special values
are those of C and NumPy. Errors are the largest seen.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from ._coefficients import ATANH_TAIL
from ._exponential import exp2
from ._logarithm import (
    LEAST_NORMAL,
    LIFT,
    LIFT_EXPONENT,
    exponent_and_mantissa,
    log,
)
from .lanes import fabs, floor, fma, lane, like, polynomial, to_float

__all__ = ["pow"]

_LOG2_E_HIGH, _LOG2_E_LOW = 1.4426950408889634, 2.0355273740931033e-17
_THIRD_HIGH, _THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
_LN2 = 0.6931471805599453
#: 2^x is 0 or infinite beyond.
_FAR = 2000.0


def pow(a, b):
    """a^b, within 0.51 and 1.4 ULP."""
    raise NotImplementedError("a lane: only in compiled code")


@overload(pow, jit_options={"forceinline": True, "error_model": "numpy"})
def _pow_of(a, b):
    if a == b == types.float32:
        return lambda a, b: np.float32(_wide_pow(np.float64(a), np.float64(b)))
    return (lambda a, b: _double_pow(a, b)) if a == b == types.float64 else None


@lane
def _wide_pow(a, b):
    """In float64, of two float32."""
    return _with_sign(a, b, exp2(b * (log(fabs(a)) * _LOG2_E_HIGH)))


@lane
def _double_pow(a, b):
    high, low = _log2(fabs(a))
    top = b * high
    rest = fma(b, low, fma(b, high, -top))
    is_far = fabs(top) < _FAR
    size = exp2(top)
    size = fma(size, rest * _LN2, size) if is_far & (size < np.inf) else size
    return _with_sign(a, b, size)


@lane
def _with_sign(a, b, size):
    """The power whose size for |a| is given: C's rules for what has no logarithm."""
    is_whole = floor(b) == b
    half = b * 0.5
    is_odd = is_whole & (floor(half) != half) & (fabs(b) < np.inf)
    is_below = (a < 0) | ((a == 0) & (1.0 / a < 0))
    y = -size if is_below & is_odd else size
    no_power = (a < 0) & (a > -np.inf) & ~is_whole
    y = np.nan if no_power else y
    y = y if (a == a) & (b == b) else a + b
    is_one = (a == 1.0) | (b == 0.0) | ((a == -1.0) & (fabs(b) == np.inf))
    return 1.0 if is_one else y


@lane
def _log2(x):
    """log2(x) as a sum of two numbers, to 2^-66 of it; ±inf at the ends, NaN stays."""
    is_small = x < like(x, LEAST_NORMAL)
    k, m = exponent_and_mantissa(x * like(x, LIFT) if is_small else x)
    exponent = to_float(k)
    exponent = exponent - like(x, LIFT_EXPONENT) if is_small else exponent
    high, low = _log(m)
    top = high * _LOG2_E_HIGH
    rest = fma(high, _LOG2_E_HIGH, -top) + fma(high, _LOG2_E_LOW, low * _LOG2_E_HIGH)
    total = exponent + top
    rest += (exponent - total) + top
    is_usual = (x > 0) & (x < np.inf)
    edge = -np.inf if x == 0 else x
    return (total if is_usual else edge), (rest if is_usual else 0.0)


@lane
def _log(m):
    """log(m) as a sum of two numbers: 2s·(1 + z/3 + z²·P(z)), z = s², s = (m - 1)/(m + 1)."""
    top, bottom = m - 1.0, m + 1.0
    bottom_low = m - (bottom - 1.0)
    s = top / bottom
    s_low = fma(-s, bottom_low, fma(-s, bottom, top)) / bottom
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    third = z * _THIRD_HIGH
    third_low = fma(z, _THIRD_HIGH, -third) + fma(z, _THIRD_LOW, z_low * _THIRD_HIGH)
    more = (z * z) * polynomial(z, ATANH_TAIL)
    series = third + more
    series_low = ((third - series) + more) + third_low
    # s·(1 + series), doubled.
    product = s * series
    product_low = fma(s, series, -product) + fma(s, series_low, s_low * series)
    high = s + product
    low = ((s - high) + product) + (product_low + s_low)
    total = high + low
    return 2.0 * total, 2.0 * (low - (total - high))
