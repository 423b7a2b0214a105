"""How far a result is from the float64 reference."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from fastgrad.bench.inputs import PERIOD, values
from fastgrad.bench.references import Terms
from fastgrad.bench.workloads import DTYPES, Case


@dataclass(frozen=True)
class Accuracy:
    """Largest errors over all elements of all results.

    Parameters
    ----------
    ulp : float
        In units in the last place of the dtype: for 16-bit results those of the reference itself,
        for float32 and float64 those of the largest of it and the terms that it is the sum of.
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
    expected = _reference(case.operator, case.dtype, seed)
    if len(results) != len(expected):
        raise ValueError(f"{case.operator} gives {len(expected)} results, not {len(results)}")
    errors = [_accuracy(got, terms, case) for got, terms in zip(results, expected)]
    return Accuracy(
        max(error.ulp for error in errors),
        max(error.absolute for error in errors),
        min(error.exactly_rounded for error in errors),
    )


@functools.cache
def _reference(operator: str, dtype: str, seed: int) -> list[Terms]:
    workload = Case(operator, (PERIOD,), dtype, "out").workload
    operands = {name: values(name, dtype, seed).astype(np.float64) for name in workload.inputs}
    return [result.terms(operands) for result in workload.results]


def _accuracy(result: np.ndarray, terms: Terms, case: Case) -> Accuracy:
    if result.shape != case.shape or result.dtype != DTYPES[case.dtype]:
        raise ValueError(
            f"{case.operator} gave {result.dtype}{result.shape}, not {case.dtype}{case.shape}"
        )
    # Most periods of a right result repeat the first one's bits: only those that differ cost.
    flat = result.reshape(-1)
    distinct: dict[bytes, tuple[np.ndarray, int]] = {}
    for start in range(0, flat.size, PERIOD):
        chunk = flat[start : start + PERIOD]
        key = chunk.tobytes()
        distinct[key] = (chunk, distinct[key][1] + 1 if key in distinct else 1)
    return _combine([(*_errors(chunk, terms), times) for chunk, times in distinct.values()])


def _errors(chunk: np.ndarray, terms: Terms) -> tuple[float, float, int, int]:
    """Largest error in ULP and plain, elements exactly rounded, elements, of one period."""
    terms = tuple(term[: chunk.size] for term in terms)
    reference = np.sum(terms, axis=0)
    size = np.abs(reference)
    if chunk.dtype.itemsize > 2:
        size = np.max([size, *np.abs(terms)], axis=0)
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
