"""swish, gelu and every activation's backward, the contenders beside each other: `make bench`."""

from __future__ import annotations

from collections.abc import Callable

from fastgrad.bench.families.activation_gradients import ACTIVATION_GRADIENTS
from fastgrad.bench.families.activations import ACTIVATIONS
from fastgrad.bench.workloads import FEATURE_MAP, IN_CACHE, plan

GROUPS = [
    # Below, within and beyond the last-level cache, in every dtype.
    *plan([*ACTIVATIONS], ((4096,), IN_CACHE, FEATURE_MAP)),
    # There are many.
    *plan([*ACTIVATION_GRADIENTS], (IN_CACHE,), ["float32", "bfloat16"]),
]
CASES = [cases[0] for cases in GROUPS]


def bench_activation(timed: Callable[[], None]) -> None:
    timed()
