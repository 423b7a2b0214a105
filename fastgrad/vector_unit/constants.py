"""What the Python side of a launch and the kernels both have to know; imports nothing."""

from __future__ import annotations

__all__ = ["DENSE", "LINE", "STRIDED", "SWAPPED"]

#: Bytes of a cache line: what a non-temporal store has to write whole.
LINE = 64

#: Modes of an operand's layout: contiguous, by strides, by strides and in the other byte order.
DENSE, STRIDED, SWAPPED = 0, 1, 2
