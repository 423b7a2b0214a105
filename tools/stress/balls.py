"""Values in wide arithmetic with a bound on what a correct kernel may differ by.

A `Ball` is a centre with a bound on the error of the kernel's value there (running error analysis): an
instruction adds the ULP that the vector unit states and carries over its operands' errors, a function by its
values at both ends of its operand. So the bound follows the condition of the maths at every point; where
cancellation or overflow leaves no certain digit, it is infinite or as wide as the value. A NaN that comes
from a NaN among the operands is certain (bound 0); any other, and what infinite operands give, is not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Compute:
    """What a kernel computes in, and what the reference does.

    `function` is the bound of a function in ULP: what the vector unit states, and twice that because sums
    and products that are one instruction (`silu_slope`, `gelu`) have 5 ULP; in float64 SciPy's own error
    too. `basic` is arithmetic's, which rounds once: the rest is for products in another order.
    """

    wide: Any
    eps: float
    tiny: float
    largest: float
    function: float
    basic: float = 1.0

    def spacing(self, value: Array) -> Array:
        """The distance of neighbouring numbers at `value`."""
        exponent = np.frexp(np.where(np.isfinite(value), value, 0))[1]
        return np.maximum(np.ldexp(self.wide(self.eps), exponent - 1), self.tiny)


FLOAT32 = Compute(np.float64, 2.0**-23, 2.0**-149, float(np.finfo(np.float32).max), 4.0)
FLOAT64 = Compute(np.longdouble, 2.0**-52, 2.0**-1074, float(np.finfo(np.float64).max), 8.0)


class Ball:
    """A value and a bound on the error of the kernel's."""

    def __init__(self, value: Array, error: Array, compute: Compute):
        self.value, self.error, self.compute = value, error, compute

    @classmethod
    def exact(cls, value: Array, compute: Compute) -> Ball:
        """An operand: without error; an infinite one is not judged."""
        wide = np.asarray(value).astype(compute.wide)
        return cls(wide, np.where(np.isinf(wide), np.inf, 0).astype(compute.wide), compute)

    @classmethod
    def constant(cls, value: float, compute: Compute) -> Ball:
        """A constant, which the kernel rounds."""
        wide = np.asarray(value, compute.wide)
        return cls(wide, np.abs(wide) * compute.eps / 2, compute)

    def made(self, value: Array, carried: Array, ulp: Array, *others: Ball) -> Ball:
        """The result of an instruction of `ulp` on this and `others`, given the error carried over."""
        compute, args = self.compute, (self, *others)
        error = carried + ulp * compute.spacing(value)
        # Any unknown operand makes the sum of the errors infinite, any NaN the sum of the values NaN.
        known = np.isfinite(sum(arg.error for arg in args))
        of_nan = known & np.isnan(value) & np.isnan(sum(arg.value for arg in args))
        fits = known & (np.abs(value) + error <= compute.largest)
        error = np.where(of_nan, 0, np.where(fits, error, np.inf)).astype(compute.wide)
        return Ball(value, error, compute)

    def __add__(self, other: Ball) -> Ball:
        carried = self.error + other.error
        return self.made(self.value + other.value, carried, self.compute.basic, other)

    def __neg__(self) -> Ball:
        return Ball(-self.value, self.error, self.compute)

    def __mul__(self, other: Ball) -> Ball:
        (a, ea), (b, eb) = (self.value, self.error), (other.value, other.error)
        carried = np.abs(a) * eb + np.abs(b) * ea + ea * eb
        return self.made(a * b, carried, self.compute.basic, other)

    def __truediv__(self, other: Ball) -> Ball:
        (a, ea), (b, eb) = (self.value, self.error), (other.value, other.error)
        quotient = a / b
        carried = (ea + np.abs(quotient) * eb) / np.maximum(np.abs(b) - eb, 0)
        return self.made(quotient, carried, self.compute.basic, other)

    def map(self, function: Callable[[Array], Array], ulp: Array) -> Ball:
        """A function that is monotone, or nearly so, within the error of its operand."""
        value = function(self.value)
        ends = function(self.value - self.error), function(self.value + self.error)
        carried = np.maximum(np.abs(ends[0] - value), np.abs(ends[1] - value))
        return self.made(value, np.where(self.error == 0, 0, carried), ulp)


def compared(a: Ball, b: Ball, holds: Callable[[Array, Array], Array]) -> Ball:
    """A condition: 1 or 0, with an error of 1 where the operands' errors may decide it."""
    margin = a.error + b.error
    certain = (margin == 0) | (np.abs(a.value - b.value) > margin)
    certain |= np.isnan(a.value) | np.isnan(b.value)
    error = np.where(np.isfinite(margin), np.where(certain, 0, 1), np.inf)
    wide = a.compute.wide
    return Ball(holds(a.value, b.value).astype(wide), error.astype(wide), a.compute)


def chosen(condition: Ball, a: Ball, b: Ball) -> Ball:
    """a where the condition holds, else b; either of them where an error decides."""
    is_a = condition.value != 0
    value, error = np.where(is_a, a.value, b.value), np.where(is_a, a.error, b.error)
    either = np.abs(a.value - b.value) + np.maximum(a.error, b.error)
    either = np.where(np.isfinite(condition.error + either), either, np.inf)
    return Ball(value, np.where(condition.error > 0, either, error), a.compute)


def nan_of(ball: Ball) -> Ball:
    """NaN where the operand is, else 0."""
    value = np.where(np.isnan(ball.value), np.nan, 0).astype(ball.compute.wide)
    return Ball(value, np.where(np.isfinite(ball.error), 0, np.inf), ball.compute)
