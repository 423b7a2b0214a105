"""Timing a prepared call inside a contender's process."""

from __future__ import annotations

import gc
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from fastgrad.bench.contenders.protocol import Prepared

# A sample lasts at least this long, so that reading the clock and a late thread do not count.
_SAMPLE_SECONDS = 5e-3
# And so long before it: threads that slept may wake on one core, and Linux parts them only at its next tick.
_WARM_UP_SECONDS = 10e-3


def choose_repetitions(prepared: Prepared) -> int:
    """How many calls make a sample."""
    repetitions = 1
    while True:
        seconds = seconds_per_call(prepared, repetitions)
        if seconds * repetitions >= 0.5 * _SAMPLE_SECONDS:
            return max(1, math.ceil(_SAMPLE_SECONDS / seconds))
        repetitions *= 4


def seconds_per_call(prepared: Prepared, repetitions: int) -> float:
    """Mean time of `repetitions` calls, after some that warm caches and wake the threads."""
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        _timed(prepared, 1)
    gc.disable()
    try:
        return _timed(prepared, repetitions) / repetitions
    finally:
        gc.enable()


def wait_until_idle(limit: float = 0.5) -> None:
    """Sleep until no thread of this process uses a core any more, for `limit` seconds at most.

    OpenMP's threads spin for some milliseconds after their work (libgomp: 9 ms here), which would
    slow down whoever is timed next. Forbidding them to spin (`OMP_WAIT_POLICY=passive`) would
    halve PyTorch's speed at 2**18 elements, and no user runs it so.
    """
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(1e-3)
        if time.process_time() - used < 2e-4:
            return


def _timed(prepared: Prepared, repetitions: int) -> float:
    if prepared.restore is None:
        return _timed_loop(prepared.call, repetitions)
    seconds = 0.0
    for _ in range(repetitions):
        prepared.restore()
        seconds += _timed_loop(prepared.call, 1)
    return seconds


def _timed_loop(call: Callable[[], Any], repetitions: int) -> float:
    start = time.perf_counter()
    for _ in itertools.repeat(None, repetitions):
        call()
    return time.perf_counter() - start
