"""Gates on their own operand, z·f(z), and their slopes, f(z) + w·f'(z): one instruction each.

Computed on the side where f decays, z < 0, as one product with the exponential; above, a slope is
mirrored by slope(z, w) = 1 - slope(-z, -w). So there is one exponential and one division, and the tail
keeps all its digits: the exponential stands 2^OFFSET higher than its value until the last
multiplication, and nothing is subnormal before that. Errors in float32 (docs/accuracy.md) are at most 4 ULP
for `silu` and `scaled_sigmoid`, 5 for `gelu`, and for a slope, which has a root, 5 ULP of the larger of its
terms (5.1 for `sigmoid_slope`); a subnormal result is within 3 of its spacings.
"""

from __future__ import annotations

from ._coefficients import GELU, GELU_SLOPE
from ._raised import LEAST_EXPONENT, LOWERED, RAISED, exp_with, minus_size, raised_exp
from .lanes import fabs, fma, lane, like, pair, polynomial

__all__ = ["gelu", "gelu_slope", "scaled_sigmoid", "sigmoid_slope", "silu", "silu_slope"]

LARGEST_SIZE = pair(14.75, 38.85)
MINUS_HALF = pair(-0.5)
#: For operands of their own: a·e^z is 0 for any a from LOWEST on, and raised from FAR on.
LOWEST, FAR = pair(-173.9, -1416.0), pair(-64.0, -600.0)
FAR_OFFSET = (126, 1022)
NEAR_ROUNDER = pair(1.5 * 2**23, 1.5 * 2**52)
FAR_ROUNDER = pair(1.5 * 2**23 + FAR_OFFSET[0], 1.5 * 2**52 + FAR_OFFSET[1])
FAR_HALF = pair(2.0 ** (-FAR_OFFSET[0] // 2), 2.0 ** (-FAR_OFFSET[1] // 2))
INV_SQRT_TWO_PI = pair(0.3989422804014327)

#: The shift in v = a/(a + shift), in which GELU and GELU_SLOPE are polynomials.
GELU_SHIFT, GELU_CENTER = pair(4.0), pair(0.4375)
HALF = pair(0.5)


@lane
def silu(z):
    """z·sigmoid(z); inf and 0 at ±inf."""
    below = minus_size(z)
    e = raised_exp(below, like(z, 0.0))
    t = like(z, 1.0) / fma(e, LOWERED, like(z, 1.0))
    product = (e * t) * below * like(z, LOWERED)
    return product if z < 0 else z * t


@lane
def scaled_sigmoid(a, z):
    """a·sigmoid(z), where the two need not go together: 0 where z is saturated, even at an infinite a.

    Far down, and only there, the exponential stands 2^FAR_OFFSET higher, and `a` half of that lower:
    nothing overflows for any a, nothing is lost that the product would have.
    """
    below, lowest = -fabs(z), like(z, LOWEST)
    saturated = (z <= lowest) & (a == a)
    below = lowest if below < lowest else below
    far = below < like(z, FAR)
    rounder = like(z, FAR_ROUNDER) if far else like(z, NEAR_ROUNDER)
    a = a if z == z else z  # what `exp_with` makes of a NaN may be a number
    e = exp_with(below, like(z, 0.0), rounder)
    half = like(z, FAR_HALF) if far else like(z, 1.0)
    t = like(z, 1.0) / ((like(z, 0.0) if far else e) + like(z, 1.0))
    product = (e * t) * (a * half) * half
    product = product if z < 0 else a * t
    return like(z, 0.0) if saturated else product


@lane
def silu_slope(z):
    """sigmoid(z) + z·sigmoid(z)·sigmoid(-z), the derivative of z·sigmoid(z); 1 and 0 at ±inf."""
    below = minus_size(z)
    e = raised_exp(below, like(z, 0.0))
    # The weight, which is `below` itself, is raised, so that the division lowers both.
    t = like(z, LOWERED) / fma(e, LOWERED, like(z, 1.0))
    return _mirrored(z, e * fma(below * like(z, RAISED), t, like(z, 1.0)) * t)


@lane
def sigmoid_slope(w, z):
    """sigmoid(z) + w·sigmoid(z)·sigmoid(-z); an infinite w counts for nothing where z is saturated."""
    below, least = -fabs(z), like(z, LEAST_EXPONENT)
    saturated = (below <= least) & (w == w)
    below = least if below < least else below
    w = w if z < 0 else -w
    w = like(z, 0.0) if saturated else w
    w = w if z == z else z  # what `raised_exp` makes of a NaN may be a number
    e = raised_exp(below, like(z, 0.0))
    t = like(z, 1.0) / fma(e, LOWERED, like(z, 1.0))
    return _mirrored(z, (e * t) * (fma(w, t, like(z, 1.0)) * like(z, LOWERED)))


@lane
def _mirrored(z, slope):
    """The slope at z, from that at -|z|."""
    return slope if z < 0 else like(z, 1.0) - slope


@lane
def gelu(x):
    """x·cdf(x) of the normal distribution; inf and 0 at ±inf."""
    a, e = _raised_gaussian(x)
    t = like(x, 1.0) / (a + like(x, GELU_SHIFT))
    tail = t * polynomial(a * t - like(x, GELU_CENTER), GELU)
    product = e * tail * -a * like(x, LOWERED)
    return product if x < 0 else x + product


@lane
def gelu_slope(x):
    """cdf(x) + x·pdf(x) of the normal distribution, the derivative of x·cdf(x); 1 and 0 at ±inf."""
    a, e = _raised_gaussian(x)
    v = a / (a + like(x, GELU_SHIFT))
    # What is left of cdf(-a) and of a·pdf(a) without e^(-a²/2).
    cdf = fma(polynomial(v, GELU_SLOPE), v, like(x, HALF))
    terms = fma(a, -like(x, INV_SQRT_TWO_PI), cdf)
    return _mirrored(x, e * terms * like(x, LOWERED))


@lane
def _raised_gaussian(x):
    """(a, e): a = |x|, at most LARGEST_SIZE, NaN kept; e = e^(-a²/2)·2^OFFSET, the square exact."""
    a, largest = fabs(x), like(x, LARGEST_SIZE)
    a = largest if a > largest else a
    half = a * like(x, MINUS_HALF)
    product = a * half
    return a, raised_exp(product, fma(a, half, -product))
