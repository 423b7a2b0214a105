"""Calls of the library's operators, whose results must have the same bits whoever makes them."""

from __future__ import annotations

import zlib
from typing import Any

import fastgrad

from .arrays import DTYPES, Rng, bits
from .judge import Fault

__all__ = ["Work", "check_alone", "random_works"]


class Work:
    """An operator, or its gradient, on arrays of its own: small, or large enough for many threads."""

    def __init__(self, rng: Rng):
        self.operator = getattr(fastgrad, str(rng.choice(["swish", "silu", "gelu", "sigmoid"])))
        self.is_gradient = bool(rng.random() < 0.6)
        dtype = DTYPES[rng.choice([0, 0, 0, 1, 2, 3])]
        size = int(rng.choice([100, 5000, 40_003, 1 << 17, 300_001]))
        self.dy, self.x = rng.normal(0, 3, (2, size)).astype(dtype)

    def __call__(self) -> int:
        """A checksum of the results."""
        results: Any = (self.operator(self.x),)
        if self.is_gradient:
            results = self.operator.grad(self.dy, self.x)
        return zlib.crc32(b"".join(map(bits, results)))

    def __str__(self) -> str:
        what = "gradient" if self.is_gradient else "value"
        return f"{what} of {self.operator.__name__} for {self.x.size} elements of {self.x.dtype}"


def random_works(rng: Rng) -> list[Work]:
    return [Work(rng) for _ in range(rng.integers(3, 8))]


def check_alone(works: list[Work], seen: set[tuple[int, int]], circumstances: str) -> None:
    """Compare checksums, each with the index of its work, with what one thread gets now.

    Raises
    ------
    Fault
        If one differs.
    """
    fastgrad.set_num_threads(1)
    fastgrad.set_block_size(fastgrad.BLOCK_SIZE)
    expected = [work() for work in works]
    wrong = sorted({index for index, result in seen if result != expected[index]})
    if wrong:
        names = "; ".join(str(works[index]) for index in wrong)
        raise Fault(f"{circumstances}: other bits than alone: {names}")
