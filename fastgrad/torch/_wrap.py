"""`wrap`: an operator of your own as a function of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..functional._derived import with_arrays
from ..functional._loss_operator import LossOperator
from ..functional._operator import Operator, subsets
from ..functional._row_operator import RowOperator
from ._adapter import Adapter
from ._elementwise import Elementwise, Loss
from ._rows import Rows

__all__ = ["wrap"]


def wrap(operator: Operator | RowOperator) -> Callable[..., Any]:
    """An operator as a differentiable function of tensors.

    Parameters
    ----------
    operator : Operator, LossOperator or RowOperator
        Made by `fastgrad.elementwise`, `fastgrad.loss` or `fastgrad.rowwise`.

    Returns
    -------
    callable
        With the operator's arguments, without `out`. A parameter of an elementwise operator may be a tensor
        that is broadcast, which has a gradient then. It has no graph break in `torch.compile`
        (``torch.ops.fastgrad.<name>``), and elementwise ones can be differentiated as often as you like.

    Raises
    ------
    TypeError
        For anything else, and for operators with random numbers.

    Examples
    --------
    >>> @fastgrad.elementwise
    ... def snake(x, a=1.0):
    ...     return x + fastgrad.maths.sin(a * x) ** 2 / a
    >>> y = fastgrad.torch.wrap(snake)(torch.randn(8, requires_grad=True), 0.5)
    """
    if isinstance(operator, RowOperator):
        call = _wrapped_rows(operator)
    elif isinstance(operator, LossOperator):
        call = _wrapped_loss(operator)
    elif isinstance(operator, Operator) and not operator.takes_seed:
        call = _wrapped_elementwise(operator)
    else:
        raise TypeError(
            f"wrap takes an operator made by fastgrad.elementwise, loss or rowwise, "
            f"got {type(operator).__name__}: {operator!r}"
        )
    call.__name__ = call.__qualname__ = operator.__name__
    call.__module__, call.__doc__ = operator.__module__, operator.__doc__
    return call


def _signature(operator: Any, without: tuple[str, ...]) -> inspect.Signature:
    given = inspect.signature(operator)
    own = [p for name, p in given.parameters.items() if name not in without]
    return given.replace(parameters=own)


def _own_name(operator: Any) -> str:
    """What it is in ``torch.ops.fastgrad``, apart from the library's own operators."""
    return operator.__name__ if _is_own(operator) else f"user_{operator.__name__}"


def _is_own(operator: Any) -> bool:
    return str(operator.__module__).startswith("fastgrad.")


def _wrapped_elementwise(operator: Operator) -> Callable[..., Any]:
    signature = _signature(operator, ("out", "axis", "gate"))

    # All at once: what a graph calls has to be registered before it is traced.
    adapters: dict[tuple[str, ...], Adapter] = {}
    for names in subsets(operator.parameters):
        own = with_arrays(operator, names) if names else operator
        adapters[names] = Elementwise(own, "_of_".join([_own_name(operator), *names]))

    def call(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        of_tensors = tuple([n for n in operator.parameters if isinstance(given[n], torch.Tensor)])
        numbers = [float(given[n]) for n in operator.parameters if n not in of_tensors]
        words = [given[name] for name in operator.static]
        tensors = tuple([given[name] for name in (*operator.arrays, *of_tensors)])
        return adapters[of_tensors](tensors, (*numbers, *words))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _wrapped_loss(operator: LossOperator) -> Callable[..., Any]:
    signature = _signature(operator, ("out", "axis"))
    adapter = Loss(operator, _own_name(operator))

    def call(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        numbers = [float(given[name]) for name in operator.parameters]
        words = [given[name] for name in (*operator.static, "reduction")]
        return adapter(tuple([given[name] for name in operator.arrays]), (*numbers, *words))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _wrapped_rows(operator: RowOperator) -> Callable[..., Any]:
    signature = _signature(operator, ("out", "return_stats"))
    kernels = operator.kernels
    names = (*kernels.numbers, "axes")
    results = len(operator.program.results)
    adapter = Rows(
        operator,
        [*(f"float {name}" for name in kernels.numbers), "int axes"],
        lambda *options: dict(zip(names, options, strict=True)),
        results=results,
        name=_own_name(operator),
    )

    def call(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        numbers = [float(given[name]) for name in kernels.numbers]
        tensors = [given[name] for name in (*kernels.arrays, *kernels.channels)]
        return adapter(tuple(tensors), (*numbers, int(given["axes"])))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
