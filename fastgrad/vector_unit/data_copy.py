"""`data_copy`: tiles between memory and the Unified Buffer.

In: a contiguous operand is not copied at all (the fused loop reads it where it is); any other one is
gathered. Out: stored by the fused loop, streamed past the cache (non-temporal), or scattered.

An operand's *layout* is one row of int64: its mode, the address of its first element, and its byte
strides; the *shape* that goes with the strides is common to all operands of a launch.
"""

from __future__ import annotations

import numpy as np

from ..runtime.compiler import jit
from .constants import DENSE, LINE, STRIDED, SWAPPED
from .lanes import lane
from .memory import load_at, store_at, store_line, swap_bytes, tile_at, window
from .x86 import store_fence

__all__ = [
    "gather",
    "in_part",
    "run_at",
    "scatter",
    "store_fence",
    "stream_out",
    "tile_of",
]


@lane
def tile_of(operand, buffer, layout, shape, start, size):
    """Elements `start`, … `start + size` of an operand, as a contiguous array.

    `operand` itself where these lie side by side, else gathered into `buffer`.
    """
    if layout[0] == DENSE:
        return window(operand, start, size)
    address = run_at(layout, shape, start, size, operand.itemsize)
    if address != 0:
        return tile_at(operand, address, size)
    tile = window(buffer, 0, size)
    gather(tile, layout, shape, start)
    return tile


@jit
def run_at(layout, shape, start, size, itemsize):
    """The address of elements `start`, … `start + size` where they lie side by side, else 0."""
    last = shape.size - 1
    if layout[0] != STRIDED or layout[2 + last] != itemsize:
        return 0
    if start % shape[last] + size > shape[last]:
        return 0
    address = layout[1]
    for axis in range(last, -1, -1):
        address += start % shape[axis] * layout[2 + axis]
        start //= shape[axis]
    return address if address % itemsize == 0 else 0


@lane
def in_part(a, b, size):
    """Whether `size` elements of two contiguous arrays overlap without being the same."""
    distance = abs(np.int64(a.ctypes.data) - np.int64(b.ctypes.data))
    return distance != 0 and distance < size * a.itemsize


@jit
def gather(tile, layout, shape, start):
    """Fill `tile` with the elements from linear index `start` on of a strided operand."""
    index = np.empty(shape.size, np.int64)
    address = _seek(index, layout, shape, start)
    last = shape.size - 1
    stride = layout[2 + last]
    done = 0
    while done < tile.size:
        run = min(shape[last] - index[last], tile.size - done)
        _gather_run(window(tile, done, run), address, stride)
        done += run
        address = _advance(index, layout, shape, address, run)
    if layout[0] == SWAPPED:
        for i in range(tile.size):
            tile[i] = swap_bytes(tile[i])


@jit
def scatter(tile, layout, shape, start):
    """Store `tile` to the elements from linear index `start` on of a strided result."""
    index = np.empty(shape.size, np.int64)
    address = _seek(index, layout, shape, start)
    last = shape.size - 1
    stride = layout[2 + last]
    done = 0
    while done < tile.size:
        run = min(shape[last] - index[last], tile.size - done)
        for i in range(run):
            store_at(tile[done + i], address + i * stride)
        done += run
        address = _advance(index, layout, shape, address, run)


@lane
def _seek(index, layout, shape, start):
    """Set `index` to the position of linear index `start`; returns that element's address."""
    address = layout[1]
    for axis in range(shape.size - 1, -1, -1):
        index[axis] = start % shape[axis]
        start //= shape[axis]
        address += index[axis] * layout[2 + axis]
    return address


@lane
def _advance(index, layout, shape, address, run):
    """Move `index` on by `run` elements, at most to the end of its row; returns the new address."""
    last = shape.size - 1
    index[last] += run
    address += run * layout[2 + last]
    axis = last
    while axis > 0 and index[axis] == shape[axis]:
        index[axis] = 0
        index[axis - 1] += 1
        address += layout[1 + axis] - shape[axis] * layout[2 + axis]
        axis -= 1
    return address


@lane
def _gather_run(tile, address, stride):
    """One row: a plain copy, a broadcast element, or single elements `stride` bytes apart."""
    if stride == tile.itemsize and address % tile.itemsize == 0:
        row = tile_at(tile, address, tile.size)
        for i in range(tile.size):
            tile[i] = row[i]
    elif stride == 0:
        value = load_at(tile, address)
        for i in range(tile.size):
            tile[i] = value
    else:
        for i in range(tile.size):
            tile[i] = load_at(tile, address + i * stride)


@jit
def stream_out(destination, tile):
    """Copy a result tile to memory past the cache, whole lines at a time."""
    lanes = LINE // tile.itemsize
    head = min(tile.size, (-destination.ctypes.data % LINE) // tile.itemsize)
    whole = head + (tile.size - head) // lanes * lanes
    for i in range(head):
        destination[i] = tile[i]
    for i in range(head, whole, lanes):
        store_line(destination, i, tile)
    for i in range(whole, tile.size):
        destination[i] = tile[i]
