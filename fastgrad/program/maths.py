"""The language of a line of maths: traced operands and the functions that take them.

`x * sigmoid(beta * x)` on traced operands builds an expression; nothing is computed. NumPy's ufuncs
on a traced operand (`np.exp(x)`) emit the same instructions.
"""

from __future__ import annotations

import builtins
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from .expression import COMPARISONS, RANDOM, Node, const
from .optimize import build, negated

__all__ = [
    "TraceError",
    "Traced",
    "abs",
    "cos",
    "emit",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp_neg_square",
    "expm1",
    "floor",
    "log",
    "log1p",
    "log_sigmoid",
    "maximum",
    "mean",
    "minimum",
    "mish",
    "normal_cdf",
    "normal_pdf",
    "pow",
    "random",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "softplus",
    "sqrt",
    "sum",
    "tanh",
    "tanhshrink",
    "variance",
    "where",
]  # fmt: skip


class TraceError(TypeError):
    """A line of maths that cannot become a vector program, and what to write instead."""


def _node(value: Any) -> Node:
    if isinstance(value, Traced):
        return value.node
    if isinstance(value, numbers.Real | np.floating | np.integer):
        return const(float(value))
    raise TraceError(
        f"an operator's maths takes operands and numbers, got {type(value).__name__}: {value!r}"
    )


def emit(op: str, *args: Any) -> Traced:
    """The traced result of instruction `op`."""
    nodes = [_node(arg) for arg in args]
    first = 1 if op == "where" else 0  # what `where` chooses by stays a condition
    nodes[first:] = [as_number(node) for node in nodes[first:]]
    return Traced(build(op, *nodes))


def as_number(node: Node) -> Node:
    """A condition that is computed with, as in ``x * (x > 0)``, is 1 or 0."""
    return build("where", node, const(1.0), const(0.0)) if node.op in COMPARISONS else node


#: Powers up to this one are products.
_MOST_PRODUCTS = 64


class Traced:
    """An operand, or a value computed from operands, while a function is traced."""

    __slots__ = ("node",)

    def __init__(self, node: Node):
        self.node = node

    def __repr__(self) -> str:
        return f"Traced({self.node!r})"

    def __add__(self, other):
        return emit("add", self, other)

    def __radd__(self, other):
        return emit("add", other, self)

    def __sub__(self, other):
        return emit("sub", self, other)

    def __rsub__(self, other):
        return emit("sub", other, self)

    def __mul__(self, other):
        return emit("mul", self, other)

    def __rmul__(self, other):
        return emit("mul", other, self)

    def __truediv__(self, other):
        return emit("div", self, other)

    def __rtruediv__(self, other):
        return emit("div", other, self)

    def __neg__(self):
        return Traced(negated(self.node))

    def __pos__(self):
        return self

    def __abs__(self):
        return emit("abs", self)

    def __pow__(self, exponent):
        if isinstance(exponent, Traced) and exponent.node.op == "const":
            exponent = exponent.node.value
        if not isinstance(exponent, numbers.Real) or not math.isfinite(exponent):
            return emit("pow", self, exponent)
        exponent = float(exponent)
        if exponent == 0.5:
            return emit("sqrt", self)
        if exponent == -0.5:
            return emit("rsqrt", self)
        if exponent != int(exponent) or builtins.abs(exponent) > _MOST_PRODUCTS:
            return emit("pow", self, exponent)
        power = _integer_power(self, builtins.abs(int(exponent)))
        return power if exponent >= 0 else emit("reciprocal", power)

    def __rpow__(self, base):
        return emit("exp2", self) if base == 2 else emit("pow", base, self)

    def __lt__(self, other):
        return emit("less", self, other)

    def __le__(self, other):
        return emit("less_equal", self, other)

    def __gt__(self, other):
        return emit("greater", self, other)

    def __ge__(self, other):
        return emit("greater_equal", self, other)

    def __eq__(self, other):
        return emit("equal", self, other)

    def __ne__(self, other):
        return emit("not_equal", self, other)

    __hash__ = object.__hash__

    def __bool__(self):
        raise TraceError(
            "an operand has no truth value while its operator is traced: "
            "write where(condition, a, b) instead of a branch"
        )

    def __iter__(self):
        raise TraceError("an operand is one lane of an array: it cannot be looped over or indexed")

    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        op = _UFUNCS.get(ufunc.__name__)
        if method == "__call__" and not keywords and ufunc.__name__ in ("power", "float_power"):
            return inputs[0] ** inputs[1]
        if method != "__call__" or keywords or op is None:
            raise TraceError(
                f"np.{ufunc.__name__} has no vector instruction; there are: {', '.join(_UFUNCS)}, power"
            )
        if ufunc.__name__ == "negative":
            return -inputs[0]
        if ufunc.__name__ == "square":
            return inputs[0] * inputs[0]
        return emit(op, *inputs)


def _integer_power(x: Traced, exponent: int) -> Traced | float:
    """x ** exponent by repeated squaring."""
    result: Traced | float = 1.0
    while exponent:
        if exponent & 1:
            result = x * result
        exponent >>= 1
        x = x * x if exponent else x
    return result


_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "mul",
    "square": "mul", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p",
    "tanh": "tanh", "reciprocal": "reciprocal", "sqrt": "sqrt", "absolute": "abs", "fabs": "abs",
    "floor": "floor", "sin": "sin", "cos": "cos",
    "rint": "round", "minimum": "minimum", "maximum": "maximum", "less": "less",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal",
    "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


def _function(op: str, formula: str, arity: int = 1) -> Callable[..., Traced]:
    def call(*args):
        if len(args) != arity:
            raise TypeError(f"{op} takes {arity} arguments, got {len(args)}")
        return emit(op, *args)

    call.__name__ = call.__qualname__ = op
    call.__doc__ = f"{formula}, in the maths of an operator."
    return call


exp = _function("exp", "e**z")
exp2 = _function("exp2", "2**z")
expm1 = _function("expm1", "e**z - 1")
log = _function("log", "The natural logarithm of z")
log1p = _function("log1p", "log(1 + z)")
sigmoid = _function("sigmoid", "1 / (1 + exp(-z))")
tanh = _function("tanh", "The hyperbolic tangent of z")
softplus = _function("softplus", "log(1 + e**z)")
log_sigmoid = _function("log_sigmoid", "log(sigmoid(z))")


def mish(z: Any) -> Traced:
    """z * tanh(softplus(z)), in the maths of an operator."""
    return z * tanh(softplus(z))


tanhshrink = _function("tanhshrink", "z - tanh(z)")
erf = _function("erf", "The error function of z")
erfc = _function("erfc", "1 - erf(z)")
normal_cdf = _function("normal_cdf", "(1 + erf(z / sqrt(2))) / 2")
normal_pdf = _function("normal_pdf", "exp(-z**2 / 2) / sqrt(2 pi)")
exp_neg_square = _function("exp_neg_square", "exp(-z**2)")
reciprocal = _function("reciprocal", "1 / z")
sqrt = _function("sqrt", "The square root of z")
rsqrt = _function("rsqrt", "1 / sqrt(z)")
abs = _function("abs", "The absolute value of z")


def pow(a: Any, b: Any) -> Traced:
    """a**b, in the maths of an operator; whole numbers, 1/2 and -1/2 as `b` are products and roots."""
    return a**b


sin = _function("sin", "The sine of z")
cos = _function("cos", "The cosine of z")
round = _function("round", "z rounded to a whole number, halves to the even one")
floor = _function("floor", "The largest whole number not above z")
minimum = _function("minimum", "The smaller of a and b", 2)
maximum = _function("maximum", "The larger of a and b", 2)
where = _function("where", "a where the condition holds, else b", 3)


def random() -> Traced:
    """A number in [0, 1) that depends on the seed of the call and on the element's index alone.

    All calls in one operator give the same number. The operator is made by `fastgrad.seeded`.
    """
    return Traced(RANDOM)


rounded = _function("rounded", "z, rounded to the dtype of the operator's arrays")
sum = _function("reduce_sum", "The sum of z over a row")
mean = _function("reduce_mean", "The mean of z over a row")
variance = _function("reduce_variance", "The mean of (z - mean(z))**2 over a row")
