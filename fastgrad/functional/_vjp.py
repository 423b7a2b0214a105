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
    """
    if not isinstance(operator, Operator):
        raise TypeError(f"vjp takes an operator of fastgrad, got {type(operator).__name__}")
    bound = operator.__signature__.bind(*operands, **keywords)
    keywords_of_call = {n: v for n, v in bound.arguments.items() if n not in ("out",)}
    wrt = [
        name
        for name in (*operator.arrays, *operator.parameters)
        if name in operator.arrays or np.ndim(bound.arguments.get(name, 0.0)) > 0
    ]
    y = operator(*operands, **keywords)

    def pullback(dy: Any) -> tuple:
        return operator.grad(dy, wrt=tuple(wrt), **keywords_of_call)

    pullback.kept = tuple(bound.arguments[name] for name in wrt)  # type: ignore[attr-defined]
    return y, pullback
