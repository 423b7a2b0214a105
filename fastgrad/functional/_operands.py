"""The operands of one elementwise call, checked and sorted: of full shape, spread over it, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._arguments import Spread, as_operand, as_parameter, check_same

__all__ = ["Operands", "is_plain_number", "sort_operands"]


@dataclass(frozen=True)
class Operands:
    """What a program is run on.

    Attributes
    ----------
    x : ndarray
        Gives the results their shape, dtype and order in memory: the first array that has the
        result's shape, else a view of the first one.
    x_name : str
        What it is called in errors.
    full : dict of str to ndarray
        Arrays of the result's shape, `x` among them, all of one dtype.
    spread : dict of str to Spread
        Arrays that are broadcast, parameters with one element a channel. Each has a dtype of its own.
    numbers : list of float
        Parameters of one number each.
    seed : int
        Of random numbers, where a program takes them.
    """

    x: np.ndarray
    x_name: str
    full: dict[str, np.ndarray]
    spread: dict[str, Spread] = field(default_factory=dict)
    numbers: list[float] = field(default_factory=list)
    seed: int = 0


def sort_operands(
    arrays: Mapping[str, Any],
    parameters: Mapping[str, Any],
    axis: Any = None,
    channel_axis: int | None = None,
) -> Operands:
    """Check the operands of a call.

    Parameters
    ----------
    arrays : mapping of str to array_like
        Broadcast together as NumPy does. A Python number among others takes their dtype.
    parameters : mapping of str to (float or array_like)
        Numbers, or one a channel along `axis` of the result.
    axis : int, optional
    channel_axis : int, optional
        What `axis` is where none is given.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not broadcast, if those of the result's shape differ in dtype; also as
        `as_operand` and `as_parameter`.
    """
    operands = _sort_arrays(arrays)
    for name, value in parameters.items():
        checked = as_parameter(value, name, axis, operands.x, channel_axis)
        if isinstance(checked, Spread):
            operands.spread[name] = checked
        else:
            operands.numbers.append(checked)
    return operands


def _sort_arrays(arrays: Mapping[str, Any]) -> Operands:
    if len(arrays) == 1:
        ((name, value),) = arrays.items()
        x = as_operand(value, name)
        return Operands(x, name, {name: x})
    checked = _checked(arrays)
    shape = _common_shape(checked)
    full = {name: array for name, array in checked.items() if array.shape == shape}
    x_name = next(iter(full), "the result")
    x = full[x_name] if full else np.broadcast_to(next(iter(checked.values())), shape)
    for name, array in full.items():
        if is_plain_number(arrays[name]):
            full[name] = array.astype(x.dtype)
        else:
            check_same(array, name, x, x_name)
    spread = {
        name: Spread(name, array, array.reshape((1,) * (len(shape) - array.ndim) + array.shape))
        for name, array in checked.items()
        if name not in full
    }
    return Operands(x, x_name, full, spread)


def _checked(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays, those that are Python numbers last: they have no dtype to give."""
    checked, numbers = {}, {}
    for name, value in arrays.items():
        if is_plain_number(value):
            numbers[name] = np.asarray(value, np.float64)
        else:
            checked[name] = as_operand(value, name)
    return checked | numbers


def is_plain_number(value: Any) -> bool:
    """Whether `value` is a Python number, which takes the dtype of what it meets."""
    return isinstance(value, int | float) and not isinstance(value, np.generic | bool)


def _common_shape(arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) == 1:
        return shapes.pop()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"operands must broadcast together, got shapes {given}") from None
