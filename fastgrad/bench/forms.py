"""What the arrays of a workload look like: which shapes fit, and which parts of them repeat.

The shape of a case is that of `x`. Parameters have another one, and so has `x` itself where the channels lie
last: there the case says N×C×H×W all the same, so that one SHAPE means the same data in either order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]

#: Values repeat after this many elements, so the float64 reference is computed once for any size.
#: A prime, so that no tile boundary meets the same value twice.
PERIOD = 262_147

#: Parameters of one element a channel.
PARAMETERS = ("gamma", "beta")

_LEAST_AXES, _MOST_AXES = 3, 5


@dataclass(frozen=True)
class Form:
    """All arrays have the shape of the case, whatever it is: an elementwise operator."""

    def misfit(self, shape: Shape) -> str:
        """What it needs that `shape` does not have; empty where that fits."""
        return ""

    def shape_of(self, name: str, shape: Shape) -> Shape:
        """The shape of an operand, or of a gradient (`d` before the name)."""
        return shape

    def repeating(self, shape: Shape) -> Shape:
        """The case that the values of one at `shape` repeat."""
        return (PERIOD,)

    def times(self, shape: Shape) -> int:
        """How often whole items are repeated; 1 where no result is a sum over them."""
        return 1


ELEMENTWISE = Form()


@dataclass(frozen=True)
class WholeItems(Form):
    """Whole items repeat, so that the sums of a reference are over whole ones."""

    def repeating(self, shape: Shape) -> Shape:
        items, item = shape[0], math.prod(shape[1:])
        enough = (d for d in range(1, items) if items % d == 0 and d * item >= PERIOD)
        return (next(enough, items), *shape[1:])

    def times(self, shape: Shape) -> int:
        return shape[0] // self.repeating(shape)[0]


@dataclass(frozen=True)
class Shaped(WholeItems):
    """Elementwise, but for arrays that have a shape of their own.

    Parameters
    ----------
    own : tuple of (str, callable)
        The shape of an operand and of its gradient, by that of the case.
    least_axes : int
        Of the case.
    """

    own: tuple[tuple[str, Callable[[Shape], Shape]], ...]
    least_axes: int = 1

    def misfit(self, shape: Shape) -> str:
        fits = len(shape) >= self.least_axes
        return (
            "" if fits else f"needs at least {self.least_axes} axes, rows and what each is added to"
        )

    def shape_of(self, name: str, shape: Shape) -> Shape:
        own = dict(self.own)
        return own[name.removeprefix("d")](shape) if name.removeprefix("d") in own else shape


def a_row(shape: Shape) -> Shape:
    """The last axis alone: a bias."""
    return shape[-1:]


def one_number(shape: Shape) -> Shape:
    """An array of one element: a trained number."""
    return (1,)


def nothing(shape: Shape) -> Shape:
    """No axes: a loss."""
    return ()


def doubled(shape: Shape) -> Shape:
    """Two halves along the last axis."""
    return (*shape[:-1], 2 * shape[-1])


@dataclass(frozen=True)
class NormForm(WholeItems):
    """Operators over rows."""

    @property
    def row_axes(self) -> tuple[int, ...]:
        """The axes of a view that the mean of a row is taken over."""
        return (2, 3)

    def view(self, x: Array) -> Array:
        """`x` as (items, groups, channels of a group, places)."""
        raise NotImplementedError

    def stored(self, values: Array, shape: Shape) -> Array:
        """The inverse of `view`, flat, at the case's shape."""
        return values.reshape(-1)


@dataclass(frozen=True)
class Rows(NormForm):
    """Each row of the last axis, and each of its places is a channel: layer norm, RMS norm."""

    def misfit(self, shape: Shape) -> str:
        return "" if len(shape) >= 2 else "needs at least 2 axes, rows and what is normalised"

    def shape_of(self, name: str, shape: Shape) -> Shape:
        return (shape[-1],) if _is_parameter(name) else shape

    def view(self, x: Array) -> Array:
        return x.reshape(-1, 1, x.shape[-1], 1)


@dataclass(frozen=True)
class Channels(NormForm):
    """N×C×…: group, instance and batch norm.

    Parameters
    ----------
    groups : int
        Of channels; 0 where every channel is one.
    last : bool
        Whether the channels are the last axis in memory.
    over_batch : bool
        Whether a row holds its channels of all items.
    least_row : int
        Elements of a row, at least.
    """

    groups: int = 0
    last: bool = False
    over_batch: bool = False
    least_row: int = 2

    def misfit(self, shape: Shape) -> str:
        if not _LEAST_AXES <= len(shape) <= _MOST_AXES:
            return f"needs {_LEAST_AXES} to {_MOST_AXES} axes, N×C×…"
        channels = shape[1]
        if self.groups and channels % self.groups:
            return f"needs channels, the second axis, that {self.groups} divides"
        row = math.prod(shape[1:]) // (self.groups or channels)
        if row * (shape[0] if self.over_batch else 1) < self.least_row:
            return f"needs at least {self.least_row:,} elements in a row"
        return ""

    def shape_of(self, name: str, shape: Shape) -> Shape:
        if _is_parameter(name):
            return (shape[1],)
        return (shape[0], *shape[2:], shape[1]) if self.last else shape

    @property
    def row_axes(self) -> tuple[int, ...]:
        return (0, 2, 3) if self.over_batch else (2, 3)

    def view(self, x: Array) -> Array:
        x = np.moveaxis(x, -1, 1) if self.last else x
        return x.reshape(x.shape[0], self.groups or x.shape[1], -1, math.prod(x.shape[2:]))

    def stored(self, values: Array, shape: Shape) -> Array:
        values = values.reshape(shape)
        return (np.moveaxis(values, 1, -1) if self.last else values).reshape(-1)


def _is_parameter(name: str) -> bool:
    return name.removeprefix("d") in PARAMETERS
