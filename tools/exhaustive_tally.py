"""Errors of one function on a chunk of the float32 numbers, counted in one pass over each block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from exhaustive_cases import Case
from numba import njit

from fastgrad.vector_unit.lanes import from_bits

PATTERNS = 1 << 32
#: What a worker takes at a time, and what the state keeps a line for.
CHUNK = 1 << 24
CHUNKS = PATTERNS // CHUNK
#: Elements at a time: few enough for the caches, and many enough that workers seldom wait for the
#: interpreter's lock between two loops.
BLOCK = 1 << 16
#: More than the arrays of a block take.
REUSED_MEMORY = 1 << 24

LEAST_EXPONENT, GREATEST_EXPONENT, FRACTION_BITS = -126, 127, 23
#: Of float64.
BIAS, FRACTION_BITS_OF_DOUBLE = 1023, 52


class Worst(NamedTuple):
    """The largest error and the bit pattern of its input; -1 where there was no such result."""

    error: float = 0.0
    pattern: int = -1


class Tally(NamedTuple):
    """What a number of inputs gave.

    Attributes
    ----------
    numbers, exact : int
        Inputs whose exact result is a number or an infinity; those of them that came out correctly
        rounded.
    normal, subnormal : Worst
        In ULP, where the exact result (of a slope: its larger term) is a normal number, or NaN where
        the function gave something else; in the spacing of subnormal numbers, where it is smaller.
    """

    numbers: int = 0
    exact: int = 0
    normal: Worst = Worst()
    subnormal: Worst = Worst()

    # A sum, where a tuple's would be the two one after the other.
    def __add__(self, other: Tally) -> Tally:  # type: ignore[override]
        return Tally(
            self.numbers + other.numbers,
            self.exact + other.exact,
            worse(self.normal, other.normal),
            worse(self.subnormal, other.subnormal),
        )


def worse(first: Worst, second: Worst) -> Worst:
    """The larger error; of equal ones the lower pattern, so that the order of chunks is no matter."""
    if first.pattern < 0 or second.pattern < 0:
        return max(first, second, key=lambda worst: worst.pattern)
    return min(first, second, key=lambda worst: (-worst.error, worst.pattern))


def reuse_memory() -> None:
    """Make the C library keep what is freed.

    glibc gives memory of the size of a block's arrays back to the system, until something larger has
    been freed once; fresh pages would cost more than computing the references.
    """
    np.empty(REUSED_MEMORY, np.uint8)


def measure(case: Case, chunk: int, step: int) -> Tally:
    """Tally every `step`-th pattern of a chunk."""
    total = Tally()
    for patterns in blocks(chunk, step):
        total += measure_block(case, patterns)
    return total


def blocks(chunk: int, step: int) -> Iterator[np.ndarray]:
    """The patterns of a chunk that `step` divides."""
    start, stop = -(-chunk * CHUNK // step) * step, (chunk + 1) * CHUNK
    for first in range(start, stop, BLOCK * step):
        yield np.arange(first, min(first + BLOCK * step, stop), step).astype(np.uint32)


def measure_block(case: Case, patterns: np.ndarray) -> Tally:
    _, got, exact, scale = evaluate(case, patterns)
    numbers, right, normal, normal_at, subnormal, subnormal_at = count(patterns, got, exact, scale)
    return Tally(numbers, right, Worst(normal, normal_at), Worst(subnormal, subnormal_at))


def evaluate(case: Case, patterns: np.ndarray) -> tuple[np.ndarray, ...]:
    """(inputs, results, exact results, sizes at whose spacing an error is measured)."""
    x = patterns.view(np.float32)
    got = np.empty_like(x)
    loop(case.function)(x, got)
    with np.errstate(all="ignore"):  # here: NumPy keeps this state for each thread
        return x, got, *case.exact(x.astype(np.float64))


@functools.cache
def loop(function: Callable) -> Callable:
    """The function over an array, vectorised as it is in kernels."""

    @njit(error_model="numpy", nogil=True)
    def run(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    return run


@njit(error_model="numpy", nogil=True)
def count(patterns, got, exact, scale):
    """The fields of a `Tally`, flat."""
    numbers, right = 0, 0
    normal, normal_at, subnormal, subnormal_at = 0.0, -1, 0.0, -1
    scale_bits = scale.view(np.int64)
    for i in range(got.size):
        exponent = (scale_bits[i] >> FRACTION_BITS_OF_DOUBLE) - BIAS
        target = np.float32(exact[i])
        same = got[i] == target
        numbers += not np.isnan(target)
        right += same
        error = error_of(got[i], exact[i], target, same, exponent)
        if exponent >= LEAST_EXPONENT:
            if error > normal or normal_at < 0:
                normal, normal_at = error, np.int64(patterns[i])
        elif error > subnormal or subnormal_at < 0:
            subnormal, subnormal_at = error, np.int64(patterns[i])
    return numbers, right, normal, normal_at, subnormal, subnormal_at


@njit(error_model="numpy", nogil=True)
def error_of(got, exact, target, same, exponent):
    """|got - exact| in spacings of float32 at 2^exponent.

    An infinity where it is due counts as 0, NaN likewise; one of them instead of something else, or
    something else instead of one of them, as infinite.
    """
    if np.isnan(target):
        return 0.0 if np.isnan(got) else np.inf
    if np.isinf(target) or np.isinf(got) or np.isnan(got):
        return 0.0 if same else np.inf
    exponent = min(max(exponent, LEAST_EXPONENT), GREATEST_EXPONENT)
    inverse_spacing = from_bits((BIAS + FRACTION_BITS - exponent) << FRACTION_BITS_OF_DOUBLE)
    return abs(np.float64(got) - exact) * inverse_spacing
