"""Random arrays: shapes around tiles and launches, layouts of every kind, values with special ones."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "DTYPES",
    "bits",
    "blank",
    "contiguous",
    "describe",
    "operand",
    "shape_of",
    "surroundings",
]

DTYPES = tuple(map(np.dtype, (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)))
#: Nothing, a lane, a line, a tile, a launch, several units of a sum: each with its neighbours.
SIZES = (0, 1, 7, 64, 1000, 2047, 2048, 2049, 16383, 16384, 16385, 100_003, 1 << 18)

Rng = np.random.Generator


def shape_of(rng: Rng, least_axes: int = 0) -> tuple[int, ...]:
    """A shape of about one of the sizes, of up to four axes."""
    size = int(rng.choice(SIZES))
    axes = int(rng.integers(least_axes, 5))
    if axes == 0:
        return ()
    shape = [int(rng.choice([1, 2, 3, 5])) for _ in range(axes - 1)]
    shape.append(size if axes == 1 else -(-size // math.prod(shape)))
    return tuple(int(length) for length in rng.permutation(shape))


def blank(
    rng: Rng, shape: tuple[int, ...], dtype: np.dtype, *, is_result: bool = False
) -> np.ndarray:
    """An array of zeros in a random layout, in a buffer of its own with room around it.

    Axes in any order, with gaps, backwards, not aligned; operands also big-endian and with strides of 0.
    """
    is_odd = rng.random() < 0.7
    order = (
        rng.permutation(len(shape)) if is_odd and rng.random() < 0.5 else range(len(shape))[::-1]
    )
    strides, origin, span = [0] * len(shape), 0, dtype.itemsize
    for axis in order:  # the innermost first
        length = max(shape[axis], 1)
        step = span * int(rng.choice([1, 1, 1, 2, 3])) if is_odd else span
        span = step * length + (dtype.itemsize * int(rng.integers(0, 3)) if is_odd else 0)
        if is_odd and not is_result and rng.random() < 0.1:
            step = 0
        elif is_odd and rng.random() < 0.2:
            origin, step = origin + step * (length - 1), -step
        strides[axis] = step
    offset = dtype.itemsize * int(rng.integers(0, 20)) + (int(rng.random() < 0.2) if is_odd else 0)
    if is_odd and not is_result and dtype.kind == "f" and rng.random() < 0.2:
        dtype = dtype.newbyteorder()
    base = np.full(offset + span + 64, 0xA5, np.uint8)
    return np.ndarray(shape, dtype, base.data, offset + origin, strides)


def operand(rng: Rng, shape: tuple[int, ...], dtype: np.dtype, special: float) -> np.ndarray:
    """An operand in a random layout; the share `special` of its elements is not ordinary."""
    values = _values(rng, shape, dtype, special)
    array = blank(rng, shape, dtype)
    array[...] = values.astype(array.dtype)
    if rng.random() < 0.1:
        array.flags.writeable = False
    return array


def _values(rng: Rng, shape: tuple[int, ...], dtype: np.dtype, special: float) -> np.ndarray:
    values = rng.normal(0, rng.choice([0.3, 1, 1, 3, 10]), shape)
    if rng.random() < 0.3:
        values = np.round(values * 2) / 2  # ties, and both zeros
    info = ml_dtypes.finfo(dtype)
    extreme = np.exp2(rng.uniform(math.log2(info.smallest_subnormal), math.log2(info.max), 12))
    kinds = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, *extreme, *-extreme])
    return np.where(rng.random(shape) < special, rng.choice(kinds, shape), values)


def contiguous(array: np.ndarray) -> np.ndarray:
    """A copy in C order and native bytes."""
    return np.array(array, array.dtype.newbyteorder("="), order="C", copy=True)


def bits(array: Any) -> bytes:
    return contiguous(np.asarray(array)).tobytes()


def surroundings(array: Any) -> bytes:
    """Everything in the buffer of a `blank` array that is not one of its elements."""
    whole = np.frombuffer(array.base, np.uint8)
    rest, element = whole.copy(), f"V{array.itemsize}"
    offset = array.ctypes.data - whole.ctypes.data
    elements = np.ndarray(array.shape, element, rest.data, offset, array.strides)
    elements[...] = np.zeros((), element)
    return rest.tobytes()


def describe(array: Any) -> str:
    if not isinstance(array, np.ndarray):
        return repr(array)
    alignment = "" if array.flags.aligned else " unaligned"
    writable = "" if array.flags.writeable else " read-only"
    return (
        f"{array.dtype.str}{list(array.shape)} strides {list(array.strides)}{alignment}{writable}"
    )
