"""Rounding and distance in the four precisions, for the tests."""

from __future__ import annotations

import ml_dtypes
import numpy as np

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def dtype_name(dtype) -> str:
    return np.dtype(dtype).name


def as_float64(array: np.ndarray) -> np.ndarray:
    """Exactly; a signalling NaN among them is none of the test's business."""
    with np.errstate(invalid="ignore"):
        return np.asarray(array).astype(np.float64)


def rounded(exact: np.ndarray, dtype) -> np.ndarray:
    """float64 values rounded once, to nearest even (ml_dtypes rounds twice, through float32)."""
    exact = np.asarray(exact, np.float64)
    with np.errstate(all="ignore"):
        if np.dtype(dtype) != BFLOAT16:
            return exact.astype(dtype)
        single = exact.astype(np.float32)
        # Round to odd in float32, so that the second rounding sees which side the value was on.
        inexact = (single != exact) & np.isfinite(single)
        toward_zero = np.where(
            np.abs(single) > np.abs(exact), np.nextafter(single, np.float32(0)), single
        )
        odd = toward_zero.view(np.uint32) | np.where(inexact, 1, 0).astype(np.uint32)
        return odd.view(np.float32).astype(BFLOAT16)


def spacing(value: np.ndarray, dtype) -> np.ndarray:
    """The distance of neighbouring numbers of `dtype` at |value| (a subnormal's at least)."""
    info = ml_dtypes.finfo(dtype)
    magnitude = np.minimum(np.abs(np.asarray(value, np.float64)), float(info.max))
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(magnitude, float(info.smallest_normal))))
        exponent = np.where(2.0**exponent > magnitude, exponent - 1, exponent)
        exponent = np.maximum(exponent, np.log2(float(info.smallest_normal)))
        return np.ldexp(1.0, (exponent - info.nmant).astype(int))


def error_in_ulp(
    got: np.ndarray, exact: np.ndarray, dtype, scale: np.ndarray | None = None
) -> np.ndarray:
    """|got - exact| in units of the spacing at `exact`, or at `scale` where that is larger.

    Equal infinities and two NaNs count as 0; a NaN or an infinity on one side only as infinite,
    unless `exact` rounds to that infinity.
    """
    got = as_float64(got)
    exact = np.asarray(exact, np.float64)
    target = rounded(exact, dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        unit = spacing(np.abs(exact) if scale is None else np.fmax(np.abs(exact), scale), dtype)
        error = np.abs(got - exact) / unit
    same = (got == target) | (np.isnan(got) & np.isnan(target))
    error = np.where(same & ~np.isfinite(target), 0.0, error)
    return np.where(np.isnan(error), np.inf, error)


def every_16_bit_value(dtype) -> np.ndarray:
    """All 65,536 bit patterns."""
    return np.arange(65536, dtype=np.uint16).view(dtype)
