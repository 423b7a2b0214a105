"""Gated units, fused additions and a user's own operator, the contenders beside each other: `make bench`."""

from __future__ import annotations

from collections.abc import Callable

from fastgrad.bench.families.fused import FUSED_WORKLOADS
from fastgrad.bench.workloads import plan

# Within the last-level cache and beyond it.
CASES = [
    case
    for (case,) in plan([*FUSED_WORKLOADS], ((64, 4096), (2048, 4096)), ["float32", "bfloat16"])
]


def bench_fused(timed: Callable[[], None]) -> None:
    timed()
