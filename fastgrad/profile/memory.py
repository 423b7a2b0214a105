"""Bytes that forward and backward need, beside composed autodiff: each in a process of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import numpy as np

import fastgrad
from fastgrad.bench.contenders.arrays import bytes_kept
from fastgrad.bench.contenders.fastgrad_ import name_of
from fastgrad.bench.contenders.protocol import source
from fastgrad.bench.memory import peak_bytes
from fastgrad.bench.references import Reference
from fastgrad.bench.tables import NOTHING, Cell, Table, short
from fastgrad.bench.workloads import DTYPES, WORKLOADS
from fastgrad.program.program import Program
from fastgrad.program.schedule import UB_BYTES, schedule
from fastgrad.vector_unit.precision import PRECISIONS

__all__ = ["Usage", "measure", "scratch_lines", "usage_table"]

Result = TypeVar("Result")
Shape = tuple[int, ...]

#: How it is measured.
NOTES = (
    "Kept: the arrays or storages that live on until backward, each once, operands included. Peak: "
    "the high-water mark of the process's resident set (VmHWM) in one run, results included, over "
    "what was there before; to a page.",
)

#: Whoever is measured, and what it is.
FASTGRAD, COMPOSED = "fastgrad.vjp", "composed autodiff (PyTorch)"


class Usage(NamedTuple):
    """Bytes of one forward and backward.

    Attributes
    ----------
    code : str
        What was run.
    kept : int
        Between forward and backward, the operands included that only the backward needs.
    peak : int or None
        Above inputs, at most, with the results; None where the system does not say.
    """

    code: str
    kept: int
    peak: int | None


def measure(operator: str, shape: Shape, dtype: str) -> tuple[dict[str, Usage], str]:
    """The usage of both, and why one is missing, or "".

    Parameters
    ----------
    operator : str
        A workload; its operator is run forward and backward.
    """
    usages = {FASTGRAD: _in_own_process(_fastgrad, operator, shape, dtype)}
    if importlib.util.find_spec("torch") is None:
        return (
            usages,
            "PyTorch is not installed, so nothing stands beside it: pip install 'fastgrad[torch]'",
        )
    composed = _in_own_process(_composed, operator, shape, dtype)
    if composed is None:
        return usages, f"there is no composed code for {operator} in fastgrad/profile/composed.py"
    return {**usages, COMPOSED: composed}, ""


def _in_own_process(function: Callable[..., Result], *arguments: Any) -> Result:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# --- In the process of each -----------------------------------------------------------------------


def _fastgrad(name: str, shape: Shape, dtype: str) -> Usage:
    reference = _reference(name)
    operator, choices = reference.operator, dict(reference.choices)
    x, dy = np.full(shape, 0.5, DTYPES[dtype]), np.ones(shape, DTYPES[dtype])
    others = [x.copy() for _ in operator.arrays[1:]]

    def forward_backward() -> tuple[Any, Any]:
        y, pullback = fastgrad.vjp(operator, x, *others, **choices)
        return y, pullback(dy)

    def pullback_of(x: np.ndarray) -> Any:
        return fastgrad.vjp(operator, x, *[x.copy() for _ in others], **choices)[1]

    forward_backward()  # compile, load, start the threads
    given = "".join(f", {key}={value!r}" for key, value in choices.items())
    code = (
        f"y, pullback = fastgrad.vjp({name_of(operator)}, "
        f"{', '.join(operator.arrays)}{given})\ngradients = pullback(dy)"
    )
    return Usage(code, bytes_kept(pullback_of, x), peak_bytes(forward_backward))


def _composed(name: str, shape: Shape, dtype: str) -> Usage | None:
    from fastgrad.bench.contenders.tensors import prepare_forward_backward, start
    from fastgrad.profile import composed

    reference = _reference(name)
    chosen = [value for _, value in reference.choices if value != "none"]
    function = getattr(composed, "_".join([reference.operator.__name__, *chosen]), None)
    if function is None:
        return None
    start(fastgrad.get_num_threads())
    inputs = {"dy": np.ones(shape, DTYPES[dtype]), "x": np.full(shape, 0.5, DTYPES[dtype])}
    code = (
        f"{source(function)}\n\ny = {function.__name__}(x)\n(dx,) = torch.autograd.grad(y, x, dy)"
    )
    prepared = prepare_forward_backward(function, inputs, code)
    prepared.call()
    assert prepared.bytes_kept is not None
    return Usage(code, prepared.bytes_kept(), peak_bytes(prepared.call))


def _reference(name: str) -> Reference:
    return WORKLOADS[name].results[0]


# --- What is shown --------------------------------------------------------------------------------


def usage_table(usages: dict[str, Usage], array_bytes: int) -> Table:
    """Bytes of each in megabytes and in arrays, and as a part of autodiff's."""
    beside = usages.get(COMPOSED)
    return Table(
        f"Memory of forward and backward (in brackets: arrays of {_size(array_bytes)})",
        ["", "kept for backward", "peak", "kept, ratio", "peak, ratio"],
        [
            [
                Cell(name),
                Cell(_in_arrays(own.kept, array_bytes)),
                Cell(_in_arrays(own.peak, array_bytes)),
                Cell(_ratio(own.kept, beside and beside.kept)),
                Cell(_ratio(own.peak, beside and beside.peak)),
            ]
            for name, own in usages.items()
        ],
    )


def _in_arrays(count: int | None, array_bytes: int) -> str:
    return NOTHING if count is None else f"{_size(count)} ({count / array_bytes:.2f})"


def _size(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"


def _ratio(own: int | None, beside: int | None) -> str:
    return short(own / beside) if own is not None and beside else NOTHING


def scratch_lines(operator: str, dtype: str) -> list[str]:
    """Scratch of a core, for the forward and the backward program of an operator."""
    reference = _reference(operator)
    choices = dict(reference.choices)
    forward = reference.operator.trace(**choices)
    backward = reference.operator.trace(wrt=reference.operator.arrays, **choices)
    return [_scratch_line(program, dtype) for program in (forward, backward)]


def _scratch_line(program: Program, dtype: str) -> str:
    precision = PRECISIONS[DTYPES[dtype]]
    itemsize = precision.compute_dtype.itemsize
    plan = schedule(program, itemsize=itemsize)
    used = plan.count * plan.block_size * itemsize
    tile = fastgrad.get_block_size() * precision.dtype.itemsize
    results = sum(not result.reduced for result in program.results)
    return (
        f"{program.name}: {plan.count} UB buffers × {plan.block_size} elements × {itemsize} bytes "
        f"= {used / 1024:.0f} KiB of an NPU core's {UB_BYTES / 1024:.0f}; on the CPU values live "
        f"in registers, and a core's scratch is {results} × {tile / 1024:g} KiB where results are "
        "streamed."
    )
