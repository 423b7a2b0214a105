"""Memory for large results, used again while it is warm.

The system hands out fresh pages zeroed, and takes them back at every free: for a result of 25 MB this
takes as long as computing it. So the blocks of large results are remembered, up to `LIMIT` bytes in all,
in use or not; one that nobody refers to any more serves the next result that fits.
"""

from __future__ import annotations

import math
import os
import sys
import threading

import numpy as np

__all__ = ["LIMIT", "clear", "empty", "empty_like"]

#: Bytes from which on the system's allocator gives memory back at once.
LARGE = 1 << 20
#: Bytes that are remembered at most: a result and two gradients of 128 MiB.
LIMIT = 512 << 20
#: Bytes of a cache line.
_LINE = 64
#: A block serves a result that takes at least this part of it.
_LEAST_USE = 0.75

# The one that was handed out last comes last, and is asked first: it is the likeliest to be in a cache. An
# array made of a block has it as its base, so a block in use has more references.
_blocks: list[np.ndarray] = []
_lock = threading.Lock()


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised C-contiguous array; a large one begins where a cache line does."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE or size > LIMIT:
        return np.empty(shape, dtype)
    with _lock:
        block = _take(size + _LINE)
    start = -block.ctypes.data % _LINE
    return block[start : start + size].view(dtype).reshape(shape)


def empty_like(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An uninitialised dense array of the shape of `x` with its axes in the order of x."""
    plain = np.empty_like(x, dtype=dtype, order="K", subok=False)
    if plain.nbytes < LARGE:
        return plain
    axes = sorted(range(plain.ndim), key=lambda axis: -plain.strides[axis])
    turned = empty(tuple(plain.shape[axis] for axis in axes), dtype)
    return turned.transpose(np.argsort(axes))


def clear() -> None:
    """Forget all blocks: those that nobody uses go back to the system."""
    with _lock:
        _blocks.clear()


def _take(size: int) -> np.ndarray:
    """A block of at least `size` bytes that nobody uses; a new one is remembered if there is room."""
    for index in reversed(range(len(_blocks))):
        if _is_idle(index) and size <= _blocks[index].nbytes <= size / _LEAST_USE:
            _blocks.append(_blocks.pop(index))
            return _blocks[-1]
    block = np.empty(size, np.uint8)
    _make_room(size)
    if sum(own.nbytes for own in _blocks) + size <= LIMIT:
        _blocks.append(block)
    return block


def _make_room(size: int) -> None:
    """Forget idle blocks, the oldest first, until `size` more bytes may be remembered."""
    index = 0
    while index < len(_blocks) and sum(own.nbytes for own in _blocks) + size > LIMIT:
        if _is_idle(index):
            del _blocks[index]
        else:
            index += 1


def _is_idle(index: int) -> bool:
    """Whether nothing but the list and this question refers to a block."""
    return sys.getrefcount(_blocks[index]) == 2


def _after_fork_in_child() -> None:
    """Another thread may have held the lock in the parent."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
