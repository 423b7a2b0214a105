"""PyTorch's own norms: aten's backward kernels where it has them, else autograd over its functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from fastgrad.bench.contenders import norm_code, norm_tensors, tensors
from fastgrad.bench.contenders.protocol import Prepared, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.norms import NormCall
from fastgrad.bench.workloads import Case

aten = torch.ops.aten

Function = Callable[..., Any]


def group_norm(x, gamma, beta, num_groups=32):
    return F.group_norm(x, num_groups, gamma, beta)


def group_norm_swish(x, gamma, beta, num_groups=32):
    return F.silu(F.group_norm(x, num_groups, gamma, beta))


def instance_norm(x, gamma, beta):
    return F.instance_norm(x, weight=gamma, bias=beta)


def batch_norm(x, gamma, beta):
    return F.batch_norm(x, None, None, gamma, beta, training=True)


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, gamma.shape, gamma, beta)


def rms_norm(x, gamma):
    return F.rms_norm(x, gamma.shape, gamma, 1e-6)


def add_layer_norm(x, residual, gamma, beta):
    total = x + residual
    return F.layer_norm(total, gamma.shape, gamma, beta), total


def add_rms_norm(x, residual, gamma):
    total = x + residual
    return F.rms_norm(total, gamma.shape, gamma, 1e-6), total


_FUNCTIONS: dict[str, Function] = {
    "group_norm": group_norm,
    "group_norm_swish": group_norm_swish,
    "instance_norm": instance_norm,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "add_layer_norm": add_layer_norm,
    "add_rms_norm": add_rms_norm,
}


# Each runs forward for its statistics, and returns the call of the backward kernel alone.


def group_norm_backward(dy, x, gamma, beta, num_groups=32):
    sizes = (*x.shape[:2], x.shape[2:].numel(), num_groups)
    _, mean, rstd = aten.native_group_norm(x, gamma, beta, *sizes, 1e-5)
    mask = [True, True, True]
    return functools.partial(
        aten.native_group_norm_backward, dy, x, mean, rstd, gamma, *sizes, mask
    )


def batch_norm_backward(dy, x, gamma, beta):
    _, mean, rstd = aten.native_batch_norm(x, gamma, beta, None, None, True, 0.1, 1e-5)
    saved = (None, None, mean, rstd, True, 1e-5, [True, True, True])
    return functools.partial(aten.native_batch_norm_backward, dy, x, gamma, *saved)


def layer_norm_backward(dy, x, gamma, beta):
    _, mean, rstd = aten.native_layer_norm(x, gamma.shape, gamma, beta, 1e-5)
    saved = (gamma.shape, mean, rstd, gamma, beta, [True, True, True])
    return functools.partial(aten.native_layer_norm_backward, dy, x, *saved)


_BACKWARD_KERNELS: dict[str, Function] = {
    "group_norm": group_norm_backward,
    "batch_norm": batch_norm_backward,
    "layer_norm": layer_norm_backward,
}


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    call = NORM_CALLS[case.operator]
    if call.direction == "gradient" and call.norm.name in _BACKWARD_KERNELS:
        return _prepare_kernel(call, _BACKWARD_KERNELS[call.norm.name], inputs)
    function = _FUNCTIONS[call.function]
    code = f"{source(function)}\n\n{norm_code.torch_text(call, call.function)}"
    return norm_tensors.prepare(call, function, inputs, code)


def _prepare_kernel(call: NormCall, bind: Function, inputs: dict[str, np.ndarray]) -> Prepared:
    view = norm_tensors.view_of(call)
    operands = [view.of_stored(tensors.to_tensor(array)) for array in inputs.values()]
    told = "".join(f", {name}={value}" for name, value in norm_code.keywords(call).items())
    code = (
        f"{source(bind)}\n\n"
        f"backward = {bind.__name__}({', '.join(call.inputs)}{told})  # before, untimed\n"
        f"{', '.join(call.results)} = backward()"
    )
    return Prepared(
        bind(*operands, **norm_code.keywords(call)),
        lambda gradients: tensors.to_arrays(map(view.stored, gradients)),
        code,
    )
