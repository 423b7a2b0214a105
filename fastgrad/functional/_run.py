"""One call of one program: a short way for plain arrays, a thorough one for everything else."""

from __future__ import annotations

import functools
import itertools
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
from ._arguments import as_operand, check_outs, check_same, precision_of
from ._operands import Operands

__all__ = ["ProgramRunner", "together"]

#: What is derived from a shape is remembered for so many of them.
_remembered = functools.lru_cache(maxsize=1024)

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
    """

    def __init__(self, program: Program):
        self.program = program
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

    def plain(
        self, arrays: Sequence[Any], numbers: Sequence[float], out: Any = None
    ) -> np.ndarray | None:
        """The one result of a program without sums, for contiguous native arrays of one shape and dtype.

        None, with nothing written, for all else: that is for `run`.
        """
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

    def plain_all(
        self, arrays: Sequence[Any], numbers: Sequence[float], outs: Sequence[Any]
    ) -> dict[str, np.ndarray] | None:
        """As `plain`, for any number of results; sums over all elements in float64.

        Parameters
        ----------
        outs : sequence of (ndarray or None)
            For the results of full shape; none of them in place.
        """
        x = arrays[0]
        walk = self._walks.get(x.dtype) if type(x) is _ndarray else None
        if walk is None or not x.size:
            return None
        results = [_empty(x.shape, x.dtype) if out is None else out for out in outs]
        everything = [*arrays, *results]
        for array in everything:
            if type(array) is not _ndarray or array.dtype is not x.dtype or array.shape != x.shape:
                return None
            if array.flags.num & _PLAIN != _PLAIN:
                return None
        for place, out in enumerate(outs):
            others = everything[: len(arrays) + place]
            if out is not None and not (out.flags.writeable and _are_apart(out, others)):
                return None
        ones = (1,) * len(self._summed)
        flat = [array.ravel() for array in everything] if x.ndim != 1 else everything
        sums = walk(flat, numbers, x.size, False, get_block_size(), None, ones, ones)
        return dict(zip([*self._full, *self._summed], [*results, *sums], strict=True))

    def run(
        self, operands: Operands, dy: Any = None, outs: Sequence[Any] = ()
    ) -> dict[str, np.ndarray]:
        """All results, for operands in any layout; sums are in float64, flat.

        Parameters
        ----------
        operands : Operands
        dy : array_like or float, optional
            The gradient of the result, for a backward program; one number where all lanes are summed.
        outs : sequence of (ndarray or None), optional
            Where to write the results that have the result's shape.

        Returns
        -------
        dict of str to ndarray
            By the operand whose gradient each is; the forward result under "".
        """
        x, full = operands.x, dict(operands.full)
        if "dy" in self.program.arrays:
            full["dy"] = as_operand(dy, "dy")
            check_same(full["dy"], "dy", x, operands.x_name)
        named = [*full.items(), *((name, own.values) for name, own in operands.spread.items())]
        in_place = check_outs(outs, self._full, x, named)
        precision = precision_of(x)
        given = dict(zip(self._full, outs, strict=False))
        results = [_or_new(given.get(name), x, precision.dtype) for name in self._full]
        for name, own in operands.spread.items():
            full[name] = own.over(x.shape, precision.compute_dtype)
        inputs = [full[name] for name in self.program.arrays]
        numbers = [dy] if "dy" in self.program.numbers else []
        numbers += operands.numbers
        if self.program.is_random:
            numbers.append(operands.seed)
        sums = self._launch(inputs, results, operands, numbers, in_place, precision)
        return dict(zip([*self._full, *self._summed], [*results, *sums], strict=True))

    def _launch(
        self,
        inputs: list[np.ndarray],
        results: list[np.ndarray],
        operands: Operands,
        numbers: Sequence[float],
        in_place: bool,
        precision: Precision,
    ) -> list[np.ndarray]:
        """Walk everything in one launch; returns the sums."""
        shape, size = inputs[0].shape, inputs[0].size
        if self._summed:
            kept = tuple([_kept(name, operands) for name in self._summed])
            axes, widths, inners = plan_of_sums(shape, kept)
            if self.program.is_random and _is_turned(shape, kept):
                raise ValueError(
                    f"the gradient of {' and '.join(self._summed)} is a sum over axes that do not follow "
                    f"each other, in whose order random numbers are not counted: pass it written out, "
                    f"np.broadcast_to(…, {shape}).copy(), and sum its gradient"
                )
        elif self.program.is_random:  # by the index of an element, whatever the order in memory
            axes, widths, inners = tuple(range(len(shape))), (), ()
        else:
            axes, widths, inners = memory_order(results[0]), (), ()
        if size == 0:
            return [np.zeros(width) for width in widths]
        walk = self._walk(precision)
        everything = [*inputs, *results]
        where = layout_of(everything, axes)
        flat = [
            _flat(array.transpose(axes), row[0] == DENSE)
            for array, row in zip(everything, where[1], strict=True)
        ]
        return walk(flat, numbers, size, in_place, get_block_size(), where, widths, inners)


def _are_apart(out: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    return not any(_may_share_memory(out, other) for other in others)


def together(
    names: Sequence[str], operands: Operands, fixed_order: bool = False
) -> list[list[str]]:
    """`names`, parted into those whose gradients one launch can sum: mostly all of them.

    Gradients of full shape are in the last launch: they may be written over an operand that others read.
    With `fixed_order` that launch is in the order of the axes, by which random numbers are counted.
    """
    if not operands.spread:
        return [list(names)]
    shape = operands.x.shape
    launches: list[list[str]] = []
    for name in names:
        for own in launches:
            summed = [one for one in (*own, name) if one not in operands.full]
            kept = tuple([_kept(one, operands) for one in summed])
            if can_sum(shape, kept) and not (fixed_order and _is_turned(shape, kept)):
                own.append(name)
                break
        else:
            launches.append([name])
    return sorted(launches, key=lambda own: any(name in operands.full for name in own))


def _is_turned(shape: tuple[int, ...], kept: tuple[frozenset[int], ...]) -> bool:
    """Whether sums that keep the axes `kept` are taken in another order than that of the axes."""
    return plan_of_sums(shape, kept)[0] != tuple(range(len(shape)))


def _kept(name: str, operands: Operands) -> frozenset[int]:
    """The axes along which an operand has elements of its own: none of a number."""
    own = operands.spread.get(name)
    return frozenset() if own is None else own.kept(operands.x.shape)


@_remembered
def can_sum(shape: tuple[int, ...], kept: tuple[frozenset[int], ...]) -> bool:
    """Whether one launch can take sums that keep the axes `kept`."""
    axes = order_of_sums(shape, kept)
    return all(_is_block(shape, own, axes) for own in kept)


@_remembered
def plan_of_sums(
    shape: tuple[int, ...], kept: tuple[frozenset[int], ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The order of the axes; for each sum its length, and how many elements in a row share one of its own."""
    axes = order_of_sums(shape, kept)
    sizes = [sum_sizes(shape, own, axes) for own in kept]
    return axes, tuple(width for width, _ in sizes), tuple(inner for _, inner in sizes)


def order_of_sums(shape: tuple[int, ...], kept: Sequence[frozenset[int]]) -> tuple[int, ...]:
    """The axes, outermost first, in an order in which those that a sum keeps follow each other.

    It is the order of the axes if that will do, else the summed axes of the first sum come first. Shape
    and operands alone decide, so that the order of a sum does not depend on the layout in memory.
    """
    axes = tuple(range(len(shape)))
    if all(_is_block(shape, own, axes) for own in kept):
        return axes
    return tuple(sorted(axes, key=lambda axis: axis in kept[0]))


def _is_block(shape: tuple[int, ...], kept: frozenset[int], axes: Sequence[int]) -> bool:
    """Whether the axes in `kept` follow each other, but for axes of length 1."""
    places = [axis in kept for axis in axes if shape[axis] != 1]
    changes = sum(a != b for a, b in itertools.pairwise([False, *places, False]))
    return changes <= 2


def sum_sizes(shape: tuple[int, ...], kept: frozenset[int], axes: Sequence[int]) -> tuple[int, int]:
    """The length of a sum, and how many elements in a row share one of its elements."""
    last = max((place for place, axis in enumerate(axes) if axis in kept), default=-1)
    inner = math.prod(shape[axis] for axis in axes[last + 1 :])
    return math.prod(shape[axis] for axis in kept), inner


def _or_new(out: np.ndarray | None, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`out`, or a dense array with its axes in the order of x."""
    return memory.empty_like(x, dtype) if out is None else out


def _flat(array: np.ndarray, is_dense: bool) -> np.ndarray:
    """The array as one axis; of a strided one the kernel needs no more than the item size."""
    return array.reshape(-1) if is_dense else _STRIDED[array.dtype.itemsize]


# Stand-ins for arrays that the kernel reaches by address: one element each, never touched.
_STRIDED = {size: np.zeros(1, f"V{size}") for size in (2, 4, 8)}
