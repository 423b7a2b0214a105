"""One operator over rows: its programs, and a call of one of them."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..kernels.channels_walk import ChannelsLastWalk
from ..kernels.layout import Layout, dense, layout_of
from ..kernels.row_walk import Rows, RowWalk
from ..program.expression import Node
from ..program.row_compile import compiled_channels_last, compiled_rows
from ..program.row_derive import trace_given_rows, trace_rows, trace_rows_backward
from ..program.row_program import FULL, PER_CHANNEL, PER_ROW, RowProgram, RowResult
from ..runtime import memory
from ..vector_unit.constants import DENSE
from ..vector_unit.precision import PRECISIONS, Precision
from ._arguments import check_outs, native, precision_of

__all__ = ["Given", "RowKernels", "View"]


@dataclass(frozen=True, eq=False)
class View:
    """Where the rows of an array are.

    Attributes
    ----------
    axes : tuple of int
        Its axes in logical order: those that count the rows, then those within a row.
    rows : Rows
        How many there are of what.
    channel_shape, stats_shape : tuple of int
        The shape of a parameter of one element a channel, and that of statistics.
    """

    axes: tuple[int, ...]
    rows: Rows
    channel_shape: tuple[int, ...] = ()
    stats_shape: tuple[int, ...] = ()

    @functools.cached_property
    def is_in_order(self) -> bool:
        """Whether the axes are in the order of the array."""
        return self.axes == tuple(range(len(self.axes)))

    @functools.cached_property
    def without_channels(self) -> Rows:
        """The rows, where nothing depends on a channel."""
        return Rows(self.rows.count, self.rows.length)


class Given(NamedTuple):
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
    channels: Mapping[str, np.ndarray]
    numbers: Mapping[str, float]
    per_row: Mapping[str, np.ndarray]


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
    usual : mapping of str to float, optional
        Numbers that usually have this value, for which there are programs of their own, simpler ones.
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
        usual: Mapping[str, float] | None = None,
    ):
        self._function, self._name = function, name
        self.per_row, self.usual = tuple(per_row), dict(usual or {})
        self.arrays, self.channels, self.numbers = tuple(arrays), tuple(channels), tuple(numbers)
        self.saved = dict(saved or {})
        self._runners: dict[tuple, _Runner] = {}
        self._given_backward: Callable | None = None

    def give_backward(self, function: Callable) -> None:
        """Take the gradients from a function of ``dy`` and the operands, written by hand."""
        self._given_backward = function
        self._runners.clear()

    def kinds(self, channels: Sequence[str], usual: Sequence[str] = ()) -> dict[str, str]:
        """Of the operands, where these parameters are given and these numbers are the usual ones."""
        return {
            **dict.fromkeys(self.arrays, "array"),
            **{name: "channel" for name in self.channels if name in channels},
            **dict.fromkeys(self.per_row, "row"),
            **{name: "number" for name in self.numbers if name not in usual},
        }

    def program(
        self,
        channels: Sequence[str] = (),
        wrt: Sequence[str] | None = None,
        with_saved: bool = False,
        usual: Sequence[str] = (),
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
        usual : sequence of str
            The numbers that have their usual value.
        """
        key = (tuple(channels), None if wrt is None else tuple(wrt), with_saved, tuple(usual))
        return self._runner(*key).program

    def _runner(
        self,
        channels: tuple[str, ...],
        wrt: tuple[str, ...] | None,
        with_saved: bool,
        usual: tuple[str, ...],
    ) -> _Runner:
        key = (channels, wrt, with_saved, usual)
        runner = self._runners.get(key)
        if runner is None:
            runner = self._runners[key] = _Runner(self._make(*key), self)
        return runner

    def _make(
        self,
        channels: tuple[str, ...],
        wrt: tuple[str, ...] | None,
        with_saved: bool,
        usual: tuple[str, ...],
    ) -> RowProgram:
        kinds = self.kinds(channels, usual)
        missing: dict[str, Any] = dict.fromkeys(set(self.channels) - set(channels))
        missing |= {name: self.usual[name] for name in usual}

        def function(*operands: Any) -> Any:
            return self._function(**dict(zip(kinds, operands, strict=True)), **missing)

        name = "_".join([self._name, *channels, *(f"usual_{name}" for name in usual)])
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

    def walk(self, program: RowProgram, dtype: np.dtype, form: str) -> RowWalk | ChannelsLastWalk:
        """The kernel of a program in one precision.

        Parameters
        ----------
        program : RowProgram
        dtype : dtype
        form : str
            How channels lie: ``"lanes"`` where each lane is one, ``"runs"`` where some in a row share one,
            ``"last"`` where they are the last axis and a row is some of them in every place.
        """
        if form == "last":
            return compiled_channels_last(program, PRECISIONS[dtype])
        return compiled_rows(program, PRECISIONS[dtype], form == "runs")

    def forward(
        self, given: Given, view: View, outs: Sequence[Any] = (), with_saved: bool = False
    ) -> dict[str, np.ndarray]:
        """The results by name; those of one number a row in float64."""
        usual = self._usual(given, ()) if self.usual else ()
        run = self._runner(tuple(given.channels), None, bool(with_saved), usual)
        return run(given, view, outs)

    def _usual(self, given: Given, wrt: Sequence[str]) -> tuple[str, ...]:
        """The numbers that have their usual value, and whose gradient is not asked for."""
        return tuple(
            name
            for name, value in self.usual.items()
            if given.numbers[name] == value and name not in wrt
        )

    def backward(
        self,
        given: Given,
        view: View,
        wrt: tuple[str, ...],
        outs: Sequence[Any],
        is_saved: bool,
        channels: tuple[str, ...],
    ) -> dict[str, np.ndarray]:
        """The gradients by operand; of numbers the terms, one a row.

        Parameters
        ----------
        given, view, outs
            As forward, with the incoming gradient of each result, ``"dy"`` and so on, among the arrays;
            `outs` for the gradients of the arrays among `wrt`.
        wrt : tuple of str
            Operands.
        is_saved : bool
            Whether `given` has what a forward call returned, one number a row.
        channels : tuple of str
            The parameters that the forward call had.
        """
        usual = self._usual(given, wrt) if self.usual else ()
        return self._runner(channels, wrt, is_saved, usual)(given, view, outs)


class _Runner:
    """Runs one program in any of the precisions.

    Parameters
    ----------
    program : RowProgram
        What to run.
    kernels : RowKernels
        Whose it is.
    """

    def __init__(self, program: RowProgram, kernels: RowKernels):
        self.program, self._kernels = program, kernels
        results = {kind: program.named(kind) for kind in (FULL, PER_ROW, PER_CHANNEL)}
        self._summed = [result.operand for result in results[PER_CHANNEL]]
        self._full = [result.name for result in results[FULL]]
        self._no_outs = (None,) * len(self._full)
        self._per_row, self._sums = len(results[PER_ROW]), len(results[PER_CHANNEL])
        #: Results are known by their operand in a backward program, by their name in a forward one.
        self._names = [own.operand or own.name for kind in results.values() for own in kind]
        self._has_channels = bool(program.channels or self._sums)
        self._walks: dict[tuple[np.dtype, str], RowWalk | ChannelsLastWalk] = {}

    def __call__(self, given: Given, view: View, outs: Sequence[Any]) -> dict[str, np.ndarray]:
        """All results: full arrays, numbers of the rows, gradients of parameters a channel."""
        x = next(iter(given.arrays.values()))
        in_place = False
        if outs:
            named = (*given.arrays.items(), *given.channels.items())
            in_place = check_outs(outs, self._full, x, named)
        precision = precision_of(x)
        outs = (*outs, *self._no_outs[len(outs) :])
        results = [_like(x, precision.dtype) if out is None else out for out in outs]
        if x.size:
            numbers, terms = self._launch(given, view, results, in_place, precision)
        else:
            numbers = [np.full(view.rows.count, np.nan) for _ in range(self._per_row)]
            terms = np.zeros((self._sums, 1, view.rows.channels))
        sums: Sequence[np.ndarray] = ()
        if self._sums:
            sums = _QUIET.copy().run(self._summed_up, terms, given, view)
        return dict(zip(self._names, (*results, *numbers, *sums), strict=True))

    def _summed_up(
        self, terms: Sequence[np.ndarray] | np.ndarray, given: Given, view: View
    ) -> list[np.ndarray]:
        """The sums of the channels, in the shape and dtype of the parameters."""
        channels, shape = given.channels, view.channel_shape
        usual = next(iter((*channels.values(), *given.arrays.values())))
        totals: Any
        if not isinstance(terms, np.ndarray):
            totals = [np.add.reduce(own, 0) if len(own) > 1 else own[0] for own in terms]
        elif terms.shape[1] > 1:
            totals = np.add.reduce(terms, 1)  # all at once: 3 µs less for each but one
        else:
            totals = terms[:, 0]
        gradients = []
        for name, total in zip(self._summed, totals, strict=True):
            dtype = native(channels.get(name, usual).dtype)
            gradients.append(total.astype(dtype, copy=False).reshape(shape))
        return gradients

    def _launch(
        self,
        given: Given,
        view: View,
        results: Sequence[np.ndarray],
        in_place: bool,
        precision: Precision,
    ) -> tuple[list[np.ndarray], Sequence[np.ndarray] | np.ndarray]:
        program, rows = self.program, view.rows
        by_run = rows.inner > 1 and (self._has_channels or rows.run > 0)
        if not by_run and not self._has_channels and not rows.channels_last:
            rows = view.without_channels
        key = (precision.dtype, "last" if rows.channels_last else _FORMS[by_run])
        walk = self._walks.get(key) or self._walk(key)
        arrays = [given.arrays[name] for name in program.arrays]
        arrays += results
        where, flat = _flattened(arrays, view)
        channels = []
        for name in program.channels:
            channels.append(_as_contiguous(given.channels[name], walk.compute_dtype))
        rows_in = []
        for name in program.per_row:
            rows_in.append(_as_contiguous(given.per_row[name], _FLOAT64).ravel())
        numbers = [given.numbers[name] for name in program.numbers]
        return walk(flat, channels, rows_in, numbers, rows, where, in_place)

    def _walk(self, key: tuple[np.dtype, str]) -> RowWalk | ChannelsLastWalk:
        walk = self._walks[key] = self._kernels.walk(self.program, *key)
        return walk


def _like(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An uninitialised dense array of the shape of `x` with its axes in the order of x."""
    if x.flags.c_contiguous:
        return memory.empty(x.shape, dtype)
    return memory.empty_like(x, dtype)


#: In which NumPy says nothing of infinite sums and NaN; entering a copy takes 3 µs less than `np.errstate`.
_QUIET = contextvars.Context()
_QUIET.run(np.seterr, invalid="ignore", over="ignore")

_as_contiguous, _FLOAT64 = np.ascontiguousarray, np.dtype(np.float64)

#: Whether each lane is a channel, or runs of lanes share one.
_FORMS = {False: "lanes", True: "runs"}

# Bits of `ndarray.flags.num`.
_PLAIN = 0x001 | 0x100  # C-contiguous, aligned

#: The layout of so many dense arrays.
_dense = functools.cache(dense)


def _flattened(arrays: Sequence[np.ndarray], view: View) -> tuple[Layout, list[np.ndarray]]:
    """The layout of arrays in logical order, and each as one axis where it is dense."""
    turned = arrays if view.is_in_order else [array.transpose(view.axes) for array in arrays]
    flat = []
    for array in turned:
        if array.flags.num & _PLAIN != _PLAIN or not array.dtype.isnative:
            break
        flat.append(array.ravel())
    else:
        return _dense(len(flat)), flat
    where = layout_of(arrays, view.axes)
    flat = [
        array.reshape(-1) if row[0] == DENSE else _STRIDED[array.dtype.itemsize]
        for array, row in zip(turned, where[1], strict=True)
    ]
    return where, flat


# Stand-ins for arrays that the kernel reaches by address: one element each, never touched.
_STRIDED = {size: np.zeros(1, f"V{size}") for size in (2, 4, 8)}
