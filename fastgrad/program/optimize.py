"""The optimiser: nodes are made in their simplest form, and known cancellations are written away.

`build` makes one node and simplifies it with what lies directly below; `reuse_products` looks at a
whole program. Rewrites that change the rounding only ever make it better: each replaces a difference
that cancels by the instruction that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .expression import REDUCTIONS, ROW_LENGTH, Node, const, make, rebuild, walk
from .numpy_unit import EVALUATE

__all__ = ["build", "negated", "reuse_products", "split_factors"]


def build(op: str, *args: Node) -> Node:
    """The simplest node that means `op(*args)`."""
    if op in REDUCTIONS:
        return _reduction(op, args[0])
    if all(arg.op == "const" for arg in args):
        return const(EVALUATE[op](*(arg.value for arg in args)))
    rule = _RULES.get(op)
    simpler = rule(*args) if rule else None
    return make(op, *args) if simpler is None else simpler


def negated(z: Node) -> Node:
    """-z."""
    return build("mul", z, const(-1.0))


def _is(node: Node, value: float) -> bool:
    return node.op == "const" and node.value == value


def _array_first(a: Node, b: Node) -> tuple[Node, Node]:
    """Commutative operands in the order in which a vector-scalar instruction takes them."""
    return (b, a) if b.is_array and not a.is_array else (a, b)


def _near_one(value: float) -> float:
    """`sqrt(2)·(1/sqrt(2))` and its like are meant to be 1."""
    return 1.0 if abs(value - 1.0) < 2**-50 else value


def _mul(a: Node, b: Node) -> Node | None:
    a, b = _array_first(a, b)
    if _is(b, 1.0):
        return a
    if _is(a, 1.0):
        return b
    if b.op == "rstd" and a.is_array:
        return make("scale", a, b)  # which no sum is to be taken apart into
    if b.op == "const" and a.op in ("mul", "div") and a.args[1].op == "const":
        k = a.args[1].value
        joined = k * b.value if a.op == "mul" else b.value / k if k else math.inf
        if _is_plain(joined):
            return build("mul", a.args[0], const(_near_one(joined)))
    if a.op == "mul" and _are_inverse(a.args[1], b):
        return a.args[0]  # the slope of f(k·x)/k, which has one rounding less so
    for exponential, gate in ((a, b), (b, a)):
        if exponential.op == "exp" and gate.op == "sigmoid":
            z = exponential.args[0]
            if gate.args[0] is negated(z):
                return build("sigmoid", z)
    return make("mul", a, b)


def _are_inverse(a: Node, b: Node) -> bool:
    """Whether they are a number of the call and 1 over it."""
    return not b.is_array and (
        (a.op == "reciprocal" and a.args[0] is b) or (b.op == "reciprocal" and b.args[0] is a)
    )


def _is_plain(value: float) -> bool:
    """Whether a constant made of others is a normal number in float32 too."""
    return 2.0**-126 <= abs(value) <= 2.0**127


def _add(a: Node, b: Node) -> Node | None:
    a, b = _array_first(a, b)
    if a is b:
        return build("mul", a, const(2.0))
    if _is(b, 0.0):
        return a
    if _is(b, 1.0):
        return _one_plus(a)
    if _is(b, -1.0) and a.op == "exp":
        return build("expm1", a.args[0])
    if b.op == "mul" and _is(b.args[1], -1.0) and b.args[0].op == "tanh" and b.args[0].args[0] is a:
        return build("tanhshrink", a)
    return make("add", a, b)


def _one_plus(a: Node) -> Node:
    """1 + a, without the cancellation where a is near -1."""
    inner, sign = (a.args[0], -1.0) if a.op == "mul" and _is(a.args[1], -1.0) else (a, 1.0)
    if inner.op == "tanh":
        half = build("sigmoid", build("mul", inner.args[0], const(2.0 * sign)))
        return build("mul", half, const(2.0))
    if inner.op == "mish_gate":  # tanh(softplus(z))
        softplus = build("softplus", inner.args[0])
        half = build("sigmoid", build("mul", softplus, const(2.0 * sign)))
        return build("mul", half, const(2.0))
    if inner.op == "erf":
        half = build("normal_cdf", build("mul", inner.args[0], const(sign * math.sqrt(2))))
        return build("mul", half, const(2.0))
    if inner.op == "sigmoid" and sign < 0:
        return build("sigmoid", negated(inner.args[0]))
    return make("add", a, const(1.0))


def _sub(a: Node, b: Node) -> Node | None:
    if b.op == "const":
        return build("add", a, const(-b.value))
    if not a.is_array or b.op == "tanh":
        return build("add", negated(b), a) if b.op != "tanh" else build("add", a, negated(b))
    return make("sub", a, b)


def _div(a: Node, b: Node) -> Node | None:
    if b.op == "const" and math.frexp(b.value)[0] in (0.5, -0.5) and _is_plain(1.0 / b.value):
        return build("mul", a, const(1.0 / b.value))  # a power of two: exact
    if _is_one_plus_exp(b):
        z = b.args[0].args[0]
        return (
            build("sigmoid", z) if a is b.args[0] else build("mul", a, build("sigmoid", negated(z)))
        )
    if _is(a, 1.0):
        return build("reciprocal", b)
    return make("div", a, b)


def _log(a: Node) -> Node:
    if a.op == "add" and _is(a.args[1], 1.0):
        return build("log1p", a.args[0])
    if a.op == "sigmoid":
        return build("log_sigmoid", a.args[0])
    return make("log", a)


def _tanh(a: Node) -> Node:
    return make("mish_gate", a.args[0]) if a.op == "softplus" else make("tanh", a)


def _log1p(a: Node) -> Node:
    return build("softplus", a.args[0]) if a.op == "exp" else make("log1p", a)


def _reciprocal(a: Node) -> Node:
    return build("div", const(1.0), a) if _is_one_plus_exp(a) else make("reciprocal", a)


def _normal_pdf(z: Node) -> Node:
    """The slope of `_one_plus` of an erf: the rounding of √2·z would be magnified by 2z²."""
    if z.op == "mul" and z.args[1].op == "const" and abs(z.args[1].value) == math.sqrt(2):
        density = build("exp_neg_square", z.args[0])
        return build("mul", density, const(1 / math.sqrt(2 * math.pi)))
    return make("normal_pdf", z)


def _is_one_plus_exp(node: Node) -> bool:
    return node.op == "add" and _is(node.args[1], 1.0) and node.args[0].op == "exp"


def _rsqrt(a: Node) -> Node:
    """1 over a standard deviation, or over a root of a mean square, is one value with its own slope."""
    is_spread = a.op == "add" and a.args[0].op in ("reduce_variance", "reduce_mean_square")
    if is_spread and not any(node.is_array or node.op in REDUCTIONS for node in walk(a.args[1])):
        return make("rstd", *a.args)
    return make("rsqrt", a)


def _reduction(op: str, value: Node) -> Node:
    """A reduction of lanes alone: what is the same in all of them is taken out."""
    if op == "reduce_variance":
        return make(op, value) if value.is_array else const(0.0)
    if not value.is_array:
        return build("mul", value, ROW_LENGTH) if op == "reduce_sum" else value
    lanes, factor = split_factors(value)
    if factor is not None:
        return build("mul", build(op, lanes), factor)
    if op == "reduce_mean" and value.op == "mul" and value.args[0] is value.args[1]:
        return make("reduce_mean_square", value.args[0])
    return make(op, value)


def split_factors(value: Node) -> tuple[Node, Node | None]:
    """A product as that of its lanes and that of its numbers; None where it has no numbers."""
    if value.op == "mul":
        lanes, factors = [], []
        for arg in value.args:
            if arg.is_array:
                own, factor = split_factors(arg)
                lanes.append(own)
                factors += [] if factor is None else [factor]
            else:
                factors.append(arg)
        if factors:
            return _product_of(lanes), _product_of(factors)
    if value.op == "div" and not value.args[1].is_array:
        own, factor = split_factors(value.args[0])
        return own, build("div", const(1.0) if factor is None else factor, value.args[1])
    return value, None


def _product_of(nodes: list[Node]) -> Node:
    product = nodes[0]
    for node in nodes[1:]:
        product = build("mul", product, node)
    return product


_RULES: dict[str, Callable[..., Node | None]] = {
    "mul": _mul,
    "add": _add,
    "sub": _sub,
    "div": _div,
    "log": _log,
    "log1p": _log1p,
    "tanh": _tanh,
    "normal_pdf": _normal_pdf,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
}


def reuse_products(*roots: Node) -> tuple[Node, ...]:
    """Take the factors of a product in the order in which a part of it is there already.

    `x·(t·k)` becomes `(x·k)·t` where the program computes `x·k` anyway: the derivative of
    `x·sigmoid(beta·x)` is so the eight instructions that one writes by hand. Likewise `x·(x·k)` becomes
    `(x·x)·k` where `x·x` is there.
    """
    present = {node for node in walk(*roots) if node.op == "mul"}

    def rule(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op == "mul":
            for x, product in (args, args[::-1]):
                if product.op == "mul" and x.is_array and not product.args[1].is_array:
                    t, k = product.args
                    if (known := build("mul", x, t)) in present:
                        return build("mul", known, k)
                    if (known := build("mul", x, k)) in present:
                        return build("mul", known, t)
        return build(node.op, *args)

    return rebuild(roots, rule)
