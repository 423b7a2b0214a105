"""`LossVariants`: one loss with optional operands, each combination of them an operator of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..program.program import Program
from ._loss_operator import LossOperator
from ._operator import by_name

__all__ = ["LossVariants"]


class LossVariants:
    """A loss whose optional operands choose among operators.

    Parameters
    ----------
    name : str
        What it is called.
    choose : callable
        Takes the operands of a call; returns the operator and its operands.
    operators : sequence of LossOperator
        All that `choose` may return, the usual one first.
    doc : str
        The docstring.
    """

    def __init__(
        self,
        name: str,
        choose: Callable[..., tuple[LossOperator, tuple]],
        operators: Sequence[LossOperator],
        doc: str,
    ):
        self.__name__ = self.__qualname__ = name
        self.__module__, self.__doc__ = choose.__module__, doc
        self.operators, self._choose = tuple(operators), choose
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(annotation=p.empty) for p in inspect.signature(choose).parameters.values()]
        reduction = inspect.Parameter("reduction", keyword, default="mean")
        out = inspect.Parameter("out", keyword, default=None)
        self.__signature__ = inspect.Signature([*own, reduction, out])

    def __repr__(self) -> str:
        return f"<fastgrad loss {self.__name__}{self.__signature__}>"

    def __reduce__(self) -> tuple:
        return by_name, (self.__module__, self.__qualname__)

    def _split(self, operands: tuple, keywords: dict[str, Any]) -> tuple[LossOperator, tuple, dict]:
        """The operator of a call, its operands, and what is left of the keywords."""
        options = {key: keywords[key] for key in _OPTIONS if key in keywords}
        own = {key: value for key, value in keywords.items() if key not in options}
        return *self._choose(*operands, **own), options

    def __call__(self, *operands: Any, **keywords: Any) -> Any:
        """The loss: see its own docstring."""
        operator, own, options = self._split(operands, keywords)
        return operator(*own, **options)

    def grad(self, dy: Any, *operands: Any, **keywords: Any) -> tuple:
        """Gradients of the loss: see `LossOperator.grad`."""
        operator, own, options = self._split(operands, keywords)
        return operator.grad(dy, *own, **options)

    def value_and_grad(self, *operands: Any, **keywords: Any) -> tuple:
        """The loss and its gradient in one pass: see `LossOperator.value_and_grad`."""
        operator, own, options = self._split(operands, keywords)
        return operator.value_and_grad(*own, **options)

    def given(self, *operands: Any, **keywords: Any) -> dict[str, Any]:
        """The arrays of a call by name."""
        operator, own, _ = self._split(operands, keywords)
        return operator.given(*own)

    @property
    def program(self) -> Program:
        """The forward program without optional operands."""
        return self.operators[0].program


#: What every loss takes beside its operands.
_OPTIONS = ("reduction", "wrt", "out", "axis")
