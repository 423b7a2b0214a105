"""Exact tails: products with a factor that decays to 0 become one instruction.

`x·sigmoid(z)` as two instructions loses its digits where `sigmoid(z)` is subnormal though the product
is not, and is inf·0 = NaN at an infinity whose limit is 0. As `scaled_sigmoid(x, z)` the
operand is folded in before the last scaling by a power of two (within 4 ULP), and a factor that has saturated
to 0 gives 0 for any operand but NaN. The gate on itself, z·sigmoid(z), and a sum f(z) + w·f'(z), the
gradient of x·f(z), are one instruction each.

This is the CPU's lowering; the listing and the counts keep the instructions that an Ascend C author
writes.
"""

from __future__ import annotations

import functools

from .expression import Node, make, rebuild
from .optimize import build, negated

__all__ = ["DECAYING", "exact_tails"]

#: Instructions that have a `_split` form in `fastgrad.vector_unit`.
DECAYING = ("exp", "sigmoid", "dsigmoid", "sech2", "normal_cdf", "normal_pdf", "exp_neg_square",
            "mish_gate", "mish_gate_slope")  # fmt: skip

#: z·f(z) that is one instruction.
_GATES = {"sigmoid": "silu", "normal_cdf": "gelu", "mish_gate": "mish"}


def exact_tails(*roots: Node) -> tuple[Node, ...]:
    """`roots` with every product that contains a decaying factor in its exact form."""
    return rebuild(roots, _lower)


def _lower(node: Node, args: tuple[Node, ...]) -> Node:
    if node.op == "add":
        return _slope(*args) or _slope(*args[::-1]) or build("add", *args)
    if node.op == "mul":
        return _product(*args)
    return build(node.op, *args)


def _slope(value: Node, weighted: Node) -> Node | None:
    """f(z) + w·f'(z) as one instruction; None if the sum is none."""
    if not value.args or not weighted.args or value.args[0] is not weighted.args[-1]:
        return None
    z = value.args[0]
    kind = (value.op, weighted.op.partition("_")[2])
    if kind == ("sigmoid", "dsigmoid"):
        w = functools.reduce(lambda a, b: build("mul", a, b), weighted.args[:-1])
        return make("silu_slope", z) if w is z else make("sigmoid_slope", w, z)
    if kind == ("normal_cdf", "normal_pdf") and weighted.args[:-1] == (z,):
        return make("gelu_slope", z)
    if kind == ("mish_gate", "mish_gate_slope") and weighted.args[:-1] == (z,):
        return make("mish_slope", z)
    return None


def _product(a: Node, b: Node) -> Node:
    """a·b, with a decaying factor that is in it folded in last."""
    if _are_complements(a, b):
        return make("dsigmoid", a.args[0])
    if _is_slope_of_tanh(a, b):
        return make("sech2", a.args[0].args[0])
    for factor, other in ((b, a), (a, b)):
        if not other.is_array:
            continue
        if factor.op in _GATES and factor.args[0] is other:
            return make(_GATES[factor.op], other)
        if factor.op in DECAYING:
            return make(f"scaled_{factor.op}", other, factor.args[0])
        if factor.op.startswith("scaled_"):
            first, z = factor.args
            if _decays(first):  # two factors decay: each must win against an infinite operand
                return make(factor.op, _product(first, other), z)
            return make(factor.op.replace("scaled_", "scaled2_"), first, other, z)
        if factor.op.startswith("scaled2_"):
            first, second, z = factor.args
            return make(factor.op, first, build("mul", second, other), z)
        if _is_weighted(factor):
            # (f·k)·a is f·(a·k): a number must not stand between a factor and its operand.
            return _product(build("mul", other, factor.args[1]), factor.args[0])
    return build("mul", a, b)


def _are_complements(a: Node, b: Node) -> bool:
    """Whether a·b is sigmoid(z)·sigmoid(-z)."""
    if a.op != "sigmoid" or b.op != "sigmoid":
        return False
    return negated(a.args[0]) is b.args[0] or negated(b.args[0]) is a.args[0]


def _is_slope_of_tanh(a: Node, b: Node) -> bool:
    """Whether a·b is 4·sigmoid(2z)·sigmoid(-2z), of which a subnormal a would lose two bits."""
    if a.op != "dsigmoid" or b.op != "const" or b.value != 4.0:
        return False
    z = a.args[0]
    return z.op == "mul" and z.args[1].op == "const" and z.args[1].value == 2.0


def _decays(node: Node) -> bool:
    return node.op in DECAYING or node.op.startswith("scaled") or _is_weighted(node)


def _is_weighted(node: Node) -> bool:
    """Whether `node` is a decaying factor times a number."""
    if node.op != "mul" or node.args[1].is_array:
        return False
    return node.args[0].op in DECAYING or node.args[0].op.startswith("scaled")
