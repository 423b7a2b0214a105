"""`seeded`: an operator with random numbers, which backward computes again from the seed."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ..program.maths import Traced
from ._operands import Operands
from ._operator import Operator, with_signature

__all__ = ["SeededOperator", "seeded"]


def seeded(function: Callable | None = None, /, **choices: Sequence[str]) -> Any:
    """Make an operator with random numbers, of a function of one line of maths.

    Parameters
    ----------
    function : callable
        As for `elementwise`; ``fastgrad.maths.random()`` is a number in [0, 1) that depends on the seed and
        on the element's index in C order alone, whatever layout, precision and number of threads.
    **choices : sequence of str
        For each argument with a string as default, what it may be.

    Returns
    -------
    SeededOperator
        Called as ``op(x, …, seed)``: parameters have no default then, and the seed comes last.

    Examples
    --------
    >>> @fastgrad.seeded
    ... def jitter(x, size=0.1):
    ...     return x * (1.0 + size * (fastgrad.maths.random() - 0.5))
    >>> y = jitter(x, 0.2, seed=7)
    """
    if function is None:
        return functools.partial(seeded, **choices)
    return SeededOperator(function, dict(choices))


class SeededOperator(Operator):
    """An elementwise operator whose random numbers come from a seed: ``op(x, …, seed, *, out=None)``.

    Numbers are Philox4x32-10 of the seed and the element's index: nothing random is kept for backward.
    """

    takes_seed = True

    def __init__(self, function: Callable, choices: dict[str, Sequence[str]]):
        super().__init__(function, choices)
        self._bind = with_signature(self, self.__name__, _sorted_arguments, (), ("axis", "out"))
        own = [p.replace(default=p.empty) for p in inspect.signature(function).parameters.values()]
        seed = inspect.Parameter("seed", own[0].kind)
        out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        self.__signature__ = inspect.Signature([*own, seed, out])

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The value: see the operator's own docstring."""
        if any(isinstance(value, Traced) for value in (*args, *keywords.values())):
            return self._call(*args, **keywords)
        args, keywords, seed = self._with_seed(args, keywords)
        arrays, parameters, static, _, out = self._bind(*args, **keywords)
        operands = self._seeded_operands(arrays, parameters, seed)
        runner = self._runner(None, self._channels(operands), static)
        (y,) = runner.run(operands, None, (out,)).values()
        return y

    def grad(
        self, dy: Any, /, *args: Any, wrt: Any = None, out: Any = None, **keywords: Any
    ) -> tuple:
        """Gradients: ``op.grad(dy, x, …, seed, *, wrt=None, out=None)``, as `Operator.grad`.

        By default those of the arrays. Where the gradient does not read the only array, it may be None.
        """
        args, keywords, seed = self._with_seed(args, keywords)
        names = self.arrays if wrt is None else self._wrt(wrt)
        if args and args[0] is None and len(self.arrays) == 1:
            args = (dy, *args[1:])
        arrays, parameters, static, _, _ = self._bind(*args, **keywords)
        operands = self._seeded_operands(arrays, parameters, seed)
        outs = self._outs(names, out)
        found = self._gradients(dy, operands, names, outs, self._runner_of(operands, static))
        return self._in_kind(found, names, operands, (*arrays, *parameters), outs)

    def _seeded_operands(self, arrays: tuple, parameters: tuple, seed: int) -> Operands:
        operands = self._sorted(arrays, parameters, None)
        operands.numbers.append(seed)  # a kernel's last argument
        return operands

    def _with_seed(self, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict, int]:
        """The arguments without the seed, and the seed as the kernel takes it."""
        keywords = dict(keywords)
        if "seed" in keywords:
            seed = keywords.pop("seed")
        elif len(args) > len(self.arguments):
            *args, seed = args  # type: ignore[assignment]  # a list does for a tuple here
        else:
            raise TypeError(f"{self.__name__} needs a seed, its last argument: an integer")
        return tuple(args), keywords, checked_seed(seed)


def _sorted_arguments(*arguments: Any) -> tuple:
    return arguments


def checked_seed(seed: Any) -> int:
    """`seed` as a signed integer of 64 bits.

    Raises
    ------
    TypeError, ValueError
        If it is no integer from 0 to 2**64 - 1.
    """
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed must be an integer, got {type(seed).__name__}: {seed!r}")
    value = operator.index(seed)
    if not 0 <= value < 1 << 64:
        raise ValueError(f"seed must be from 0 to 2**64 - 1, got {seed}")
    return value - (1 << 64) if value >> 63 else value
