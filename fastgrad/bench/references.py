"""What the measured operators are in float64, for the errors of all contenders.

The operator's own program, run by the NumPy interpreter: no kernel is involved, and there is no second
definition of an operator to keep in step. That the programs are right is for the tests to say.

A result comes as the terms that it is the sum of: where two terms cancel (swish' is 0 near x = -1.28) no
float32 result is exact, so errors are judged at the size of the larger term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import fastgrad
from fastgrad.bench.forms import Shape
from fastgrad.program.expression import Node
from fastgrad.program.interpret import interpret
from fastgrad.program.optimize import build
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
        return Expected(value, np.max(sizes, axis=0))

    def terms(self, operands: Mapping[str, Array]) -> Terms:
        """The terms of the result; parameters are 1."""
        program = self.operator.trace(wrt=self.wrt or None, **dict(self.choices))
        parameters = dict.fromkeys(self.operator.parameters, 1.0)
        lowered = _of_terms(program).lowered
        return tuple(interpret(lowered, {**operands, **parameters}).results.values())


def _of_terms(program: Program) -> Program:
    """The program with one result for each term of its own."""
    value = program.results[0].value
    if value.op == "mul" and value.args[1].name == "dy":
        slope, dy = value.args
        terms = tuple(build("mul", term, dy) for term in _summands(slope))
    else:
        terms = _summands(value)
    results = tuple(Result(f"term{index}", term) for index, term in enumerate(terms))
    return Program(program.name, program.operands, results)


def _summands(value: Node) -> tuple[Node, ...]:
    return value.args if value.op in ("add", "sub") else (value,)
