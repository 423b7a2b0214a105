"""Norms in JAX: the maths of the papers, for XLA to fuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastgrad.bench.contenders import norm_code
from fastgrad.bench.contenders.jax_memory import bytes_kept, planned_peak
from fastgrad.bench.contenders.norm_code import listed, norm_and_sum
from fastgrad.bench.contenders.protocol import Prepared, library, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.norms import NormCall
from fastgrad.bench.workloads import Case

jax = library("jax")

Function = Callable[..., Any]


def normalise(x, axes):
    mean = x.mean(axes, keepdims=True)
    variance = x.var(axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def affine(z, gamma, beta):
    shape = (-1, *[1] * (z.ndim - 2))
    return z * gamma.reshape(shape) + beta.reshape(shape)


def group_norm(x, gamma, beta, num_groups=32):
    groups = x.reshape(len(x), num_groups, -1)
    return affine(normalise(groups, -1).reshape(x.shape), gamma, beta)


def group_norm_nhwc(x, gamma, beta, num_groups=32):
    groups = x.reshape(len(x), -1, num_groups, x.shape[-1] // num_groups)
    return normalise(groups, (1, 3)).reshape(x.shape) * gamma + beta


def group_norm_swish(x, gamma, beta, num_groups=32):
    return jax.nn.silu(group_norm(x, gamma, beta, num_groups))


def instance_norm(x, gamma, beta):
    return affine(normalise(x, tuple(range(2, x.ndim))), gamma, beta)


def batch_norm(x, gamma, beta):
    return affine(normalise(x, (0, *range(2, x.ndim))), gamma, beta)


def layer_norm(x, gamma, beta):
    return normalise(x, -1) * gamma + beta


def rms_norm(x, gamma):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma


def add_layer_norm(x, residual, gamma, beta):
    total = x + residual
    return layer_norm(total, gamma, beta), total


def add_rms_norm(x, residual, gamma):
    total = x + residual
    return rms_norm(total, gamma), total


def gradients(function, dy, *operands):
    _, pullback = jax.vjp(function, *operands)
    return pullback(dy)


def forward_backward(function, dy, *operands):
    y, pullback = jax.vjp(function, *operands)
    return y, *pullback(dy)


# The function of each norm comes last, after what it calls.
_FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "group_norm": (normalise, affine, group_norm),
    "group_norm_nhwc": (normalise, group_norm_nhwc),
    "group_norm_swish": (normalise, affine, group_norm, group_norm_swish),
    "instance_norm": (normalise, affine, instance_norm),
    "batch_norm": (normalise, affine, batch_norm),
    "layer_norm": (normalise, layer_norm),
    "rms_norm": (rms_norm,),
    "add_layer_norm": (normalise, layer_norm, add_layer_norm),
    "add_rms_norm": (rms_norm, add_rms_norm),
}


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    call = NORM_CALLS[case.operator]
    name = f"{call.function}_nhwc" if call.norm.channels_last else call.function
    functions = _FUNCTIONS[name]
    function = functools.partial(functions[-1], **norm_code.keywords(call))
    text = norm_code.partial_text(call, name)
    if call.of_sum:
        function, functions = functools.partial(norm_and_sum, function), (*functions, norm_and_sum)
        text = f"functools.partial(norm_and_sum, {text})"
    operands = [jax.numpy.array(array) for array in inputs.values()]
    if call.direction == "forward":
        return _prepared(
            call, function, operands, f"{source(*functions)}\n\ncall = jax.jit({text})"
        )
    backward = gradients if call.direction == "gradient" else forward_backward
    definitions = source(*functions, backward)
    code = f"{definitions}\n\ncall = jax.jit(functools.partial({backward.__name__}, {text}))"
    count = len(call.incoming)
    incoming = operands[0] if count == 1 else tuple(operands[:count])
    arguments = [incoming, *operands[count:]]
    prepared = _prepared(call, functools.partial(backward, function), arguments, code)
    if call.direction == "gradient":
        return prepared
    return replace(prepared, bytes_kept=lambda: bytes_kept(function, *arguments[1:]))


def _prepared(call: NormCall, function: Function, operands: Sequence[Any], code: str) -> Prepared:
    jitted = jax.jit(function)
    names = [listed(call.incoming)] if call.incoming else []
    arguments = ", ".join([*names, *call.operands])
    return Prepared(
        lambda: jax.block_until_ready(jitted(*operands)),
        lambda results: tuple(
            map(np.asarray, results if isinstance(results, tuple) else [results])
        ),
        f"{code}\n{', '.join(call.results)} = jax.block_until_ready(call({arguments}))",
        peak_bytes=lambda: planned_peak(jitted, operands),
    )
