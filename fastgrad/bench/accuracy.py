"""How far a result is from the float64 reference."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from fastgrad.bench.inputs import PERIOD, repeated_part
from fastgrad.bench.references import Expected
from fastgrad.bench.workloads import DTYPES, Case


@dataclass(frozen=True)
class Accuracy:
    """Largest errors over all elements of all results.

    Parameters
    ----------
    ulp : float
        In units in the last place of the dtype: for 16-bit results of elementwise operators those of
        the reference itself, for all others those of the largest of it and the terms that it is the
        sum of.
    absolute : float
        In plain numbers.
    exactly_rounded : float
        The share of elements that equal the correctly rounded reference.
    """

    ulp: float
    absolute: float
    exactly_rounded: float


def accuracy(results: Sequence[np.ndarray], case: Case, seed: int) -> Accuracy:
    """Compare the results of `case`, in the order of its reference, element by element."""
    references = case.workload.results
    if len(results) != len(references):
        raise ValueError(f"{case.operator} gives {len(references)} results, not {len(results)}")
    for got, reference in zip(results, references):
        _check(got, reference.name, case)
    errors = [_accuracy(got, one) for got, one in zip(results, _expected(case, seed))]
    return Accuracy(
        max(error.ulp for error in errors),
        max(error.absolute for error in errors),
        min(error.exactly_rounded for error in errors),
    )


def _check(result: np.ndarray, name: str, case: Case) -> None:
    shape = case.workload.form.shape_of(name, case.shape)
    if result.shape != shape or result.dtype != DTYPES[case.dtype]:
        raise ValueError(
            f"{case.operator} gave {result.dtype}{result.shape}, not {case.dtype}{shape}"
        )


def _expected(case: Case, seed: int) -> list[Expected]:
    """The results of the part of the inputs that repeats."""
    form = case.workload.form
    part, times = form.repeating(case.shape), form.times(case.shape)
    # Those of an elementwise operator are the same at every shape; others are too large to be kept.
    compute = _computed_once if math.prod(part) <= PERIOD else _computed
    return compute(Case(case.operator, part, case.dtype, "out"), times, seed)


def _computed(part: Case, times: int, seed: int) -> list[Expected]:
    inputs = repeated_part(part, seed)
    operands = {name: array.astype(np.float64) for name, array in inputs.items()}
    dtype = DTYPES[part.dtype]
    return [one.expected(operands, part.shape, dtype, times) for one in part.workload.results]


_computed_once = functools.cache(_computed)


def _accuracy(result: np.ndarray, expected: Expected) -> Accuracy:
    # Most periods of a right result repeat the first one's bits: only those that differ cost.
    flat, period = result.reshape(-1), expected.value.size
    distinct: dict[bytes, tuple[np.ndarray, int]] = {}
    for start in range(0, flat.size, period):
        chunk = flat[start : start + period]
        key = chunk.tobytes()
        distinct[key] = (chunk, distinct[key][1] + 1 if key in distinct else 1)
    return _combine([(*_errors(chunk, expected), times) for chunk, times in distinct.values()])


def _errors(chunk: np.ndarray, expected: Expected) -> tuple[float, float, int, int]:
    """Largest error in ULP and plain, elements exactly rounded, elements, of one period."""
    reference, size = (part[: chunk.size] for part in expected)
    error = np.abs(chunk.astype(np.float64) - reference)
    # A NaN compares as neither small nor large; here it must count as infinitely wrong.
    error[np.isnan(error)] = np.inf
    ulp = np.max(error / _spacing(size, chunk.dtype))
    unit = _spacing(np.abs(reference), chunk.dtype)
    rounded = np.rint(reference / unit) * unit
    exact = int(np.count_nonzero(chunk.astype(np.float64) == rounded))
    return float(ulp), float(np.max(error)), exact, chunk.size


def _spacing(size: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance of neighbours of `dtype` at `size`, which `np.spacing` knows for itself only."""
    info = ml_dtypes.finfo(dtype)
    _, exponent = np.frexp(size)
    return np.ldexp(1.0, np.maximum(exponent - 1, info.minexp) - info.nmant)


def _combine(parts: Sequence[tuple[float, float, int, int, int]]) -> Accuracy:
    exact = sum(exact * times for _, _, exact, _, times in parts)
    elements = sum(elements * times for _, _, _, elements, times in parts)
    return Accuracy(
        max(ulp for ulp, *_ in parts),
        max(absolute for _, absolute, *_ in parts),
        exact / elements,
    )
