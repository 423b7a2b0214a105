"""Mish: z·tanh(softplus(z)), its gate and both of their slopes, from one exponential and one division.

With e = e^-|z| the gate tanh(softplus(z)) is, on either side of 0, a quotient of sums of positive terms:

    z <= 0:  e·(e + 2) / (e·(e + 2) + 2)          z > 0:  (2e + 1) / (2e·(e + 1) + 1)

which is e·n / d and n / d with n = p·e + q, d = p·e·(e + q) + q for (p, q) = (1, 2) and (2, 1). Its slope is
4e·(1 + e) / d² and 4e²·(1 + e) / d². Errors are the largest seen; see `gated` for the raised exponential.

References
----------
Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", arXiv:1908.08681.
"""

from __future__ import annotations

from ._exponential import ROUNDER_OF_HALF, exp_parts, half_split, raised
from .gated import LOWERED, minus_size, raised_exp
from .lanes import fabs, fma, lane, like

__all__ = [
    "mish",
    "mish_gate",
    "mish_gate_slope",
    "mish_gate_slope_split",
    "mish_gate_split",
    "mish_slope",
]


@lane
def mish(z):
    """z·tanh(softplus(z)); inf and 0 at ±inf."""
    size = minus_size(z)
    e = raised_exp(size, like(z, 0.0))
    n, d = _quotient(z, e * like(z, LOWERED))
    gate = n / d
    product = (e * gate) * size * like(z, LOWERED)
    return product if z < 0 else z * gate


@lane
def mish_slope(z):
    """The derivative of `mish`, its gate and z times the gate's slope; 1 and 0 at ±inf."""
    size = minus_size(z)
    raised_e = raised_exp(size, like(z, 0.0))
    e = raised_e * like(z, LOWERED)
    n, d = _quotient(z, e)
    t = like(z, 1.0) / d
    weighted = like(z, 4.0) * size * (e + like(z, 1.0))
    weighted = weighted if z < 0 else -(weighted * e) * e
    slope = fma(weighted, t, n) * t
    return (raised_e * slope) * like(z, LOWERED) if z < 0 else slope


@lane
def mish_gate_split(z):
    """tanh(softplus(z)) as (q, s1, s2)."""
    one = like(z, 1.0)
    half, s1, s2 = half_split(*exp_parts(raised(-fabs(z)), ROUNDER_OF_HALF))
    n, d = _quotient(z, half * s1 * s2)
    gate = n / d
    is_above = z >= 0
    return gate if is_above else half * gate, one if is_above else s1, one if is_above else s2


@lane
def mish_gate(z):
    """tanh(softplus(z))."""
    q, s1, s2 = mish_gate_split(z)
    return q * s1 * s2


@lane
def mish_gate_slope_split(z):
    """The derivative of tanh(softplus(z)) as (q, s1, s2)."""
    one = like(z, 1.0)
    half, s1, s2 = half_split(*exp_parts(raised(-fabs(z)), ROUNDER_OF_HALF))
    e = half * s1 * s2
    _, d = _quotient(z, e)
    t = one / d
    q = like(z, 4.0) * t * ((e + one) * t)
    return half * (q if z < 0 else q * e), s1, s2


@lane
def mish_gate_slope(z):
    """The derivative of tanh(softplus(z))."""
    q, s1, s2 = mish_gate_slope_split(z)
    return q * s1 * s2


@lane
def _quotient(z, e):
    """(n, d) of the gate for e = e^-|z|."""
    p, q = like(z, 1.0) if z < 0 else like(z, 2.0), like(z, 2.0) if z < 0 else like(z, 1.0)
    return fma(p, e, q), fma(p * e, e + q, q)
