"""The interpreter of row programs: each instruction over all rows at once, in NumPy.

Lanes are arrays of shape (rows, lanes), numbers of a row (rows, 1). It is to the kernels over rows what
`interpret` is to the elementwise ones: the yardstick of their values, and the count of their instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernels.row_walk import Rows
from .expression import REDUCTIONS, ROW_LENGTH, Node
from .numpy_unit import EVALUATE
from .row_program import PER_CHANNEL, PER_ROW, RowProgram
from .text import ascend_name

__all__ = ["RowRun", "interpret_rows", "spread"]

#: A reduction in Ascend C: what is made of the lanes, which are then added up.
_STEPS = {
    "reduce_sum": ("ReduceSum",),
    "reduce_mean": ("ReduceSum",),
    "reduce_mean_square": ("Mul", "ReduceSum"),
    "reduce_variance": ("Subs", "Mul", "ReduceSum"),
}


@dataclass
class RowRun:
    """What an interpreted row program gave.

    Attributes
    ----------
    results : dict of str to ndarray
        By name: of an element a lane (rows, lanes), of a channel (channels,), of a row (rows,); sums over
        rows in float64.
    counts : Counter
        How often each vector instruction was executed on a whole row, by its Ascend C name.
    scalars : Counter
        The same of what computes numbers of a row, which is no vector work.
    elements : int
        Lanes that the vector instructions worked on, all together.
    """

    results: dict[str, Any]
    counts: Counter = field(default_factory=Counter)
    scalars: Counter = field(default_factory=Counter)
    elements: int = 0


def interpret_rows(
    program: RowProgram, operands: Mapping[str, Any], rows: Rows, dtype: Any = np.float64
) -> RowRun:
    """Run `program` on `operands`, lanes rounded to `dtype` and numbers of a row to float64.

    Parameters
    ----------
    program : RowProgram
    operands : mapping of str to array or float
        By name: arrays of as many elements as there are lanes, in logical order; one element a channel; one a
        row; one in all.
    rows : Rows
        How rows and channels lie in that order.
    dtype : dtype
        What lanes are computed in, float32 or float64.

    Returns
    -------
    RowRun
    """
    run = RowRun({})
    values: dict[Node, np.ndarray] = {ROW_LENGTH: np.full((1, 1), float(rows.length))}
    with np.errstate(all="ignore"):
        for node in program.nodes:
            if node in values:
                continue
            if not node.args:
                values[node] = _leaf(node, program, operands, rows, dtype)
                continue
            value = _evaluate(node.op)(*_arguments(node, values, dtype))
            is_bool = value.dtype == bool
            values[node] = value if is_bool else np.asarray(value, dtype if node.is_array else None)
            _count(run, node, rows)
    for result in program.results:
        run.results[result.name] = _result(values[result.value], result.kind, rows)
    return run


def spread(values: Any, rows: Rows) -> np.ndarray:
    """One element a channel as one for every lane."""
    return np.asarray(values).reshape(-1)[_channels(rows)]


def _leaf(
    node: Node, program: RowProgram, operands: Mapping[str, Any], rows: Rows, dtype: Any
) -> np.ndarray:
    if node.op == "const":
        return np.full((1, 1), node.value)
    given = operands[node.name]
    if node.name in program.arrays:
        return np.asarray(given, dtype).reshape(rows.count, rows.length)
    if node.name in program.channels:
        return spread(given, rows).astype(dtype)
    if node.name in program.per_row:
        return np.asarray(given, np.float64).reshape(rows.count, 1)
    return np.full((1, 1), float(given))


def _arguments(node: Node, values: Mapping[Node, np.ndarray], dtype: Any) -> list[np.ndarray]:
    """What an instruction reads; over lanes, a number in their dtype.

    But for a number of the row that is subtracted: kernels take off a mean in two parts, as if in float64.
    """
    if not node.is_array:
        return [values[arg] for arg in node.args]
    exact = [arg for arg in node.args[1:] if node.op == "sub" and arg.op != "const"]
    return [
        values[arg] if arg.is_array or arg in exact else values[arg].astype(dtype)
        for arg in node.args
    ]


def _result(value: np.ndarray, kind: str, rows: Rows) -> np.ndarray:
    if kind == PER_ROW:
        return np.broadcast_to(value, (rows.count, 1)).reshape(-1)
    lanes = np.broadcast_to(value, (rows.count, rows.length))
    return _summed(lanes, rows) if kind == PER_CHANNEL else lanes


def _evaluate(op: str) -> Callable[..., Any]:
    if op == "rstd":
        return lambda spread, eps: 1.0 / np.sqrt(spread + eps)
    return _REDUCE.get(op) or EVALUATE[op]


def _variance(lanes: np.ndarray) -> Any:
    distance = lanes - np.mean(lanes, axis=1, dtype=np.float64, keepdims=True)
    return np.mean(distance * distance, axis=1, keepdims=True)


def _mean_square(lanes: np.ndarray) -> Any:
    wide = lanes.astype(np.float64)
    return np.mean(wide * wide, axis=1, keepdims=True)


_REDUCE: dict[str, Callable[..., Any]] = {
    "reduce_sum": lambda lanes: np.sum(lanes, axis=1, dtype=np.float64, keepdims=True),
    "reduce_mean": lambda lanes: np.mean(lanes, axis=1, dtype=np.float64, keepdims=True),
    "reduce_mean_square": _mean_square,
    "reduce_variance": _variance,
}


def _count(run: RowRun, node: Node, rows: Rows) -> None:
    if node.op in REDUCTIONS:
        names: tuple[str, ...] = _STEPS[node.op]
    elif node.is_array:
        names = (ascend_name(node),)
    else:
        run.scalars[ascend_name(node)] += rows.count
        return
    for name in names:
        run.counts[name] += rows.count
        run.elements += rows.count * rows.length


def _channels(rows: Rows) -> np.ndarray:
    """The channel of every lane."""
    per_row = rows.length // rows.inner
    first = np.arange(rows.count) % rows.groups * per_row
    return first[:, None] + np.arange(rows.length)[None, :] // rows.inner


def _summed(lanes: np.ndarray, rows: Rows) -> np.ndarray:
    """The sum of each channel's lanes."""
    weights = lanes.astype(np.float64).reshape(-1)
    return np.bincount(_channels(rows).reshape(-1), weights, minlength=rows.channels)
