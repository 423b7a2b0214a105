"""Exact tails: products with a factor that decays to 0 become one instruction.

`x·sigmoid(z)` as two instructions loses its digits where `sigmoid(z)` is subnormal though the product
is not (52 ULP), and is inf·0 = NaN at an infinity whose limit is 0. As `scaled_sigmoid(x, z)` the
operand is folded in before the last scaling by a power of two (1.2 ULP), and a factor that has saturated
to 0 gives 0 for any operand but NaN. This is the CPU's lowering; the listing and the counts keep the
instructions that an Ascend C author writes.
"""

from __future__ import annotations

from .expression import Node, make, rebuild
from .optimize import build, negated

__all__ = ["DECAYING", "exact_tails"]

#: Instructions that have a `_split` form in `fastgrad.vector_unit`.
DECAYING = ("exp", "sigmoid", "dsigmoid", "normal_cdf", "normal_pdf", "exp_neg_square")


def exact_tails(*roots: Node) -> tuple[Node, ...]:
    """`roots` with every product that contains a decaying factor in its exact form."""
    return rebuild(roots, _lower)


def _lower(node: Node, args: tuple[Node, ...]) -> Node:
    if node.op != "mul":
        return build(node.op, *args) if not node.op.startswith("scaled") else make(node.op, *args)
    a, b = args
    if _are_complements(a, b):
        return make("dsigmoid", a.args[0])
    for factor, other in ((b, a), (a, b)):
        if not other.is_array:
            continue
        if factor.op in DECAYING:
            return make(f"scaled_{factor.op}", other, factor.args[0])
        if factor.op.startswith("scaled_"):
            return make(factor.op.replace("scaled_", "scaled2_"), *_outer(factor, other))
        if factor.op.startswith("scaled2_"):
            inner, outer, z = factor.args
            return make(factor.op, inner, build("mul", outer, other), z)
        if _is_weighted(factor):
            # (f·k)·a is f·(a·k): a number must not stand between a factor and its operand.
            return _lower(node, (build("mul", other, factor.args[1]), factor.args[0]))
    return build("mul", a, b)


def _outer(factor: Node, other: Node) -> tuple[Node, Node, Node]:
    inner, z = factor.args
    return inner, other, z


def _are_complements(a: Node, b: Node) -> bool:
    """Whether a·b is sigmoid(z)·sigmoid(-z)."""
    if a.op != "sigmoid" or b.op != "sigmoid":
        return False
    return negated(a.args[0]) is b.args[0] or negated(b.args[0]) is a.args[0]


def _is_weighted(node: Node) -> bool:
    """Whether `node` is a decaying factor times a number."""
    if node.op != "mul" or node.args[1].is_array:
        return False
    return node.args[0].op in DECAYING or node.args[0].op.startswith("scaled")
