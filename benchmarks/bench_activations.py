"""swish and gelu, the contenders beside each other: `make bench`."""

from __future__ import annotations

from typing import Any

from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.workloads import FEATURE_MAP, IN_CACHE, WORKLOADS, Case, plan

OPERATORS = [name for name, workload in WORKLOADS.items() if workload.family == "activations"]

# Below, within and beyond the last-level cache, in every dtype.
CASES = [cases[0] for cases in plan(OPERATORS, ((4096,), IN_CACHE, FEATURE_MAP))]


def bench_activation(prepared: Prepared, case: Case, benchmark: Any) -> None:
    benchmark.group = str(case)
    benchmark.extra_info["bytes_moved"] = case.bytes_moved
    benchmark.extra_info["code"] = prepared.code
    benchmark(prepared.call)
