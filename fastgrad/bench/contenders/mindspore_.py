"""MindSpore on the CPU: cells in graph mode around its own functions and their gradients."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fastgrad.bench.contenders import mindspore_norms
from fastgrad.bench.contenders.protocol import (
    Prepared,
    Unsupported,
    library,
    refuse_in_place,
    source,
)
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

mindspore = library("mindspore")
ops = library("mindspore.ops")
Cell: Any = library("mindspore.nn").Cell


def silu(x):
    return ops.silu(x)


def gelu(x):
    return ops.gelu(x)


def gelu_tanh(x):
    return ops.gelu(x, approximate="tanh")


class Forward(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, x):
        return self.function(x)


class Gradient(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gradient = ops.GradOperation(sens_param=True)

    def construct(self, dy, x):
        return self.gradient(self.function)(x, dy)


class ForwardBackward(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gradient = ops.GradOperation(sens_param=True)

    def construct(self, dy, x):
        return self.function(x), self.gradient(self.function)(x, dy)


_FUNCTIONS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "silu": (Forward, silu),
    "gelu": (Forward, gelu),
    "swish_grad": (Gradient, silu),
    "gelu_grad": (Gradient, gelu),
    "gelu_tanh_grad": (Gradient, gelu_tanh),
    "swish_forward_backward": (ForwardBackward, silu),
}

OPERATORS = frozenset([*_FUNCTIONS, *NORM_CALLS])

#: Its pool keeps what it once allocated, and has no way to give it back on the CPU: a call looks as
#: if it needed no memory.
POOLS_MEMORY = True


def start(threads: int) -> dict[str, str]:
    _keep_to_processors(threads)
    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.device_context.cpu.op_tuning.threads_num(threads)
    return {"mindspore": mindspore.__version__, "numpy": np.__version__}


def _keep_to_processors(count: int) -> None:
    """Let every thread of this process run on `count` processors.

    MindSpore computes with `threads_num` threads of its pool and, unless that is one, with the
    calling thread too.
    """
    processors = _cores_first(os.sched_getaffinity(0))[:count]
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), processors)


def _cores_first(processors: Iterable[int]) -> list[int]:
    """In an order in which as many as possible of the first ones have a core of their own."""
    seen: Counter[str] = Counter()
    turns = []
    for processor in sorted(processors):
        core = _core(processor)
        turns.append((seen[core], processor))
        seen[core] += 1
    return [processor for _, processor in sorted(turns)]


def _core(processor: int) -> str:
    siblings = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    return siblings.read_text() if siblings.exists() else str(processor)


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.dtype == "bfloat16":
        raise Unsupported("MindSpore's kernels for the CPU do not take bfloat16")
    refuse_in_place(case)
    if case.operator in NORM_CALLS:
        return mindspore_norms.prepare(case, inputs)
    cell_type, function = _FUNCTIONS[case.operator]
    cell = cell_type(function)
    operands = [mindspore.Tensor(array) for array in inputs.values()]

    def call() -> tuple[np.ndarray, ...]:
        results = cell(*operands)
        # Results may be under way still; `asnumpy` waits, and copies nothing.
        return tuple(
            one.asnumpy() for one in (results if isinstance(results, tuple) else [results])
        )

    code = (
        f"{source(function, cell_type)}\n\n"
        f"cell = {cell_type.__name__}({function.__name__})  # in graph mode\n"
        f"result = cell({', '.join(case.workload.inputs)})"
    )
    return Prepared(call, tuple, code)
