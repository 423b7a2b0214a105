"""Mish: z·tanh(softplus(z)), its gate and both of their slopes, from one exponential and one division.

With e = e^-|z| the gate tanh(softplus(z)) is, on either side of 0, a quotient of sums of positive terms:

    z <= 0:  e·(e + 2) / (e·(e + 2) + 2)          z > 0:  (2e + 1) / (2e·(e + 1) + 1)

which is e·n / d and n / d with n = p·e + q, d = p·e·(e + q) + q for (p, q) = (1, 2) and (2, 1). Its slope is
4e·(1 + e) / d² and 4e²·(1 + e) / d². Errors are the largest seen; see `_raised` for the exponential.

References
----------
Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", arXiv:1908.08681.
"""

from __future__ import annotations

from ._exponential import LOWEST, ROUNDER_OF_HALF, exp_parts, half_split, raised
from ._raised import LEAST_EXPONENT, LOWERED, raised_exp_parts
from .lanes import fabs, fma, lane, like, pair

__all__ = [
    "mish",
    "mish_gate",
    "mish_gate_slope",
    "mish_gate_slope_split",
    "mish_gate_split",
    "mish_slope",
]

#: From here on z·e^(-2z) counts for nothing beside 1.
LARGEST = pair(-20.0, -42.0)
#: Where e² is saturated, and up to where it is far from subnormal.
LOWEST_OF_SQUARE, NEAR = pair(LOWEST[0] / 2, LOWEST[1] / 2), pair(16.0)


@lane
def mish(z):
    """z·tanh(softplus(z)), within 3.7 and 3.3 ULP; inf and 0 at ±inf."""
    size, w, s, e = _decay(z)
    n, d = _quotient(z, e)
    product = (size if z < 0 else z) * (n / d)
    return fma(w, product, product) * s * like(z, LOWERED) if z < 0 else product


@lane
def mish_slope(z):
    """The derivative of `mish`, within 4.5 and 4.3 ULP of the larger of its terms; 1 and 0 at ±inf.

    e·((e + 2)·d + 4z·(1 + e)) / d² for z <= 0, above it 1 - e²·(2d - 4z·(1 + e)) / d², which is nearly 1.
    """
    size, w, s, e = _decay(z)
    n, d = _quotient(z, e)
    terms = fma(e + like(z, 1.0), size * like(z, 4.0), d * (n if z < 0 else like(z, 2.0)))
    q = terms / _square(z, e)
    lower = fma(w, q, q) * s * like(z, LOWERED)
    return lower if z < 0 else fma(e * q, -e, like(z, 1.0))


@lane
def _decay(z):
    """(size, w, s, e): -|z|, no less than what counts, NaN kept; e = e^size = (1 + w)·s·2^-OFFSET.

    What is to have an exact tail is multiplied with 1 + w, in one rounding, then with s, then LOWERED.
    """
    size, least = -fabs(z), like(z, LEAST_EXPONENT) if z < 0 else like(z, LARGEST)
    size = least if size < least else size
    w, s = raised_exp_parts(size)
    return size, w, s, fma(w, s, s) * like(z, LOWERED)


@lane
def mish_gate_split(z):
    """tanh(softplus(z)) as (q, s1, s2)."""
    one = like(z, 1.0)
    w, exponent = exp_parts(raised(-fabs(z)), ROUNDER_OF_HALF)
    half, s1, s2 = half_split(w, exponent)
    n, d = _quotient(z, half * s1 * s2)
    gate, is_above = n / d, z >= 0
    below = gate * like(z, 0.5)
    below = fma(w, below, below)
    return gate if is_above else below, one if is_above else s1, one if is_above else s2


@lane
def mish_gate(z):
    """tanh(softplus(z)), within 2.8 and 2.8 ULP."""
    q, s1, s2 = mish_gate_split(z)
    return q * s1 * s2


@lane
def mish_gate_slope_split(z):
    """The derivative of tanh(softplus(z)) as (q, s1, s2); above 0 the powers are those of e²."""
    one, size = like(z, 1.0), -fabs(z)
    is_above, is_near = z > 0, (z > 0) & (z < like(z, NEAR))
    least = like(z, LOWEST_OF_SQUARE) if is_above else like(z, LOWEST)
    is_lowest = size <= least
    w, exponent = exp_parts(least if is_lowest else size, ROUNDER_OF_HALF)
    half, s1, s2 = half_split(w, exponent)
    e = half * s1 * s2
    rest = (e + one) / _square(z, e)
    rest = rest * like(z, 0.25) if is_above else rest + rest
    q = fma(w, rest, rest)
    q = fma(w, q, q) if is_above else q
    s1 = s1 * s1 * like(z, 4.0) if is_above else s1
    s2 = s2 * s2 if is_above else s2
    # A power of two above 1 would come too late for the digits of a subnormal operand.
    q = q * s1 * s2 if is_near else q
    s2 = like(z, 0.0) if is_lowest else s2
    return q, one if is_near else s1, one if is_near else s2


@lane
def mish_gate_slope(z):
    """The derivative of tanh(softplus(z)), within 4.1 and 3.6 ULP."""
    q, s1, s2 = mish_gate_slope_split(z)
    return q * s1 * s2


@lane
def _quotient(z, e):
    """(n, d) of the gate for e = e^-|z|."""
    p, q = like(z, 1.0) if z < 0 else like(z, 2.0), like(z, 2.0) if z < 0 else like(z, 1.0)
    return fma(p, e, q), fma(p * e, e + q, q)


@lane
def _square(z, e):
    """d² of the gate for e = e^-|z|, rounded little more than once where e is small."""
    four, eight, below = like(z, 4.0), like(z, 8.0), z < 0
    total = fma(like(z, 1.0) if below else four, e, four if below else eight)
    total = fma(fma(total, e, eight), e, eight if below else four)
    return fma(total, e, four if below else like(z, 1.0))
