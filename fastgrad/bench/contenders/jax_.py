"""JAX: what XLA makes of `jit` around `jax.vjp` of JAX's own functions.

There is no `out=`, but a buffer can be donated: XLA writes the result over it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastgrad.bench.contenders import jax_functions, jax_norms
from fastgrad.bench.contenders.jax_memory import bytes_kept as kept_by
from fastgrad.bench.contenders.jax_memory import planned_peak
from fastgrad.bench.contenders.protocol import Prepared, library, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

jax = library("jax")


def silu(x):
    return jax.nn.silu(x)


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x):
    return jax.nn.gelu(x, approximate=True)


def gradient(function, dy, x):
    _, pullback = jax.vjp(function, x)
    (dx,) = pullback(dy)
    return dx


def forward_backward(function, dy, *operands):
    y, pullback = jax.vjp(function, *operands)
    return y, *pullback(dy)


def into(function, out, *operands):
    return function(*operands)  # over `out`, which is donated


_FORWARD = {"silu": silu, "gelu": gelu}
_GRADIENT = {"swish_grad": silu, "gelu_grad": gelu, "gelu_tanh_grad": gelu_tanh}
_FORWARD_BACKWARD = {"swish_forward_backward": silu, **jax_functions.FORWARD_BACKWARD}

OPERATORS = frozenset(
    [*_FORWARD, *_GRADIENT, *jax_functions.GRADIENTS, *_FORWARD_BACKWARD, *NORM_CALLS]
)

#: Freed results stay in heaps of XLA's threads, which give nothing back: see `jax_memory`.
POOLS_MEMORY = True


def start(threads: int) -> dict[str, str]:
    # XLA's one knob for the size of its thread pool; read when the first array is made.
    os.environ["PJRT_NPROC"] = str(threads)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)  # for float64; the code of the others stays the same
    return {
        "jax": jax.__version__,
        "jaxlib": library("jaxlib").__version__,
        "numpy": np.__version__,
    }


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.operator in NORM_CALLS:
        return jax_norms.prepare(case, inputs)
    operands = [jax.numpy.array(array) for array in inputs.values()]
    if case.operator in _FORWARD_BACKWARD:
        return _prepare_forward_backward(_FORWARD_BACKWARD[case.operator], operands, [*inputs])
    make = {"allocate": _allocating, "out": _into_donated, "in-place": _over_donated}[case.mode]
    return make(_program(case.operator), operands, case.workload.inputs)


class _Program(NamedTuple):
    """What is jitted, how a user would name it, and the definitions behind that name."""

    function: Callable[..., Any]
    text: str
    definitions: str


def _program(operator: str) -> _Program:
    if operator in _FORWARD:
        function = _FORWARD[operator]
        return _Program(function, function.__name__, source(function))
    if operator in jax_functions.GRADIENTS:
        function, name = jax_functions.GRADIENTS[operator]
        bound = functools.partial(gradient, function)
        return _Program(bound, f"functools.partial(gradient, {name})", source(gradient))
    function = _GRADIENT[operator]
    text = f"functools.partial(gradient, {function.__name__})"
    return _Program(functools.partial(gradient, function), text, source(function, gradient))


def _allocating(program: _Program, operands: Sequence[Any], names: Sequence[str]) -> Prepared:
    jitted = jax.jit(program.function)
    code = (
        f"{program.definitions}\n\ncall = jax.jit({program.text})\n"
        f"result = call({', '.join(names)}).block_until_ready()"
    )
    return Prepared(
        lambda: jitted(*operands).block_until_ready(),
        _one_array,
        code,
        peak_bytes=lambda: planned_peak(jitted, operands),
    )


def _into_donated(program: _Program, operands: Sequence[Any], names: Sequence[str]) -> Prepared:
    jitted = jax.jit(functools.partial(into, program.function), donate_argnums=0, keep_unused=True)
    call = _Donating(jitted, operands[0], operands)
    call.restore()
    code = (
        f"{program.definitions}\n\n{source(into)}\n\n"
        f"call = jax.jit(\n    functools.partial(into, {program.text}),\n"
        "    donate_argnums=0,\n    keep_unused=True,\n)\n"
        f"out = call(out, {', '.join(names)}).block_until_ready()"
    )
    return Prepared(call, _one_array, code, peak_bytes=call.peak_bytes)


def _over_donated(program: _Program, operands: Sequence[Any], names: Sequence[str]) -> Prepared:
    jitted = jax.jit(program.function, donate_argnums=0)
    call = _Donating(jitted, operands[0], operands[1:])
    code = (
        f"{program.definitions}\n\ncall = jax.jit({program.text}, donate_argnums=0)\n"
        f"{names[0]} = call({', '.join(names)}).block_until_ready()"
    )
    return Prepared(call, _one_array, code, call.restore, peak_bytes=call.peak_bytes)


class _Donating:
    """Calls that give a buffer away, and get it back as their result.

    Parameters
    ----------
    jitted : callable
        Donates its first argument.
    first, others : array, sequence of array
        What the buffer holds at first, and the other arguments.
    """

    def __init__(self, jitted: Any, first: Any, others: Sequence[Any]) -> None:
        self._jitted = jitted
        self._first = first
        self._others = others
        self._buffer: Any = None

    def __call__(self) -> Any:
        self._buffer = self._jitted(self._buffer, *self._others).block_until_ready()
        return self._buffer

    def restore(self) -> None:
        self._buffer = jax.numpy.array(self._first).block_until_ready()

    def peak_bytes(self) -> int:
        return planned_peak(self._jitted, [self._first, *self._others])


def _prepare_forward_backward(
    function: Callable[..., Any], operands: Sequence[Any], names: Sequence[str]
) -> Prepared:
    jitted = jax.jit(functools.partial(forward_backward, function))
    gradients = ", ".join(f"d{name}" for name in names[1:])
    code = (
        f"{source(function, forward_backward)}\n\n"
        f"call = jax.jit(functools.partial(forward_backward, {function.__name__}))\n"
        f"y, {gradients} = jax.block_until_ready(call({', '.join(names)}))"
    )
    return Prepared(
        lambda: jax.block_until_ready(jitted(*operands)),
        lambda results: tuple(np.asarray(result) for result in results),
        code,
        bytes_kept=lambda: kept_by(function, *operands[1:]),
        peak_bytes=lambda: planned_peak(jitted, operands),
    )


def _one_array(result: Any) -> tuple[np.ndarray, ...]:
    return (np.asarray(result),)
