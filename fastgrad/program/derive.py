"""The derivative of a program, itself a program.

Forward mode, one operand at a time: an elementwise operator has few operands, and a tangent carried
along the maths multiplies a decaying factor last, where the tails can be kept exact. (Reverse mode
would multiply it first and meet inf·0.) Rules are written in complements: `sigmoid(z)·sigmoid(-z)`,
never `s·(1 - s)`, which has no correct digit left where `s` is near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import maths as m
from .expression import COMPARISONS, Node, const, walk
from .maths import Traced

__all__ = ["derivative"]


def derivative(value: Node, operand: Node) -> Node:
    """d `value` / d `operand`, lane by lane."""
    tangents: dict[Node, Traced | None] = {}
    for node in walk(value):
        if node is operand:
            tangents[node] = Traced(const(1.0))
        elif all(tangents[arg] is None for arg in node.args):
            tangents[node] = None  # does not depend on the operand
        else:
            tangents[node] = _tangent(node, [tangents[arg] for arg in node.args])
    tangent = tangents[value]
    return const(0.0) if tangent is None else tangent.node


def _tangent(node: Node, tangents: list[Traced | None]) -> Traced | None:
    args = [Traced(arg) for arg in node.args]
    if node.op in _CHOICES:
        return _CHOICES[node.op](args, tangents)
    if node.op == "mul" and (whole := _gate_slope(args, tangents)) is not None:
        return whole
    partials = _PARTIALS[node.op](*args)
    terms = [
        p * t for p, t in zip(partials, tangents, strict=True) if p is not None and t is not None
    ]
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _number(value: float) -> Traced:
    return Traced(const(value))


def _sigmoid_slope(z: Traced) -> Traced:
    return m.sigmoid(z) * m.sigmoid(-z)


def _mish_gate_bend(z: Traced) -> Traced:
    """The second derivative of tanh(s), s = softplus(z): (1 - tanh²(s))·σ(z)·(σ(-z) - 2 tanh(s)·σ(z))."""
    slope = m.emit("mish_gate_slope", z)
    return slope * (m.sigmoid(-z) - 2.0 * m.emit("mish_gate", z) * m.sigmoid(z))


def _pow_by_base(a: Traced, b: Traced) -> Traced:
    """b·a^(b - 1), a known exponent in its simplest form."""
    exponent = b.node.value - 1.0 if b.node.op == "const" else b - 1.0
    return b * a**exponent


def _pow_by_exponent(a: Traced, b: Traced) -> Traced:
    """a^b·log(a), 0 where a^b is: at a = 0 the limit for a positive exponent."""
    y = m.emit("pow", a, b)
    return m.where(y == 0.0, 0.0, y * m.log(a))


#: Partial derivatives for each operand, of instructions that are smooth.
_PARTIALS: dict[str, Callable[..., tuple[Traced | None, ...]]] = {
    "add": lambda a, b: (_number(1.0), _number(1.0)),
    "sub": lambda a, b: (_number(1.0), _number(-1.0)),
    "mul": lambda a, b: (b, a),
    # By the number in terms of the product: a alone may be beyond all bounds.
    "scale": lambda a, b: (b, m.emit("scale", a, b) / b),
    "div": lambda a, b: (m.reciprocal(b), -(a / b) / b),
    "exp": lambda z: (m.exp(z),),
    "exp2": lambda z: (m.exp2(z) * math.log(2),),
    "expm1": lambda z: (m.exp(z),),
    "log": lambda z: (m.reciprocal(z),),
    "log1p": lambda z: (m.reciprocal(1.0 + z),),
    "sigmoid": lambda z: (_sigmoid_slope(z),),
    "softplus": lambda z: (m.sigmoid(z),),
    "log_sigmoid": lambda z: (m.sigmoid(-z),),
    "tanh": lambda z: (_sigmoid_slope(2.0 * z) * 4.0,),
    "mish_gate": lambda z: (m.emit("mish_gate_slope", z),),
    "mish_gate_slope": lambda z: (_mish_gate_bend(z),),
    "tanhshrink": lambda z: (m.tanh(z) * m.tanh(z),),
    "erf": lambda z: (m.exp_neg_square(z) * (2 / math.sqrt(math.pi)),),
    "erfc": lambda z: (m.exp_neg_square(z) * (-2 / math.sqrt(math.pi)),),
    "normal_cdf": lambda z: (m.normal_pdf(z),),
    "normal_pdf": lambda z: (-z * m.normal_pdf(z),),
    "exp_neg_square": lambda z: (-2.0 * z * m.exp_neg_square(z),),
    "reciprocal": lambda z: (-m.reciprocal(z) * m.reciprocal(z),),
    "pow": lambda a, b: (_pow_by_base(a, b), _pow_by_exponent(a, b)),
    "sin": lambda z: (m.cos(z),),
    "cos": lambda z: (-m.sin(z),),
    "sqrt": lambda z: (m.rsqrt(z) * 0.5,),
    "rsqrt": lambda z: (m.rsqrt(z) * -0.5 / z,),
    "floor": lambda z: (None,),
    "round": lambda z: (None,),
    "rounded": lambda z: (_number(1.0),),
    **dict.fromkeys(COMPARISONS, lambda a, b: (None, None)),
}


def _gate_slope(args: list[Traced], tangents: list[Traced | None]) -> Traced | None:
    """The tangent of z·f(z) with that of z, a number, outside: f(z) + z·f'(z) is one instruction.

    A tangent with lanes of its own may be infinite where f vanishes: it belongs into the products.
    """
    for z, gate, tangent in zip(args, args[::-1], tangents, strict=True):
        if tangent is None or tangent.node.is_array:
            continue
        if gate.node.op in _GATES and gate.node.args == (z.node,):
            (slope,) = _PARTIALS[gate.node.op](z)
            assert slope is not None
            return (gate + z * slope) * tangent
    return None


#: f of the z·f(z) that have such an instruction (`fastgrad.program.tails`).
_GATES = ("sigmoid", "normal_cdf", "mish_gate")


def _where(args: list[Traced], tangents: list[Traced | None]) -> Traced:
    condition, a, b = args[0], *(_number(0.0) if t is None else t for t in tangents[1:])
    by_nan = 1 if condition.node.op == "not_equal" else 2  # the branch that a NaN takes
    taken, tangent = args[by_nan], tangents[by_nan]
    if tangent is not None:
        kept = _keeping_nan(tangent, condition.node, taken.node)
        if a.node is b.node:
            return kept
        a, b = (kept, b) if by_nan == 1 else (a, kept)
    return m.where(condition, a, b)


def _keeping_nan(tangent: Traced, condition: Node, taken: Node) -> Traced:
    """`tangent`, or NaN where a NaN has chosen its branch and is in the branch's value.

    Where the tangent has the operand in it that may be NaN, it is NaN by itself: what is left are
    tangents like the 1 of ``where(x <= 0, 0, x)``. A branch that a NaN does not reach, as in
    ``where(x == x, x, 0)``, keeps its tangent.
    """
    if condition.op not in COMPARISONS:
        return tangent
    lost = _arrays_in(taken) - _arrays_in(tangent.node)
    p, q = map(Traced, condition.args)
    probes = [side for side in (p, q) if lost & _arrays_in(side.node)]
    if len(probes) == 2 and condition.op in _OTHERWISE:
        return m.where(m.emit(_OTHERWISE[condition.op], p, q), tangent, p + q)
    for probe in probes:
        tangent = m.where(probe == probe, tangent, probe)
    return tangent


#: What holds where a comparison does not, unless there is a NaN.
_OTHERWISE = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def _arrays_in(value: Node) -> set[Node]:
    """The array operands that `value` is made of."""
    return {node for node in walk(value) if node.op == "operand" and node.is_array}


def _larger(args: list[Traced], tangents: list[Traced | None]) -> Traced:
    """The tangent of the larger operand, the mean of both at a tie, NaN where one is NaN."""
    (a, b), (ta, tb) = args, (0.0 if t is None else t for t in tangents)
    tie = (ta + tb) * 0.5
    return m.where(a > b, ta, m.where(a <= b, m.where(a < b, tb, tie), a + b))


def _smaller(args: list[Traced], tangents: list[Traced | None]) -> Traced:
    return _larger([args[1], args[0]], tangents)


def _abs(args: list[Traced], tangents: list[Traced | None]) -> Traced:
    """The sign of z, 0 at 0, NaN for NaN."""
    z, t = args[0], tangents[0]
    assert t is not None
    return m.where(z > 0.0, t, m.where(z <= 0.0, m.where(z < 0.0, -t, 0.0), z))


#: Instructions that choose: their tangent is chosen too, so that what is not taken cannot poison it.
_CHOICES: dict[str, Callable[[list[Traced], list[Traced | None]], Traced]] = {
    "where": _where,
    "maximum": _larger,
    "minimum": _smaller,
    "abs": _abs,
}
