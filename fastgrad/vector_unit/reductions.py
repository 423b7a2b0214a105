"""Reductions over a contiguous tile.

Their order is a function of the tile's length alone, so they give the same bits wherever they run.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..runtime.compiler import jit
from .lanes import lane, maximum
from .memory import window

__all__ = ["add_to_channels", "reduce_max", "reduce_sum"]


# The one place that reassociates: lanes of partial sums need it. Never `nnan` or `ninf`.
@partial(jit, fastmath={"reassoc", "nsz", "contract"})
def reduce_sum(tile):
    """The sum of a tile in float64."""
    total = 0.0
    for i in range(tile.size):
        total += np.float64(tile[i])
    return total


@lane
def reduce_max(tile):
    """The largest element of a tile that has at least one; NaN where there is one.

    By LLVM's `maximum`: a comparison and a select do not vectorise.
    """
    largest = tile[0]
    for i in range(tile.size):
        largest = maximum(largest, tile[i])
    return largest


@lane
def add_to_channels(partial, tile, start, inner):
    """Add a tile that begins at linear index `start` to the sums of its channels.

    `partial` has one element a channel; `inner` elements in a row belong to the same channel.
    """
    channels = partial.size
    if channels == 1:
        partial[0] += reduce_sum(tile)
        return
    done = 0
    while done < tile.size:
        position = start + done
        channel = position // inner % channels
        if inner == 1:
            run = min(channels - channel, tile.size - done)
            for i in range(run):
                partial[channel + i] += np.float64(tile[done + i])
        else:
            run = min(inner - position % inner, tile.size - done)
            partial[channel] += reduce_sum(window(tile, done, run))
        done += run
