"""Losses with their gradients, the contenders beside each other: `make bench`."""

from __future__ import annotations

from collections.abc import Callable

from fastgrad.bench.families.losses import LOSS_WORKLOADS
from fastgrad.bench.workloads import IN_CACHE, plan

CASES = [
    case for (case,) in plan([*LOSS_WORKLOADS], (IN_CACHE, (2048, 4096)), ["float32", "bfloat16"])
]


def bench_loss(timed: Callable[[], None]) -> None:
    timed()
