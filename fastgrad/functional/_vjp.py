"""`vjp`: a value and the function that pulls a gradient back through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._operator import Operator

__all__ = ["vjp"]


def vjp(operator: Operator, *operands: Any, **keywords: Any) -> tuple[Any, Callable[[Any], tuple]]:
    """The value of an operator and its pullback.

    Parameters
    ----------
    operator : Operator
        An operator of this library, or one made by `elementwise`.
    *operands, **keywords
        As the operator is called with.

    Returns
    -------
    y : ndarray
        ``operator(*operands, **keywords)``.
    pullback : callable
        ``pullback(dy)`` gives a tuple: the gradient of each array among the operands. It keeps the
        operands themselves, no copies and no intermediates (``pullback.kept``): do not write into
        them before it is called.

    Raises
    ------
    TypeError
        If `operator` is not an `Operator`.
    ValueError
        If `out` is an operand: the pullback needs it as it is.
    """
    if not isinstance(operator, Operator):
        raise TypeError(f"vjp takes an operator of fastgrad, got {type(operator).__name__}")
    out = keywords.pop("out", None)
    for operand in (*operands, *keywords.values()):
        if (
            out is not None
            and isinstance(operand, np.ndarray)
            and np.may_share_memory(out, operand)
        ):
            raise ValueError("out overlaps an operand, which the pullback needs: pass other memory")
    y = operator(*operands, out=out, **keywords)  # which also checks the arguments
    given = {**dict(zip(operator.arguments, operands, strict=False)), **keywords}
    wrt = operator.arrays
    if operator.parameters:
        wrt += tuple(name for name in operator.parameters if np.ndim(given.get(name, 0.0)))

    def pullback(dy: Any) -> tuple:
        return operator.grad(dy, *operands, wrt=wrt, **keywords)

    pullback.kept = tuple(given[name] for name in wrt)  # type: ignore[attr-defined]
    return y, pullback
