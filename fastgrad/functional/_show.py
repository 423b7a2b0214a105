"""`show`: an operator as the library sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..program.listing import program_listing
from ..program.row_compile import generated_rows, row_instructions
from ..vector_unit.precision import PRECISIONS, Precision
from ._operator import Operator
from ._row_operator import RowOperator

__all__ = ["show"]


def show(
    operator: Operator | RowOperator, *, dtype: Any = np.float32, source: bool = True, **static: str
) -> str:
    """Print an operator's programs: instructions with their NPU buffers, CPU scratch, source.

    Parameters
    ----------
    operator : Operator
        An operator of this library, or one made by `elementwise`.
    dtype : dtype
        The precision of the generated source.
    source : bool
        Whether to print the generated source.
    **static : str
        Arguments that choose a program, ``approximate="tanh"``.

    Returns
    -------
    str
        What was printed: forward, then the gradient of all arrays.

    Raises
    ------
    TypeError
        If `operator` is not an `Operator`, or the dtype is none of the four.
    """
    if not isinstance(operator, Operator | RowOperator):
        raise TypeError(f"show takes an operator of fastgrad, got {type(operator).__name__}")
    precision = PRECISIONS.get(np.dtype(dtype))
    if precision is None:
        raise TypeError(f"dtype must be one of {', '.join(map(str, PRECISIONS))}, got {dtype}")
    if isinstance(operator, RowOperator):
        text = _row_listing(operator, precision, source)
        print(text)
        return text
    forward = operator.trace(**static)
    backward = operator.trace(wrt=operator.arrays, **static)
    text = "\n\n".join(program_listing(p, precision, source) for p in (forward, backward))
    print(text)
    return text


def _row_listing(operator: RowOperator, precision: Precision, source: bool) -> str:
    """Forward, then the gradient of everything, with lanes as channels."""
    kernels = operator.kernels
    wrt = (*kernels.arrays, *kernels.channels)
    parts = []
    for program in (operator.program, operator.trace(wrt)):
        title = (
            f"{program.name}({', '.join([*program.arrays, *program.channels, *program.numbers])})"
        )
        parts += [
            title,
            "=" * len(title),
            f"{program.passes} passes over a row:",
            row_instructions(program),
        ]
        parts += ["", generated_rows(program, precision, False)] if source else []
        parts.append("")
    return "\n".join(parts)
