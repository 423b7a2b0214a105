"""The exponential family: exp, exp2, expm1, sigmoid, tanh and their exact tails.

All start from one reduction (Cody and Waite, "Software Manual for the Elementary Functions", 1980):
x = n·ln2 + r, |r| <= ln2/2, and e^r - 1 = r + r²·P(r), so functions of the same operand share it. A
*split* form returns ``(q, s1, s2)`` with the value q·s1·s2: q holds all digits and is at most 1 in
size, s1 and s2 are normal powers of two, and s2 is 0 past the saturation point. An operand multiplied
in before s1 and s2 (`scaled`) keeps its digits where the plain value has none left.

Errors are the largest seen, in ULP of float32 (all its values: docs/accuracy.md) and of float64 (some
thousand values against mpmath). SLEEF states 1.0 for the like. That a quotient is made nearly exact by
its residual is in Muller et al., "Handbook of Floating-Point Arithmetic", 2018, chapter 4.
"""

from __future__ import annotations

from ._coefficients import EXP, TANHSHRINK
from .lanes import (
    bits,
    copysign,
    fabs,
    fma,
    from_bits,
    int_add,
    int_pair,
    int_subtract,
    lane,
    like,
    pair,
    polynomial,
    shift_left,
    shift_right,
)


def _rounder(offset):
    """1.5·2^p + 2·bias + offset: adding it rounds to an integer n and leaves n + 2·bias + offset in
    the low bits, one half of which and the rest are the exponent fields of two powers of two.
    """
    return pair(1.5 * 2**23 + 2 * 127 + offset, 1.5 * 2**52 + 2 * 1023 + offset)


LOG2_E = pair(1.4426950408889634)
LN2 = pair(0.6931471805599453)
#: ln2 in two parts; the product of the first with any n here is exact.
MINUS_LN2_HIGH = pair(-float.fromhex("0x1.62e4p-1"), -float.fromhex("0x1.62e42feep-1"))
MINUS_LN2_LOW = pair(-float.fromhex("0x1.7f7d1cp-20"), -float.fromhex("0x1.a39ef35793c76p-33"))
MANTISSA_BITS = int_pair(23, 52)
ONE = int_pair(1, 1)
HALF = pair(0.5)
INFINITY = pair(float("inf"))
#: For e^x as (1 + w)·2^n.
ROUNDER = _rounder(0)
#: For (1 + w)/2·2^(n + 1): a split form needs q below 1, so that q·a is finite if a is.
ROUNDER_OF_HALF = _rounder(1)
#: For (1 + w)/2·t²·2^(n + 3).
ROUNDER_OF_SECH2 = _rounder(3)
#: For 2^(n - 1) in one factor.
ROUNDER_OF_EXPM1 = pair(1.5 * 2**23 + 126, 1.5 * 2**52 + 1022)
#: (1 + w)·2^n is a normal number from here on.
LEAST_EXPONENT = int_pair(-125, -1021)

#: e^x saturates below the first: n is twice the least exponent less two. At the second, n + 1 is
#: twice the largest exponent.
LOWEST, HIGHEST = pair(-175.75, -1418.2), pair(175.5, 1417.5)
#: The same for ROUNDER_OF_SECH2, where e^x is scaled up by two powers more.
LOWEST_OF_SECH2 = pair(-177.4, -1419.6)
LOWEST_OF_EXP2, HIGHEST_OF_EXP2 = pair(-254.0, -2046.0), pair(253.0, 2045.0)
#: Where e^x - 1 is -1 for long, and where it is inf.
LOWEST_OF_EXPM1, HIGHEST_OF_EXPM1 = pair(-60.0), pair(89.0, 710.0)
#: Below this size e^x - 1 is x.
TINY = pair(2.0**-100)


@lane
def exp(x):
    """e^x, within 0.9 and 0.8 ULP.

    As 2^n·(1 + r·(1 + r·P(r))), which rounds a little less than 2^n·(1 + w) of `exp_parts`: that
    reaches 1.01.
    """
    x = clamped(x)
    shifted = fma(x, LOG2_E, like(x, ROUNDER))
    r = remainder(x, shifted - like(x, ROUNDER))
    growth = fma(r, polynomial(r, EXP), like(x, 1.0))
    s1, s2 = powers(bits(shifted))
    return fma(r * s1, growth, s1) * s2


@lane
def exp_split(x):
    """e^x as (q, s1, s2); q is inf where e^x times the least number would be."""
    w, n = exp_parts(clamped(x), ROUNDER_OF_HALF)
    q, s1, s2 = half_split(w, n)
    return like(x, INFINITY) if x > like(x, HIGHEST) else q, s1, s2


@lane
def exp2(x):
    """2^x, within 1.03 and 0.94 ULP; exact where x is an integer."""
    low, high = like(x, LOWEST_OF_EXP2), like(x, HIGHEST_OF_EXP2)
    x = low if x < low else x
    x = high if x > high else x
    shifted = x + like(x, ROUNDER)
    w = exp_minus_one((x - (shifted - like(x, ROUNDER))) * like(x, LN2))
    s1, s2 = powers(bits(shifted))
    return fma(w, s1, s1) * s2


@lane
def expm1(x):
    """e^x - 1 = 2^n·w + (2^n - 1), within 1.47 and 1.6 ULP; twice its half, as 2^n may overflow."""
    low, high = like(x, LOWEST_OF_EXPM1), like(x, HIGHEST_OF_EXPM1)
    clipped = low if x < low else x
    clipped = high if clipped > high else clipped
    w, n = exp_parts(clipped, ROUNDER_OF_EXPM1)
    s = power(n)
    half = fma(w, s, s - like(x, 0.5))
    return x if fabs(x) < like(x, TINY) else half + half


@lane
def sigmoid(z):
    """1 / (1 + e^-z), within 1.97 and 1.7 ULP."""
    e, t, residual, _, _ = sigmoid_parts(z)
    return (like(z, 1.0) if z >= 0 else e) * fma(residual, t, t)


@lane
def sigmoid_split(z):
    """1 / (1 + e^-z) as (q, s1, s2)."""
    _, t, residual, w, n = sigmoid_parts(z)
    half, s1, s2 = half_split(w, n)
    one = like(z, 1.0)
    q = (one if z >= 0 else half) * fma(residual, t, t)
    return q, one if z >= 0 else s1, one if z >= 0 else s2


@lane
def dsigmoid_split(z):
    """sigmoid(z)·sigmoid(-z) as (q, s1, s2): e / (1 + e)² with e = e^-|z|."""
    _, t, residual, w, n = sigmoid_parts(z)
    s1, s2 = powers(n)
    return bell(w, t, residual), s1, s2


@lane
def dsigmoid(z):
    """sigmoid(z)·sigmoid(-z), within 1.4 and 1.4 ULP."""
    q, s1, s2 = dsigmoid_split(z)
    return q * s1 * s2


@lane
def sigmoid_parts(z):
    """What sigmoid(z), sigmoid(-z) and their product share: (e, t, residual, w, n).

    e = e^-|z| = (1 + w)·2^n, and 1 / (1 + e) = t·(1 + residual).
    """
    w, n = exp_parts(raised(-fabs(z)), ROUNDER_OF_HALF)
    half, s1, s2 = half_split(w, n)
    e = half * s1 * s2
    t = like(z, 1.0) / (e + like(z, 1.0))
    return e, t, residual_of(t, e), w, n


@lane
def residual_of(t, e):
    """1 - t·(1 + e): the relative error of t as the value of 1 / (1 + e), 0 <= e <= 1.

    1 - t is exact, as t is between 1/2 and 1, whereas 1 + e was rounded.
    """
    return fma(-t, e, like(e, 1.0) - t)


@lane
def bell(w, t, residual):
    """(1 + w)/2·(t·(1 + residual))², rounded nearly once."""
    half = t * like(t, HALF)
    square = half * t
    low = fma(residual + residual, square, fma(half, t, -square))
    return square + fma(w, square, fma(w, low, low))


@lane
def tanh(z):
    """tanh(z) = -m / (2 + m) with m = e^(-2|z|) - 1, within 1.95 and 1.95 ULP."""
    _, _, m, t = tanh_parts(z)
    h = -m * t
    # The residual -m - h·(2 + m); -m - 2h is exact, as h is between -m/2 and -m.
    return copysign(fma(fma(-h, m, -m - (h + h)), t, h), z)


@lane
def sech2_split(z):
    """1 / cosh²(z) as (q, s1, s2): 4e / (1 + e)² with e = e^(-2|z|)."""
    w, n, _, t = tanh_parts(z)
    e = times_power(w + like(z, 1.0), true_exponent(n, ROUNDER_OF_SECH2))
    s1, s2 = powers(n)
    q = bell(w, t, residual_of(t, e))
    # Near 0, q·8 is the value, so that the product with a subnormal operand would lose three bits.
    near = fabs(z) < like(z, 0.5)
    q = q * like(z, 4.0) if near else q
    return q, s1 * like(z, 0.25) if near else s1, s2


@lane
def sech2(z):
    """1 / cosh²(z), within 1.4 and 1.4 ULP."""
    q, s1, s2 = sech2_split(z)
    return q * s1 * s2


@lane
def tanh_parts(z):
    """What tanh and its derivative share: (w, n, m, t).

    e^(-2|z|) = (1 + w)·2^n, m is it less 1, and t = 1 / (2 + m).
    """
    a = fabs(z)
    x, low = -(a + a), like(z, LOWEST_OF_SECH2)
    w, n = exp_parts(low if x < low else x, ROUNDER_OF_SECH2)
    one = like(z, 1.0)
    s = times_power(one, true_exponent(n, ROUNDER_OF_SECH2))
    m = fma(w, s, s - one)
    return w, n, m, like(z, 1.0) / (m + like(z, 2.0))


@lane
def tanhshrink(x):
    """x - tanh(x), within 2 and 1.6 ULP: by x³·P(x² - 1) where the difference would cancel."""
    square = x * x
    p = polynomial(square - like(x, 1.0), TANHSHRINK)
    high = square * p
    low = fma(fma(x, x, -square), p, fma(square, p, -high))
    near = fma(x, high, x * low)
    return near if fabs(x) < like(x, 1.4) else x - tanh(x)


@lane
def exp_parts(x, rounder):
    """(w, n) with e^x = (1 + w)·2^n, for x between LOWEST and HIGHEST; n as `rounder` leaves it."""
    shifted = fma(x, LOG2_E, like(x, rounder))
    n = shifted - like(x, rounder)
    return exp_minus_one(remainder(x, n)), bits(shifted)


@lane
def remainder(x, n):
    """x - n·ln2, rounded nearly once."""
    return fma(n, MINUS_LN2_LOW, fma(n, MINUS_LN2_HIGH, x))


@lane
def exp_minus_one(r):
    """e^r - 1 for |r| <= ln2/2."""
    return fma(r * r, polynomial(r, EXP), r)


@lane
def clamped(x):
    """x between LOWEST and HIGHEST, NaN kept."""
    high = like(x, HIGHEST)
    x = raised(x)
    return high if x > high else x


@lane
def raised(x):
    """x, at least LOWEST, NaN kept."""
    low = like(x, LOWEST)
    return low if x < low else x


@lane
def half_split(w, n):
    """(1 + w)·2^n as (q, s1, s2), n as ROUNDER_OF_HALF leaves it."""
    s1, s2 = powers(n)
    return fma(w, HALF, like(w, 0.5)), s1, s2


@lane
def powers(n):
    """2^n as a product of two normal powers of two, for the n + 2·bias that a rounder leaves; the
    second is 0 where n is one or two below twice the least exponent.
    """
    second = shift_right(n, like(n, ONE))
    return power(int_subtract(n, second)), power(second)


@lane
def power(field):
    """The power of two with this exponent field; what stands above the field drops out."""
    return from_bits(shift_left(field, like(field, MANTISSA_BITS)))


@lane
def true_exponent(n, rounder):
    """The n that `rounder` left with its offset, at least LEAST_EXPONENT."""
    n = int_subtract(n, bits(like(from_bits(n), rounder)))
    least = like(n, LEAST_EXPONENT)
    return least if n < least else n


@lane
def times_power(p, n):
    """p·2^n for a normal result, by adding to the exponent field."""
    return from_bits(int_add(bits(p), shift_left(n, like(n, MANTISSA_BITS))))


@lane
def scaled(a, q, s1, s2):
    """a·f for a factor f = (q, s1, s2): 0 where f is saturated, even at an infinite a; NaN stays."""
    product = q * a
    product = product if (s2 != 0) | (product != product) else like(a, 0.0)
    return product * s1 * s2


@lane
def scaled2(a, b, q, s1, s2):
    """a·b·f for a factor f = (q, s1, s2), with the rule of `scaled` for both operands.

    No partial product overflows or becomes subnormal where the result does not. The larger operand meets
    a decaying factor first, the smaller one a growing factor; then s2 goes where it brings the other
    operand closer to 1. q, which may be small where a factor grows little, never meets the smaller operand.
    """
    one = like(a, 1.0)
    grows = s2 > 1
    a_first = (fabs(a) > fabs(b)) != grows
    first, second = a if a_first else b, b if a_first else a
    begun = first * s1 * (one if grows else q)
    rest = q if grows else one
    together = begun * (second * s2 * rest)
    in_turn = begun * (second * rest) * s2
    product = together if (fabs(second) >= 1) != grows else in_turn
    is_nan = (q != q) | (a != a) | (b != b)
    return product if (s2 != 0) | is_nan else like(a, 0.0)
