"""Where the elements of a launch lie: one loop shape for all operands, and a row for each.

See `fastgrad.vector_unit.data_copy` for what a row means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..vector_unit.constants import STRIDED, SWAPPED

__all__ = ["Layout", "dense", "layout_of", "memory_order"]

Layout = tuple[np.ndarray, np.ndarray]


def dense(operands: int) -> Layout:
    """The layout of a launch whose operands are all contiguous in the same order."""
    return np.zeros(1, np.int64), np.zeros((operands, 3), np.int64)


def memory_order(array: np.ndarray) -> tuple[int, ...]:
    """The axes of `array`, the one with the largest steps in memory first."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def layout_of(arrays: Sequence[np.ndarray], axes: Sequence[int]) -> Layout:
    """The layout for `arrays` of one shape, walked in the order of `axes`."""
    turned = [array.transpose(axes) for array in arrays]
    shape, strides = _merged(turned)
    rows = np.zeros((len(arrays), 2 + len(shape)), np.int64)
    for row, array, own_strides in zip(rows, turned, strides, strict=True):
        if _is_dense(array):
            continue
        row[0] = STRIDED if array.dtype.isnative else SWAPPED
        row[1] = array.__array_interface__["data"][0]
        row[2:] = own_strides
    return np.array(shape, np.int64), rows


def _is_dense(array: np.ndarray) -> bool:
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def _merged(arrays: Sequence[np.ndarray]) -> tuple[list[int], list[list[int]]]:
    """Shape and strides with axes of length 1 dropped and axes that continue each other joined."""
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in arrays]
    for axis, length in enumerate(arrays[0].shape):
        if length == 1:
            continue
        steps = [array.strides[axis] for array in arrays]
        if shape and all(
            own[-1] == step * length for own, step in zip(strides, steps, strict=True)
        ):
            shape[-1] *= length
            for own, step in zip(strides, steps, strict=True):
                own[-1] = step
        else:
            shape.append(length)
            for own, step in zip(strides, steps, strict=True):
                own.append(step)
    return shape or [1], [own or [0] for own in strides]
