"""One call of one program: a short way for plain arrays, a thorough one for everything else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels.layout import layout_of, memory_order
from ..program.compile import compiled
from ..program.program import Program
from ..runtime import memory
from ..runtime.tiling import get_block_size
from ..vector_unit.constants import DENSE
from ..vector_unit.precision import PRECISIONS, Precision
from ._arguments import Channel, as_operand, check_outs, check_same, precision_of

__all__ = ["ProgramRunner"]

_ndarray, _empty, _may_share_memory = np.ndarray, memory.empty, np.may_share_memory
# Bits of `ndarray.flags.num`.
_PLAIN = 0x001 | 0x100  # C-contiguous, aligned
_PLAIN_OUT = _PLAIN | 0x400  # and writable


class ProgramRunner:
    """Runs one program in any of the precisions.

    Parameters
    ----------
    program : Program
        What to run.
    reference : str
        The array operand that gives shape, dtype and memory order to the results.
    """

    def __init__(self, program: Program, reference: str):
        self.program = program
        self._names = [name for name in program.arrays if name not in program.channels]
        self._reference = self._names.index(reference)
        self._full = [result.operand for result in program.results if not result.reduced]
        self._summed = [result.operand for result in program.results if result.reduced]
        self._walks: dict[np.dtype, Any] = {}

    def prepare(self, dtype: np.dtype) -> None:
        """Have the kernel for `dtype` ready."""
        self._walk(PRECISIONS[dtype]).prepare()

    def _walk(self, precision: Precision) -> Any:
        walk = self._walks.get(precision.dtype)
        if walk is None:
            walk = self._walks[precision.dtype] = compiled(self.program, precision)
        return walk

    def __call__(
        self, arrays: Sequence[Any], numbers: Sequence[float], out: Any = None
    ) -> np.ndarray:
        """The one result of a program without sums and without parameters a channel."""
        y = self._run_plain(arrays, numbers, out)
        if y is None:
            (y,) = self.run(arrays, numbers, (), (out,)).values()
        return y

    def _run_plain(
        self, arrays: Sequence[Any], numbers: Sequence[float], out: Any
    ) -> np.ndarray | None:
        """The short way: contiguous native arrays of one shape and dtype. None for all else."""
        x = arrays[0]
        if type(x) is not _ndarray:
            return None
        dtype, shape = x.dtype, x.shape
        walk = self._walks.get(dtype)
        if walk is None or not x.size:
            return None
        for array in arrays:
            if type(array) is not _ndarray or array.dtype is not dtype or array.shape != shape:
                return None
            if array.flags.num & _PLAIN != _PLAIN:
                return None
        if out is None:
            out = _empty(shape, dtype)
        elif (
            type(out) is not _ndarray
            or out.dtype is not dtype
            or out.shape != shape
            or out.flags.num & _PLAIN_OUT != _PLAIN_OUT
        ):
            return None
        size = x.size
        everything = (*arrays, out)
        if x.ndim != 1:
            everything = tuple([array.ravel() for array in everything])
        if size <= walk.serial_elements:
            return out if walk.small(everything, numbers, size, get_block_size()) else None
        in_place = False
        for array in arrays:
            if array is out:
                in_place = True
            elif _may_share_memory(array, out):
                return None
        walk(everything, numbers, size, in_place, get_block_size())
        return out

    def run(
        self,
        arrays: Sequence[Any],
        numbers: Sequence[float],
        channels: Sequence[Channel],
        outs: Sequence[Any] = (),
    ) -> dict[str, np.ndarray]:
        """All results, for operands in any layout; sums are in float64.

        Parameters
        ----------
        arrays : sequence of array_like
            Operands of full shape, in the program's order.
        numbers : sequence of float
            Operands that are one number each.
        channels : sequence of Channel
            Operands with one element a channel, in the program's order.
        outs : sequence of (ndarray or None), optional
            Where to write the results that have the operands' shape.

        Returns
        -------
        dict of str to ndarray
            By the operand whose gradient each is; the forward result under "".
        """
        operands = [as_operand(a, name) for a, name in zip(arrays, self._names, strict=True)]
        x = operands[self._reference]
        for operand, name in zip(operands, self._names, strict=True):
            check_same(operand, name, x, self._names[self._reference])
        named = [*zip(self._names, operands, strict=True), *((c.name, c.values) for c in channels)]
        in_place = check_outs(outs, self._full, x, named)
        precision = precision_of(x)
        given = dict(zip(self._full, outs, strict=False))
        results = [_or_new(given.get(name), x, precision.dtype) for name in self._full]
        inputs = self._in_order(operands, [c.spread(x, precision.compute_dtype) for c in channels])
        sums = self._launch(inputs, results, numbers, channels, in_place, precision)
        return dict(zip([*self._full, *self._summed], [*results, *sums], strict=True))

    def _in_order(self, operands: list[np.ndarray], spread: list[np.ndarray]) -> list[np.ndarray]:
        """Operands and spread parameters as the kernel takes them."""
        full, channels = iter(operands), iter(spread)
        names = self.program.arrays
        return [next(channels if name in self.program.channels else full) for name in names]

    def _launch(
        self,
        inputs: list[np.ndarray],
        results: list[np.ndarray],
        numbers: Sequence[float],
        channels: Sequence[Channel],
        in_place: bool,
        precision: Precision,
    ) -> list[np.ndarray]:
        """Walk everything in one launch; returns the sums."""
        shape, size = inputs[0].shape, inputs[0].size
        widths, inner = self._sum_sizes(channels, shape)
        if size == 0:
            return [np.zeros(width) for width in widths]
        walk = self._walk(precision)
        axes = tuple(range(len(shape))) if widths else memory_order(results[0])
        everything = [*inputs, *results]
        where = layout_of(everything, axes)
        flat = [
            _flat(array.transpose(axes), row[0] == DENSE)
            for array, row in zip(everything, where[1], strict=True)
        ]
        return walk(flat, numbers, size, in_place, get_block_size(), where, widths, inner)

    def _sum_sizes(
        self, channels: Sequence[Channel], shape: tuple[int, ...]
    ) -> tuple[list[int], int]:
        """The length of each sum, and how many elements in a row share a channel."""
        length = {channel.name: channel.values.size for channel in channels}
        widths = [length.get(name, 1) for name in self._summed]
        inner = math.prod(shape[channels[0].axis + 1 :]) if channels else 1
        return widths, inner


def _or_new(out: np.ndarray | None, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`out`, or a dense array with its axes in the order of x."""
    return memory.empty_like(x, dtype) if out is None else out


def _flat(array: np.ndarray, is_dense: bool) -> np.ndarray:
    """The array as one axis; of a strided one the kernel needs no more than the item size."""
    return array.reshape(-1) if is_dense else _STRIDED[array.dtype.itemsize]


# Stand-ins for arrays that the kernel reaches by address: one element each, never touched.
_STRIDED = {size: np.zeros(1, f"V{size}") for size in (2, 4, 8)}
