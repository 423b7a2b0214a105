"""Operators over rows: the class of the library's own norms, and `rowwise` for a user's."""

from __future__ import annotations

import contextlib
import functools
import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..program.row_derive import incoming_gradients
from ..program.row_program import RowProgram
from ._operator import Specialisation, by_name, subsets
from ._row_call import RowCall
from ._rows import RowKernels

__all__ = ["RowOperator", "row_operator", "rowwise"]


class RowOperator:
    """An operator over rows: ``op(x, …, *, return_stats=False, out=None)``.

    Parameters
    ----------
    kernels : RowKernels
        Its programs.
    bind : callable
        From the arguments of a call to a `RowCall`; its signature and docstring are the operator's.
    form : str
        Whether its channels usually are ``"lanes"`` or ``"runs"``.
    """

    def __init__(self, kernels: RowKernels, bind: Callable[..., RowCall], form: str = "lanes"):
        functools.update_wrapper(self, bind)
        self.__name__, self.__qualname__ = bind.__name__, bind.__qualname__
        self.kernels, self._bind, self._form = kernels, bind, form
        #: The names of the gradients of the results, by the parameters that are given.
        self._gradients: dict[tuple[str, ...], tuple[str, ...]] = {}
        options = ("return_stats", "out") if kernels.saved else ("out",)
        self._own = own = inspect.signature(bind)
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in (("return_stats", False), ("out", None))
            if name in options
        ]
        self.__signature__ = own.replace(
            parameters=[*own.parameters.values(), *keywords], return_annotation=Any
        )

    def __repr__(self) -> str:
        return f"<fastgrad operator {self.__name__}{self.__signature__}>"

    def __reduce__(self) -> str | tuple:
        return by_name, (self.__module__, self.__qualname__)

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """The value: see the operator's own docstring."""
        with_stats = keywords.pop("return_stats", False) if self.kernels.saved else False
        call = self._bind(*args, **keywords)
        results = call.forward(self.kernels, with_stats, out)
        if with_stats:
            for name in self.kernels.saved:
                results[name] = call.as_stats(results[name])
        return tuple(results.values()) if len(results) > 1 else next(iter(results.values()))

    def grad(
        self,
        dy: Any,
        /,
        *args: Any,
        wrt: str | Sequence[str] | None = None,
        out: Any = None,
        **keywords: Any,
    ) -> tuple:
        """Gradients: ``op.grad(dy, x, …, *, wrt=None, out=None)`` with the arguments of the call.

        Parameters
        ----------
        dy : array_like, or tuple of array_like
            The gradient of the result, or of each result.
        *args, **keywords
            As in the forward call; also what it returned as statistics, such as ``mean=`` and
            ``rstd=``, to compute them no second time.
        wrt : str or sequence of str, optional
            The operands whose gradients are wanted; by default the arrays, the parameters of one element
            a channel that are given, and the numbers of which it has a gradient.
        out : ndarray or tuple of (ndarray or None), optional
            For the gradients of the arrays among `wrt`, in their order.

        Returns
        -------
        tuple
            One gradient for each name in `wrt`: of the shape and dtype of an array or of a parameter, a
            float for a number.
        """
        statistics = {name: keywords.pop(name, None) for name in self.kernels.saved}
        call = self._bind(*args, **keywords)
        channels = call.channels
        wanted = self._wrt(wrt, self._operands(channels))
        incoming = self._incoming(dy, channels)
        found = call.backward(self.kernels, incoming, wanted, statistics, out)
        return tuple(found[name] for name in wanted)

    def backward(self, function: Callable) -> Callable:
        """Decorator: give the gradients by hand, as a function of ``dy`` and the operands.

        It returns the gradient for each operand: of an array, and of a parameter of one element a
        channel, before the sum over the rows, a value for every lane; what it gives for a number is
        summed.
        """
        self.kernels.give_backward(function)
        return function

    @property
    def program(self) -> RowProgram:
        """The forward program, with all parameters."""
        return self.kernels.program(self.kernels.channels)

    def trace(self, wrt: str | Sequence[str] | None = None) -> RowProgram:
        """The program of a kernel, with all parameters: forward, or the gradients of `wrt`."""
        names = (wrt,) if isinstance(wrt, str) else wrt
        return self.kernels.program(self.kernels.channels, names)

    def specialisations(self, everything: bool = True) -> list[Specialisation]:
        """All kernels that this operator can have in one precision, whatever it is called with.

        Layout, shape and byte order need none of their own, but for the form: ``"lanes"`` where each lane is
        a channel, ``"runs"`` where some in a row share one, ``"last"`` where channels are the last axis.
        With statistics given it is another kernel.

        Parameters
        ----------
        everything : bool
            Or else the usual ones: with all parameters, forward, and the gradients of arrays and parameters.
        """
        kernels = self.kernels
        statistics = ("", "statistics") if kernels.saved else ("",)
        all_forms = ("lanes", "runs", "last") if self._form == "runs" else ("lanes", "runs")
        forms = all_forms if everything else (self._form,)
        found = []
        for channels in subsets(kernels.channels) if everything else [kernels.channels]:
            known = (*kernels.arrays, *channels)
            gradients = subsets((*known, *kernels.numbers))[1:] if everything else [known]
            found += [
                Specialisation(wrt, channels, (form, own, *usual))
                for wrt in (None, *gradients)
                for form in forms
                for own in statistics
                for usual in self._usual(wrt or (), everything)
            ]
        return found

    def _usual(self, wrt: Sequence[str], everything: bool) -> list[tuple[str, ...]]:
        """The numbers that may have their usual values, in all combinations, or all of them."""
        names = tuple(name for name in self.kernels.usual if name not in wrt)
        return subsets(names) if everything else [names]

    def prepare(self, own: Specialisation, dtype: np.dtype) -> None:
        """Compile a kernel, or load it from the cache, without calling it."""
        form, statistics, *usual = own.static
        program = self.kernels.program(own.channels, own.wrt, bool(statistics), usual)
        self.kernels.walk(program, dtype, form).prepare()

    def _incoming(self, dy: Any, channels: tuple[str, ...]) -> dict[str, Any]:
        names = self._gradients.get(channels)
        if names is None:  # kept: 2 µs
            names = tuple(incoming_gradients(self.kernels.program(channels)))
            self._gradients[channels] = names
        values = dy if isinstance(dy, tuple) else (dy,)
        if len(values) != len(names):
            raise ValueError(
                f"dy must hold a gradient for each of {len(names)} results of {self.__name__}, "
                f"got {len(values)}"
            )
        return dict(zip(names, values, strict=True))

    def arguments(self, *args: Any, **keywords: Any) -> dict[str, Any]:
        """The arguments of a call by name."""
        return dict(self._own.bind(*args, **keywords).arguments)

    def given(self, *args: Any, **keywords: Any) -> tuple[str, ...]:
        """The operands of a call: arrays, parameters a channel that are given, numbers."""
        bound = self.arguments(*args, **keywords)
        channels = [name for name in self.kernels.channels if bound.get(name) is not None]
        return self._operands(channels)

    def _operands(self, channels: Sequence[str]) -> tuple[str, ...]:
        return (*self.kernels.arrays, *channels, *self.kernels.numbers)

    def _wrt(self, wrt: Any, known: tuple[str, ...]) -> tuple[str, ...]:
        if wrt is None:
            return known
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if not names or len(set(names)) < len(names) or not set(names) <= set(known):
            raise ValueError(
                f"wrt must name operands of {self.__name__} that are given, {known}, each once, "
                f"got {wrt!r}"
            )
        return names


def row_operator(
    kernels: RowKernels, form: str = "lanes"
) -> Callable[[Callable[..., RowCall]], RowOperator]:
    """Decorator: an operator of the function that binds its arguments to a `RowCall`."""
    return lambda bind: RowOperator(kernels, bind, form)


def rowwise(function: Callable) -> RowOperator:
    """Make an operator over rows, with forward and backward kernels, of a function of some lines of maths.

    Parameters
    ----------
    function : callable
        As for `elementwise`, and with `maths.sum`, `maths.mean` and `maths.variance` over a row. Arguments
        without a default are arrays of one shape and dtype; those with ``None`` as default are
        parameters with one element for each lane of a row, and None in the function where a call leaves
        them out; those with a number as default are numbers. It returns a value for every lane, or a
        tuple of such.

    Returns
    -------
    RowOperator
        ``op(x, …, *, axes=1, out=None)`` over the last `axes` axes, and ``op.grad``. The gradient is derived,
        or given with ``@op.backward``.

    Raises
    ------
    TypeError
        For an argument of any other kind.

    Notes
    -----
    The walk makes as many passes over a row as its reductions follow on each other; a row stays in the
    cache between them. 16-bit and float32 are computed in float32; the numbers of a row, and sums, are
    float64.

    Examples
    --------
    >>> @fastgrad.rowwise
    ... def l2_normalize(x, scale=None, eps=1e-12):
    ...     y = x * maths.rsqrt(maths.sum(x * x) + eps)
    ...     return y if scale is None else y * scale
    >>> y = l2_normalize(x)
    >>> dx, dscale, deps = l2_normalize.grad(dy, x, scale)
    """
    if not function.__name__.isidentifier():
        raise TypeError("an operator needs a name: write def name(x): return …, not a lambda")
    arrays, channels, scalars = _kinds(function)
    kernels = RowKernels(function, function.__name__, arrays, channels, scalars)

    def bind(*args: Any, axes: int = 1, **keywords: Any) -> RowCall:
        given = {**defaults, **dict(zip(names, args, strict=False)), **keywords}
        repeated = keywords and not keywords.keys().isdisjoint(names[: len(args)])
        if repeated or len(args) > len(names) or given.keys() != known:
            signature.bind(*args, **keywords)  # says what is wrong; without it 8 µs less
        call = RowCall(
            {name: given[name] for name in arrays},
            {name: given[name] for name in channels},
            **{name: given[name] for name in scalars},
        )
        return call.by_rows(axes)

    signature = inspect.signature(function)
    names = tuple(signature.parameters)
    known = frozenset(names)
    defaults = {name: signature.parameters[name].default for name in (*channels, *scalars)}
    functools.update_wrapper(bind, function)
    axes = inspect.Parameter("axes", inspect.Parameter.KEYWORD_ONLY, default=1)
    own = signature.replace(parameters=[*signature.parameters.values(), axes])
    bind.__signature__ = own  # type: ignore[attr-defined]  # what inspect asks for first
    operator = RowOperator(kernels, bind)
    # What cannot become a program is told where it is written; a name may be defined further down.
    with contextlib.suppress(NameError):
        _ = operator.program
    return operator


#: Arguments that every operator and its gradient have beside their operands.
_RESERVED = ("dy", "out", "axes", "wrt", "return_stats")


def _kinds(function: Callable) -> tuple[list[str], list[str], list[str]]:
    """The arguments of a row operator's maths: arrays, parameters a channel, numbers."""
    arrays, channels, scalars = [], [], []
    for name, argument in inspect.signature(function).parameters.items():
        if argument.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise TypeError(f"an operator's arguments have names: {argument}")
        if name.startswith("_"):
            raise TypeError(f"no operand may be called {name}: names with _ are the library's own")
        if name in _RESERVED:
            raise TypeError(f"no operand may be called {name}: every operator has that argument")
        if argument.default is inspect.Parameter.empty:
            arrays.append(name)
        elif argument.default is None:
            channels.append(name)
        elif isinstance(argument.default, numbers.Real | np.number):
            scalars.append(name)
        else:
            raise TypeError(
                f"{name}={argument.default!r}: an array has no default, a parameter a lane None, "
                f"a number a number"
            )
    if not arrays:
        raise TypeError("an operator takes at least one array: an argument without a default")
    return arrays, channels, scalars
