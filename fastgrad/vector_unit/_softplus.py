"""softplus and log_sigmoid: log(1 + e) with e = e^-|z| in [0, 1].

With s = e/(2 + e), log(1 + e) = 2·atanh(s) and 2s = e - e·s, so it is e - e·s + 2s³·P(s²): nearly all of
its error is that of e.
"""

from __future__ import annotations

from ._coefficients import ATANH
from ._raised import LOWERED, minus_size, raised_exp
from .lanes import fma, lane, like, polynomial


@lane
def softplus(z):
    """log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), within 1.9 and 1.8 ULP."""
    rest = log_of_one_plus_decay(z)
    return rest if z < 0 else z + rest


@lane
def log_sigmoid(z):
    """log(sigmoid(z)) = -softplus(-z), within 1.9 and 1.8 ULP."""
    rest = log_of_one_plus_decay(z)
    return -rest if z > 0 else z - rest


@lane
def log_of_one_plus_decay(z):
    """log(1 + e^-|z|); of a NaN, anything."""
    e = raised_exp(minus_size(z), like(z, 0.0)) * like(z, LOWERED)
    s = e / (e + like(z, 2.0))
    square = s * s
    return fma(s, fma(square + square, polynomial(square, ATANH), -e), e)
