"""A call of a compiled walk over items whose channels are the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..runtime import threads
from . import launch
from .elementwise import store_mode
from .layout import Layout
from .row_walk import Rows

if TYPE_CHECKING:
    from ..program.row_emit import RowText

__all__ = ["ChannelsLastWalk"]

#: Elements of a piece, about.
_PIECE = 1 << 16
#: Fewer items than these are split into their pieces.
_FEW_ITEMS = 32
#: Groups of items whose channels are summed apart, at most.
_BLOCKS = 64


class ChannelsLastWalk:
    """The compiled walk of one row program in one precision, with the channels as the last axis.

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
        self.tiles = module.tiles
        self._nanoseconds = nanoseconds
        program = text.program
        self._passes = len(text.passes)
        self._columns = max(sum(len(own.totals) for own in text.passes), 1)
        self._channel_sums = len(program.named("channel"))
        self._row_results = len(program.named("row"))

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
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Compute everything; returns the results of one number a row, and the terms of the channels' sums.

        Parameters
        ----------
        arrays, channels, per_row, numbers, rows, where, in_place
            As of a `RowWalk`; the logical order is that of items, lines and channels.
        """
        items, lines = rows.count // rows.groups, rows.inner
        piece_lines = max(1, _PIECE // rows.channels)
        pieces = -(-lines // piece_lines)
        is_split = pieces > 1 and items < _FEW_ITEMS
        per_unit = 1 if is_split else -(-items // _BLOCKS)
        partials = items * pieces if is_split else -(-items // per_unit)
        sums = [*np.zeros((self._channel_sums, partials * rows.channels))]
        row_results = [np.empty(rows.count) for _ in range(self._row_results)]
        moved = rows.count * rows.length * len(arrays) * arrays[0].itemsize
        shape, layouts = where
        rest = (
            *(lines, rows.groups, rows.channels // rows.groups, pieces, piece_lines),
            *(store_mode(moved, in_place), shape, layouts, *arrays, *channels, *per_row),
            *(*row_results, *sums, np.empty((rows.count * pieces, self._columns))),
            *(np.empty((rows.count, self._columns)), *numbers),
        )
        work = rows.count * rows.length * self._nanoseconds
        if is_split:
            cores = threads.cores_for(work / self._passes)
            for stage in range(2 * self._passes):
                units = items if stage % 2 else items * pieces
                launch.run(self.tiles, min(cores, units), units, (stage, units, 1, *rest))
        else:
            cores = min(threads.cores_for(work), partials)
            launch.run(self.tiles, cores, partials, (-1, items, per_unit, *rest))
        return row_results, [own.reshape(partials, -1) for own in sums]
