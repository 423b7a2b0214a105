"""Random numbers by counting: Philox4x32-10, a tile at a time.

The number of an element depends on the seed and on the element's index alone, so a backward kernel computes
again what the forward one used, and no layout, tile or thread changes it.

References
----------
Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import numpy as np

from ..runtime.compiler import jit
from .lanes import lane
from .memory import window

__all__ = ["GROUP", "random_tile"]

#: Elements that 16 counters serve: four words each, word by word, so that 16 lanes count side by side.
GROUP = 64
_LANES = GROUP // 4

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FACTOR_0, _FACTOR_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEP_0, _STEP_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10
#: The upper 24 bits of a word as a number in [0, 1): exact in float32.
_LOWER, _UNIT = np.uint64(8), np.float32(2.0**-24)


@lane
def random_tile(buffer, seed, start, size):
    """Numbers in [0, 1) for the elements `start`, … `start + size`, in `buffer`, `2 * GROUP` longer."""
    first = start // GROUP
    fill(buffer, np.uint64(seed), first, (start + size - 1) // GROUP + 1)
    return window(buffer, start - first * GROUP, size)


@jit
def fill(buffer, seed, first, last):
    """The numbers of the groups `first` to `last`, one after the other."""
    for group in range(first, last):
        words = window(buffer, (group - first) * GROUP, GROUP)
        for i in range(_LANES):
            counter = np.uint64(group * _LANES + i)
            a, b, c, d = _philox(counter & _WORD, counter >> _HALF, seed & _WORD, seed >> _HALF)
            words[i] = _unit(a)
            words[_LANES + i] = _unit(b)
            words[2 * _LANES + i] = _unit(c)
            words[3 * _LANES + i] = _unit(d)


@lane
def _philox(a, b, key_0, key_1):
    """Four words of 32 bits for the counter (a, b, 0, 0)."""
    c, d = np.uint64(0), np.uint64(0)
    for _ in range(_ROUNDS):
        product_0, product_1 = a * _FACTOR_0, c * _FACTOR_1
        a, b, c, d = (
            (product_1 >> _HALF) ^ b ^ key_0,
            product_1 & _WORD,
            (product_0 >> _HALF) ^ d ^ key_1,
            product_0 & _WORD,
        )
        key_0, key_1 = (key_0 + _STEP_0) & _WORD, (key_1 + _STEP_1) & _WORD
    return a, b, c, d


@lane
def _unit(word):
    return np.float32(np.int32(word >> _LOWER)) * _UNIT
