"""`loss`: a loss from one line of maths, its value and its gradient in one pass."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..program.maths import Traced
from ..program.program import Program
from ..program.trace import loss_program
from ._arguments import as_number, choose, native
from ._operands import Operands
from ._operator import Operator, Specialisation, with_signature
from ._run import ProgramRunner

__all__ = ["LossOperator", "loss"]


def loss(function: Callable | None = None, /, **choices: Sequence[str]) -> Any:
    """Make a loss of a function of one line of maths, the loss of one element.

    Parameters
    ----------
    function : callable
        As for `elementwise`: arguments without a default are arrays, numbers are parameters.
    **choices : sequence of str
        For each argument with a string as default, what it may be.

    Returns
    -------
    LossOperator

    Examples
    --------
    >>> @fastgrad.loss
    ... def log_cosh(x, target):
    ...     d = x - target
    ...     return fastgrad.maths.softplus(-2.0 * d) + d
    >>> value, dx = log_cosh.value_and_grad(x, target)
    """
    if function is None:
        return functools.partial(loss, **choices)
    return LossOperator(function, dict(choices))


#: Kernels of a reduction: of the loss or of its gradient, and of both in one pass.
_SUM, _VALUE = "of a sum", "of a sum, with its value"


class LossOperator(Operator):
    """An elementwise loss: ``op(x, target, …, *, reduction="mean")``.

    Sums are in float64, in an order that depends on the shape alone: the same bits for any layout and
    number of threads.
    """

    #: What a sum over all elements may be divided by.
    reductions: tuple[str, ...] = ("none", "sum", "mean")

    def __init__(self, function: Callable, choices: dict[str, Sequence[str]]):
        super().__init__(function, choices)
        self._bind = with_signature(self, self.__name__, _Bound, (), ("axis", "out"))
        self._loss_runners: dict[tuple, ProgramRunner] = {}
        own = list(inspect.signature(self._call).parameters.values())
        reduction = inspect.Parameter("reduction", own[-1].kind, default="mean")
        self.__signature__ = inspect.Signature([*own[:-1], reduction, own[-1]])

    def __call__(
        self, /, *args: Any, reduction: str = "mean", out: Any = None, **keywords: Any
    ) -> Any:
        """The loss: see the operator's own docstring."""
        if choose(reduction, "reduction", self.reductions) == "none" or _has_traced(args, keywords):
            return self._call(*args, out=out, **keywords)
        if out is not None:
            raise ValueError(f"out is for reduction='none': the {reduction} is one number")
        bound = self._bind(*args, **keywords)
        operands = self._sorted(bound.arrays, bound.parameters, bound.axis)
        found = self._loss_runner(None, True, reduction, operands, bound.static).run(operands)
        return _mean(found[""], operands, reduction)

    def grad(
        self,
        dy: Any,
        /,
        *args: Any,
        reduction: str = "mean",
        wrt: Any = None,
        out: Any = None,
        **keywords: Any,
    ) -> tuple:
        """Gradients of the loss, as `Operator.grad`.

        Parameters
        ----------
        dy : float or array_like
            The gradient of the loss: one number, or with ``reduction="none"`` an array of the shape and
            dtype of `x`.
        reduction : {"none", "sum", "mean"}
            As in the forward call.
        wrt, out
            As for `Operator.grad`.
        """
        if choose(reduction, "reduction", self.reductions) == "none":
            return self._grad(dy, *args, wrt=wrt, out=out, **keywords)
        names = self._wrt(wrt)
        bound = self._bind(*args, **keywords)
        return self._with_gradients(as_number(dy, "dy"), bound, reduction, names, out, False)[1]

    def value_and_grad(
        self,
        /,
        *args: Any,
        reduction: str = "mean",
        wrt: Any = None,
        out: Any = None,
        **keywords: Any,
    ) -> tuple:
        """The loss and its gradient, in one pass over the operands.

        Parameters
        ----------
        reduction : {"mean", "sum", "none"}
            With ``"none"`` the loss has the shape of `x`, and the gradient is that of its sum.
        wrt : str or sequence of str, optional
            The operands whose gradients are wanted; the first array by default.
        out : ndarray or tuple of (ndarray or None), optional
            For the gradients of the arrays among `wrt`.

        Returns
        -------
        value : scalar or ndarray
            In the dtype of `x`.
        gradient : ndarray, float, or tuple
            A tuple where `wrt` is a sequence.
        """
        choose(reduction, "reduction", self.reductions)
        names = self._wrt(self.arrays[0] if wrt is None else wrt)
        bound = self._bind(*args, **keywords)
        value, gradients = self._with_gradients(1.0, bound, reduction, names, out, True)
        is_one = wrt is None or isinstance(wrt, str)
        return value, gradients[0] if is_one else gradients

    def specialisations(self, everything: bool = True) -> list[Specialisation]:
        """All kernels, as `Operator.specialisations`; those of a reduction say so among their choices."""
        found = super().specialisations(everything)
        first = self.arrays[:1]
        reduced = []
        for own in (
            found if everything else [own for own in found if own.wrt in (None, self.arrays)]
        ):
            wrts = [own.wrt] if everything else [first if own.wrt else None]
            for wrt in wrts:
                kinds = (_SUM, _VALUE) if wrt else (_SUM,)
                reduced += [own._replace(wrt=wrt, static=(*own.static, kind)) for kind in kinds]
        return [*found, *reduced] if everything else reduced

    def prepare(self, own: Specialisation, dtype: np.dtype) -> None:
        """Compile a kernel, or load it from the cache, without calling it."""
        kind = own.static[-1] if own.static else ""
        if kind not in (_SUM, _VALUE):
            return super().prepare(own, dtype)
        with_value = own.wrt is None or kind == _VALUE
        key = (own.wrt, with_value, False, own.channels, own.static[:-1])
        self._runner_for(key).prepare(dtype)

    def _with_gradients(
        self, dy: float, bound: _Bound, reduction: str, names: tuple, out: Any, with_value: bool
    ) -> tuple[Any, tuple]:
        """The value, where it is wanted, and the gradients of `names`."""
        operands = self._sorted(bound.arrays, bound.parameters, bound.axis)
        outs = self._outs(names, out)

        def runner(wrt: tuple[str, ...]) -> ProgramRunner:
            has_value = with_value and names[0] in wrt
            return self._loss_runner(wrt, has_value, reduction, operands, bound.static)

        scale = dy / _count(operands, reduction)
        found = self._gradients(scale, operands, names, outs, runner)
        value = None
        if with_value:
            value = found[""] if reduction == "none" else _mean(found[""], operands, reduction)
        values = (*bound.arrays, *bound.parameters)
        return value, self._in_kind(found, names, operands, values, outs)

    def _loss_runner(
        self,
        wrt: tuple[str, ...] | None,
        with_value: bool,
        reduction: str,
        operands: Operands,
        static: tuple[str, ...],
    ) -> ProgramRunner:
        return self._runner_for(
            (wrt, with_value, reduction == "none", self._channels(operands), static)
        )

    def _runner_for(self, key: tuple) -> ProgramRunner:
        if key not in self._loss_runners:
            self._loss_runners[key] = ProgramRunner(self._loss_program(*key))
        return self._loss_runners[key]

    def _loss_program(
        self,
        wrt: tuple[str, ...] | None,
        with_value: bool,
        is_full: bool,
        channels: tuple[str, ...],
        static: tuple[str, ...],
    ) -> Program:
        choices = dict(zip(self.static, static, strict=True))
        forward = self._trace(None, channels, choices)
        backward = self._trace(wrt, channels, choices, number_dy=True) if wrt else None
        return loss_program(forward, backward, with_value, not is_full)


class _Bound(NamedTuple):
    """The arguments of a call, sorted by Python."""

    arrays: tuple
    parameters: tuple
    static: tuple[str, ...]
    axis: Any
    out: Any


def _has_traced(args: tuple, keywords: dict[str, Any]) -> bool:
    return any(isinstance(value, Traced) for value in (*args, *keywords.values()))


def _count(operands: Operands, reduction: str) -> float:
    """What the sum is divided by; of nothing, the mean is NaN."""
    x = operands.x
    if reduction == "mean":
        return float(x.size) or math.nan
    return float(x.shape[0]) or math.nan if reduction == "batchmean" else 1.0


def _mean(total: np.ndarray, operands: Operands, reduction: str) -> Any:
    """The loss as a number in the dtype of x."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (total[0] / _count(operands, reduction)).astype(native(operands.x.dtype))
