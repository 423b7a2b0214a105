"""What packed units and losses are in float64: the operator's own program, as in `references`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastgrad
from fastgrad.bench.forms import Shape
from fastgrad.bench.references import Array, Expected, Reference


@dataclass(frozen=True)
class PackedReference:
    """A result of a gated unit whose operands are the halves of one array.

    Parameters
    ----------
    operator : Operator
        Of a gate and what it lets through.
    choices : tuple of (str, str)
        Arguments that choose a program.
    gate : str
        Which half is the gate, ``"first"`` or ``"last"``.
    is_gradient : bool
        Whether it is the gradient, packed again.
    """

    operator: fastgrad.Operator
    choices: tuple[tuple[str, str], ...]
    gate: str
    is_gradient: bool = False

    @property
    def name(self) -> str:
        """Of the result, as an array of the workload's form."""
        return "dpacked" if self.is_gradient else "y"

    def expected(
        self, operands: Mapping[str, Array], shape: Shape, dtype: np.dtype[Any], times: int
    ) -> Expected:
        """The result at `shape`, that of a half."""
        order = ("gate", "up") if self.gate == "first" else ("up", "gate")
        halves = dict(zip(order, np.split(operands["packed"], 2, axis=-1), strict=True))
        arrays = {**operands, **halves}
        if not self.is_gradient:
            return Reference(self.operator, "", self.choices).expected(arrays, shape, dtype, times)
        found = [
            Reference(self.operator, name, self.choices).expected(arrays, shape, dtype, times)
            for name in order
        ]
        return Expected(*(_packed(parts, shape) for parts in zip(*found, strict=True)))


def _packed(halves: tuple[Array, ...], shape: Shape) -> Array:
    return np.concatenate([half.reshape(shape) for half in halves], axis=-1).reshape(-1)


@dataclass(frozen=True)
class LossReference:
    """The mean of a loss of every element, or the gradient of it.

    Parameters
    ----------
    operator : LossOperator
        Of one element.
    wrt : str
        The operand whose gradient it is; empty for the mean.
    """

    operator: fastgrad.LossOperator
    wrt: str = ""

    @property
    def name(self) -> str:
        """Of the result, as an array of the workload's form."""
        return f"d{self.wrt}" if self.wrt else "value"

    def expected(
        self, operands: Mapping[str, Array], shape: Shape, dtype: np.dtype[Any], times: int
    ) -> Expected:
        """The result of items of `shape` that are there `times` times."""
        count = math.prod(shape)
        element = Reference(self.operator, self.wrt)
        if self.wrt:
            share = np.full((), 1 / (count * times))
            return element.expected({**operands, "dy": share}, shape, dtype, times)
        terms = element.expected(operands, shape, dtype, times)
        value = terms.value.sum(keepdims=True) / count
        # As large as what the errors of independent terms add up to.
        size = np.sqrt((terms.size**2).sum(keepdims=True)) / count
        return Expected(value, np.maximum(np.abs(value), size))
