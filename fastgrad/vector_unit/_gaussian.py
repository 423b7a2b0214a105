"""The Gaussian family: the normal distribution, erf and erfc, with exact tails.

The exponent -x²/2 is squared with a high and a low part. The tail beside it, R(a) = cdf(-a)·e^(a²/2)
for a = |x|, is S(v)/(a + offset) with v = a/(a + k) and a polynomial S that varies little, so that cdf and
pdf share one exponential. What rounding left of the quotient is carried along to the last addition.

Errors are the largest seen, in ULP of float32 (all its values: docs/accuracy.md) and of float64 (some
thousand values against mpmath). SLEEF states 1.0 for erf and 1.5 for erfc. The form of the tail is
that of Shepherd and Laframboise, "Chebyshev Approximation of (1 + 2x)exp(x²)erfc x", 1981.
"""

from __future__ import annotations

from ._coefficients import (
    ERF,
    ERFC,
    ERFC_AT_CENTER,
    ERFC_CENTER,
    ERFC_OFFSET,
    ERFC_SHIFT,
    MILLS,
    MILLS_AT_CENTER,
    MILLS_CENTER,
    MILLS_OFFSET,
    MILLS_SHIFT,
)
from ._exponential import (
    LOG2_E,
    ROUNDER,
    ROUNDER_OF_HALF,
    exp_minus_one,
    half_split,
    powers,
    remainder,
)
from .lanes import bits, copysign, fabs, fma, lane, like, pair, polynomial

#: e^(-a²/2) and e^(-a²) saturate from here on: n is one below twice the least exponent, or two.
LARGEST, LARGEST_OF_SQUARE = pair(18.724, 53.245), pair(13.257, 37.659)
MINUS_HALF = pair(-0.5)
INV_SQRT_TWO_PI = pair(0.3989422804014327)
ERF_NEAR = pair(0.75)


@lane
def normal_cdf(x):
    """Φ(x), the standard normal distribution, within 1.94 and 1.3 ULP."""
    q, s1, s2 = lower_tail(x)
    below = q * s1 * s2
    return like(x, 1.0) - below if x > 0 else below


@lane
def normal_cdf_split(x):
    """Φ(x) as (q, s1, s2)."""
    q, s1, s2 = lower_tail(x)
    one = like(x, 1.0)
    return (
        one - q * s1 * s2 if x > 0 else q,
        one if x > 0 else s1,
        one if x > 0 else s2,
    )


@lane
def normal_pdf(x):
    """φ(x), the standard normal density, within 1.36 and 1.3 ULP."""
    q, s1, s2 = normal_pdf_split(x)
    return q * s1 * s2


@lane
def normal_pdf_split(x):
    """φ(x) as (q, s1, s2)."""
    w, n = gaussian_parts(x)
    s1, s2 = powers(n)
    return fma(w, INV_SQRT_TWO_PI, like(x, INV_SQRT_TWO_PI)), s1, s2


@lane
def lower_tail(x):
    """Φ(-|x|) as (q, s1, s2)."""
    w, n = gaussian_parts(x)
    s1, s2 = powers(n)
    a = capped(x, LARGEST)
    high, low = tail(a, MILLS_SHIFT, MILLS_OFFSET, MILLS_CENTER, MILLS_AT_CENTER, MILLS)
    return high + fma(w, high, fma(w, low, low)), s1, s2


@lane
def exp_neg_square(x):
    """e^(-x²), within 1.2 and 1.1 ULP."""
    q, s1, s2 = exp_neg_square_split(x)
    return q * s1 * s2


@lane
def exp_neg_square_split(x):
    """e^(-x²) as (q, s1, s2)."""
    a = capped(x, LARGEST_OF_SQUARE)
    w, n = exp_parts_of_product(a, -a, ROUNDER_OF_HALF)
    return half_split(w, n)


@lane
def erfc(x):
    """1 - erf(x), within 1.87 and 1.4 ULP."""
    below = erfc_of_size(x)
    return like(x, 2.0) - below if x < 0 else below


@lane
def erf(x):
    """The error function, x + x·P(x²) near 0, within 0.9 and 0.8 ULP."""
    near = fma(x, polynomial(x * x, ERF), x)
    far = copysign(like(x, 1.0) - erfc_of_size(x), x)
    return near if fabs(x) < like(x, ERF_NEAR) else far


@lane
def erfc_of_size(x):
    """erfc(|x|)."""
    a = capped(x, LARGEST_OF_SQUARE)
    w, n = exp_parts_of_product(a, -a, ROUNDER)
    s1, s2 = powers(n)
    high, low = tail(a, ERFC_SHIFT, ERFC_OFFSET, ERFC_CENTER, ERFC_AT_CENTER, ERFC)
    return (high + fma(w, high, fma(w, low, low))) * s1 * s2


@lane
def gaussian_parts(x):
    """(w, n) with e^(-x²/2) = (1 + w)·2^n."""
    a = capped(x, LARGEST)
    return exp_parts_of_product(a, a * like(x, MINUS_HALF), ROUNDER)


@lane
def exp_parts_of_product(a, b, rounder):
    """(w, n) with e^(a·b) = (1 + w)·2^n, the product taken exactly."""
    product = a * b
    shifted = fma(product, LOG2_E, like(a, rounder))
    r = remainder(product, shifted - like(a, rounder)) + fma(a, b, -product)
    return exp_minus_one(r), bits(shifted)


@lane
def tail(a, shift, offset, center, at_center, coefficients):
    """S(v) / (a + offset) with v = a/(a + shift), S in v - center, as a sum of a high and a low part."""
    one = like(a, 1.0)
    distance = a + like(a, offset)
    inverse = one / distance
    # The relative error of the inverse: what the sum lost, and what the division did.
    residual = fma(-inverse, a - (distance - like(a, offset)), fma(-inverse, distance, one))
    y = a / (a + like(a, shift)) - like(a, center)
    change = y * polynomial(y, coefficients)
    s = change + like(a, at_center)
    s_low = change - (s - like(a, at_center))
    high = s * inverse
    return high, fma(s_low, inverse, fma(high, residual, fma(s, inverse, -high)))


@lane
def capped(x, largest):
    """|x|, at most `largest`, NaN kept."""
    a = fabs(x)
    high = like(x, largest)
    return high if a > high else a
