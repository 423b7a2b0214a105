"""`vjp`: a value and the function that pulls a gradient back through it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._operator import Operator
from ._row_operator import RowOperator
from ._variants import LossVariants

__all__ = ["vjp"]


def vjp(operator: Operator | RowOperator, *operands: Any, **keywords: Any) -> tuple[Any, Any]:
    """The value of an operator and its pullback.

    Parameters
    ----------
    operator : Operator or RowOperator
        An operator of this library, or one made by `elementwise` or `rowwise`.
    *operands, **keywords
        As the operator is called with.

    Returns
    -------
    y : ndarray
        ``operator(*operands, **keywords)``.
    pullback : Pullback or RowPullback
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
    if isinstance(operator, RowOperator):
        return _row_vjp(operator, operands, keywords)
    if not isinstance(operator, Operator | LossVariants):
        raise TypeError(f"vjp takes an operator of fastgrad, got {type(operator).__name__}")
    out = keywords.pop("out", None)
    _check_out(out, (*operands, *keywords.values()))
    y = operator(*operands, out=out, **keywords)  # which also checks the arguments
    return y, Pullback(operator, operands, keywords)


class Pullback:
    """Pulls a gradient back through one call of an operator.

    Attributes
    ----------
    kept : tuple
        The arrays among the operands: all that is kept for backward.
    """

    def __init__(
        self, operator: Operator | LossVariants, operands: tuple, keywords: dict[str, Any]
    ):
        self._operator, self._operands, self._keywords = operator, operands, keywords
        given = operator.given(*operands, **keywords)
        self._wrt, self.kept = tuple(given), tuple(given.values())

    def __call__(self, dy: Any) -> tuple:
        """The gradient of each array among the operands, in their order."""
        return self._operator.grad(dy, *self._operands, wrt=self._wrt, **self._keywords)


def _check_out(out: Any, operands: tuple) -> None:
    for one in out if isinstance(out, tuple) else (out,):
        for operand in operands:
            if (
                one is not None
                and isinstance(operand, np.ndarray)
                and np.may_share_memory(one, operand)
            ):
                raise ValueError(
                    "out overlaps an operand, which the pullback needs: pass other memory"
                )


def _row_vjp(operator: RowOperator, operands: tuple, keywords: dict[str, Any]) -> tuple:
    out = keywords.pop("out", None)
    _check_out(out, (*operands, *keywords.values()))
    names = tuple(operator.kernels.saved)
    options = {"return_stats": True} if names else {}
    results = operator(*operands, out=out, **options, **keywords)
    values = results if isinstance(results, tuple) else (results,)
    count = len(values) - len(names)
    statistics = dict(zip(names, values[count:], strict=True))
    y = values[:count] if count > 1 else values[0]
    return y, RowPullback(operator, operands, keywords, statistics)


class RowPullback:
    """Pulls a gradient back through one call of an operator over rows.

    Attributes
    ----------
    kept : tuple
        The arrays and parameters of the call, and its statistics: all that is kept for backward.
    """

    def __init__(
        self,
        operator: RowOperator,
        operands: tuple,
        keywords: dict[str, Any],
        statistics: dict[str, Any],
    ):
        self._operator, self._operands, self._keywords = operator, operands, keywords
        self._statistics = statistics
        self._wrt = tuple(
            name
            for name in operator.given(*operands, **keywords)
            if name not in operator.kernels.numbers
        )
        given = operator.arguments(*operands, **keywords)
        self.kept = (*(given[name] for name in self._wrt), *statistics.values())

    def __call__(self, dy: Any) -> tuple:
        """The gradient of each array and each parameter a channel among the operands, in their order."""
        return self._operator.grad(
            dy, *self._operands, wrt=self._wrt, **self._statistics, **self._keywords
        )
