"""The input arrays: the same bits in every process, from a seed."""

from __future__ import annotations

import functools

import numpy as np

from fastgrad.bench.workloads import DTYPES, Case

#: Values repeat after this many elements, so the float64 reference is computed once for any size.
#: A prime, so that no tile boundary meets the same value twice.
PERIOD = 262_147

# A wider `x` than activations usually have, so that the tails count in the errors.
_DEVIATIONS = {"dy": 1.0, "x": 2.0, "y": 1.0}


@functools.cache
def values(name: str, dtype: str, seed: int) -> np.ndarray:
    """One period of the input `name`, normally distributed."""
    stream = np.random.default_rng([seed, list(_DEVIATIONS).index(name)])
    return (_DEVIATIONS[name] * stream.standard_normal(PERIOD)).astype(DTYPES[dtype])


def input_arrays(case: Case, seed: int) -> dict[str, np.ndarray]:
    """The inputs of `case`, C-contiguous, by name."""
    return {
        name: np.resize(values(name, case.dtype, seed), case.shape) for name in case.workload.inputs
    }
