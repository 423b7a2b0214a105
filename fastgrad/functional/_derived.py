"""Operators made of an operator: its slope, and itself with parameters that are arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..program import maths as m
from ..program.derive import derivative
from ..program.maths import Traced
from ._operator import Operator

__all__ = ["slope_of", "with_arrays"]


def slope_of(operator: Operator, wrt: str) -> Operator:
    """The operator incoming · ∂operator/∂wrt, whose gradients are second derivatives.

    Parameters
    ----------
    operator : Operator
        Without random numbers.
    wrt : str
        The operand that it is derived by.

    Returns
    -------
    Operator
        Its first array is the incoming gradient, then come the operands of `operator`.
    """
    place = operator.arguments.index(wrt)

    def slope(incoming: Traced, *operands: Any, **static: str) -> Traced:
        if operator.given_backward is not None:
            given = operator.given_backward(*operands, **static)
            own = given[place] if isinstance(given, tuple | list) else given
        else:
            value = operator.function(*operands, **static)
            own = Traced(derivative(value.node, operands[place].node))
        if not isinstance(own, Traced) or (own.node.op == "const" and own.node.value == 0.0):
            own = m.where(incoming != incoming, 0.0, 0.0 if not isinstance(own, Traced) else own)
        return own * incoming

    own = inspect.signature(operator.function).parameters.values()
    incoming = inspect.Parameter(_free("incoming", operator.arguments), _KIND)
    name = f"{operator.__name__}_slope_{wrt}"
    return _made(slope, name, [incoming, *own], operator)


def with_arrays(operator: Operator, parameters: Sequence[str]) -> Operator:
    """The same operator, where `parameters` are arrays that are broadcast, behind the others.

    Parameters
    ----------
    operator : Operator
    parameters : sequence of str
        Some of its parameters.

    Returns
    -------
    Operator
        Its gradients of them have their shape and dtype.
    """
    names = [*operator.arrays, *parameters]
    names += [name for name in operator.arguments if name not in names]

    def reordered(*operands: Any, **static: str) -> Any:
        by_name = dict(zip(names, operands, strict=False))
        return operator.function(**by_name, **static)

    def reordered_backward(*operands: Any, **static: str) -> Any:
        by_name = dict(zip(names, operands, strict=False))
        assert operator.given_backward is not None
        found = operator.given_backward(**by_name, **static)
        slopes = dict(zip((n for n in operator.arguments if n in by_name), found, strict=True))
        return tuple(slopes[name] for name in by_name)

    given = inspect.signature(operator.function).parameters
    arguments = [
        given[name].replace(default=inspect.Parameter.empty) if name in parameters else given[name]
        for name in names
    ]
    made = _made(reordered, "_".join([operator.__name__, "of", *parameters]), arguments, operator)
    if operator.given_backward is not None:
        made.backward(reordered_backward)
    return made


_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _made(
    function: Callable, name: str, arguments: Sequence[inspect.Parameter], like: Operator
) -> Operator:
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    return Operator(function, dict(like.choices))
