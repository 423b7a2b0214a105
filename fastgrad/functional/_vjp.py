"""`vjp`: a value and the function that pulls a gradient back through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._operator import Operator

__all__ = ["vjp"]


def vjp(operator: Operator, *operands: Any, **keywords: Any) -> tuple[Any, Pullback]:
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
    pullback : Pullback
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
    return y, Pullback(operator, operands, keywords)


class Pullback:
    """Pulls a gradient back through one call of an operator.

    Attributes
    ----------
    kept : tuple
        The arrays among the operands: all that is kept for backward.
    """

    def __init__(self, operator: Operator, operands: tuple, keywords: dict[str, Any]):
        self._operator, self._operands, self._keywords = operator, operands, keywords
        given = {**dict(zip(operator.arguments, operands, strict=False)), **keywords}
        self._wrt = operator.arrays + tuple(
            name for name in operator.parameters if np.ndim(given.get(name, 0.0))
        )
        self.kept = tuple(given[name] for name in self._wrt)

    def __call__(self, dy: Any) -> tuple:
        """The gradient of each array among the operands, in their order."""
        return self._operator.grad(dy, *self._operands, wrt=self._wrt, **self._keywords)
