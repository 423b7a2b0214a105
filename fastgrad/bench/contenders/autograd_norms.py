"""Norms in NumPy with HIPS autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.bench.contenders import arrays, norm_code
from fastgrad.bench.contenders.protocol import Prepared, Unsupported, library, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.norms import NormCall
from fastgrad.bench.workloads import Case

autograd = library("autograd")
anp = library("autograd.numpy")

Function = Callable[..., Any]


def normalise(x, axes):
    centred = x - anp.mean(x, axes, keepdims=True)
    variance = anp.mean(centred * centred, axes, keepdims=True)
    return centred / anp.sqrt(variance + 1e-5)


def affine(z, gamma, beta):
    shape = (-1,) + (1,) * (z.ndim - 2)
    return z * anp.reshape(gamma, shape) + anp.reshape(beta, shape)


def group_norm(x, gamma, beta, num_groups=32):
    groups = anp.reshape(x, (x.shape[0], num_groups, -1))
    return affine(anp.reshape(normalise(groups, -1), x.shape), gamma, beta)


def group_norm_swish(x, gamma, beta, num_groups=32):
    z = group_norm(x, gamma, beta, num_groups)
    return z / (1 + anp.exp(-z))


def instance_norm(x, gamma, beta):
    return affine(normalise(x, tuple(range(2, x.ndim))), gamma, beta)


def batch_norm(x, gamma, beta):
    return affine(normalise(x, (0, *range(2, x.ndim))), gamma, beta)


def layer_norm(x, gamma, beta):
    return normalise(x, -1) * gamma + beta


def rms_norm(x, gamma):
    return x / anp.sqrt(anp.mean(x * x, -1, keepdims=True) + 1e-6) * gamma


# The function of each norm comes last, after what it calls.
_FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "group_norm": (normalise, affine, group_norm),
    "group_norm_swish": (normalise, affine, group_norm, group_norm_swish),
    "instance_norm": (normalise, affine, instance_norm),
    "batch_norm": (normalise, affine, batch_norm),
    "layer_norm": (normalise, layer_norm),
    "rms_norm": (rms_norm,),
}


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    call = NORM_CALLS[case.operator]
    if call.norm.has_residual:
        raise Unsupported("autograd differentiates functions of one result")
    if call.norm.channels_last:
        raise Unsupported("its function is written for channels that come second")
    functions = _FUNCTIONS[call.function]
    function = functools.partial(functions[-1], **norm_code.keywords(call))
    operands = [inputs[name] for name in call.operands]
    definitions = source(*functions)
    if call.direction == "forward":
        text = norm_code.forward_text(call, call.function)
        return Prepared(
            functools.partial(function, *operands), lambda y: (y,), f"{definitions}\n\n{text}"
        )
    code = f"{definitions}\n\n{_backward_text(call)}"
    recorded = autograd.make_vjp(function, tuple(range(len(operands))))
    if call.direction == "gradient":
        pullback, _ = recorded(*operands)
        return Prepared(functools.partial(pullback, inputs["dy"]), tuple, code)

    def forward_backward() -> tuple[np.ndarray, ...]:
        pullback, y = recorded(*operands)
        return y, *pullback(inputs["dy"])

    def pullback_of(x: np.ndarray) -> Any:
        return recorded(x, *operands[1:])[0]

    return Prepared(
        forward_backward,
        tuple,
        code,
        bytes_kept=lambda: arrays.bytes_kept(pullback_of, operands[0]),
    )


def _backward_text(call: NormCall) -> str:
    before = "  # before, untimed" if call.direction == "gradient" else ""
    function = norm_code.partial_text(call, call.function)
    places = tuple(range(len(call.operands)))
    return (
        f"recorded = autograd.make_vjp({function}, {places})\n"
        f"pullback, y = recorded({', '.join(call.operands)}){before}\n"
        f"{', '.join(call.norm.gradients)} = pullback(dy)"
    )
