"""The elementwise walk: every tile is read, computed in one fused loop, and written, once.

Passes: 1. Buffers: one tile for each result that is staged, one for each operand that is gathered.
Traffic: the bytes of each operand and of each result, once; past the cache, results go by
non-temporal stores and are not read before they are written.

A contiguous operand is read by the fused loop where it lies; a copy into UB of its own costs 1.3 times.
Results are staged in UB where they go past the cache. In place, the loop stores straight to memory like
anywhere else: `read` and `write` tell LLVM that no lane reads what another one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..runtime import threads
from ..runtime.tiling import streams
from ..vector_unit.constants import LINE
from . import launch, layout
from .layout import Layout
from .template import CHECKED, DIRECT, STREAMED, Fields, constants

__all__ = ["LONG_ROW", "ElementwiseWalk", "source"]

#: Elements of a row from which a tile ends where the row does: gathering shorter ones costs less.
LONG_ROW = 512

_WALK = """
@kernel("int64, int64, int64, int64, int64, int64[::1], int64[:, ::1], {types}")
def tiles(lo, hi, size, block_size, store, shape, layouts, {arguments}):
    \"\"\"Walk tiles `lo` to `hi` of `size` elements with scratch of its own.

    Returns False, having written nothing, if it was to check for overlap and found one.
    \"\"\"
{borrow}
    if store == CHECKED and ({overlap}):
        return False
    # Streamed tiles start where a cache line of the first result does, or where a row does.
    shift = 0
    if store == STREAMED and shape.size == 1 and layouts[{first_row}, 0] == DENSE:
        shift = {first}.ctypes.data % LINE // {first}.itemsize
{buffers}
    for tile in range(lo, hi):
        start = max(0, tile * block_size - shift)
        stop = min(size, (tile + 1) * block_size - shift)
        m = stop - start
        if m <= 0:
            continue
{tiles_in}
        body({body_arguments})
{tiles_out}
    if store == STREAMED:
        store_fence()
    return True
"""


def source(fields: Fields) -> str:
    """The text of `tiles` around a `body` that computes one tile."""
    return constants() + _WALK.format(
        types=fields.types,
        arguments=fields.arguments,
        body_arguments=fields.body_arguments,
        first=fields.results[0][0],
        first_row=len(fields.operands),
        borrow=fields.borrow(4),
        overlap=fields.overlap(),
        buffers=fields.buffers(4),
        tiles_in=fields.tiles_in(8),
        tiles_out=fields.tiles_out(8),
    )


class ElementwiseWalk:
    """The compiled walk of one program in one precision, ready to be called.

    Parameters
    ----------
    module : module
        A generated module with `tiles`.
    arrays : int
        Operands and results.
    nanoseconds : float
        What an element costs, about.
    """

    def __init__(self, module: ModuleType, arrays: int, nanoseconds: float):
        #: The kernel.
        self.tiles = module.tiles
        self._nanoseconds = nanoseconds
        #: Up to this many elements `small` serves.
        self.serial_elements = int(threads.SERIAL_WORK / nanoseconds)
        #: The layout of arrays that are all dense.
        self.dense = layout.dense(arrays)

    def prepare(self) -> None:
        """Compile or load all that a call needs."""
        launch.prepare(self.tiles)

    def small(
        self,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[float],
        size: int,
        block_size: int,
    ) -> bool:
        """The call below for one result and dense arrays that one core computes in its cache.

        Nothing is to be decided. Whether the result overlaps an operand in part is for the kernel to
        find out, which knows the addresses; it then returns False and has written nothing.
        """
        count = -(-size // block_size)
        return self.tiles.entry(0, count, size, block_size, CHECKED, *self.dense, *arrays, *numbers)

    def __call__(
        self,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[float],
        size: int,
        in_place: bool,
        block_size: int,
        where: Layout | None = None,
        widths: Sequence[int] = (),
        inners: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """Compute all tiles; there are no sums to return.

        Parameters
        ----------
        arrays : sequence of ndarray
            Operands, then results; each flat, as far as `where` calls it dense.
        numbers : sequence of float
            The operands that are one number each.
        size : int
            Elements of each array.
        in_place : bool
            Whether a result is one of the operands.
        block_size : int
            Elements of a tile.
        where : Layout, optional
            Where the elements lie; None where all arrays are dense.
        widths, inners
            Of the sums of a `ReducingWalk`.
        """
        store = store_mode(size * len(arrays) * arrays[0].itemsize, in_place)
        shape, rows = where or self.dense
        block_size = tile_in_rows(block_size, shape, rows)
        count = -(-(size + LINE) // block_size)  # shifted tiles begin earlier, by less than a line
        arguments = (size, block_size, store, shape, rows, *arrays, *numbers)
        launch.run(self.tiles, threads.cores_for(size * self._nanoseconds), count, arguments)
        return []


def tile_in_rows(block_size: int, shape: np.ndarray, rows: np.ndarray) -> int:
    """About `block_size`, but a whole part of a row where something lies row by row.

    A tile within a row is read where it lies, one across rows is gathered.
    """
    length = int(shape[-1])
    if length < max(block_size, LONG_ROW) or not rows[:, 0].any():
        return block_size
    least = -(-length // block_size)
    parts = next((parts for parts in range(least, 2 * least + 1) if length % parts == 0), 0)
    return length // parts if parts else block_size


def store_mode(moved_bytes: int, in_place: bool) -> int:
    """How results leave a launch that moves `moved_bytes`.

    In place, the lines to be written are in the cache already: they were read.
    """
    return STREAMED if streams(moved_bytes) and not in_place else DIRECT
