"""What the measured operators are in float64, for the errors of all contenders.

The operator's own program, run by the NumPy interpreter: no kernel is involved, and there is no second
definition of an operator to keep in step. That the programs are right is for the tests to say.

A result comes as the terms that it is the sum of: where two terms cancel (swish' is 0 near x = -1.28) no
float32 result is exact, so errors are judged at the size of the larger term.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import fastgrad
from fastgrad.bench.forms import Shape
from fastgrad.program.expression import Node
from fastgrad.program.interpret import interpret
from fastgrad.program.optimize import build, negated
from fastgrad.program.program import Program, Result

Array = np.ndarray[Any, np.dtype[np.float64]]
Terms = tuple[Array, ...]


class Expected(NamedTuple):
    """A result in float64, flat, and the sizes at which its errors are judged."""

    value: Array
    size: Array


@fastgrad.elementwise
def add(x, y):
    """Two arrays read, one written, next to no arithmetic: the streaming bound."""
    return x + y


@dataclass(frozen=True)
class Reference:
    """One result of an operator.

    Parameters
    ----------
    operator : Operator
        Of fastgrad.
    wrt : str
        The operand whose gradient it is; empty for the forward result.
    choices : tuple of (str, str)
        Arguments that choose a program.
    """

    operator: fastgrad.Operator
    wrt: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Of the result, as an array of the workload's form."""
        return f"d{self.wrt}" if self.wrt else "y"

    def expected(
        self, operands: Mapping[str, Array], shape: Shape, dtype: np.dtype[Any], times: int
    ) -> Expected:
        """The result of operands of `shape`; a 16-bit one is judged at its own size."""
        terms = self.terms(operands)
        value = np.sum(terms, axis=0)
        sizes = [np.abs(value)]
        if dtype.itemsize > 2:
            sizes += [np.abs(term) for term in terms]
        return Expected(value.reshape(-1), np.max(sizes, axis=0).reshape(-1))

    def terms(self, operands: Mapping[str, Array]) -> Terms:
        """The terms of the result; a parameter that is no operand has its default."""
        program = self.operator.trace(wrt=self.wrt or None, **dict(self.choices))
        signature = inspect.signature(self.operator).parameters
        defaults = {name: signature[name].default for name in self.operator.parameters}
        lowered = _of_terms(program).lowered
        return tuple(interpret(lowered, {**defaults, **operands}).results.values())


@dataclass(frozen=True)
class SumReference:
    """A gradient of an operand with fewer elements than the result: the sum of those of all places.

    Its errors are judged at the size to which independent ones of its terms add up: the root of the sum
    of their squares.

    Parameters
    ----------
    of : Reference
        The terms.
    """

    of: Reference

    @property
    def name(self) -> str:
        """Of the result, as an array of the workload's form."""
        return self.of.name

    def expected(
        self, operands: Mapping[str, Array], shape: Shape, dtype: np.dtype[Any], times: int
    ) -> Expected:
        """The sum over items of `shape` that are there `times` times."""
        return _summed(
            self.of.expected(operands, shape, dtype, times), operands[self.of.wrt], times
        )


def _summed(terms: Expected, like: Array, times: int) -> Expected:
    value = times * terms.value.reshape(-1, like.size).sum(0)
    size = times * np.sqrt((terms.size.reshape(-1, like.size) ** 2).sum(0))
    return Expected(value, np.maximum(np.abs(value), size))


def _of_terms(program: Program) -> Program:
    """The program with one result for each term of its own."""
    terms = _terms(program.results[0].value)
    results = tuple(Result(f"term{index}", term) for index, term in enumerate(terms))
    return Program(program.name, program.operands, results)


def _terms(value: Node) -> tuple[Node, ...]:
    """What `value` is the sum of, where that is one or a factor of it is."""
    if value.op == "add":
        return value.args
    if value.op == "sub":
        minuend, subtrahend = value.args
        return minuend, negated(subtrahend)
    if value.op == "mul":
        for factor, other in (value.args, value.args[::-1]):
            # The difference of two operands is rounded once, whatever cancels.
            if not all(one.op in ("operand", "const") for one in factor.args):
                terms = _terms(factor)
                if len(terms) > 1:
                    return tuple(build("mul", term, other) for term in terms)
    return (value,)
