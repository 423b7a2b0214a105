"""The table of what is measured: one entry an operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import fastgrad
from fastgrad.bench.references import Reference, add

#: What a call does with its result: write it over `dy` (or `x`), into an array made before, or into
#: a new one.
MODES = ("out", "in-place", "allocate")

DTYPES: dict[str, np.dtype] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}

Shape = tuple[int, ...]

CALL: Shape = (1024,)
FEATURE_MAP: Shape = (32, 64, 56, 56)
BEYOND_CACHE: Shape = (8192, 4096)
SIZES: tuple[Shape, ...] = (CALL, (4096,), (1 << 16,), (1 << 18,), FEATURE_MAP, BEYOND_CACHE)


@dataclass(frozen=True)
class Workload:
    """One operator as it is measured.

    Parameters
    ----------
    inputs : tuple of str
        Names of the input arrays, in the order of the call.
    arrays_moved : int
        Arrays read or written if each is touched once: the bytes of the streaming bound.
    results : tuple of Reference
        What its results are, in float64.
    modes, shapes, dtypes : tuple
        What a run measures unless it is asked for something else.
    """

    inputs: tuple[str, ...]
    arrays_moved: int
    results: tuple[Reference, ...]
    modes: tuple[str, ...] = ("out",)
    shapes: tuple[Shape, ...] = SIZES
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")


_SWISH, _SWISH_GRAD = Reference(fastgrad.swish), Reference(fastgrad.swish, "x")
_GELU, _GELU_GRAD = Reference(fastgrad.gelu), Reference(fastgrad.gelu, "x")
_GELU_TANH_GRAD = Reference(fastgrad.gelu, "x", (("approximate", "tanh"),))

WORKLOADS: dict[str, Workload] = {
    "swish_grad": Workload(("dy", "x"), 3, (_SWISH_GRAD,), modes=MODES),
    "silu": Workload(("x",), 2, (Reference(fastgrad.silu),)),
    "gelu": Workload(("x",), 2, (_GELU,)),
    "gelu_grad": Workload(("dy", "x"), 3, (_GELU_GRAD,), modes=("out", "in-place")),
    "gelu_tanh_grad": Workload(("dy", "x"), 3, (_GELU_TANH_GRAD,)),
    "swish_forward_backward": Workload(
        ("dy", "x"),
        5,
        (_SWISH, _SWISH_GRAD),
        modes=("allocate",),
        shapes=(FEATURE_MAP,),
        dtypes=("float32", "float16"),
    ),
}

# The bound of every row is the bandwidth of this one. It is no operator to compare.
_STREAM = "stream_add"
_STREAM_WORKLOAD = Workload(("x", "y"), 3, (Reference(add),))


@dataclass(frozen=True)
class Case:
    """One workload at one shape, dtype and mode: what a contender prepares and times."""

    operator: str
    shape: Shape
    dtype: str
    mode: str

    def __str__(self) -> str:
        mode = "" if self.mode == "out" else f" {self.mode}"
        return f"{self.operator} {'x'.join(map(str, self.shape))} {self.dtype}{mode}"

    @property
    def workload(self) -> Workload:
        return _STREAM_WORKLOAD if self.operator == _STREAM else WORKLOADS[self.operator]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def array_bytes(self) -> int:
        return self.elements * DTYPES[self.dtype].itemsize

    @property
    def bytes_moved(self) -> int:
        return self.workload.arrays_moved * self.array_bytes


def stream_case(bytes_moved: int) -> Case:
    """The float32 addition that moves at least `bytes_moved`, whose bandwidth is the bound."""
    elements = -(-bytes_moved // (_STREAM_WORKLOAD.arrays_moved * 4))
    return Case(_STREAM, (elements,), "float32", "out")


def plan(
    operators: Sequence[str] = (), shapes: Sequence[Shape] = (), dtypes: Sequence[str] = ()
) -> list[list[Case]]:
    """The groups to measure; the cases of a group differ in mode alone and are interleaved.

    Parameters
    ----------
    operators, shapes, dtypes : sequence
        Filters; an empty one takes what the table of workloads holds.
    """
    groups = []
    for operator in operators or WORKLOADS:
        workload = WORKLOADS[operator]
        for shape in shapes or workload.shapes:
            for dtype in dtypes or workload.dtypes:
                groups.append([Case(operator, shape, dtype, mode) for mode in workload.modes])
    return groups
