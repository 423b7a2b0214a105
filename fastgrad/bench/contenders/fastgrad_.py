"""fastgrad itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import fastgrad
from fastgrad.bench.contenders import fastgrad_norms
from fastgrad.bench.contenders.arrays import bytes_kept
from fastgrad.bench.contenders.protocol import Prepared, as_tuple, bind, call_text, source
from fastgrad.bench.families.activation_gradients import ACTIVATION_GRADIENTS
from fastgrad.bench.families.fused import FUSED, Fused
from fastgrad.bench.families.losses import LOSSES
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

# The streaming bound.
_STREAM = "stream_add"

# Operators run forward and backward through `fastgrad.vjp`.
_FORWARD_BACKWARD = {"swish_forward_backward": Fused(fastgrad.swish), **FUSED}

OPERATORS = frozenset([*_CALLS, *_FORWARD_BACKWARD, *LOSSES, *NORM_CALLS, _STREAM])


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
    if case.operator in LOSSES:
        return _prepare_loss(LOSSES[case.operator][0], inputs)
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


def _prepare_forward_backward(fused: Fused, inputs: dict[str, np.ndarray]) -> Prepared:
    dy, *operands = inputs.values()
    _, *names = inputs
    gradients = ", ".join(f"d{name}" for name in names)
    if fused.name:
        forward, backward = (getattr(fastgrad, f"{fused.name}{end}") for end in ("", "_grad"))
        text = ", ".join(names)
        return Prepared(
            lambda: (forward(*operands), *as_tuple(backward(dy, *operands))),
            tuple,
            f"y = fastgrad.{fused.name}({text})\n{gradients} = fastgrad.{fused.name}_grad(dy, {text})",
        )
    operator, keywords = fused.operator, fused.keywords

    def forward_backward() -> tuple[np.ndarray, ...]:
        y, pullback = fastgrad.vjp(operator, *operands, **keywords)
        return y, *pullback(dy)

    def pullback_of(*operands: np.ndarray) -> Any:
        _, pullback = fastgrad.vjp(operator, *operands, **keywords)
        return pullback

    name = name_of(operator)
    definition = f"{source(operator.function)}\n\n" if name == operator.__name__ else ""
    call = call_text("fastgrad.vjp", [name, *names], keywords, "allocate", "")
    taken = gradients if len(names) > 1 else f"({gradients},)"
    return Prepared(
        forward_backward,
        tuple,
        f"{definition}y, pullback = {call}\n{taken} = pullback(dy)",
        bytes_kept=lambda: bytes_kept(pullback_of, *operands),
    )


def name_of(operator: fastgrad.Operator) -> str:
    """How a user names it: by itself where he has written it."""
    name = operator.__name__
    return f"fastgrad.{name}" if hasattr(fastgrad, name) else name


def _prepare_loss(name: str, inputs: dict[str, np.ndarray]) -> Prepared:
    call = functools.partial(getattr(fastgrad, name).value_and_grad, *inputs.values())
    code = f"value, dx = fastgrad.{name}.value_and_grad({', '.join(inputs)})"
    return Prepared(call, lambda results: tuple(map(np.asarray, results)), code)
