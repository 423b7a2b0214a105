"""`elementwise`: an operator from one line of maths."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import numbers
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..program.maths import Traced, TraceError
from ..program.program import Program
from ..program.trace import trace_backward, trace_forward, trace_given_backward
from ._arguments import check_out_alone, choose, native, require
from ._operands import Operands, sort_operands
from ._run import ProgramRunner, together

__all__ = ["Operator", "Specialisation", "by_name", "elementwise", "subsets", "with_signature"]


def elementwise(
    function: Callable | None = None,
    /,
    *,
    channel_axis: int | None = None,
    **choices: Sequence[str],
) -> Any:
    """Make an operator, with forward and backward kernels, of a function of one line of maths.

    Parameters
    ----------
    function : callable
        Takes operands and returns one value, by ``+ - * / **``, comparisons and the functions of
        `fastgrad.maths` (or NumPy ufuncs). Arguments without a default are arrays of one shape and
        dtype; arguments with a number as default are parameters, each a number or one a channel;
        arguments with a string as default choose a program.
    channel_axis : int, optional
        What `axis` is where a call with one number a channel does not say; by default it has to.
    **choices : sequence of str
        For each argument with a string as default, what it may be.

    Returns
    -------
    Operator

    Examples
    --------
    >>> @fastgrad.elementwise
    ... def swish(x, beta=1.0):
    ...     return x * fastgrad.maths.sigmoid(beta * x)
    >>> y = swish(x)
    >>> dx, dbeta = swish.grad(dy, x)
    """
    if function is None:
        return functools.partial(elementwise, channel_axis=channel_axis, **choices)
    return Operator(function, choices, channel_axis)


class Specialisation(NamedTuple):
    """What a kernel of an operator is made for, beside the precision.

    Attributes
    ----------
    wrt : tuple of str, optional
        The operands whose gradients it computes; None for the forward kernel.
    channels : tuple of str
        The parameters with one number a channel, and the arrays that are broadcast.
    static : tuple of str
        The value of each choice.
    """

    wrt: tuple[str, ...] | None
    channels: tuple[str, ...]
    static: tuple[str, ...]

    def __str__(self) -> str:
        what = "forward" if self.wrt is None else f"gradient of {', '.join(self.wrt)}"
        return " ".join(
            [what, *filter(None, self.static), *(f"({n} a channel)" for n in self.channels)]
        )


class Operator:
    """An elementwise operator: ``op(x, …, *, axis=None, out=None)``.

    Parameters
    ----------
    function : callable
        Its maths.
    choices : mapping of str to sequence of str
        The values of arguments that choose a program.
    channel_axis : int, optional
        The default of `axis`.

    Attributes
    ----------
    arguments : tuple of str
        Names of all arguments, in order.
    arrays, parameters, static : tuple of str
        Those that are arrays, parameters, choices of a program.
    """

    #: Whether its last argument is the seed of random numbers.
    takes_seed = False

    def __init__(
        self,
        function: Callable,
        choices: dict[str, Sequence[str]],
        channel_axis: int | None = None,
    ):
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        if not self.__name__.isidentifier():
            raise TypeError("an operator needs a name: write def name(x): return …, not a lambda")
        self.function = function
        self.choices = {name: tuple(values) for name, values in choices.items()}
        signature = inspect.signature(function)
        self._defaults = _defaults(signature, self.choices)
        self.arguments = tuple(self._defaults)
        self.arrays = tuple(name for name, default in self._defaults.items() if default is None)
        self.parameters = tuple(n for n, d in self._defaults.items() if isinstance(d, float))
        self.static = tuple(n for n, d in self._defaults.items() if isinstance(d, str))
        self._channel_axis = channel_axis
        self.given_backward: Callable | None = None
        self._requirement: tuple[Callable, str] | None = None
        self._runners: dict[tuple, ProgramRunner] = {}
        #: The operands that are usually broadcast, or one number a channel: what is compiled ahead of a call.
        self.usually_spread: tuple[str, ...] = ()
        axis = ("axis",) if self.parameters else ()
        self._call = with_signature(self, self.__name__, self.value, (), (*axis, "out"))
        self._grad = with_signature(
            self, self.__name__, self.gradients, ("dy",), ("wrt", *axis, "out")
        )
        self.__signature__ = inspect.signature(self._call)
        if not (self.__module__ or "").startswith("fastgrad."):
            self._try()

    def _try(self) -> None:
        """Trace it for every choice: what cannot become a program is told where it is written."""
        for own in itertools.product(*(self.choices[name] for name in self.static)):
            # A function may use names that its module defines further down.
            with contextlib.suppress(NameError):
                self._trace(None, (), dict(zip(self.static, own, strict=True)))

    def __repr__(self) -> str:
        return f"<fastgrad operator {self.__name__}{self.__signature__}>"

    def __reduce__(self) -> str | tuple:
        return by_name, (self.__module__, self.__qualname__)

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The value: see the operator's own docstring."""
        return self._call(*args, **keywords)

    def grad(self, /, *args: Any, **keywords: Any) -> tuple:
        """Gradients: ``op.grad(dy, x, …, *, wrt=None, axis=None, out=None)``.

        Parameters
        ----------
        dy : array_like
            The gradient of the result, of the shape and dtype of `x`.
        x, …
            The operands of the forward call.
        wrt : str or sequence of str, optional
            The operands whose gradients are wanted; all arrays and parameters by default.
        axis : int, optional
            As in the forward call.
        out : ndarray or tuple of (ndarray or None), optional
            For the gradients of the arrays among `wrt`, in their order.

        Returns
        -------
        tuple
            One gradient for each name in `wrt`. An array's gradient has its shape and dtype; a
            parameter's is a Python float for a number, else it has the parameter's shape and dtype.
        """
        return self._grad(*args, **keywords)

    def backward(self, function: Callable) -> Callable:
        """Decorator: give the derivative by hand, as a function of the operands.

        It returns the derivative for each operand, not yet multiplied by `dy`. Write the measured
        reason beside it.
        """
        self.given_backward = function
        self._runners.clear()
        return function

    def require(self, holds: Callable, message: str) -> None:
        """Say what must hold of the parameters, beyond being numbers.

        Parameters
        ----------
        holds : callable
            Takes all parameters, each a float, or an array where there is one number a channel. Whether
            they may be so.
        message : str
            Of the `ValueError` if they may not; `format` puts the parameters in.
        """
        self._requirement = holds, message

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each parameter and of each choice."""
        return {name: value for name, value in self._defaults.items() if value is not None}

    @property
    def program(self) -> Program:
        """The forward program, with parameters as numbers and the default of every choice."""
        return self.trace()

    def trace(
        self,
        wrt: str | Sequence[str] | None = None,
        channels: Sequence[str] = (),
        **static: str,
    ) -> Program:
        """The program of a kernel of this operator.

        Parameters
        ----------
        wrt : str or sequence of str, optional
            Operands whose gradients it computes; the forward program by default.
        channels : sequence of str
            Parameters that have one element a channel, arrays that are broadcast.
        **static : str
            Arguments that choose a program.
        """
        chosen = {name: str(self._defaults[name]) for name in self.static}
        for name, value in static.items():
            if name not in chosen:
                raise TypeError(f"{self.__name__} has no choice {name!r}; it has: {self.static}")
            chosen[name] = choose(value, name, self.choices[name])
        return self._trace(wrt, channels, chosen)

    def _trace(
        self,
        wrt: str | Sequence[str] | None,
        channels: Sequence[str],
        chosen: Mapping[str, str],
        number_dy: bool = False,
    ) -> Program:
        """As `trace`; `number_dy`: the incoming gradient is one number, that of a sum."""
        kinds = dict.fromkeys(self.arrays, "array") | dict.fromkeys(self.parameters, "number")
        kinds |= dict.fromkeys(channels, "channel")
        order = [name for name in self._defaults if name in kinds]
        name = "_".join([self.__name__, *chosen.values()])
        forward = trace_forward(self.function, name, {n: kinds[n] for n in order}, chosen)
        if wrt is None:
            return forward
        names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if self.given_backward is None:
            return trace_backward(forward, names, number_dy)
        return trace_given_backward(forward, names, self.given_backward, chosen, number_dy)

    def specialisations(self, everything: bool = True) -> list[Specialisation]:
        """All kernels that this operator can have in one precision, whatever it is called with.

        Layout, shape, byte order, writability and the order of `wrt` need none of their own.

        Parameters
        ----------
        everything : bool
            Or else the usual ones: forward, the gradient of the arrays, the gradients of all operands.
        """
        operands = (*self.arrays, *self.parameters)
        gradients = subsets(operands)[1:] if everything else [self.arrays, operands]
        wrts = dict.fromkeys([None, *gradients])
        # A lone array has the shape of the result.
        may_spread = operands if len(self.arrays) > 1 else self.parameters
        kinds = subsets(may_spread) if everything else [self.usually_spread]
        choices = itertools.product(*(self.choices[name] for name in self.static))
        return [Specialisation(*own) for own in itertools.product(wrts, kinds, choices)]

    def prepare(self, own: Specialisation, dtype: np.dtype) -> None:
        """Compile a kernel, or load it from the cache, without calling it."""
        self._runner(*own).prepare(dtype)

    def value(
        self,
        arrays: tuple,
        parameters: tuple = (),
        static: tuple[str, ...] = (),
        axis: Any = None,
        out: Any = None,
    ) -> Any:
        """The value, of arguments that are sorted already: by the shortest way."""
        if [value for value in (*arrays, *parameters) if type(value) is Traced]:
            return self._inline(arrays, parameters, static, axis, out)
        if axis is None and _are_floats(parameters):
            if self._requirement is not None and self._requirement[0](*parameters) is not True:
                require(parameters, *self._requirement)
            runner = self._runners.get((None, (), static)) or self._runner(None, (), static)
            y = runner.plain(arrays, parameters, out)
            if y is not None:
                return y
        operands = self._sorted(arrays, parameters, axis)
        runner = self._runner(None, self._channels(operands), static)
        (y,) = runner.run(operands, None, (out,)).values()
        return y

    def gradients(
        self,
        dy: Any,
        arrays: tuple,
        parameters: tuple = (),
        static: tuple[str, ...] = (),
        wrt: Any = None,
        axis: Any = None,
        out: Any = None,
    ) -> tuple:
        """The gradients of `wrt`, of arguments that are sorted already."""
        names = self._wrt(wrt)
        if names == self.arrays and len(names) == 1 and not isinstance(out, tuple):
            return (self.input_grad(dy, arrays, parameters, static, axis, out),)
        outs = self._outs(names, out)
        if axis is None and _are_floats(parameters):
            if self._requirement is not None and self._requirement[0](*parameters) is not True:
                require(parameters, *self._requirement)
            own = tuple([name for name in (*self.arrays, *self.parameters) if name in names])
            runner = self._runners.get((own, (), static)) or self._runner(own, (), static)
            own_outs = [outs.get(name) for name in own if name in self.arrays]
            plain = runner.plain_all((dy, *arrays), parameters, own_outs)
            if plain is not None:
                return tuple(
                    [
                        plain[name] if name in self.arrays else float(plain[name][0])
                        for name in names
                    ]
                )
        operands = self._sorted(arrays, parameters, axis)
        found = self._gradients(dy, operands, names, outs, self._runner_of(operands, static))
        return self._in_kind(found, names, operands, (*arrays, *parameters), outs)

    def _outs(self, names: tuple[str, ...], out: Any) -> dict[str, Any]:
        """The arrays given for gradients, by the operand's name."""
        outs = out if isinstance(out, tuple) else () if out is None else (out,)
        wanted = [name for name in names if name in self.arrays]
        if len(outs) > len(wanted):
            raise ValueError(
                f"out has {len(outs)} arrays, there are {len(wanted)} results: {wanted}"
            )
        return dict(zip(wanted, outs, strict=False))

    def _gradients(
        self,
        dy: Any,
        operands: Operands,
        names: tuple[str, ...],
        outs: Mapping[str, Any],
        runner: Callable[[tuple[str, ...]], ProgramRunner],
    ) -> dict[str, np.ndarray]:
        """The gradients of `names`, sums in float64, by the programs that `runner` gives."""
        self._check_spread_outs(dy, operands, outs)
        found: dict[str, np.ndarray] = {}
        for own in together(names, operands, self.takes_seed):
            wrt = tuple(name for name in (*self.arrays, *self.parameters) if name in own)
            own_outs = [outs.get(name) for name in wrt if name in operands.full]
            found |= runner(wrt).run(operands, dy, own_outs)
        return found

    def _check_spread_outs(self, dy: Any, operands: Operands, outs: Mapping[str, Any]) -> None:
        """Those for gradients of what is broadcast, which are written when all else is done."""
        read = [
            *operands.full.items(),
            *((own.name, own.values) for own in operands.spread.values()),
        ]
        if isinstance(dy, np.ndarray):
            read.append(("dy", dy))
        for name, own in operands.spread.items():
            out = outs.get(name)
            if out is None:
                continue
            check_out_alone(out, f"out for {name}", own.values, read)
            for other, array in outs.items():
                if other != name and array is not None and np.may_share_memory(out, array):
                    raise ValueError(
                        f"out for {name} overlaps that for {other}: pass memory of its own"
                    )

    def _in_kind(
        self,
        found: Mapping[str, np.ndarray],
        names: tuple[str, ...],
        operands: Operands,
        values: tuple,
        outs: Mapping[str, Any],
    ) -> tuple:
        """The gradients of `names`, each in the kind of its operand."""
        given = dict(zip((*self.arrays, *self.parameters), values, strict=True))
        return tuple(
            found[name]
            if name in operands.full
            else _like_operand(found[name], given[name], outs.get(name))
            for name in names
        )

    def input_grad(
        self,
        dy: Any,
        arrays: tuple,
        parameters: tuple = (),
        static: tuple[str, ...] = (),
        axis: Any = None,
        out: Any = None,
    ) -> np.ndarray:
        """The gradient of the only array operand, by the shortest way."""
        if axis is None and (not parameters or _are_floats(parameters)):
            if self._requirement is not None and self._requirement[0](*parameters) is not True:
                require(parameters, *self._requirement)
            key = (self.arrays, (), static)
            runner = self._runners.get(key) or self._runner(*key)
            dx = runner.plain((dy, *arrays), parameters, out)
            if dx is not None:
                return dx
        operands = self._sorted(arrays, parameters, axis)
        runner = self._runner(self.arrays, self._channels(operands), static)
        return runner.run(operands, dy, (out,))[self.arrays[0]]

    def _runner(
        self, wrt: tuple[str, ...] | None, channels: tuple[str, ...], static: tuple[str, ...]
    ) -> ProgramRunner:
        key = (wrt, channels, static)
        if key not in self._runners:
            program = self.trace(wrt, channels, **dict(zip(self.static, static, strict=True)))
            if program.is_random and not self.takes_seed:
                raise TraceError(
                    f"{self.__name__} takes random numbers: make it with @fastgrad.seeded"
                )
            self._runners[key] = ProgramRunner(program)
        return self._runners[key]

    def _runner_of(
        self, operands: Operands, static: tuple[str, ...]
    ) -> Callable[[tuple[str, ...]], ProgramRunner]:
        channels = self._channels(operands)
        return lambda wrt: self._runner(wrt, channels, static)

    def _sorted(self, arrays: tuple, parameters: tuple, axis: Any) -> Operands:
        operands = sort_operands(
            dict(zip(self.arrays, arrays, strict=True)),
            dict(zip(self.parameters, parameters, strict=True)),
            axis,
            self._channel_axis,
        )
        if self._requirement is not None:
            numbers = iter(operands.numbers)
            require(
                [
                    operands.spread[name].values.astype(np.float64)
                    if name in operands.spread
                    else next(numbers)
                    for name in self.parameters
                ],
                *self._requirement,
            )
        return operands

    def _channels(self, operands: Operands) -> tuple[str, ...]:
        return tuple([name for name in (*self.arrays, *self.parameters) if name in operands.spread])

    def given(self, *operands: Any, **keywords: Any) -> dict[str, Any]:
        """The arrays of a call, and its parameters with one number a channel, by name."""
        named = {**dict(zip(self.arguments, operands, strict=False)), **keywords}
        channels = [name for name in self.parameters if np.ndim(named.get(name, 0.0))]
        return {name: named[name] for name in (*self.arrays, *channels)}

    def _wrt(self, wrt: Any) -> tuple[str, ...]:
        known = (*self.arrays, *self.parameters)
        if wrt is None:
            return known
        names = (wrt,) if isinstance(wrt, str) or not isinstance(wrt, Iterable) else tuple(wrt)
        if not names or len(set(names)) < len(names) or not set(names) <= set(known):
            raise ValueError(
                f"wrt must name operands of {self.__name__}, {known}, each once, got {wrt!r}"
            )
        return names

    def _inline(
        self, arrays: tuple, parameters: tuple, static: tuple[str, ...], axis: Any, out: Any
    ) -> Traced:
        """Called on traced operands: this operator's maths becomes part of another's."""
        if axis is not None or out is not None:
            raise TraceError(f"{self.__name__} inside an operator takes neither axis nor out")
        values = {**dict(zip(self.arrays, arrays, strict=True)),
                  **dict(zip(self.parameters, parameters, strict=True)),
                  **dict(zip(self.static, static, strict=True))}  # fmt: skip
        return self.function(**values)


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All subsets, in the order of `names`, the smallest first."""
    return [own for n in range(len(names) + 1) for own in itertools.combinations(names, n)]


def _are_floats(parameters: tuple) -> bool:
    """Whether every parameter is a plain Python float: the usual case, with nothing to check."""
    for value in parameters:  # noqa: SIM110 - half the time of all()
        if type(value) is not float:
            return False
    return True


def by_name(module: str, name: str) -> Any:
    """Operators are pickled by name, as functions are."""
    import importlib

    return getattr(importlib.import_module(module), name)


def _like_operand(total: np.ndarray, operand: Any, out: np.ndarray | None = None) -> Any:
    """The gradient of what is spread over the lanes, in the operand's own kind, shape and dtype."""
    if isinstance(operand, int | float) and not isinstance(operand, np.generic):
        return float(total[0])
    array = np.asarray(operand)
    dtype = np.dtype(np.float64) if array.dtype.kind in "iu" else native(array.dtype)
    with np.errstate(over="ignore"):
        if out is not None:
            np.copyto(out, total.reshape(array.shape), casting="unsafe")
            return out
        gradient = total.reshape(array.shape).astype(dtype)
    return gradient[()] if isinstance(operand, np.generic) else gradient


#: Arguments that every operator and its gradient have beside their operands.
_RESERVED = ("dy", "out", "axis", "wrt")


def _defaults(signature: inspect.Signature, choices: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Each argument with its default: None for an array, a float for a parameter, a str for a choice.

    Raises
    ------
    TypeError
        For an argument of any other kind, and for choices that are not those of the arguments.
    """
    defaults: dict[str, Any] = {}
    for name, argument in signature.parameters.items():
        default = argument.default
        if argument.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise TypeError(f"an operator's arguments have names: {argument}")
        if name.startswith("_"):
            raise TypeError(f"no operand may be called {name}: names with _ are the library's own")
        if name in _RESERVED:
            raise TypeError(f"no operand may be called {name}: every operator has that argument")
        if default is inspect.Parameter.empty:
            defaults[name] = None
        elif isinstance(default, str):
            if default not in choices.get(name, ()):
                raise TypeError(f"elementwise({name}=(…)) must list the choices, {default!r} too")
            defaults[name] = default
        elif isinstance(default, numbers.Real):
            defaults[name] = float(default)
        else:
            raise TypeError(
                f"{name}={default!r}: an array has no default, a parameter a number, a choice a string"
            )
    unknown = set(choices) - {
        name for name, default in defaults.items() if isinstance(default, str)
    }
    if unknown or None not in defaults.values():
        raise TypeError(
            f"choices for {sorted(unknown)}, which have no string as default"
            if unknown
            else "an operator takes at least one array: an argument without a default"
        )
    return defaults


def with_signature(
    operator: Operator, name: str, body: Callable, before: Sequence[str], keywords: Sequence[str]
) -> Callable:
    """A function with the operator's real arguments that sorts them for `body`.

    Python binds arguments faster than any code here could, and says what is wrong with them.

    Parameters
    ----------
    operator : Operator
        Whose arguments, docstring and module the function gets.
    name : str
        What it is called.
    body : callable
        Takes what is in `before`, tuples of the arrays, parameters and choices, `wrt` if that is among
        the keywords, `axis` and `out`.
    before, keywords : sequence of str
        Arguments in front of the operator's, and those by keyword alone.
    """
    scope: dict[str, Any] = {"_body": body, "_choose": choose, "_operator": operator}
    arguments = [
        own if default is None else f"{own}=_operator._defaults[{own!r}]"
        for own, default in operator._defaults.items()
    ]

    def group(values: Iterable[str]) -> str:
        return "(" + "".join(f"{value}, " for value in values) + ")"

    choices = [f"_choose({n}, {n!r}, _operator.choices[{n!r}])" for n in operator.static]
    groups = [group(operator.arrays), group(operator.parameters), group(choices)]
    axis = "axis" if "axis" in keywords else "None"
    options = ["wrt", axis, "out"] if "wrt" in keywords else [axis, "out"]
    text = (
        f"def {name}({', '.join([*before, *arguments])}, *, "
        f"{', '.join(f'{keyword}=None' for keyword in keywords)}):\n"
        f"    return _body({', '.join([*before, *groups, *options])})\n"
    )
    exec(text, scope)
    function: types.FunctionType = scope[name]
    function.__doc__, function.__module__ = operator.__doc__, operator.__module__
    return function
