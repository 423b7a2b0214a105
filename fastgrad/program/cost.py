"""What a program costs: an estimate of the work in an element, to decide how many cores it is worth.

In nanoseconds on one core of the machine that DESIGN.md describes, operands in its first-level cache, as
`tools/costs.py` measured them. Another machine is faster or slower at all of it, launches included, so
the ratio is what counts.
"""

from __future__ import annotations

from ..vector_unit.precision import Precision
from .program import Program

__all__ = ["FACTORS", "FUNCTIONS", "instruction_cost", "move_cost", "nanoseconds"]

#: Instructions that cost more than an addition, in float32 (16-bit operands too) and float64.
FUNCTIONS = {
    "div": (0.04, 0.17),
    "sqrt": (0.11, 0.41),
    "exp": (0.13, 0.51),
    "exp2": (0.15, 0.54),
    "expm1": (0.18, 0.59),
    "log": (0.30, 1.12),
    "log1p": (0.35, 1.25),
    "sigmoid": (0.33, 0.93),
    "dsigmoid": (0.48, 1.24),
    "tanh": (0.38, 0.97),
    "tanhshrink": (0.61, 2.18),
    "sech2": (0.58, 1.39),
    "softplus": (0.39, 1.46),
    "log_sigmoid": (0.40, 1.46),
    "erf": (0.81, 2.88),
    "erfc": (0.68, 2.43),
    "normal_cdf": (0.72, 2.49),
    "normal_pdf": (0.22, 0.70),
    "exp_neg_square": (0.21, 0.65),
    "pow": (1.8, 6.0),
    "sin": (1.4, 8.0),
    "cos": (1.4, 8.0),
    "mish": (0.43, 1.12),
    "mish_slope": (0.65, 1.75),
    "mish_gate": (0.42, 1.13),
    "mish_gate_slope": (0.77, 1.94),
    "silu": (0.29, 0.86),
    "silu_slope": (0.33, 0.90),
    "sigmoid_slope": (0.42, 1.03),
    "gelu": (0.54, 2.05),
    "gelu_slope": (0.46, 1.73),
}
#: The same for products with such a factor, ``scaled_…`` and ``scaled2_…``.
FACTORS = {
    "exp": (0.26, 0.78),
    "sigmoid": (0.42, 1.11),
    "dsigmoid": (0.56, 1.46),
    "sech2": (0.65, 1.55),
    "normal_cdf": (0.91, 3.01),
    "normal_pdf": (0.48, 0.87),
    "exp_neg_square": (0.29, 0.83),
    "mish_gate": (0.69, 1.50),
    "mish_gate_slope": (0.85, 2.05),
}
#: An addition, and a read or a write with its cast.
_SIMPLE = (0.02, 0.04)
_MOVE = (0.04, 0.08)
#: A random number, by counting.
_RANDOM = 0.35


def nanoseconds(program: Program, precision: Precision) -> float:
    """The estimate for one element."""
    moves = (len(program.arrays) + len(program.results)) * move_cost(precision)
    instructions = program.lowered.instructions
    random = _RANDOM if program.is_random else 0.0
    return moves + random + sum(instruction_cost(node.op, precision) for node in instructions)


def move_cost(precision: Precision) -> float:
    """Of a read or a write of one element."""
    return _MOVE[int(precision.compute == "float64")]


def instruction_cost(op: str, precision: Precision) -> float:
    """Of one element."""
    scaled, _, factor = op.partition("_")
    costs = FUNCTIONS.get(op, _SIMPLE)
    if scaled in ("scaled", "scaled2") and factor in FACTORS:
        costs = FACTORS[factor]
    return costs[int(precision.compute == "float64")]
