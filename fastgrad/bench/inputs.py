"""The input arrays: the same bits in every process, from a seed."""

from __future__ import annotations

import functools

import numpy as np

from fastgrad.bench.forms import PERIOD
from fastgrad.bench.workloads import DTYPES, Case

__all__ = ["PERIOD", "input_arrays", "repeated_part", "values"]

# A wider `x` than activations usually have, so that the tails count in the errors. New names go to the end:
# the place of each seeds its values.
_DEVIATIONS = {
    "dy": 1.0,
    "x": 2.0,
    "y": 1.0,
    "gamma": 0.5,
    "beta": 0.5,
    "residual": 2.0,
    "sum": 2.0,
    "dsum": 1.0,
    "weight": 0.1,
    "gate": 2.0,
    "up": 1.0,
    "packed": 2.0,
    "bias": 0.5,
    "target": 0.5,
}
_MEANS = {"gamma": 1.0, "weight": 0.25, "target": 0.5}

# Labels are probabilities, many of them certain.
_LIMITS = {"target": (0.0, 1.0)}


@functools.cache
def values(name: str, dtype: str, seed: int) -> np.ndarray:
    """One period of the input `name`, normally distributed, within its limits if it has any."""
    stream = np.random.default_rng([seed, list(_DEVIATIONS).index(name)])
    drawn = _MEANS.get(name, 0.0) + _DEVIATIONS[name] * stream.standard_normal(PERIOD)
    if name in _LIMITS:
        drawn = drawn.clip(*_LIMITS[name])
    return drawn.astype(DTYPES[dtype])


def input_arrays(case: Case, seed: int) -> dict[str, np.ndarray]:
    """The inputs of `case`, C-contiguous, by name."""
    form = case.workload.form
    return {
        name: np.resize(part, form.shape_of(name, case.shape))
        for name, part in repeated_part(case, seed).items()
    }


def repeated_part(case: Case, seed: int) -> dict[str, np.ndarray]:
    """What the inputs of `case` repeat along their first axis."""
    form = case.workload.form
    shape = form.repeating(case.shape)
    return {
        name: np.resize(values(name, case.dtype, seed), form.shape_of(name, shape))
        for name in case.workload.inputs
    }
