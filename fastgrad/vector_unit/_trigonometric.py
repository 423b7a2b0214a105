"""sin and cos: the operand less a multiple of π/2, and a polynomial of what is left, between -π/4 and π/4.

Both precisions are computed in float64. A float32 operand is multiplied with 2/π in seven parts of 29
bits: each product is exact, and so is its remainder of a division by 4, four quadrants being a full turn.
This takes the same steps for any operand, and the loop vectorises. A float64 operand has too many bits for
that: up to 2^22 it is reduced by π/2 in four parts (Cody and Waite), beyond by the parts of 2/π that matter
to it (Payne and Hanek, "Radian reduction for trigonometric functions", 1983), one lane at a time. Errors are
the largest seen.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from ..runtime.compiler import jit
from ._coefficients import COS, SIN
from .lanes import bits, fabs, floor, fma, from_bits, lane, polynomial, rint, table

__all__ = ["cos", "sin"]

#: 2/π in parts of 29 bits.
_TWO_OVER_PI = (
    0.636619770899415,
    1.4681663246252086e-09,
    2.2760100671971816e-18,
    5.8812147387730434e-27,
    1.0346868700836215e-35,
    3.783256351091319e-45,
    3.720474878517739e-53,
)
#: π/2 in three parts of 30 bits and the rest, and in two parts of 53.
_HALF_PI = (1.570796325802803, 9.920935791635221e-10, 5.17018297889025e-19, 2.9038559739793605e-28)
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
#: Multiples of π/2 have at most 22 bits up to here.
_FAST = 2.0**22
#: 2/π in whole numbers of 24 bits, for operands up to 2^1024, and how many of them one operand meets.
_CHUNK = 24
_WORDS = (
    "A2F983 6E4E44 1529FC 2757D1 F534DD C0DB62 95993C 439041 FE5163 ABDEBB C561B7 246E3A "
    "424DD2 E00649 2EEA09 D1921C FE1DEB 1CB129 A73EE8 8235F5 2EBB44 84E99C 7026B4 5F7E41 "
    "3991D6 398353 39F49C 845F8B BDF928 3B1FF8 97FFDE 05980F EF2F11 8B5A0A 6D1F6D 367ECF "
    "27CB09 B74F46 3F669E 5FEA2D 7527BA C7EBE5 F17B3D 0739F7 8A5292 EA6BFB 5FB11F 8D5D08 "
    "560330 46FC7B 6BABF0 CFBC20 9AF436 1DA9E3 91615E E61B08 "
)
_CHUNKS = np.array([float(int(word, 16)) for word in _WORDS.split()])
_MET = 9
_UPPER_HALF = np.int64(-(1 << 27))
#: The polynomials for float32, evaluated in float64.
_SHORT_SIN, _SHORT_COS = table(SIN[0], SIN[0]), table(COS[0], COS[0])
_MANTISSA, _BIAS = np.int64(52), np.int64(1023)


def sin(x):
    """The sine of x, within 0.56 and 0.8 ULP; NaN at an infinity."""
    raise NotImplementedError("a lane: only in compiled code")


def cos(x):
    """The cosine of x, within 0.56 and 0.8 ULP; NaN at an infinity."""
    raise NotImplementedError("a lane: only in compiled code")


@overload(sin, jit_options={"forceinline": True, "error_model": "numpy"})
def _sin_of(x):
    if x == types.float32:
        return lambda x: _single_sin(x)
    return (lambda x: _double_sin(x)) if x == types.float64 else None


@overload(cos, jit_options={"forceinline": True, "error_model": "numpy"})
def _cos_of(x):
    if x == types.float32:
        return lambda x: _single_cos(x)
    return (lambda x: _double_cos(x)) if x == types.float64 else None


@lane
def _single_sin(x):
    quadrant, turn = _quadrant_of_single(np.float64(x))
    y = np.float32(_nearly_at(quadrant, turn * _HALF_PI_HIGH))
    return x if x == 0 else y


@lane
def _single_cos(x):
    quadrant, turn = _quadrant_of_single(np.float64(x))
    return np.float32(_nearly_at(quadrant + 1.0, turn * _HALF_PI_HIGH))


@lane
def _double_sin(x):
    quadrant, high, low = _reduced(x)
    return x if x == 0 else _at(quadrant, high, low)


@lane
def _double_cos(x):
    quadrant, high, low = _reduced(x)
    return _at(quadrant + 1.0, high, low)


@lane
def _at(quadrant, high, low):
    """sin(quadrant·π/2 + high + low)."""
    z = high * high
    sine = high + fma(high * z, polynomial(z, SIN), low * (1.0 - 0.5 * z))
    half = 0.5 * z
    top = 1.0 - half
    cosine = top + (((1.0 - top) - half) + fma(z * z, polynomial(z, COS), -(high * low)))
    return _chosen(quadrant, sine, cosine)


@lane
def _nearly_at(quadrant, r):
    """sin(quadrant·π/2 + r) to a few digits more than float32 has."""
    z = r * r
    sine = fma(r * z, polynomial(z, _SHORT_SIN), r)
    cosine = fma(z, fma(z, polynomial(z, _SHORT_COS), -0.5), 1.0)
    return _chosen(quadrant, sine, cosine)


@lane
def _chosen(quadrant, sine, cosine):
    """One of the two, with the sign of the quadrant."""
    rest = quadrant - 4.0 * floor(quadrant * 0.25)
    y = cosine if (rest == 1.0) | (rest == 3.0) else sine
    return -y if rest >= 2.0 else y


@lane
def _remainder(product):
    """What is left of an exact product by whole turns of four quadrants, exactly."""
    return product - 4.0 * rint(product * 0.25)


@lane
def _quadrant_of_single(x):
    """(k, t) with x = (k + t)·π/2 up to whole turns, |t| <= 1/2, for a float32 in float64."""
    a, b = _remainder(x * _TWO_OVER_PI[0]), _remainder(x * _TWO_OVER_PI[1])
    c, d = _remainder(x * _TWO_OVER_PI[2]), _remainder(x * _TWO_OVER_PI[3])
    e, f = _remainder(x * _TWO_OVER_PI[4]), _remainder(x * _TWO_OVER_PI[5])
    g = _remainder(x * _TWO_OVER_PI[6])
    k = rint(a + b + c + d + e + f + g)
    # Large parts first: nothing is rounded before the whole quadrants are gone.
    return k, (a - k) + b + c + d + e + f + g


@lane
def _reduced(x):
    """(k, high, low) with x = k·π/2 + high + low up to whole turns."""
    if fabs(x) > _FAST:
        return _reduced_far(x)
    k = rint(x * (_TWO_OVER_PI[0] + _TWO_OVER_PI[1]))
    high = fma(-k, _HALF_PI[0], x)
    high, low = _two_sum(high, -k * _HALF_PI[1])
    high, more = _two_sum(high, -k * _HALF_PI[2])
    return (k, *_fast_two_sum(high, fma(-k, _HALF_PI[3], low + more)))


@jit
def _reduced_far(x):
    """The same for a large operand, in units of a quadrant: x·(2/π), of which whole turns do not count."""
    pattern = bits(x)
    exponent = ((pattern >> _MANTISSA) & np.int64(2047)) - _BIAS
    if exponent == 1024:
        return np.nan, np.nan, np.nan
    # x = m·2^exponent; the first parts give multiples of 4 with all bits of x.
    m = from_bits((pattern & ~(np.int64(2047) << _MANTISSA)) | (_BIAS << _MANTISSA))
    upper = from_bits(bits(m) & _UPPER_HALF)
    first = max(np.int64(0), (exponent - _MANTISSA - 2) // _CHUNK - 1)
    high, low = 0.0, 0.0
    for i in range(first, first + _MET):
        scale = from_bits((exponent - _CHUNK * (i + 1) + _BIAS) << _MANTISSA)
        part = _CHUNKS[i] * scale
        for half in (upper, m - upper):
            high, more = _two_sum(high, _remainder(half * part))
            low += more
    k = rint(high)
    high, low = _two_sum(high - k, low)
    top = high * _HALF_PI_HIGH
    rest = fma(high, _HALF_PI_HIGH, -top) + fma(high, _HALF_PI_LOW, low * _HALF_PI_HIGH)
    return (k, *_fast_two_sum(top, rest))


@lane
def _two_sum(a, b):
    """a + b and what its rounding left (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@lane
def _fast_two_sum(a, b):
    """The same for |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)
