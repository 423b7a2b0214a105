"""One call of an operator over rows: its arguments checked, and which rows its arrays have."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..kernels.row_walk import Rows
from ..runtime.settings import positive_integer
from ._arguments import as_operand, check_same, choose
from ._rows import Given, RowKernels, View

__all__ = ["RowCall", "not_negative"]

#: Places of a channel that are worth tiles of their own.
_LEAST_RUN = 64


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

    def __init__(
        self, arrays: Mapping[str, Any], channels: Mapping[str, Any] | None = None, **numbers: Any
    ):
        self._arrays = {name: as_operand(value, name) for name, value in arrays.items()}
        self._name = next(iter(arrays))
        for name, array in self._arrays.items():
            check_same(array, name, self.x, self._name)
        self._channels = dict(channels or {})
        self._numbers = {name: _number(value, name) for name, value in numbers.items()}
        self._per_row: dict[str, np.ndarray] = {}
        self.view = View((), Rows(0, 1))
        self._channel_shape: tuple[int, ...] = ()
        self._stats_shape: tuple[int, ...] = ()

    @property
    def x(self) -> np.ndarray:
        """The first array."""
        return self._arrays[self._name]

    # --- Which rows

    def by_rows(self, axes: Any) -> RowCall:
        """Rows are the last `axes` axes, and each lane is a channel."""
        x, count = self.x, positive_integer(axes, "axes")
        if count > x.ndim:
            raise ValueError(
                f"axes must be at most the number of axes of {self._name}, {x.ndim} in shape "
                f"{x.shape}, got {axes}"
            )
        self._channel_shape = x.shape[x.ndim - count :]
        self._stats_shape = x.shape[: x.ndim - count]
        rows = Rows(math.prod(self._stats_shape), math.prod(self._channel_shape))
        return self._viewed(tuple(range(x.ndim)), rows)

    def by_groups(self, num_groups: Any, data_format: str) -> RowCall:
        """Rows are the groups of channels of each item."""
        axes, channels, places = self._channels_first(data_format)
        groups = _divisor(num_groups, channels, self.x.shape)
        items, length = self.x.shape[0], channels // groups * places
        self._channel_shape, self._stats_shape = (channels,), (items, groups)
        return self._viewed(axes, Rows(items * groups, length, max(places, 1), groups))

    def by_each_channel(self, data_format: str) -> RowCall:
        """Rows are the channels of each item."""
        axes, channels, places = self._channels_first(data_format)
        if self.x.ndim < 3:
            raise ValueError(
                f"{self._name} must have a spatial axis besides batch and channels, got shape "
                f"{self.x.shape}: one element a channel has no variance"
            )
        self._channel_shape, self._stats_shape = (channels,), (self.x.shape[0], channels)
        rows = Rows(self.x.shape[0] * channels, places, max(places, 1), max(channels, 1))
        return self._viewed(axes, rows)

    def by_channels(self, data_format: str) -> RowCall:
        """Rows are the channels, over all items."""
        axes, channels, places = self._channels_first(data_format)
        length = self.x.shape[0] * places
        turned = (axes[1], axes[0], *axes[2:])
        self._channel_shape = self._stats_shape = (channels,)
        run = places if places >= _LEAST_RUN else 0
        return self._viewed(turned, Rows(channels, length, max(length, 1), channels, run))

    def with_statistics(self, **per_channel: Any) -> RowCall:
        """Rows are the channels of each item, with numbers for them that are given by channel."""
        values = {
            name: self._shaped(value, name, self._channel_shape)
            for name, value in per_channel.items()
        }
        axes = (self.view.axes[1], self.view.axes[0], *self.view.axes[2:])
        items, channels = self.x.shape[axes[0]], self.x.shape[axes[1]]
        places = math.prod(self.x.shape[axis] for axis in axes[2:])
        self.view = View(axes, Rows(items * channels, places, max(places, 1), channels))
        self._per_row = {name: np.tile(value, items) for name, value in values.items()}
        return self

    def _viewed(self, axes: tuple[int, ...], rows: Rows) -> RowCall:
        if rows.length == 0 and rows.count:
            raise ValueError(
                f"{self._name} of shape {self.x.shape} has no element to normalise over in a row"
            )
        self.view = View(axes, rows)
        return self

    def _channels_first(self, data_format: str) -> tuple[tuple[int, ...], int, int]:
        """The axes in the order of NCHW, how many channels, and places of each in an item."""
        choose(data_format, "data_format", ("NCHW", "NHWC"))
        x = self.x
        if x.ndim < 2:
            raise ValueError(
                f"{self._name} must have a batch and a channel axis, got shape {x.shape}"
            )
        last = x.ndim - 1
        first = tuple(range(x.ndim)) if data_format == "NCHW" else (0, last, *range(1, last))
        return first, x.shape[first[1]], math.prod(x.shape[axis] for axis in first[2:])

    # --- Parameters and statistics

    def per_channel(self, value: Any, name: str) -> np.ndarray | None:
        """A parameter of one element a channel, checked, or None."""
        return None if value is None else self._shaped(value, name, self._channel_shape)

    def as_stats(self, values: np.ndarray) -> np.ndarray:
        """Statistics in the shape and dtype that calls return and take."""
        wide = self.x.dtype.itemsize > 2
        return values.reshape(self._stats_shape).astype(np.float64 if wide else np.float32)

    def _shaped(self, value: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
        array = as_operand(value, name)
        if array.shape != shape:
            raise ValueError(
                f"{name} must have the shape {shape} for {self._name} of shape {self.x.shape}, "
                f"got {array.shape}"
            )
        return array

    def _given(self, saved: Mapping[str, np.ndarray] | None = None) -> Given:
        checked = {name: self.per_channel(value, name) for name, value in self._channels.items()}
        channels = {name: value.reshape(-1) for name, value in checked.items() if value is not None}
        return Given(self._arrays, channels, self._numbers, {**self._per_row, **(saved or {})})

    def _saved(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The statistics that a backward call was given; none where some are missing or too coarse."""
        found = {
            name: self._shaped(value, name, self._stats_shape)
            for name, value in values.items()
            if value is not None
        }
        exact = 4 if self.x.dtype.itemsize == 2 else 8
        usable = all(array.dtype.itemsize >= exact for array in found.values())
        return found if usable and len(found) == len(values) else {}

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
            own = (called or {}).get(name, name)
            dys[name] = as_operand(value, own)
            check_same(dys[name], own, self.x, self._name)
        saved = self._saved(statistics or {})
        given = self._given(saved)
        had = tuple(given.channels) if channels is None else tuple(channels)
        wanted = (*self._arrays, *had, *self._numbers) if wrt is None else tuple(wrt)
        gradients = kernels.backward(
            dys, given, self.view, wanted, _as_outs(out), is_saved=bool(saved), channels=had
        )
        return {name: self._as_gradient(name, gradients[name], given) for name in wanted}

    def _as_gradient(self, name: str, value: np.ndarray, given: Given) -> Any:
        if name in self._arrays:
            return value
        if name in self._numbers:
            return float(np.sum(value))
        like = given.channels.get(name, next(iter(given.channels.values()), self.x))
        with np.errstate(over="ignore"):
            return value.astype(like.dtype.newbyteorder("=")).reshape(self._channel_shape)


def _as_outs(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else () if out is None else (out,)


def _number(value: Any, name: str) -> float:
    if not isinstance(value, numbers.Real | np.floating | np.integer):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}: {value!r}")
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """`value`, if it is a number of at least 0."""
    number = _number(value, name)
    if not number >= 0:
        raise ValueError(f"{name} must be a number of at least 0, got {value}")
    return number


def _divisor(num_groups: Any, channels: int, shape: tuple[int, ...]) -> int:
    groups = positive_integer(num_groups, "num_groups")
    if channels % groups:
        raise ValueError(
            f"num_groups must divide the channels, {channels} in x of shape {shape}, got {num_groups}"
        )
    return groups
