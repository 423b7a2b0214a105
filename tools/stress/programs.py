"""Random operators: a line of maths as text, which serves fastgrad and the reference alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastgrad

from .duals import MATHS

__all__ = ["Program", "random_program"]

UNARY = tuple(name for name in vars(MATHS) if name not in ("maximum", "minimum", "where"))
CONSTANTS = ("0.5", "1.0", "2.0", "-1.0", "0.1", "1.702", "0.044715", "3.0", "-0.25")
#: Shapes of expressions. Plain ones first; then those that fastgrad rewrites, or lowers to one
#: instruction; then functions of what they are defined for.
SHAPES = (
    *("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} ** {n}", "-{a}", "{a} * {a}"),
    *("m.maximum({a}, {b})", "m.minimum({a}, {b})", "m.where({a} {c} {b}, {d}, {a})"),
    *("{a} * ({b} {c} {k})", "{k} * {a}", "{k} - {a}", "{a} + {k}", "{a} / {k}"),
    *(
        "{a} * m.sigmoid({a})",
        "{a} * m.sigmoid({b})",
        "{a} * m.normal_cdf({a})",
        "{a} - m.tanh({a})",
    ),
    *("m.log(1.0 + m.exp({a}))", "1.0 + m.tanh({a})", "1.0 - m.sigmoid({a})", "1.0 + m.erf({a})"),
    *("{b} / (1.0 + m.exp(-{a}))", "1.0 / (1.0 + m.exp({a}))", "m.exp({a}) - 1.0"),
    *("m.exp({a}) * m.sigmoid(-{a})", "{b} * m.exp({a})", "{b} * m.normal_pdf({a})"),
    *("m.log(m.abs({a}) + 0.5)", "m.sqrt(m.abs({a}))", "m.rsqrt({a} * {a} + 0.1)"),
    *("m.log1p(m.abs({a}))", "m.exp(m.minimum({a}, 4.0))", "{b} / (m.abs({a}) + 1.0)"),
)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True)
class Program:
    """An operator of the arrays `a`, `b`, … and the parameters `j`, `k`, as its text."""

    arrays: tuple[str, ...]
    parameters: tuple[str, ...]
    maths: str

    @property
    def text(self) -> str:
        arguments = [*self.arrays, *(f"{name}=1.0" for name in self.parameters)]
        return f"def stressed({', '.join(arguments)}):\n    return {self.maths}\n"

    def function(self, m: Any) -> Callable[..., Any]:
        """The function, with `m` for the maths."""
        scope: dict[str, Any] = {"m": m, "__name__": __name__}
        exec(self.text, scope)
        return scope["stressed"]

    def operator(self) -> fastgrad.Operator:
        return fastgrad.elementwise(self.function(fastgrad.maths))


def random_program(rng: np.random.Generator, depth: int = 3) -> Program:
    """An operator with expressions of 2 to `depth` levels."""
    arrays = tuple("abc"[: rng.integers(1, 4)])
    parameters = tuple("jk"[: rng.integers(0, 3)])
    while True:
        maths = _expression(rng, (*arrays, *parameters), int(rng.integers(2, depth + 1)))
        if "a" in _names(maths):  # a value a lane, whatever else is used
            return Program(arrays, parameters, maths)


def _names(maths: str) -> set[str]:
    return set(compile(maths, "", "eval").co_names)


def _expression(rng: np.random.Generator, names: tuple[str, ...], depth: int) -> str:
    if depth == 0 or rng.random() < 0.1:
        return str(rng.choice(names))
    if rng.random() < 0.25:
        return f"m.{rng.choice(UNARY)}({_expression(rng, names, depth - 1)})"
    parts = {name: _expression(rng, names, depth - 1) for name in "abd"}
    return "({})".format(
        str(rng.choice(SHAPES)).format(
            **parts,
            c=rng.choice(COMPARISONS),
            k=rng.choice(CONSTANTS),
            n=rng.choice(["2", "3", "5", "-1", "-2", "0.5", "-0.5"]),
        )
    )
