"""A program as text, one instruction a line, as an Ascend C author would name them."""

from __future__ import annotations

from .expression import Node
from .program import Program

__all__ = ["ascend_name", "instructions_text", "value_names"]

_ASCEND = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "exp": "Exp", "exp2": "Exp2",
    "expm1": "Expm1", "log": "Ln", "log1p": "Log1p", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "tanhshrink": "TanhShrink", "erf": "Erf", "erfc": "Erfc", "normal_cdf": "NormalCdf",
    "normal_pdf": "NormalPdf", "exp_neg_square": "ExpNegSquare", "reciprocal": "Reciprocal",
    "sqrt": "Sqrt", "rsqrt": "Rsqrt", "abs": "Abs", "floor": "Floor", "minimum": "Min",
    "maximum": "Max", "less": "Compare", "less_equal": "Compare", "greater": "Compare",
    "greater_equal": "Compare", "equal": "Compare", "not_equal": "Compare", "where": "Select",
    "softplus": "Softplus", "log_sigmoid": "LogSigmoid",
    "mish_gate": "MishGate", "mish_gate_slope": "MishGateSlope",
    "round": "Round", "sin": "Sin", "pow": "Power", "cos": "Cos", "rounded": "Cast", "scale": "Mul",
}  # fmt: skip

#: Vector-vector instructions that have a vector-scalar form, with an `s` at the end.
_WITH_SCALAR = ("add", "sub", "mul", "scale", "div", "minimum", "maximum")


def ascend_name(node: Node) -> str:
    """`Mul` for two vectors, `Muls` for a vector and a number; CPU-only instructions as they are."""
    name = _ASCEND.get(node.op, node.op)
    mixed = node.op in _WITH_SCALAR and not all(arg.is_array for arg in node.args)
    return f"{name}s" if mixed else name


def value_names(program: Program) -> dict[Node, str]:
    """A short name for every value: operands by theirs, instructions numbered, results last."""
    names = {node: repr(node) for node in program.nodes if not node.args}
    names.update({node: f"v{i}" for i, node in enumerate(n for n in program.nodes if n.args)})
    names.update({result.value: result.name for result in program.results if result.value.args})
    return names


def instructions_text(program: Program) -> str:
    """One line an instruction: ``v0 = Muls(x, beta)``."""
    names = value_names(program)
    lines = [
        f"{names[node]} = {ascend_name(node)}({', '.join(names[arg] for arg in node.args)})"
        for node in program.nodes
        if node.args
    ]
    lines += [
        f"{result.name} = {'sum of ' if result.reduced else ''}{names[result.value]}"
        for result in program.results
        if result.reduced or not result.value.args
    ]
    return "\n".join(lines)
