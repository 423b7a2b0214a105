"""One call of an operator over rows: its arguments checked, and which rows its arrays have."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..kernels.row_walk import Rows
from ..runtime.settings import positive_integer
from ._arguments import as_operand, check_same, choose
from ._rows import Given, RowKernels, View

__all__ = ["RowCall", "not_negative"]

#: Places of a channel that are worth tiles of their own.
_LEAST_RUN = 64

#: Channels that are worth a walk of their own where they are the last axis.
_LEAST_CHANNELS = 16

#: What is derived from a shape is remembered for so many calls of different ones.
_remembered = functools.lru_cache(maxsize=1024)

_FORMATS = ("NCHW", "NHWC")

#: Of a call whose rows are still to be said.
_NO_VIEW = View((), Rows(0, 1))


class RowCall:
    """The checked arguments of a call, and its rows.

    Parameters
    ----------
    arrays : dict of str to array_like
        Operands of one shape and dtype; the first gives both to the results.
    channels : dict of str to (array_like or None)
        Parameters of one element a channel; None for those that are left out.
    **numbers : float
        Parameters of one number in all.
    """

    view = _NO_VIEW
    _axes: tuple[int, ...] = ()
    _per_row: Mapping[str, np.ndarray] = MappingProxyType({})

    def __init__(
        self, arrays: Mapping[str, Any], channels: Mapping[str, Any] | None = None, **numbers: Any
    ):
        checked = {}
        for name, value in arrays.items():
            checked[name] = as_operand(value, name)
        self._arrays = checked
        self._name = next(iter(arrays))
        #: The first array.
        self.x = x = checked[self._name]
        if len(checked) > 1:
            for name, array in checked.items():
                check_same(array, name, x, self._name)
        self._channels = channels or {}
        for name, value in numbers.items():
            if type(value) is not float:
                numbers[name] = _number(value, name)
        self._numbers = numbers

    @property
    def channels(self) -> tuple[str, ...]:
        """The parameters of one element a channel that are given."""
        return tuple([name for name, value in self._channels.items() if value is not None])

    # --- Which rows

    def by_rows(self, axes: Any) -> RowCall:
        """Rows are the last `axes` axes, and each lane is a channel."""
        x, count = self.x, positive_integer(axes, "axes")
        if count > x.ndim:
            raise ValueError(
                f"axes must be at most the number of axes of {self._name}, {x.ndim} in shape "
                f"{x.shape}, got {axes}"
            )
        return self._viewed(_last_axes(x.shape, count))

    def by_groups(self, num_groups: Any, data_format: str) -> RowCall:
        """Rows are the groups of channels of each item."""
        axes = self._channels_first(data_format)
        shape = self.x.shape
        groups = positive_integer(num_groups, "num_groups")
        if shape[axes[1]] % groups:
            raise ValueError(
                f"num_groups must divide the channels, {shape[axes[1]]} in x of shape {shape}, "
                f"got {num_groups}"
            )
        return self._viewed(_groups(shape, axes, groups))

    def by_each_channel(self, data_format: str) -> RowCall:
        """Rows are the channels of each item."""
        axes = self._channels_first(data_format)
        if self.x.ndim < 3:
            raise ValueError(
                f"{self._name} must have a spatial axis besides batch and channels, got shape "
                f"{self.x.shape}: one element a channel has no variance"
            )
        return self._viewed(_each_channel(self.x.shape, axes))

    def by_channels(self, data_format: str) -> RowCall:
        """Rows are the channels, over all items."""
        self._axes = self._channels_first(data_format)
        return self._viewed(_channels(self.x.shape, self._axes))

    def with_statistics(self, **per_channel: Any) -> RowCall:
        """Rows are the channels of each item, with numbers for them that are given by channel."""
        channel_shape, axes = self.view.channel_shape, self._axes
        values = {
            name: self._shaped(value, name, channel_shape) for name, value in per_channel.items()
        }
        self.view = _each_channel(self.x.shape, axes)
        items = self.x.shape[axes[0]]
        self._per_row = {name: np.tile(value, items) for name, value in values.items()}
        return self

    def _viewed(self, view: View) -> RowCall:
        if view.rows.length == 0 and view.rows.count:
            raise ValueError(
                f"{self._name} of shape {self.x.shape} has no element to normalise over in a row"
            )
        self.view = view
        return self

    def _channels_first(self, data_format: str) -> tuple[int, ...]:
        """The axes in the order of NCHW, after the checks that all such calls share."""
        choose(data_format, "data_format", _FORMATS)
        if self.x.ndim < 2:
            raise ValueError(
                f"{self._name} must have a batch and a channel axis, got shape {self.x.shape}"
            )
        return _channels_first(self.x.ndim, data_format)

    # --- Parameters and statistics

    def per_channel(self, value: Any, name: str) -> np.ndarray | None:
        """A parameter of one element a channel, checked, or None."""
        return None if value is None else self._shaped(value, name, self.view.channel_shape)

    def as_stats(self, values: np.ndarray) -> np.ndarray:
        """Statistics in the shape and dtype that calls return and take."""
        shaped = values.reshape(self.view.stats_shape)
        return shaped if self.x.itemsize > 2 else shaped.astype(np.float32)

    def _shaped(self, value: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
        array = as_operand(value, name)
        if array.shape != shape:
            raise ValueError(
                f"{name} must have the shape {shape} for {self._name} of shape {self.x.shape}, "
                f"got {array.shape}"
            )
        return array

    def _given(
        self,
        incoming: Mapping[str, np.ndarray] | None = None,
        saved: Mapping[str, np.ndarray] | None = None,
    ) -> Given:
        channels = {}
        for name, value in self._channels.items():
            if value is not None:
                array = self._shaped(value, name, self.view.channel_shape)
                channels[name] = array if array.ndim == 1 else array.reshape(-1)
        arrays = self._arrays if incoming is None else {**self._arrays, **incoming}
        per_row = self._per_row if not saved else {**self._per_row, **saved}
        return Given(arrays, channels, self._numbers, per_row)

    def _saved(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The statistics that a backward call was given; none where some are missing or too coarse."""
        found, usable = {}, True
        exact = 4 if self.x.itemsize == 2 else 8
        for name, value in values.items():
            if value is None:
                usable = False
                continue
            found[name] = array = self._shaped(value, name, self.view.stats_shape)
            usable = usable and array.itemsize >= exact
        return found if usable else {}

    # --- The call

    def forward(self, kernels: RowKernels, with_stats: bool, out: Any) -> dict[str, np.ndarray]:
        """The results by name, then the statistics where they are wanted: float64, one a row."""
        return kernels.forward(self._given(), self.view, _as_outs(out), with_stats)

    def backward(
        self,
        kernels: RowKernels,
        incoming: Mapping[str, Any],
        wrt: Sequence[str] | None = None,
        statistics: Mapping[str, Any] | None = None,
        out: Any = None,
        channels: Sequence[str] | None = None,
        called: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Gradients by operand.

        Parameters
        ----------
        kernels : RowKernels
            The operator's.
        incoming : dict of str to array_like
            The gradients of its results, by name.
        wrt : sequence of str, optional
            Operands; by default all arrays, given channels and numbers.
        statistics : dict of str to (array_like or None), optional
            What the forward call returned.
        out : ndarray or tuple of (ndarray or None), optional
            For the gradients of arrays.
        channels : sequence of str, optional
            The parameters that the forward call had, if not those that are given here.
        called : dict of str to str, optional
            What the caller knows incoming gradients by.
        """
        dys = {}
        for name, value in incoming.items():
            own = called.get(name, name) if called else name
            dys[name] = dy = as_operand(value, own)
            check_same(dy, own, self.x, self._name)
        saved = self._saved(statistics) if statistics else {}
        given = self._given(dys, saved)
        had = tuple(given.channels if channels is None else channels)
        wanted = (*self._arrays, *had, *self._numbers) if wrt is None else tuple(wrt)
        found = kernels.backward(given, self.view, wanted, _as_outs(out), bool(saved), had)
        gradients: dict[str, Any] = found
        for name in self._numbers:
            if name in found:
                gradients[name] = float(np.add.reduce(found[name]))
        return gradients


# --- Which rows an array has ----------------------------------------------------------------------
# Remembered by shape: all that is derived from a View, too. That is 10 µs of a call.


@_remembered
def _channels_first(ndim: int, data_format: str) -> tuple[int, ...]:
    """The axes in the order of NCHW."""
    if data_format == "NCHW":
        return tuple(range(ndim))
    return (0, ndim - 1, *range(1, ndim - 1))


def _sizes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int]:
    """Items, channels, and places of a channel in an item."""
    items, channels, *places = (shape[axis] for axis in axes)
    return items, channels, math.prod(places)


@_remembered
def _last_axes(shape: tuple[int, ...], count: int) -> View:
    others, own = shape[: len(shape) - count], shape[len(shape) - count :]
    return View(tuple(range(len(shape))), Rows(math.prod(others), math.prod(own)), own, others)


@_remembered
def _groups(shape: tuple[int, ...], axes: tuple[int, ...], groups: int) -> View:
    items, channels, places = _sizes(shape, axes)
    rows = Rows(items * groups, channels // groups * places, max(places, 1), groups)
    return _view(axes, rows, (channels,), (items, groups))


@_remembered
def _each_channel(shape: tuple[int, ...], axes: tuple[int, ...]) -> View:
    items, channels, places = _sizes(shape, axes)
    rows = Rows(items * channels, places, max(places, 1), channels)
    return _view(axes, rows, (channels,), (items, channels))


@_remembered
def _channels(shape: tuple[int, ...], axes: tuple[int, ...]) -> View:
    items, channels, places = _sizes(shape, axes)
    length = items * places
    run = places if places >= _LEAST_RUN and not _are_last(axes, channels) else 0
    rows = Rows(channels, length, max(length, 1), channels, run)
    return _view(axes, rows, (channels,), (channels,), (axes[1], axes[0], *axes[2:]))


def _view(
    axes: tuple[int, ...],
    rows: Rows,
    channel_shape: tuple[int, ...],
    stats_shape: tuple[int, ...],
    order: tuple[int, ...] | None = None,
) -> View:
    """The rows in the order of `axes`, or in the array's own where its channels are the last axis."""
    if not _are_last(axes, rows.channels):
        return View(order or axes, rows, channel_shape, stats_shape)
    own = replace(rows, channels_last=True)
    return View(tuple(range(len(axes))), own, channel_shape, stats_shape)


def _are_last(axes: tuple[int, ...], channels: int) -> bool:
    return len(axes) > 2 and axes[1] == len(axes) - 1 and channels >= _LEAST_CHANNELS


def _as_outs(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else () if out is None else (out,)


def _number(value: Any, name: str) -> float:
    if type(value) is not float and not isinstance(value, numbers.Real | np.floating | np.integer):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}: {value!r}")
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """`value`, if it is a number of at least 0."""
    number = _number(value, name)
    if not number >= 0:
        raise ValueError(f"{name} must be a number of at least 0, got {value}")
    return number
