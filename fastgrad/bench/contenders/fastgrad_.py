"""fastgrad itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import fastgrad
from fastgrad.bench.contenders import fastgrad_norms
from fastgrad.bench.contenders.arrays import bytes_kept
from fastgrad.bench.contenders.protocol import Prepared, as_tuple, bind, call_text
from fastgrad.bench.families.activation_gradients import ACTIVATION_GRADIENTS
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.references import add
from fastgrad.bench.workloads import Case

# Operator of the workload: name in fastgrad, static arguments.
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "swish_grad": ("swish_grad", {}),
    "silu": ("silu", {}),
    "gelu": ("gelu", {}),
    "gelu_grad": ("gelu_grad", {}),
    "gelu_tanh_grad": ("gelu_grad", {"approximate": "tanh"}),
    **{name: (name, {}) for name in ACTIVATION_GRADIENTS},
}

# Operators run forward and backward through `fastgrad.vjp`.
_FORWARD_BACKWARD = {"swish_forward_backward": "swish"}


# The streaming bound.
_STREAM = "stream_add"

OPERATORS = frozenset([*_CALLS, *_FORWARD_BACKWARD, *NORM_CALLS, _STREAM])


def start(threads: int) -> dict[str, str]:
    fastgrad.set_num_threads(threads)
    import numba

    return {
        "fastgrad": fastgrad.__version__,
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.operator in NORM_CALLS:
        return fastgrad_norms.prepare(case, inputs)
    if case.operator in _FORWARD_BACKWARD:
        return _prepare_forward_backward(_FORWARD_BACKWARD[case.operator], inputs)
    name, function, keywords = _function(case.operator)
    call, restore = bind(
        functools.partial(function, **keywords),
        list(inputs.values()),
        case.mode,
        "out",
        new=np.empty_like,
        copy=np.copyto,
    )
    code = call_text(f"fastgrad.{name}", case.workload.inputs, keywords, case.mode, "out")
    return Prepared(call, as_tuple, code, restore)


def _function(operator: str) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    if operator == _STREAM:
        return "add", add, {}
    name, keywords = _CALLS[operator]
    return name, getattr(fastgrad, name), keywords


def _prepare_forward_backward(name: str, inputs: dict[str, np.ndarray]) -> Prepared:
    operator = getattr(fastgrad, name)
    dy, x = inputs["dy"], inputs["x"]

    def forward_backward() -> tuple[np.ndarray, np.ndarray]:
        y, pullback = fastgrad.vjp(operator, x)
        (dx,) = pullback(dy)
        return y, dx

    def pullback_of(x: np.ndarray) -> Any:
        _, pullback = fastgrad.vjp(operator, x)
        return pullback

    code = f"y, pullback = fastgrad.vjp(fastgrad.{name}, x)\n(dx,) = pullback(dy)"
    return Prepared(forward_backward, tuple, code, bytes_kept=lambda: bytes_kept(pullback_of, x))
