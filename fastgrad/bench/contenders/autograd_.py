"""NumPy with HIPS autograd: the formulas of the papers, recorded on a tape.

A gradient alone is the backward pass over a tape that was recorded before, untimed. NumPy's
functions of elements use one thread, whatever they are given.
"""

from __future__ import annotations

import functools
import importlib.metadata
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.bench.contenders import arrays, autograd_norms
from fastgrad.bench.contenders.protocol import (
    Prepared,
    Unsupported,
    library,
    refuse_in_place,
    source,
)
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

autograd = library("autograd")
anp = library("autograd.numpy")
erf = library("autograd.scipy.special").erf


def swish(x):
    return x / (1 + anp.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + anp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


_FORWARD = {"silu": swish, "gelu": gelu}
_GRADIENT = {"swish_grad": swish, "gelu_grad": gelu, "gelu_tanh_grad": gelu_tanh}
_FORWARD_BACKWARD = {"swish_forward_backward": swish}

OPERATORS = frozenset([*_FORWARD, *_GRADIENT, *_FORWARD_BACKWARD, *NORM_CALLS])

_DTYPES = ("float32", "float64")


def start(threads: int) -> dict[str, str]:
    return {
        "autograd": importlib.metadata.version("autograd"),
        "numpy": np.__version__,
        "scipy": library("scipy").__version__,
    }


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.dtype not in _DTYPES:
        raise Unsupported(f"autograd differentiates {' and '.join(_DTYPES)}")
    refuse_in_place(case)
    if case.operator in NORM_CALLS:
        return autograd_norms.prepare(case, inputs)
    if case.operator in _FORWARD_BACKWARD:
        return _prepare_forward_backward(_FORWARD_BACKWARD[case.operator], inputs)
    if case.operator in _GRADIENT:
        return _prepare_gradient(_GRADIENT[case.operator], inputs)
    function = _FORWARD[case.operator]
    call = functools.partial(function, inputs["x"])
    return Prepared(call, lambda y: (y,), f"{source(function)}\n\ny = {function.__name__}(x)")


def _prepare_gradient(function: Callable[[Any], Any], inputs: dict[str, np.ndarray]) -> Prepared:
    pullback, _ = autograd.make_vjp(function)(inputs["x"])
    code = (
        f"{source(function)}\n\n"
        f"pullback, y = autograd.make_vjp({function.__name__})(x)  # before, untimed\n"
        "dx = pullback(dy)"
    )
    return Prepared(functools.partial(pullback, inputs["dy"]), lambda dx: (dx,), code)


def _prepare_forward_backward(
    function: Callable[[Any], Any], inputs: dict[str, np.ndarray]
) -> Prepared:
    dy, x = inputs["dy"], inputs["x"]
    recorded = autograd.make_vjp(function)

    def forward_backward() -> tuple[np.ndarray, np.ndarray]:
        pullback, y = recorded(x)
        return y, pullback(dy)

    code = (
        f"{source(function)}\n\n"
        f"pullback, y = autograd.make_vjp({function.__name__})(x)\ndx = pullback(dy)"
    )
    return Prepared(
        forward_backward,
        tuple,
        code,
        bytes_kept=lambda: arrays.bytes_kept(lambda operand: recorded(operand)[0], x),
    )
