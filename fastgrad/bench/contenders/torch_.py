"""PyTorch's own kernels, aten's; where it has none for an operator, its functions and autograd."""

from __future__ import annotations

import numpy as np

from fastgrad.bench.contenders import torch_functions, torch_kernels, torch_norms
from fastgrad.bench.contenders.protocol import Prepared, refuse_in_place
from fastgrad.bench.contenders.tensors import start
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

__all__ = ["OPERATORS", "prepare", "start"]

OPERATORS = frozenset([*torch_kernels.KERNELS, *torch_functions.OPERATORS, *NORM_CALLS])


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    if case.operator in NORM_CALLS:
        return torch_norms.prepare(case, inputs)
    if case.operator in torch_kernels.KERNELS:
        return torch_kernels.prepare(case, inputs)
    refuse_in_place(case)
    return torch_functions.prepare(case, inputs)
