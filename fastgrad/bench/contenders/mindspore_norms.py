"""Norms in MindSpore: the maths of the papers in graph mode. Its own ones are not made for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.bench.contenders.norm_code import keywords, listed
from fastgrad.bench.contenders.protocol import Prepared, Unsupported, library, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.norms import NormCall
from fastgrad.bench.workloads import Case

mindspore = library("mindspore")
ops = library("mindspore.ops")
Cell: Any = library("mindspore.nn").Cell

Function = Callable[..., Any]


def normalise(x, axes):
    centred = x - ops.mean(x, axes, True)
    variance = ops.mean(centred * centred, axes, True)
    return centred * ops.rsqrt(variance + 1e-5)


def affine(z, gamma, beta):
    shape = (-1,) + (1,) * (z.ndim - 2)
    return z * gamma.reshape(shape) + beta.reshape(shape)


def group_norm(x, gamma, beta, num_groups=32):
    groups = x.reshape((x.shape[0], num_groups, -1))
    return affine(normalise(groups, -1).reshape(x.shape), gamma, beta)


def group_norm_swish(x, gamma, beta, num_groups=32):
    return ops.silu(group_norm(x, gamma, beta, num_groups))


def instance_norm(x, gamma, beta):
    return affine(normalise(x, tuple(range(2, x.ndim))), gamma, beta)


def batch_norm(x, gamma, beta):
    return affine(normalise(x, tuple(i for i in range(x.ndim) if i != 1)), gamma, beta)


def layer_norm(x, gamma, beta):
    return normalise(x, -1) * gamma + beta


def rms_norm(x, gamma):
    return x * ops.rsqrt(ops.mean(x * x, -1, True) + 1e-6) * gamma


def add_layer_norm(x, residual, gamma, beta):
    total = x + residual
    return layer_norm(total, gamma, beta), total


def add_rms_norm(x, residual, gamma):
    total = x + residual
    return rms_norm(total, gamma), total


def layer_norm_and_sum(total, gamma, beta):
    return layer_norm(total, gamma, beta), total


def rms_norm_and_sum(total, gamma):
    return rms_norm(total, gamma), total


class Forward(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, *operands):
        return self.function(*operands)


class Gradients(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gradient = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, dy, *operands):
        return self.gradient(self.function)(*operands, dy)


class ForwardBackward(Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.gradient = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, dy, *operands):
        return self.function(*operands), self.gradient(self.function)(*operands, dy)


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
    "layer_norm_and_sum": (normalise, layer_norm, layer_norm_and_sum),
    "rms_norm_and_sum": (rms_norm, rms_norm_and_sum),
}
_CELLS: dict[str, Any] = {"forward": Forward, "gradient": Gradients, "both": ForwardBackward}
_NUM_GROUPS = 32


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    call = NORM_CALLS[case.operator]
    if call.norm.channels_last:
        raise Unsupported("MindSpore's CPU back end keeps channels second")
    if keywords(call).get("num_groups", _NUM_GROUPS) != _NUM_GROUPS:
        raise Unsupported(f"its function is written for {_NUM_GROUPS} groups")
    name = f"{call.function}_and_sum" if call.of_sum else call.function
    functions, cell_type = _FUNCTIONS[name], _CELLS[call.direction]
    cell = cell_type(functions[-1])
    tensors = [mindspore.Tensor(array) for array in inputs.values()]
    count = len(call.incoming)
    incoming = [tuple(tensors[:count])] if count > 1 else tensors[:count]
    arguments = [*incoming, *tensors[count:]]

    def run() -> tuple[np.ndarray, ...]:
        # Results may be under way still; `asnumpy` waits, and copies nothing.
        return tuple(one.asnumpy() for one in _flat(cell(*arguments)))

    names = [listed(call.incoming)] if call.incoming else []
    code = (
        f"{source(*functions, cell_type)}\n\n"
        f"cell = {cell_type.__name__}({name})  # in graph mode\n"
        f"{_results_text(call)} = cell({', '.join([*names, *call.operands])})"
    )
    return Prepared(run, tuple, code)


def _results_text(call: NormCall) -> str:
    if call.direction == "both":
        return f"y, {listed(call.norm.gradients)}"
    return ", ".join(call.results)


def _flat(results: Any) -> list[Any]:
    if not isinstance(results, tuple):
        return [results]
    return [one for result in results for one in _flat(result)]
