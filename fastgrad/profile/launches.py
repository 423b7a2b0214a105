"""The launches that a call makes: recorded, left out, repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastgrad.kernels import launch
from fastgrad.kernels.elementwise import ElementwiseWalk
from fastgrad.kernels.template import CHECKED, DIRECT

if TYPE_CHECKING:  # imports Numba
    from fastgrad.runtime.compiler import Kernel

__all__ = ["Launch", "launches_of", "left_out"]

# Bytes of all arrays together that lie in a first-level cache of 32 KiB.
_IN_CACHE = 24 << 10


@dataclass(frozen=True)
class Launch:
    """One launch with its arguments, ready to be repeated: an argument of `launch.run` each.

    Every walk takes the number of elements, the block size and the store mode first.
    """

    tiles: Kernel
    cores: int
    count: int
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        launch.run(self.tiles, self.cores, self.count, self.arguments)

    @property
    def size(self) -> int:
        """Elements of each array."""
        return self.arguments[0]

    @property
    def store(self) -> int:
        """How results leave: see `fastgrad.kernels.template`."""
        return self.arguments[2]

    def empty(self) -> Launch:
        """The same with no tiles to walk: handing out, waking, waiting, scratch for each core."""
        return replace(self, count=0)

    def stored(self, store: int) -> Launch:
        """The same with results that leave in another way."""
        return replace(self, arguments=(*self.arguments[:2], store, *self.arguments[3:]))

    def in_cache(self) -> Launch:
        """The same on the first elements, on one core: data never leaves its first cache."""
        flat = [a for a in self.arguments if isinstance(a, np.ndarray) and a.shape == (self.size,)]
        element = sum(array.itemsize for array in flat)
        size = min(self.size, _IN_CACHE // max(element, 1))
        arguments = [a[:size] if any(a is own for own in flat) else a for a in self.arguments]
        arguments[0], arguments[2] = size, DIRECT
        return replace(
            self, cores=1, count=-(-self.count * size // self.size), arguments=tuple(arguments)
        )


def launches_of(call: Callable[[], Any]) -> list[Launch]:
    """What one run of `call` launches, in order."""
    call()  # the first call of a kernel goes the long way round
    found: list[Launch] = []
    with _instead(lambda *arguments: found.append(Launch(*arguments))):
        call()
    return found


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Within it, calls do everything but launch: results stay as they are."""
    with _instead(lambda *arguments: None):
        yield


@contextlib.contextmanager
def _instead(take: Callable[..., object]) -> Iterator[None]:
    """Hand every launch to `take` in place of running it."""

    def small(walk: Any, arrays: Any, numbers: Any, size: int, block_size: int) -> bool:
        arguments = (size, block_size, CHECKED, *walk.dense, *arrays, *numbers)
        take(walk.tiles, 1, -(-size // block_size), arguments)
        return True

    run, own_small = launch.run, ElementwiseWalk.small
    # mypy is right that nobody should do this: it is what makes a launch visible without a hook in its way.
    launch.run, ElementwiseWalk.small = take, small  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        launch.run, ElementwiseWalk.small = run, own_small  # type: ignore[method-assign]
