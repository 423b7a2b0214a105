"""swish and gelu, the contenders beside each other: `make bench`."""

from __future__ import annotations

from typing import Any

from fastgrad.bench.inputs import input_arrays
from fastgrad.bench.timing import wait_until_idle
from fastgrad.bench.workloads import FEATURE_MAP, Case, plan

# Below, within and beyond the last-level cache.
CASES = [cases[0] for cases in plan(shapes=((4096,), (1 << 18,), FEATURE_MAP))]


def bench_activation(benchmark: Any, backend: Any, case: Case) -> None:
    prepared = backend.prepare(case, input_arrays(case, seed=0))
    benchmark.group = str(case)
    benchmark.extra_info["bytes_moved"] = case.bytes_moved
    benchmark.extra_info["code"] = prepared.code
    wait_until_idle()  # the threads of the contender before
    benchmark(prepared.call)
