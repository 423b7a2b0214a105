"""`GatedOperator`: a gate and what it lets through, as two arrays or packed in one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..program.maths import Traced
from ..runtime import memory
from ._arguments import as_operand, check_out_alone, check_same, choose, native
from ._operator import Operator

__all__ = ["GatedOperator", "gated"]

_HALVES = ("first", "last")


def gated(function: Callable | None = None, /, **choices: Sequence[str]) -> Any:
    """As `elementwise`, for a function of a gate and what it lets through."""
    if function is None:
        return functools.partial(gated, **choices)
    return GatedOperator(function, dict(choices))


class GatedOperator(Operator):
    """A gated unit: ``op(gate, up)`` or ``op(packed, gate="first", axis=-1)``.

    The halves of a packed array are views: nothing is copied, and its gradient is one array again.
    """

    def __init__(self, function: Callable, choices: dict[str, Sequence[str]]):
        super().__init__(function, choices)
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = list(inspect.signature(self._call).parameters.values())
        own[1] = own[1].replace(default=None)
        more = [
            inspect.Parameter("gate", keyword, default="first"),
            inspect.Parameter("axis", keyword, default=-1),
        ]
        self.__signature__ = inspect.Signature(
            [own[0].replace(name="x"), *own[1:-1], *more, own[-1]]
        )

    def __call__(
        self,
        x: Any,
        up: Any = None,
        /,
        *args: Any,
        gate: str = "first",
        axis: int = -1,
        **keywords: Any,
    ) -> Any:
        """The value: see the operator's own docstring."""
        if up is None:
            halves = _halves(x, gate, axis)
            return self._call(*halves, *args, **keywords)
        return self._call(x, up, *args, **keywords)

    def grad(
        self,
        dy: Any,
        x: Any,
        up: Any = None,
        /,
        *args: Any,
        gate: str = "first",
        axis: int = -1,
        wrt: Any = None,
        out: Any = None,
        **keywords: Any,
    ) -> tuple:
        """Gradients: ``(dgate, dup)``, in one pass; of a packed array ``(dx,)``.

        Parameters
        ----------
        dy : array_like
            The gradient of the result, of its shape and dtype.
        x, up, gate, axis
            As in the forward call.
        wrt : str or sequence of str, optional
            ``"gate"``, ``"up"``, or both; of a packed array always the whole.
        out : ndarray or tuple of (ndarray or None), optional
            For the gradients, in the order of `wrt`. Each may be an operand of its shape, or `dy`.
        """
        if up is not None:
            return self._grad(dy, x, up, *args, wrt=wrt, out=out, **keywords)
        if wrt not in (None, "x", ("x",)):
            raise ValueError(f"wrt must be 'x' for a packed array, got {wrt!r}")
        x = as_operand(x, "x")
        halves = _halves(x, gate, axis)
        dy = as_operand(dy, "dy")
        check_same(dy, "dy", halves[0], "half of x")
        (dx,) = out if isinstance(out, tuple) else (out,)
        if dx is None:
            dx = memory.empty_like(x, native(x.dtype))
        else:
            check_out_alone(dx, "out", x, (("x", x), ("dy", dy)))
        self._grad(dy, *halves, *args, out=_halves(dx, gate, axis), **keywords)
        return (dx,)

    def given(self, *operands: Any, **keywords: Any) -> dict[str, Any]:
        """The arrays of a call, and its parameters with one number a channel, by name."""
        if len(operands) == 1 or operands[1] is None:
            return {"x": operands[0]}
        return super().given(*operands)


def _halves(x: Any, gate: str, axis: Any) -> tuple[Any, Any]:
    """Gate and value of a packed array, as views."""
    is_first = choose(gate, "gate", _HALVES) == "first"
    if isinstance(x, Traced):
        raise TypeError("inside an operator a gated unit takes two operands: gate and up")
    x = as_operand(x, "x")
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"axis must be an integer, got {type(axis).__name__}: {axis!r}")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(
            f"axis must be in [{-x.ndim}, {x.ndim}) for x of shape {x.shape}, got {axis}"
        )
    length = x.shape[axis]
    if length % 2:
        raise ValueError(
            f"x packs two halves along axis {axis}, whose length must be even: got shape {x.shape}"
        )
    before: tuple[slice, ...] = (slice(None),) * (axis % x.ndim)
    first, last = x[(*before, slice(length // 2))], x[(*before, slice(length // 2, None))]
    return (first, last) if is_first else (last, first)
