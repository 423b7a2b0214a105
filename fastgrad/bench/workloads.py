"""The table of what is measured: one entry an operator. What a run measures of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastgrad.bench.families.activation_gradients import ACTIVATION_GRADIENTS
from fastgrad.bench.families.activations import ACTIVATIONS
from fastgrad.bench.families.fused import FUSED_WORKLOADS
from fastgrad.bench.families.losses import LOSS_WORKLOADS
from fastgrad.bench.families.normalization import NORMALIZATION
from fastgrad.bench.forms import Shape
from fastgrad.bench.references import Reference, add
from fastgrad.bench.workload import (
    BEYOND_CACHE,
    CALL,
    DTYPES,
    FEATURE_MAP,
    IN_CACHE,
    MODES,
    SIZES,
    Selection,
    Workload,
)

__all__ = [
    "BEYOND_CACHE",
    "CALL",
    "DTYPES",
    "FEATURE_MAP",
    "IN_CACHE",
    "KERNELS",
    "MODES",
    "SIZES",
    "WORKLOADS",
    "Case",
    "Misfit",
    "Shape",
    "Workload",
    "beside_all",
    "group_of",
    "plan",
    "stream_case",
]

#: The peers that every row is measured beside. The others differentiate the code of a user, and take
#: seconds to compile a case or to run it: a run without filters measures them in a few rows.
KERNELS = ("torch", "torch-thp")

WORKLOADS: dict[str, Workload] = {
    **ACTIVATIONS,
    **ACTIVATION_GRADIENTS,
    **FUSED_WORKLOADS,
    **LOSS_WORKLOADS,
    **NORMALIZATION,
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


class Misfit(ValueError):
    """A shape that an operator does not take."""


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
        with all of the other. Without operators those are taken that `shapes` fit.
    full : bool
        All sizes in all dtypes instead of the selection.

    Raises
    ------
    Misfit
        If one of `shapes` does not fit one of `operators`.
    """
    for operator in operators:
        for shape in shapes:
            _check_fits(operator, shape)
    selects = not (operators or shapes or dtypes or full)
    return [
        group_of(operator, shape, dtype, WORKLOADS[operator].selected_modes if selects else ())
        for operator in operators or WORKLOADS
        for dtype, of_dtype in _selected(WORKLOADS[operator], shapes, dtypes, full).items()
        for shape in of_dtype
        if not WORKLOADS[operator].form.misfit(shape)
    ]


def beside_all(case: Case) -> bool:
    """Whether a run without filters measures all peers at `case`."""
    return case.shape in case.workload.beside_all.get(case.dtype, ())


def group_of(operator: str, shape: Shape, dtype: str, modes: Sequence[str] = ()) -> list[Case]:
    """One case a mode: one of `modes`, or else of all that the operator has."""
    return [Case(operator, shape, dtype, mode) for mode in modes or WORKLOADS[operator].modes]


def _selected(
    workload: Workload, shapes: Sequence[Shape], dtypes: Sequence[str], full: bool
) -> Selection:
    if not (shapes or dtypes or full):
        return workload.selection
    return {dtype: tuple(shapes or workload.sizes) for dtype in dtypes or DTYPES}


def _check_fits(operator: str, shape: Shape) -> None:
    needs = WORKLOADS[operator].form.misfit(shape)
    if needs:
        raise Misfit(f"{operator} {needs}; got {'x'.join(map(str, shape))}")
