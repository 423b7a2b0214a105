"""How rows lie, and a call of a compiled walk over them: which rows and pieces each core takes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..runtime import threads
from . import launch
from .elementwise import store_mode
from .layout import Layout

if TYPE_CHECKING:
    from ..program.row_emit import RowText

__all__ = ["RowWalk", "Rows"]

#: Elements of a piece, about.
_PIECE = 1 << 16
#: A row with more lanes is split where values of it would be kept between passes: 512 KB in float32.
_KEPT = 1 << 17
#: Fewer rows than these are split into their pieces.
_FEW_ROWS = 32
#: Blocks of rows in a launch, at most, and the elements of all their sums of a gradient, about. More memory
#: than that goes back to the system after every call, and a page of it costs 10 µs at the next one.
_BLOCKS, _SUMS = 64, 1 << 16
#: And about as many lanes for each element of their sums; but this many blocks, if there are so many rows.
_ROWS_OF_A_SUM, _LEAST_BLOCKS = 16, 8
#: Long rows that are summed by channel are split where there are fewer than these.
_FEW_SUMMED_ROWS = 512
#: Elements of a block of short rows, at least.
_LEAST_BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class Rows:
    """How rows and their channels lie in the logical order of the elements. Equal is only the same object.

    Attributes
    ----------
    count, length : int
        Rows, and lanes of each.
    inner : int
        Lanes in a row that share a channel.
    groups : int
        Rows that follow each other with channels of their own, before the channels repeat.
    run : int
        Lanes that lie side by side in memory where rows do not, so that no tile is gathered; a tile ends
        with them. 0 where rows lie side by side, or too few lanes do.
    channels_last : bool
        Whether the logical order is that of items, places and channels, so that rows lie beside each other
        in every place.
    """

    count: int
    length: int
    inner: int = 1
    groups: int = 1
    run: int = 0
    channels_last: bool = False

    @functools.cached_property
    def channels(self) -> int:
        """Channels in all."""
        return self.groups * (self.length // self.inner)

    @functools.cached_property
    def pieces(self) -> tuple[int, int, int, int]:
        """Pieces of a row, and by which they are found: blocks, parts of one, lanes of a part."""
        if self.inner >= _PIECE:
            block, parts = self.inner, -(-self.inner // _PIECE)
        else:
            block, parts = max(1, _PIECE // self.inner) * self.inner, 1
        return -(-self.length // block) * parts, block, parts, -(-block // parts)

    @functools.cached_property
    def per_partial(self) -> int:
        """Rows whose sums of a channel are taken together.

        So few that all cores have some, so many that the sums are small beside the rows.
        """
        items = self.count // self.groups
        blocks = max(items * self.inner // _ROWS_OF_A_SUM, min(items, _LEAST_BLOCKS), 1)
        most = min(_BLOCKS, max(_SUMS // self.channels, _LEAST_BLOCKS))
        return self.groups * -(-items // min(blocks, most))


class RowWalk:
    """The compiled walk of one row program in one precision.

    Parameters
    ----------
    module : module
        A generated module with `tiles`.
    text : RowText
        Of its program.
    nanoseconds : float
        What a lane costs, about.
    """

    def __init__(self, module: ModuleType, text: RowText, nanoseconds: float):
        #: What it computes in.
        self.compute_dtype = text.precision.compute_dtype
        #: The kernel.
        self.tiles, self._pieces = module.tiles, module.pieces
        self._nanoseconds = nanoseconds
        program = text.program
        self._passes = len(text.passes)
        columns = sum(len(own.totals) for own in text.passes)
        self._no_pieces = np.empty((0, max(columns, 1)))
        self._channel_sums = len(program.named("channel"))
        self._by_run, self._keeps = text.by_run, bool(text.kept_names)
        self._row_results = range(len(program.named("row")))

    def prepare(self) -> None:
        """Compile or load all that a call needs."""
        launch.prepare(self.tiles)

    def __call__(
        self,
        arrays: Sequence[np.ndarray],
        channels: Sequence[np.ndarray],
        per_row: Sequence[np.ndarray],
        numbers: Sequence[float],
        rows: Rows,
        where: Layout,
        in_place: bool,
    ) -> tuple[list[np.ndarray], Sequence[np.ndarray] | np.ndarray]:
        """Compute everything; returns the results of one number a row, and the terms of the channels' sums.

        The latter in one block of (sums, terms, channels), if there are any.

        Parameters
        ----------
        arrays : sequence of ndarray
            Operands, then results; each flat, as far as `where` calls it dense.
        channels : sequence of ndarray
            Parameters of one element a channel, in the compute dtype.
        per_row : sequence of ndarray
            Operands of one number a row, float64.
        numbers : sequence of float
            Operands of one number in all.
        rows : Rows
            The shape of the problem.
        where : Layout
            Where the elements lie, in logical order.
        in_place : bool
            Whether a result is one of the operands.
        """
        plan = _plan(rows, self._by_run, self._channel_sums > 0, self._keeps)
        count, lanes = rows.count, plan.lanes
        terms: Sequence[np.ndarray] | np.ndarray = ()
        sums: Sequence[np.ndarray] | np.ndarray = ()
        if self._channel_sums:  # without any, no array saves 0.7 µs
            sums = np.zeros((self._channel_sums, plan.partials * rows.channels))
            terms = sums.reshape(self._channel_sums, plan.partials, rows.channels)
        row_results = [np.empty(count) for _ in self._row_results]
        piece_sums = self._no_pieces
        if plan.pieces:
            piece_sums = np.empty((plan.pieces, self._no_pieces.shape[1]))
        mode = store_mode(lanes * len(arrays) * arrays[0].itemsize, in_place)
        rest = (
            *(*plan.numbers, mode, *where, *arrays, *channels, *per_row),
            *(*row_results, *sums, piece_sums, *numbers),
        )
        work = lanes * self._nanoseconds
        if plan.pieces:
            cores = threads.cores_for(work / self._passes)
            for stage in range(self._passes + bool(self._row_results)):
                units = plan.count if stage < self._passes else count
                launch.run(self._pieces, min(cores, units), units, (count, stage, *rest))
        else:
            cores = min(threads.cores_for(work), plan.count)
            launch.run(self.tiles, cores, plan.count, (count, plan.per_unit, *rest))
        return row_results, terms


@dataclass(frozen=True)
class _Plan:
    """How rows are spread over cores, and sums over memory.

    Attributes
    ----------
    count, per_unit : int
        Units of work, and rows of each.
    pieces : int
        Of all rows together, where rows are split; else 0.
    partials : int
        Sums of each channel.
    lanes : int
        Of all rows.
    numbers : tuple of int
        What the kernel is told of it.
    """

    count: int
    per_unit: int
    pieces: int
    partials: int
    lanes: int
    numbers: tuple[int, ...]


@functools.lru_cache(maxsize=1024)  # 5 µs of a call
def _plan(rows: Rows, by_run: bool, has_sums: bool, keeps: bool) -> _Plan:
    pieces, block, parts, part = rows.pieces
    sums_by_lane = has_sums and not by_run
    few = _FEW_SUMMED_ROWS if sums_by_lane else _FEW_ROWS
    is_long = keeps and rows.length > _KEPT
    is_split = pieces > 1 and (rows.count < few or is_long)
    per_unit = _rows_of_a_unit(rows, has_sums)
    if is_split:
        per_partial = rows.count if sums_by_lane else 1
        partials = rows.count * parts if by_run else 1
        count = rows.count * pieces // per_partial
    else:
        per_partial = rows.per_partial
        partials = -(-rows.count // per_partial)
        count = -(-rows.count // per_unit)
    numbers = (
        *(rows.length, rows.inner, rows.run or rows.inner, rows.run or rows.length),
        *(rows.groups, rows.channels, per_partial, block, parts, part),
    )
    lanes = rows.count * rows.length
    return _Plan(count, per_unit, rows.count * pieces * is_split, partials, lanes, numbers)


def _rows_of_a_unit(rows: Rows, has_sums: bool) -> int:
    """Rows that one core takes together: those that share sums, and not too few elements."""
    if not has_sums:
        return max(1, _LEAST_BLOCK // rows.length)
    return rows.per_partial if rows.per_partial > rows.groups else 1
