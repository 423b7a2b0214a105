"""The exponential of what is not positive, 2^OFFSET higher than its value: nothing is subnormal in a product
with it, and it keeps all its digits until the last multiplication, with LOWERED.
"""

from __future__ import annotations

from ._exponential import LOG2_E, MANTISSA_BITS, exp_minus_one, exp_parts, power, remainder
from .lanes import bits, fabs, fma, from_bits, int_add, lane, like, pair, shift_left

#: Exponents that the exponential is raised by, and adding which rounds to an integer n and leaves
#: n + OFFSET in the low bits.
OFFSET = (36, 72)
ROUNDER = pair(1.5 * 2**23 + OFFSET[0], 1.5 * 2**52 + OFFSET[1])
#: The same with the bias of an exponent field.
ROUNDER_OF_PARTS = pair(ROUNDER[0] + 127, ROUNDER[1] + 1023)
RAISED = pair(2.0 ** OFFSET[0], 2.0 ** OFFSET[1])
LOWERED = pair(2.0 ** -OFFSET[0], 2.0 ** -OFFSET[1])
#: From here on z·e^z, and a·e^(-a²/2), are less than half of the least subnormal.
LEAST_EXPONENT = pair(-111.0, -753.0)


@lane
def minus_size(z):
    """-|z|, at least LEAST_EXPONENT; NaN kept."""
    below, least = -fabs(z), like(z, LEAST_EXPONENT)
    return least if below < least else below


@lane
def raised_exp(x, low):
    """e^(x + low)·2^OFFSET for x <= 0 and a correction `low`; of a NaN, anything."""
    return exp_with(x, low, like(x, ROUNDER))


@lane
def raised_exp_parts(x):
    """(w, s) with e^x·2^OFFSET = (1 + w)·s and s a power of two, for x <= 0; of a NaN, a NaN as w."""
    w, n = exp_parts(x, ROUNDER_OF_PARTS)
    return w, power(n)


@lane
def exp_with(x, low, rounder):
    """e^(x + low), raised by the exponents that `rounder` leaves in the low bits."""
    shifted = fma(x, LOG2_E, rounder)
    r = remainder(x, shifted - rounder) + low
    mantissa = exp_minus_one(r) + like(x, 1.0)
    exponent = bits(shifted)
    return from_bits(int_add(bits(mantissa), shift_left(exponent, like(exponent, MANTISSA_BITS))))
