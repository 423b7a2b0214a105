"""Norms, the contenders beside each other: `make bench`."""

from __future__ import annotations

from collections.abc import Callable

from fastgrad.bench.families.normalization import DIFFUSION, ROWS_IN_CACHE
from fastgrad.bench.workloads import FEATURE_MAP, WORKLOADS, Shape, plan

OPERATORS = [name for name, workload in WORKLOADS.items() if workload.family == "normalization"]

# Within the last-level cache and beyond it.
FEATURE_MAPS = (DIFFUSION[1], FEATURE_MAP)
ROWS = (ROWS_IN_CACHE, (2048, 4096))


def shapes_of(operator: str) -> tuple[Shape, ...]:
    workload = WORKLOADS[operator]
    shapes = ROWS if ROWS_IN_CACHE in workload.sizes else FEATURE_MAPS
    # Where groups have to be large its own shape is.
    return tuple(one for one in shapes if not workload.form.misfit(one)) or workload.sizes


CASES = [
    case
    for name in OPERATORS
    for (case,) in plan([name], shapes_of(name), ["float32", "bfloat16", "float16"])
]


def bench_norm(timed: Callable[[], None]) -> None:
    timed()
