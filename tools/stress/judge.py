"""Whether results are right: kernels beside the reference, and the reference beside central differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np

from .balls import FLOAT32, FLOAT64, Array, Ball, Compute
from .duals import MATHS, reference
from .programs import Program

__all__ = ["Fault", "check_slopes", "check_sum", "check_values", "compute_of"]


class Fault(AssertionError):
    """Something that must not be."""


def compute_of(dtype: np.dtype) -> Compute:
    return FLOAT64 if dtype == np.float64 else FLOAT32


def check_values(got: Array, ball: Ball, dtype: np.dtype, operands: Mapping[str, Array]) -> int:
    """Results of full shape, one for each lane of `ball`; returns how many it could judge.

    A kernel of 16 bits rounds its float32 result once more.

    Raises
    ------
    Fault
        With the operands of the lane that is furthest off.
    """
    value, error = np.broadcast_to(ball.value, got.shape), np.broadcast_to(ball.error, got.shape)
    wide = got.astype(ball.compute.wide)
    allowed = error + (_half_spacing(np.abs(value) + error, dtype) if dtype.itemsize == 2 else 0)
    is_known = np.isfinite(error) & (np.abs(value) + allowed <= float(ml_dtypes.finfo(dtype).max))
    is_nan = np.isnan(value) & (error == 0)
    with np.errstate(invalid="ignore"):
        off = np.abs(wide - value)
    wrong = (is_known & ~(off <= allowed)) | (is_nan & ~np.isnan(wide))
    if wrong.any():
        with np.errstate(all="ignore"):
            times = np.nan_to_num(off / allowed, nan=np.inf)
        worst = np.argmax(np.where(wrong, times, -1))
        at = {name: np.broadcast_to(a, got.shape).flat[worst] for name, a in operands.items()}
        raise Fault(
            f"{wrong.sum()} of {wrong.size} values are off, the furthest {got.flat[worst]!r} instead "
            f"of {value.flat[worst]!r} ± {allowed.flat[worst]!r} at {at}"
        )
    return int((is_known & (error <= 1e-3 * np.abs(value))).sum())


def _half_spacing(value: Array, dtype: np.dtype) -> Array:
    """Half of the distance of neighbours in `dtype` at `value`, or a little more."""
    info = ml_dtypes.finfo(dtype)
    exponent = np.frexp(np.where(np.isfinite(value), value, 1))[1] - 1
    exponent = np.maximum(exponent, round(math.log2(float(info.smallest_normal))))
    return np.ldexp(0.501, exponent - info.nmant)


def check_sum(got: float, ball: Ball, size: int) -> int:
    """A sum over all lanes of `ball`; returns 1 if it could judge it.

    Sums are taken in float64, at most a few hundred in a row.
    """
    value, error = np.broadcast_to(ball.value, size), np.broadcast_to(ball.error, size)
    with np.errstate(invalid="ignore"):
        allowed, total = error.sum() + 600 * FLOAT64.eps * np.abs(value).sum(), value.sum()
    if not np.isfinite(allowed) or np.isnan(total):
        return 0
    # A gradient is given in the parameter's own dtype, of 16 bits at least.
    if not abs(got - total) <= allowed:
        raise Fault(f"a sum is {got!r} instead of {total!r} ± {allowed!r}")
    return 1


def check_slopes(program: Program, operands: Mapping[str, Array]) -> int:
    """The reference's derivatives beside central differences, where these agree with each other.

    They do not near a kink or a step, and where the function is too steep.
    """
    function, judged = program.function(MATHS), 0
    for name in operands:
        slope = reference(function, operands, (name,), FLOAT64).slopes.get(name)
        given = np.longdouble(0) if slope is None else slope.value

        def near(h: float, name: str = name) -> Ball:
            x = operands[name].astype(np.longdouble) + h
            return reference(function, {**operands, name: x}, (), FLOAT64).ball

        with np.errstate(all="ignore"):
            (wide, _), (narrow, noise) = _difference(near, 1e-4), _difference(near, 5e-5)
            agree = (np.abs(wide - narrow) <= 1e-6 * np.abs(narrow)) & np.isfinite(noise)
            off = agree & ~(np.abs(given - narrow) <= 1e-5 * np.abs(narrow) + noise)
        if off.any():
            at = {key: np.broadcast_to(a, off.shape)[off][0] for key, a in operands.items()}
            raise Fault(f"the reference's slope by {name} is no derivative at {at}")
        judged += int(agree.sum())
    return judged


def _difference(near: Callable[[float], Ball], h: float) -> tuple[Array, Array]:
    """A central difference, and what rounding may have done to it."""
    after, before = near(h), near(-h)
    return (after.value - before.value) / (2 * h), (after.error + before.error) / (2 * h)
