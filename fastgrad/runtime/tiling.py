"""Sizes: of a tile, of the Unified Buffer that holds it, and of the caches beyond it."""

from __future__ import annotations

import functools
from pathlib import Path

from .settings import positive_integer

__all__ = ["BLOCK_SIZE", "get_block_size", "set_block_size", "streams"]

#: Elements of a tile. 2,048 float32 results are 8 KiB: with as much of each operand they stay in a
#: 32 KiB first-level cache, and dispatching a tile costs less than 1 % of computing it.
BLOCK_SIZE = 2048

_DEFAULT_CACHE = 32 << 20


_LARGEST_BLOCK_SIZE = 1 << 30
_block_size = BLOCK_SIZE


def get_block_size() -> int:
    """The number of elements of a tile."""
    return _block_size


def set_block_size(block_size: int) -> None:
    """Let kernels walk tiles of `block_size` elements; results do not depend on it, bit for bit.

    Parameters
    ----------
    block_size : int
        From 1 to 2^30. `fastgrad.BLOCK_SIZE` is the default; other sizes are there to be measured.

    Raises
    ------
    TypeError, ValueError
        If `block_size` is not an integer in this range.
    """
    global _block_size
    checked = positive_integer(block_size, "block_size")
    if checked > _LARGEST_BLOCK_SIZE:
        raise ValueError(f"block_size must be at most {_LARGEST_BLOCK_SIZE}, got {block_size}")
    _block_size = checked


@functools.cache
def last_level_cache() -> int:
    """Bytes of the largest cache that Linux reports for the first processor; 32 MiB elsewhere."""
    sizes = [
        _bytes(file.read_text())
        for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    return max(sizes, default=_DEFAULT_CACHE)


def _bytes(text: str) -> int:
    text = text.strip()
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def streams(moved_bytes: int) -> bool:
    """Whether arrays of `moved_bytes` together pass by the caches, so that results should too."""
    return moved_bytes > last_level_cache()
