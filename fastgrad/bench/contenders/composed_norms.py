"""Norms as papers and tutorials write them: plain PyTorch maths, left to autodiff or to a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fastgrad.bench.contenders import norm_code, norm_tensors
from fastgrad.bench.contenders.protocol import Prepared, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

Function = Callable[..., Any]


def normalise(x, axes):
    mean = x.mean(axes, keepdim=True)
    variance = x.var(axes, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def affine(z, gamma, beta):
    shape = (-1, *[1] * (z.ndim - 2))
    return z * gamma.reshape(shape) + beta.reshape(shape)


def group_norm(x, gamma, beta, num_groups=32):
    groups = x.reshape(len(x), num_groups, -1)
    return affine(normalise(groups, -1).reshape(x.shape), gamma, beta)


def group_norm_swish(x, gamma, beta, num_groups=32):
    z = group_norm(x, gamma, beta, num_groups)
    return z * torch.sigmoid(z)


def instance_norm(x, gamma, beta):
    return affine(normalise(x, tuple(range(2, x.ndim))), gamma, beta)


def batch_norm(x, gamma, beta):
    return affine(normalise(x, (0, *range(2, x.ndim))), gamma, beta)


def layer_norm(x, gamma, beta):
    return normalise(x, -1) * gamma + beta


def rms_norm(x, gamma):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gamma


def add_layer_norm(x, residual, gamma, beta):
    total = x + residual
    return layer_norm(total, gamma, beta), total


def add_rms_norm(x, residual, gamma):
    total = x + residual
    return rms_norm(total, gamma), total


# The function of each norm comes last, after what it calls.
_FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "group_norm": (normalise, affine, group_norm),
    "group_norm_swish": (normalise, affine, group_norm, group_norm_swish),
    "instance_norm": (normalise, affine, instance_norm),
    "batch_norm": (normalise, affine, batch_norm),
    "layer_norm": (normalise, layer_norm),
    "rms_norm": (rms_norm,),
    "add_layer_norm": (normalise, layer_norm, add_layer_norm),
    "add_rms_norm": (rms_norm, add_rms_norm),
}

#: What autodiff has something to do in.
DIFFERENTIATED = [name for name, call in NORM_CALLS.items() if call.direction != "forward"]


def prepare(
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to the composed code, compiled if there is a `compiler`."""
    call = NORM_CALLS[case.operator]
    functions = _FUNCTIONS[call.function]
    function, name, definitions = functions[-1], call.function, source(*functions)
    if compiler:
        function = compiler(function)
        definitions += f"\n\nfunction = torch.compile({name}, dynamic=False)"
        name = "function"
    code = f"{definitions}\n\n{norm_code.torch_text(call, name)}"
    return norm_tensors.prepare(call, function, inputs, code)
