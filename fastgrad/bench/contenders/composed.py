"""What a user writes without a fused operator: plain PyTorch code, left to autodiff.

Each entry is the code that papers and tutorials show; the report prints it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from fastgrad.bench.contenders import composed_norms
from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.contenders.tensors import start
from fastgrad.bench.contenders.torch_functions import Function, by_autograd
from fastgrad.bench.workloads import Case

__all__ = ["OPERATORS", "prepare", "start"]


def swish(x, beta=1.0):
    return x * torch.sigmoid(beta * x)


def own(x):
    return 0.9 * x * torch.sigmoid(1.3 * x + 0.2)


# A forward alone is nothing that autodiff could run.
FORWARD_BACKWARD = {"swish_forward_backward": swish, "own_operator_forward_backward": own}

OPERATORS = frozenset([*FORWARD_BACKWARD, *composed_norms.DIFFERENTIATED])


def prepare(
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to the composed code, compiled if there is a `compiler`."""
    if case.operator in composed_norms.DIFFERENTIATED:
        return composed_norms.prepare(case, inputs, compiler)
    return by_autograd(FORWARD_BACKWARD[case.operator], case, inputs, compiler)
