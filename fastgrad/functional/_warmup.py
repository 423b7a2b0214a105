"""`warmup`: compile before the first call, not in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..runtime import pool
from ..runtime.threads import get_num_threads
from ..vector_unit.precision import PRECISIONS
from . import (
    _activations,
    _clipped,
    _dropout,
    _fused,
    _gated,
    _losses,
    _norm_relu,
    _normalization,
    _quantization,
    _rectifiers,
    _sigmoids,
)
from ._operator import Operator, Specialisation
from ._row_operator import RowOperator
from ._variants import LossVariants

__all__ = ["warmup"]

_Op = Operator | RowOperator
_Known = Operator | RowOperator | LossVariants
_FAMILIES = (
    _activations,
    _rectifiers,
    _clipped,
    _sigmoids,
    _gated,
    _fused,
    _dropout,
    _losses,
    _quantization,
    _norm_relu,
    _normalization,
)
_Job = tuple[_Op, Specialisation, np.dtype]


def warmup(
    ops: Iterable[Operator | RowOperator | str] | Operator | RowOperator | str | None = None,
    dtypes: Iterable[Any] | Any = None,
    *,
    everything: bool = False,
    progress: bool | None = None,
) -> int:
    """Compile the kernels of operators, or load them from the cache, and start the threads.

    A first call then takes as long as any other. Kernels stay in the cache for other processes: call
    this where an image is built, or before a server forks.

    Parameters
    ----------
    ops : Operator, str, or several of them, optional
        Operators or their names, ``"gelu"``; by default all of the library's.
    dtypes : dtype or several of them, optional
        Of float16, bfloat16, float32 and float64; by default float32.
    everything : bool
        Also the kernels for gradients of some operands only, and for parameters with one number a
        channel. By default the forward, the usual gradient, and the gradients of all operands.
    progress : bool, optional
        Whether to show progress on standard error; by default if that is a terminal. Uses tqdm where
        it is installed, else prints a line a kernel.

    Returns
    -------
    int
        How many kernels are ready.

    Raises
    ------
    TypeError, ValueError
        For what is no operator, a name that is none, a dtype that is none of the four.

    Examples
    --------
    >>> fastgrad.warmup(["swish", fastgrad.gelu], dtypes=[np.float32, np.float16])
    14
    """
    precisions = _precisions(dtypes)
    jobs = [
        (operator, own, dtype)
        for operator in _operators(ops)
        for own in operator.specialisations(everything)
        for dtype in precisions
    ]
    for operator, own, dtype in _shown(jobs, progress):
        operator.prepare(own, dtype)
    if jobs and get_num_threads() > 1:
        pool.ready(get_num_threads())
    return len(jobs)


def _known() -> dict[str, _Op | LossVariants]:
    values = {name: getattr(module, name) for module in _FAMILIES for name in module.__all__}
    return {name: value for name, value in values.items() if isinstance(value, _Known)}


def _operators(ops: Any) -> list[_Op]:
    known = _known()
    if ops is None:
        ops = known.values()
    several = [ops] if isinstance(ops, str | _Known) or not isinstance(ops, Iterable) else ops
    found = [_operator(op, known) for op in several]
    return [one for op in found for one in (op.operators if isinstance(op, LossVariants) else [op])]


def _operator(op: Any, known: dict[str, _Op | LossVariants]) -> _Op | LossVariants:
    if isinstance(op, _Known):
        return op
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if name is not None and name.removesuffix("_grad") in known and not isinstance(op, type):
        return known[name.removesuffix("_grad")]  # one operator, forward and backward
    if isinstance(op, str):
        raise ValueError(f"ops: no operator is called {op!r}; there are: {', '.join(known)}")
    raise TypeError(f"ops must be operators or their names, got {type(op).__name__}: {op!r}")


def _precisions(dtypes: Any) -> list[np.dtype]:
    if dtypes is None:
        return [np.dtype(np.float32)]
    is_one = isinstance(dtypes, str | type | np.dtype) or not isinstance(dtypes, Iterable)
    names = {str(dtype): dtype for dtype in PRECISIONS}
    found = []
    for value in [dtypes] if is_one else dtypes:
        try:
            dtype = names.get(value) if isinstance(value, str) else np.dtype(value)
        except TypeError:
            dtype = None
        if dtype not in PRECISIONS:
            raise ValueError(f"dtypes must be among {', '.join(names)}, got {value!r}")
        found.append(dtype)
    return found


def _shown(jobs: Sequence[_Job], progress: bool | None) -> Iterable[_Job]:
    """`jobs`, with a bar, or lines, on standard error."""
    if progress is False:
        return jobs
    try:
        from tqdm import tqdm
    except ImportError:
        return _lines(jobs) if progress or sys.stderr.isatty() else jobs
    disable = None if progress is None else not progress
    return tqdm(jobs, desc="fastgrad warmup", unit="kernel", disable=disable)


def _lines(jobs: Sequence[_Job]) -> Iterator[_Job]:
    """Without tqdm, a line a kernel."""
    for count, (operator, own, dtype) in enumerate(jobs, start=1):
        text = f"fastgrad warmup {count}/{len(jobs)}: {operator.__name__} {own} {dtype}"
        print(text, file=sys.stderr, flush=True)
        yield operator, own, dtype
