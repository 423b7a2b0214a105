"""The table of what is measured: one entry an operator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
IN_CACHE: Shape = (1 << 18,)
SIZES: tuple[Shape, ...] = (CALL, (4096,), (1 << 16,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE)

#: Shapes of each dtype.
Selection = Mapping[str, tuple[Shape, ...]]

#: What a run without filters measures of an operator; `--workload full` takes `SIZES` of every dtype.
#: Each of the `targets` finds rows here, and each dtype one in the cache and one beyond.
REPRESENTATIVE: Selection = {
    "float32": SIZES,
    "bfloat16": ((4096,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE),
    "float16": ((4096,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE),
    "float64": (IN_CACHE, FEATURE_MAP),
}

#: The peers that every row is measured beside. The others differentiate the code of a user, and take
#: seconds to compile a case or to run it: a run without filters measures them in a few rows.
KERNELS = ("torch", "torch-thp")


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
    modes : tuple of str
        Those that are measured, interleaved.
    selection : mapping
        The shapes of each dtype that a run measures unless it is asked for something else.
    beside_all : mapping
        The shapes of each dtype at which a run without filters measures all peers, not only
        `KERNELS`.
    family : str
        Its file in `benchmarks/`.
    """

    inputs: tuple[str, ...]
    arrays_moved: int
    results: tuple[Reference, ...]
    modes: tuple[str, ...] = ("out",)
    selection: Selection = field(default_factory=lambda: REPRESENTATIVE)
    beside_all: Selection = field(default_factory=lambda: {"float32": (FEATURE_MAP,)})
    family: str = "activations"


# Forward and backward together is what autodiff is for.
_OF_BOTH: Selection = {
    "float32": (IN_CACHE, FEATURE_MAP),
    **dict.fromkeys(("bfloat16", "float16", "float64"), (FEATURE_MAP,)),
}

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
        selection=_OF_BOTH,
        beside_all=_OF_BOTH,
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
    def samples(self) -> int:
        """What throughput counts: the first axis, the batch; of a flat array that is its elements."""
        return self.shape[0]

    @property
    def samples_are(self) -> str:
        return "elements" if len(self.shape) == 1 else "samples"

    @property
    def bytes_moved(self) -> int:
        return self.workload.arrays_moved * self.array_bytes


def stream_case(bytes_moved: int) -> Case:
    """The float32 addition that moves at least `bytes_moved`, whose bandwidth is the bound."""
    elements = -(-bytes_moved // (_STREAM_WORKLOAD.arrays_moved * 4))
    return Case(_STREAM, (elements,), "float32", "out")


def plan(
    operators: Sequence[str] = (),
    shapes: Sequence[Shape] = (),
    dtypes: Sequence[str] = (),
    *,
    full: bool = False,
) -> list[list[Case]]:
    """The groups to measure; the cases of a group differ in mode alone and are interleaved.

    Parameters
    ----------
    operators, shapes, dtypes : sequence
        What to measure instead of what the table selects. One of `shapes` and `dtypes` alone goes
        with all of the other.
    full : bool
        All sizes in all dtypes instead of the selection.
    """
    return [
        group_of(operator, shape, dtype)
        for operator in operators or WORKLOADS
        for dtype, of_dtype in _selected(WORKLOADS[operator], shapes, dtypes, full).items()
        for shape in of_dtype
    ]


def beside_all(case: Case) -> bool:
    """Whether a run without filters measures all peers at `case`."""
    return case.shape in case.workload.beside_all.get(case.dtype, ())


def group_of(operator: str, shape: Shape, dtype: str) -> list[Case]:
    """One case a mode of the operator."""
    return [Case(operator, shape, dtype, mode) for mode in WORKLOADS[operator].modes]


def _selected(
    workload: Workload, shapes: Sequence[Shape], dtypes: Sequence[str], full: bool
) -> Selection:
    if not (shapes or dtypes or full):
        return workload.selection
    return {dtype: tuple(shapes or SIZES) for dtype in dtypes or DTYPES}
