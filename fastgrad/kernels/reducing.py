"""The elementwise walk that also sums: gradients of a number, of one number a channel, of what is broadcast.

Passes: 1, the summed values never reach memory. Buffers: those of the elementwise walk, and one chunk
for each sum. Traffic: the bytes of operands and results once; partial sums are at most 1/1000 of them.

The walk is in logical (C) order whatever the layout, and a sum is taken in three steps of fixed size:
a chunk of `CHUNK` elements, a unit of some chunks, all units in their order. Size and channels
alone set these steps, so the bits depend on no layout, block size or number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..runtime import threads
from . import launch, layout
from .elementwise import LONG_ROW, store_mode
from .layout import Layout
from .template import Fields, constants

__all__ = ["CHUNK", "ReducingWalk", "source"]

#: Elements that are summed at a time.
CHUNK = 2048
#: Units in a launch, at most: enough to share them evenly over any number of cores.
_UNITS = 64
#: Elements of a unit for each channel, at least: partial sums stay small beside the data.
_ELEMENTS_PER_CHANNEL = 64

_WALK = """
CHUNK, LONG_ROW = {chunk}, {long_row}


@kernel("int64, int64, int64, int64, int64, int64, int64[::1], int64[::1], int64[:, ::1], {types}")
def tiles(lo, hi, size, block_size, store, unit, inners, shape, layouts, {arguments}):
    \"\"\"Walk units `lo` to `hi`, tile by tile, and sum each of their chunks.\"\"\"
{borrow}
{buffers}
{chunks}
    row = shape[shape.size - 1]
    for own in range(lo, hi):
        unit_stop = min(size, (own + 1) * unit)
        for chunk in range(own * unit, unit_stop, CHUNK):
            chunk_stop = min(chunk + CHUNK, unit_stop)
            stop = chunk
            while stop < chunk_stop:
                start = stop
                # A long row ends a tile: then no operand is gathered that lies row by row.
                row_end = start - start % row + row
                stop = min(start + block_size, chunk_stop, row_end if row >= LONG_ROW else size)
                m = stop - start
{tiles_in}
{sums_in}
                body({body_arguments})
{tiles_out}
{sums_out}
    store_fence()
    return True
"""


def source(fields: Fields) -> str:
    """The text of `tiles` around a `body` that computes one tile."""
    names = [name for name, _ in fields.sums]
    return constants() + _WALK.format(
        chunk=CHUNK,
        long_row=LONG_ROW,
        types=fields.types,
        arguments=fields.arguments,
        body_arguments=fields.body_arguments,
        borrow=fields.borrow(4),
        buffers=fields.buffers(4),
        tiles_in=fields.tiles_in(16),
        tiles_out=fields.tiles_out(16),
        chunks="".join(f"    ub_{n} = np.empty(CHUNK, f)\n" for n in names),
        sums_in="".join(f"{'':16}{n}_t = window(ub_{n}, start - chunk, m)\n" for n in names),
        sums_out="".join(
            f"{'':12}add_to_channels({n}[own], window(ub_{n}, 0, chunk_stop - chunk), chunk, inners[{k}])\n"
            for k, n in enumerate(names)
        ),
    )


def unit_size(size: int, channels: int) -> int:
    """Elements of a unit: a multiple of `CHUNK` that depends on nothing else than these two."""
    wanted = max(-(-size // _UNITS), channels * _ELEMENTS_PER_CHANNEL, CHUNK)
    return -(-wanted // CHUNK) * CHUNK


class ReducingWalk:
    """The compiled walk of one program in one precision, ready to be called.

    Parameters
    ----------
    module : module
        A generated module with `tiles`.
    arrays : int
        Operands and results of their shape.
    nanoseconds : float
        What an element costs, about.
    """

    def __init__(self, module: ModuleType, arrays: int, nanoseconds: float):
        #: The kernel.
        self.tiles = module.tiles
        self._nanoseconds = nanoseconds
        #: The layout of arrays that are all dense.
        self.dense = layout.dense(arrays)

    def prepare(self) -> None:
        """Compile or load all that a call needs."""
        launch.prepare(self.tiles)

    def __call__(
        self,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[float],
        size: int,
        in_place: bool,
        block_size: int,
        where: Layout | None = None,
        widths: Sequence[int] = (1,),
        inners: Sequence[int] = (1,),
    ) -> list[np.ndarray]:
        """Compute all tiles; returns the sums in float64.

        Parameters
        ----------
        arrays, numbers, size, in_place, block_size, where
            As for `ElementwiseWalk`; `where` is in C order.
        widths : sequence of int
            Elements of each sum: 1, or the length of the channel axis.
        inners : sequence of int
            For each sum, how many elements in a row belong to the same one of its elements.
        """
        unit = unit_size(size, max(widths))
        count = -(-size // unit)
        partials = [np.zeros((count, own)) for own in widths]
        store = store_mode(size * len(arrays) * arrays[0].itemsize, in_place)
        shape, rows = where or self.dense
        arguments = (size, block_size, store, unit, np.array(inners, np.int64), shape, rows)
        cores = min(threads.cores_for(size * self._nanoseconds), count)
        launch.run(self.tiles, cores, count, (*arguments, *arrays, *partials, *numbers))
        with np.errstate(invalid="ignore", over="ignore"):
            return [partial.sum(axis=0) for partial in partials]
