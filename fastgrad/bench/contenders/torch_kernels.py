"""PyTorch's kernels of one element: aten's, with `out=` where they have it and a case asks for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fastgrad.bench.contenders.protocol import Prepared, bind, call_text, refuse_in_place
from fastgrad.bench.contenders.tensors import to_array, to_tensor
from fastgrad.bench.workloads import Case

aten = torch.ops.aten


@dataclass(frozen=True)
class Saved:
    """What a kernel takes of a forward that ran before, untimed.

    Parameters
    ----------
    of : callable
        The arrays after `dy`, from `x`.
    names : tuple of str
        Theirs.
    text : str
        How a user gets them.
    """

    of: Callable[[torch.Tensor], list[torch.Tensor]]
    names: tuple[str, ...]
    text: str


def _output(forward: Callable[[torch.Tensor], torch.Tensor]) -> Saved:
    return Saved(lambda x: [forward(x)], ("y",), f"y = torch.{forward.__name__}(x)")


@dataclass(frozen=True)
class Kernel:
    """One of aten's.

    Parameters
    ----------
    name : str
        In aten.
    keywords : mapping
        What it is told besides arrays.
    out : str
        The keyword, and the overload, that take the result's memory; empty where it has none, and every
        result is a new array.
    last : str
        The keyword of the last array, where it does not follow `dy`.
    saved : Saved, optional
        What it takes instead of `x`.
    """

    name: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    out: str = "grad_input"
    last: str = ""
    saved: Saved | None = None


def _elu(alpha: float = 1.0, scale: float = 1.0) -> Kernel:
    told = {"alpha": alpha, "scale": scale, "input_scale": 1.0, "is_result": False}
    return Kernel("elu_backward", told, last="self_or_result")


#: By the operator of the workload, with the defaults of PyTorch's functions.
KERNELS: dict[str, Kernel] = {
    "silu": Kernel("silu", out="out"),
    "gelu": Kernel("gelu", {"approximate": "none"}, out="out"),
    "swish_grad": Kernel("silu_backward"),
    "gelu_grad": Kernel("gelu_backward", {"approximate": "none"}),
    "gelu_tanh_grad": Kernel("gelu_backward", {"approximate": "tanh"}),
    "relu_grad": Kernel("threshold_backward", {"threshold": 0.0}),
    "relu6_grad": Kernel("hardtanh_backward", {"min_val": 0.0, "max_val": 6.0}),
    "leaky_relu_grad": Kernel(
        "leaky_relu_backward", {"negative_slope": 0.01, "self_is_result": False}
    ),
    "elu_grad": _elu(),
    "selu_grad": _elu(1.6732632423543772848170429916717, 1.0507009873554804934193349852946),
    "celu_grad": _elu(),  # with alpha = 1 it is ELU; else its input_scale is 1 / alpha
    "hardswish_grad": Kernel("hardswish_backward", out="out"),
    "hardsigmoid_grad": Kernel("hardsigmoid_backward"),
    "hardtanh_grad": Kernel("hardtanh_backward", {"min_val": -1.0, "max_val": 1.0}),
    "hardshrink_grad": Kernel("hardshrink_backward", {"lambd": 0.5}),
    "softshrink_grad": Kernel("softshrink_backward", {"lambd": 0.5}),
    "softplus_grad": Kernel("softplus_backward", {"beta": 1.0, "threshold": 20.0}),
    "mish_grad": Kernel("mish_backward", out=""),
    "logsigmoid_grad": Kernel(
        "log_sigmoid_backward",
        saved=Saved(
            lambda x: [x, aten.log_sigmoid_forward(x)[1]],
            ("x", "buffer"),
            "y, buffer = aten.log_sigmoid_forward(x)",
        ),
    ),
    # These take the result of the forward, which autograd keeps instead of x.
    "sigmoid_grad": Kernel("sigmoid_backward", saved=_output(torch.sigmoid)),
    "tanh_grad": Kernel("tanh_backward", saved=_output(torch.tanh)),
    "stream_add": Kernel("add", out="out"),
}


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    kernel = KERNELS[case.operator]
    operands = [to_tensor(array) for array in inputs.values()]
    names, before = case.workload.inputs, ""
    if kernel.saved:
        dy, x = operands
        operands, names = [dy, *kernel.saved.of(x)], ("dy", *kernel.saved.names)
        before = f"{kernel.saved.text}  # before, untimed\n"
    if not kernel.out:
        refuse_in_place(case)
    mode = case.mode if kernel.out else "allocate"
    overload = "default" if mode == "allocate" else kernel.out
    function, keywords = getattr(getattr(aten, kernel.name), overload), dict(kernel.keywords)
    named = {kernel.last: operands.pop()} if kernel.last else {}
    call, restore = bind(
        functools.partial(function, **keywords, **named),
        operands,
        mode,
        kernel.out,
        new=torch.empty_like,
        copy=torch.Tensor.copy_,
    )
    given = [*names[:-1], f"{kernel.last}={names[-1]}"] if kernel.last else names
    text = call_text(f"aten.{kernel.name}.{overload}", given, keywords, mode, kernel.out)
    return Prepared(call, lambda result: (to_array(result),), before + text, restore)
