"""Logarithms: x = m·2^k with m between sqrt(1/2) and sqrt(2), log(m) by a polynomial in m - 1.

The cut at sqrt(1/2) and ln2 in two parts are those of Cody and Waite. Errors are the largest seen, in
ULP of float32 (a dense part of its values) and of float64 (some thousand values against mpmath); SLEEF
states 1.0.
"""

from __future__ import annotations

import numpy as np

from ._coefficients import LOG
from ._exponential import MANTISSA_BITS, MINUS_LN2_HIGH, MINUS_LN2_LOW
from .lanes import (
    bits,
    fabs,
    fma,
    from_bits,
    int_pair,
    int_subtract,
    lane,
    like,
    pair,
    polynomial,
    shift_left,
    shift_right,
    to_float,
)

LN2_HIGH, LN2_LOW = pair(*(-v for v in MINUS_LN2_HIGH)), pair(*(-v for v in MINUS_LN2_LOW))
SQRT_HALF_BITS = int_pair(np.float32(0.5**0.5).view(np.int32), np.float64(0.5**0.5).view(np.int64))
LEAST_NORMAL = pair(2.0**-126, 2.0**-1022)
#: What lifts a subnormal number into the normal range, and its exponent.
LIFT, LIFT_EXPONENT = pair(2.0**24, 2.0**54), pair(24, 54)
#: 1 + x is x from here on.
LARGE = pair(2.0**26, 2.0**56)
ONE_BITS = int_pair(np.float32(1).view(np.int32), np.float64(1).view(np.int64))
MINUS_HALF = pair(-0.5)


@lane
def log(x):
    """The natural logarithm, within 0.9 and 0.8 ULP; -inf at 0, NaN below."""
    subnormal = x < like(x, LEAST_NORMAL)
    lifted = x * like(x, LIFT) if subnormal else x
    k, fraction = exponent_and_mantissa(lifted)
    exponent = to_float(k)
    exponent = exponent - like(x, LIFT_EXPONENT) if subnormal else exponent
    return at_the_edges(x, log_of_product(exponent, fraction - like(x, 1.0)), x)


@lane
def log1p(x):
    """log(1 + x), within 1.5 and 1.4 ULP; -inf at -1, NaN below."""
    one = like(x, 1.0)
    total = x + one
    k, fraction = exponent_and_mantissa(total)
    # (1 + x)/2^k - 1, rounded once from the exact x.
    s = from_bits(int_subtract(like(k, ONE_BITS), shift_left(k, like(k, MANTISSA_BITS))))
    f = fraction - one if x > like(x, LARGE) else fma(x, s, s - one)
    y = at_the_edges(total, log_of_product(to_float(k), f), x)
    return x if fabs(x) < like(x, LEAST_NORMAL) else y


@lane
def exponent_and_mantissa(x):
    """(k, m) with x = m·2^k, m between sqrt(1/2) and sqrt(2), for a positive normal x."""
    pattern = bits(x)
    k = shift_right(
        int_subtract(pattern, like(pattern, SQRT_HALF_BITS)), like(pattern, MANTISSA_BITS)
    )
    return k, from_bits(int_subtract(pattern, shift_left(k, like(k, MANTISSA_BITS))))


@lane
def log_of_product(exponent, f):
    """exponent·ln2 + log(1 + f)."""
    square = f * f
    rest = fma(exponent, LN2_LOW, square * (f * polynomial(f, LOG)))
    rest = fma(square, MINUS_HALF, rest)
    return fma(exponent, LN2_HIGH, f + rest)


@lane
def at_the_edges(x, y, infinite):
    """y, or what a logarithm of x is where x is not positive and finite."""
    y = y if x < like(x, np.inf) else infinite
    edge = like(x, -np.inf) if x == 0 else like(x, np.nan)
    return y if x > 0 else edge
