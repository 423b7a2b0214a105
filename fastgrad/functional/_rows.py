"""One operator over rows: its programs, and a call of one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernels.layout import dense, layout_of
from ..kernels.row_walk import Rows, RowWalk
from ..program.expression import Node
from ..program.row_compile import compiled_rows
from ..program.row_derive import trace_given_rows, trace_rows, trace_rows_backward
from ..program.row_program import FULL, PER_CHANNEL, PER_ROW, RowProgram, RowResult
from ..runtime import memory
from ..vector_unit.constants import DENSE
from ..vector_unit.precision import PRECISIONS, Precision
from ._arguments import check_outs

__all__ = ["Given", "RowKernels", "View"]


@dataclass(frozen=True)
class View:
    """Where the rows of an array are.

    Attributes
    ----------
    axes : tuple of int
        Its axes in logical order: those that count the rows, then those within a row.
    rows : Rows
        How many there are of what.
    """

    axes: tuple[int, ...]
    rows: Rows


@dataclass(frozen=True)
class Given:
    """The operands of one call, checked.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Of one shape and dtype; the first gives both to the results.
    channels : dict of str to ndarray
        Those parameters of one element a channel that the caller gave, 1-D.
    numbers : dict of str to float
        Parameters of one number in all.
    per_row : dict of str to ndarray
        One number a row, such as statistics.
    """

    arrays: Mapping[str, np.ndarray]
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    per_row: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def x(self) -> np.ndarray:
        """The array that the results are like."""
        return next(iter(self.arrays.values()))


class RowKernels:
    """The kernels of a line of maths over rows.

    Parameters
    ----------
    function : callable
        Its maths: arrays, then parameters of one element a channel (None by default: left out), then
        numbers. Returns a value for every lane, or a tuple of such.
    name : str
        Names generated files.
    arrays, channels, numbers : sequence of str
        Its arguments by kind.
    per_row : sequence of str
        Those that are one number a row.
    saved : mapping of str to str
        Instructions whose values a forward call can return, one a row, and backward be given:
        ``{"mean": "reduce_mean", "rstd": "rstd"}``.
    """

    def __init__(
        self,
        function: Callable,
        name: str,
        arrays: Sequence[str],
        channels: Sequence[str],
        numbers: Sequence[str],
        saved: Mapping[str, str] | None = None,
        per_row: Sequence[str] = (),
    ):
        self._function, self._name = function, name
        self.per_row = tuple(per_row)
        self.arrays, self.channels, self.numbers = tuple(arrays), tuple(channels), tuple(numbers)
        self.saved = dict(saved or {})
        self._programs: dict[tuple, RowProgram] = {}
        self._given_backward: Callable | None = None

    def give_backward(self, function: Callable) -> None:
        """Take the gradients from a function of ``dy`` and the operands, written by hand."""
        self._given_backward = function
        self._programs.clear()

    def kinds(self, channels: Sequence[str]) -> dict[str, str]:
        """Of the operands, where only these of the channels' parameters are given."""
        return {
            **dict.fromkeys(self.arrays, "array"),
            **{name: "channel" for name in self.channels if name in channels},
            **dict.fromkeys(self.per_row, "row"),
            **dict.fromkeys(self.numbers, "number"),
        }

    def program(
        self,
        channels: Sequence[str] = (),
        wrt: Sequence[str] | None = None,
        with_saved: bool = False,
    ) -> RowProgram:
        """The program of one kernel.

        Parameters
        ----------
        channels : sequence of str
            The parameters that are given.
        wrt : sequence of str, optional
            Operands whose gradients it computes; the forward program by default.
        with_saved : bool
            Forward: whether it returns what can be saved. Backward: whether it is given that.
        """
        key = (tuple(channels), None if wrt is None else tuple(wrt), with_saved)
        if key not in self._programs:
            self._programs[key] = self._make(*key)
        return self._programs[key]

    def _make(
        self, channels: tuple[str, ...], wrt: tuple[str, ...] | None, with_saved: bool
    ) -> RowProgram:
        kinds = self.kinds(channels)
        missing = dict.fromkeys(set(self.channels) - set(channels))

        def function(*operands: Any) -> Any:
            return self._function(**dict(zip(kinds, operands, strict=True)), **missing)

        name = "_".join([self._name, *channels])
        forward = trace_rows(function, name, kinds)
        nodes = (
            {own: self._node(forward, op) for own, op in self.saved.items()} if with_saved else {}
        )
        if wrt is not None and self._given_backward is not None:
            return trace_given_rows(forward, kinds, wrt, self._given_backward, missing)
        if wrt is not None:
            return trace_rows_backward(forward, kinds, wrt, nodes)
        saved = tuple(RowResult(own, node, PER_ROW) for own, node in nodes.items())
        suffix = "_saving" if saved else ""
        return dataclasses.replace(
            forward, name=forward.name + suffix, results=(*forward.results, *saved)
        )

    def _node(self, program: RowProgram, op: str) -> Node:
        return next(node for node in program.nodes if node.op == op)

    def walk(self, program: RowProgram, dtype: np.dtype, by_run: bool) -> RowWalk:
        """The kernel of a program in one precision."""
        return compiled_rows(program, PRECISIONS[dtype], by_run)

    def forward(
        self, given: Given, view: View, outs: Sequence[Any] = (), with_saved: bool = False
    ) -> dict[str, np.ndarray]:
        """The results by name; those of one number a row in float64."""
        program = self.program(tuple(given.channels), None, with_saved)
        return self._run(program, given, view, outs)

    def backward(
        self,
        dys: Mapping[str, np.ndarray],
        given: Given,
        view: View,
        wrt: Sequence[str],
        outs: Sequence[Any] = (),
        is_saved: bool = False,
        channels: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """The gradients by operand: sums over rows in float64.

        Parameters
        ----------
        dys : dict of str to ndarray
            The incoming gradient of each result, ``"dy"`` and so on.
        given, view, outs
            As forward; `outs` for the gradients of the arrays among `wrt`.
        wrt : sequence of str
            Operands.
        is_saved : bool
            Whether `given` has what a forward call returned, one number a row.
        channels : sequence of str, optional
            The parameters that the forward call had, if `given` does not have all of them.
        """
        own = tuple(given.channels) if channels is None else tuple(channels)
        program = self.program(own, wrt, is_saved)
        arrays = {**given.arrays, **dys}
        whole = Given(arrays, given.channels, given.numbers, given.per_row)
        results = self._run(program, whole, view, outs)
        by_name = {result.name: result.operand for result in program.results}
        return {by_name[name]: value for name, value in results.items()}

    def _run(
        self,
        program: RowProgram,
        given: Given,
        view: View,
        outs: Sequence[Any],
    ) -> dict[str, np.ndarray]:
        x = given.x
        precision = PRECISIONS[x.dtype.newbyteorder("=")]
        full = [result.name for result in program.named(FULL)]
        named = [*given.arrays.items(), *given.channels.items()]
        in_place = check_outs(outs, full, x, named)
        outs = [*outs, *[None] * (len(full) - len(outs))]
        results = [memory.empty_like(x, precision.dtype) if out is None else out for out in outs]
        rows = view.rows
        if x.size == 0:
            numbers = [np.full(rows.count, np.nan) for _ in program.named(PER_ROW)]
            sums = [np.zeros(rows.channels) for _ in program.named(PER_CHANNEL)]
        else:
            numbers, sums = self._launch(program, given, view, results, in_place, precision)
        names = [r.name for kind in (FULL, PER_ROW, PER_CHANNEL) for r in program.named(kind)]
        return dict(zip(names, [*results, *numbers, *sums], strict=True))

    def _launch(
        self,
        program: RowProgram,
        given: Given,
        view: View,
        results: Sequence[np.ndarray],
        in_place: bool,
        precision: Precision,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        rows = view.rows
        has_channels = bool(program.channels or program.named(PER_CHANNEL))
        by_run = rows.inner > 1 and (has_channels or rows.run > 0)
        if not by_run and not has_channels:
            rows = Rows(rows.count, rows.length)
        arrays = [given.arrays[name] for name in program.arrays]
        everything = [*arrays, *results]
        where, flat = _flattened(everything, view.axes)
        channels = [
            np.ascontiguousarray(given.channels[name], precision.compute_dtype)
            for name in program.channels
        ]
        numbers = [given.numbers[name] for name in program.numbers]
        rows_in = [
            np.ascontiguousarray(given.per_row[name], np.float64).reshape(-1)
            for name in program.per_row
        ]
        walk = self.walk(program, precision.dtype, by_run)
        return walk(flat, channels, rows_in, numbers, rows, where, in_place)


def _flattened(arrays: Sequence[np.ndarray], axes: tuple[int, ...]) -> tuple[Any, list[np.ndarray]]:
    """The layout of arrays in logical order, and each as one axis where it is dense."""
    turned = [array.transpose(axes) for array in arrays]
    if all(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative for a in turned):
        return dense(len(arrays)), [array.reshape(-1) for array in turned]
    where = layout_of(arrays, axes)
    flat = [
        array.reshape(-1) if row[0] == DENSE else _STRIDED[array.dtype.itemsize]
        for array, row in zip(turned, where[1], strict=True)
    ]
    return where, flat


# Stand-ins for arrays that the kernel reaches by address: one element each, never touched.
_STRIDED = {size: np.zeros(1, f"V{size}") for size in (2, 4, 8)}
