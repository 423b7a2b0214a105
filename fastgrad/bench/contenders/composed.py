"""What a user writes without a fused operator: plain PyTorch code, left to autodiff.

Each entry is the code that papers and tutorials show; the report prints it.
"""

from __future__ import annotations

import numpy as np
import torch

from fastgrad.bench.contenders import composed_norms
from fastgrad.bench.contenders.protocol import Prepared, source
from fastgrad.bench.contenders.tensors import prepare_forward_backward, start
from fastgrad.bench.workloads import Case

__all__ = ["OPERATORS", "prepare", "start"]


def swish(x, beta=1.0):
    return x * torch.sigmoid(beta * x)


# A forward alone is nothing that autodiff could run.
_FORWARD_BACKWARD = {"swish_forward_backward": swish}

OPERATORS = frozenset([*_FORWARD_BACKWARD, *composed_norms.DIFFERENTIATED])


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.operator in composed_norms.DIFFERENTIATED:
        return composed_norms.prepare(case, inputs)
    function = _FORWARD_BACKWARD[case.operator]
    code = (
        f"{source(function)}\n\ny = {function.__name__}(x)\n(dx,) = torch.autograd.grad(y, x, dy)"
    )
    return prepare_forward_backward(function, inputs, code)
