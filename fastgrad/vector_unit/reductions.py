"""Reductions over a contiguous tile.

Their order is a function of the tile's length alone, so they give the same bits wherever they run.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba.extending import intrinsic

from ..runtime.compiler import jit
from .lanes import lane, maximum
from .memory import window, write

__all__ = [
    "accumulate",
    "accumulate_product",
    "add_to_channels",
    "bounds",
    "flush",
    "merge_moments",
    "reduce_max",
    "reduce_sum",
]


@intrinsic
def accumulate(typing_context, total, value):
    """total + value, of a loop that may keep a partial total for each lane.

    This addition alone may be reassociated, so the rest of the loop is as exact as any other.
    """

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=("reassoc",))

    return (total(total, value), generate) if total == value else None


@intrinsic
def accumulate_product(typing_context, total, a, b):
    """total + a·b as `accumulate`, rounded once where the processor can."""

    def generate(context, builder, signature, arguments):
        product = builder.fmul(*arguments[1:], flags=("contract",))
        return builder.fadd(arguments[0], product, flags=("reassoc", "contract"))

    return (total(total, a, b), generate) if total == a == b else None


@lane
def flush(totals, start, tile, begin, end):
    """Add the lanes `begin` to `end` of a tile to float64 totals that lie from `start` on, and clear them."""
    own = window(totals, start + begin, end - begin)
    added = window(tile, begin, end - begin)
    for i in range(end - begin):
        write(own, i, own[i] + np.float64(added[i]))  # not `read`: written above
    for i in range(end - begin):
        added[i] = 0


@lane
def bounds(piece, block, parts, part, length):
    """Where a piece of a row begins and ends: the row is cut into blocks, and each into `parts`."""
    start = piece // parts * block
    begin = start + piece % parts * part
    return begin, min(begin + part, start + block, length)


@lane
def merge_moments(count, mean, squares, more, more_mean, more_squares):
    """Mean and sum of squared distances from it, of `count` elements and `more` others together.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """
    if count == 0:
        return more_mean, more_squares
    distance = more_mean - mean
    share = np.float64(more) / np.float64(count + more)
    return mean + distance * share, squares + more_squares + distance * distance * count * share


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
def add_lanes(totals, tile):
    """Add each lane to a total of its own."""
    for i in range(totals.size):
        totals[i] += np.float64(tile[i])


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
            add_lanes(window(partial, channel, run), window(tile, done, run))
        else:
            run = min(inner - position % inner, tile.size - done)
            partial[channel] += reduce_sum(window(tile, done, run))
        done += run
