"""PyTorch's own kernels: aten's, with `out=` where a case asks for it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from fastgrad.bench.contenders import torch_norms
from fastgrad.bench.contenders.protocol import Prepared, bind, call_text
from fastgrad.bench.contenders.tensors import (
    prepare_forward_backward,
    start,
    to_array,
    to_tensor,
)
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

__all__ = ["OPERATORS", "prepare", "start"]

# Operator of the workload: name in aten, keyword and overload that take `out`, static arguments.
_CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "swish_grad": ("silu_backward", "grad_input", {}),
    "silu": ("silu", "out", {}),
    "gelu": ("gelu", "out", {"approximate": "none"}),
    "gelu_grad": ("gelu_backward", "grad_input", {"approximate": "none"}),
    "gelu_tanh_grad": ("gelu_backward", "grad_input", {"approximate": "tanh"}),
    "stream_add": ("add", "out", {}),
}

# Operators run forward and backward by autograd: name in torch.nn.functional.
_FORWARD_BACKWARD = {"swish_forward_backward": "silu"}

OPERATORS = frozenset([*_CALLS, *_FORWARD_BACKWARD, *NORM_CALLS])


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.operator in NORM_CALLS:
        return torch_norms.prepare(case, inputs)
    if case.operator in _FORWARD_BACKWARD:
        name = _FORWARD_BACKWARD[case.operator]
        code = f"y = torch.nn.functional.{name}(x)\n(dx,) = torch.autograd.grad(y, x, dy)"
        return prepare_forward_backward(getattr(torch.nn.functional, name), inputs, code)
    name, out_keyword, keywords = _CALLS[case.operator]
    packet = getattr(torch.ops.aten, name)
    overload = "default" if case.mode == "allocate" else out_keyword
    function = functools.partial(getattr(packet, overload), **keywords)
    operands = [to_tensor(array) for array in inputs.values()]
    call, restore = bind(
        function,
        operands,
        case.mode,
        out_keyword,
        new=torch.empty_like,
        copy=torch.Tensor.copy_,
    )
    code = call_text(
        f"aten.{name}.{overload}", case.workload.inputs, keywords, case.mode, out_keyword
    )
    return Prepared(call, lambda result: (to_array(result),), code, restore)
